"""A simulation of a reservation server by its rule alone, job by job, in whole nanoseconds.

It knows nothing of stationary laws, period starts or ballots: it follows budget and work. Whole
nanoseconds, so that a job that ends exactly with the budget does so here too.
"""

import numba
import numpy as np

DEFERRABLE, PERIODIC = 0, 1
NOW, LEFT, WORK = 0, 1, 2


@numba.njit(cache=True)
def passed(state, kind, budget, period, length):
    """Lets `length` pass; state: time since the period's start, budget left, work left."""
    now, left, work = state[NOW], state[LEFT], state[WORK]
    while length > 0:
        if work == 0 and length >= period - now:
            now = (now + length) % period
            left = budget
            break
        step = min(length, period - now)
        offered = left if kind == DEFERRABLE else max(0, budget - now)
        served = min(work, min(offered, step))
        work -= served
        left -= served
        now += step
        length -= step
        if now == period:
            now = 0
            left = budget
    state[NOW], state[LEFT], state[WORK] = now, left, work


@numba.njit(cache=True)
def until_done(state, kind, budget, period):
    """How long the work that is there now takes, first come, first served."""
    now, left, need = state[NOW], state[LEFT], state[WORK]
    offered = left if kind == DEFERRABLE else max(0, budget - now)
    first = min(offered, period - now)
    if need <= first:
        return need
    need -= first
    full = (need + budget - 1) // budget - 1
    return period - now + full * period + need - full * budget


@numba.njit(cache=True)
def drawn(values, cumulated):
    draw = np.random.random()
    index = 0
    while index + 1 < len(values) and draw >= cumulated[index]:
        index += 1
    return values[index]


@numba.njit(cache=True)
def run(state, fraction, seed, kind, gap, server, times, batches, jobs, points, bins, bin_length):
    """Counts of responses within each point, a histogram, and the sum, over about `jobs` jobs."""
    if seed >= 0:
        np.random.seed(seed)
    budget, period = server
    counts = np.zeros(len(points), np.int64)
    histogram = np.zeros(bins + 1, np.int64)
    total, count = 0.0, 0
    while count < jobs:
        wait = np.random.exponential(gap) + fraction[0]
        whole = np.int64(wait)
        fraction[0] = wait - whole
        passed(state, kind, budget, period, whole)
        for _ in range(drawn(batches[0], batches[1])):
            state[WORK] += drawn(times[0], times[1])
            response = until_done(state, kind, budget, period)
            total += response
            count += 1
            histogram[min(response // bin_length, bins)] += 1
            for index in range(len(points)):
                if response <= points[index]:
                    counts[index] += 1
    return counts, histogram, total, count


class Simulation:
    """One setting; times in nanoseconds, rate of batches per second."""

    def __init__(self, kind, rate, times, batches, budget, period, seed):
        law = lambda pairs: (
            np.array([value for value, _ in pairs], np.int64),
            np.cumsum([p for _, p in pairs]),
        )
        self.kind, self.gap = kind, 1e9 / rate
        self.server = (np.int64(budget), np.int64(period))
        self.times, self.batches = law(times), law(batches)
        self.state = np.array([0, budget, 0], np.int64)
        self.fraction = np.zeros(1)
        self.seed = seed

    def run(self, jobs, points=(), bins=1, bin_length=1 << 62):
        found = run(
            self.state, self.fraction, self.seed, self.kind, self.gap, self.server, self.times,
            self.batches, jobs, np.array(points, np.int64), bins, np.int64(bin_length),
        )
        self.seed = -1
        return found


def quantile(histogram, bin_length, share):
    """From a histogram, linear within a bin."""
    cumulated = np.cumsum(histogram)
    target = share * cumulated[-1]
    index = int(np.searchsorted(cumulated, target))
    before = cumulated[index - 1] if index else 0
    inside = (target - before) / max(1, cumulated[index] - before)
    return (index + inside) * bin_length
