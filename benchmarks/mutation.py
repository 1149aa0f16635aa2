"""Mutants of the formal model and of the dispatch: which of them does no test tell?

    python -m benchmarks.mutation COUNT [SEED]     tests the first COUNT mutants, adds to OUT
    python -m benchmarks.mutation                  prints OUT as the Markdown of README

Mutants are those of all operators of cosmic-ray (the extra ``mutation``) in MUTATED, in an order
that the seed shuffles; those that change nothing but an annotation are left out. Each is put into a
clone of the last commit and meets, shortest first, the tests that run its statement, then DEEP. A
test that takes LIMIT times its time kills. Tests in tests/power do not count, as they replace text
that a mutant may have changed. Run again, it meets only the mutants that survived, and new ones.
"""

from __future__ import annotations

import ast
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from queue import SimpleQueue
from threading import Lock
from typing import Any

import pytest

OUT = Path(__file__).parent / "runs" / "mutation.jsonl"
MUTATED = ("simcg/ladder.py", "simcg/formal/**/*.py")
LEFT_OUT = "simcg/formal/mutants/"  # wrong on purpose
TESTS = ("ladder", "formal_*", "lemmas*", "verify_*", "recording*", "audit*")
KINDS = "tests/fast/test_formal_values.py"
TIMED = (
    "tests/fast/test_lemmas.py",
    "    assert proof.ms < 1000\n",
)  # a busy machine must not kill
WORKERS = 2
BUDGET_S = 20
LIMIT = 4
MEMORY_BYTES = 8 << 30
PLAN = "SIMCG_MUTATION_PLAN"
SECONDS: dict[str, float] = {}  # of the tests of this process


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
        if module.startswith(LEFT_OUT):
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


@dataclass(frozen=True)
class Covered:
    """The clean run: the seconds of each test, and which tests run which line of which file."""

    seconds: Mapping[str, float]
    tests: Mapping[str, Mapping[int, frozenset[str]]]

    def order(self, root: Path, mutant: Mutant, kills: Counter[str]) -> list[list[str]]:
        """The tests that run its statement: those without torch, then the others.

        What killed most mutants so far comes first, then what is short. A statement that runs at
        import alone is for all tests of its module and for those of the classes' kinds.
        """
        lines = self.tests.get(mutant.module, {})
        run = statement((root / mutant.module).read_text("utf-8"), mutant.line)
        found = {test for n in run for test in lines.get(n, ())}
        if not found:
            found = {test for tests in lines.values() for test in tests}
            found |= {test for test in self.seconds if test.startswith(KINDS)}
        spent = 0.0
        groups: tuple[list[str], list[str]] = ([], [])
        heavy = {test: "torch" in (root / test.split("::")[0]).read_text("utf-8") for test in found}
        for test in sorted(found, key=lambda x: (heavy[x], -kills[x], self.seconds[x], x)):
            spent += self.seconds[test]
            if spent < BUDGET_S:
                groups[heavy[test]].append(test)
        return [group for group in groups if group]


def first_failure(root: Path, tests: list[str], *before: str, wall_s: float = 3600) -> str:
    """The test that failed first, or why there is none that did; empty when all passed."""
    shutil.rmtree(root / ".hypothesis", ignore_errors=True)
    argv = ["-x", "-q", "-n0", "-p", "no:cacheprovider", "-p", "benchmarks.mutation"]
    command = [sys.executable, *before, "-m", "pytest", *argv, "--hypothesis-seed=0", *tests]
    environment = {**os.environ, PLAN: str(root / "plan.json")}
    with subprocess.Popen(
        command, cwd=root, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, start_new_session=True,
    ) as run:  # fmt: skip
        try:
            out, _ = run.communicate(timeout=wall_s)
        except subprocess.TimeoutExpired:
            return "took too long"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(run.pid, signal.SIGKILL)  # its children
    if run.returncode == -signal.SIGPROF:
        return f"{(root / 'running').read_text('utf-8')} took too long"
    told = [x for x in out.splitlines() if x.startswith(("FAILED ", "ERROR "))]
    why = told[0].split(" ", 1)[1].split(" - ")[0] if told else f"exit code {run.returncode}"
    return why if run.returncode else ""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """In a clean run, notes what a test runs and how long; else ends it at its limit."""
    plan = Path(os.environ[PLAN])
    clean = not plan.exists()
    if clean:
        import coverage  # noqa: PLC0415  # the clean run's

        (coverage.Coverage.current() or coverage.Coverage()).switch_context(item.nodeid)
    else:
        (plan.parent / "running").write_text(item.nodeid, "utf-8")
        usual_s = json.loads(plan.read_text("utf-8")).get(item.nodeid, 60)
        signal.setitimer(signal.ITIMER_PROF, 5 + LIMIT * usual_s)
    start = time.process_time()
    result = yield
    signal.setitimer(signal.ITIMER_PROF, 0)
    if clean:
        SECONDS[item.nodeid] = time.process_time() - start
    return result


def pytest_sessionstart() -> None:
    """A mutant must not fill the machine's memory."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))


def pytest_sessionfinish() -> None:
    """Leaves the clean run's seconds for the runs that follow."""
    if SECONDS:
        Path(os.environ[PLAN]).write_text(json.dumps(SECONDS), "utf-8")


def clean_run(root: Path) -> Covered:
    """All tests on the clone as it is; they must pass."""
    import coverage  # noqa: PLC0415  # the clean run's

    tests = sorted(
        f"tests/fast/{f.name}" for t in TESTS for f in (root / "tests/fast").glob(f"test_{t}.py")
    )
    (root / "plan.json").unlink(missing_ok=True)
    include = f"--include={','.join(MUTATED)}"
    failed = first_failure(root, tests, "-m", "coverage", "run", "--data-file=covered", include)
    if failed:
        raise SystemExit(f"the tests fail without a mutant: {failed}")
    data = coverage.CoverageData(str(root / "covered"))
    data.read()
    tests_of = {
        str(Path(file).relative_to(root)): {
            line: frozenset(test for test in tests if test)
            for line, tests in data.contexts_by_lineno(file).items()
        }
        for file in data.measured_files()
    }
    return Covered(json.loads((root / "plan.json").read_text("utf-8")), tests_of)


def outcome(root: Path, mutant: Mutant, covered: Covered, kills: Counter[str]) -> dict[str, Any]:
    """The mutant's row: killed or survived, and by which test."""
    file = root / mutant.module
    text = file.read_text("utf-8")
    compiled = file.parent / "__pycache__"
    groups = covered.order(root, mutant, kills)
    start = time.monotonic()
    try:
        file.write_text(mutant.text, "utf-8")
        killer = ""
        for group in groups:
            shutil.rmtree(compiled, ignore_errors=True)  # it knows a text by seconds and size
            wall_s = 120 + 4 * LIMIT * sum(covered.seconds[test] for test in group)
            killer = killer or first_failure(root, group, wall_s=wall_s)
    finally:
        file.write_text(text, "utf-8")
        shutil.rmtree(compiled, ignore_errors=True)
    took = round(time.monotonic() - start, 1)
    end = {"outcome": "killed" if killer else "survived", "killer": killer, "seconds": took}
    return {**mutant.row(), **end}


def test_all(count: int, seed: int) -> None:
    """Adds to OUT the rows of the first mutants, but those that were killed before."""
    rows = (
        [json.loads(line) for line in OUT.read_text("utf-8").splitlines()] if OUT.exists() else []
    )
    done = {_key(row): row for row in rows if row["outcome"] == "killed"}
    kills: defaultdict[str, Counter[str]] = defaultdict(Counter)
    lock = Lock()
    with tempfile.TemporaryDirectory() as folder:
        roots: SimpleQueue[Path] = SimpleQueue()
        for number in range(WORKERS):
            root = Path(folder).resolve() / str(number)
            subprocess.run(["git", "clone", "-q", ".", str(root)], check=True)
            timed = root / TIMED[0]
            timed.write_text(timed.read_text("utf-8").replace(TIMED[1], ""), "utf-8")
            roots.put(root)
        drawn = list(islice(mutants(root, seed), count))
        covered = clean_run(root)
        for other in Path(folder).iterdir():
            (other / "plan.json").write_text(json.dumps(covered.seconds), "utf-8")

        def one(mutant: Mutant) -> dict[str, Any]:
            if _key(mutant.row()) in done:
                return dict(done[_key(mutant.row())])
            root = roots.get()
            try:
                row = outcome(root, mutant, covered, kills[mutant.module])
            finally:
                roots.put(root)
            kills[mutant.module][row["killer"]] += 1
            with lock, OUT.open("a", encoding="utf-8") as out:
                print(json.dumps(row), file=out)
            return row

        with ThreadPoolExecutor(WORKERS) as pool:
            rows = list(pool.map(one, drawn))
    rows.sort(key=lambda row: (row["module"], row["line"], row["operator"], row["now"]))
    OUT.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")


def _key(row: Mapping[str, Any]) -> tuple[object, ...]:
    return tuple(row[name] for name in ("module", "line", "operator", "was", "now"))


if __name__ == "__main__":
    test_all(int(sys.argv[1]), int((sys.argv[2:] or ["0"])[0]))
