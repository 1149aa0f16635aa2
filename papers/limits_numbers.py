"""Numbers of the section about gains on public traces and what did not work."""

from __future__ import annotations

import re
from statistics import median

from papers.sources import gains, printed
from papers.text import percent

_NUMBER = r"\s*([+-]?[\d.]+)"
_SAVING = rf"{_NUMBER}\s+{_NUMBER}\s+\({_NUMBER} to{_NUMBER}\)"
POLICY = re.compile(rf"\S+\s+[\d.]+\s+\S+\s+(?:default|last, <= 8){_SAVING}{_SAVING}")
GOAL = 0.7


def limits_numbers() -> dict[str, object]:
    """Gains by setting, the bucket-edge policy, the machine's goal, cost per request."""
    return {
        "traces": str(len({one["trace"] for one in gains()})),
        "settings": setting_rows(),
        "largest_gain": percent(max(float(one["gain"]) for one in gains())),
        "certain": str(sum(float(one["low"]) > 0 for one in gains())),
        "rows": str(len(gains())),
        "policy": policy(),
        "machine": machine(),
        "serving": serving(),
    }


def setting_rows() -> list[list[str]]:
    """For each setting: gains over traces and rates, least to largest; graphs that are enough."""
    rows = []
    for name in dict.fromkeys(one["setting"] for one in gains()):
        own = [one for one in gains() if one["setting"] == name]
        gain = [float(one["gain"]) for one in own]
        fewest = [int(one["fewest_graphs"]) for one in own]
        eager = [float(one["no_graphs"]) for one in own]
        rows.append(
            [name, f"{percent(min(gain))} to {percent(max(gain))}", percent(median(gain)),
             f"{sum(float(one['low']) > 0 for one in own)} of {len(own)}",
             f"{percent(min(eager), 0)} to {percent(max(eager), 0)}".replace("-", "−"),
             f"{min(fewest)} to {max(fewest)}",
             percent(max(float(one["research_adds"]) for one in own), 2)]
        )  # fmt: skip
    return rows


def policy() -> dict[str, str]:
    """In how many rows the interval of a saving is above, and below, zero."""
    rows = []
    for line in printed("`python -m benchmarks.bench_policy`")[1:]:
        found = POLICY.fullmatch(line.strip())
        if found is None:
            raise ValueError(f"no row of the policy benchmark: {line!r}")
        rows.append([float(cell) for cell in found.groups()])
    return {
        "rows": str(len(rows)),
        "mean_better": str(sum(row[2] > 0 for row in rows)),
        "mean_worse": str(sum(row[3] < 0 for row in rows)),
        "mean_best": f"{max(row[1] for row in rows if row[2] > 0):.1f}\u00a0%",
        "mean_worst": f"{-min(row[1] for row in rows if row[3] < 0):.1f}\u00a0%",
    }


def machine() -> dict[str, str]:
    """The machine's rate over bare SimPy's: where the goal is missed."""
    lines = printed("`python -m benchmarks.bench_des`")[2:]
    ratios = {line: float(line.split()[-1]) for line in lines}
    full = [ratio for name, ratio in ratios.items() if " full" in name]
    eager = [ratio for name, ratio in ratios.items() if " eager" in name]
    return {
        "goal": f"{GOAL}",
        "full": f"{min(full)} to {max(full)}",
        "eager": f"{min(eager)} to {max(eager)}",
    }


def serving() -> dict[str, str]:
    """Cost per simulated request over the number of requests."""
    block = "\n".join(printed("`python -m benchmarks.bench_serving PYTHON`"))
    costs = [float(cost) for cost in re.findall(r"([\d.]+) us a request", block)]
    (times,) = re.findall(r"is ([\d.]+) times", block)
    return {
        "least_us": f"{min(costs):.1f}",
        "most_us": f"{max(costs):.1f}",
        "times": str(times),
    }
