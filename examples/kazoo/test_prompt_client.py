"""The client of this folder against an ensemble of three of Tailbound's servers.

Usage: python3 -m unittest (in this folder), with kazoo installed and `make zookeeper` done.
"""

import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from kazoo.client import KazooClient
from kazoo.retry import ForceRetryError

from prompt_client import prompt_client

HERE = Path(__file__).resolve().parent
LAUNCHER = HERE.parents[1] / "java/bin/tailbound-zookeeper"
LIMIT_S = 60
NODE = "/tailbound-kazoo"


def free_ports(count: int) -> list[int]:
    """Ports that nobody uses now."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [server.getsockname()[1] for server in held]
    for server in held:
        server.close()
    return ports


def until(what: str, holds) -> None:
    """Waits until something holds."""
    end_s = time.monotonic() + LIMIT_S
    while not holds():
        if time.monotonic() > end_s:
            raise AssertionError(f"not within {LIMIT_S} s: {what}")
        time.sleep(0.05)


class Ensemble:
    """Three servers, which die with this process."""

    def __init__(self, folder: Path) -> None:
        ports = free_ports(9)
        self.client_ports = ports[:3]
        members = "".join(
            f"server.{i + 1}=127.0.0.1:{ports[3 + i]}:{ports[6 + i]}\n" for i in range(3)
        )
        self.servers = []
        for i, port in enumerate(self.client_ports):
            data = folder / str(i)
            data.mkdir()
            (data / "myid").write_text(f"{i + 1}\n")
            conf = folder / f"{i}.cfg"
            conf.write_text(
                f"tickTime=2000\ninitLimit=10\nsyncLimit=5\ndataDir={data}\nclientPort={port}\n"
                f"clientPortAddress=127.0.0.1\nadmin.enableServer=false\n{members}"
            )
            with (folder / f"{i}.log").open("wb") as log:
                command = ["setpriv", "--pdeathsig", "KILL", "--", LAUNCHER, conf]
                self.servers.append(subprocess.Popen(command, stdout=log, stderr=log))

    def hosts(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.client_ports)

    def leader(self) -> int | None:
        """The index of the server that leads."""
        for i, port in enumerate(self.client_ports):
            try:
                with socket.create_connection(("127.0.0.1", port), timeout=1) as server:
                    server.sendall(b"srvr")
                    if b"Mode: leader" in server.makefile("rb").read():
                        return i
            except OSError:
                continue
        return None

    def close(self) -> None:
        for server in self.servers:
            server.kill()
            server.wait()


class PromptClientTest(unittest.TestCase):
    def test_pauses_are_drawn_around_50_ms_and_do_not_wander(self) -> None:
        pauses = []
        retry = prompt_client("127.0.0.1:1")._conn_retry.copy()
        retry.sleep_func = pauses.append
        retry.interrupt = None  # which would say that the client was never started

        def fail_often() -> None:
            if len(pauses) < 200:
                raise ForceRetryError

        retry(fail_often)
        self.assertGreaterEqual(min(pauses), 0.025)
        self.assertLessEqual(max(pauses), 0.075)
        self.assertGreater(len(set(pauses)), 100)

    def test_writes_go_on_when_the_leader_is_killed(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            ensemble = Ensemble(Path(folder))
            self.addCleanup(ensemble.close)
            until("a leader", lambda: ensemble.leader() is not None)
            command = [sys.executable, HERE / "prompt_client.py", ensemble.hosts()]
            program = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            self.addCleanup(program.kill)
            watcher = KazooClient(hosts=ensemble.hosts())
            watcher.start()
            self.addCleanup(watcher.stop)

            def version() -> int:
                node = watcher.retry(watcher.exists, NODE)
                return -1 if node is None else node.version

            until("writes", lambda: version() > 5)
            leader = ensemble.leader()
            ensemble.servers[leader].kill()
            before = version()
            until("writes after the leader", lambda: version() > before + 5)
            program.send_signal(signal.SIGINT)
            output, _ = program.communicate(timeout=LIMIT_S)
            self.assertEqual(program.returncode, 0, output)


if __name__ == "__main__":
    unittest.main()
