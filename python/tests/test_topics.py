"""Topics: what passes, what is refused, callbacks, and that others run while one waits."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from typing import Any

import pytest

import tailbound
from tailbound import topics

PATIENCE = "20s"
TOPIC = topics.Topic("people", "Positions", longest=64, quality=topics.Quality(history=8))


def free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
        own.bind(("127.0.0.1", 0))
        port: int = own.getsockname()[1]
        return port


def test_messages_events_and_counts_within_a_process() -> None:
    with topics.DataSpace.in_process() as space:
        subscriber, publisher = space.subscriber(TOPIC), space.publisher(TOPIC)
    # What was opened outlives its space.
    with subscriber, publisher:
        assert subscriber.take() is None
        assert not subscriber.wait("1ms")
        publisher.publish(b"one")
        publisher.publish(b"", origin_ns=5)
        publisher.publish(b"three", key=b"k")
        publisher.dispose(b"k")
        publisher.assert_liveliness()
        assert subscriber.wait(PATIENCE)
        first, second, third, gone = list(subscriber.messages())
        assert (first.payload, first.sequence, first.instance) == (b"one", 0, 0)
        assert first.source == publisher.source
        assert first.data_age_ns == first.age_ns >= 0
        assert (second.payload, second.origin_time_ns, second.disposes) == (b"", 5, False)
        assert second.data_age_ns > second.age_ns
        assert third.instance == gone.instance != 0 and gone.disposes
        publisher.close()
        assert [event.kind for event in subscriber.events()] == ["appeared"]
        assert subscriber.wait(PATIENCE) and subscriber.take() is None
        assert [event.kind for event in subscriber.events()] == ["publisher-ended"]
        counts = subscriber.counts()
        assert (counts.delivered, counts.signs, counts.lost) == (4, 2, 0)


def test_a_contract_is_kept_at_both_ends() -> None:
    contract = topics.Contract(messages=1, interval="60min")
    promised = topics.Topic("people", "Positions", 64, publishers=2, contract=contract)
    with topics.DataSpace.in_process() as space:
        with space.publisher(promised) as publisher:
            publisher.publish(b"1")
            with pytest.raises(topics.TopicError, match="send later, or less") as refused:
                publisher.publish(b"2")
            assert refused.value.kind == "contract-broken"
        flooded = topics.Topic(
            "people", "Positions", 64, quality=topics.Quality(history=4), contract=contract
        )
        with space.subscriber(flooded) as subscriber, space.publisher(TOPIC) as flood:
            for _ in range(3):
                flood.publish(b"x")
            assert len(list(subscriber.messages())) == 1
            events = list(subscriber.events())
            assert [event.kind for event in events] == ["appeared", "contract-broken"]
            assert (events[1].count, events[1].breach) == (2, "messages")
            assert subscriber.counts().dropped == 2


@pytest.mark.parametrize(
    "change, kind",
    [
        ({"quality": topics.Quality(reliable=True)}, "lacks"),
        ({"longest": 2**31}, "lacks"),
        ({"publishers": 2**32 - 1}, "lacks"),
        ({"contract": topics.Contract(messages=0, interval="1ms")}, "contract-fault"),
        ({"contract": topics.Contract(messages=1, interval="0ms")}, "contract-fault"),
    ],
)
def test_topics_that_cannot_be_are_refused(change: dict[str, Any], kind: str) -> None:
    values = {"name": "people", "type_name": "Positions", "longest": 64, **change}
    with topics.DataSpace.in_process() as space:
        for make in (space.publisher, space.subscriber):
            with pytest.raises(topics.TopicError) as refused:
                make(topics.Topic(**values))
            assert refused.value.kind == kind


def test_arguments_without_a_meaning_are_refused() -> None:
    space = topics.DataSpace.in_process()
    for topic in [
        topics.Topic("people", "Positions", 0),
        topics.Topic("people", "Positions", 1, quality=topics.Quality(history=0)),
        topics.Topic("people", "Positions", 1, quality=topics.Quality(deadline=5)),  # type: ignore[arg-type]
        topics.Topic("p", "P", 1, contract=topics.Contract(1, "1ms", violation="keep")),
    ]:
        with pytest.raises(tailbound.AnalysisError):
            space.publisher(topic)
    with pytest.raises(topics.TopicError, match="127.0.0.1"):
        topics.DataSpace.udp_multicast("localhost", 7400)
    with pytest.raises(tailbound.AnalysisError):
        topics.DataSpace.udp_multicast("127.0.0.1", 0)
    with pytest.raises(topics.TopicError, match="7400"):
        topics.DataSpace.udp_unicast([topics.Route("people", listen="127.0.0.1")])
    with space.publisher(TOPIC) as publisher:
        with pytest.raises(topics.TopicError) as refused:
            publisher.publish(b"x" * 65)
        assert refused.value.kind == "too-long"
        with pytest.raises(TypeError):
            publisher.publish("text")  # type: ignore[arg-type]
    with pytest.raises(topics.TopicError) as refused:
        publisher.publish(b"x")
    assert refused.value.kind == "closed"


def test_other_threads_run_while_one_waits_and_callbacks_come() -> None:
    texts: list[bytes] = []
    ended = threading.Event()

    def on_event(event: topics.Event) -> None:
        if event.kind == "publisher-ended":
            ended.set()

    with topics.DataSpace.in_process() as space:
        with space.subscriber(TOPIC).on_message(lambda m: texts.append(m.payload), on_event):
            with space.publisher(TOPIC) as publisher:
                publisher.publish(b"one")
                publisher.publish(b"two")
            assert ended.wait(20)
    assert texts == [b"one", b"two"]


def test_what_a_callback_raises_comes_out_at_the_end() -> None:
    called = threading.Event()

    def fail(message: topics.Message) -> None:
        called.set()
        raise KeyError(message.payload)

    with topics.DataSpace.in_process() as space, space.publisher(TOPIC) as publisher:
        thread = space.subscriber(TOPIC).on_message(fail)
        publisher.publish(b"bad")
        assert called.wait(20)
        with pytest.raises(KeyError, match="bad"):
            thread.close()
        thread.close()


def test_processes_exchange_messages_over_datagrams() -> None:
    port = free_port()
    program = f"""
import sys
from tailbound import topics
space = topics.DataSpace.udp_multicast("127.0.0.1", {port})
ping = topics.Topic("ping", "bytes", 256, quality=topics.Quality(history=16))
with space.subscriber(ping) as subscriber, space.publisher(topics.Topic("pong", "bytes", 256)) as publisher:
    while subscriber.wait("20s"):
        for message in subscriber.messages():
            if message.payload == b"end":
                sys.exit(0)
            publisher.publish(message.payload[::-1], origin_ns=message.origin_time_ns)
sys.exit(1)
"""
    child = subprocess.Popen([sys.executable, "-c", program])
    try:
        space = topics.DataSpace.udp_multicast("127.0.0.1", port)
        pong = topics.Topic("pong", "bytes", 256, quality=topics.Quality(history=16))
        with space.subscriber(pong) as subscriber:
            with space.publisher(topics.Topic("ping", "bytes", 256)) as publisher:
                answer = None
                end = time.monotonic() + 60
                while answer is None and time.monotonic() < end:
                    publisher.publish(b"abc", origin_ns=77)
                    subscriber.wait("100ms")
                    answer = subscriber.take()
                assert answer is not None
                assert (answer.payload, answer.origin_time_ns) == (b"cba", 77)
                while child.poll() is None and time.monotonic() < end:
                    publisher.publish(b"end")
                    time.sleep(0.05)
        assert child.returncode == 0
    finally:
        child.kill()
        child.wait()


def test_an_interrupt_ends_a_wait() -> None:
    # A shell starts background programs with the signal ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with topics.DataSpace.in_process() as space, space.subscriber(TOPIC) as subscriber:
            timer = threading.Timer(0.2, signal.raise_signal, [signal.SIGINT])
            timer.start()
            with pytest.raises(KeyboardInterrupt):
                subscriber.wait()
            timer.join()
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_data_space_is_opened_by_the_name_of_its_transport() -> None:
    # A domain of its own, so that programs which run beside are in others.
    address = f"127.0.0.1:{100 + os.getpid() % 100}"
    with topics.DataSpace.named("rtps", address) as space:
        with space.subscriber(TOPIC) as subscriber, space.publisher(TOPIC) as publisher:
            for _ in range(400):
                publisher.publish(b"by DDS")
                if subscriber.wait("50ms"):
                    break
            message = subscriber.take()
            assert message is not None and message.payload == b"by DDS"
    for transport, kind in (("pigeons", "invalid"), ("zenoh", "absent"), ("udp", "refused")):
        with pytest.raises(topics.TopicError) as refused:
            topics.DataSpace.named(transport, "nowhere")
        assert refused.value.kind in (kind, "refused"), transport


def test_a_package_without_a_transport_says_so() -> None:
    for make in (topics.DataSpace.shared_memory, topics.DataSpace.zeromq_on_host):
        with pytest.raises(topics.TopicError) as refused:
            make("bad name!")
        assert refused.value.kind in ("absent", "refused")
