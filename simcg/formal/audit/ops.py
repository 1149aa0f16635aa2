"""Operators whose schema says more than they touch."""

from __future__ import annotations

PARTIAL = frozenset(
    {
        "index_copy_", "index_fill_", "index_put_", "_index_put_impl_",
        "scatter_", "masked_fill_", "masked_scatter_", "put_",
    }
)  # fmt: skip
"""In place, they write some elements and leave the others; they read none of them."""

SELECTING = frozenset(
    {
        "index", "_unsafe_index", "index_select", "gather", "embedding", "take", "masked_select",
        "where",
    }
)  # fmt: skip
"""They read elements that other arguments choose."""


def base_name(name: str) -> str:
    """``aten.mm.default`` is ``mm``; a name without a namespace is itself."""
    parts = name.split(".")
    return parts[1] if len(parts) > 1 else name
