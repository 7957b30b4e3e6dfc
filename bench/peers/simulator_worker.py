"""One peer of bench/simulator, in a process of its own.

    simulator_worker.py simso|simpy|ciw|line_solver

Answers lines `SETTING JOBS` on standard input with `NANOSECONDS P50 P99 LONGEST JOBS`, times in
seconds, of the same settings as the example hierarchy_round. What a peer imports and builds is not
timed. SimSo also answers `ends-POLICY MICROSECONDS PERIOD,OFFSET,WORK ...` with the end of each job.
"""

import contextlib
import io
import random
import sys
import time

# Rate, execution time, budget and period of the queue, in seconds.
RATE, EXECUTION, BUDGET, PERIOD = 0.4, 1.0, 2.8, 4.0


def simso_model(policy, duration_ms, tasks):
    """Tasks are period, offset and work in milliseconds; the scheduler is SimSo's own for one CPU."""
    from simso.configuration import Configuration
    from simso.core import Model

    configuration = Configuration()
    configuration.duration = int(duration_ms * configuration.cycles_per_ms)
    for index, task in enumerate(tasks):
        # SimSo cuts off what is less than a nanosecond, so no product may be just below a whole one.
        period, offset, work = (value + 1e-7 if value else 0 for value in task)
        configuration.add_task(
            name=f"T{index}", identifier=index + 1, period=period, activation_date=offset,
            wcet=work, deadline=period, abort_on_miss=False,
        )
    configuration.add_processor(name="CPU", identifier=1)
    schedulers = {"fixed-priority": "RM_mono", "earliest-deadline": "EDF_mono"}
    configuration.scheduler_info.clas = f"simso.schedulers.{schedulers[policy]}"
    configuration.check_all()
    return Model(configuration)


def simso(line):
    setting, amount, *rest = line.split()
    if setting.startswith("ends-"):
        tasks = [[int(value) / 1e3 for value in task.split(",")] for task in rest]
        return simso_ends(simso_model(setting.removeprefix("ends-"), int(amount) / 1e3, tasks))
    periods = range(2, 12)
    tasks = [(period, 0, period * 0.07) for period in periods]
    duration_ms = int(amount) / sum(1 / period for period in periods)
    model = simso_model(setting, duration_ms, tasks)
    start = time.perf_counter_ns()
    model.run_model()
    took_ns = time.perf_counter_ns() - start
    # Response times are in cycles, here of a nanosecond each.
    per_task = [
        [job.response_time / 1e9 for job in task.jobs if job.response_time is not None]
        for task in model.results.tasks.values()
    ]
    return answer(took_ns, [one for task in per_task for one in task], per_task[-1])


def simso_ends(model):
    model.run_model()
    ends = []
    for task, found in model.results.tasks.items():
        for number, job in enumerate(found.jobs):
            # In cycles, here of a nanosecond each.
            if job.end_date is not None and job.end_date < model.duration:
                ends.append((task.identifier - 1, number, round(job.end_date)))
    return " ".join(f"{task}:{number}:{end}" for task, number, end in sorted(ends))


def answer(took_ns, responses, of_last=None):
    ordered = sorted(responses if of_last is None else of_last)
    p50, p99 = (ordered[int(share * (len(ordered) - 1))] for share in (0.5, 0.99))
    return f"{took_ns} {p50} {p99} {max(responses)} {len(responses)}"


class Exponential:
    """The distances between jobs, from Python's own generator."""

    def __init__(self):
        self.generator = random.Random(7)

    def exponential(self, mean):
        return self.generator.expovariate(1 / mean)


def simpy(line):
    import simpy as library

    from queue_peers import simpy_jobs

    setting, jobs = line.split()
    budget = BUDGET if setting == "queue-reserved" else PERIOD
    responses = []
    description = ("", RATE, EXECUTION, budget, PERIOD, "deferrable")
    environment = simpy_jobs(library, description, Exponential(), responses.append)
    start = time.perf_counter_ns()
    environment.run(until=int(jobs) / RATE)
    return answer(time.perf_counter_ns() - start, responses)


def ciw(line):
    import ciw as library

    _, jobs = line.split()
    library.seed(7)
    network = library.create_network(
        arrival_distributions=[library.dists.Exponential(RATE)],
        service_distributions=[library.dists.Deterministic(EXECUTION)],
        number_of_servers=[1],
    )
    simulation = library.Simulation(network)
    start = time.perf_counter_ns()
    simulation.simulate_until_max_time(int(jobs) / RATE)
    took_ns = time.perf_counter_ns() - start
    records = simulation.get_all_records()
    return answer(took_ns, [record.exit_date - record.arrival_date for record in records])


def line_solver(line):
    """LINE's discrete-event engine, a program of its own, whose start is timed; it tells means only.

    Its samples are taken for jobs.
    """
    import line_solver as library

    _, jobs = line.split()
    model = library.Network("M/D/1")
    source, sink = library.Source(model, "source"), library.Sink(model, "sink")
    queue = library.Queue(model, "queue", library.SchedStrategy.FCFS)
    job = library.OpenClass(model, "job")
    source.set_arrival(job, library.Exp(RATE))
    queue.set_service(job, library.Det(EXECUTION))
    model.link(library.Network.serial_routing(source, queue, sink))
    start = time.perf_counter_ns()
    # It tells its progress on standard output.
    with contextlib.redirect_stdout(io.StringIO()):
        library.SolverLDES(model, samples=int(jobs), seed=7).get_avg_table()
    return f"{time.perf_counter_ns() - start} nan nan nan {jobs}"


def main():
    peer = {"simso": simso, "simpy": simpy, "ciw": ciw, "line_solver": line_solver}[sys.argv[1]]
    for line in sys.stdin:
        print(peer(line), flush=True)


if __name__ == "__main__":
    main()
