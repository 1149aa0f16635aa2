"""Wrong checkers of recordings, each seen by a recording whose verdict it changes.

The recordings are those of tests/wrong_recordings.py: edits of a clean one. No mutant in the list
is equivalent to the original.
"""

from __future__ import annotations

import sys
from dataclasses import astuple
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.recordings import clean
from tests.wrong_recordings import RIGHT, WRONG

PACKAGE = "simcg.formal.audit"
MODULES = (
    "finding", "runs", "memory", "clocks", "ops", "replay", "flow", "order", "outside", "constants",
    "again", "baked", "check",
)  # fmt: skip
"""In the order in which they import each other."""

MUTANTS = {
    # addresses
    "strides ignored": ("runs", "if not region.shape:", "if True:"),
    "the first row alone": ("runs", "starts = (steps[:, None] +", "starts = (steps[:1, None] +"),
    "runs that touch stay apart and overlap": ("runs", "length += (size - 1) * stride", "pass"),
    "offset forgotten": ("runs", "first = base + region.offset", "first = base"),
    "a read sees the first run alone": (
        "memory", "counts = high - low", "counts = (high - low) * (np.arange(len(runs)) == 0)"
    ),
    "a write leaves what it covers": (
        "memory", "(run < 0) | (self._edges > runs.ends[run])", "run < 2**62"
    ),
    "a write goes on past its end": (
        "memory", "np.full(len(runs), number, dtype=np.int64), after]",
        "np.full(len(runs), number, dtype=np.int64), 0 * after + number]",
    ),
    "nothing was written": (
        "memory", "self._numbers != NOBODY, False)",
        "self._numbers < 0, False)",
    ),
    # who wrote what
    "any write will do": ("replay", "if self.writes[pair[0]].storage != owner]", "if False]"),
    "stale memory counts as overwritten": ("replay", "if pair[0] > first)", "if pair[0] >= 0)"),
    "later writes do not count": ("replay", "if pair[0] > first)", "if pair[0] < first)"),
    "the last write counts as the first": (
        "replay", "self.first_write.setdefault(owner, number)", "self.first_write[owner] = number"
    ),
    "a partial write is a whole one": (
        "replay", "partly = write.partly or not runs.exact", "partly = False"
    ),
    # arguments of breaks
    "weak arguments are as good as strong ones": (
        "flow", 'weak = self.replay, argument.held == "weak"', "weak = self.replay, False"
    ),
    "arguments from outside are not used": (
        "flow", "replay.use(Use(region, self.spot, name, baked=False))", "pass"
    ),
    "arguments are not looked at": (
        "flow", "            self._argument(item, argument, region)\n", "            pass\n"
    ),
    "what a break writes is not noted": (
        "flow", "if not item.ran or region.storage in touched:", "if False:"
    ),
    "a break that did not run writes nothing": (
        "flow", "if not item.ran or region.storage in touched:", "if region.storage in touched:"
    ),
    "a break that did not run is known": ("flow", "if not item.ran:\n", "if False:\n"),
    "arguments need no definition": (
        "flow", 'elif replay.storage(region).place == "pool" and not replay.written(region):',
        "elif False:",
    ),
    "results are not copied": ("flow", "for region in item.returns:", "for region in ():"),
    "results are buffers like any": ("flow", "self.replay.returned.add(region.storage)", "pass"),
    "break memory is as good as any": (
        "flow", "            if storage.fresh:\n", "            if False:\n"
    ),
    # operators
    "unknown operators are fine": (
        "flow", "if not op.decided:\n            trouble",
        "if False:\n            trouble",
    ),
    "unknown operators read all that they are given": (
        "flow", "for region in op.reads if op.decided else ():", "for region in op.reads:"
    ),
    "scattering writes everything": (
        "flow", "self._write(op, spot, region, moment, region in unset)",
        "self._write(op, spot, region, moment, False)",
    ),
    "scattering reads everything": (
        "flow", "partial = base_name(op.name) in PARTIAL",
        "partial = False",
    ),
    "everything scatters": ("flow", "partial = base_name(op.name) in PARTIAL", "partial = True"),
    "choosing is reading": ("flow", "elif base_name(op.name) in SELECTING:", "elif False:"),
    "free memory may be used": ("flow", "if region.storage not in replay.alive:", "if False:"),
    "nothing is freed": ("flow", "self.replay.alive.discard(event.storage)", "pass"),
    "partly written memory may be read": ("flow", "        if partly:\n", "        if False:\n"),
    "unwritten memory may be read": (
        "flow", "                self._undefined(op, spot, region, (number, address))\n", ""
    ),
    "writes come before reads": (
        "flow", "        for region in op.reads if op.decided else ():",
        "        for region in op.writes:\n"
        "            self._write(op, spot, region, moment, False)\n"
        "        for region in op.reads if op.decided else ():",
    ),
    "streams are ordered": ("flow", "not self.clocks.ordered(moment, op.stream):", "False:"),
    "streams wait for nothing": ("flow", "self.clocks.wait(event.stream, event.event)", "pass"),
    "a signal is of now": (
        "clocks", "self._events[event] = dict(self._now.get(stream, {}))",
        "self._events[event] = self._now.get(stream, {})",
    ),
    "waiting forgets": (
        "clocks", "clock[other] = max(clock.get(other, 0), tick)",
        "clock[other] = 0",
    ),
    # output
    "outputs need no write": (
        "flow", "elif foreign and not replay.written(region):",
        "elif False:",
    ),
    "outputs may be overwritten": (
        "flow", "foreign, later = replay.foreign(region), replay.overwritten(region)",
        "foreign, later = replay.foreign(region), None",
    ),
    "some of the output is enough": ("flow", "    elif foreign:\n", "    elif False:\n"),
    "no output is fine": (
        "flow", "    if region is None:\n",
        "    if region is None:\n        return\n    if False:\n",
    ),
    # order
    "what nobody saw has written nothing": (
        "flow", "self.replay.unseen |= segment.nodes > segment.launched", "pass"
    ),
    "an output that nobody saw written is wrong": (
        "flow", '"not decided" if replay.unseen else "violated", place', '"violated", place'
    ),
    "unseen kernels are fine": ("order", "if segment.nodes > launched:", "if False:"),
    "missing kernels are fine": ("order", "elif segment.nodes < launched:", "elif False:"),
    "an operator is one kernel": (
        "order", "launched = segment.launched", "launched = len(segment.events)"
    ),
    "any stream is in the graph": ("order", "if op.stream != MAIN and not forked:", "if False:"),
    "a stream outside the graph is undecided": ("order", "seen = op.nodes > 0", "seen = True"),
    "a fork that was not seen is wrong": ("order", "seen = op.nodes > 0", "seen = False"),
    "streams need no join": ("order", "        if clocks.forked(stream):\n", "        if False:\n"),
    "operators need no kernel": (
        "order", "elif on_device and not op.nodes and op.decided:",
        "elif False:",
    ),
    "breaks follow breaks": ("order", "if isinstance(after, Break):", "if False:"),
    "a capture may end in a break": ("order", "elif after is None:", "elif False:"),
    # outside
    "nothing is gone": ("outside", "if storage.gone:\n        found", "if False:\n        found"),
    "nobody holds": (
        "outside", '_report_life(replay, "I1", baked, found, held)',
        '_report_life(replay, "I1", baked, found, False)',
    ),
    "weak holding holds": ("outside", 'argument.held == "strong"', "True"),
    "the pool is outside": ("outside", "if baked is not None and in_pool:", "if False:"),
    "footprints never meet": (
        "outside", "if all(number == NOBODY",
        "if True or all(number == NOBODY",
    ),
    "its own footprint alone": (
        "outside", "for other in shared.replays:",
        "for other in [replay]:",
    ),
    "the others' footprints alone": (
        "outside", "for other in shared.replays:",
        "for other in [r for r in shared.replays if r is not replay]:",
    ),
    "the first use alone": (
        "outside", "for use in {use.region: use for use in reversed(uses)}.values():",
        "for use in uses[:1]:",
    ),
    "any overlap is the same tensor": (
        "outside", "if (theirs.address, theirs.bytes) != (mine.address, mine.bytes):", "if False:"
    ),
    "another bucket's replay may define it": (
        "outside", '    if theirs.place == "pool":\n',
        "    if False:\n",
    ),
    "unknown operators write all that they are given": (
        "flow", "for one in replay.declared_in(region) if op.decided else ():",
        "for one in replay.declared_in(region):",
    ),
    "caches must be set": (
        "flow", "for one in replay.declared_in(region)\n            if one.role in MADE",
        "for one in replay.declared_in(region)",
    ),
    "outputs may be read first": ("flow", "if one.role in MADE else []", "if False else []"),
    "static inputs may be written": (
        "flow", "if one.role in NOT_WRITTEN:", "if one.role == 'constant':"
    ),
    "constants may be written": ("flow", "if one.role in NOT_WRITTEN:", "if one.role == 'static':"),
    "a break may use what it is not given": ("flow", "self._reached(item, op, spot)", "pass"),
    "graphs may change copies": ("flow", "region.storage in replay.copied:", "False:"),
    "breaks keep what they make": (
        "flow", "if not self.replay.storage(kept).fresh:", "if True:"
    ),
    "no copy is of state": ("flow", '"violated" if state else "not decided"', '"not decided"'),
    "arguments may be replaced": (
        "flow", "elif not storage.declared and not storage.fresh:", "elif False:"
    ),
    "what is returned is always made": (
        "flow", "if roles and roles <= set(FROM_HOST):", "if False:"
    ),
    "a role is all of its storage's": (
        "replay", "common(runs, runs_of(place, storage.address))", "runs"
    ),
    "nothing is known to happen": (
        "order", "if not any(_does(item) for item in items):", "if False:"
    ),
    "all is declared": ("outside", "elif not storage.declared and not held:", "elif False:"),
    "declarations do not count": (
        "outside", "elif not storage.declared and not held:", "elif not held:"
    ),
    "what was freed as its graphs were is wrong": (
        "outside", "if storage.gone and replay.recording.released:", "if False:"
    ),
    "roles differ without harm": ("outside", "and len(touched) and not same:", "and False:"),
    "caches are never written": (
        "outside", "if one.role in _NEVER_WRITTEN and len(touched)", "if len(touched)"
    ),
    # baked values
    "places are not compared": (
        "constants", "return not storage.fresh and", "return False and"
    ),
    "where a place begins is all the same": (
        "constants", "(region.offset, region.bytes, *", "(region.bytes, *"
    ),
    "whole tensors are chosen too": (
        "constants", "whole=replay.is_whole(region)", "whole=False"
    ),
    "values are not compared": (
        "baked", "if all(equal(value, values[0]) for value in values):", "if True:"
    ),
    "one capture is enough": (
        "baked", "if len(having) == 1:\n        return ALONE",
        "if len(having) == 1:\n        return \"\"",
    ),
    "an object is a value": (
        "baked", "if any(constant.hidden for constant in found):", "if False:"
    ),
    "backends are one": (
        "baked", "(recording.backend, recording.group) if", "recording.backend if"
    ),
    "every value follows": (
        "baked", "return DERIVED if _derivable(", "return DERIVED if True or _derivable("
    ),
    "no value follows": (
        "baked", "return DERIVED if _derivable(", "return DERIVED if False and _derivable("
    ),
    "operators are alike": ("again", "if before == now:", "if True:"),
    "equal buckets may differ": (
        "again", '"not decided" if doubt else "violated"', '"not decided"'
    ),
    "equal buckets of any backend are one": (
        "again", "if one.recording.group != other.recording.group:", "if False:"
    ),
    "graphs are never released": (
        "again", "elif one.recording.released or other.recording.released:", "elif False:"
    ),
    "buckets of any size are equal": (
        "again", "(recording.backend, recording.num_tokens, recording.slots), []",
        "(recording.backend, 0, 0), []",
    ),
    "places in the pool may differ": (
        "again", "constants(one, pool=True), constants(other, pool=True)",
        "constants(one), constants(other)",
    ),
    "host tensors are not baked": ("baked", '.place == "host":', '.place == "nowhere":'),
    # what is told
    "all are worst": (
        "finding", "key=lambda f: (SEVERITY.index(f.verdict),",
        "key=lambda f: (-SEVERITY.index(f.verdict),",
    ),
    "violations are put together": (
        "finding", 'if finding.verdict == "violated" else ""',
        'if False else ""',
    ),
}  # fmt: skip


def mutated(monkeypatch: pytest.MonkeyPatch, module: str, old: str, new: str) -> ModuleType:
    """``check`` of the package loaded anew, one module with a piece of its text replaced."""
    for name in MODULES:
        full = f"{PACKAGE}.{name}"
        file = str(import_module(full).__file__)
        source = Path(file).read_text(encoding="utf-8")
        if name == module:
            assert source.count(old) == 1, f"the mutant's place is gone from {full}: {old}"
            source = source.replace(old, new)
        loaded = ModuleType(full)
        monkeypatch.setitem(sys.modules, full, loaded)
        exec(compile(source, file, "exec"), loaded.__dict__)
    return sys.modules[f"{PACKAGE}.check"]


def seen(checker: Any) -> dict[str, object]:
    """What the checker says of the clean recording and of every wrong one."""
    told: dict[str, object] = {}
    edits = {**RIGHT, **{name: wrong.edit for name, wrong in WRONG.items()}}
    for case, edit in edits.items():
        try:
            report = checker.check(edit(clean()))
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            told[case] = type(error)
        else:
            told[case] = (
                list(map(str, report.findings)),
                list(map(str, map(astuple, report.undecided))),
            )
    return told


@pytest.fixture(scope="module")
def right() -> dict[str, object]:
    return seen(import_module(f"{PACKAGE}.check"))


@pytest.mark.parametrize("name", MUTANTS)
def test_a_wrong_checker_is_seen(
    name: str, right: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says something else of one of the recordings."""
    assert seen(mutated(monkeypatch, *MUTANTS[name])) != right


def test_the_package_loaded_anew_is_the_same(
    right: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loading kills nothing."""
    assert seen(mutated(monkeypatch, "check", "CHECKED = (", "CHECKED = (")) == right
