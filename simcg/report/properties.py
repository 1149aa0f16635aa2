"""The README's table of verified properties, read off the code that checks them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import simcg.formal
from simcg.formal.invariants import INVARIANTS
from simcg.formal.lemmas import LEMMAS
from simcg.formal.scopes import DEFAULT
from simcg.formal.stage import Checks
from simcg.report.verify import scope_words

HOME = Path(simcg.formal.__file__).parent
TOOLS = {
    "lemmas": "z3",
    "audit": "recordings",
    "ladder_check": "ladders",
    "captures.py": "captures",
    "ranks.py": "ranks",
    "traces.py": "traces",
}
"""By folder or file of simcg/formal; the other files serve all steps that are explored."""
STEPS = "steps"
NO_CHECK = ("mutants/", "invariants.py", "witness.py")
EVERY_STEP: tuple[Checks, ...] = ("steps", "traces", "ranks")


def properties_table() -> str:
    """Markdown: sentence, formula, tool, scope and file of each invariant."""
    lines = ["| | sentence | formula | tool | scope | file |", "|---|---|---|---|---|---|"]
    for key, invariant in INVARIANTS.items():
        files = list(files_of(key))
        tools = list(dict.fromkeys(tool for tool, _ in files))
        scopes = [*_stages(tools), *_lemma_scope(key)]
        formula = invariant.formula.replace("|", "\\|")
        lines.append(
            f"| {key} | **{invariant.name}**: {invariant.sentence} | `{formula}` | "
            f"{', '.join(tools)} | {'; '.join(scopes)} | "
            f"{', '.join(f'`{name}`' for _, name in files)} |"
        )
    stages = [f"{i}. {s.name}: {scope_words(s)}" for i, s in enumerate(DEFAULT, start=1)]
    known = "Numbers are stages of the exploration, files are in `simcg/formal`:"
    return "\n".join([*lines, "", known, "", *stages])


def _stages(tools: list[str]) -> list[str]:
    """The numbers of the stages in which these tools are at work."""
    checks = {*tools, *(EVERY_STEP if STEPS in tools else ())}
    numbers = [str(i) for i, s in enumerate(DEFAULT, start=1) if s.checks in checks]
    return [" ".join(numbers)] if numbers else []


def _lemma_scope(key: str) -> list[str]:
    """The scope of the first lemma on an invariant that always holds."""
    return [m.scope for m in LEMMAS if m.invariant == key and m.kind == "always"][:1]


def files_of(key: str) -> Iterator[tuple[str, str]]:
    """The tool and the file of each place that may say that an invariant is broken."""
    for path in sorted(HOME.rglob("*.py")):
        name = path.relative_to(HOME).as_posix()
        if name.startswith(NO_CHECK) or f'"{key}"' not in path.read_text(encoding="utf-8"):
            continue
        yield TOOLS.get(name.partition("/")[0], STEPS), name
