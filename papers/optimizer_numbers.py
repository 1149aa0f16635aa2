"""Numbers of the section about the exact ladder, and of what it finds."""

from __future__ import annotations

import re
from fractions import Fraction

import numpy as np

from papers.sources import COMPUTE_BOUND, LAUNCH_BOUND, printed, study_of
from papers.text import count, interval, mib, ms, percent, seconds
from simcg.arrays import Ints
from simcg.optimize.certificate import check_certificate
from simcg.optimize.evaluate import ladder_cost
from simcg.optimize.problem import LadderProblem
from simcg.optimize.score import LadderScore
from simcg.optimize.solve import solve
from simcg.server import Server

LARGEST = 8192
COUNTS = (8, 16, 24, 32, 56)
USUAL = {
    "powers of two": tuple(2**i for i in range(14)),
    "every 512": tuple(range(512, LARGEST + 1, 512)),
    "every 256": tuple(range(256, LARGEST + 1, 256)),
}


def optimizer_numbers() -> dict[str, object]:
    """Answers in two settings, waste of usual ladders, counterexamples, and the solver's times."""
    return {
        "compute": answer(COMPUTE_BOUND),
        "launch": answer(LAUNCH_BOUND),
        "ladders": ladder_rows(COMPUTE_BOUND),
        "waste": waste_rows(),
        "dominance": dominance(),
        "guarded": guarded(),
        "solver": solver_rows(),
        "largest": count(LARGEST),
    }


def answer(server: Server) -> dict[str, str]:
    """What `simcg optimize` says, in words and figures."""
    study = study_of(server)
    fewest = study.no_loss.score if study.no_loss else study.default
    gain = study.gain
    holdout = study.holdout
    return {
        "model": server.model,
        "hardware": server.hardware,
        "verdict": study.decision.replace("_", " "),
        "default_graphs": str(len(study.default.ladder)),
        "graphs": str(len(study.ladder)),
        "gain": percent(gain.share),
        "interval": interval(gain.low, gain.high),
        "holdout": "" if holdout is None else percent(holdout),
        "no_graphs_gain": percent(1 - study.no_graphs.mean_step_ns / study.default.mean_step_ns),
        "no_graphs_times": f"{study.no_graphs.mean_step_ns / study.default.mean_step_ns:.1f}",
        "limit_gain": percent(1 - study.limit_ns / study.default.mean_step_ns),
        "fewest": str(len(fewest.ladder)),
        "startup_less": seconds(study.default.startup.ns - fewest.startup.ns),
        "memory_less": mib(study.default.memory.device - fewest.memory.device),
        "host_margin": f"{study.eager_host_margin:.1f}",
        "fewest_margin": f"{study.no_loss_margin:.1f}",
        "peak_more": mib(study.answer.score.memory.peak - study.default.memory.peak),
        "rounds": str(study.rounds),
    }  # fmt: skip


def ladder_rows(server: Server) -> list[list[str]]:
    """The default, the answer, fewer, and none beside each other."""
    study = study_of(server)
    named: list[tuple[str, LadderScore | None]] = [
        ("engine's default", study.default),
        ("proved, at most as many", study.answer.score),
        ("proved, half the default", study.half.score if study.half else None),
        ("fewest that lose nothing", study.no_loss.score if study.no_loss else None),
        ("no graphs", study.no_graphs),
    ]
    rows = [
        [
            name, str(len(one.ladder)), ms(one.mean_step_ns),
            percent(1 - one.mean_step_ns / study.default.mean_step_ns),
            percent(one.padded_share), percent(one.eager_share),
            mib(one.memory.device), mib(one.memory.peak), seconds(one.startup.ns),
        ]
        for name, one in named
        if one is not None
    ]  # fmt: skip
    gain = percent(1 - study.limit_ns / study.default.mean_step_ns)
    return [*rows, ["a graph for every size", "-", ms(study.limit_ns), gain, *["-"] * 5]]


def padding(weights: Ints) -> LadderProblem:
    """Cost equal to tokens, the top at N, and eager too dear to be used."""
    sizes = np.arange(len(weights), dtype=np.int64)
    dear = weights * (1 + len(weights))
    return LadderProblem(weights, sizes, dear, np.zeros_like(sizes), sizes > 0, sizes == sizes[-1])


def densities() -> tuple[Ints, Ints]:
    """Equally many steps of each size, and steps in proportion to 1/n."""
    sizes = np.arange(LARGEST + 1)
    inverse = np.rint(10**9 / np.maximum(sizes, 1)).astype(np.int64)
    inverse[0] = 0
    return (sizes > 0).astype(np.int64), inverse


def waste_rows() -> list[list[str]]:
    """Padded over real tokens less one: of ladders in use, and of the optimum."""
    problems = [padding(weights) for weights in densities()]
    real = [int((p.weights * np.arange(LARGEST + 1)).sum()) for p in problems]
    rows = []
    for name, sizes in USUAL.items():
        costs = [ladder_cost(p, sizes) for p in problems]
        rows.append([name, str(len(sizes)), *_shares(costs, real)])
    frontiers = [solve(p, max(COUNTS)) for p in problems]
    for k in COUNTS:
        costs = [frontier.exact_cost(k) or 0 for frontier in frontiers]
        rows.append(["optimum", str(k), *_shares(costs, real)])
    return rows


def _shares(costs: list[int], real: list[int]) -> list[str]:
    return [percent(cost / least - 1, 2) for cost, least in zip(costs, real, strict=True)]


def small(
    weights: list[int], replay: list[int], eager: list[int], *, any_top: bool
) -> LadderProblem:
    """A problem under a guard of two; lists begin at n = 1, eager a step."""
    counted = np.array([0, *weights], dtype=np.int64)
    sizes = np.arange(len(counted))
    return LadderProblem(
        weights=counted,
        replay_ns=np.array([0, *replay], dtype=np.int64),
        eager_ns=counted * np.array([0, *eager]),
        charge_ns=np.zeros_like(counted),
        allowed=sizes > 0,
        tops=sizes > 0 if any_top else sizes == sizes[-1],
        max_ratio=Fraction(2),
    )


def dominance() -> dict[str, str]:
    """Six sizes where the size that is no dearer than its left neighbour may not replace it."""
    weights, replay, eager = [5, 1, 5, 3, 1, 0], [6, 6, 4, 9, 5, 5], [9, 10, 8, 8, 9, 13]
    problem = small(weights, replay, eager, any_top=False)
    found = solve(problem, 2)
    sizes = range(1, len(replay) + 1)
    cheaper = [j for j in sizes if all(replay[k - 1] > replay[j - 1] for k in sizes if k > j)]
    left = np.isin(np.arange(len(replay) + 1), [*cheaper, len(replay)])
    dropped = solve(
        LadderProblem(
            problem.weights, problem.replay_ns, problem.eager_ns, problem.charge_ns,
            left & problem.allowed, problem.tops, max_ratio=problem.max_ratio,
        ), 2,
    )  # fmt: skip
    return {
        "weights": _row(weights), "replay": _row(replay), "eager": _row(eager),
        "optimum": str(found.best_cost(2)), "after": str(dropped.best_cost(2)),
        "kept": _row([j for j in range(1, len(replay) + 1) if left[j]]),
    }  # fmt: skip


def guarded() -> dict[str, str]:
    """Four sizes where the least cost is not convex in the number of buckets."""
    weights, replay, eager = [5, 1, 4, 0], [4, 5, 6, 7], [4, 8, 8, 8]
    costs = {}
    for name, any_top in (("fixed", False), ("free", True)):
        problem = small(weights, replay, eager, any_top=any_top)
        found = solve(problem, len(weights))
        for k in range(1, len(weights) + 1):
            proof = found.certificate(k, exactly=True)
            check_certificate(problem, found.ladder(k), found.exact_cost(k) or 0, proof)
        costs[name] = _row([found.exact_cost(k) or 0 for k in range(1, len(weights) + 1)])
    return {"weights": _row(weights), "replay": _row(replay), "eager": _row(eager), **costs}


def _row(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers))


def solver_rows() -> list[list[str]]:
    """The printed times in ms: problem, solve, check of its certificate, and what a peer takes."""
    rows: list[list[str]] = []
    for line in printed("`python -m benchmarks.bench_ladder`")[2:]:
        found = re.match(r"(.*?\S)\s{2,}([\d.]+)", line.strip())
        if found is None:
            raise ValueError(f"no time in {line!r}")
        name, spent = found[1], f"{float(found[2]):,.1f}"
        if name.startswith("check"):
            rows[-1][2] = spent
        elif not name.startswith("solve"):
            rows.append([_short(name), "-", "-", spent])
        elif line.startswith(" "):  # the same problem as the peer's above
            rows[-1][1] = spent
        else:
            rows.append([_short(name), spent, "-", "-"])
    return rows


def _short(name: str) -> str:
    for long, short in (
        ("solve, ", ""),
        ("hard guard 2x", "guard"),
        ("min(graph, eager), guard 2x", "cheaper, guard"),
        ("min(graph, eager)", "cheaper of both"),
        ("pure padding", "padding"),
        ("textbook O(K N^2) in NumPy", "textbook"),
        (" program", ""),
        ("all K <=", "K ≤"),
        (" only", ""),
    ):
        name = name.replace(long, short)
    return name
