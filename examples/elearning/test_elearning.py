"""The application of this folder as a whole, with Tomcat and MariaDB.

Usage: python3 -m unittest (in this folder), after examples/elearning/prepare or `java/build`.
"""

import csv
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree
from pathlib import Path

import city

HERE = Path(__file__).resolve().parent
WAR = HERE.parents[1] / "java/elearning/target/elearning.war"
LIMIT_S = 300


def missing() -> str:
    """What the servers need and this machine lacks; nothing if all is there."""
    path = os.environ["PATH"] + ":/usr/sbin:/sbin"
    commands = {"mariadbd": "mariadb-server-core", "mariadb": "mariadb-client-core", "java": "openjdk-17-jre-headless"}
    lacking = [package for command, package in commands.items() if not shutil.which(command, path=path)]
    if not Path("/usr/share/tomcat10/bin/bootstrap.jar").exists():
        lacking.append("tomcat10-common")
    if not WAR.exists():
        lacking.append("elearning.war (examples/elearning/prepare)")
    return ", ".join(lacking)


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


def processes_of(folder: Path) -> list[str]:
    """The command lines of all processes that name the folder."""
    lines = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if str(folder) in line:
                lines.append(f"{entry.name} {line[:80]}")
    return lines


def bare_folder() -> Path:
    """A new folder that every account can enter."""
    folder = Path(tempfile.mkdtemp(prefix="tailbound-elearning."))
    folder.chmod(0o755)
    return folder


def steps_of_walks() -> list[dict[str, str]]:
    with (HERE / "walks.csv").open() as file:
        return list(csv.DictReader(file))


class CityTest(unittest.TestCase):
    def test_one_seed_makes_one_city(self) -> None:
        one, same, other = (city.City(seed, 2000, 100) for seed in (1, 1, 2))
        self.assertEqual(one.positions, same.positions)
        self.assertEqual(one.sizes, same.sizes)
        self.assertNotEqual(one.positions, other.positions)

    def test_objects_crowd_around_points_of_interest(self) -> None:
        positions = city.City(objects=20_000, contents=10).positions
        cells: dict[tuple[int, int], int] = {}
        for latitude, longitude in positions:
            self.assertTrue(city.SOUTH <= latitude < city.NORTH and city.WEST <= longitude < city.EAST)
            cell = int(latitude * 200), int(longitude * 200)
            cells[cell] = cells.get(cell, 0) + 1
        # Four hundred cells: where objects lay evenly, the fullest tenth would have little more than a tenth of them.
        fullest = sorted(cells.values(), reverse=True)[:40]
        self.assertGreater(sum(fullest), 0.25 * len(positions))
        self.assertGreater(len(cells), 350)

    def test_sizes_of_contents_have_a_heavy_tail(self) -> None:
        sizes = sorted(city.City(objects=10).sizes)
        self.assertGreaterEqual(sizes[0], city.LEAST_BYTES)
        self.assertLessEqual(sizes[-1], city.MOST_BYTES)
        median = sizes[len(sizes) // 2]
        self.assertGreater(sum(sizes) / len(sizes), 1.5 * median)
        self.assertGreater(sizes[-1], 30 * median)

    def test_the_committed_walks_are_those_of_the_city(self) -> None:
        command = [sys.executable, "-B", HERE / "city.py", "walks"]
        walks = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        self.assertEqual(walks, (HERE / "walks.csv").read_text())

    def test_a_walker_goes_step_by_step(self) -> None:
        rows = steps_of_walks()
        self.assertEqual(len(rows), city.WALKS * city.STEPS)
        for before, after in zip(rows, rows[1:]):
            if before["session"] == after["session"]:
                places = [(float(row["lat"]), float(row["lon"])) for row in (before, after)]
                self.assertLess(city.course(*places)[0], 2 * city.STEP_M)


class RefusalTest(unittest.TestCase):
    def refusal(self, *command: str) -> str:
        program = subprocess.run([HERE / command[0], *command[1:]], capture_output=True, text=True, timeout=LIMIT_S)
        self.assertEqual(program.returncode, 1)
        return program.stderr.strip()

    def test_a_wrong_option_is_refused_with_the_right_ones(self) -> None:
        choice = "give --folder DIR, --port N, --database-port N, --warm-up N, or --table"
        self.assertEqual(self.refusal("web", "--prot", "1"), f'web: there is no option "--prot"; {choice}')
        self.assertEqual(self.refusal("database", "--folder"), "database: --folder lacks its value")
        self.assertEqual(
            self.refusal("serve", "--port", "http"), 'serve: --port "http" is no port; give a number from 1024 to 65535'
        )
        self.assertEqual(
            self.refusal("serve", "--port", "80"), "serve: --port 80 is out of range; give a port from 1024 to 65535"
        )

    def test_a_folder_of_somebody_else_is_refused(self) -> None:
        if os.getuid() != 0:
            self.skipTest("needs root, to give a folder away")
        folder = bare_folder()
        self.addCleanup(shutil.rmtree, folder)
        os.chown(folder, 12345, 12345)
        self.assertIn("give another one by --folder", self.refusal("database", "--folder", str(folder)))


class ApplicationTest(unittest.TestCase):
    """One start of both servers for all questions, then one that is killed."""

    folder: Path
    port: int
    database_port: int
    server: "subprocess.Popen[bytes] | None" = None

    @classmethod
    def setUpClass(cls) -> None:
        if missing():
            print(f"\nSKIP e-learning application: needs {missing()}\n", file=sys.stderr)
            raise unittest.SkipTest(f"needs {missing()}")
        # Not the folder below target/: somebody may measure with that one.
        cls.folder = bare_folder()
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.port, cls.database_port = free_ports(2)
        cls.addClassCleanup(cls.end)
        cls.start()

    @classmethod
    def start(cls) -> None:
        ports = ["--port", str(cls.port), "--database-port", str(cls.database_port)]
        command = ["setpriv", "--pdeathsig", "KILL", "--", str(HERE / "serve"), "--table", "--warm-up", "300", "--folder"]
        with (cls.folder / "log").open("w") as log:
            cls.server = subprocess.Popen([*command, str(cls.folder / "data"), *ports], stderr=log)

        def ready() -> bool:
            if cls.server.poll() is not None:
                raise AssertionError(f"serve ended: {cls.log()}")
            try:
                return cls.ask("/ready")[0] == 200
            except OSError:
                return False

        until("the application is ready", ready)

    @classmethod
    def log(cls) -> str:
        return (cls.folder / "log").read_text()

    @classmethod
    def end(cls) -> None:
        if cls.server is not None:
            cls.server.kill()
            cls.server.wait()
            cls.server = None
            until("all processes have ended", lambda: not processes_of(cls.folder))

    @classmethod
    def ask(cls, path: str, method: str = "GET") -> tuple[int, bytes, str]:
        connection = http.client.HTTPConnection("127.0.0.1", cls.port, timeout=LIMIT_S)
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            return answer.status, answer.read(), answer.headers.get_content_type()
        finally:
            connection.close()

    def asked(self, path: str):
        status, body, media_type = self.ask(path)
        self.assertEqual((status, media_type), (200, "application/json"), body)
        return json.loads(body)

    def query(self, query: str) -> list[list[str]]:
        """What the database answers to the account of a sampler."""
        command = ["mariadb", "--no-defaults", f"--socket={self.folder}/data/database.sock", "--user=sampler"]
        output = subprocess.run([*command, "-BNe", query], check=True, capture_output=True, text=True)
        return [line.split("\t") for line in output.stdout.splitlines()]

    def rows(self) -> list[list[str]]:
        """The table of responses: how a sampler reads it."""
        question = "SELECT request, COUNT(*), MIN(duration_us) > 0, MAX(ABS(TIMESTAMPDIFF(SECOND, at, NOW()))) < 3600"
        return self.query(f"{question} FROM elearning.response GROUP BY request ORDER BY request")

    def test_1_positions_have_their_objects_nearest_first(self) -> None:
        for row in steps_of_walks()[:: city.STEPS]:
            objects = self.asked(f"/position?lat={row['lat']}&lon={row['lon']}&count=50")["objects"]
            distances = [one["distance_m"] for one in objects]
            self.assertEqual(distances, sorted(distances))
            self.assertLessEqual(len(objects), 50)
            self.assertLessEqual(distances[-1], 150)
            # The generator knows the nearest object by another way.
            self.assertEqual(str(objects[0]["id"]), row["id"])
        self.assertEqual(self.asked("/position?lat=0&lon=0"), {"objects": []})
        self.assertEqual(len(self.asked("/position?lat=45.45&lon=9.15&radius_m=2000")["objects"]), 10)

    def test_2_contents_have_the_sizes_of_the_generator(self) -> None:
        sizes = city.City()
        for number in [*range(30), city.OBJECTS - 1]:
            status, body, _ = self.ask(f"/content?id={number}")
            self.assertEqual((status, len(body)), (200, sizes.sizes[sizes.content_of[number]]))

    def test_3_what_is_wrong_is_refused_with_what_is_right(self) -> None:
        refusals = [
            ("/position?lat=45.4", 400, "parameter lon is missing; give a number from -180 to 180, such as lon=0"),
            ("/position?lat=91&lon=9", 400, 'parameter lat is "91"; give a number from -85 to 85, such as lat=0'),
            ("/position?lat=1&lon=1&count=51", 400, 'parameter count is "51"; give a whole number from 1 to 50'),
            ("/content?id=x", 400, 'parameter id is "x"; give a whole number from 0 to 2147483647'),
            ("/report?format=yaml", 400, 'parameter format is "yaml"; give json, xml, prometheus'),
            ("/content?id=120000", 404, "there is no learning object 120000; give an identifier that /position"),
        ]
        for path, expected, sentence in refusals:
            status, body, _ = self.ask(path)
            self.assertEqual(status, expected, path)
            self.assertIn(sentence, json.loads(body)["error"])
        self.assertEqual(self.ask("/position", "POST")[0], 405)
        self.assertEqual(self.ask("/nowhere")[0], 404)

    def test_4_the_report_has_one_truth_in_three_formats(self) -> None:
        # Whatever was asked before is of another millisecond.
        time.sleep(0.01)
        since_ms = time.time_ns() // 1_000_000
        for _ in range(20):
            self.asked("/position?lat=45.45&lon=9.15")
        self.ask("/content?id=7")
        self.ask("/content?id=-1")
        # A response is noted an instant after the client has it.
        give_up = time.monotonic() + 60
        report = self.asked(f"/report?since_ms={since_ms}")
        while sum(one["count"] + one["errors"] for one in report["requests"].values()) < 22:
            self.assertLess(time.monotonic(), give_up, report)
            time.sleep(0.01)
            report = self.asked(f"/report?since_ms={since_ms}")
        self.assertEqual((report["schema_version"], report["complete"]), (1, True))
        position, content = report["requests"]["position"], report["requests"]["content"]
        self.assertEqual((position["count"], position["errors"]), (20, 0))
        self.assertEqual((content["count"], content["errors"]), (1, 1))
        times = [position[name] for name in ("min_ns", "p50_ns", "p90_ns", "p95_ns", "p99_ns", "max_ns")]
        self.assertEqual(times, sorted(times))
        self.assertTrue(0 < times[0] <= position["mean_ns"] <= times[-1])

        status, body, media_type = self.ask(f"/report?since_ms={since_ms}&format=xml")
        self.assertEqual((status, media_type), (200, "application/xml"))
        requests = {one.get("name"): one for one in xml.etree.ElementTree.fromstring(body)}
        self.assertEqual({name: requests["position"].get(name) for name in position},
                         {name: str(value) for name, value in position.items()})

        status, body, media_type = self.ask(f"/report?since_ms={since_ms}&format=prometheus")
        self.assertEqual((status, media_type), (200, "text/plain"))
        median = re.search(r'seconds\{request="position",quantile="0.5"\} (\S+)', body.decode())
        self.assertAlmostEqual(float(median[1]) * 1e9, position["p50_ns"], delta=1)

    def test_5_every_response_becomes_a_row(self) -> None:
        def counts() -> dict[str, int]:
            text = self.ask("/report?format=prometheus")[1].decode()
            answers = re.findall(r'seconds_count\{request="(\w+)"\} (\d+)', text)
            errors = dict(re.findall(r'errors_total\{request="(\w+)"\} (\d+)', text))
            return {request: int(count) + int(errors[request]) for request, count in answers}

        until("all rows are written", lambda: {row[0]: int(row[1]) for row in self.rows()} == counts())
        self.assertEqual(self.asked("/report")["rows_dropped"], 0)
        for request, count, positive, recent in self.rows():
            # The walks of the warm-up are among them.
            self.assertGreater(int(count), 100, request)
            self.assertEqual((positive, recent), ("1", "1"))

    def test_5_statements_are_prepared_once_for_each_connection(self) -> None:
        for _ in range(200):
            self.asked("/position?lat=45.45&lon=9.15&count=1")
        counts = {name: int(count) for name, count in self.query("SHOW GLOBAL STATUS LIKE '%prepare%'")}
        # Eight connections of servlets, one of the table; at most six statements each. The walks of the warm-up are
        # 300 requests, which one statement each would show, too.
        self.assertLessEqual(counts["Com_stmt_prepare"], 9 * 6)
        self.assertGreater(counts["Prepared_stmt_count"], 0)

    def test_6_a_second_server_with_the_folder_is_refused(self) -> None:
        command = [HERE / "database", "--folder", self.folder / "data"]
        second = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
        self.assertEqual(second.returncode, 1)
        self.assertIn("there is a database already with the folder", second.stderr)

    def test_7_the_report_is_there_while_the_database_stands_still(self) -> None:
        pids = [line.split()[0] for line in processes_of(self.folder) if "mariadbd" in line]
        self.assertEqual(len(pids), 1)
        os.kill(int(pids[0]), signal.SIGSTOP)
        try:
            self.assertEqual(self.ask("/report")[0], 200)
        finally:
            os.kill(int(pids[0]), signal.SIGCONT)
        self.assertEqual(self.ask("/ready")[0], 200)

    def test_8_servers_end_with_the_signal_and_leave_their_folder_alone(self) -> None:
        self.server.send_signal(signal.SIGTERM)
        self.assertEqual(self.server.wait(LIMIT_S), 0, self.log())
        self.assertEqual(processes_of(self.folder), [])
        for port in (self.port, self.database_port):
            with socket.socket() as probe, self.assertRaises(ConnectionRefusedError):
                probe.connect(("127.0.0.1", port))
        self.assertFalse((self.folder / "data/database.sock").exists())

    def test_9_servers_end_with_a_starter_that_is_killed_and_start_again(self) -> None:
        self.start()
        self.assertGreater(int(self.rows()[0][1]), 100)
        self.server.kill()
        self.server.wait()
        until("all processes have ended", lambda: not processes_of(self.folder))
        self.start()
        self.assertEqual(self.ask("/content?id=7")[0], 200)


if __name__ == "__main__":
    unittest.main()
