"""Which mutants of the formal model and of the dispatch does no test tell from the original?

    python -m benchmarks.mutation COUNT [SEED]     tests the first COUNT mutants, adds to OUT
    python -m benchmarks.mutation                  prints OUT as the Markdown table of README

Each mutant (benchmarks/mutants.py) is put into a clone of the last commit and meets the fast tests
that run its statement, BUDGET_S seconds of them at most. A test that takes LIMIT times its time
kills. Tests in tests/power do not count: they replace text that a mutant may have changed. Run
again, those are tested that survived, and new ones.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import cache_from_source
from itertools import islice
from pathlib import Path
from queue import SimpleQueue
from threading import Lock
from typing import Any

from benchmarks.mutants import MUTATED, Mutant, mutants, statement
from benchmarks.mutation_hooks import LIMIT, PLAN

OUT = Path(__file__).parent / "runs" / "mutation.jsonl"
TESTS = ("ladder", "formal_*", "lemmas*", "verify_*", "recording*", "audit*")
KINDS = ("tests/fast/test_formal_values.py", "tests/fast/test_formal_scopes.py")
TIMED = ("tests/fast/test_lemmas.py", "    assert proof.ms < 1000\n")  # not on a busy machine
WORKERS = 2
BUDGET_S = 20
FIRST = 8  # most mutants die here, before all files of tests have been read


@dataclass(frozen=True)
class Covered:
    """The clean run: the seconds of each test, and which tests run which line of which file."""

    seconds: Mapping[str, float]
    tests: Mapping[str, Mapping[int, frozenset[str]]]

    def order(self, root: Path, mutant: Mutant, kills: Counter[str]) -> list[list[str]]:
        """The tests that run its statement: the first of them, the rest, and those with torch.

        What killed most mutants so far comes first, then what is short. A statement that runs at
        import alone is for all tests of its module, and for those of what values there are.
        """
        lines = self.tests.get(mutant.module, {})
        run = statement((root / mutant.module).read_text("utf-8"), mutant.line)
        found = {test for n in run for test in lines.get(n, ())}
        if not found:
            found = {test for tests in lines.values() for test in tests}
            found |= {test for test in self.seconds if test.startswith(KINDS)}
        heavy = {test: "torch" in (root / test.split("::")[0]).read_text("utf-8") for test in found}
        spent, groups = 0.0, defaultdict[bool, list[str]](list)
        for test in sorted(found, key=lambda x: (heavy[x], -kills[x], self.seconds[x], x)):
            spent += self.seconds[test]
            if spent < BUDGET_S:
                groups[heavy[test]].append(test)
        light = groups[False]
        return [group for group in (light[:FIRST], light[FIRST:], groups[True]) if group]


def first_failure(root: Path, tests: list[str], *before: str, wall_s: float = 3600) -> str:
    """The test that failed first, or why there is none that did; empty when all passed."""
    shutil.rmtree(root / ".hypothesis", ignore_errors=True)
    argv = ["-x", "-q", "-n0", "-p", "no:cacheprovider", "-p", "benchmarks.mutation_hooks"]
    command = [sys.executable, *before, "-m", "pytest", *argv, "--hypothesis-seed=0", *tests]
    environment = {**os.environ, PLAN: str(root / "plan.json"), "PYTHONDONTWRITEBYTECODE": ""}
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


def clean_run(root: Path) -> Covered:
    """All tests on the clone as it is; they must pass."""
    import coverage  # noqa: PLC0415  # the clean run's

    files = sorted({file for name in TESTS for file in root.glob(f"tests/fast/test_{name}.py")})
    tests = [str(file.relative_to(root)) for file in files]
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


def outcome(root: Path, mutant: Mutant, groups: list[list[str]], covered: Covered) -> str:
    """What kills the mutant; empty if nothing does."""
    file = root / mutant.module
    text, killer = file.read_text("utf-8"), ""
    compiled = Path(cache_from_source(str(file)))  # it knows a text by its second and its size
    try:
        file.write_text(mutant.text, "utf-8")
        compiled.unlink(missing_ok=True)
        for group in groups:
            wall_s = 120 + 4 * LIMIT * sum(covered.seconds[test] for test in group)
            killer = killer or first_failure(root, group, wall_s=wall_s)
    finally:
        file.write_text(text, "utf-8")
        compiled.unlink(missing_ok=True)
    return killer


def test_all(count: int, seed: int) -> None:
    """OUT has the rows of the first mutants; those killed before are not tested again."""
    done = {_key(row): row for row in read() if row["outcome"] == "killed"}
    kills: defaultdict[str, Counter[str]] = defaultdict(Counter)
    lock, roots = Lock(), SimpleQueue[Path]()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(WORKERS) as pool:
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
            row = mutant.row()
            if _key(row) in done:
                return dict(done[_key(row)])
            root, killed_by = roots.get(), kills[mutant.module]
            try:
                killer = outcome(root, mutant, covered.order(root, mutant, killed_by), covered)
            finally:
                roots.put(root)
            row |= {"outcome": "killed" if killer else "survived", "killer": killer}
            killed_by[killer] += 1
            with lock, OUT.open("a", encoding="utf-8") as out:
                print(json.dumps(row), file=out)
            return row

        rows = list(pool.map(one, drawn))
    rows.sort(key=lambda row: (row["module"], row["line"], row["operator"], row["now"]))
    OUT.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")


def read() -> list[dict[str, Any]]:
    """The rows of OUT."""
    lines = OUT.read_text("utf-8").splitlines() if OUT.exists() else []
    return [json.loads(line) for line in lines]


def _key(row: Mapping[str, Any]) -> tuple[object, ...]:
    return tuple(row[name] for name in ("module", "line", "operator", "was", "now"))


def table() -> Iterator[str]:
    """Mutants and how many were killed, by module and in all, as Markdown."""
    yield "| module | mutants | killed |"
    yield "|---|---|---|"
    rows = read()
    by_module = Counter(row["module"] for row in rows)
    killed = Counter(row["module"] for row in rows if row["outcome"] == "killed")
    for module, number in sorted(by_module.items()):
        yield f"| {module} | {number} | {killed[module]} |"
    share = killed.total() / len(rows)
    yield f"| all | {len(rows)} | {killed.total()} ({share:.1%}) |"


if __name__ == "__main__":
    if sys.argv[1:]:
        test_all(int(sys.argv[1]), int((sys.argv[2:] or ["0"])[0]))
    else:
        print("\n".join(table()))
