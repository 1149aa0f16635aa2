"""Cuts one FX graph at its breaks; says which values cross each cut and when each one dies."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import fx
from torch.fx.graph import _BoxedCodeGen

BoxedCall = Callable[[list[Any]], Sequence[Any]]
PieceCompiler = Callable[[fx.GraphModule], BoxedCall]


@dataclass(frozen=True, slots=True)
class Value:
    """Stands for the value of that name in a break's arguments and in a program's results."""

    name: str


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch between breaks: ``call([values of inputs])`` gives the values of outputs.

    ``call`` is compiled; ``as_traced`` does the same by torch's own operators, and holds no value
    longer than to its last use. Both empty their list.
    """

    call: BoxedCall
    as_traced: BoxedCall
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    drops: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Break:
    """A call of a marked function; tensors among its arguments are ``Value``s."""

    function: Callable[..., None]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    drops: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Program:
    """Pieces and breaks in order, from the values of ``inputs`` to those in ``results``.

    ``drops`` of an item names the values that nothing after it needs.
    """

    inputs: tuple[str, ...]
    items: tuple[Piece | Break, ...]
    results: tuple[Any, ...]


def split(
    graph: fx.GraphModule, marked: Collection[Any], compile_piece: PieceCompiler | None
) -> Program:
    """The program of ``graph``, cut at calls of ``marked`` functions.

    Sizes that are inputs of the graph are inputs of every piece: a compiler needs their names.
    """
    nodes = list(graph.graph.nodes)
    inputs = [node for node in nodes if node.op == "placeholder"]
    (output,) = (node for node in nodes if node.op == "output")
    sizes = [node for node in inputs if isinstance(node.meta.get("example_value"), torch.SymInt)]
    groups = _groups([node for node in nodes if node not in inputs and node is not output], marked)
    last = _last_uses(groups, output)
    items: list[Piece | Break] = []
    for index, group in enumerate(groups):
        used = [node for node in _used_from_outside(group) if node not in sizes]
        drops = _names(node for node in used if last[node] == index)
        if _is_break(group[0], marked):
            items.append(_break(graph, group[0], drops))
            continue
        outputs = [node for node in group if last.get(node, -1) > index]
        taken = [*sizes, *used]
        as_traced = _run_as_traced(_module(graph, taken, group, outputs))
        call = compile_piece(_module(graph, taken, group, outputs)) if compile_piece else as_traced
        items.append(Piece(call, as_traced, _names(taken), _names(outputs), drops))
    results = fx.map_arg(output.args[0], lambda node: Value(node.name))
    return Program(_names(inputs), tuple(items), results)


def _names(nodes: Iterable[fx.Node]) -> tuple[str, ...]:
    return tuple(node.name for node in nodes)


def _run_as_traced(piece: fx.GraphModule) -> BoxedCall:
    piece.graph.set_codegen(_BoxedCodeGen())
    piece.recompile()
    return cast(BoxedCall, piece.forward)


def _break(graph: fx.GraphModule, node: fx.Node, drops: tuple[str, ...]) -> Break:
    def stand_in(used: fx.Node) -> Any:
        return getattr(graph, str(used.target)) if used.op == "get_attr" else Value(used.name)

    args, kwargs = fx.map_arg((node.args, node.kwargs), stand_in)
    return Break(cast(Any, node.target).__wrapped__, args, kwargs, drops)


def _is_break(node: fx.Node, marked: Collection[Any]) -> bool:
    return node.op == "call_function" and node.target in marked


def _groups(nodes: Sequence[fx.Node], marked: Collection[Any]) -> list[list[fx.Node]]:
    """Runs of nodes between breaks, and each break by itself; constants go where they are used."""
    groups: list[list[fx.Node]] = []
    open_group = False
    for node in nodes:
        if node.op == "get_attr":
            continue
        is_break = _is_break(node, marked)
        if is_break or not open_group:
            groups.append([])
        groups[-1].append(node)
        open_group = not is_break
    return groups


def _last_uses(groups: Sequence[Sequence[fx.Node]], output: fx.Node) -> dict[fx.Node, int]:
    """Index of the last group that uses each node; len(groups) for the graph's results."""
    last: dict[fx.Node, int] = {}
    for index, group in enumerate(groups):
        for node in group:
            last.update(dict.fromkeys(node.all_input_nodes, index))
    last.update(dict.fromkeys(output.all_input_nodes, len(groups)))
    return last


def _used_from_outside(group: Sequence[fx.Node]) -> list[fx.Node]:
    inside = set(group)
    used = dict.fromkeys(n for node in group for n in node.all_input_nodes)
    return [node for node in used if node not in inside and node.op != "get_attr"]


def _module(
    parent: fx.GraphModule,
    inputs: Sequence[fx.Node],
    group: Sequence[fx.Node],
    outputs: Sequence[fx.Node],
) -> fx.GraphModule:
    """The nodes of ``group`` as a module of their own; it returns a tuple."""
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    for node in inputs:
        copies[node] = graph.placeholder(node.name)
        copies[node].meta = node.meta.copy()

    def copy_of(node: fx.Node) -> fx.Node:
        if node not in copies:  # a constant of the traced module
            copies[node] = graph.node_copy(node)
        return copies[node]

    for node in group:
        copies[node] = graph.node_copy(node, copy_of)
    graph.output(tuple(copies[node] for node in outputs))
    return fx.GraphModule(parent, graph)
