"""Wrong words of counterexamples and wrong readings of pasted flags are told from right ones."""

from __future__ import annotations

from types import ModuleType

import pytest

from simcg.backend import FULL
from simcg.engines import pasted
from simcg.formal import blame, places, terms, words
from simcg.formal.check import Checker
from simcg.formal.explore import ladder_of
from simcg.formal.memory import UNWRITTEN
from simcg.formal.program import Op, Program
from simcg.formal.recorded import calls
from simcg.formal.setting import Room, Setting
from simcg.formal.terms import Terms
from simcg.ladder import Bucket, Ladder
from tests.mutants import holds, mutated

PROGRAM = Program((Op("scatter", (0,)), Op("constant", (0,)), Op("gemm", (2,))))
LADDER = ladder_of(((1, 1), (3, 2)), FULL)


def said(module: ModuleType) -> bool:
    """Counts, buckets, writers and tags by hand."""
    slotted = Ladder((Bucket(1, 1), Bucket(3, 2)))
    tags = {
        (3, (0,), 2): "what (t3 = gemm(t2)) wrote in step 2",
        (3, (), -1): "what (t3 = gemm(t2)) wrote in a warm-up",
        (4, (0,), 0): "what (the copy to the output) wrote in step 0",
        ("padding", 1, (0,), 1): "a row of padding that (scatter(ids)) wrote in step 1",
        ("weight", 1): "the tensor that was made for (t2 = constant(ids))",
        ("lengths", 1): "lengths of step 1",
        ("a new owner",): "the data of a new owner",
        UNWRITTEN: "nothing",
    }
    writers = {(3, (0,), 2): "t3 = gemm(t2)", ("padding", 1, (0,), 1): "scatter(ids)",
               ("lengths", 1): "", ("weight", 1): ""}  # fmt: skip
    return (
        [module.counted(n, "row") for n in (0, 1, 2, 1000)]
        == ["0 rows", "1 row", "2 rows", "1,000 rows"]
        and module.said_bucket(slotted, (1, 1)) == "(3 tokens, 2 slots, host scalar 1)"
        and module.said_bucket(Ladder.of([1]), (0,)) == "(1 token)"
        and module.said_bucket(slotted, ()) == "eager"
        and all(module.said(PROGRAM, tag) == said for tag, said in tags.items())
        and all(module.writer(PROGRAM, tag) == said for tag, said in writers.items())
    )


def named(module: ModuleType) -> bool:
    """Cells of one runner by hand."""
    runner = Checker.of(Setting(PROGRAM, FULL, LADDER, (0, 1), Room(3, 2, 2, 4))).runner
    machine, at = runner.machine, runner.machine.at

    def name(address: int) -> str:
        found: str = module.place(machine, LADDER, runner.captures.values(), address)
        return found

    made = {launch.op: launch for launch, _ in calls(runner.captures[1,])}
    names: tuple[bool, ...] = (
        name(at.statics["slots"]) == "slots[0]",
        name(at.out + 1) == "row 1 of the output",
        name(at.caches[0] + 6) == "row 1, position 2 of the cache of scatter(ids)",
        name(at.sinks[0]) == "the sink",
        name(machine.constants[1]) == "the tensor of t2 = constant(ids)",
        name(made[1].out + 2).startswith("row 2 of t2 of (3 tokens, 2 slots)"),
        name(at.outside - 1) == f"cell {at.outside - 1 - at.pool} of the pool",
        name(at.outside + 1) == "cell 1 outside the pool",
    )
    return all(names)


def shown(module: ModuleType) -> bool:
    """Terms by hand."""
    of: Terms = module.Terms()
    token = of.make("token", 1, 3)
    deep = token
    for _ in range(5):
        deep = of.make("gemm", 1, deep)
    return (
        of.show(token) == "s1[3]"
        and of.show(0) == "0"
        and of.show(of.make("scatter", 0, 0)) == "scatter#1(padding)"
        and of.show(of.make("old cache", 0, 1, 2)) == "old cache#1[row 1, position 2]"
        and of.show(of.make("host", 2, token, 0)) == "host#3(s1[3], value 0)"
        and of.show(deep) == "gemm#2(gemm#2(gemm#2(gemm#2(...))))"
    )


def differs(module: ModuleType) -> bool:
    """The operator around the first difference, and its two terms."""
    of = Terms()
    a, b = of.make("token", 0, 0), of.make("token", 0, 1)
    inner = [of.make("gemm", 0, one) for one in (a, b)]
    found = module.difference(of, of.make("scatter", 1, inner[0]), of.make("scatter", 1, inner[1]))
    longer = module.difference(of, of.make("mix", 1, a, a), of.make("mix", 1, a, a, b))
    whole = module.difference(of, a, inner[0])
    return (
        (found.op, found.what) == (0, "expected gemm#1(s0[0]), found gemm#1(s0[1])")
        and (longer.op, longer.key) == (1, "I7")
        and longer.what == "expected mix#2(s0[0], s0[0]), found mix#2(s0[0], s0[0], s0[1])"
        and (whole.op, whole.what) == (-1, "expected s0[0], found gemm#1(s0[0])")
    )


def read(module: ModuleType) -> bool:
    """Flags by hand."""

    def of(text: str) -> object:
        return module.ladder_of_flags(text, "flags")

    guard = {"rule": {"max_ratio": "2"}}
    return (
        of("serve \\\n--cuda-graph-bs-prefill 8,4 2 --tp 4") == {"sizes": [8, 4, 2]} | guard
        and of("--piecewise-cuda-graph-tokens=8") == {"sizes": [8]}
        and of("--cudagraph-capture-sizes 1 --max-num-batched-tokens 9")
        == {"sizes": [1], "max_tokens": 9}
        and of("--cudagraph-capture-sizes 1 --chunked-prefill-size -1") == {"sizes": [1]}
        and of('{"prefill": {"bs": [4], "full_prefill_max_req": 2}}')
        == {"buckets": [[4, 2]]} | guard
        and of('{"sizes": [1]}') is None
        and of("sizes") is None
    )  # fmt: skip


MUTANTS = {
    "every count plural": (said, words, ' * (number != 1)', ""),
    "none is one": (said, words, "(number != 1)", "(number > 1)"),
    "slots left out": (said, words, "if bucket.slots else []", "if False else []"),
    "scalars left out": (said, words, "for scalar in key[1:]", "for scalar in key[2:]"),
    "the operator after": (said, words, "numbers[0] - 1)", "numbers[0])"),
    "padding by nobody": (said, words, ' or tag[0] == "padding"', ""),
    "warm-ups are steps": (said, words, "if epoch >= 0 else", "if True else"),
    "step 0 is a warm-up": (said, words, "if epoch >= 0 else", "if epoch > 0 else"),
    "the copy is an operator": (said, words, "if index >= len(program.ops)", "if False"),
    "one cell too many": (named, places, "if base <= address < base + cells:",
                          "if base <= address <= base + cells:"),
    "rows and positions swapped": (named, places, "row, position = divmod",
                                   "position, row = divmod"),
    "constants unnamed": (named, places, "machine.constants.items()", "{}.items()"),
    "rows from one": (named, places, 'f"row {row} of t', 'f"row {row + 1} of t'),
    "outside is the pool": (named, places, '"pool" if address < machine.at.outside',
                            '"pool" if True'),
    "the pool begins at 0": (named, places, "cell {address - base}", "cell {address}"),
    "padding is a number": (shown, terms, "str(value) if value else \"padding\"", "str(value)"),
    "any 0 is padding": (shown, terms, "return str(value) if value < FIRST_TERM else self._show",
                         "return self._show"),
    "operators from zero": (shown, terms, "{name}#{op + 1}({'", "{name}#{op}({'"),
    "numbers as rows": (shown, terms, "if name in NUMBER:", "if False:"),
    "terms without an end": (shown, terms, "if not depth:", "if False:"),
    "the term itself": (differs, blame, "terms.show(around[0])", "terms.show(expected)"),
    "the outermost operator": (differs, blame, "        if kind in KINDS:\n",
                               "        if kind in KINDS and op < 0:\n"),
    "a token's operator": (differs, blame, "        if kind in KINDS:\n", "        if True:\n"),
    "lengths are no difference": (differs, blame, "if len(want) != len(got):", "if False:"),
    "commas join": (read, pasted, '.replace(",", " ")', ""),
    "a line ends the flags": (read, pasted, 'text.replace("\\\\\\n", " ")', "text"),
    "guard of another release": (read, pasted, "SGLang(LAST_OLD_FLAGS)", "SGLang()"),
    "no guard": (read, pasted, "{} if ratio is None else", "{} if True else"),
    "values after = lost": (read, pasted, "[value] if equals else []", "[]"),
    "no limit is a limit": (read, pasted, "if limit != NO_LIMIT", ""),
    "slots of flags lost": (read, pasted, "[[size, slots] for size in sizes]",
                            "[[size, 1] for size in sizes]"),
    "any JSON is an engine's": (read, pasted, "next(_of_config(text), None)",
                                "next(_of_config(text), {})"),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTANTS)
def test_each_wrong_text_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    law, module, old, new = MUTANTS[name]
    assert not holds(law, mutated(monkeypatch, module, old, new))


@pytest.mark.parametrize("law", [said, named, shown, differs, read])
def test_the_right_text_holds(law: object, monkeypatch: pytest.MonkeyPatch) -> None:
    modules = {of: module for of, module, _, _ in MUTANTS.values()}
    same = "from __future__ import annotations"
    assert holds(law, mutated(monkeypatch, modules[law], same, same))  # type: ignore[index, arg-type]
