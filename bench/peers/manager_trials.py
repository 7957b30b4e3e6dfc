"""What managers of services do to reserved ones: the trials of bench/managers.

Each subject is a busy loop under a manager, with a reservation of 3 ms in every 10 ms by its name. An operation is the
manager's own command; its trial has succeeded if the command did and had its effect.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TRIALS = int(sys.argv[1])
# The promise: the reservation holds again within a second. Waiting goes on for longer, to tell by how much it was missed.
PROMISE_S, PATIENCE_S = 1.0, 20.0
LOOP = "while : {tag}; do :; done"
CGROUPS = Path("/sys/fs/cgroup")


def run(*command, check=True):
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    if check and done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: status {done.returncode}: {done.stderr.strip()}")
    return done.stdout.strip()


def detached(*command):
    """Runs a command that leaves processes behind, which keep its outputs open."""
    with tempfile.TemporaryFile("w+") as said:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, check=False)
        said.seek(0)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: status {done.returncode}: {said.read().strip()}")


def loops(tag):
    """The processes of the busy loop of this tag."""
    wanted = LOOP.format(tag=tag)
    pids = []
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                words = Path(entry.path, "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            # Not those who start it, whose own command has more words.
            if len(words) >= 3 and words[-2] == wanted.encode() and words[-3] == b"-c" and len(words) <= 5:
                pids.append(int(entry.name))
    return pids


def is_reserved(pid):
    try:
        return os.sched_getscheduler(pid) & ~os.SCHED_RESET_ON_FORK == os.SCHED_FIFO
    except ProcessLookupError:
        return False


def until(condition, patience=PATIENCE_S):
    """The seconds until the condition holds; None if it does not in time."""
    begin = time.monotonic()
    while not condition():
        if time.monotonic() - begin > patience:
            return None
        time.sleep(0.005)
    return time.monotonic() - begin


def used(group):
    text = (CGROUPS / group / "cpu.stat").read_text()
    return int(text.split()[1])


def stands_still(group):
    before = used(group)
    time.sleep(0.05)
    return used(group) - before < 1_000


def runs(group):
    before = used(group)
    return until(lambda: used(group) > before) is not None


class Subject:
    """A service under a manager."""

    kind = "?"

    def __init__(self):
        self.tag = f"subject-{self.kind}"

    def pids(self):
        return loops(self.tag)

    def group(self):
        """The cgroup of the service itself; its processes may be in ours below it."""
        pids = self.pids()
        if not pids:
            raise RuntimeError("it does not run")
        path = Path(f"/proc/{pids[0]}/cgroup").read_text().partition("0::/")[2].strip()
        return path.partition("/tailbound")[0]

    def hold(self):
        run("tailbound", "apply", *self.name(), "--budget", "3ms", "--period", "10ms", "--cpus", "1", "--priority", "50")

    def is_held(self):
        pids = self.pids()
        return bool(pids) and all(is_reserved(pid) for pid in pids)

    def freeze_and_thaw(self):
        group = self.group()
        run(*self.freeze)
        if not stands_still(group):
            raise RuntimeError("it runs on while it is frozen")
        run(*self.thaw)
        if not runs(group):
            raise RuntimeError("it stands still after it was thawed")

    def end_by(self, *command):
        before = self.pids()
        run(*command)
        if until(lambda: not set(before) & set(self.pids())) is None:
            raise RuntimeError("its processes are left")


class Unit(Subject):
    kind = "systemd unit"
    freeze, thaw = ("systemctl", "freeze", "subject"), ("systemctl", "thaw", "subject")

    def __init__(self):
        super().__init__()
        self.tag = "subject-unit"

    def name(self):
        return "--unit", "subject.service"

    def start(self):
        loop = LOOP.format(tag=self.tag)
        run("systemd-run", "--quiet", "--unit", "subject", "-p", "Restart=always", "-p", "RestartSec=20ms",
            "-p", "StartLimitIntervalSec=0", "sh", "-c", loop)

    def operations(self):
        return {
            "restart": lambda: self.end_by("systemctl", "restart", "subject"),
            "SIGKILL, and started anew by systemd": lambda: self.end_by("systemctl", "kill", "--signal", "KILL", "subject"),
            "freeze and thaw": self.freeze_and_thaw,
            "daemon-reload": lambda: run("systemctl", "daemon-reload"),
        }

    def end(self):
        self.end_by("systemctl", "stop", "subject")


class Scope(Subject):
    kind = "transient scope"
    freeze, thaw = ("systemctl", "freeze", "subject.scope"), ("systemctl", "thaw", "subject.scope")

    def __init__(self):
        super().__init__()
        self.tag = "subject-scope"

    def name(self):
        return "--unit", "subject.scope"

    def start(self):
        loop = LOOP.format(tag=self.tag)
        subprocess.Popen(["systemd-run", "--quiet", "--scope", "--unit", "subject", "sh", "-c", loop],
                         stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if until(lambda: bool(self.pids())) is None:
            raise RuntimeError("the scope does not start")

    def anew(self, *command):
        self.end_by(*command)
        if until(lambda: run("systemctl", "is-active", "subject.scope", check=False) != "active") is None:
            raise RuntimeError("the scope does not end")
        run("systemctl", "reset-failed", "subject.scope", check=False)
        self.start()

    def operations(self):
        return {
            "stop, and started anew": lambda: self.anew("systemctl", "stop", "subject.scope"),
            "SIGKILL, and started anew": lambda: self.anew("systemctl", "kill", "--signal", "KILL", "subject.scope"),
            "freeze and thaw": self.freeze_and_thaw,
        }

    def end(self):
        self.end_by("systemctl", "stop", "subject.scope")


class Container(Subject):
    """A container of an OCI runtime, without an engine."""

    def __init__(self, runtime):
        self.kind = self.runtime = runtime
        super().__init__()
        self.bundle = Path("/run/bench") / runtime
        make_root(self.bundle / "rootfs")
        self.container = f"subject-{runtime}"
        self.freeze = (runtime, "pause", self.container)
        self.thaw = (runtime, "resume", self.container)

    def name(self):
        return "--container", self.container

    def start(self):
        namespaces = [{"type": kind} for kind in ("pid", "mount", "ipc", "uts")]
        configuration = {
            "ociVersion": "1.0.2",
            "root": {"path": "rootfs", "readonly": True},
            "hostname": "box",
            "process": {"terminal": False, "user": {"uid": 0, "gid": 0}, "cwd": "/", "env": ["PATH=/bin"],
                        "args": ["/bin/sh", "-c", LOOP.format(tag=self.tag)]},
            "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"},
                       {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]}],
            "linux": {"cgroupsPath": f"/bench/{self.container}", "namespaces": namespaces, "resources": {}},
        }
        (self.bundle / "config.json").write_text(json.dumps(configuration))
        detached(self.runtime, "run", "--detach", "--bundle", str(self.bundle), self.container)

    def exec_of(self, *words):
        detached(*words, "/bin/sh", "-c", LOOP.format(tag="executed"))
        taken = until(lambda: bool(loops("executed")) and all(is_reserved(pid) for pid in loops("executed")))
        for pid in loops("executed"):
            os.kill(pid, signal.SIGKILL)
        if until(lambda: not loops("executed")) is None or taken is None:
            raise RuntimeError("what was executed is not taken in, or does not end")

    def anew(self, *command):
        self.end_by(*command)
        run(self.runtime, "delete", "--force", self.container, check=False)
        self.start()

    def operations(self):
        runtime, name = self.runtime, self.container
        return {
            "exec": lambda: self.exec_of(runtime, "exec", "--detach", name),
            "exec that answers": lambda: self.answer(runtime, "exec", name),
            "pause and resume": self.freeze_and_thaw,
            "kill, and made anew": lambda: self.anew(runtime, "kill", name, "KILL"),
            "delete, and made anew": lambda: self.anew(runtime, "delete", "--force", name),
        }

    def answer(self, *words):
        if run(*words, "/bin/echo", "here") != "here":
            raise RuntimeError("exec does not answer")

    def end(self):
        self.end_by(self.runtime, "delete", "--force", self.container)


class Podman(Container):
    def __init__(self):
        super().__init__("podman")
        # podman's own storage would lie over an overlay.
        os.makedirs("/var/lib/containers", exist_ok=True)
        run("mount", "-t", "tmpfs", "bench", "/var/lib/containers")
        self.freeze = ("podman", "pause", self.container)
        self.thaw = ("podman", "unpause", self.container)

    def start(self):
        # Without CAP_SYS_RESOURCE crun raises no limit, and a host may have the pids controller in cgroup v1.
        run("podman", "--runtime", "runc", "run", "--detach", "--name", self.container, "--network", "none",
            "--log-driver", "none", "--pids-limit", "-1", "--rootfs", str(self.bundle / "rootfs"),
            "/bin/sh", "-c", LOOP.format(tag=self.tag))

    def operations(self):
        name = self.container
        return {
            "exec": lambda: self.exec_of("podman", "exec", "--detach", name),
            "exec that answers": lambda: self.answer("podman", "exec", name),
            "pause and unpause": self.freeze_and_thaw,
            "restart": lambda: self.end_by("podman", "restart", "--time", "0", name),
            "kill, and started": lambda: (self.end_by("podman", "kill", name), self.started()),
            "rm, and made anew": lambda: (self.end_by("podman", "rm", "--force", "--time", "0", name), self.start()),
        }

    def started(self):
        ended = until(lambda: run("podman", "inspect", "--format", "{{.State.Running}}", self.container) == "false")
        if ended is None:
            raise RuntimeError("podman does not see its end")
        run("podman", "start", self.container)

    def end(self):
        self.end_by("podman", "rm", "--force", "--time", "0", self.container)


class Daemon(Unit):
    """A unit whose reservation is held by tailbound-apply@, while the daemon is killed, restarted and upgraded."""

    kind = "the daemon"

    def hold(self):
        Path("/etc/tailbound").mkdir(exist_ok=True)
        Path("/etc/tailbound/subject.toml").write_text("""schema_version = 1
name = "subject"
[hosts.here]
cpus = [0, 1]
[domains."subject"]
kind = "container"
unit = "subject.service"
reservation = { backend = "ds-freeze", budget = "3ms", period = "10ms", priority = 50, cpus = [1] }
""")
        run("systemctl", "start", "tailbound-apply@subject")

    def replaced(self, *command):
        show = ("systemctl", "show", "--property", "MainPID", "--value", "tailboundd")
        before = run(*show)
        # Systemd gives up on a service that is started again and again, as here.
        run("systemctl", "reset-failed", "tailboundd", "tailbound-apply@subject", check=False)
        run(*command)
        if until(lambda: run(*show) not in ("0", before)) is None:
            raise RuntimeError("no other daemon is started")

    def operations(self):
        return {
            "SIGKILL of the daemon": lambda: self.replaced("systemctl", "kill", "--kill-who", "main", "--signal", "KILL", "tailboundd"),
            "restart of the daemon, as by an upgrade": lambda: self.replaced("systemctl", "restart", "tailboundd"),
        }

    def end(self):
        run("systemctl", "stop", "tailbound-apply@subject")
        super().end()


def make_root(root):
    (root / "bin").mkdir(parents=True)
    for folder in ("proc", "dev", "sys", "run", "tmp", "etc"):
        (root / folder).mkdir()
    shutil.copy("/bin/busybox", root / "bin/busybox")
    for name in ("sh", "echo"):
        (root / "bin" / name).symlink_to("busybox")


def presence(domain_part):
    status = json.loads(run("tailbound", "status", "--format", "json"))
    states = [one["presence"]["state"] for one in status["reservations"] if domain_part in one["domain"]]
    return states[0] if states else None


def status_lies(subject):
    """Whether status says that the reservation is in force while it is not, or the other way round, twice."""
    for _ in range(3):
        said = presence("subject") == "in-force"
        if said == subject.is_held():
            return False
        time.sleep(0.05)
    return True


def trials(subject, name, operation):
    row = {"subject": subject.kind, "operation": name, "trials": TRIALS, "worked": 0, "held_again": 0,
           "within_promise": 0, "status_lied": 0, "seconds": []}
    for _ in range(TRIALS):
        try:
            operation()
            row["worked"] += 1
        except (RuntimeError, subprocess.CalledProcessError, OSError, IndexError) as error:
            print(f"{subject.kind}: {name}: {error}", file=sys.stderr)
        seconds = until(subject.is_held)
        if seconds is not None:
            row["held_again"] += 1
            row["within_promise"] += seconds <= PROMISE_S
            row["seconds"].append(round(seconds, 4))
        row["status_lied"] += status_lies(subject)
    return row


def measured(subject):
    subject.start()
    subject.hold()
    if until(subject.is_held) is None:
        raise RuntimeError(f"{subject.kind}: no reservation at the beginning")
    rows = [trials(subject, name, operation) for name, operation in subject.operations().items()]
    subject.end()
    run("tailbound", "revert", "--all")
    left = run("find", str(CGROUPS), "-name", "tailbound*", "-type", "d", "!", "-name", "tailbound-test*",
               "!", "-path", "*/tailbound*.service")
    if left:
        print(f"{subject.kind}: left behind: {left}", file=sys.stderr)
        rows[-1]["left"] = left.split()
    return rows


def main():
    subjects = [Unit, Daemon, Scope]
    for runtime in ("runc", "crun"):
        if shutil.which(runtime):
            subjects.append(lambda runtime=runtime: Container(runtime))
        else:
            print(f"SKIP {runtime}: is not installed", file=sys.stderr)
    if shutil.which("podman"):
        subjects.append(Podman)
    else:
        print("SKIP podman: is not installed", file=sys.stderr)
    rows = []
    for make in subjects:
        try:
            rows += measured(make())
        except (RuntimeError, subprocess.CalledProcessError, OSError) as error:
            print(error, file=sys.stderr)
            rows.append({"subject": str(error), "operation": "none", "trials": TRIALS, "worked": 0, "held_again": 0,
                         "within_promise": 0, "status_lied": 0, "seconds": []})
            run("tailbound", "revert", "--all", check=False)
    print(f"{'subject':16} {'operation':42} {'worked':>9} {'again':>9} {'in 1 s':>9} {'lies':>5} {'p50':>7} {'most':>7}")
    for row in rows:
        seconds = sorted(row["seconds"]) or [float("nan")]
        counts = [f"{row[key]}/{row['trials']}" for key in ("worked", "held_again", "within_promise")]
        print(f"{row['subject'][:16]:16} {row['operation']:42} {counts[0]:>9} {counts[1]:>9} {counts[2]:>9} "
              f"{row['status_lied']:>5} {seconds[len(seconds) // 2]:7.3f} {seconds[-1]:7.3f}")
    Path("/out/results.json").write_text(json.dumps(rows, indent=1) + "\n")
    kept = all(row["worked"] == row["within_promise"] == row["trials"] and not row["status_lied"] and "left" not in row
               for row in rows)
    return 0 if kept else 2


if __name__ == "__main__":
    sys.exit(main())
