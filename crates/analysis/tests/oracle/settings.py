"""The settings of the golden file: which queue, on which reservation server, and why it is there."""

from dataclasses import dataclass, field

SECOND = 10**9


@dataclass
class Setting:
    name: str
    rate: float
    budget: float
    period: float
    times: list = field(default_factory=lambda: [(1.0, 1.0)])
    batches: list = field(default_factory=lambda: [(1, 1.0)])
    rule: str = "deferrable"
    # The least number of slots per execution time with which budget and period are whole slots; 0
    # where there is none, or it would take too long.
    slots: int = 0
    # Response times of special interest, in seconds.
    at: list = field(default_factory=list)
    # How far apart the bounds of a quantile may be, relative.
    apart: float = 1e-5

    def times_ns(self):
        return [(round(time * SECOND), p) for time, p in self.times]

    def server_ns(self):
        return round(self.budget * SECOND), round(self.period * SECOND)

    def own_cpu(self):
        return self.rule == "dedicated" or self.budget == self.period


def thesis():
    """Figures 4.10, 4.11, 4.13, 4.14 and 4.16."""
    base = dict(budget=1.2, period=2.0, slots=5)
    yield Setting("figure 4.10, the base", 0.4, at=[1.0, 1.8, 2.0], **base)
    yield Setting("figure 4.10, the base, a periodic server", 0.4, rule="periodic", at=[2.0], **base)
    yield Setting("figure 4.10a, fewer jobs", 0.2, **base)
    yield Setting("figure 4.10a, more jobs", 0.5, **base)
    yield Setting("figure 4.10b, jobs half as long", 0.4, 1.2, 2.0, [(0.5, 1.0)], slots=5)
    yield Setting("figure 4.10b, longer jobs", 0.4, 1.2, 2.0, [(1.25, 1.0)])
    yield Setting("figure 4.10c, half of the CPU", 0.4, 1.0, 2.0, slots=5, at=[2.0])
    yield Setting("figure 4.10c, four fifths of the CPU", 0.4, 1.6, 2.0, slots=5)
    yield Setting("figure 4.10c, all of the CPU", 0.4, 2.0, 2.0)
    yield Setting("figure 4.10d, half the period", 0.4, 0.6, 1.0, slots=5)
    yield Setting("figure 4.10d, twice the period", 0.4, 2.4, 4.0, slots=5)
    yield Setting("figure 4.10d, four times the period", 0.4, 4.8, 8.0, slots=5)
    slo = "figure 4.11, the promise of p90 < 3 (just missed: F(3) = 0.892)"
    yield Setting(slo, 0.4, 2.8, 4.0, slots=5, at=[3.0])
    yield Setting("the bandwidth at which that promise is about kept", 0.4, 2.846, 4.0, at=[3.0])
    yield Setting("a longer period at half of the CPU is a little worse", 0.4, 1.2, 2.4, slots=5)
    fig13 = dict(times=[(0.1, 1.0)])
    yield Setting("figure 4.13, B = 120 ms", 4.0, 0.12, 0.2, slots=5, **fig13)
    yield Setting("figure 4.13, B = 160 ms", 4.0, 0.16, 0.2, slots=5, **fig13)
    yield Setting("figure 4.13, B = P = 200 ms", 4.0, 0.2, 0.2, **fig13)
    yield Setting("figure 4.14, P = 100 ms", 4.0, 0.06, 0.1, slots=5, **fig13)
    yield Setting("figure 4.14, P = 400 ms", 4.0, 0.24, 0.4, slots=5, **fig13)
    redis = dict(rate=40.0, budget=0.006, period=0.010)
    yield Setting("figure 4.16, Redis, mean execution time", times=[(0.00855, 1.0)], **redis)
    yield Setting("figure 4.16, Redis, worst execution time", times=[(0.01023, 1.0)], **redis)


def shapes():
    """Loads near the bandwidth, numbers without a common divisor, and extreme ratios."""
    yield Setting("95 % of the bandwidth", 0.57, 1.2, 2.0)
    yield Setting("95 % of the bandwidth, periodic", 0.57, 1.2, 2.0, rule="periodic")
    yield Setting("95 % of the bandwidth, longer period", 0.665, 2.8, 4.0)
    yield Setting("95 % of an own CPU", 0.95, 1.0, 1.0, rule="dedicated")
    odd = dict(budget=1.234_567, period=2.012)
    yield Setting("no common divisor", 0.4, **odd)
    yield Setting("no common divisor, periodic", 0.4, rule="periodic", **odd)
    yield Setting("no common divisor, in the last digit", 0.4, 1.234_567_891, 2.012_345_678)
    yield Setting("no common divisor, 95 % of the bandwidth", 0.58, apart=2e-4, **odd)
    yield Setting("B and d have one, P has none", 0.4, 1.2, 1.987_654_321)
    yield Setting("B near to d, no common divisor", 0.4, 1.003_009, 2.0)
    yield Setting("long jobs, d = 50 B", 0.3, 0.02, 0.05)
    yield Setting("long jobs, d = 20 B, periodic", 0.3, 0.05, 0.1, rule="periodic")
    yield Setting("long jobs, 95 % of the bandwidth", 0.57, 0.06, 0.1)
    yield Setting("long periods, P = 50 d", 0.4, 30.0, 50.0)
    yield Setting("long periods, P = 50 d, periodic", 0.4, 30.0, 50.0, rule="periodic")
    yield Setting("long periods, 95 % of the bandwidth", 0.57, 12.0, 20.0)
    yield Setting("short periods, P = d / 100", 0.4, 0.005, 0.01)
    yield Setting("a light load", 0.01, 0.6, 1.0, slots=5)


def ties():
    """Responses that end exactly with the budget, or with a period."""
    yield Setting("B = d", 0.4, 1.0, 2.0, slots=4, at=[1.0, 1.25, 2.0, 3.0])
    yield Setting("B = d, periodic", 0.4, 1.0, 2.0, rule="periodic", slots=4, at=[1.0, 2.0, 3.0])
    yield Setting("d = 2 B", 0.3, 0.5, 1.0, slots=4, at=[1.5, 2.0, 2.5])
    yield Setting("B = 2 d, P = 3 d", 0.5, 2.0, 3.0, slots=4, at=[1.0, 2.0, 3.0, 4.0])
    yield Setting("P = d", 0.4, 0.5, 1.0, slots=4, at=[1.5, 2.0, 2.5], times=[(1.0, 1.0)])


def own_cpus():
    yield Setting("an own CPU, 40 %", 0.4, 1.0, 1.0, rule="dedicated", at=[1.0, 2.0, 3.0])
    yield Setting("an own CPU, 90 %", 0.9, 1.0, 1.0, rule="dedicated", at=[1.0, 2.0, 5.5])
    yield Setting("B = P, shorter than d", 0.7, 0.3, 0.3)
    yield Setting("B = P, longer than d, periodic", 0.7, 1.7, 1.7, rule="periodic")


def laws():
    """Execution times that vary, and jobs that come several at a time."""
    two, three = [(0.5, 0.5), (1.5, 0.5)], [(1, 0.5), (3, 0.5)]
    yield Setting("two execution times", 0.4, 1.5, 2.0, two)
    yield Setting("rare long jobs, periodic", 0.4, 1.4, 2.0, [(0.2, 0.7), (2.0, 0.3)], rule="periodic")
    heavy = [(0.25, 0.6), (0.5, 0.25), (1.0, 0.1), (4.0, 0.05)]
    yield Setting("four execution times", 0.6, 1.25, 2.0, heavy)
    even = [(0.2 + 0.1 * step, 0.125) for step in range(8)]
    yield Setting("eight execution times", 0.6, 1.2, 2.1, even)
    yield Setting("two execution times, own CPU", 0.5, 1.0, 1.0, two, rule="dedicated")
    yield Setting("batches", 0.2, 1.5, 2.5, batches=three)
    few = [(1, 0.6), (2, 0.3), (4, 0.1)]
    yield Setting("batches, periodic", 0.15, 1.2, 2.0, batches=few, rule="periodic")
    yield Setting("batches, own CPU", 0.3, 1.0, 1.0, batches=three, rule="dedicated")
    yield Setting("batches of two execution times", 0.2, 1.5, 2.0, two, batches=[(1, 0.5), (2, 0.5)])


SETTINGS = [*thesis(), *shapes(), *ties(), *own_cpus(), *laws()]
