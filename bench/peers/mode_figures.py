"""Our mode changes beside figures 2.7 and 2.8 of Li's thesis (2021); `bench/modes` runs it.

Printed: what the thesis states of its figures, and the same of ours. With matplotlib also NAME.svg beside the
result: latencies by policy and number of domains for each total bandwidth (2.7), 99th percentiles (2.8a), the
distribution with most domains (2.8b), and the means of single cases (2.8c). What the thesis states is drawn in
grey; its plots themselves are not copied. It had 15 CPUs for virtual machines of three virtual CPUs under Xen, a
message by the hypervisor's own channel, and a period of 10 ms, as here.

Usage: mode_figures.py RESULT.json
"""

import json
import pathlib
import statistics
import sys

POLICIES = ["sequential", "batch", "greedy", "boost", "prompt", "prompt, agents beside"]
USER_LEVEL = ["sequential", "batch", "greedy"]
#: The thesis's totals of 15 CPUs, in thousandths: 8.0 (figure 2.8a) and 9.0 (figure 2.8b).
TOTAL_OF_P99, TOTAL_OF_CDF = 533, 600
#: Stated in section 2.5.4, in milliseconds.
BOOST_MOST, BOOST_RANGE = 1.5, (1.09, 1.49)
USER_LEVEL_P99_LEAST = 5.0
GREEDY_LEAST, GREEDY_SLOW = 2.25, 4.0
NS_PER_MS = 1e6


class Result:
    """The rows of a run of `mode_changes`."""

    def __init__(self, path):
        self.rows = json.loads(path.read_text())
        self.totals = sorted({row["total_permille"] for row in self.rows})
        self.domains = sorted({row["domains"] for row in self.rows})

    def nearest_total(self, wanted):
        """The measured total that is nearest to the thesis's."""
        return min(self.totals, key=lambda total: abs(total - wanted))

    def cases_ms(self, total, domains, policy):
        """The latencies of each case, in milliseconds."""
        for row in self.rows:
            if (row["total_permille"], row["domains"], row["variant"]) == (total, domains, policy):
                return [[ns / NS_PER_MS for ns in case] for case in row["latencies_ns"]]
        raise SystemExit(f"no row of {policy}, {domains} domains, {total / 10}%")

    def latencies_ms(self, total, domains, policy):
        """All latencies, sorted, in milliseconds."""
        return sorted(one for case in self.cases_ms(total, domains, policy) for one in case)


def quantile(values, share):
    """The least value with so large a share at or below it; of sorted values."""
    return values[max(1, -int(-share * len(values) // 1)) - 1]


def beside(result):
    """Rows of what the thesis states: the claim, its figure, ours."""
    most = result.domains[-1]
    total = result.nearest_total(TOTAL_OF_CDF)
    at = f"{most} domains, {total / 10:g}%"
    boost, greedy, prompt = (result.latencies_ms(total, most, name) for name in ("boost", "greedy", POLICIES[-1]))
    slow = sum(one > GREEDY_SLOW for one in greedy) / len(greedy)
    rows = [
        (f"boost, least to most ms ({at})", "%.2f to %.2f" % BOOST_RANGE, f"{boost[0]:.2f} to {boost[-1]:.2f}"),
        (f"prompt, agents beside ({at})", "-", f"{prompt[0]:.2f} to {prompt[-1]:.2f}"),
        (f"greedy, least ms ({at})", f"{GREEDY_LEAST}", f"{greedy[0]:.2f}"),
        (f"greedy, above {GREEDY_SLOW:g} ms ({at})", "more than 10%", f"{slow:.0%}"),
    ]
    total = result.nearest_total(TOTAL_OF_P99)
    p99 = {
        name: [quantile(result.latencies_ms(total, domains, name), 0.99) for domains in result.domains]
        for name in POLICIES
    }
    user = [one for name in USER_LEVEL for one in p99[name]]
    at = f"any number of domains, {total / 10:g}%"
    rows += [
        (f"p99 without boost, ms ({at})", f"above {USER_LEVEL_P99_LEAST:g}", f"{min(user):.2f} to {max(user):.2f}"),
        (f"p99 of boost, ms ({at})", f"below {BOOST_MOST}", f"{min(p99['boost']):.2f} to {max(p99['boost']):.2f}"),
        (f"p99 of prompt, ms ({at})", "-", f"{min(p99['prompt']):.2f} to {max(p99['prompt']):.2f}"),
        (f"{POLICIES[-1]}: p99, ms ({at})", "-", f"{min(p99[POLICIES[-1]]):.2f} to {max(p99[POLICIES[-1]]):.2f}"),
    ]
    return rows


def draw(result, path):
    """The figure beside the result."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "tailbound"
    import matplotlib.pyplot as plt

    colours = {name: f"C{index}" for index, name in enumerate(POLICIES)}
    rows = -(-(len(result.totals) + 3) // 2)
    figure, grid = plt.subplots(rows, 2, figsize=(13, 4 * rows), layout="constrained", squeeze=False)
    axes = list(grid.flat)
    for axis, total in zip(axes, result.totals):
        boxes(axis, result, colours, lambda domains, name: result.latencies_ms(total, domains, name))
        axis.set_title(f"latency, all domains {total / 10:g}% of the CPU (2.7)")
        axis.axhline(BOOST_MOST, color="grey", linestyle="--")
    by_count, cdf, cases = axes[len(result.totals) : len(result.totals) + 3]
    total = result.nearest_total(TOTAL_OF_P99)
    for name in POLICIES:
        p99 = [quantile(result.latencies_ms(total, domains, name), 0.99) for domains in result.domains]
        by_count.plot(result.domains, p99, ".-", color=colours[name])
    by_count.axhline(BOOST_MOST, color="grey", linestyle="--")
    by_count.axhline(USER_LEVEL_P99_LEAST, color="grey", linestyle=":")
    by_count.set(title=f"p99, {total / 10:g}% (2.8a)", xlabel="domains", ylabel="ms", yscale="log")
    total, most = result.nearest_total(TOTAL_OF_CDF), result.domains[-1]
    for name in POLICIES:
        times = result.latencies_ms(total, most, name)
        shares = [(index + 1) / len(times) for index in range(len(times))]
        cdf.step(times, shares, where="post", color=colours[name])
    cdf.axvspan(*BOOST_RANGE, color="grey", alpha=0.4)
    cdf.plot([GREEDY_LEAST, GREEDY_SLOW], [0, 0.9], "x", color="grey")
    cdf.set(title=f"share of changes, {most} domains, {total / 10:g}% (2.8b)", xlabel="ms", xscale="log")
    mean = lambda domains, name: [statistics.mean(case) for case in result.cases_ms(total, domains, name)]  # noqa: E731
    boxes(cases, result, colours, mean)
    cases.set_title(f"means of single cases, {total / 10:g}% (2.8c)")
    for axis in axes:
        axis.grid(alpha=0.3, which="both")
    for axis in axes[len(result.totals) + 3 :]:
        axis.remove()
    handles = [plt.Line2D([], [], color=colours[name], label=name) for name in POLICIES]
    grey = plt.Line2D([], [], color="grey", linestyle="--", label="stated in the thesis")
    figure.legend(handles=[*handles, grey], loc="outside lower center", ncols=len(handles) + 1)
    figure.savefig(path, metadata={"Date": None})


def boxes(axis, result, colours, values):
    """A group of boxes for each number of domains, whiskers from least to most."""
    width = 0.8 / len(POLICIES)
    for index, name in enumerate(POLICIES):
        places = [group + (index - (len(POLICIES) - 1) / 2) * width for group in range(len(result.domains))]
        drawn = axis.boxplot(
            [values(domains, name) for domains in result.domains],
            positions=places,
            widths=width * 0.8,
            whis=(0, 100),
            patch_artist=True,
        )
        for box in drawn["boxes"]:
            box.set(facecolor=colours[name], alpha=0.6)
        for line in drawn["medians"]:
            line.set_color("black")
    axis.set_xticks(range(len(result.domains)), result.domains)
    axis.set(xlabel="domains", ylabel="ms", yscale="log")


def main():
    if len(sys.argv) != 2:
        raise SystemExit("usage: mode_figures.py RESULT.json")
    path = pathlib.Path(sys.argv[1])
    result = Result(path)
    print(f"{'':<62} {'thesis':>14} {'here':>16}")
    for what, thesis, ours in beside(result):
        print(f"{what:<62} {thesis:>14} {ours:>16}")
    try:
        draw(result, path.with_suffix(".svg"))
    except ModuleNotFoundError:
        print("no figure was drawn: matplotlib is not there", file=sys.stderr)
    else:
        print(f"figure: {path.with_suffix('.svg')}")


if __name__ == "__main__":
    main()
