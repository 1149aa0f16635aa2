"""HardwareProfile: what one GPU and its host cost, every figure with its provenance.

Every value is frozen and checks itself; a ValueError it raises is located in the file by msgspec.
"""

from __future__ import annotations

import math
from functools import cached_property
from itertools import pairwise
from typing import Literal

import msgspec
import numpy as np

from simcg.arrays import Floats
from simcg.errors import SimcgError
from simcg.provenance import Provenance

LARGEST_FIGURE = 1e18
"""Above every rate and size of a GPU; products of larger figures would overflow."""
LEAST_RATE = 1e-6
"""Times are divided by rates and shares of them."""
LONGEST_NS = 1e12
"""A thousand seconds: no host call or gap is that long."""


class Figure(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One cost: a value >= 0 and its spread (one robust sigma) in the same unit."""

    value: float
    provenance: Provenance
    source: str
    spread: float = 0.0

    def __post_init__(self) -> None:
        for name, number in (("value", self.value), ("spread", self.spread)):
            if not 0 <= number <= LARGEST_FIGURE:
                raise ValueError(f"{name} {number} is not a number in 0..{LARGEST_FIGURE:g}")
        if not self.source.strip():
            raise ValueError("source is empty")


PLANES = (
    "attention", "decode_attention", "latent_attention", "latent_decode", "index_logits",
    "select_keys", "gated_delta",
)  # fmt: skip
"""Ops whose curves have two axes."""


class CurveKey(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Which kernel a curve times: the op's shape, without the rows."""

    op: Literal[
        "gemm", "grouped_gemm", "experts", "attention", "decode_attention", "elementwise",
        "all_reduce", "batched_gemm", "latent_attention", "latent_decode", "sparse_attention",
        "index_logits", "select_keys", "causal_conv", "conv_update", "gated_delta", "delta_update",
    ]  # fmt: skip
    kind: str = ""  # elementwise: the op's name or kind, "" for any
    k: int = 0  # experts: hidden size
    n: int = 0  # experts: width of one expert on this rank
    experts: int = 0
    top_k: int = 0
    weights: str = "bf16"
    heads: int = 0
    kv_heads: int = 0
    head_dim: int = 0
    window: int = 0  # 0: full attention
    ranks: int = 0


class Curve(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Kernel time, in ns with spread, over one or two ascending axes.

    ``x``: rows (products, experts), bytes moved (elementwise), bytes summed (all_reduce), query
    tokens of prompts, or requests that decode (ops named so, and updates).
    ``y``: keys per query or per request, of ops in ``PLANES``; then ``ns`` is row-major, len(x)
    rows of len(y).
    ``spread_ns`` may be empty where no spread was recorded: ``sigma`` is one then, as a share.
    ``causal``: of prefill attention only prompts without cached context were measured, so that
    entries with more than (x + 1) / 2 keys are carried on from those.
    ``width``: of a decode kernel that reads each request in one piece, for each of ``x``; see
    ``simcg.cost.ragged``. Empty where kernels split long requests: only their keys count.
    """

    key: CurveKey
    x: tuple[float, ...]
    ns: tuple[float, ...]
    spread_ns: tuple[float, ...]
    provenance: Provenance
    source: str
    y: tuple[float, ...] = ()
    sigma: float = 0.0
    causal: bool = False
    width: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        points = len(self.x) * max(len(self.y), 1)
        for name in ("ns", "spread_ns")[: 1 + bool(self.spread_ns)]:
            if len(getattr(self, name)) != points or not points:
                raise ValueError(f"{name} has {len(getattr(self, name))} entries, not {points}")
        if (self.key.op in PLANES) != bool(self.y):
            raise ValueError("y belongs to attention curves and their like, and they need it")
        if self.y and min(len(self.x), len(self.y)) < 2:
            raise ValueError("such a curve needs two entries or more in x and in y")
        if not self.source.strip():
            raise ValueError("source is empty")
        if not 0 <= self.sigma < math.inf:
            raise ValueError(f"sigma is {self.sigma}, not a number >= 0")
        for name in ("x", "y", "ns", "spread_ns"):
            _require_all_positive(name, getattr(self, name))
        for name in ("x", "y"):
            _require_ascending(name, getattr(self, name))
        self._check_width()

    def _check_width(self) -> None:
        if self.width and (self.key.op != "decode_attention" or len(self.width) != len(self.x)):
            raise ValueError("width belongs to decode attention and has an entry for each of x")
        for wide, most in zip(self.width, self.x, strict=False):
            if not 1 <= wide <= most:
                raise ValueError(f"width {wide} is not a number in 1..{most:g}")


class Grid(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """Dense products of any size on weights of one type: ns over k, n and rows, ascending each.

    ``ns`` is row-major: for each k, for each n, one entry for each of ``rows``. Between sizes
    times are interpolated. Both as shares, one sigma: ``noise`` of one time, ``sigma`` of one
    between sizes.
    """

    weights: str
    k: tuple[int, ...]
    n: tuple[int, ...]
    rows: tuple[int, ...]
    ns: tuple[int, ...]
    noise: float
    sigma: float
    provenance: Provenance
    source: str

    def __post_init__(self) -> None:
        points = len(self.k) * len(self.n) * len(self.rows)
        if len(self.ns) != points or not points:
            raise ValueError(f"ns has {len(self.ns)} entries, not {points}")
        if min(len(self.k), len(self.n)) < 2:
            raise ValueError("a grid needs two entries or more in k and in n")
        if not self.source.strip():
            raise ValueError("source is empty")
        for name in ("noise", "sigma"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} is {getattr(self, name)}, not a number >= 0")
        for name in ("k", "n", "rows", "ns"):
            _require_all_positive(name, getattr(self, name))
        for name in ("k", "n", "rows"):
            _require_ascending(name, getattr(self, name))

    @cached_property
    def log_ns(self) -> Floats:
        """Logarithms of the times, [k, n, rows]."""
        out: Floats = np.log(np.array(self.ns, dtype=np.float64))
        return out.reshape(len(self.k), len(self.n), len(self.rows))


class Gpu(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Sizes and rates: bytes, bytes a second, dense operations a second by data type."""

    sms: Figure
    memory_bytes: Figure
    memory_bandwidth: Figure
    link_bandwidth: Figure  # to the other GPUs, one direction, bytes a second
    peak_flops: dict[Literal["bf16", "fp8", "fp4"], Figure]

    def __post_init__(self) -> None:
        if "bf16" not in self.peak_flops:
            raise ValueError('peak_flops has no entry "bf16"')
        for dtype, peak in self.peak_flops.items():
            _require_rate(f"peak_flops.{dtype}", peak)
        for name in ("sms", "memory_bytes", "memory_bandwidth", "link_bandwidth"):
            _require_rate(name, getattr(self, name))


class Host(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Host time in ns.

    ``dispatch``: one kernel of the op of that name, or of that kind, issued eagerly ("" for every
    other).
    ``compiled_dispatch``: one kernel issued by compiled code without a graph.
    ``break_body``: one break, from the end of a segment to the next one's launch.
    ``piece``: what one compiled piece more adds to entering the compiled code (its guards).
    ``launch_latency``: from the end of a launch call to the start of its kernel on an idle GPU.
    ``replay_nodes``, ``replay``: host time of one graph launch over its node count.
    """

    dispatch: dict[str, Figure]
    compiled_dispatch: Figure
    break_body: Figure
    piece: Figure
    launch_latency: Figure
    replay_nodes: tuple[int, ...]
    replay: tuple[Figure, ...]

    def __post_init__(self) -> None:
        if "" not in self.dispatch:
            raise ValueError('dispatch has no entry "" for kinds without a figure of their own')
        if len(self.replay_nodes) != len(self.replay) or not self.replay:
            raise ValueError("replay_nodes and replay must have equal lengths >= 1")
        if any(a >= b for a, b in pairwise((0, *self.replay_nodes))):
            raise ValueError("replay_nodes is not strictly ascending from 1")
        for kind, figure in self.dispatch.items():
            _require_time(f"dispatch.{kind}", figure)
        for index, figure in enumerate(self.replay):
            _require_time(f"replay[{index}]", figure)
        for name in ("compiled_dispatch", "break_body", "piece", "launch_latency"):
            _require_time(name, getattr(self, name))


class Gaps(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """GPU idle time in ns before a kernel.

    ``stream``: issued eagerly on a busy stream.  ``node``: a node of a graph.  ``graph_start``:
    more, before the first node of a graph that follows a graph.  ``after_break``: all of it, before
    the first node of a graph that follows an eager kernel.

    ``node_rows``, ``node_at``: ``node`` over the rows of the step, where measured: at more rows
    caches are colder for the next kernel.  The other gaps change with it.
    """

    stream: Figure
    node: Figure
    graph_start: Figure
    after_break: Figure
    node_rows: tuple[int, ...] = ()
    node_at: tuple[Figure, ...] = ()

    def __post_init__(self) -> None:
        if len(self.node_rows) != len(self.node_at):
            raise ValueError("node_rows and node_at must have equal lengths")
        if any(a >= b for a, b in pairwise((0, *self.node_rows))):
            raise ValueError("node_rows is not strictly ascending from 1")
        for name in ("stream", "node", "graph_start", "after_break"):
            _require_time(name, getattr(self, name))
        for index, figure in enumerate(self.node_at):
            _require_time(f"node_at[{index}]", figure)


class Roofline(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What fills in for curves that were not measured.

    ``compute``, ``bandwidth``: shares of the peak that kernels reach; ``grouped_bandwidth``:
    the same for expert weights; ``floor_ns``: the shortest kernel; ``collective_ns``: an
    all-reduce of a few bytes; ``link``: share of the link's rate that a large one reaches.
    """

    compute: Figure
    bandwidth: Figure
    grouped_compute: Figure
    grouped_bandwidth: Figure
    attention_compute: Figure
    floor_ns: Figure
    collective_ns: Figure
    link: Figure

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if not name.endswith("_ns"):
                _require_rate(name, getattr(self, name))


class Burst(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Speed of compute-bound kernels while they run after work that draws less power.

    Over that of the profile's curves: ``fresh`` at first, ``settled`` in the end.  It falls with
    the time constant ``fall_ns`` and rises again with ``rise_ns`` in memory-bound work.
    """

    fresh: Figure
    settled: Figure
    fall_ns: Figure
    rise_ns: Figure

    def __post_init__(self) -> None:
        if not 0.5 <= self.settled.value <= self.fresh.value <= 2:
            raise ValueError(
                f"settled {self.settled.value} and fresh {self.fresh.value} must ascend in 0.5..2"
            )
        for name in ("fall_ns", "rise_ns"):
            _require_time(name, getattr(self, name))
            if getattr(self, name).value < 1:
                raise ValueError(f"{name} is {getattr(self, name).value}, not at least 1 ns")


class GraphMemory(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Device bytes: of the first graph in a process, per node of an instantiated graph.

    ``exec_bytes_per_graph``: of an instantiated graph beside its nodes.  ``small_segment_bytes``,
    ``large_segment_bytes``: what the caching allocator reserves for one tensor of a few KiB, and
    for one of 2 MiB.
    """

    first_graph_bytes: Figure
    exec_bytes_per_node: Figure
    exec_bytes_per_graph: Figure | None = None
    small_segment_bytes: Figure | None = None
    large_segment_bytes: Figure | None = None


class CompileCost(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a compiler takes in ns: ``once`` a process, imports included, and ``per_layer``.

    ``dispatch``: host time of one kernel that its code issues without a graph, as warm-ups do;
    None: as ``Host.compiled_dispatch``.
    """

    once: Figure
    per_layer: Figure
    dispatch: Figure | None = None


class Startup(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Capture costs in ns: per node beside the dispatch of its op, and the compiler's per layer.

    ``capture_per_segment``: of each graph of a bucket beside its nodes.  ``compilers``: measured
    by name; where there are none, ``compile_per_layer`` speaks for all.
    """

    capture_per_node: Figure
    instantiate_per_node: Figure
    compile_per_layer: Figure
    capture_per_segment: Figure | None = None
    compilers: dict[Literal["eager", "inductor"], CompileCost] = {}


class HardwareProfile(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, dict=True
):
    """One GPU with its host. ``environment`` says what it was measured on, as text.

    ``grids`` price the dense products that no curve is of.

    ``transfer``: by op, one sigma (as a share) of what a kernel is off whose time is transferred
    from measured curves of other sizes.

    ``burst``: None where it was not measured: speeds never change then.
    """

    name: str
    description: str
    environment: dict[str, str]
    gpu: Gpu
    host: Host
    gaps: Gaps
    roofline: Roofline
    memory: GraphMemory
    startup: Startup
    curves: tuple[Curve, ...] = ()
    grids: tuple[Grid, ...] = ()
    transfer: dict[str, Figure] = {}  # msgspec copies it
    burst: Burst | None = None

    @cached_property
    def transferred(self) -> dict[CurveKey, Curve | None]:
        """Curves that ``simcg.cost`` has derived from this profile so far: kept, as they are slow.

        They follow from the fields, so they are no part of the value.
        """
        return {}

    def __post_init__(self) -> None:
        if not self.name.strip() or not self.name.isprintable():
            raise ValueError(f"name {self.name!r} is empty or has characters that do not print")
        known: dict[CurveKey, int] = {}
        for index, curve in enumerate(self.curves):
            first = known.setdefault(curve.key, index)
            if first != index:
                raise ValueError(f"curves[{index}] has the key of curves[{first}]")
        if len({grid.weights for grid in self.grids}) != len(self.grids):
            raise ValueError("grids has two of the same weights")


def _require_ascending(name: str, values: tuple[float, ...]) -> None:
    if any(a >= b for a, b in pairwise(values)):
        raise ValueError(f"{name} is not strictly ascending")


def _require_all_positive(name: str, values: tuple[float, ...]) -> None:
    if min(values, default=1) > 0 and math.isfinite(sum(values)):
        return  # at once: a profile may hold a hundred thousand figures
    for index, value in enumerate(values):
        if not (math.isfinite(value) and value > 0):
            raise ValueError(f"{name}[{index}] is {value}, not a finite number > 0")


def _require_rate(name: str, figure: Figure) -> None:
    if figure.value < LEAST_RATE:
        raise ValueError(f"{name} is {figure.value}, not a number >= {LEAST_RATE:g}")


def _require_time(name: str, figure: Figure) -> None:
    if figure.value > LONGEST_NS:
        raise ValueError(f"{name} is {figure.value} ns, not at most {LONGEST_NS:g}")


def decode_profile(data: bytes, source: str) -> HardwareProfile:
    """The profile in JSON bytes; ``SimcgError`` names the file, the field and what is wrong."""
    try:
        return msgspec.json.decode(data, type=HardwareProfile)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        # the names of unknown fields may hold line breaks
        text = "".join(c if c.isprintable() else " " for c in str(error))
        raise SimcgError(f"{source}: {text}, expected a simcg hardware profile") from None
