"""The verbs that take a description, or what can be said without one."""

from __future__ import annotations

from typing import Any, Optional, Sequence, Union, overload

from ._description import (
    Analysis,
    DescriptionLike,
    Predictions,
    analyze_description,
    is_description,
    predict_description,
)
from ._load import Batch, ExecutionTime, ExecutionTimeNs
from ._response import ResponseTimes, Server, predict_queue
from ._sizing import (
    Promises,
    SizedServer,
    ServiceSizing,
    Sizing,
    size_description,
    size_load,
)
from ._tasks import Policy, Schedulability, Servers, Tasks, analyze_tasks
from ._times import Nanoseconds, Time, Times, refuse


@overload
def analyze(tasks: DescriptionLike) -> Analysis: ...  # type: ignore[overload-overlap]


@overload
def analyze(
    tasks: Tasks,
    policy: Optional[Policy] = None,
    *,
    preemptive: bool = True,
    above: Servers = (),
) -> Schedulability: ...


def analyze(
    tasks: Union[Tasks, DescriptionLike],
    policy: Optional[Policy] = None,
    *,
    preemptive: bool = True,
    above: Servers = (),
) -> Union[Schedulability, Analysis]:
    """Whether tasks on one CPU, or all tasks of a description, meet their deadlines.

    Of tasks, also of a :class:`TaskSet`, the policy is ``"fp"`` if left out, and for a set that of the
    set. The answer holds for every offset: with the offsets that tasks have, more may be schedulable
    than it says. ``preemptive=False`` is for jobs that are not interrupted once they have begun, and
    ``above`` for reservation servers with higher priorities than all tasks, such as
    ``"deferrable:2ms/6ms"``; both under fixed priorities.

    Of a :class:`Description`, or the path of its file, every mode is judged, with the reservations of
    the domains, the CPUs that hold them, and the changes between modes: the answer of
    ``tailbound analyze FILE``.
    """
    if not is_description(tasks):
        return analyze_tasks(tasks, policy, preemptive=preemptive, above=above)
    if policy is not None or not preemptive or above:
        raise refuse(
            "a description says itself how its tasks are scheduled; leave policy, preemptive and above "
            "out"
        )
    return analyze_description(tasks)


@overload
def predict(
    description: DescriptionLike,
    *,
    service: Optional[str] = None,
    variant: Optional[str] = None,
    p: Optional[Sequence[float]] = None,
) -> Predictions: ...


@overload
def predict(
    *,
    rate: str,
    execution_time: Optional[ExecutionTime] = None,
    budget: Optional[Time] = None,
    period: Optional[Time] = None,
    server: Server = "deferrable",
    batch: Batch = 1,
    execution_time_samples: Optional[Times] = None,
    execution_time_ns: Optional[ExecutionTimeNs] = None,
    execution_time_samples_ns: Optional[Nanoseconds] = None,
    budget_ns: Optional[int] = None,
    period_ns: Optional[int] = None,
) -> ResponseTimes: ...


def predict(
    description: Optional[DescriptionLike] = None,
    *,
    service: Optional[str] = None,
    variant: Optional[str] = None,
    p: Optional[Sequence[float]] = None,
    rate: Optional[str] = None,
    **queue: Any,
) -> Union[Predictions, ResponseTimes]:
    """The response times of Poisson arrivals, first come, first served, on a reservation server of
    the highest priority on its CPU; or those of the services of a description.

    Parameters
    ----------
    description:
        A :class:`Description`, the path of its file (TOML), or a :class:`TaskSet`, in place of a queue:
        every service in every variant of its experiment, the answer of ``tailbound predict FILE``.
    service:
        Of a description: only the service of this name.
    variant:
        Of a description: only the variant of this name.
    p:
        Of a description: the probabilities at which bounds are as sharp as the methods allow.
    rate:
        How often jobs, or batches of them, come: ``"200/s"``, ``"0.4/ms"``.
    execution_time:
        The execution time of a job, ``"2ms"``, or several with their probabilities,
        ``{"1ms": 0.5, "3ms": 0.5}``, or a law: ``"exponential:mean=2ms"``,
        ``"lognormal:median=2ms,p99=9ms"``, ``"uniform:min=1ms,max=3ms"``.
    execution_time_samples:
        Measured execution times instead, a list or array; each counts the same.
    budget, period:
        The reservation: so much CPU time in every period.
    server:
        ``"deferrable"`` keeps its budget within the period, ``"periodic"`` loses what nothing
        needs, ``"polling"`` loses what nothing needs as soon as there is nothing to do,
        ``"constant-bandwidth"`` is SCHED_DEADLINE's, ``"dedicated"`` a CPU of its own.
    batch:
        How many jobs come at a time: a number, or numbers with their probabilities.

    Raises
    ------
    AnalysisError
        Where the load is not below the reservation, or no method holds; the text says what would
        help.
    """
    if description is None:
        if service is not None or variant is not None or p is not None:
            raise refuse("service, variant and p belong to a description; leave them out")
        if rate is None:
            raise refuse('rate is missing; give rate="200/s", or a description')
        return predict_queue(rate=rate, **queue)
    if rate is not None or queue:
        raise refuse("a description has loads and reservations of its own; give either it, or a queue")
    return predict_description(description, service, variant, p)


@overload
def size(
    description: DescriptionLike,
    *,
    service: Optional[str] = None,
    periods: Optional[str] = None,
    points: int = 20,
    server: Optional[SizedServer] = None,
    margin_points: float = 5.0,
    limit: bool = False,
) -> list[ServiceSizing]: ...


@overload
def size(
    *,
    rate: Optional[str] = None,
    execution_time: Optional[ExecutionTime] = None,
    slo: Optional[Promises] = None,
    tasks: Optional[Tasks] = None,
    periods: Optional[Times] = None,
    points: int = 20,
    server: SizedServer = "deferrable",
    batch: Batch = 1,
    margin_points: float = 5.0,
    limit: bool = False,
    execution_time_samples: Optional[Times] = None,
    execution_time_ns: Optional[ExecutionTimeNs] = None,
    execution_time_samples_ns: Optional[Nanoseconds] = None,
    slo_ns: Any = None,
    periods_ns: Optional[Nanoseconds] = None,
) -> Sizing: ...


def size(
    description: Optional[DescriptionLike] = None,
    *,
    service: Optional[str] = None,
    periods: Any = None,
    points: int = 20,
    margin_points: float = 5.0,
    limit: bool = False,
    **load: Any,
) -> Union[list[ServiceSizing], Sizing]:
    """The least budget at each period: with which all promises are kept, or with which periodic
    tasks run as on a CPU of their own; of a queue, of tasks, or of every service of a description.

    Parameters
    ----------
    description:
        A :class:`Description`, the path of its file (TOML), or a :class:`TaskSet`: every service in every
        mode, and the tasks that domains have of their own, for a host with the kernel's defaults. Periods
        are then a range, and are chosen by the description if left out.
    service:
        Of a description: only the service of this name.
    rate, execution_time, execution_time_samples, batch:
        The load of a queue, as of :func:`tailbound.predict`.
    slo:
        Shares of responses with their latencies: ``{0.9: "80ms", 0.99: "200ms"}``, or as on the
        command line ``"p90=80ms,p99=200ms"``.
    tasks:
        Periodic tasks in place of a queue and its promises, as of :func:`tailbound.least_budget`.
    periods:
        The periods to look at, or a range of them, ``"1ms..100ms"``.
    points:
        How many periods of a range are looked at, evenly spread by ratio.
    server:
        ``"deferrable"``, ``"periodic"``, ``"polling"`` or ``"constant-bandwidth"``; tasks are on a
        deferrable one.
    margin_points:
        Percentage points that are added to the bandwidth, in ``budget_with_margin``, for what the
        model leaves out.
    limit:
        The least CPU limit of a container in place of a reservation, in thousandths of a CPU
        (``Sizing.limit``), with what sets it (``Sizing.stanza``). Periods are those that the kernel
        takes, or 100 ms if left out; in a description, every domain has a limit.

    Raises
    ------
    AnalysisError
        Where the load is too much for a CPU, or no method holds. That promises cannot be kept is
        no error: ``Sizing.infeasible`` proves it.
    """
    if description is None:
        if service is not None:
            raise refuse("service belongs to a description; leave it out")
        return size_load(
            periods=periods, points=points, margin_points=margin_points, limit=limit, **load
        )
    server = load.pop("server", None)
    if load:
        raise refuse("a description has loads and promises of its own; give either it, or a queue")
    return size_description(
        description, service, periods, points, server, margin_points, limit
    )
