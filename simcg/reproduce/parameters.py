"""What is fitted: few host and memory costs of the published machine, physical and bounded."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import msgspec

from simcg.hardware.catalog import load_profile
from simcg.hardware.profile import Figure, HardwareProfile


@dataclass(frozen=True, slots=True)
class Parameters:
    """Costs that no table of kernels states: times in ns on a Grace host, memory as a factor."""

    dispatch_ns: float
    attention_ns: float
    outside_ns: float
    piece_ns: float
    compiled_dispatch_ns: float
    compile_per_op_ns: float
    exec_factor: float

    def with_value(self, name: str, value: float) -> Parameters:
        """The same with one of them changed."""
        return replace(self, **{name: value})


@dataclass(frozen=True, slots=True)
class Bound:
    """A parameter's physical range, the published value it is solved for, and why so."""

    name: str
    row: str
    low: float
    high: float
    meaning: str
    source: str

    @property
    def middle(self) -> float:
        """Where the fit starts: halfway."""
        return (self.low + self.high) / 2


BOUNDS: tuple[Bound, ...] = (
    Bound(
        "dispatch_ns", "C1", 37_080, 4 * 44_000,
        "host time of one eager kernel: the framework's calls, module code and allocations",
        "one to four calls: a bf16 Linear takes 37.1 us on GB200 (H1), an eager all-reduce 39-44 us"
        " more than a graphed one on GB300 (aiconfigurator-core 0.12.0)",
    ),
    Bound(
        "compiled_dispatch_ns", "C2-capture", 37_080 / 4, 4 * 44_000,
        "host time of one kernel that compiled code issues, as while tc_piecewise is captured",
        "from a quarter of one call to as long as uncompiled code",
    ),
    Bound(
        "compile_per_op_ns", "C2-compile", 13e6, 160e6,
        "torch.compile of one op of the forward, beside the run of every shape that follows it",
        "a quarter to 2.8 times (a Grace host: H1) of 57 ms an op, measured on an H200 host",
    ),
    Bound(
        "attention_ns", "R2", 65_000, 1_000_000,
        "host time of one attention call, eager or at a break",
        "from the 65 us of torch's own varlen attention at a break on an H200 host to a "
        "millisecond of metadata, cache writes and copies in an engine",
    ),
    Bound(
        "outside_ns", "R1", 0, 70e6,
        "time to first token outside the forward: request handling, metadata, sampling, output",
        "the draft chart's shortest TTFT",
    ),
    Bound(
        "piece_ns", "R3", 0, 1_000_000,
        "guards and dispatch of one compiled piece at replay",
        "0 to a millisecond",
    ),
    Bound(
        "exec_factor", "M1", 1, 8,
        "device bytes of an instantiated graph against the same graph's on the measured H200",
        "1.8 KiB a node and 91 KiB a graph there; 10-39 MB a graph of 2,000 nodes are published",
    ),
)  # fmt: skip
"""In the order in which they are solved for: the first ones need no other."""


def start() -> Parameters:
    """Every parameter in the middle of its range."""
    return Parameters(**{bound.name: bound.middle for bound in BOUNDS})


def names() -> tuple[str, ...]:
    """The parameters' names."""
    return tuple(field.name for field in fields(Parameters))


def with_parameters(
    base: HardwareProfile, values: Parameters, ops_per_layer: float
) -> HardwareProfile:
    """The profile whose host and exec memory cost what the parameters say.

    ``ops_per_layer``: ops of the forward for each layer of the model, as a profile compiles layers;
    one at which pieces split is traced all the same, as the call of a custom op. A base that
    carries the parameters already gives the same: none of its figures that they replace counts.
    """

    def fitted(value: float) -> Figure:
        return Figure(value, "fitted", "simcg reproduce: R1-R3, C1, C2 and M1")

    attention = fitted(values.attention_ns)
    host = msgspec.structs.replace(
        base.host,
        dispatch={"": fitted(values.dispatch_ns), "attention": attention},
        compiled_dispatch=fitted(values.compiled_dispatch_ns),
        break_body=attention,
        piece=fitted(values.piece_ns),
    )
    startup = msgspec.structs.replace(
        base.startup,
        compile_per_layer=fitted(values.compile_per_op_ns * ops_per_layer),
        compilers={},
    )
    measured = load_profile("h200").memory
    graph = measured.exec_bytes_per_graph
    memory = msgspec.structs.replace(
        base.memory,
        exec_bytes_per_node=fitted(measured.exec_bytes_per_node.value * values.exec_factor),
        exec_bytes_per_graph=None if graph is None else fitted(graph.value * values.exec_factor),
    )
    return msgspec.structs.replace(base, host=host, startup=startup, memory=memory)
