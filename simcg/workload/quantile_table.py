"""Quantile tables: the figures by which a real trace is kept without carrying its rows."""

from __future__ import annotations

from functools import cache
from importlib import resources

import msgspec

from simcg.errors import InputError


class QuantileTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The distributions of one trace, as ``scripts/make_workloads.py`` writes them.

    ``new_tokens`` are the computed tokens of a prompt at ``levels`` (ascending, 0 to 1). The
    requests in order of new tokens fall into strata of equal size; ``cached_tokens[k]`` and
    ``output_tokens[k]`` are quantiles at ``stratum_levels`` within stratum k, so their dependence
    on new tokens is kept. ``rate`` is the arrivals per window of equal length over
    ``duration_ns``, with mean 1, and ``gaps`` are quantiles at ``levels`` of the gaps between
    arrivals in units of the local mean gap: bursts inside a window. Empty: no such column.
    """

    name: str
    source: str
    url: str
    licence: str
    notes: str
    made_by: str
    requests: int
    duration_ns: int
    levels: tuple[float, ...]
    stratum_levels: tuple[float, ...]
    new_tokens: tuple[int, ...]
    cached_tokens: tuple[tuple[int, ...], ...]
    output_tokens: tuple[tuple[int, ...], ...]
    rate: tuple[float, ...]
    gaps: tuple[float, ...]


@cache
def load_table(name: str) -> QuantileTable:
    """The built-in table of that name; raises InputError for a name that there is not."""
    path = _folder() / f"{name}.json"
    if name not in table_names():
        raise InputError("workload", "", name, f"one of {', '.join(table_names())}")
    return msgspec.json.decode(path.read_bytes(), type=QuantileTable)


@cache
def table_names() -> tuple[str, ...]:
    """Names of the built-in tables, sorted."""
    files = (f.name for f in _folder().iterdir())
    return tuple(sorted(name[:-5] for name in files if name.endswith(".json")))


def _folder() -> resources.abc.Traversable:
    return resources.files("simcg.workload") / "data"
