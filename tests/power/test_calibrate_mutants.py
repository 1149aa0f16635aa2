"""Wrong ways to turn measurements into a profile, each told from the right one by its figures."""

from __future__ import annotations

from types import ModuleType

import pytest

import real_gpu.calibrate.profile
from real_gpu.calibrate.plan import DEFAULT_MODELS
from simcg.model.catalog import architecture_named
from tests.calibrations import made_raw
from tests.mutants import mutated
from tests.power.test_cost_mutants import holds

RAW = made_raw([architecture_named(name) for name in DEFAULT_MODELS[:1]])
SLOW = RAW["sections"]["gemm 4096x6144"]  # one point was timed at clocks of a tenth less
SLOW["ns"][2], SLOW["beside_ns"][2] = 1.1 * SLOW["ns"][2], 2_200_000
EXPECTED = {  # worked out from tests/calibrations.py, in words in tests/fast/test_calibrate_profile
    "break_body": 36_000, "piece": 7_000, "norm": 12_200, "small": 14_700, "compiled": 5963.6,
    "node": 650, "stream": 1000, "graph_start": 0, "after_break": 2000, "issue": 5690.9,
    "instantiate": 5500, "capture": 6166.7, "segment": 50_000, "once": 9300e6, "layer": 200e6,
    "context": 70 << 20, "exec_node": 2048, "exec_graph": 5000, "launch": 5000, "transfer": True,
    "point": 103_481, "decodes": ((1, 16, 128), (16, 256, 4096)),
}  # fmt: skip


def figures_agree(module: ModuleType) -> bool:
    """Does the profile of the made-up measurements have the figures that they were made from?"""
    profile = module.build_profile(RAW, "h200")
    host, gaps, memory, startup = profile.host, profile.gaps, profile.memory, profile.startup
    inductor = startup.compilers["inductor"]
    found = {
        "break_body": host.break_body.value, "piece": host.piece.value,
        "norm": host.dispatch["norm"].value, "small": host.dispatch[""].value,
        "compiled": inductor.dispatch.value, "node": gaps.node.value,
        "stream": gaps.stream.value, "graph_start": gaps.graph_start.value,
        "after_break": gaps.after_break.value, "instantiate": startup.instantiate_per_node.value,
        "capture": startup.capture_per_node.value, "segment": startup.capture_per_segment.value,
        "once": inductor.once.value, "issue": startup.compilers["eager"].dispatch.value,
        "layer": inductor.per_layer.value,
        "context": memory.first_graph_bytes.value,
        "exec_node": memory.exec_bytes_per_node.value,
        "exec_graph": memory.exec_bytes_per_graph.value, "launch": host.replay[1].value,
        "transfer": set(profile.transfer) == {
            "gemm", "grouped_gemm", "attention", "decode_attention",
        },
        "decodes": next((c.x, c.y) for c in profile.curves if c.key.op == "decode_attention"),
        "point": next(c.ns[2] for c in profile.curves if (c.key.k, c.key.n) == (4096, 6144)),
    }  # fmt: skip
    return found == EXPECTED


MUTANTS = {
    "launch not taken off a break": ("(per_layer - launch, 0.0)", "(per_layer, 0.0)"),
    "launch of one node": ('np.interp(broken.each("nodes"), nodes', "np.interp(1, nodes"),
    "a piece with its break": ('pieces.each("host_ns") - per_layer', 'pieces.each("host_ns")'),
    "shallow decoders alone": ("(deep - shallow) / more", "shallow / 2"),
    "all layers as one": ("(deep - shallow) / more", "(deep - shallow)"),
    "the first run of a depth": ("return min(self", "return next(self"),
    "the longest run of a depth": ("return min(self", "return max(self"),
    "dispatch of the first time": ('("dispatch", "dispatch again")', '("dispatch",)'),
    "mean for median": ("(statistics.median(every), half)", "(statistics.fmean(every), half)"),
    "noise below zero kept": ("round(max(0.0, median), 1)", "round(abs(median), 1)"),
    "compiled code with its break": ('each("compiled_ns") - of_break', 'each("compiled_ns")'),
    "one compiler's code for all": ('dispatch, name)', 'dispatch, "inductor")'),
    "imports forgotten": ("once = imports + rows", "once = rows"),
    "a break's whole replay": ('row["breakable_ns"] - row["full_ns"]', 'row["breakable_ns"]'),
    "start of a replay in its breaks": (
        "(longer[1] - longer[0]) / more",
        'longer[1] / deep["layers"]',
    ),
    "a break's kernels at gaps of a node": ("- inside * stream", "- inside * node"),
    "the graph's first node forgotten": ("(inside + 1) * node", "inside * node"),
    "issue counted as capture": (
        'full.each("capture_ns") - eager.each("host_ns")',
        'full.each("capture_ns")',
    ),
    "instantiation counted twice": ('full.each("nodes") - instantiate.value', 'full.each("nodes")'),
    "a segment with its nodes": (
        'broken.each("capture_ns") - full.each("capture_ns")',
        'broken.each("capture_ns")',
    ),
    "compiler's start in each layer": (
        'rows[0]["compile_ns"] - rows[0]["layers"] * per_layer',
        'rows[0]["compile_ns"]',
    ),
    "short chains tell the bytes": ('chains["chains"][-1], chains["small"]',
                                    'chains["small"], chains["small"]'),
    "small graphs are their nodes": ('- small["nodes"] * per_node', '- small["nodes"] * 2548'),
    "wandering clocks kept": ("usual.get(rows, ns) / ns for", "1.0 for"),
    "wandering clocks twice": ("usual.get(rows, ns) / ns for", "ns / usual[rows] for"),
    "decodes along the other axis": ("x=requests, y=keys", "x=keys, y=requests"),
    "transfers never held out": ("if errors\n", "if not errors\n"),
}  # fmt: skip


def test_the_original_keeps_the_figures() -> None:
    """So a mutant that does not fails for its change."""
    assert figures_agree(real_gpu.calibrate.profile)


@pytest.mark.parametrize("change", MUTANTS.values(), ids=list(MUTANTS))
def test_each_mutant_changes_a_figure(
    monkeypatch: pytest.MonkeyPatch, change: tuple[str, str]
) -> None:
    """Each wrong version gives another profile, or none."""
    assert not holds(figures_agree, mutated(monkeypatch, real_gpu.calibrate.profile, *change))
