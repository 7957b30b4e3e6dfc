"""The middlewares around applications: timing, the decision, the report, threads, asyncio and workers."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
import wsgiref.simple_server
import wsgiref.util
import wsgiref.validate
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Dict, Iterable, Iterator, List, Optional, Tuple

import jsonschema
import pytest

import tailbound.service_level
from tailbound.service_level import AsgiMiddleware, ServiceLevel, WsgiMiddleware

MILLISECOND_NS = 1_000_000
SECOND_NS = 1_000_000_000
SCHEMA = json.loads(
    (
        Path(__file__).parents[2] / "docs" / "reference" / "service-level-report.schema.json"
    ).read_text()
)


class SteppedClock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now_ns = 0

    def __call__(self) -> int:
        return self.now_ns

    def step(self, milliseconds: int) -> None:
        self.now_ns += milliseconds * MILLISECOND_NS


def stepped(**settings: Any) -> Tuple[SteppedClock, ServiceLevel]:
    clock = SteppedClock()
    return clock, ServiceLevel("1s", clock=clock, **settings)


def ask(application: Any, path: str = "/", **more: str) -> Tuple[str, Dict[str, str], bytes]:
    """What a WSGI application answers."""
    environ: Dict[str, Any] = {"PATH_INFO": path, **more}
    wsgiref.util.setup_testing_defaults(environ)
    started: List[Any] = []
    pieces = application(environ, lambda *given: started.append(given))
    try:
        body = b"".join(pieces)
    finally:
        if hasattr(pieces, "close"):
            pieces.close()
    return started[0][0], dict(started[0][1]), body


def test_a_wsgi_request_is_timed_until_its_last_piece() -> None:
    clock, level = stepped()

    def application(environ: Dict[str, Any], start_response: Any) -> Iterator[bytes]:
        clock.step(100)
        start_response("200 OK", [])
        yield b"mandatory"
        clock.step(200)
        yield b" and optional" if environ["tailbound.optional"] else b""

    status, _, body = ask(WsgiMiddleware(application, level))
    assert (status, body) == ("200 OK", b"mandatory and optional")
    report = level.report()
    assert (report.latency_ns, report.requests) == (300 * MILLISECOND_NS, 1)


def test_a_wsgi_request_ends_where_the_application_fails_or_the_server_gives_up() -> None:
    clock, level = stepped()
    closed = []

    class Pieces:
        def __iter__(self) -> Iterator[bytes]:
            clock.step(50)
            yield b"a"
            raise OSError("gone")

        def close(self) -> None:
            closed.append(True)
            raise OSError("still gone")

    def failing(environ: Dict[str, Any], start_response: Any) -> Iterable[bytes]:
        clock.step(10)
        if environ["PATH_INFO"] == "/early":
            raise KeyError("early")
        return Pieces()

    application = WsgiMiddleware(failing, level)
    with pytest.raises(KeyError):
        ask(application, "/early")
    assert level.report().requests == 1
    pieces = application({"PATH_INFO": "/"}, None)
    with pytest.raises(OSError, match="gone"):
        list(pieces)
    with pytest.raises(OSError, match="still gone"):
        pieces.close()  # type: ignore[attr-defined]
    assert (level.report().requests, closed) == (2, [True])
    unread = application({"PATH_INFO": "/"}, None)
    with pytest.raises(OSError, match="still gone"):
        unread.close()  # type: ignore[attr-defined]
    report = level.report()
    assert (report.requests, report.latency_ns) == (3, 60 * MILLISECOND_NS)


def test_a_list_of_pieces_keeps_its_length() -> None:
    _, level = stepped()
    application = WsgiMiddleware(lambda environ, start: [b"one"], level)
    assert len(application({}, None)) == 1  # type: ignore[arg-type]
    assert not hasattr(
        WsgiMiddleware(lambda environ, start: iter([b"a"]), level)({}, None), "__len__"
    )


def test_a_file_is_left_to_the_server() -> None:
    clock, level = stepped()
    file = wsgiref.util.FileWrapper(io.BytesIO(b"a"))

    def application(environ: Dict[str, Any], start_response: Any) -> Any:
        clock.step(20)
        return file

    wrapped = WsgiMiddleware(application, level)
    for wrapper, is_left in [
        (wsgiref.util.FileWrapper, True),
        (lambda file: file, False),
        (None, False),
    ]:
        pieces = wrapped({"PATH_INFO": "/", "wsgi.file_wrapper": wrapper}, None)
        assert (pieces is file) == is_left
        pieces.close()  # type: ignore[attr-defined]
    assert level.report().requests == 3
    assert level.report().latency_ns == 20 * MILLISECOND_NS


def test_optional_content_is_served_with_the_probability_of_the_level() -> None:
    drawn = iter([0.0, 0.949, 0.95, 0.999])
    clock, level = stepped(random=lambda: next(drawn))
    level.observe("2s")
    clock.step(1000)
    assert level.level() == pytest.approx(0.95)
    assert [level.request().optional for _ in range(4)] == [True, True, False, False]


def test_the_wsgi_report_is_the_documented_one() -> None:
    clock, level = stepped()
    application = wsgiref.validate.validator(
        WsgiMiddleware(wsgiref.validate.validator(wsgiref.simple_server.demo_app), level)
    )

    def validated(path: str, **more: str) -> bytes:
        environ: Dict[str, Any] = {"PATH_INFO": path, "SCRIPT_NAME": "", "QUERY_STRING": "", **more}
        wsgiref.util.setup_testing_defaults(environ)
        pieces = application(environ, lambda *given: (lambda data: None))
        body = b"".join(list(pieces))
        pieces.close()
        return body

    empty = json.loads(validated("/tailbound/service-level"))
    jsonschema.validate(empty, SCHEMA)
    assert (empty["matching_value"], empty["latency_seconds"], empty["age_seconds"]) == (
        None,
        None,
        None,
    )
    validated("/")
    level.observe("1310ms")
    clock.step(400)
    full = json.loads(validated("/tailbound/service-level"))
    jsonschema.validate(full, SCHEMA)
    assert full == {
        "matching_value": pytest.approx(-0.31),
        "service_level": 1.0,
        "latency_seconds": 1.31,
        "deadline_seconds": 1.0,
        "requests": 2,
        "age_seconds": 0.4,
    }
    text = validated("/tailbound/service-level", QUERY_STRING="format=prometheus").decode()
    samples = dict(re.findall(r"^(tailbound_\w+) (\S+)$", text, re.MULTILINE))
    assert {name: float(value) for name, value in samples.items()} == {
        "tailbound_service_level": 1.0,
        "tailbound_service_level_matching_value": pytest.approx(-0.31),
        "tailbound_service_level_latency_seconds": 1.31,
        "tailbound_service_level_deadline_seconds": 1.0,
        "tailbound_service_level_requests_total": 2,
        "tailbound_service_level_age_seconds": 0.4,
    }
    assert text.count("# HELP") == text.count("# TYPE") == 6
    assert validated("/tailbound/service-level", REQUEST_METHOD="POST") == b"use GET\n"
    assert level.report().requests == 2, "the report itself is not timed"


def test_paths_and_headers_are_settings() -> None:
    clock, level = stepped()
    seen: List[bool] = []

    def application(environ: Dict[str, Any], start_response: Any) -> Iterable[bytes]:
        seen.append(environ["tailbound.optional"])
        start_response("200 OK", [])
        return [b"of the application"]

    wrapped = WsgiMiddleware(
        application,
        level,
        path=None,
        untimed=["/events/"],
        start_header="X-Request-Start",
        wall_clock=lambda: 1_800_000_002 * SECOND_NS,
    )
    assert ask(wrapped, "/tailbound/service-level")[2] == b"of the application"
    ask(wrapped, "/events/1")
    assert level.report().requests == 1
    ask(wrapped, "/", HTTP_X_REQUEST_START="t=1800000000.000")
    assert level.report().latency_ns == 2 * SECOND_NS
    assert seen == [True, True, True]
    for given in ({"path": "report"}, {"untimed": ["events"]}):
        with pytest.raises(ValueError, match='give a path that begins with a "/"'):
            WsgiMiddleware(application, level, **given)  # type: ignore[arg-type]


def test_a_real_server_with_threads() -> None:
    level = ServiceLevel("60min")

    class Server(wsgiref.simple_server.WSGIServer):
        request_queue_size = 128

    class Quiet(wsgiref.simple_server.WSGIRequestHandler):
        def log_message(self, *arguments: Any) -> None:
            pass

    application = WsgiMiddleware(wsgiref.simple_server.demo_app, level)
    with wsgiref.simple_server.make_server("127.0.0.1", 0, application, Server, Quiet) as server:
        serving = threading.Thread(target=server.serve_forever, args=(0.01,))
        serving.start()
        base = f"http://127.0.0.1:{server.server_port}"
        try:
            page = urllib.request.urlopen(f"{base}/").read()
            assert b"tailbound.optional = True" in page
            with ThreadPoolExecutor(8) as pool:
                list(pool.map(lambda _: urllib.request.urlopen(f"{base}/").read(), range(40)))
            answered = urllib.request.urlopen(f"{base}/tailbound/service-level")
            assert answered.headers["Content-Type"] == "application/json"
            assert json.loads(answered.read())["requests"] == 41
            with pytest.raises(urllib.error.HTTPError, match="400"):
                urllib.request.urlopen(f"{base}/tailbound/service-level?format=xml")
        finally:
            server.shutdown()
            serving.join()


def test_threads_lose_no_request() -> None:
    level = ServiceLevel("60min")
    served = []

    def serve() -> None:
        for _ in range(2_000):
            with level.request() as request:
                pass
            served.append(request.optional)
            level.report()

    threads = [threading.Thread(target=serve) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert level.report().requests == len(served) == 16_000
    assert level._controller.oldest_ns(level._clock()) is None


def http_scope(path: str, *headers: Tuple[bytes, bytes], **more: Any) -> Dict[str, Any]:
    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "query_string": b"",
        "headers": list(headers),
    }
    return {**scope, **more}


async def call(application: Any, scope: Dict[str, Any]) -> List[Dict[str, Any]]:
    """The messages that an ASGI application sends."""
    sent: List[Dict[str, Any]] = []

    async def receive() -> Dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    await application(scope, receive, send)
    return sent


def test_an_asgi_request_is_timed_until_its_last_message() -> None:
    clock, level = stepped()

    async def application(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        clock.step(100)
        await send({"type": "http.response.body", "body": b"mandatory", "more_body": True})
        clock.step(200)
        await send(
            {"type": "http.response.body", "body": str(scope["tailbound"]["optional"]).encode()}
        )
        clock.step(5000)  # work in the background after the answer

    sent = asyncio.run(call(AsgiMiddleware(application, level), http_scope("/")))
    assert sent[-1]["body"] == b"True"
    report = level.report()
    assert (report.latency_ns, report.requests, report.age_ns) == (
        300 * MILLISECOND_NS,
        1,
        5 * SECOND_NS,
    )


def test_asgi_requests_side_by_side_failures_and_other_connections() -> None:
    clock, level = stepped()
    seen: List[Any] = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        seen.append((scope["type"], "tailbound" in scope))
        if scope.get("path") == "/fails":
            raise KeyError("fails")
        await asyncio.sleep(0)
        await send({"type": "http.response.body", "body": b""})

    wrapped = AsgiMiddleware(application, level, untimed=["/events"])

    async def everything() -> None:
        await asyncio.gather(*(call(wrapped, http_scope("/")) for _ in range(100)))
        with pytest.raises(KeyError):
            await call(wrapped, http_scope("/fails"))
        await call(wrapped, http_scope("/events/1"))
        await call(wrapped, {"type": "websocket", "path": "/"})
        await call(wrapped, {"type": "lifespan"})
        stopped = asyncio.ensure_future(call(wrapped, http_scope("/")))
        await asyncio.sleep(0)
        stopped.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await stopped

    asyncio.run(everything())
    assert level.report().requests == 102
    assert level._controller.oldest_ns(clock()) is None
    assert [kind for kind, has in seen if not has] == ["websocket", "lifespan"]


def test_the_asgi_report_is_that_of_wsgi() -> None:
    clock, level = stepped()
    level.observe("1310ms")

    async def application(scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError("the report is not the application's")

    wrapped = AsgiMiddleware(application, level)
    path = "/tailbound/service-level"
    start, body = asyncio.run(call(wrapped, http_scope(path)))
    jsonschema.validate(json.loads(body["body"]), SCHEMA)
    assert json.loads(body["body"])["latency_seconds"] == 1.31
    assert start["status"] == 200 and (b"content-type", b"application/json") in start["headers"]
    start, body = asyncio.run(call(wrapped, http_scope(path, (b"accept", b"text/plain"))))
    assert body["body"].startswith(b"# HELP tailbound_service_level ")
    start, _ = asyncio.run(call(wrapped, http_scope(path, method="POST")))
    assert start["status"] == 405
    start, _ = asyncio.run(call(wrapped, http_scope(f"/shop{path}", root_path="/shop")))
    assert start["status"] == 200


def test_an_asgi_start_header_counts() -> None:
    _, level = stepped()

    async def application(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.body", "body": b""})

    wrapped = AsgiMiddleware(
        application,
        level,
        start_header="X-Request-Start",
        wall_clock=lambda: 1_800_000_002 * SECOND_NS,
    )
    asyncio.run(call(wrapped, http_scope("/", (b"X-Request-Start", b"t=1800000000"))))
    assert level.report().latency_ns == 2 * SECOND_NS


def forked(work: Any) -> Tuple[int, int]:
    """A child process that says ``ready`` and lives until it is killed: its number, and a pipe of its words."""
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reads)
            work()
            os.write(writes, b"ready")
            while True:
                signal.pause()
        finally:
            os._exit(1)
    os.close(writes)
    return child, reads


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGKILL])
def test_workers_are_merged_as_long_as_they_live(tmp_path: Path, ending: signal.Signals) -> None:
    folder = tmp_path / "workers"
    # As a server that loads the application before it forks its workers.
    level = ServiceLevel("60min", workers=folder)

    def work() -> None:
        for _ in range(10):
            level.request().end()

    children = []
    try:
        for _ in range(3):
            children.append(forked(work))
        for _, words in children:
            assert os.read(words, 5) == b"ready"
        assert level.report().requests == 30, "a process without requests is no worker"
        assert len(list(folder.iterdir())) == 3
        level.request().end()
        assert level.report().requests == 31
        assert len(list(folder.iterdir())) == 4
    finally:
        for child, words in children:
            os.kill(child, ending)
            os.waitpid(child, 0)
            os.close(words)
    report = level.report()
    assert report.requests == 1
    assert len(list(folder.iterdir())) == 1, "files of dead workers are removed"


def test_a_worker_that_hangs_is_seen_by_the_others(tmp_path: Path) -> None:
    clock = SteppedClock()
    hung = ServiceLevel("1s", clock=clock, workers=tmp_path)
    other = ServiceLevel("1s", clock=clock, workers=tmp_path)
    hung.request()
    clock.step(2000)
    assert other.report().latency_ns == 2 * SECOND_NS
    assert other.level() == 1.0, "each worker has a level of its own"


def test_a_latency_leaves_the_report_of_others_with_the_window(tmp_path: Path) -> None:
    clock = SteppedClock()
    writer = ServiceLevel("1s", clock=clock, workers=tmp_path)
    reader = ServiceLevel("1s", clock=clock, workers=tmp_path)
    clock.step(500)
    writer.observe("300ms")
    clock.step(5499)
    assert reader.report().latency_ns == writer.report().latency_ns == 300 * MILLISECOND_NS
    clock.step(1)
    assert reader.report().latency_ns is None and writer.report().latency_ns is None
    assert (reader.report().requests, reader.report().age_ns) == (1, 5500 * MILLISECOND_NS)


def test_a_new_worker_begins_with_the_level_of_the_others(tmp_path: Path) -> None:
    clock = SteppedClock()
    first = ServiceLevel("1s", clock=clock, workers=tmp_path)
    first.observe("2s")
    clock.step(1000)
    assert first.level() == pytest.approx(0.95)
    first.request().end()
    second = ServiceLevel("1s", clock=clock, workers=tmp_path)
    assert second.report().service_level == pytest.approx(0.95)
    second.request()
    assert second.level() == pytest.approx(0.95)


def test_a_worker_that_was_idle_takes_the_level_of_the_busy_ones(tmp_path: Path) -> None:
    clock = SteppedClock()
    idle, busy = (ServiceLevel("1s", clock=clock, workers=tmp_path) for _ in range(2))
    idle.request().end()
    for _ in range(10):
        busy.observe("2s")
        clock.step(1000)
    level = pytest.approx(0.95**10)
    assert (idle.level(), busy.level()) == (1.0, level)
    assert busy.report().service_level == idle.report().service_level == level
    with idle.request():
        assert idle.level() == level
    clock.step(60_000)
    busy.observe("500ms")
    clock.step(1000)
    busy.request().end()
    # What was left of its window before it was idle, and half of the deadline since.
    assert busy.level() == pytest.approx(0.95**14 * 1.01)
    assert idle.report().service_level == busy.level()


def test_garbage_in_the_folder_of_workers_is_passed_over(tmp_path: Path) -> None:
    import fcntl

    level = ServiceLevel("1s", workers=tmp_path)
    (tmp_path / "other").write_bytes(b"not ours")
    held: Optional[Any] = None
    for name, content in [
        ("worker-short", b"abc"),
        ("worker-wrong", os.urandom(52)),
        ("worker-zero", b"\0" * 52),
    ]:
        (tmp_path / name).write_bytes(content)
        held = open(tmp_path / name, "rb")
        fcntl.flock(held, fcntl.LOCK_EX)
        assert level.report().requests == 0
        held.close()
    level.report()
    assert list(tmp_path.iterdir()) == [tmp_path / "other"]


def test_a_worker_serves_where_its_folder_is_gone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    level = ServiceLevel("1s", workers=tmp_path / "workers")
    (tmp_path / "workers").rmdir()
    with level.request() as request:
        assert request.optional
    level.request().end()
    assert level.report().requests == 2
    assert [record.getMessage()[:48] for record in caplog.records] == [
        "workers: this process is not in the report: [Err"
    ]


def test_a_folder_that_cannot_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="workers: '.*/file' cannot be used: .*; give a folder"):
        ServiceLevel("1s", workers=tmp_path / "file")


def test_a_copy_of_the_folder_needs_only_the_standard_library(tmp_path: Path) -> None:
    source = Path(tailbound.service_level.__file__).parent
    shutil.copytree(source, tmp_path / "level_of_shop")
    program = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "import level_of_shop, level_of_shop.simulation\n"
        "print(level_of_shop.ServiceLevel('1s').report().json())"
    )
    # -S: without the packages that are installed.
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program], check=True, capture_output=True
    )
    assert json.loads(done.stdout)["service_level"] == 1.0
