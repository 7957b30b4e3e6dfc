"""The agent in Python against a host that says anything, by atheris. The first byte has switches fail;
each line after it is the payload of a frame, unless it begins with a zero byte.

Nothing but a ``ProtocolError`` leaves the decoder, messages do not depend on the parts that bytes come in,
and the tasks are as the answers say."""

import json
import struct
import sys
from pathlib import Path

import atheris

# The module alone, without the package and what that imports.
sys.path.append(str(Path(__file__).resolve().parents[2] / "python" / "tailbound"))
with atheris.instrument_imports(include=["agent", "json"]):
    import agent


def stream(data: bytes) -> bytes:
    """What a peer sends."""
    out = b""
    for line in data.split(b"\n"):
        if line[:1] == b"\0":
            out += line[1:]
        else:
            out += b"TM" + struct.pack(">HI", 1, len(line)) + line
    return out


def messages(received: bytes, part: int):
    """The messages in a stream, and whether it ended with a breach of the protocol."""
    decoder, found = agent.Decoder(), []
    for begin in range(0, len(received), part):
        decoder.push(received[begin : begin + part])
        try:
            while (message := decoder.next()) is not None:
                found.append(message)
        except agent.ProtocolError:
            return found, True
    return found, False


def session(failures: int):
    """A session with three tasks, and the set of those that are started."""
    started, turn, tasks = {"a", "b"}, [0], agent.Tasks()

    def switched(name: str, start: bool):
        def call() -> None:
            turn[0] += 1
            if failures >> (turn[0] % 8) & 1:
                raise RuntimeError("refused")
            (started.add if start else started.discard)(name)

        return call

    for name in "abc":
        tasks.add(agent.Task(name, switched(name, False), switched(name, True), name in started))
    return agent.Session("camera", tasks, lambda: 7, "virtual", "boot"), started


def check(data: bytes) -> None:
    """One execution."""
    if not data:
        return
    received = stream(data[1:])
    found, broken = messages(received, max(len(received), 1))
    assert (found, broken) == messages(received, 1 + data[0] % 7)
    subject, started = session(data[0] if data[0] & 1 else 0)
    agent.encode(subject.connected())
    for message in found:
        before = set(started)
        try:
            answer = subject.receive(message, 5)
        except agent.ProtocolError:
            return
        if answer is None:
            assert started == before
            continue
        json.loads(agent.encode(answer)[8:])
        if answer["report"] == "done" and message["order"] == "change" and started != before:
            assert answer["change"] == message["change"]
            assert set(message["start"]) <= started
            assert not set(message["stop"]) & started
        if answer["report"] == "failed" and answer["rolled_back"]:
            assert started == before, (message, answer, before, started)


atheris.Setup(sys.argv, check)
atheris.Fuzz()
