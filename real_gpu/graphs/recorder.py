"""Records aten operators without running them, and runs what was recorded at its addresses.

Shapes, strides and aliasing of results come from meta kernels. A finished tape knows tensors of
the pool by address alone; of tensors from outside it also notices that they are gone.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from real_gpu.graphs.arena import Arena, borrowed, lazy_bit, tensor_over
from real_gpu.graphs.device import CaptureError, ReplayError, StaleAddressError

ADVICE = "move it out of the forward, or mark the function that needs it with @eager_on_graph"
ALLOCATIONS = frozenset(
    {
        torch.ops.aten.empty.memory_format,
        torch.ops.aten.empty_like.default,
        torch.ops.aten.empty_strided.default,
        torch.ops.aten.new_empty.default,
        torch.ops.aten.new_empty_strided.default,
    }
)
HOST_READS = frozenset(
    {
        torch.Tensor.tolist,
        torch.Tensor.numpy,
        torch.Tensor.__array__,
        torch.Tensor.__dlpack__,
        torch.Tensor.__repr__,
        torch.Tensor.__format__,
        torch.Tensor.cpu,
    }
)
"""What reads memory without an operator, or copies to the host; on CUDA each waits for the GPU."""


@dataclass(frozen=True, slots=True)
class Outside:
    """A storage that the tape uses and the pool does not own."""

    weak: StorageWeakRef
    address: int
    first: str

    def check(self) -> None:
        """Raise ``StaleAddressError`` unless the storage lives at the recorded address."""
        storage = torch.UntypedStorage._new_with_weak_ptr(self.weak.cdata)
        if storage is None:
            raise StaleAddressError(
                f"{self.first} was freed after capture: on a GPU the graph would now use "
                "whatever lies there; keep the tensor as long as its graph"
            )
        if storage.data_ptr() != self.address:
            raise StaleAddressError(
                f"{self.first} has moved since capture: rewrite it in place instead"
            )


@dataclass(frozen=True, slots=True)
class Tape:
    """Recorded operators in order; the arena that holds their results; storages from outside."""

    arena: Arena
    calls: tuple[Callable[[], object], ...]
    outside: tuple[Outside, ...]

    def check(self) -> None:
        """Raise ``StaleAddressError`` if a storage from outside is gone or has moved."""
        for storage in self.outside:
            storage.check()

    def run(self) -> None:
        """Run every operator into the recorded addresses.

        Random operators draw anew from the default generator and advance it, as CUDA graphs with
        a registered generator do.
        """
        self.check()
        with torch.no_grad():
            for call in self.calls:
                call()


class HostReads(TorchFunctionMode):  # type: ignore[misc]  # torch is untyped here
    """Turns reads of values that no operator would show into ``CaptureError``."""

    def __torch_function__(
        self, func: Any, _types: Any, args: Any = (), kwargs: Any = None
    ) -> object:
        if func in HOST_READS:
            raise CaptureError(f"{func.__name__} reads a value on the host in capture: {ADVICE}")
        return func(*args, **(kwargs or {}))


class Recorder(TorchDispatchMode):  # type: ignore[misc]  # torch is untyped here
    """While entered, operators are noted instead of run; new storages come from ``arena``."""

    def __init__(self, arena: Arena) -> None:
        super().__init__()
        self._arena = arena
        self._calls: list[Callable[[], object]] = []
        self._outside: dict[int, Outside] = {}
        self._constants: dict[int, torch.Tensor] = {}

    def tape(self) -> Tape:
        """What was recorded; raises ``StaleAddressError`` if it could not be replayed even now."""
        tape = Tape(self._arena, tuple(self._calls), tuple(self._outside.values()))
        tape.check()
        return tape

    def __torch_dispatch__(
        self, func: Any, _types: Any, args: Any = (), kwargs: Any = None
    ) -> object:
        kwargs = kwargs or {}
        if func._can_decompose():  # in inference mode, composite operators come whole
            with self:
                return func.decompose(*args, **kwargs)
        traits = traits_of(func)
        if func is torch.ops.aten.lift_fresh.default:
            return self._constant(args[0])
        if traits.reads_host:
            raise CaptureError(
                f"{func} needs a value on the host in capture (a graph cannot record it): {ADVICE}"
            )
        if traits.only_view or traits.without_tensors:
            return func(*args, **kwargs)
        if traits.random and kwargs.get("generator") is not None:
            raise CaptureError(f"{func} has a generator of its own, which no replay would advance")
        self._refuse_arguments(func, args, kwargs)
        shadow = Shadow()
        meta_args = mapped(shadow.of, args)
        meta_kwargs = {name: mapped(shadow.of, value) for name, value in kwargs.items()}
        try:
            meta_result = func(*meta_args, **meta_kwargs)
        except NotImplementedError as error:
            reason = "its result's shape depends on values, or it has no meta kernel"
            raise CaptureError(f"{func} cannot be recorded ({reason}): {ADVICE}") from error
        shadow.refuse_resized(func)
        destinations: list[tuple[int, torch.Tensor]] = []
        result = self._results(func, shadow, meta_result, destinations)
        if func not in ALLOCATIONS and (destinations or traits.writes):
            self._note(func, args, kwargs, destinations)
        return result

    def _constant(self, tensor: torch.Tensor) -> torch.Tensor:
        """A host scalar is baked, as CUDA bakes it in a launch; a host array would be a copy."""
        if tensor.dim():
            raise CaptureError(
                "a tensor is made from host data in capture, which waits for the GPU: "
                "make it before the capture"
            )
        self._constants[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    def _refuse_arguments(self, func: Any, args: Any, kwargs: Any) -> None:
        """Raise ``CaptureError`` for tensors that a replay by address would take for others."""
        for argument, tensor in arguments_of(func, args, kwargs):
            if lazy_bit(tensor):
                raise CaptureError(
                    f"{func} has a {lazy_bit(tensor)} view as an argument, which is not its memory "
                    "alone: call .resolve_conj() or .resolve_neg() before the capture, or use "
                    "real arithmetic"
                )
            written = argument.alias_info is not None and argument.alias_info.is_write
            if written and tensor.untyped_storage().data_ptr() in self._constants:
                raise CaptureError(
                    f"{func} writes to a scalar made from host data in capture, which replays do "
                    "not make anew: use torch.zeros(()) or torch.full((), value)"
                )

    def _results(
        self, func: Any, shadow: Shadow, meta: Any, destinations: list[tuple[int, torch.Tensor]]
    ) -> Any:
        """Real tensors for the meta results; those with memory of their own are destinations."""
        if isinstance(meta, (list, tuple)):
            results = []
            for index, item in enumerate(meta):
                one: list[tuple[int, torch.Tensor]] = []
                results.append(self._results(func, shadow, item, one))
                destinations += [(index, tensor) for _, tensor in one]
            return type(meta)(results)
        if meta is None:
            return None
        if not isinstance(meta, torch.Tensor):
            raise CaptureError(f"{func} returns a host value in capture: {ADVICE}")
        known = shadow.real(meta)
        if known is not None:
            return known
        nbytes = meta.untyped_storage().nbytes()
        storage = self._arena.storage(nbytes) if nbytes else torch.UntypedStorage(0)
        tensor = tensor_over(storage, meta)
        shadow.add(meta, tensor)
        destinations.append((0, tensor))
        return tensor

    def _note(
        self, func: Any, args: Any, kwargs: Any, destinations: list[tuple[int, torch.Tensor]]
    ) -> None:
        call = functools.partial(
            func,
            *mapped(self._by_address, args),
            **{name: mapped(self._by_address, value) for name, value in kwargs.items()},
        )
        targets = [(index, self._by_address(tensor)) for index, tensor in destinations]
        self._calls.append(storing(call, targets))

    def _by_address(self, value: Any) -> Any:
        """For a tensor one over the same memory that does not keep it alive."""
        if not isinstance(value, torch.Tensor):
            return value
        storage = value.untyped_storage()
        address = storage.data_ptr()
        if address in self._constants:
            return value
        if address and not self._arena.serial_at(address) and address not in self._outside:
            text = f"a tensor from outside the pool ({value.dtype}, shape {tuple(value.shape)})"
            self._outside[address] = Outside(StorageWeakRef(storage), address, text)
        return tensor_over(borrowed(storage), value)


class Shadow:
    """Meta tensors that stand for real ones during one operator."""

    def __init__(self) -> None:
        self._pairs: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._storages: dict[int, torch.Tensor] = {}

    def of(self, value: Any) -> Any:
        """The stand-in of a tensor or device; anything else is itself."""
        if isinstance(value, torch.device):
            return torch.device("meta")
        if not isinstance(value, torch.Tensor):
            return value
        meta = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
        self.add(meta, value)
        return meta

    def add(self, meta: torch.Tensor, real: torch.Tensor) -> None:
        """From now on ``meta`` stands for ``real``."""
        self._pairs.append((meta, real))
        self._storages.setdefault(meta.untyped_storage()._cdata, real)

    def real(self, meta: torch.Tensor) -> torch.Tensor | None:
        """The tensor that a result is or is a view of; None if its memory is new."""
        for mine, real in self._pairs:
            if mine is meta:
                return real
        base = self._storages.get(meta.untyped_storage()._cdata)
        if base is None:
            return None
        view = torch.empty(0, dtype=meta.dtype)
        offset = base.storage_offset() * base.dtype.itemsize // meta.dtype.itemsize
        return view.set_(
            base.untyped_storage(), offset + meta.storage_offset(), meta.shape, meta.stride()
        )

    def refuse_resized(self, func: Any) -> None:
        """Raise ``CaptureError`` if the operator would give an output another size."""
        for meta, real in self._pairs:
            if meta.shape != real.shape:
                raise CaptureError(
                    f"{func} resizes its output from {tuple(real.shape)} to {tuple(meta.shape)} "
                    "in capture: allocate it with its final size"
                )


@dataclass(frozen=True, slots=True)
class Traits:
    """What an operator's schema tells."""

    only_view: bool
    writes: bool
    random: bool
    reads_host: bool
    without_tensors: bool


@functools.cache
def traits_of(func: Any) -> Traits:
    """The traits of an operator overload."""
    schema, tags = func._schema, func.tags
    writes = any(arg.alias_info is not None and arg.alias_info.is_write for arg in schema.arguments)
    kinds = [str(value.type) for value in (*schema.arguments, *schema.returns)]
    aliases = bool(schema.returns) and all(r.alias_info is not None for r in schema.returns)
    return Traits(
        only_view=(aliases and not writes) or torch.Tag.inplace_view in tags,
        writes=writes,
        random=torch.Tag.nondeterministic_seeded in tags,
        reads_host=torch.Tag.data_dependent_output in tags,
        without_tensors=not any("Tensor" in kind or "Storage" in kind for kind in kinds),
    )


def arguments_of(func: Any, args: Any, kwargs: Any) -> Iterator[tuple[Any, torch.Tensor]]:
    """Every tensor of a call, also those in lists, with its argument in the schema."""
    for position, argument in enumerate(func._schema.arguments):
        value = args[position] if position < len(args) else kwargs.get(argument.name)
        for item in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(item, torch.Tensor):
                yield argument, item


def mapped(function: Callable[[Any], Any], value: Any) -> Any:
    """``function`` of each leaf of nested lists and tuples."""
    if isinstance(value, (list, tuple)):
        return type(value)(mapped(function, item) for item in value)
    return function(value)


def storing(
    call: functools.partial[Any], targets: list[tuple[int, torch.Tensor]]
) -> Callable[[], object]:
    """``call`` with its results copied to where the recording put them.

    It raises ``ReplayError`` for a result of another shape than its meta kernel's. Only a further
    result may be None or empty: kernels leave out what the mode does not need (statistics).
    """
    if not targets:
        return call

    def store() -> None:
        results = call()
        several = isinstance(results, (list, tuple))
        for index, target in targets:
            result = results[index] if several else results
            there = isinstance(result, torch.Tensor)
            if there and result.shape == target.shape:
                target.copy_(result)
            elif not (index and (result is None or (there and not result.numel()))):
                shape = tuple(result.shape) if there else type(result).__name__
                raise ReplayError(
                    f"{call.func}: result {index} has shape {shape}, recorded was "
                    f"{tuple(target.shape)}: mark its function with @eager_on_graph"
                )

    return store
