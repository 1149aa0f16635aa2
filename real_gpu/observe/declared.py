"""What the user says that tensors are for, checked before anything is captured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

import torch

from real_gpu.observe.log import Declared, region_in
from simcg.errors import Finding, InputError
from simcg.formal.audit.memory import NOBODY, Memory
from simcg.formal.audit.runs import runs_of
from simcg.formal.recording import Role

ROLES = tuple(role for role in get_args(Role) if role != "unknown")
EXPECTED = '{"name": (role, tensor)} with a role of ' + ", ".join(ROLES)


def checked(declared: Any) -> Declared:
    """``declared`` as it is; ``InputError`` for what is no role of a tensor, or two of one."""
    if not isinstance(declared, Mapping):
        raise InputError("audit", "declared", Finding(f"a {_type(declared)}"), EXPECTED)
    for name, value in declared.items():
        _check_one(name, value)
    _check_overlaps(declared)
    return declared


def _check_one(name: Any, value: Any) -> None:
    where = f"declared[{name!r}]"
    if not isinstance(name, str) or not name:
        raise InputError("audit", where, name, "a name that is text and not empty")
    if not (isinstance(value, tuple) and len(value) == 2):
        raise InputError("audit", where, Finding(f"a {_type(value)}"), EXPECTED)
    role, tensor = value
    if role not in ROLES:
        raise InputError("audit", where, role, "a role of " + ", ".join(ROLES))
    if not isinstance(tensor, torch.Tensor):
        raise InputError("audit", where, Finding(f"a {_type(tensor)}"), "one tensor")
    if tensor.layout is not torch.strided or tensor.device.type == "meta":
        found = f"a tensor of layout {tensor.layout} on {tensor.device}"
        raise InputError("audit", where, Finding(found), "a dense tensor with memory")


def _check_overlaps(declared: Declared) -> None:
    """No byte has two roles."""
    names = list(declared)
    written: dict[str, Memory] = {role: Memory() for role in ROLES}
    for number, (name, (role, tensor)) in enumerate(declared.items(), 1):
        storage = tensor.untyped_storage()
        runs = runs_of(region_in(0, tensor), storage.data_ptr())
        if not tensor.numel():
            continue
        for other, memory in written.items():
            met = [n for n, _ in memory.read(runs) if n != NOBODY] if other != role else []
            if met:
                found = Finding(f"{role} memory that {names[met[0] - 1]!r} declares {other}")
                raise InputError("audit", f"declared[{name!r}]", found, "one role for each byte")
        written[role].write(runs, number)


def _type(value: object) -> str:
    return type(value).__name__
