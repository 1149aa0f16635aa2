"""Mutants of the formal model and of the dispatch, drawn with a seed.

They are those of all operators of cosmic-ray (the extra ``mutation``), in an order that the seed
shuffles; those that change nothing but an annotation, which no test can see, are left out.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

MUTATED = ("simcg/ladder.py", "simcg/formal/**/*.py")
WRONG = ("simcg/formal/mutants/",)
"""Wrong on purpose: there the tests are that they are wrong."""
TEXT = ("simcg/formal/words.py", "simcg/formal/places.py", "simcg/formal/film.py")
"""What makes words and pictures for a reader, and decides nothing."""


@dataclass(frozen=True)
class Mutant:
    """One operator applied at one of its places; ``was`` and ``now`` are the lines that differ."""

    module: str
    line: int
    operator: str
    was: str
    now: str
    text: str

    def row(self) -> dict[str, object]:
        """What OUT says of it."""
        return {key: value for key, value in asdict(self).items() if key != "text"}


def bare(text: str) -> str:
    """The text's syntax without annotations, which no test can see; empty if it has none."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return ""
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign):
            node.annotation = ast.Constant(None)
        elif isinstance(node, ast.arg):
            node.annotation = None
        elif isinstance(node, ast.FunctionDef):
            node.returns = None
    return ast.dump(tree)


def mutants(root: Path, seed: int) -> Iterator[Mutant]:
    """All of them, in random order; a change of one module moves no mutant of another."""
    from cosmic_ray.ast import ast_nodes, get_ast  # noqa: PLC0415  # not in clones
    from cosmic_ray.mutating import mutate_code  # noqa: PLC0415
    from cosmic_ray.plugins import get_operator, operator_names  # noqa: PLC0415

    places = []
    operators = {name: get_operator(name) for name in sorted(operator_names())}
    operators = {name: kind() for name, kind in operators.items() if not kind.arguments()}
    files = sorted({file for pattern in MUTATED for file in root.glob(pattern)})
    texts = {str(file.relative_to(root)): file.read_text("utf-8") for file in files}
    for module, text in texts.items():
        if module.startswith(WRONG + TEXT):
            continue
        nodes = list(ast_nodes(get_ast(text)))
        for name, operator in operators.items():
            found = [place for node in nodes for place in operator.mutation_positions(node)]
            places += [(module, name, i, start[0]) for i, (start, _) in enumerate(found)]
    places.sort(key=lambda place: random.Random(f"{seed} {place}").random())
    for module, name, occurrence, _ in places:
        text = mutate_code(texts[module], operators[name], occurrence)
        if text is None or bare(text) == bare(texts[module]):
            continue
        old, new = texts[module].splitlines(), text.splitlines()
        at = next(i for i, pair in enumerate(zip(old, new, strict=False)) if pair[0] != pair[1])
        now = new[at].strip() if len(new) == len(old) else ""
        yield Mutant(module, at + 1, name.removeprefix("core/"), old[at].strip(), now, text)


def statement(text: str, line: int) -> range:
    """The lines of the innermost statement there, without its body."""
    lines = range(line, line + 1)
    for node in ast.walk(ast.parse(text)):  # outer before inner
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or 0):
            body = [n.lineno for n in getattr(node, "body", ())] or [(node.end_lineno or 0) + 1]
            lines = range(node.lineno, max(min(body), node.lineno + 1))
    return lines
