"""Work over processes of this machine or of a Dask cluster; results in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from importlib.util import find_spec
from multiprocessing import get_context
from typing import TypeVar

from simcg.errors import Finding, InputError, require

Item = TypeVar("Item")
Result = TypeVar("Result")
CONNECT_S = 5


def over_processes(
    work: Callable[[Item], Result], items: Sequence[Item], jobs: int
) -> Iterator[Result]:
    """``work`` on each item by ``jobs`` fresh processes (1: by this one)."""
    if jobs == 1 or len(items) < 2:
        yield from map(work, items)
        return
    pool = ProcessPoolExecutor(min(jobs, len(items)), mp_context=get_context("spawn"))
    try:
        yield from pool.map(work, items)
    finally:
        pool.shutdown(cancel_futures=True)


def over_dask(
    work: Callable[[Item], Result], items: Sequence[Item], address: str
) -> Iterator[Result]:
    """``work`` on each item by the workers of the scheduler at ``address``, which have simcg.

    Raises ``InputError`` without the package, or where no scheduler answers in CONNECT_S.
    """
    missing = Finding("no package distributed")
    require(
        find_spec("distributed") is not None, "--dask", "", missing, "pip install 'simcg[dask]'"
    )
    from distributed import Client  # noqa: PLC0415  # slow import, only here

    try:
        client = Client(  # type: ignore[no-untyped-call]
            address, timeout=CONNECT_S, set_as_default=False
        )
    except (OSError, ValueError, TypeError) as error:  # no answer, or no address
        expected = "the address of a running scheduler, such as tcp://10.0.0.1:8786"
        raise InputError("--dask", "", address, expected) from error
    with client:
        futures = client.map(work, items, pure=False)
        for future in futures:
            yield future.result()
