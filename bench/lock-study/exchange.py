"""A writer and a reader of Cyclone DDS in two threads, for the study of locks: SAMPLES of 1 KiB, as fast as they are taken."""

import sys
import threading
from dataclasses import dataclass

from cyclonedds.core import ReadCondition, SampleState, ViewState, InstanceState, WaitSet
from cyclonedds.domain import DomainParticipant
from cyclonedds.idl import IdlStruct
from cyclonedds.idl.types import array, uint8
from cyclonedds.pub import DataWriter
from cyclonedds.qos import Policy, Qos
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic
from cyclonedds.util import duration


@dataclass
class Block(IdlStruct):
    data: array[uint8, 1024]


def main() -> None:
    samples = int(sys.argv[1])
    qos = Qos(Policy.Reliability.Reliable(duration(seconds=10)), Policy.History.KeepLast(1))
    # Two participants, so that samples go through the network and its threads.
    ends = [DomainParticipant(), DomainParticipant()]
    topics = [Topic(end, "blocks", Block, qos=qos) for end in ends]
    reader = DataReader(ends[0], topics[0], qos=qos)
    writer = DataWriter(ends[1], topics[1], qos=qos)
    waits = WaitSet(ends[0])
    waits.attach(ReadCondition(reader, SampleState.Any | ViewState.Any | InstanceState.Any))
    is_over = threading.Event()

    def take() -> None:
        while not is_over.is_set():
            waits.wait(duration(milliseconds=100))
            reader.take(100)

    taker = threading.Thread(target=take)
    taker.start()
    block = Block(bytes(1024))
    for _ in range(samples):
        writer.write(block)
    is_over.set()
    taker.join()


main()
