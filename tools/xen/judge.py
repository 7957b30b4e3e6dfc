"""Whether what dom0 said is what should have happened: CONSOLE LOG.

Prints what was looked at and what was found, a line for each. The settings are exact. The shares are those of
an emulated machine whose clocks are coarse, so they are judged loosely.
"""

import sys

BEFORE = "10000 4000 yes"
SLOW = "100000 40000 no"
FAST = "100000 80000 no"
TOLERANCE = 0.05

# What was done in dom0, its status, and words that it must have said.
COMMANDS = [
    ("doctor", "tailbound doctor", 0, ""),
    ("check", "tailbound check", 0, ""),
    ("rehearse", "tailbound apply --dry-run", 0, "xl sched-rtds -d 1 -v 0 -p 100000 -b 40000 -e 0"),
    ("apply", "tailbound apply, with modes", 0, "mode slow of fast, slow"),
    ("change", "tailbound mode set fast", 0, "slow -> fast: completed"),
    ("status", "tailbound status", 0, "xen-rtds"),
    ("revert", "tailbound revert", 0, "taken back: arm"),
    ("greedy", "tailbound apply of 95 % beside another domain", 1, "does not show that each gets its budget"),
    ("plain", "tailbound apply, without modes", 0, ""),
    ("apply-again", "tailbound apply, with modes", 0, ""),
    ("change-again", "tailbound mode set fast", 0, "completed"),
    ("list-again", "tailbound mode list, after a kill", 0, "mode fast of fast, slow"),
    ("revert-again", "tailbound revert", 0, "taken back: arm"),
]

# What RTDS gave the domU after what: period and budget in microseconds, and whether more than that.
SETTINGS = [
    ("begun", "at first", BEFORE),
    ("rehearse", "after a dry run", BEFORE),
    ("slow", "after apply: 40 ms in 100 ms", SLOW),
    ("fast", "after the change: 80 ms in 100 ms", FAST),
    ("rebooted", "after the guest's reboot", FAST),
    ("revert", "after revert", BEFORE),
    ("greedy", "after a refusal", BEFORE),
    ("plain", "applied without modes", "100000 60000 no"),
    ("plain-killed", "after its daemon was killed", BEFORE),
    ("modes-killed", "after a daemon with modes was killed", FAST),
    ("revert-again", "after revert", BEFORE),
]

# The share of a CPU that the domU got while that held.
SHARES = [("slow", 0.4), ("fast", 0.8), ("rebooted", 0.8)]


class Judge:
    """What was said, by name and kind, and what of it is wrong."""

    def __init__(self, lines):
        self.said = {}
        self.problems = []
        for line in lines:
            # The hypervisor's own lines may come in between, even at the beginning of one.
            _, found, rest = line.partition(":: ")
            if found:
                name, _, told = rest.strip().partition(" ")
                kind, _, told = told.partition(" ")
                self.said.setdefault((name, kind), []).append(told)

    def one(self, name, kind):
        return self.said.get((name, kind), ["nothing"])[0]

    def expect(self, what, found, holds, expected):
        print(f"{'ok' if holds else 'WRONG':6}{what:46}{found}")
        if not holds:
            self.problems.append(f"{what}: {found!r}, not {expected!r}")

    def command(self, name, what, status, words):
        told = " ".join(self.said.get((name, "told"), []))
        found = self.one(name, "status")
        times = self.one(name, "took").split()
        length = f", {float(times[1]) - float(times[0]):.1f} s" if len(times) == 2 else ""
        holds = found == str(status) and words in told
        self.expect(what, f"status {found}{length}", holds, f"status {status} with {words!r}")
        if not holds:
            self.problems.append(f"{what} said: {told[-600:]}")

    def share(self, name, expected):
        words = self.one(name, "used").split()
        if len(words) != 6:
            self.problems.append(f"{name}: the CPU time was not measured")
            return
        before, first, began, ended, last, after = map(float, words)
        used = last - first
        least, most = used / (after - before), used / (ended - began)
        found = f"{used:.1f} s of CPU time in {ended - began:.1f} to {after - before:.1f} s: {least:.2f} to {most:.2f}"
        holds = used > 0 and least - TOLERANCE <= expected <= most + TOLERANCE
        self.expect(f"the domU's share, {name}", found, holds, f"{expected} +- {TOLERANCE}")

    def reboot(self):
        numbers = self.one("reboot", "numbers").split()
        holds = len(numbers) == 2 and numbers[0] != numbers[1]
        found = f"Xen's number of it: {' -> '.join(numbers)}"
        self.expect("the guest has rebooted", found, holds, "two numbers")


def main(path):
    with open(path, encoding="utf-8", errors="replace") as console:
        judge = Judge(console)
    for name, what, status, words in COMMANDS:
        judge.command(name, what, status, words)
    judge.reboot()
    for name, what, setting in SETTINGS:
        found = judge.one(name, "setting")
        judge.expect(f"RTDS {what}", found, found == setting, setting)
    for name, share in SHARES:
        judge.share(name, share)
    another = judge.one("modes-killed", "daemon")
    judge.expect("another daemon made the modes hold again", another, another == "another", "another")
    if ("done", "") not in judge.said:
        judge.problems.append("dom0 did not come to the end")
    for problem in judge.problems:
        print(f"test-xen: {problem}", file=sys.stderr)
    print(f"test-xen: {'failed' if judge.problems else 'all of this holds on a real Xen'}")
    return 1 if judge.problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
