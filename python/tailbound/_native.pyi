"""What crosses the border: times are whole nanoseconds. Use the package, not this."""

import os
from pathlib import Path
from typing import Optional, Sequence, Union

__version__: str
ENGINE: int

class AnalysisError(ValueError):
    """There is no answer: what is wrong, and what would be right."""

    kind: str
    """The reason in one word, such as ``"overloaded"`` or ``"invalid"``."""

class PortError(Exception):
    """A port was not opened, or a message not passed."""

    kind: str
    """The reason in one word, such as ``"no-port"`` or ``"full"``."""

class SamplingWriter:
    @staticmethod
    def inherited(name: str) -> SamplingWriter: ...
    @staticmethod
    def create(longest: int, messages: int) -> SamplingWriter: ...
    def descriptor(self) -> int: ...
    def write(self, message: bytes) -> int: ...

class SamplingReader:
    @staticmethod
    def inherited(name: str) -> SamplingReader: ...
    @staticmethod
    def open(descriptor: int, validity_ns: int) -> SamplingReader: ...
    def read(self) -> Optional[tuple[bytes, tuple[int, int, int, bool]]]: ...

class QueuingSender:
    @staticmethod
    def inherited(name: str) -> QueuingSender: ...
    @staticmethod
    def create(longest: int, messages: int) -> QueuingSender: ...
    def descriptor(self) -> int: ...
    def connect(self, descriptor: int) -> None: ...
    def send(self, message: bytes) -> int: ...

class QueuingReceiver:
    @staticmethod
    def inherited(name: str) -> QueuingReceiver: ...
    @staticmethod
    def open(descriptor: int) -> QueuingReceiver: ...
    def descriptor(self) -> int: ...
    def receive(self) -> Optional[tuple[bytes, tuple[int, int, int, int]]]: ...

class TopicError(Exception):
    """A topic was not opened, or a message not passed."""

    kind: str
    """The reason in one word, such as ``"lacks"`` or ``"contract-broken"``."""

_QualityRow = tuple[int, bool, Optional[int], Optional[int], Optional[int]]
_ContractRow = tuple[int, Optional[int], int, int, bool]
_TopicRow = tuple[str, str, int, int, int, _QualityRow, Optional[_ContractRow]]

class TopicSpace:
    @staticmethod
    def in_process() -> TopicSpace: ...
    @staticmethod
    def udp_multicast(interface: str, port: int, hops: int, wall: bool) -> TopicSpace: ...
    @staticmethod
    def udp_unicast(
        routes: Sequence[tuple[str, Optional[str], Sequence[str]]], wall: bool
    ) -> TopicSpace: ...
    @staticmethod
    def shared_memory(name: str) -> TopicSpace: ...
    @staticmethod
    def zeromq_on_host(name: str, wall: bool) -> TopicSpace: ...
    @staticmethod
    def named(transport: str, address: str, wall: bool) -> TopicSpace: ...
    def publisher(self, topic: _TopicRow) -> Publisher: ...
    def subscriber(self, topic: _TopicRow) -> Subscriber: ...
    def close(self) -> None: ...

class Publisher:
    @property
    def source(self) -> int: ...
    def publish(self, payload: bytes, key: Optional[bytes], origin_ns: Optional[int]) -> None: ...
    def dispose(self, key: bytes) -> None: ...
    def assert_liveliness(self) -> None: ...
    def close(self) -> None: ...

class Subscriber:
    def take(
        self,
    ) -> Optional[tuple[bytes, tuple[int, int, int, int, int, int, bool]]]: ...
    def wait(self, limit_ns: int) -> bool: ...
    def take_event(self) -> Optional[tuple[str, int, int, Optional[str]]]: ...
    def counts(self) -> dict[str, int]: ...
    def close(self) -> None: ...

_Ends = tuple[list[int], list[Optional[int]]]
_Method = tuple[str, list[str]]
_Sizing = tuple[
    list[tuple[int, Optional[int], Optional[int], int, bool]],
    Optional[int],
    list[tuple[float, int, float, int, Optional[int]]],
    str,
    list[str],
    Optional[tuple[str, str, list[tuple[str, str]]]],
]

_SimulatedTask = tuple[
    tuple[str, Optional[str], str, int],
    tuple[int, int, int],
    tuple[Optional[int], Optional[int], list[Optional[tuple[int, Optional[int]]]]],
    float,
    Optional[Answer],
]
_Host = tuple[
    str,
    int,
    list[tuple[str, int, float, int, bool, Optional[str]]],
    list[_SimulatedTask],
    list[tuple[int, float, float, int]],
    list[str],
]

_Schedule = tuple[
    str,
    list[str],
    list[tuple[int, Optional[tuple[int, int]], int, int]],
    list[tuple[int, int, int, Optional[int], Optional[int], bool]],
    tuple[int, int],
]

_ChainTimes = tuple[int, list[Answer], list[tuple[str, Answer]]]
_SimulatedChain = tuple[
    str,
    tuple[Optional[int], Optional[int]],
    tuple[Optional[_ChainTimes], Optional[str]],
    list[str],
]
_SimulatedTopic = tuple[str, str, list[int]]

class Description:
    @staticmethod
    def load(path: Union[str, "os.PathLike[str]"]) -> "Description": ...
    @staticmethod
    def parse(text: str) -> "Description": ...
    @property
    def name(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def warnings(self) -> list[str]: ...

class Answer:
    def cdf(self, at_ns: Sequence[int]) -> tuple[list[float], list[float]]: ...
    def quantile(self, probabilities: Sequence[float]) -> _Ends: ...
    def mean(self) -> tuple[int, Optional[int]]: ...
    @property
    def method(self) -> str: ...
    @property
    def assumptions(self) -> list[str]: ...
    @property
    def evidence(self) -> str: ...
    @property
    def utilisation(self) -> Optional[float]: ...
    @property
    def bandwidth(self) -> Optional[float]: ...
    def proved(self) -> Optional[Answer]: ...

class Discretised:
    def cdf(self, at_ns: Sequence[int]) -> list[float]: ...
    def quantile(self, probabilities: Sequence[float]) -> list[Optional[int]]: ...
    @property
    def lost(self) -> float: ...

def parse_duration(text: str) -> int: ...
def parse_rate(text: str) -> float: ...
def parse_task(
    text: str,
) -> tuple[int, int, Optional[int], Optional[int], Optional[int], Optional[int]]: ...
def parse_promise(text: str) -> tuple[float, int]: ...
def parse_period_range(text: str) -> tuple[int, int]: ...
def parse_execution_times(text: str) -> Optional[list[tuple[int, float]]]: ...
def format_duration(nanoseconds: int) -> str: ...
def predict(
    per_second: float,
    execution_time: Union[Sequence[tuple[int, float]], str],
    batches: Sequence[tuple[int, float]],
    server: str,
    budget_ns: Optional[int],
    period_ns: Optional[int],
) -> Answer: ...
_SizedRow = tuple[Optional[str], str, str, Optional[str]]
_Budgets = tuple[_Sizing, str, Optional[str], Optional[str]]

def predict_description(
    description: Description,
    service: Optional[str],
    variant: Optional[str],
    probabilities: Sequence[float],
) -> list[
    tuple[
        str,
        str,
        str,
        Optional[str],
        list[tuple[float, int, Optional[str], str]],
        Optional[Answer],
    ]
]: ...
def size_description(
    description: Description,
    service: Optional[str],
    range_ns: Optional[tuple[int, int]],
    points: int,
    margin_points: float,
    server: Optional[str],
    is_limit: bool,
) -> list[tuple[_SizedRow, Optional[_Budgets]]]: ...
def predict_chains(
    description: Description, variant: Optional[str]
) -> list[
    tuple[
        str,
        str,
        Optional[str],
        list[tuple[str, Optional[int], Optional[float], Answer]],
    ]
]: ...
def size_frame(
    description: Description, host: Optional[str], grid_ns: int, most_windows: int
) -> tuple[str, str]: ...
def analyze_description(description: Description) -> tuple[str, list[str]]: ...
_SporadicRow = tuple[int, int, int, int, int]
_Asked = tuple[str, Sequence[int], int, Optional[int], int, int]

def global_test(
    tasks_ns: Sequence[_SporadicRow], cpus: int, test: str
) -> Optional[tuple[bool, list[Optional[int]], _Method]]: ...
def deadline_tests(
    tasks_ns: Sequence[_SporadicRow], cpus: int, preemptive: bool, above: Sequence[str]
) -> str: ...
def interface(tasks_ns: Sequence[_SporadicRow], policy: str, asked: _Asked) -> str: ...
def bounded_delay(
    tasks_ns: Sequence[_SporadicRow], policy: str, bandwidth: str, points: int
) -> str: ...
def interface_description(
    description: Description,
    domain: Optional[str],
    policy: str,
    compose_ns: Optional[int],
    asked: _Asked,
) -> tuple[str, list[str]]: ...
def fit_frequency_model(
    data: Path, set_points: Optional[Path], most_counters: int
) -> str: ...
def slowdowns(
    model: str,
    counters: Path,
    program: Optional[str],
    measured_at: Optional[str],
    set_points: Sequence[str],
) -> list[tuple[str, float, Optional[float], list[str]]]: ...
def compare(
    left: Answer,
    right: Optional[Answer],
    samples_ns: Optional[Sequence[int]],
    probabilities: Sequence[float],
    up_to: float,
    steps: int,
) -> tuple[_Ends, _Ends, tuple[int, int, int], tuple[float, float]]: ...
def size(
    per_second: float,
    execution_time: Union[Sequence[tuple[int, float]], str],
    batches: Sequence[tuple[int, float]],
    slo_ns: Sequence[tuple[float, int]],
    server: str,
    periods_ns: Sequence[int],
    margin_points: float,
    is_limit: bool,
) -> _Sizing: ...
def limit_periods(range_ns: Optional[tuple[int, int]]) -> tuple[int, int]: ...
def size_periodic(
    tasks_ns: Sequence[tuple[int, int, Optional[int]]],
    periods_ns: Sequence[int],
    margin_points: float,
) -> _Sizing: ...
def spread_periods(low_ns: int, high_ns: int, points: int) -> list[int]: ...
def hyperperiod(tasks_ns: Sequence[tuple[int, int, Optional[int]]]) -> int: ...
def bandwidth_curve(
    tasks_ns: Sequence[tuple[int, int, Optional[int]]], periods_ns: Sequence[int]
) -> tuple[list[int], float]: ...
def fixed_priority(
    tasks_ns: Sequence[_SporadicRow], policy: str, preemptive: bool, above: Sequence[str]
) -> str: ...
def earliest_deadline_first(
    tasks_ns: Sequence[_SporadicRow], preemptive: bool, above: Sequence[str]
) -> str: ...
def discretised(
    per_second: float,
    execution_time_ns: int,
    budget_ns: int,
    period_ns: int,
    slots: int,
    workloads: int,
    tolerance: float,
) -> Discretised: ...
_GeneratedTask = tuple[str, tuple[int, int, int, int], list[str]]

def generated_columns() -> list[str]: ...
def generate(
    recipe: tuple[float, Optional[int], str, str, str, str],
    scheduling: str,
    reservation_ns: Optional[tuple[int, int]],
    seed: int,
    sets: int,
) -> list[tuple[list[_GeneratedTask], str]]: ...

class Sweep:
    @staticmethod
    def plan(
        description: Description,
        vary: Sequence[tuple[str, Union[str, list[str]]]],
        seeds: int,
        span_ns: tuple[int, int],
        mode: Optional[str],
        variant: Optional[str],
    ) -> Sweep: ...
    @staticmethod
    def from_parcel(parcel: bytes) -> Sweep: ...
    def to_parcel(self) -> bytes: ...
    @property
    def units(self) -> int: ...
    @property
    def header(self) -> str: ...
    def rows(self, unit: int) -> str: ...

class Collection:
    @staticmethod
    def open(sweep: Sweep, out: str) -> Collection: ...
    def missing(self) -> list[int]: ...
    def text(self) -> str: ...
    def add(self, unit: int, rows: str) -> None: ...
    def write(self) -> None: ...
    def close(self) -> None: ...
    def leave(self) -> None: ...

def simulate(
    description: Description,
    mode: Optional[str],
    variant: Optional[str],
    seed: Optional[int],
    span_ns: tuple[int, int],
    probabilities: Sequence[float],
    window_ns: Optional[tuple[int, int]],
) -> tuple[list[_Host], list[_Schedule], tuple[list[_SimulatedChain], list[_SimulatedTopic]]]: ...
