"""Response times of a CPU of its own, by a closed form, in decimal arithmetic.

The waiting time of M/G/1 with work in multiples of a unit u has the distribution function

    W(t) = (1 - rho) * sum over k <= t / u of e^(lambda (t - k u)) h_k(lambda (k u - t)),

with h_k(x) = sum over n of x^n / n! * Pr(n batches bring k units): Erlang's formula for M/D/1 (1909)
is the case of one size, and the general one follows from the transform of Pollaczek and Khinchine in
the same way. Terms alternate, so the sum is taken with many digits.
"""

from decimal import Decimal, getcontext
from math import gcd

getcontext().prec = 120


def batch_laws(times, batches):
    """The law of the work of a batch, and that of a job together with what of its batch goes first."""
    mean = sum(Decimal(str(p)) * jobs for jobs, p in batches)
    total, tagged, work = {}, {}, {0: Decimal(1)}
    for place in range(1, max(jobs for jobs, _ in batches) + 1):
        more = {}
        for before, p in work.items():
            for time, q in times:
                more[before + time] = more.get(before + time, 0) + p * Decimal(str(q))
        work = more
        exactly = sum(Decimal(str(p)) for jobs, p in batches if jobs == place)
        at_least = sum(Decimal(str(p)) for jobs, p in batches if jobs >= place)
        for amount, p in work.items():
            if exactly:
                total[amount] = total.get(amount, 0) + p * exactly
            tagged[amount] = tagged.get(amount, 0) + p * at_least / mean
    return total, tagged


class OwnCpu:
    """Times in nanoseconds, rate of batches per second."""

    def __init__(self, rate, times, batches):
        self.total, self.tagged = batch_laws(times, batches)
        self.rate = Decimal(str(rate)) / 10**9
        self.unit = 0
        for amount in self.total:
            self.unit = gcd(self.unit, amount)
        self.mean_work = sum(amount * p for amount, p in self.total.items())
        self.idle = 1 - self.rate * self.mean_work

    def waiting(self, at):
        if at < 0:
            return Decimal(0)
        sizes = [(amount // self.unit, p) for amount, p in self.total.items()]
        terms = int(at // self.unit)
        found = Decimal(0)
        for k in range(terms + 1):
            x = self.rate * (k * self.unit - at)
            h = [Decimal(1)]
            for j in range(1, k + 1):
                inner = sum((s * p * h[j - s] for s, p in sizes if s <= j), Decimal(0))
                h.append(x * inner / j)
            found += (-x).exp() * h[k]
        return self.idle * found

    def cdf(self, at):
        return sum(p * self.waiting(Decimal(at) - own) for own, p in self.tagged.items())

    def quantile(self, share):
        """In nanoseconds; exact where an atom covers the share."""
        low = Decimal(min(self.tagged))
        if self.cdf(low) >= Decimal(str(share)):
            return low
        high = 2 * low
        while self.cdf(high) < Decimal(str(share)):
            high *= 2
        while high - low > Decimal("0.001"):
            middle = (low + high) / 2
            if self.cdf(middle) < Decimal(str(share)):
                low = middle
            else:
                high = middle
        return high

    def mean(self):
        """Pollaczek and Khinchine."""
        square = sum(amount**2 * p for amount, p in self.total.items())
        own = sum(amount * p for amount, p in self.tagged.items())
        return self.rate * square / (2 * self.idle) + own
