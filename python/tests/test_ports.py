"""Ports: both ends within a process, what is refused, and inherited ends of another process."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time

import pytest

from tailbound import ports


def test_the_newest_sample_is_read_with_its_age() -> None:
    writer = ports.SamplingWriter.create(longest=16)
    reader = ports.SamplingReader.open(writer.descriptor, "60min")
    assert reader.read() is None
    assert (writer.write(b"old"), writer.write(b"newest")) == (1, 2)
    sample = reader.read()
    assert sample is not None
    assert (sample.payload, sample.number, sample.valid) == (b"newest", 2, True)
    assert sample.written_time_ns <= time.monotonic_ns() and sample.age_ns >= 0
    strict = ports.SamplingReader.open(writer.descriptor, "1ns")
    time.sleep(0.001)
    late = strict.read()
    assert late is not None and not late.valid
    with pytest.raises(ports.PortError) as refused:
        writer.write(b"x" * 17)
    assert refused.value.kind == "too-long"


def test_a_queue_is_full_and_empty() -> None:
    sender = ports.QueuingSender.create(longest=8, messages=2)
    assert not sender.send(b"early")
    receiver = ports.QueuingReceiver.open(sender.descriptor)
    sender.connect(receiver.descriptor)
    assert receiver.receive() is None
    assert [sender.send(text) for text in (b"one", b"two", b"three")] == [True, True, False]
    first, second = receiver.receive(), receiver.receive()
    assert first is not None and second is not None
    assert (first.payload, first.number, first.waiting) == (b"one", 1, 1)
    assert (second.payload, second.number, second.waiting) == (b"two", 2, 0)
    assert receiver.receive() is None


def test_what_is_no_port_is_refused() -> None:
    with pytest.raises(ports.PortError, match="2 to 65536") as refused:
        ports.SamplingWriter.create(longest=8, messages=1)
    assert refused.value.kind == "size"
    with open(os.devnull, "rb") as other:
        for descriptor in (-1, 10**6, other.fileno()):
            with pytest.raises(ports.PortError) as refused:
                ports.SamplingReader.open(descriptor, "1ms")
            assert refused.value.kind == "no-port"
    with pytest.raises(ports.PortError, match="`nothing`") as refused:
        ports.QueuingReceiver.inherited("nothing")
    assert refused.value.kind == "no-port"


def test_a_process_inherits_ports() -> None:
    pairs = [socket.socketpair() for _ in range(2)]
    for end in (one for pair in pairs for one in pair):
        end.setblocking(False)
    (position, position_there), (orders, orders_there) = pairs
    child_ports = (
        f"position:sampling-writer:16:4:0:{position_there.fileno()} "
        f"orders:queuing-receiver:16:2:0:{orders_there.fileno()}"
    )
    program = """
import time
from tailbound import ports
position = ports.SamplingWriter.inherited("position")
orders = ports.QueuingReceiver.inherited("orders")
while True:
    order = orders.receive()
    if order is None:
        time.sleep(0.001)
        continue
    position.write(order.payload)
    if order.payload == b"end":
        break
"""
    child = subprocess.Popen(
        [sys.executable, "-c", program],
        env={**os.environ, "TAILBOUND_PORTS": child_ports},
        pass_fds=[position_there.fileno(), orders_there.fileno()],
    )
    own = (
        f"position:sampling-reader:16:4:3600000000000:{position.fileno()} "
        f"orders:queuing-sender:16:2:0:{orders.fileno()}"
    )
    os.environ["TAILBOUND_PORTS"] = own
    try:
        reader = ports.SamplingReader.inherited("position")
        sender = ports.QueuingSender.inherited("orders")
        with pytest.raises(ports.PortError) as refused:
            ports.SamplingWriter.inherited("position")
        assert refused.value.kind == "other-role"
        end = time.monotonic() + 60
        for text in (b"north", b"south", b"end"):
            while not sender.send(text):
                assert time.monotonic() < end
                time.sleep(0.001)
            while (sample := reader.read()) is None or sample.payload != text:
                assert time.monotonic() < end
                time.sleep(0.001)
            assert sample.valid
        assert child.wait(60) == 0
    finally:
        del os.environ["TAILBOUND_PORTS"]
        child.kill()
        child.wait()
        for pair in pairs:
            for one in pair:
                one.close()
