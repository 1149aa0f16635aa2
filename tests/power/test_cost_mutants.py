"""Wrong versions of the cost model, each caught by a law that the original keeps.

No mutant in the lists is equivalent to the original.
"""

from __future__ import annotations

from types import ModuleType

import pytest

import simcg.cost.curves
import simcg.cost.kernels
import simcg.cost.products
import simcg.cost.smooth
import simcg.cost.step
import simcg.cost.timeline
import simcg.cost.transfer
from tests.cost_laws import (
    curves_module_agrees,
    kernels_agree,
    products_agree,
    smoothing_agrees,
    step_agrees,
    timeline_agrees,
    transfers_agree,
)
from tests.mutants import Law, mutated

TIMELINE_MUTANTS = {
    "latency dropped": ("host_ns + latency_ns + duration_ns", "host_ns + duration_ns"),
    "gap ignored": ("gap_ns + duration_ns)", "duration_ns)"),
    "gap after an idle wait too": (
        "host_ns + latency_ns + duration_ns",
        "host_ns + latency_ns + gap_ns + duration_ns",
    ),
    "duration only on the GPU's path": (
        "host_ns + latency_ns + duration_ns",
        "host_ns + latency_ns + 0 * duration_ns",
    ),
    "composed the wrong way round": (
        "np.maximum(self.cross + later.device, self.host + later.cross)",
        "np.maximum(later.cross + self.device, later.host + self.cross)",
    ),
    "host never waited for": (
        "np.maximum(self.cross + later.device, self.host + later.cross)",
        "self.cross + later.device",
    ),
    "device before this map forgotten": ("self.device + later.device,", "later.device,"),
    "end is the sum of kernels": ("np.maximum(self.device, self.cross)", "self.device"),
    "end is the host's path": ("np.maximum(self.device, self.cross)", "self.cross"),
    "power one short": ("more = times - 1", "more = times - 2"),
    "power of the host alone": ("np.maximum(self.host, self.device)", "self.host"),
    "power of the GPU alone": ("np.maximum(self.host, self.device)", "self.device"),
    "host of one repeat": ("self.host * times,", "self.host,"),
    "device of one repeat": ("self.device * times,", "self.device,"),
    "layers never found": ("if stop - at > max(best_cover, period)", "if False"),
    "a run of two is one": ("best_cover // best)", "max(best_cover // best - 1, 1))"),
    "units of the wrong length": ("stop += period", "stop += period - 1 if period > 1 else 1"),
    "only the first unit": ("keys[stop : stop + period] == unit:", "stop < at:"),
}

STEP_MUTANTS = {
    "device scale ignored": ("if self._scale != 1.0:", "if False:"),
    "scale truncates": ("np.rint(time.ns * self._scale).astype", "(time.ns * self._scale).astype"),
    "an op counted once": (
        "op_times.of(distinct[index]).ns * times",
        "op_times.of(distinct[index]).ns",
    ),
    "gaps of all rows": ("np.interp(work.rows, gaps", "np.interp(0, gaps"),
    "gaps wider by all of it": (".astype(np.int64) - usual,", ".astype(np.int64),"),
    "wider once an item": ("self._kernels_in(one) * wider_ns", "+wider_ns"),
    "no gaps inside a graph": ("(self._kernels_in(one) - 1) * one.inner_gap_ns", "0"),
    "one gap too many": ("(self._kernels_in(one) - 1) *", "self._kernels_in(one) *"),
    "an op's kernels issued as one": ("duration // one.parts).power(one.parts)", "duration)"),
    "every part as long as all": (
        "duration // one.parts).power(one.parts)",
        "duration).power(one.parts)",
    ),
    "breaks captured": ("if not self.backend.breaks:", "if True:"),
    "host of breaks dropped": ("round(body + guards), stream", "0, stream"),
    "breaks of several kernels as of one": (
        "ns * kernels for ns, kernels in each",
        "ns for ns, _ in each",
    ),
    "a break's body on top of all its kernels": (" - max(ns for ns, _ in each)", ""),
    "breaks at the gap of nodes": (
        "round(body + guards), stream",
        "round(body + guards), node",
    ),
    "breaks in a row apart by a node": (
        "round(body + guards), stream, stream",
        "round(body + guards), stream, node",
    ),
    "launch at one node": ("np.interp(kernels, host", "np.interp(1, host"),
    "launch by distinct ops": (
        "kernels = sum(distinct[index].kernels for index in issue.order)",
        "kernels = len(ops)",
    ),
    "guards everywhere": ("if self.backend.guards and issue", "if issue"),
    "guards nowhere": ("if self.backend.guards and issue.begins", "if False"),
    "guards of one piece": ("host.piece.value * pieces", "host.piece.value"),
    "guards at each piece": (
        "host.piece.value * pieces if self.backend.guards and issue.begins",
        "host.piece.value if self.backend.guards",
    ),
    "breaks counted as pieces": ("sum(issue.is_graph for issue in issues)", "len(issues)"),
    "guards instead of the launch": ("round(launch + guards)", "round(max(launch, guards))"),
    "start of a graph free": ("first = round(gaps.graph_start.value) + node", "first = node"),
    "first node of a graph free": (
        "first = round(gaps.graph_start.value) + node",
        "first = round(gaps.graph_start.value)",
    ),
    "no gap after a break": ("else round(gaps.after_break.value)", "else node"),
    "a break before every graph": ("gap = first if issue.begins else", "gap ="),
    "every graph begins a step": ("first if issue.begins else round", "first if True else round"),
    "compiled breaks": (
        "if self.backend.compiles and not op.is_break:",
        "if self.backend.compiles:",
    ),
    "compiled as eager": ("if self.backend.compiles and not op.is_break:", "if False:"),
    "one dispatch for all kinds": (
        'host.dispatch.get(op.kind, host.dispatch[""])',
        'host.dispatch[""]',
    ),
    "nodes of one graph": (
        "self._kernels_in(items[key]) * count for key, count",
        "self._kernels_in(items[key]) for key, count",
    ),
    "breaks count as segments": (".items() if items[key].is_graph}", ".items()}"),
    "equal graphs counted once": ("sum(graphs.values()))", "len(graphs))"),
    "latency dropped": ("latency = round(self.profile.host.launch_latency.value)", "latency = 0"),
}

CURVE_MUTANTS = {
    "stairs a point late": ("np.searchsorted(x, at)", 'np.searchsorted(x, at, side="right")'),
    "stairs as lines": ("y[np.minimum(np.searchsorted(x, at), len(x) - 1)]", "np.interp(at, x, y)"),
    "flat beyond the stairs": ("if beyond.any():", "if False:"),
    "flat beyond the lines": (
        "np.where(at > x[-1], y[-1] * at / x[-1], np.interp(at, x, y))",
        "np.interp(at, x, y)",
    ),
    "attention below the grid falls": (
        "u = np.maximum((at_x - log_x[i]) / (log_x[i + 1] - log_x[i]), 0)",
        "u = (at_x - log_x[i]) / (log_x[i + 1] - log_x[i])",
    ),
    "axes of attention swapped": (
        "plane[i, j] * (1 - v) + plane[i, j + 1] * v",
        "plane[i, j] * v + plane[i, j + 1] * (1 - v)",
    ),
    "cached context counts as measured": ("if curve.causal and", "if False and"),
    "every prompt counts as cached": ("keys > (tokens + 1) / 2 + 1", "keys > 0"),
}

KERNEL_MUTANTS = {
    "bytes of all kernels at once": (
        "(shape.read_bytes + shape.write_bytes) / kernels",
        "(shape.read_bytes + shape.write_bytes)",
    ),
    "one kernel's time for all": ("KernelTime(one.ns * kernels, where", "KernelTime(one.ns, where"),
    "writes are free": ("shape.read_bytes + shape.write_bytes", "shape.read_bytes"),
    "a stand-in counts as measured": (
        'where = one.provenance if known else "assumed"',
        "where = one.provenance",
    ),
    "attention by pairs": ("keys = pairs / tokens", "keys = pairs / 1.0"),
    "attention at padded rows": (
        "over_plane(curve, tokens, keys)",
        "over_plane(curve, 2 * tokens, keys)",
    ),
    "windows ignored": ("if shape.window is not None:", "if False:"),
    "a tile of 64": ("TILE = 128", "TILE = 64"),
    "no waves": ("whole + (filled - whole) ** PARTIAL_WAVE", "filled"),
    "waves always whole": ("whole + (filled - whole) ** PARTIAL_WAVE", "np.ceil(filled)"),
    "even routing": ("routed / touched / TILE + 0.5", "np.ceil(routed / touched / TILE)"),
    "a wave at full rate": ("flops / (rate / sms)", "flops / rate"),
    "column tiles cut off": (
        "-(-rows // TILE) * -(-shape.n // TILE)",
        "-(-rows // TILE) * max(shape.n // TILE, 1)",
    ),
    "row tiles cut off": (
        "-(-rows // TILE) * -(-shape.n // TILE)",
        "np.maximum(rows // TILE, 1) * -(-shape.n // TILE)",
    ),
    "weights as 16 bits": (
        "stored = shape.k * shape.n * DTYPE_BITS[shape.weights] / 8",
        "stored = shape.k * shape.n * 2",
    ),
    "experts as 16 bits": (
        "_touched(shape, rows) * shape.k * shape.n * DTYPE_BITS[shape.weights] / 8",
        "_touched(shape, rows) * shape.k * shape.n * 2",
    ),
    "activations free": ("moved = stored + 2.0 * rows * (", "moved = stored + 0.0 * rows * ("),
    "compute and stream in turn": (
        "np.maximum(compute, stream), roof.compute,",
        "compute + stream, roof.compute,",
    ),
    "fp8 at the 16-bit rate": ('{"fp8": "fp8", "nvfp4": "fp4"}', '{"nvfp4": "fp4"}'),
    "fp4 at the 16-bit rate": ('{"fp8": "fp8", "nvfp4": "fp4"}', '{"fp8": "fp8"}'),
    "4-bit weights at the fp4 rate": ('{"fp8": "fp8",', '{"fp8": "fp8", "bf16": "fp4",'),
    "all experts touched": (
        "shape.experts * (1 - missed)",
        "shape.experts + 0.0 * missed",
    ),
    "an all-reduce moves bytes once": ("sent = 2.0 *", "sent = 1.0 *"),
    "an all-reduce of all ranks": ("(shape.ranks - 1) / shape.ranks", "1.0"),
    "no floor": ("ns + floor.value", "ns"),
    "fused layers ignored": ("if op.part_of is not None and (", "if False and ("),
    "a fused layer for each product": (
        "(3 * layer.hidden * layer.width)",
        "(op.shape.k * op.shape.n)",
    ),
    "small kernels of a fused layer too": ("ns=np.zeros_like(time.ns)", "ns=time.ns"),
    "gaps of fused layers counted twice": (
        "time.ns - gaps, time.ns / 2) * mine",
        "time.ns, 0) * mine",
    ),
    "quantised layers with as few gaps": (
        "5 if layer.activations",
        "5 if True or layer.activations",
    ),
    "collectives of any ranks": ('"all_reduce", ranks=shape.ranks', '"all_reduce", ranks=2'),
    "rows for bytes": ("(curve, shape.row_bytes * rows.astype", "(curve, rows.astype"),
    "keys of all requests": (
        "np.maximum(keys / many, 1))\n\n    def _decode",
        "keys * 1.0)\n\n    def _decode",
    ),
    "no decode kernel": ('attention_key(shape, "decode_attention")', "attention_key(shape)"),
    "grids ignored": ('return key.op == "gemm" and key not', 'return key.op == "" and key not'),
    "choosing all keys sorts": ("keys > many * curve.key.top_k", "keys > 0"),
    "gaps of several kernels twice": (
        "(op.kernels - 1) * self._node_gap_ns() if time.relative_spread else 0",
        "0",
    ),
    "decode by the prompts' curve": (
        "self._special(decode_key, *at, decode",
        "self._special(prefill_key, *at, decode",
    ),
}

PRODUCT_MUTANTS = {
    "the nearest size": ("share = float((np.log(inside) - low) / (high - low))", "share = 0.0"),
    "between sizes themselves": (
        "low, high = np.log(axis[j - 1]), np.log(axis[j])\n    share = float((np.log(inside)",
        "low, high = axis[j - 1], axis[j]\n    share = float((inside",
    ),
    "weights swapped": ("(j - 1, 1 - share), (j, share)", "(j - 1, share), (j, 1 - share)"),
    "larger sizes as the last": ("max(size / axis[-1], 1.0)", "1.0"),
    "smaller sizes in proportion": ("max(size / axis[-1], 1.0)", "size / inside"),
    "n alone": ("(more_k * more_n)", "more_n"),
    "sizes between called measured": ('if known else "interpolated"', 'if known else "measured"'),
    "known by k alone": ("key.k in grid.k and key.n in grid.n", "key.k in grid.k"),
    "no error between": ("grid.noise if known else grid.sigma", "grid.noise"),
    "no tiles between": ("np.arange(low + TILE, high, TILE)", "np.arange(0)"),
    "tiles of 64": ("TILE = 128", "TILE = 64"),
    "experts by lines": (
        "np.exp(np.interp(np.log(x), np.log(curve.x), np.log(curve.ns)))",
        "np.interp(x, curve.x, curve.ns)",
    ),
    "experts where measured alone": ("[*parts, np.array(curve.x)]", "[np.array(curve.x)]"),
}

SMOOTH_MUTANTS = {
    "means unweighted": ("(mean * size + before * count) / (size + count)", "(mean + before) / 2"),
    "size of a block kept": ("size += count", "size += 0"),
    "merged once": ("while means and 0", "if means and 0"),
    "rises pooled": ("0 < means[-1] - mean <=", "means[-1] - mean <="),
    "all falls pooled": ("<= noise * means[-1]", "<= np.inf"),
    "no fall pooled": ("<= noise * means[-1]", "<= 0"),
    "the highest wins": ("(mean * size + before * count) / (size + count)", "max(mean, before)"),
    "one sigma": ("SIGMAS = 3.0", "SIGMAS = 1.0"),
    "noise of one entry": ("SIGMAS * np.sqrt(2.0)", "SIGMAS"),
    "truncated": ("np.rint(_pooled(", "np.floor(_pooled("),
    "only corrections upwards": ("np.abs(fitted / ns - 1.0)", "(fitted / ns - 1.0)"),
    "the smallest fall": ("int(np.argmax(falls))", "int(np.argmin(falls))"),
    "one entry early": ("fall_at=at + 1", "fall_at=at"),
}

TRANSFER_MUTANTS = {
    "all curves alike": ("_distance(curve.key, key) ** -POWER * reach", "reach"),
    "the far decide": ("** -POWER", "** POWER"),
    "ratios averaged": ("log_ratio = np.log(measured", "log_ratio = (measured"),
    "k ignored": ('"gemm": {"k": 0.5,', '"gemm": {"k": 0.0,'),
    "k as important as n": ('"gemm": {"k": 0.5,', '"gemm": {"k": 1.0,'),
    "distance to the first power": ("POWER = 3.0", "POWER = 1.0"),
    "curves go on beyond their rows": ("curve.x[-1], 1.0, UNREACHED)", "curve.x[-1], 1.0, 1.0)"),
    "equal rows for all experts": ('if key.op != "grouped_gemm":', "if True:"),
    "the other way round": (
        "(key.top_k / key.experts) / (other.top_k / other.experts)",
        "(other.top_k / other.experts) / (key.top_k / key.experts)",
    ),
    "lines over rows": ("np.interp(np.log(at), np.log(x), values)", "np.interp(at, x, values)"),
    "correction dropped": ("np.exp(total / weight)", "np.exp(0 * total / weight)"),
    "weights not made shares": ("np.exp(total / weight)", "np.exp(total)"),
    "rows of the nearest alone": (
        "np.unique(np.concatenate([c.x for c in near]))",
        "np.array(near[0].x)",
    ),
    "called measured": ('provenance="fitted"', 'provenance="measured"'),
    "no spread": ("(max(sigma, 1e-3) * ns)", "(1e-3 * ns)"),
    "held out with itself": (
        "others = [c for c in profile.curves if _alike(c.key, curve.key)]",
        "others = [c for c in profile.curves if c.key.op == op]",
    ),
}

CASES: list[tuple[ModuleType, Law, dict[str, tuple[str, str]]]] = [
    (simcg.cost.timeline, timeline_agrees, TIMELINE_MUTANTS),
    (simcg.cost.step, step_agrees, STEP_MUTANTS),
    (simcg.cost.curves, curves_module_agrees, CURVE_MUTANTS),
    (simcg.cost.kernels, kernels_agree, KERNEL_MUTANTS),
    (simcg.cost.products, products_agree, PRODUCT_MUTANTS),
    (simcg.cost.smooth, smoothing_agrees, SMOOTH_MUTANTS),
    (simcg.cost.transfer, transfers_agree, TRANSFER_MUTANTS),
]


def holds(law: Law, module: ModuleType) -> bool:
    """Does the law hold? A mutant that stumbles over itself breaks it too."""
    try:
        return law(module)
    except (ArithmeticError, LookupError, ValueError, RuntimeWarning):
        return False


@pytest.mark.parametrize(("module", "law", "_"), CASES, ids=[m.__name__ for m, _, _ in CASES])
def test_the_originals_keep_the_laws(module: ModuleType, law: Law, _: object) -> None:
    """The unchanged modules pass, so a mutant that fails does so for its change."""
    assert law(module)


@pytest.mark.parametrize(
    ("module", "law", "change"),
    [
        pytest.param(module, law, change, id=f"{module.__name__.rsplit('.')[-1]}: {name}")
        for module, law, mutants in CASES
        for name, change in mutants.items()
    ],
)
def test_each_mutant_breaks_its_law(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType, law: Law, change: tuple[str, str]
) -> None:
    """Each wrong version is told from the right one."""
    assert not holds(law, mutated(monkeypatch, module, *change))
