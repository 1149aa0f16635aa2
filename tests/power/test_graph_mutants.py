"""Wrong versions of the CPU graph device and of the backends, each killed by one of their laws.

Known equivalents, therefore not in the list: freeing blocks late (nothing in a capture depends on
when, only on whether), and holding the forward weakly when its owner lives.
"""

from __future__ import annotations

import gc
import sys
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("torch", reason="torch is not installed: pip install '.[gpu]'")

from tests import backend_kit, backend_laws, graph_laws

MODULES = [
    "real_gpu.graphs.arena",
    "real_gpu.graphs.recorder",
    "real_gpu.graphs.cpu",
    "real_gpu.backends.capture",
    "real_gpu.backends.output",
    "real_gpu.backends.full",
    "real_gpu.backends.boundary",
    "real_gpu.backends.breakable",
]
"""In the order in which they import each other."""


@dataclass(frozen=True)
class Mutant:
    """One replacement in one module, and the law that it breaks."""

    module: str
    old: str
    new: str
    law: str


HOLD = "self._device.alias(leaf) if self._device.born_since(self._mark, leaf) else leaf"
KEEP = "self._segments.append(segment)\n            self._calls.append(segment.replay)"

MUTANTS = {
    # arguments of breaks
    "outside arguments held weakly": Mutant(
        "breakable", HOLD, "self._device.alias(leaf)",
        "an_argument_from_outside_outlives_its_owner",
    ),
    "the pool is alive, so everything in it is held weakly": Mutant(
        "breakable",
        "        self._mark = device.mark(pool)", "        self._mark = (pool, 0)",
        "an_argument_of_another_bucket_is_held",
    ),
    "in-pool arguments held strongly": Mutant(
        "breakable", HOLD, "leaf", "pool_memory_is_that_of_eager"
    ),
    "arguments of a layout without an address": Mutant(
        "breakable", 'refuse_unusual(leaf, "a break\'s argument")', "pass",
        "what_cannot_cross_a_break_is_refused",
    ),
    # results of breaks
    "result rebound instead of copied": Mutant(
        "boundary", "    buffer.copy_(new)", "    buffer = new", "breakable_replays_equal_eager"
    ),
    "buffers held strongly": Mutant(
        "boundary",
        "[device.alias(b) if isinstance(b, torch.Tensor) else b for b in buffers]", "buffers",
        "pool_memory_is_that_of_eager",
    ),
    "result itself as the buffer": Mutant(
        "boundary", "torch.empty_like(leaf) if isinstance(leaf, torch.Tensor) else leaf", "leaf",
        "a_result_outlives_the_capture",
    ),
    "shape not compared": Mutant(
        "boundary", "new.shape != buffer.shape", "False",
        "a_result_that_changes_at_replay_is_an_error",
    ),
    "dtype not compared": Mutant(
        "boundary", "new.dtype != buffer.dtype", "False",
        "a_result_that_changes_at_replay_is_an_error",
    ),
    "plain value not compared": Mutant(
        "boundary", "if new != buffer:", "if False:",
        "a_result_that_changes_at_replay_is_an_error",
    ),
    "nesting not compared": Mutant(
        "boundary", "if found != nesting:", "if False:",
        "a_result_that_changes_at_replay_is_an_error",
    ),
    "views of arguments returned": Mutant(
        "boundary", "if _address(tensor) in taken:", "if False:",
        "what_cannot_cross_a_break_is_refused",
    ),
    "the same memory returned twice": Mutant(
        "boundary", "if leaf.data_ptr() in returned - {0}:", "if False:",
        "what_cannot_cross_a_break_is_refused",
    ),
    "pool memory returned": Mutant(
        "boundary", "if device.born_since(mark, tensor):", "if False:",
        "what_cannot_cross_a_break_is_refused",
    ),
    "host tensor returned": Mutant(
        "boundary", "if tensor.device != device.device:", "if False:",
        "what_cannot_cross_a_break_is_refused",
    ),
    # order and completeness
    "out-parameter break forgotten": Mutant(
        "breakable", "            self._calls.append(call)\n            return None",
        "            return None", "breaks_run_once_a_replay_and_see_live_host_values",
    ),
    "returning break run at capture only": Mutant(
        "breakable", "        self._calls.append(refresh)", "        pass",
        "breakable_replays_equal_eager",
    ),
    "break run twice": Mutant(
        "breakable", "            self._calls.append(call)\n",
        "            self._calls += [call, call]\n",
        "breaks_run_once_a_replay_and_see_live_host_values",
    ),
    "segments before breaks forgotten": Mutant(
        "breakable", KEEP, "self._segments.append(segment)\n"
        "            self._calls[:] = [segment.replay]", "breakable_replays_equal_eager",
    ),
    "segment put before the break it follows": Mutant(
        "breakable", KEEP, "self._segments.append(segment)\n"
        "            self._calls.insert(max(0, len(self._calls) - 1), segment.replay)",
        "breakable_replays_equal_eager",
    ),
    "break inside a break is a break": Mutant(
        "breakable", "with handling_breaks(None):", "with handling_breaks(self._on_break):",
        "segments_and_breaks_are_counted",
    ),
    "whole forward captured for debugging": Mutant(
        "breakable", "eager_on_graph(forward))", "forward)", "debug_graph_captures_no_operator"
    ),
    # failures
    "failed capture left open": Mutant(
        "breakable", "            self._device.abandon()\n", "",
        "a_failed_capture_leaves_all_as_it_was",
    ),
    "no recording after a break that raised": Mutant(
        "breakable", "        finally:\n            # Also after an exception: what the forward "
        "does next must not run outside a graph.\n            self._device.begin(self._pool)\n"
        "            self._device.fork(joined)\n",
        "        self._device.begin(self._pool)\n        self._device.fork(joined)\n",
        "a_swallowed_exception_of_a_break_is_refused",
    ),
    "swallowed exception accepted": Mutant(
        "breakable", "if self._failure is not None:", "if False:",
        "a_swallowed_exception_of_a_break_is_refused",
    ),
    "numbers drawn in warm-ups are seen": Mutant(
        "capture", "undo.enter_context(random_state_kept(self._device.device))", "pass",
        "a_failed_capture_leaves_all_as_it_was",
    ),
    "garbage collector left off": Mutant(
        "capture", "        if was_on:\n            gc.enable()", "        pass",
        "a_failed_capture_leaves_all_as_it_was",
    ),
    "failed frames keep pool memory": Mutant(
        "capture", "    traceback.clear_frames(error.__traceback__)\n", "",
        "a_failed_capture_keeps_no_memory_while_its_error_lives",
    ),
    # ladders
    "a pool per bucket": Mutant(
        "capture", "if self._pool is not None:", "if False:", "smaller_buckets_need_no_more_memory"
    ),
    "buckets replayed in the order of capture only": Mutant(
        "capture", "captured = self._captured.get(key)",
        "captured = self._captured.get(key) and self._captured.setdefault(\n"
        "            key, self._captured.pop(next(iter(self._captured)))\n        )",
        "breakable_replays_equal_eager",
    ),
    "a bucket captured twice": Mutant(
        "capture", "if key in self._captured:", "if False:",
        "keys_are_captured_once_and_replayed_after",
    ),
    "graphs kept after cleanup": Mutant(
        "capture", "        self._captured.clear()\n", "",
        "keys_are_captured_once_and_replayed_after",
    ),
    "output held strongly": Mutant(
        "output", "device.alias(output) if device.born_since(mark, output) else output", "output",
        "outputs_of_all_buckets_share_memory",
    ),
    # the CPU device
    "recorded operators run at capture": Mutant(
        "recorder", "        self._calls.append(storing(call, targets))",
        "        self._calls.append(storing(call, targets))\n        self._calls[-1]()",
        "nothing_runs_at_capture",
    ),
    "tensors held strongly by a tape": Mutant(
        "recorder", "        return tensor_over(borrowed(storage), value)", "        return value",
        "memory_is_re_used_within_a_forward",
    ),
    "results not put at their address": Mutant(
        "recorder", "    if not targets:\n", "    if True:\n",
        "a_replay_reads_its_static_input_again",
    ),
    "only the first result put at its address": Mutant(
        "recorder", "for index, target in targets:", "for index, target in targets[:1]:",
        "views_and_slices_write_through",
    ),
    "host scalars not kept": Mutant(
        "recorder", "        self._constants[tensor.untyped_storage().data_ptr()] = tensor\n", "",
        "a_host_scalar_is_baked",
    ),
    "host reads allowed": Mutant(
        "recorder", "if func in HOST_READS:", "if False:", "a_value_cannot_be_read_on_the_host"
    ),
    "memory not poisoned": Mutant(
        "arena", "    ctypes.memset(self.address, byte, self.size)",
        "    ctypes.memset(self.address, 0, self.size)",
        "memory_that_nothing_wrote_is_no_part_of_a_result",
    ),
    "blocks never come back": Mutant(
        "arena", "            block.serial = 0\n", "", "memory_is_re_used_within_a_forward"
    ),
    "blocks come back at once": Mutant(
        "arena", "weakref.finalize(buffer, self._returned.append, block).atexit = False",
        "self._returned.append(block)", "a_held_tensor_keeps_its_memory",
    ),
    "a pool begins empty": Mutant(
        "capture", "new_pool(room if room >= OWN_SEGMENT_BYTES else 0)", "new_pool()",
        "a_pool_is_little_more_than_the_peak",
    ),
    "a pool's room is not free": Mutant(
        "cpu", "            arena.storage(room)", "            self.room = arena.storage(room)",
        "a_pool_is_little_more_than_the_peak",
    ),
    "birth before the mark counts": Mutant(
        "cpu", "> serial)", "> 0)", "birth_in_the_pool_is_seen"
    ),
}  # fmt: skip


def mutated(monkeypatch: pytest.MonkeyPatch, mutant: Mutant) -> dict[str, ModuleType]:
    """All modules loaded anew, one of them with a piece of its text replaced."""
    modules: dict[str, ModuleType] = {}
    with_sources: list[tuple[ModuleType, str]] = []
    for name in MODULES:
        file = str(import_module(name).__file__)
        short, source = name.rsplit(".", 1)[1], Path(file).read_text(encoding="utf-8")
        module = ModuleType(name)
        if short == mutant.module:
            assert source.count(mutant.old) == 1, f"the mutant's place is gone from {name}"
            source = source.replace(mutant.old, mutant.new)
        module.__file__ = file
        modules[short] = module
        with_sources.append((module, source))
    for module, source in with_sources:
        monkeypatch.setitem(sys.modules, module.__name__, module)
        exec(compile(source, str(module.__file__), "exec"), module.__dict__)
    return modules


def check(modules: dict[str, ModuleType], law: str) -> None:
    """Run the law on the given version of the modules; undo what a mutant leaves behind."""
    device = modules["cpu"].RecordingCpuDevice()
    breaking = modules["breakable"]
    try:
        if law in graph_laws.LAWS:
            graph_laws.LAWS[law](device)
        else:
            kit = backend_kit.Kit(
                device, modules["full"].full, breaking.breakable, breaking.debug_graph
            )
            backend_laws.LAWS[law](kit)
    finally:
        device.abandon()
        gc.enable()


@pytest.mark.parametrize("name", MUTANTS)
def test_a_law_kills_each_mutant(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The law that a mutant names fails on it, by a wrong result or by an error."""
    mutant = MUTANTS[name]
    modules = mutated(monkeypatch, mutant)
    with pytest.raises((AssertionError, RuntimeError, pytest.fail.Exception, UnboundLocalError)):
        check(modules, mutant.law)


@pytest.mark.parametrize("law", sorted({mutant.law for mutant in MUTANTS.values()}))
def test_the_machinery_itself_kills_nothing(law: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every law that kills holds on modules loaded the same way without a change."""
    same = Mutant("cpu", "> serial)", "> serial)", law)
    check(mutated(monkeypatch, same), law)
