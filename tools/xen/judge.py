"""Whether what dom0 said is what should have happened: CONSOLE LOG.

The shares are those of an emulated machine whose clocks are coarse, so they are judged loosely: the
settings are exact.
"""

import sys

EXPECTED = {"slow": 0.4, "fast": 0.8}
TOLERANCE = 0.12


def main(path):
    said = {}
    with open(path, encoding="utf-8", errors="replace") as console:
        for line in console:
            # The hypervisor's own lines may come in between, even at the beginning of one.
            _, found, rest = line.partition(":: ")
            if found:
                name, _, told = rest.strip().partition(" ")
                kind, _, told = told.partition(" ")
                said[name, kind] = told
    problems = []

    def expect(what, found, expected):
        print(f"{what:24} {found}")
        if found != expected:
            problems.append(f"{what}: {found!r}, not {expected!r}")

    before = said.get(("begun", "setting"))
    for command in ["doctor", "check", "rehearse", "apply", "change", "revert", "apply-again"]:
        expect(f"tailbound {command}", said.get((command, "status")), "0")
    expect("slow", said.get(("slow", "setting")), "100000 40000 no")
    expect("fast", said.get(("fast", "setting")), "100000 80000 no")
    expect("after a reboot", said.get(("rebooted", "setting")), "100000 80000 no")
    expect("after revert", said.get(("reverted", "setting")), before)
    expect("applied again", said.get(("applied-again", "setting")), "100000 40000 no")
    expect("killed and recovered", said.get(("recovered", "setting")), before)
    for mode, share in EXPECTED.items():
        words = said.get((mode, "used"), "").split()
        if len(words) != 6:
            problems.append(f"mode {mode} was not measured")
            continue
        used = float(words[1]) - float(words[0])
        length = float(words[5]) - float(words[3])
        print(f"{mode:24} {used:.1f} s of CPU time in {length:.1f} s: {used / length:.2f}")
        if abs(used / length - share) > TOLERANCE:
            problems.append(f"mode {mode}: a share of {used / length:.2f}, not of {share}")
    if ("done", "") not in said:
        problems.append("dom0 did not come to the end")
    for problem in problems:
        print(f"test-xen: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
