"""The built-in models that the lean decoder can run."""

from __future__ import annotations

from simcg.errors import InputError
from simcg.model.catalog import architecture_named, model_names
from simcg.model.lean import check_lean


def lean_names() -> list[str]:
    """Those with grouped-query attention and without a shared expert."""
    found = []
    for name in model_names():
        try:
            check_lean(architecture_named(name))
        except InputError:
            continue
        found.append(name)
    return found
