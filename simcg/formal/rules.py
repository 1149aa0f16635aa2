"""The decisions of capture and runner on which correctness rests, each a function of its own.

``Rules()`` are those of a correct system. A mutant exchanges one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from simcg.backend import CaptureBackend
from simcg.formal.kernels import KERNELS, Kernel
from simcg.formal.launch import Held, Key
from simcg.formal.memory import Layout
from simcg.formal.program import ONLY_AS_BREAK, Op, Program
from simcg.formal.step import Step
from simcg.ladder import AdmissionRule, Ladder, dispatch


@lru_cache(maxsize=1 << 14)
def choose(ladder: Ladder, rule: AdmissionRule, tokens: int, requests: int) -> int:
    """The bucket of a batch, by the dispatch of simcg: an index, or ``EAGER_INDEX``."""
    return int(dispatch(ladder, rule, np.array([tokens]), np.array([requests]))[0])


def scalars(program: Program, step: Step) -> Key:
    """Host scalars that graphs of this program bake, so that they belong to the key."""
    baked = any(op.kind == "launch" and not op.breaks for op in program.ops)
    return (step.mode,) if baked else ()


def refuses(op: Op, *, breaking: bool) -> bool:
    """Whether a capture says no: the operator crosses rows unmasked, or needs the host."""
    return op.kind in ONLY_AS_BREAK and not breaking


def padding(name: str, step: Step, layout: Layout) -> int:
    """What cells of a static input behind the real ones hold."""
    match name:
        case "slots":
            return layout.sink
        case "offsets":
            return step.tokens
        case "rows":
            return layout.rows
        case _:
            return 0


def rewritten(_name: str, _real: int, captured: int) -> int:
    """How many cells of a static input each step writes: the captured ones, padding included."""
    return captured


def hold(born_in_this_capture: bool) -> Held:
    """How a replay keeps a break's argument: memory that it defines itself needs no owner."""
    return "weak" if born_in_this_capture else "strong"


def bound(layout: Layout, _step: Step) -> int:
    """The length that attention in a graph is launched for: no request gets longer."""
    return layout.length


def last_use(program: Program, tensor: int) -> int:
    """The last operator that touches a tensor."""
    return program.last_use[tensor]


def always(*_: object) -> bool:
    """The answer of rules that a correct system follows without exception."""
    return True


def never(*_: object) -> bool:
    """The answer of rules that a correct system breaks without exception."""
    return False


Shape = tuple[int, int]
"""Tokens and requests of a batch."""


def largest(shapes: tuple[Shape, ...], _rank: int) -> Shape:
    """What a rank dispatches on: the most tokens and requests of any rank, the same for all."""
    return max(tokens for tokens, _ in shapes), max(requests for _, requests in shapes)


def in_order(ops: tuple[Op, ...]) -> tuple[int, ...]:
    """Which operators a capture records, in which order."""
    return tuple(range(len(ops)))


@dataclass(frozen=True, slots=True)
class Rules:
    """One function or choice for each way to get it wrong.

    Dispatch and key: ``choose``, ``scalars``. Static inputs: ``padding``, ``rewritten``,
    ``moves_static`` (rebuilt elsewhere before each replay), ``waits`` (inputs are rewritten after
    the replay that reads them). Capture: ``refuses``, ``recorded``, ``escapes`` (a kernel goes to
    a stream that the capture does not see), ``hold``, ``bound``,
    ``last_use`` (after which a tensor's memory is free for others), ``keeps_constants``,
    ``remakes_constants`` (each capture makes them anew, as a workspace that grows),
    ``keeps_outside``, ``copies_results``, ``nests`` (a break in a break is part of its call, and
    no item of its own), ``forks``,
    ``joins``, ``frees_unjoined``, ``warms_on_sink``, ``restores``, ``undoes_failure``,
    ``one_compile`` (scalars of the first capture serve all). Replay: ``kernels``,
    ``checks_addresses``, ``reads_output_at_once``, ``output_rows``. Ranks: ``agreed``,
    ``drops_everywhere`` (a bucket whose capture failed on one rank).
    """

    choose: Callable[[Ladder, AdmissionRule, int, int], int] = choose
    scalars: Callable[[Program, Step], Key] = scalars
    padding: Callable[[str, Step, Layout], int] = padding
    rewritten: Callable[[str, int, int], int] = rewritten
    moves_static: Callable[[str], bool] = never
    waits: bool = True
    refuses: Callable[..., bool] = refuses
    recorded: Callable[[tuple[Op, ...]], tuple[int, ...]] = in_order
    escapes: Callable[[Op], bool] = never
    hold: Callable[[bool], Held] = hold
    bound: Callable[[Layout, Step], int] = bound
    last_use: Callable[[Program, int], int] = last_use
    keeps_constants: bool = True
    remakes_constants: bool = False
    keeps_outside: bool = True
    copies_results: bool = True
    nests: bool = True
    forks: bool = True
    joins: bool = True
    frees_unjoined: bool = False
    warms_on_sink: bool = True
    restores: bool = True
    undoes_failure: bool = True
    one_compile: bool = False
    kernels: Mapping[str, Kernel] = field(default_factory=lambda: KERNELS)
    checks_addresses: bool = True
    reads_output_at_once: bool = True
    output_rows: Callable[[int, int], tuple[int, int]] = lambda tokens, _captured: (0, tokens)
    agreed: Callable[[tuple[Shape, ...], int], Shape] = largest
    drops_everywhere: bool = True


def breaks_at(op: Op, backend: CaptureBackend) -> bool:
    """Whether a backend runs the operator between segments."""
    return op.breaks and backend.breaks
