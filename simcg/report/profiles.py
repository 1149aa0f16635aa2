"""Tables of a profile, of two beside each other, and of what an import took."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from simcg.cost.differences import Difference
from simcg.hardware.contents import Section
from simcg.hardware.profile import Burst, Figure, HardwareProfile
from simcg.provenance import ORDER
from simcg.report.tables import Row, plain_table
from simcg.report.units import count
from simcg.silicon.build import Note


def contents_table(sections: Sequence[Section]) -> Table:
    """One row a section: its entries, its numbers, and how many entries are known how."""
    rows: list[Row] = [
        (
            section.name,
            count(section.entries),
            count(section.points),
            ", ".join(f"{section.provenance[p]} {p}" for p in ORDER if p in section.provenance),
        )
        for section in sections
    ]
    return plain_table(("section", "entries", "numbers", "provenance"), rows)


def figures_table(profile: HardwareProfile) -> Table:
    """The GPU's sizes and rates and what the host costs, each with its provenance."""
    gpu, host, gaps = profile.gpu, profile.host, profile.gaps
    named: list[tuple[str, Figure, float, str]] = [
        ("SMs", gpu.sms, 1, ""),
        ("memory", gpu.memory_bytes, 1e9, "GB"),
        ("memory bandwidth", gpu.memory_bandwidth, 1e12, "TB/s"),
        ("link bandwidth", gpu.link_bandwidth, 1e9, "GB/s"),
        *((f"peak {name}", peak, 1e12, "TFLOP/s") for name, peak in gpu.peak_flops.items()),
        *(
            (f"dispatch{f' of {kind}' if kind else ''}", figure, 1e3, "us")
            for kind, figure in host.dispatch.items()
        ),
        ("compiled dispatch", host.compiled_dispatch, 1e3, "us"),
        ("break body", host.break_body, 1e3, "us"),
        ("piece", host.piece, 1e3, "us"),
        ("launch latency", host.launch_latency, 1e3, "us"),
        *(
            (f"replay of {nodes} nodes", figure, 1e3, "us")
            for nodes, figure in zip(host.replay_nodes, host.replay, strict=True)
        ),
        ("gap in a stream", gaps.stream, 1e3, "us"),
        ("gap in a graph", gaps.node, 1e3, "us"),
        *_burst_figures(profile.burst),
    ]
    rows = [
        (name, f"{figure.value / unit:,.4g} {of}".strip(), figure.provenance)
        for name, figure, unit, of in named
    ]
    return plain_table(("figure", "value", "provenance"), rows)


def _burst_figures(burst: Burst | None) -> list[tuple[str, Figure, float, str]]:
    """How fast compute-bound work runs after work that draws less power; nothing if unmeasured."""
    if burst is None:
        return []
    return [
        ("speed of a burst at first", burst.fresh, 1, "times the curves'"),
        ("speed of a burst in the end", burst.settled, 1, "times the curves'"),
        ("time constant of its fall", burst.fall_ns, 1e6, "ms"),
        ("time constant of its rise", burst.rise_ns, 1e6, "ms"),
    ]


def differences_table(found: Sequence[Difference]) -> Table:
    """One row a family of ops: ratios of the second profile over the first."""
    rows: list[Row] = [
        (
            one.family,
            count(one.points),
            f"{one.median:.2f}",
            f"{one.low:.2f}..{one.high:.2f}",
            f"{one.worst.ratio:.2f}",
            f"{one.worst.op}, {one.worst.size}",
        )
        for one in found
    ]
    return plain_table(("ops", "points", "median", "80 % in", "worst", "which is"), rows)


def grounds_table(found: Sequence[Difference]) -> Table:
    """The weakest provenance of each family on both sides."""
    rows: list[Row] = [(one.family, one.first, one.second) for one in found]
    return plain_table(("rests on", "first", "second"), rows)


def notes_table(notes: Sequence[Note]) -> Table:
    """One row a table of the package: its rows, what the profile keeps, what was not taken."""
    rows: list[Row] = [
        (
            note.table,
            note.version,
            count(note.rows),
            count(note.kept),
            count(note.host_bound),
            count(note.disordered),
            note.remark,
        )
        for note in notes
    ]
    columns = ("table", "measured with", "rows", "kept", "host", "order", "remark")
    return plain_table(columns, rows)
