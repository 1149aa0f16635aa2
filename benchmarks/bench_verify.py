"""How fast the formal model is explored: steps checked in a second, and where the time goes.

python benchmarks/bench_verify.py [operators]
"""

from __future__ import annotations

import sys
from itertools import islice
from time import process_time_ns

from simcg.formal.check import Checker
from simcg.formal.enumerate import Scope, programs, single_steps
from simcg.formal.explore import settings
from simcg.formal.meaning import Ground, Meaning
from simcg.formal.program import Program
from simcg.formal.rules import Rules
from simcg.formal.stage import Stage, explore

EVERY = {1: 1, 2: 10, 3: 400, 4: 20_000}
"""Of how many programs one is taken, by operators."""


def timed_parts(scope: Scope, chosen: list[Program]) -> tuple[int, int, int, int]:
    """Nanoseconds of the reference, of captures and of checked steps; and the steps."""
    ground, rules = Ground.of(scope.room, scope.sequences), Rules()
    reference = captures = checks = steps = 0
    for program in chosen:
        meaning = Meaning.of(ground.terms.copy(), program, scope.room)
        every = single_steps(scope, program)
        first = True
        for setting in settings(scope, program):
            at = process_time_ns()
            checker = Checker.of(setting, rules, meaning, ground)
            captures += process_time_ns() - at
            if first:
                at = process_time_ns()
                for step in every:
                    meaning.after(step, checker.runner.machine)
                reference += process_time_ns() - at
                first = False
            at = process_time_ns()
            for step in every:
                checker.step(step)
            checks += process_time_ns() - at
            steps += len(every)
    return reference, captures, checks, steps


def main() -> None:
    """Print the rates of single steps over a sample of programs."""
    ops = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    scope = Scope(ops, 2, 4, 2, nested=True, shortest=ops)
    chosen = list(islice(programs(scope), 0, None, EVERY[ops]))
    tally = explore(Stage("sample", "steps", scope), chosen)
    rate = tally.counts["steps"] / tally.cpu_ns * 1e9
    settled = tally.counts["settings"]
    print(f"{len(chosen):,} programs of {ops} operators, {settled:,} settings, "
          f"{tally.counts['steps']:,} steps: {rate:,.0f} a second and core")  # fmt: skip
    reference, captures, checks, steps = timed_parts(scope, chosen)
    whole = reference + captures + checks
    print(f"without leaving out settings like others: {steps / whole * 1e9:,.0f} a second; "
          f"steps alone {steps / checks * 1e9:,.0f} a second ({checks / whole:.0%} of the time), "
          f"captures {captures / whole:.0%}, reference {reference / whole:.0%}")  # fmt: skip


if __name__ == "__main__":
    main()
