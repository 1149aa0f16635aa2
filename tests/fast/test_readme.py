"""What the README shows as Python runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.example_files import ROOT, write_example_files

README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_the_python_of_the_readme_runs(
    block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a folder with the files that it names."""
    if "torch" in block:
        pytest.importorskip("torch", reason="torch is not installed: pip install '.[gpu]'")
    write_example_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "README.md", "exec"), {"__name__": "readme"})


def test_the_first_example_has_about_ten_lines() -> None:
    """As its heading says."""
    assert 8 <= len([line for line in BLOCKS[0].splitlines() if line]) <= 12
