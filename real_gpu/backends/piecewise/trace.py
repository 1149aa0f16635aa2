"""Traces a forward once, by Dynamo, for every number of rows; enters it through its guards."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FunctionType
from typing import Any, NoReturn

import torch
import torch.fx.experimental._config as shape_config
from torch import fx
from torch._dynamo.exc import (
    BackendCompilerFailed,
    RecompileError,
    TorchDynamoException,
    Unsupported,
)
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from real_gpu.backends.backend import Forward
from real_gpu.backends.breaks import handling_breaks, marked_functions
from real_gpu.backends.piecewise.compilers import PIECE_COMPILERS, CompilerName
from real_gpu.backends.piecewise.inputs import rows_may_vary, tensors_of_rows
from real_gpu.backends.piecewise.split import Program, split
from real_gpu.graphs.device import CaptureError

Execute = Callable[[Program, Sequence[Any]], Sequence[Any]]
"""What one entry does with the program, given the values of its inputs; returns its results."""

ADVICE = "; move it out of the forward, or mark its function with @eager_on_graph"


def _enter(forward: Forward) -> torch.Tensor:
    return forward()


class TracedForward:
    """The program of a forward, entered as compiled code is: guards first, at every call.

    Forwards of all row counts must be closures of the same code; each is an entry's argument.
    """

    def __init__(self, compiler: CompilerName) -> None:
        self._compile_piece = PIECE_COMPILERS[compiler]
        self._program: Program | None = None
        self._execute: Execute = _not_entered
        self._refusal: CaptureError | None = None
        self._outgrown = False
        # Dynamo keeps what it compiled with the code object: one of our own dies with us
        own = FunctionType(_enter.__code__.replace(), globals())
        self._compiled = torch.compile(own, backend=_backend_of(self), fullgraph=True)

    def holds(self, forward: Forward) -> bool:
        """Whether the guards hold for that forward."""
        try:
            self.enter(forward, _stop)
        except _Stopped:
            return True
        except CaptureError:
            return False
        return True

    def trace(self, forward: Forward, rows: int) -> None:
        """Trace, cut and compile, without running.

        Raises ``CaptureError`` that names what cannot be traced.
        """
        with (
            rows_may_vary(tensors_of_rows(forward, rows)),
            # one row is a size like others; equal sizes of unlike things are a coincidence
            shape_config.patch(backed_size_oblivious=True, use_duck_shape=False),
            # nothing else varies, whatever other forwards had in its place
            torch._dynamo.config.patch(automatic_dynamic_shapes=False),
            _silent("torch._subclasses.fake_tensor"),
        ):
            for function in marked_functions():
                torch._dynamo.allow_in_graph(function)
            try:
                self.enter(forward, _stop)
            except _Stopped:
                pass
            except TorchDynamoException as error:
                raise (self._refusal or _untraceable(error)) from error
        if self._program is None or not self._program.items:
            raise CaptureError("forward has no operator that could be captured")

    def enter(self, forward: Forward, execute: Execute) -> torch.Tensor:
        """Check the guards and let ``execute`` run the program.

        Raises ``CaptureError`` naming the guard if the program does not hold for this forward.
        """
        self._execute = execute
        try:
            with handling_breaks(self._at_mark):
                result: torch.Tensor = self._compiled(forward)
        except TorchDynamoException:
            if not self._outgrown:
                raise
        else:
            return result
        self._outgrown = False
        raise self._guard_error(forward)

    def _build(self, graph: fx.GraphModule, _inputs: Sequence[Any]) -> Callable[..., Any]:
        """Dynamo's backend: called once; a second call means that a guard failed."""
        if self._program is not None:
            self._fail_guard()
        self._refusal = _value_dependence(graph)
        if self._refusal is not None:
            raise self._refusal
        self._program = split(graph, marked_functions(), self._compile_piece)
        mine = weakref.ref(self)
        return lambda *values: _alive(mine)._run(values)

    def _run(self, values: Sequence[Any]) -> Sequence[Any]:
        """What the compiled code does once its guards hold."""
        assert self._program is not None
        return self._execute(self._program, values)

    def _at_mark(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Stands in for a marked function while Dynamo asks what it returns."""
        if torch._guards.TracingContext.try_get() is None:
            return function(*args, **kwargs)  # a break inside a break, which is running
        if self._program is not None:
            self._fail_guard()
        self._refusal = _refusal(function, (*args, *kwargs.values()))
        if self._refusal is not None:
            raise self._refusal
        return None

    def _fail_guard(self) -> NoReturn:
        self._outgrown = True
        raise CaptureError("a guard failed")

    def _guard_error(self, forward: Forward) -> CaptureError:
        with torch._dynamo.config.patch(error_on_recompile=True):
            try:
                self._compiled(forward)
            except RecompileError as error:
                guards = [
                    line.strip() for line in str(error).splitlines() if line.startswith("    - ")
                ]
                reason = "; ".join(guards)
            else:
                reason = "the guard held when it was asked again"
        return CaptureError(
            "forward was traced once for all sizes, and the trace does not hold here: " + reason
        )


def _backend_of(traced: TracedForward) -> Callable[..., Any]:
    """Its ``_build``, without keeping it alive: Dynamo never forgets a backend that it has met."""
    mine = weakref.ref(traced)
    return lambda graph, inputs: _alive(mine)._build(graph, inputs)


def _alive(reference: weakref.ref[TracedForward]) -> TracedForward:
    traced = reference()
    if traced is None:
        raise RuntimeError("compiled code outlived its trace")
    return traced


def _refusal(function: Callable[..., Any], values: Sequence[Any]) -> CaptureError | None:
    """Why the function cannot be a break of compiled code, if it cannot."""
    name = f"{function.__module__}.{function.__qualname__}"
    if function.__annotations__.get("return", ...) not in (None, "None"):
        return CaptureError(
            f"{name} may return a value across a compiled break: let it write into an argument, "
            "and annotate it '-> None'"
        )
    for value in values:
        if not isinstance(value, (torch.Tensor, torch.SymInt, int, float, str, type(None))):
            return CaptureError(
                f"{name} got a {type(value).__name__} at a compiled break: its arguments must be "
                "tensors, numbers and strings"
            )
    return None


def _value_dependence(graph: fx.GraphModule) -> CaptureError | None:
    """The first operator whose result's shape or value the host must wait for, if there is one."""
    for node in graph.graph.nodes:
        value = node.meta.get("example_value")
        sizes = (torch.Tensor, torch.SymInt, torch.SymFloat, torch.SymBool)
        if isinstance(value, sizes) and free_unbacked_symbols(value):
            lines = [line.strip() for line in node.stack_trace.splitlines()]
            place = [line for line in lines if line.startswith("File")][-1]
            return CaptureError(
                f"{node.name} depends on values of tensors, which no graph can wait for, at "
                f"{place}{ADVICE}"
            )
    return None


class _Stopped(Exception):  # noqa: N818 - not an error: the trace is done
    """Leaves compiled code before it runs."""


def _stop(_program: Program, _values: Sequence[Any]) -> Sequence[Any]:
    raise _Stopped


def _not_entered(_program: Program, _values: Sequence[Any]) -> Sequence[Any]:
    raise RuntimeError("compiled code was entered from outside its backend")


@contextmanager
def _silent(name: str) -> Iterator[None]:
    """Keep a logger quiet that would print what the error says that is raised anyway."""
    logger = logging.getLogger(name)
    before = logger.disabled
    logger.disabled = True
    try:
        yield
    finally:
        logger.disabled = before


def _untraceable(error: Exception) -> CaptureError:
    """What Dynamo met, where in the user's code, and what to do about it, in one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = [lines[0], *(line for line in lines[1:] if line.startswith("Explanation:"))]
    stack = getattr(error, "real_stack", None)
    place = f" at {stack[-1].filename}:{stack[-1].lineno}" if stack else ""
    if isinstance(error, BackendCompilerFailed):
        cause = error.inner_exception
        said, place = [f"a piece cannot be compiled: {type(cause).__name__}: {cause}"], ""
    advice = ADVICE if isinstance(error, Unsupported) else ""
    return CaptureError(f"forward is not one graph: {' '.join(said)}{place}{advice}")
