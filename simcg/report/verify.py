"""What ``simcg verify`` found, as tables of at most 100 columns, and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from simcg.formal.enumerate import Scope
from simcg.formal.invariants import INVARIANTS
from simcg.formal.mutants import MUTANTS
from simcg.formal.mutants.hunt import Hunt
from simcg.formal.program import KINDS
from simcg.formal.stage import Stage
from simcg.formal.tally import Tally
from simcg.formal.verification import StageResult
from simcg.formal.violation import Violation
from simcg.report.units import count

if TYPE_CHECKING:
    from simcg.formal.lemmas import Lemma, Proof

Proved = Sequence[tuple["Lemma", "Proof"]]
Row = tuple[str, ...]
NOTATION = "#k: operator k of the program; s0[1]: the token of sequence 0 at position 1"
INVARIANT_COLUMNS = (
    "seen: how often its premise occurred; mutants: how many of the wrong systems below it caught"
)
LEMMA_COLUMNS = (
    "always: proved of all values, and its premises can be met; sometimes: refuted by an example"
)
MUTANT_COLUMNS = (
    "a mutant is a wrong system; after checks: the first check of its scope that failed it, from 1"
)
DONE = ("steps", "trace steps", "lockstep steps")


@dataclass(frozen=True, slots=True)
class Verified:
    """All results. ``proved`` is None where z3 is not installed."""

    stages: Sequence[StageResult]
    proved: Proved | None
    hunts: Mapping[str, Hunt]

    @property
    def seen(self) -> Tally:
        """What all stages have seen together."""
        whole = Tally()
        for result in self.stages:
            whole.add(result.tally)
        return whole

    @property
    def failures(self) -> list[str]:
        """What is not as it must be, one line each; the counterexample comes by itself."""
        whole = self.seen
        found = [f"{whole.failed}"] if whole.failed else [
            f"{key} {INVARIANTS[key].name}: its premise never occurred" for key in whole.lacking()
        ]  # fmt: skip
        found += [f"lemma not proved: {lemma.name}: {proof.counterexample}"
                  for lemma, proof in self.proved or () if not proof.holds]  # fmt: skip
        found += [f"mutant not killed: {name}" for name in survivors(self.hunts)]
        return found


def survivors(hunts: Mapping[str, Hunt]) -> list[str]:
    """Mutants that nothing caught although they are no equivalents."""
    return [name for name, hunt in hunts.items()
            if hunt.first is None and not MUTANTS[name].equivalent]  # fmt: skip


def scope_words(stage: Stage) -> str:
    """A stage's scope in words."""
    scope, parts = stage.scope, [_programs(stage.scope)]
    steps = f"steps of up to {scope.tokens} tokens and {scope.sequences} sequences"
    if stage.checks == "traces":
        steps = f"all traces of {scope.trace} " + steps
    if stage.checks == "captures":
        steps = "a failure at each operator, and a second capture"
    if stage.checks == "ranks":
        steps = "all pairs of " + steps
    parts.append(steps)
    parts.append(f"{len(scope.ladders)} ladder" + "s" * (len(scope.ladders) > 1))
    if len(scope.rules) > 1:
        parts.append(f"{len(scope.rules)} admission rules")
    return ", ".join(parts)


def _programs(scope: Scope) -> str:
    kinds = f"all {len(KINDS)} kinds" if scope.kinds == KINDS else f"{len(scope.kinds)} kinds"
    ops = f"{scope.ops}" if scope.shortest == scope.ops else f"up to {scope.ops}"
    operators = "operator" + "s" * (scope.ops > 1)
    return f"{ops} {operators} of {kinds}, {scope.breaks} break" + "s" * (scope.breaks > 1)


def stage_rows(results: Sequence[StageResult]) -> list[Row]:
    """Stage, programs, settings, checked steps, seconds of processor time."""
    rows: list[Row] = []
    for result in results:
        counts = result.tally.counts
        settings = counts["settings"] or counts["walks"]
        steps = sum(counts[name] for name in DONE) or result.tally.witnesses["I20"]
        rows.append((result.stage.name, count(counts["programs"]), count(settings),
                     count(steps), f"{result.tally.cpu_ns / 1e9:.1f}"))  # fmt: skip
    return rows


def rate_line(results: Sequence[StageResult]) -> str:
    """What was counted, in a sentence."""
    whole = Verified(results, None, {}).seen
    steps = sum(whole.counts[name] for name in DONE)
    busy = sum(r.tally.cpu_ns for r in results if r.stage.checks != "captures")
    rate = steps / max(busy, 1) * 1e9
    return (f"{count(steps)} checked steps, {rate:,.0f} a second and core; of "
            f"the single steps {count(whole.counts['replays'])} replays "
            f"({count(whole.counts['padded'])} padded), {count(whole.counts['eager'])} eager; "
            f"{count(whole.counts['settings like another'])} settings are like another to the "
            f"address, {count(whole.counts['refused'])} refused")  # fmt: skip


def invariant_rows(verified: Verified) -> list[Row]:
    """Invariant, what it was checked by, how often its premise occurred, verdict."""
    whole = verified.seen
    lemmas = Counter(lemma.invariant for lemma, _ in verified.proved or ())
    kills = Counter(key for hunt in verified.hunts.values() for key in hunt.caught)
    rows: list[Row] = []
    for key, invariant in INVARIANTS.items():
        checks = {r.stage.checks: None for r in verified.stages if r.tally.witnesses[key]}
        tools = " ".join([*checks, *(["z3"] * bool(lemmas[key]))])
        broken = whole.failed is not None and whole.failed.key == key
        verdict = "violated" if broken else "holds" if whole.witnesses[key] else "not seen"
        rows.append((f"{key} {invariant.name}: {invariant.sentence}", tools,
                     count(whole.witnesses[key]), str(kills[key]), verdict))  # fmt: skip
    return rows


def lemma_rows(proved: Proved) -> list[Row]:
    """Lemma, its invariant, milliseconds, verdict."""
    return [
        (lemma.name, lemma.invariant, lemma.kind, f"{proof.ms:.1f}",
         "proved" if proof.holds else "not proved")
        for lemma, proof in proved
    ]  # fmt: skip


def mutant_rows(hunts: Mapping[str, Hunt]) -> list[Row]:
    """Mutant, the first invariant that caught it, all that did, and the checks until then."""
    rows: list[Row] = []
    for name, hunt in hunts.items():
        first = hunt.first.key if hunt.first else "-"
        others = " ".join(key for key, _ in hunt.caught.most_common() if key != first)
        verdict = count(hunt.until) if hunt.first else "equivalent"
        if not hunt.first and not MUTANTS[name].equivalent:
            verdict = "survives"
        rows.append((name, first, others, verdict))
    return rows


def story(violation: Violation) -> list[str]:
    """A counterexample as lines to follow."""
    lines = [*violation.story, f"=> {violation}"]
    lines += [f"   at: {violation.op}"] if violation.op else []
    lines += [f"   ({NOTATION})"] if "#" in violation.what else []
    return [*lines, f"   {violation.key} says: {violation.invariant.sentence}"]


def mutant_lines(name: str, hunt: Hunt) -> list[str]:
    """A mutant and its first counterexample."""
    mutant = MUTANTS[name]
    lines = [f"{name}: {mutant.stands_for}"]
    lines += [f"reported as {report}" for report in mutant.reports]
    if not mutant.reports:
        lines.append("no public report of it was found")
    if hunt.first is None:
        why = f"equivalent: {mutant.equivalent}" if mutant.equivalent else "it survives"
        return [*lines, f"{count(hunt.checks)} checks, none fails; {why}"]
    caught = ", ".join(f"{key} {times}" for key, times in hunt.caught.most_common())
    lines.append(f"{count(hunt.checks)} checks, of which failed, by invariant: {caught}")
    return [*lines, f"the first that failed, check {hunt.until}:", "", *story(hunt.first)]


def as_json_mutant(name: str, hunt: Hunt) -> dict[str, object]:
    """A mutant's hunt for machines."""
    mutant = MUTANTS[name]
    return {
        "name": name,
        "stands_for": mutant.stands_for,
        "reports": list(mutant.reports),
        "equivalent": mutant.equivalent,
        "checks": hunt.checks,
        "until": hunt.until,
        "first": hunt.first.key if hunt.first else None,
        "caught": dict(hunt.caught),
        "counterexample": story(hunt.first) if hunt.first else None,
    }


def as_json(verified: Verified) -> dict[str, object]:
    """Everything for machines."""
    whole = verified.seen
    return {
        "holds": not verified.failures,
        "failures": verified.failures,
        "counterexample": story(whole.failed) if whole.failed else None,
        "stages": [
            {"name": r.stage.name, "scope": scope_words(r.stage), "checks": r.stage.checks,
             "counts": dict(r.tally.counts), "cpu_ns": r.tally.cpu_ns}
            for r in verified.stages
        ],
        "invariants": [
            {"key": key, "name": i.name, "sentence": i.sentence, "formula": i.formula,
             "witnesses": whole.witnesses[key],
             "stages": [r.stage.name for r in verified.stages if r.tally.witnesses[key]]}
            for key, i in INVARIANTS.items()
        ],
        "lemmas": None if verified.proved is None else [
            {"name": lemma.name, "invariant": lemma.invariant, "kind": lemma.kind,
             "sentence": lemma.sentence, "scope": lemma.scope, "holds": proof.holds,
             "ms": proof.ms, "counterexample": proof.counterexample}
            for lemma, proof in verified.proved
        ],
        "mutants": [
            as_json_mutant(name, hunt) for name, hunt in verified.hunts.items()
        ],
    }  # fmt: skip
