"""Notes the breaks of public libraries that break graphs, and the launches of Triton kernels."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

import torch

from real_gpu.observe.effects import kernel_effects
from real_gpu.observe.patch import Patches
from real_gpu.observe.session import Session, Whole
from simcg.formal.recording import Region

BREAKING = {
    "breakable_cuda_graphs": "breakable_graph",
    "piecewise_cuda_graphs": "piecewise_graph",
}
"""Packages, and the class of each that captures (versions 0.1.0)."""


def watch_libraries(session: Session, patches: Patches) -> None:
    """A capture by one of the packages is one recording; its breaks are noted."""
    for name, capture in BREAKING.items():
        if importlib.util.find_spec(name) is not None:
            package = importlib.import_module(name)
            _watch(session, patches, package, getattr(package, capture))


def _watch(session: Session, patches: Patches, package: Any, capture: Any) -> None:
    enter, leave, insert = capture.__enter__, capture.__exit__, capture._insert_eager
    alias_of = package._make_replay_tensor_alias
    given: dict[int, Region] = {}  # by id of an alias, which the package keeps

    def watched_enter(self: Any) -> Any:
        session.open(Whole("breakable", 0, 0))
        try:
            return enter(self)
        except BaseException as failure:
            session.fail(str(failure))
            raise

    def watched_exit(self: Any, kind: Any, error: Any, trace: Any) -> Any:
        try:
            result = leave(self, kind, error, trace)
        except BaseException as failure:
            session.fail(str(failure))
            raise
        if kind is None:
            session.close()
        else:
            session.fail(str(error))
        return result

    def watched_alias(value: Any) -> Any:
        log = session.log
        with session.own_business():
            found = alias_of(value)
        if log is not None and found is not value and isinstance(value, torch.Tensor):
            given[id(found)] = log.region(value)
        return found

    def watched_insert(self: Any, function: Any, args: Any, kwargs: Any) -> None:
        if session.log is not None:
            session.log.after_break(function, (args, kwargs), given)
        given.clear()
        insert(self, function, args, kwargs)

    patches.replace(capture, "__enter__", watched_enter)
    patches.replace(capture, "__exit__", watched_exit)
    patches.replace(capture, "_insert_eager", watched_insert)
    patches.replace(package, "_make_replay_tensor_alias", watched_alias)


def watch_triton(session: Session, patches: Patches) -> None:
    """Launches of Triton's own kernels: torch does not dispatch them."""
    if importlib.util.find_spec("triton") is None:
        return
    from triton.runtime.jit import JITFunction  # noqa: PLC0415 - absent without CUDA

    launch = JITFunction.run

    def noted(kernel: Any, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("warmup") or session.log is None:
            return launch(kernel, *args, **kwargs)
        effects = kernel_effects(f"triton.{kernel.fn.__name__}", args, kwargs)
        with session.noting(effects) as note:
            result = launch(kernel, *args, **kwargs)
            note(None)
        return result

    patches.replace(JITFunction, "run", noted)
