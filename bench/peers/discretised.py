"""The thesis's discretised B/D(DS)/1 queue, compiled with numba.

H. Li, Real-Time Virtualization and Coordination for Edge Computing, doctoral thesis, Washington
University in St. Louis, 2021, algorithms 1 and 2 and equations 4.3, 4.4 and 4.11 to 4.13, with the
corrections that docs/concepts/response-time-grid.md lists. Written from the formulas; shares nothing
with crates/analysis.
"""

import math

import numba
import numpy as np


@numba.njit(cache=True)
def slot_passed(law, after, arrival, execution, on):
    """Equations 4.3 and 4.4: a slot of a periodic server that is off or on."""
    size, stay = len(law), 1.0 - arrival
    ahead = 1 if on else 0
    for l in range(size):
        above = law[l + ahead] if l + ahead < size else 0.0
        came = law[l + ahead - execution] if l + ahead >= execution else 0.0
        after[l] = stay * above + arrival * came
    if on:
        after[0] += stay * law[0]


@numba.njit(cache=True)
def workload(arrival, execution, budget, period, size, tolerance):
    """Algorithm 1: the law of the work left at the start of a period, in slots."""
    law = np.zeros(size)
    law[0] = 1.0
    after = np.zeros(size)
    for _ in range(1_000_000):
        before = law.copy()
        for slot in range(period):
            slot_passed(law, after, arrival, execution, slot >= period - budget)
            law, after = after, law
        law /= law.sum()
        if np.abs(law - before).sum() < tolerance:
            return law
    return law * np.nan


@numba.njit(cache=True)
def periodic_responses(law, arrival, execution, budget, period):
    """The same of a periodic server, which is on at the end of its period."""
    size = len(law)
    found = np.zeros(((size + execution) // budget + 3) * period)
    after = np.zeros(size)
    for slot in range(period):
        begin = max(slot, period - budget)
        for l in range(size):
            need = l + execution
            if need <= period - begin:
                done = begin - slot + need
            else:
                rest = need - (period - begin)
                full = (rest + budget - 1) // budget - 1
                done = period - slot + full * period + period - budget + rest - full * budget
            found[done] += law[l]
        slot_passed(law, after, arrival, execution, slot >= period - budget)
        law, after = after, law
    return found / period


@numba.njit(cache=True)
def response(l, g, slot, execution, budget, period):
    """Equation 4.11: slots until a job is done that finds l of work and g of budget."""
    need = l + execution
    first = min(g, period - slot)
    pause = period - slot - first
    if need <= first:
        return need
    if need <= first + budget:
        return need + pause
    more = (need - first - budget + budget - 1) // budget
    return need + pause + more * (period - budget)


@numba.njit(cache=True)
def responses(law, arrival, execution, budget, period):
    """Algorithm 2 and equation 4.13: the probability of each response time, in slots."""
    size = len(law)
    longest = response(size, 0, 0, execution, budget, period) + period + 1
    found = np.zeros(longest + 1)
    layer = np.zeros((budget + 1, size))
    layer[budget] = law
    after = np.zeros((budget + 1, size))
    stay = 1.0 - arrival
    for slot in range(period):
        after[:] = 0.0
        for g in range(max(0, budget - slot), budget + 1):
            for l in range(size):
                q = layer[g, l]
                if q == 0.0:
                    continue
                found[response(l, g, slot, execution, budget, period)] += q
                if g == 0:
                    after[0, l] += stay * q
                    if l + execution < size:
                        after[0, l + execution] += arrival * q
                elif l == 0:
                    after[g, 0] += stay * q
                    after[g - 1, execution - 1] += arrival * q
                else:
                    after[g - 1, l - 1] += stay * q
                    if l + execution - 1 < size:
                        after[g - 1, l + execution - 1] += arrival * q
        layer, after = after, layer
    return found / period


def decay(rate, execution, bandwidth):
    """The theta with rate (e^(theta d) - 1) = theta W: how fast the workload's tail falls."""
    low, high = 1e-9 / execution, 50.0 / execution
    for _ in range(200):
        middle = 0.5 * (low + high)
        if rate * math.expm1(middle * execution) < middle * bandwidth:
            low = middle
        else:
            high = middle
    return low


def probabilities(rate, execution, budget, period, slots, keeps=True, neglected=1e-14):
    """Pr(response = t slots), t = 0, 1, ..., with `slots` slots to an execution time, of a server
    that keeps its budget (deferrable) or does not (periodic). Budget and period are to be whole
    slots."""
    slot = execution / slots
    budget_slots, period_slots = round(budget / slot), round(period / slot)
    for length, count in ((budget, budget_slots), (period, period_slots)):
        if abs(length - count * slot) > 1e-9 * length:
            raise ValueError(f"{length} is no whole number of slots of {execution} / {slots}")
    tail = -math.log(neglected) / decay(rate, execution, budget / period) + execution
    law = workload(rate * slot, slots, budget_slots, period_slots, int(tail / slot), 1e-13)
    found = responses if keeps else periodic_responses
    return found(law, rate * slot, slots, budget_slots, period_slots)
