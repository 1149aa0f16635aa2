"""Real traces, which are not part of the repository: where they are, or why a test is skipped."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def trace(name: str) -> Path:
    """The path of a real trace; skips the test where it is absent.

    Looks in the folder that SIMCG_TRACES names, else in ``../shared/traces`` beside the checkout.
    """
    beside = Path(__file__).parents[2] / "shared" / "traces"
    path = Path(os.environ.get("SIMCG_TRACES", beside)) / name
    if not path.exists():
        pytest.skip(f"no {name}: set SIMCG_TRACES to a folder with the public traces")
    return path
