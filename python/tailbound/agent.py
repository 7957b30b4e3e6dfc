"""An agent inside of a Python program: it stops and starts the program's own tasks at mode changes.

The program says how each of its tasks is stopped and started; the agent connects to the host mode
manager (``tailboundd``), is told what should hold, and calls::

    agent = Agent("arm", "/run/tailbound/modes.sock")
    agent.task("move", stop=arm.pause, start=arm.resume, started=True)
    agent.run()                       # in this thread, until end() is called

This file needs nothing but Python 3.9 on Linux: a guest without the rest of the package can have a copy
of it. What goes over the wire is in docs/reference/agent-protocol.md; the semantics are those of the
Rust agent, against the same tests.
"""

from __future__ import annotations

import collections
import errno
import functools
import json
import os
import re
import select
import socket
import struct
import threading
import time
from dataclasses import dataclass, field
from typing import Any, Callable, Deque, Dict, List, Optional, Sequence, Tuple, Union

__all__ = ["Agent", "ProtocolError", "Session", "Task"]

PROTOCOL_VERSION = 1
MAGIC = b"TM"
HEADER_BYTES = 8
PAYLOAD_BYTES_MAX = 64 * 1024
TEXT_BYTES_MAX = 512
TASKS_MAX = 256
REQUESTS_MAX = 16
RELEASE = "tailbound-agent-python 1"

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,128}\Z")
_U64_MAX = 2**64 - 1

Message = Dict[str, Any]
# What a task is stopped and started by: it raises where it cannot.
Call = Callable[[], object]
Event = Callable[[str, str], object]


class ProtocolError(Exception):
    """What came is no message of this protocol: the connection is of no more use."""


def check_name(text: object) -> str:
    """The text, if it is a name on the wire."""
    if not isinstance(text, str) or not _NAME.match(text):
        raise ValueError(
            f"{str(text)[:40]!r} is not a name; use small letters, digits, -, _ and ., begun by a "
            "letter or digit, at most 129 bytes"
        )
    return text


def cut(text: object) -> str:
    """A text for people, cut to what the wire takes."""
    encoded = str(text).encode("utf-8", "replace")[:TEXT_BYTES_MAX]
    return encoded.decode("utf-8", "ignore")


def encode(message: Message) -> bytes:
    """The frame of a message."""
    payload = json.dumps(message, separators=(",", ":")).encode()
    return MAGIC + struct.pack(">HI", PROTOCOL_VERSION, len(payload)) + payload


class Decoder:
    """Cuts a stream of bytes into messages of the host, however the bytes come apart."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def push(self, received: bytes) -> None:
        """Takes in bytes as they were received."""
        self._buffer += received

    def next(self) -> Optional[Message]:
        """The next whole message; none if more bytes are needed."""
        buffer = self._buffer
        if bytes(buffer[:2]) != MAGIC[: len(buffer)]:
            raise ProtocolError(f"this is no frame: it starts with {bytes(buffer[:2])!r}")
        if len(buffer) < HEADER_BYTES:
            return None
        version, length = struct.unpack_from(">HI", buffer, 2)
        if version != PROTOCOL_VERSION:
            raise ProtocolError(
                f"the host speaks version {version} of the mode protocol, this agent version "
                f"{PROTOCOL_VERSION}; use a host and an agent library of one release"
            )
        if length > PAYLOAD_BYTES_MAX:
            raise ProtocolError(f"a frame of {length} bytes is too long")
        end = HEADER_BYTES + length
        if len(buffer) < end:
            return None
        payload = bytes(buffer[HEADER_BYTES:end])
        del buffer[:end]
        return _message(payload)


def _message(payload: bytes) -> Message:
    try:
        message = json.loads(
            payload.decode("utf-8"),
            object_pairs_hook=_object,
            parse_int=_integer,
            parse_constant=_no_constant,
        )
        return _checked(message)
    except (ValueError, KeyError, RecursionError) as error:
        raise ProtocolError(f"the frame holds no valid message: {error}") from error


def _object(pairs: List[Tuple[str, Any]]) -> Message:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key occurs twice")
    return found


def _integer(text: str) -> int:
    if text.startswith("-"):
        raise ValueError("no number here is negative")
    return int(text)


def _no_constant(text: str) -> None:
    raise ValueError(f"{text} is no JSON")


def _checked(message: Any) -> Message:
    """The fields of a message that this version knows; those that it does not are passed over."""
    kinds: Dict[str, Dict[str, Callable[[Any], Any]]] = {
        "welcome": {"domain": check_name, "mode": _optional_name, "change": _number},
        "change": {"change": _number, "mode": check_name, "start": _names, "stop": _names},
        "withdraw": {"change": _number},
        "ping": {"nonce": _number},
        "refused": {"mode": check_name, "reason": _text},
    }
    order = message.get("order") if isinstance(message, dict) else None
    if not isinstance(order, str) or order not in kinds:
        raise ValueError("there is no such order")
    fields = kinds[order]
    if "mode" in fields and order == "welcome":
        message.setdefault("mode", None)
    return {"order": order, **{key: check(message[key]) for key, check in fields.items()}}


def _optional_name(value: Any) -> Optional[str]:
    return None if value is None else check_name(value)


def _number(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= _U64_MAX:
        raise ValueError("a number is none from 0 to 2^64 - 1")
    return value


def _names(value: Any) -> List[str]:
    if not isinstance(value, list) or len(value) > TASKS_MAX:
        raise ValueError(f"a list of tasks is none, or longer than {TASKS_MAX}")
    return [check_name(name) for name in value]


def _text(value: Any) -> str:
    if not isinstance(value, str) or len(value.encode("utf-8")) > TEXT_BYTES_MAX:
        raise ValueError(f"a text is none, or longer than {TEXT_BYTES_MAX} bytes")
    return value


@dataclass
class Task:
    """A task that is switched by calls.

    When ``stop`` returns, the task executes nothing any more. Both may be called where the task is
    stopped or started already, and raise an exception where they fail.
    """

    name: str
    stop: Call
    start: Call
    started: bool


@dataclass(frozen=True)
class Lists:
    """Tasks to stop, all of them before the first start, and tasks to start."""

    stop: Tuple[str, ...] = ()
    start: Tuple[str, ...] = ()


class SwitchError(Exception):
    """Why tasks were not switched, and what is still to be done before all is as it was."""

    def __init__(self, cause: str, unrestored: Lists = Lists()) -> None:
        told = cause
        if unrestored.stop:
            told += "; still started: " + ", ".join(unrestored.stop)
        if unrestored.start:
            told += "; still stopped: " + ", ".join(unrestored.start)
        super().__init__(told)
        self.unrestored = unrestored


class Tasks:
    """The tasks of a domain by name; a change that fails at one of them is put back."""

    def __init__(self) -> None:
        self._tasks: Dict[str, Task] = {}

    def add(self, task: Task) -> None:
        """Adds a task; one of the same name is replaced."""
        check_name(task.name)
        if len(self._tasks) >= TASKS_MAX and task.name not in self._tasks:
            raise ValueError(f"more than {TASKS_MAX} tasks; the wire takes no more")
        self._tasks.pop(task.name, None)
        self._tasks[task.name] = task

    def names(self) -> List[str]:
        """All of them."""
        return list(self._tasks)

    def started(self) -> List[str]:
        """Those that are started."""
        return [task.name for task in self._tasks.values() if task.started]

    def switch(self, lists: Lists) -> Lists:
        """Stops, then starts. Returns the tasks whose state became another one."""
        stops, starts = self._known(lists.stop), self._known(lists.start)
        for task in stops:
            if task in starts:
                raise SwitchError(
                    f'task "{task.name}" is to be stopped and started by one change; put it into '
                    "one list"
                )
        begun_stops: List[Task] = []
        begun_starts: List[Task] = []
        try:
            # What fails half-way counts as begun.
            for task in stops:
                begun_stops.append(task)
                _call(task, task.stop)
            for task in starts:
                begun_starts.append(task)
                _call(task, task.start)
        except SwitchError as error:
            unrestored = _put_back(begun_stops, begun_starts)
            raise SwitchError(str(error), unrestored) from error
        return Lists(_noted(stops, False), _noted(starts, True))

    def _known(self, names: Sequence[str]) -> List[Task]:
        known: Dict[str, Task] = {}
        for name in names:
            if name not in self._tasks:
                raise SwitchError(
                    f'task "{name}" is not among those of this agent; name it to the agent'
                )
            known[name] = self._tasks[name]
        return list(known.values())


def _call(task: Task, call: Call) -> None:
    try:
        call()
    except Exception as error:
        raise SwitchError(f'task "{task.name}": {error}') from error


def _put_back(stops: List[Task], starts: List[Task]) -> Lists:
    """Starts before stops, so that old and new tasks do not run together."""
    still_started, still_stopped = [], []
    for task in reversed(starts):
        if task.started:
            continue
        try:
            _call(task, task.stop)
        except SwitchError:
            task.started = True
            still_started.append(task.name)
    for task in reversed(stops):
        if not task.started:
            continue
        try:
            _call(task, task.start)
        except SwitchError:
            task.started = False
            still_stopped.append(task.name)
    return Lists(tuple(still_started), tuple(still_stopped))


def _noted(tasks: List[Task], started: bool) -> Tuple[str, ...]:
    changed = []
    for task in tasks:
        if task.started != started:
            task.started = started
            changed.append(task.name)
    return tuple(changed)


@dataclass
class _Decided:
    """The newest change that was decided, with the answer that is repeated with it."""

    change: int
    # Mode and lists; none where its withdrawal came first.
    content: Optional[Tuple[str, Lists]]
    # The mode before.
    before: Optional[str]
    # What takes it back; none where it was withdrawn.
    back: Optional[Lists]
    failed: bool
    answer: Message


@dataclass
class Session:
    """What is done with each message: no clock, no connection. ``receive`` returns the answer."""

    domain: str
    tasks: Tasks
    clock: Callable[[], int]
    clock_id: str
    boot: str
    agent: str = RELEASE
    mode: Optional[str] = None
    on_event: Event = lambda kind, told: None
    # The newest change that this connection told of; none before its welcome.
    _newest: Optional[int] = None
    _decided: Optional[_Decided] = field(default=None, repr=False)

    def connected(self) -> Message:
        """A connection was made: what to say first."""
        self._newest = None
        return {
            "report": "hello",
            "domain": self.domain,
            "agent": cut(self.agent),
            "clock": {"id": self.clock_id, "boot": cut(self.boot)},
            "tasks": self.tasks.names(),
            "started": self.tasks.started(),
            "change": self._decided.change if self._decided else 0,
            "mode": self.mode,
        }

    def is_welcomed(self) -> bool:
        """Whether the host has answered the hello of this connection."""
        return self._newest is not None

    def receive(self, message: Message, received: int) -> Optional[Message]:
        """Takes in a message that was received at an instant; what to answer, if anything."""
        order = message["order"]
        if order == "ping":
            return {"report": "pong", "nonce": message["nonce"]}
        if order == "welcome":
            self._welcome(message)
        elif order == "refused":
            self.on_event("refused", f"{message['mode']}: {message['reason']}")
        elif self._is_news(message["change"]):
            return self._withdraw(message["change"], received) if order == "withdraw" else (
                self._change(message, received)
            )
        return None

    def _welcome(self, message: Message) -> None:
        if message["domain"] != self.domain:
            raise ProtocolError(
                f"the host takes this agent for that of domain \"{message['domain']}\""
            )
        if self.is_welcomed():
            return
        self._newest = message["change"]
        if self._decided is None:
            self.mode = message["mode"]
        self.on_event("connected", "")

    def _is_news(self, change: int) -> bool:
        if self._newest is None or change < self._newest:
            return False
        self._newest = change
        return True

    def _change(self, message: Message, received: int) -> Message:
        change = message["change"]
        lists = Lists(tuple(message["stop"]), tuple(message["start"]))
        content = (message["mode"], lists)
        last = self._decided
        if last is not None and last.change == change:
            if last.content is None or last.content == content:
                return last.answer
            return _failed(
                change,
                f"change {change} was told before with another content; give every change a "
                "number of its own",
                False,
            )
        before = self.mode
        try:
            changed = self.tasks.switch(lists)
        except SwitchError as error:
            back = error.unrestored
            answer = _failed(change, error, back == Lists())
        else:
            self.mode = content[0]
            back = Lists(changed.start, changed.stop)
            answer = self._carried_out("done", change, received)
        failed = answer["report"] == "failed"
        self._decided = _Decided(change, content, before, back, failed, answer)
        self._tell(answer)
        return answer

    def _withdraw(self, change: int, received: int) -> Message:
        last = self._decided
        if last is None or last.change != change:
            # It never came, and must not be carried out should it still come.
            answer = self._carried_out("withdrawn", change, received, received)
            self._decided = _Decided(change, None, self.mode, None, False, answer)
            return answer
        if last.back is None:
            return last.answer
        if last.failed and last.back == Lists():
            answer = self._carried_out("withdrawn", change, received, received)
        else:
            try:
                self.tasks.switch(last.back)
            except SwitchError as error:
                # Another withdrawal tries again.
                return _failed(change, error, False)
            answer = self._carried_out("withdrawn", change, received)
            self.mode = last.before
        last.back, last.answer = None, answer
        self._tell(answer)
        return answer

    def _carried_out(
        self, report: str, change: int, received: int, switched: Optional[int] = None
    ) -> Message:
        switched = self.clock() if switched is None else switched
        return {
            "report": report,
            "change": change,
            "received_ns": received,
            "switched_ns": switched,
        }

    def _tell(self, answer: Message) -> None:
        self.on_event(answer["report"], answer.get("reason", self.mode or ""))


def _failed(change: int, reason: object, rolled_back: bool) -> Message:
    return {
        "report": "failed",
        "change": change,
        "reason": cut(reason),
        "rolled_back": rolled_back,
    }


def connect_unix(path: str, host_uid: Optional[int] = None) -> socket.socket:
    """Connects to a socket of root's, of this process's user or of ``host_uid``."""
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        link.setblocking(False)
        link.connect(path)
        peer = link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        uid = struct.unpack("3i", peer)[1]
        trusted = os.geteuid() if host_uid is None else host_uid
        if uid not in (0, trusted):
            raise PermissionError(
                errno.EPERM, f"{path} belongs to uid {uid}, which may not switch tasks here"
            )
    except OSError:
        link.close()
        raise
    return link


class Agent:
    """The agent of one domain.

    ``run()`` serves in the thread that calls it, ``start()`` in a thread of its own. A program with a
    loop of its own waits until ``fileno()`` is readable or ``timeout()`` seconds have passed, and
    calls ``process()``. Tasks stay as they are while there is no connection, and at the end.

    ``connect`` is the path of the host mode manager's socket, or a callable that returns a connected,
    non-blocking socket. ``on_event(kind, told)`` hears of ``connected``, ``lost``, ``not-connected``,
    ``done``, ``failed``, ``withdrawn`` and ``refused``, for a log; it is called by the serving thread.
    """

    def __init__(
        self,
        domain: str,
        connect: Union[str, Callable[[], socket.socket]],
        *,
        host_uid: Optional[int] = None,
        on_event: Optional[Event] = None,
        boot: Optional[str] = None,
        answer_within: float = 5.0,
        pause_least: float = 0.01,
        pause_most: float = 2.0,
    ) -> None:
        self._tasks = Tasks()
        self._event: Event = on_event or (lambda kind, told: None)
        self._session = Session(
            check_name(domain),
            self._tasks,
            time.monotonic_ns,
            "monotonic",
            _boot_id() if boot is None else boot,
            on_event=self._event,
        )
        self._connect: Callable[[], socket.socket]
        if callable(connect):
            self._connect = connect
        else:
            self._connect = functools.partial(connect_unix, connect, host_uid)
        self._answer_within = answer_within
        self._pause_least, self._pause_most = pause_least, pause_most
        self._pause = pause_least
        self._decoder = Decoder()
        self._link: Optional[socket.socket] = None
        self._to_send = b""
        # When there is to be another attempt, or the host must have answered.
        self._deadline: Optional[float] = 0.0
        self._began = 0.0
        self._requests: Deque[str] = collections.deque()
        self._ended = False
        self._poll = select.epoll()
        self._woken, self._wake = socket.socketpair()
        self._woken.setblocking(False)
        self._wake.setblocking(False)
        self._poll.register(self._woken, select.EPOLLIN)

    def task(self, name: str, *, stop: Call, start: Call, started: bool) -> None:
        """Names a task, with how it is stopped and started and which it is now. Before ``run``."""
        self._tasks.add(Task(name, stop, start, started))

    @property
    def mode(self) -> Optional[str]:
        """The mode that the domain is in, where that is known."""
        return self._session.mode

    def request(self, mode: str) -> None:
        """Asks the host for a global mode, from any thread; sent as soon as there is a connection."""
        check_name(mode)
        if len(self._requests) >= REQUESTS_MAX:
            raise BlockingIOError(f"{REQUESTS_MAX} requests wait for the host already")
        self._requests.append(mode)
        self._signal()

    def end(self) -> None:
        """Ends the agent, from any thread."""
        self._ended = True
        self._signal()

    def run(self) -> None:
        """Serves the host until ``end()``, connecting again for as long as it takes."""
        while not self._ended:
            wait = self.timeout()
            self._poll.poll(None if wait is None else wait)
            self.process()
        self.close()

    def start(self) -> threading.Thread:
        """Serves in a thread of its own, which does not keep the program from ending."""
        thread = threading.Thread(target=self.run, name="tailbound-agent", daemon=True)
        thread.start()
        return thread

    def fileno(self) -> int:
        """Readable when there is something for ``process()`` to do."""
        return self._poll.fileno()

    def timeout(self) -> Optional[float]:
        """The seconds after which ``process()`` is to be called even if nothing is readable."""
        if self._deadline is None:
            return None
        return max(0.0, self._deadline - time.monotonic())

    def process(self) -> None:
        """Does what there is to do; waits for nothing but the tasks themselves."""
        try:
            while self._woken.recv(64):
                pass
        except BlockingIOError:
            pass
        if self._ended:
            return
        try:
            if self._link is None:
                self._attempt()
            if self._link is not None:
                self._serve(self._link)
        except (OSError, ProtocolError) as error:
            self._lose(error)

    def close(self) -> None:
        """Ends the connection and gives back its descriptors; tasks stay as they are."""
        self._ended = True
        for closable in (self._link, self._poll, self._woken, self._wake):
            if closable is not None:
                closable.close()
        self._link = None

    def _signal(self) -> None:
        try:
            self._wake.send(b"\0")
        except OSError:
            # A full socket wakes as well as another byte would; a closed one has ended.
            pass

    def _attempt(self) -> None:
        if self._deadline is not None and time.monotonic() < self._deadline:
            return
        self._link = self._connect()
        self._poll.register(self._link, select.EPOLLIN)
        self._decoder = Decoder()
        self._began = time.monotonic()
        self._deadline = self._began + self._answer_within
        self._to_send = encode(self._session.connected())

    def _serve(self, link: socket.socket) -> None:
        self._flush(link)
        # So many reads at most, so that the program's own loop has its turn.
        for _ in range(32):
            try:
                received = link.recv(4096)
            except BlockingIOError:
                break
            if not received:
                raise ConnectionResetError(errno.ECONNRESET, "the host closed the connection")
            self._take_in(link, received)
        while self._session.is_welcomed() and self._requests:
            mode = self._requests.popleft()
            self._to_send += encode({"report": "request", "mode": mode})
        self._flush(link)
        overdue = self._deadline is not None and time.monotonic() >= self._deadline
        if overdue:
            raise TimeoutError(f"the host was silent for {self._answer_within} s")

    def _take_in(self, link: socket.socket, received: bytes) -> None:
        at = time.monotonic_ns()
        self._decoder.push(received)
        while True:
            message = self._decoder.next()
            if message is None:
                return
            answer = self._session.receive(message, at)
            if self._session.is_welcomed() and not self._to_send:
                self._deadline = None
            if answer is not None:
                self._to_send += encode(answer)
                self._flush(link)

    def _flush(self, link: socket.socket) -> None:
        try:
            while self._to_send:
                self._to_send = self._to_send[link.send(self._to_send) :]
        except BlockingIOError:
            pass
        if self._to_send:
            self._poll.modify(link, select.EPOLLIN | select.EPOLLOUT)
            if self._deadline is None:
                self._deadline = time.monotonic() + self._answer_within
        else:
            self._poll.modify(link, select.EPOLLIN)
            if self._session.is_welcomed():
                self._deadline = None

    def _lose(self, error: Exception) -> None:
        had_link = self._link is not None
        if self._link is not None:
            self._poll.unregister(self._link)
            self._link.close()
            self._link = None
            # A host that closes every connection soon is not asked more and more often.
            lived = time.monotonic() - self._began
            if self._session.is_welcomed() and lived > self._pause:
                self._pause = self._pause_least
        self._deadline = time.monotonic() + self._pause
        self._pause = min(2 * self._pause, self._pause_most)
        self._to_send = b""
        self._event("lost" if had_link else "not-connected", str(error))


def _boot_id() -> str:
    """What CLOCK_MONOTONIC counts from: its times compare with those of the same boot alone."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return "unknown"
