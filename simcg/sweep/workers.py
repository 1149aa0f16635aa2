"""Work over processes of this machine or of a Dask cluster; results in order."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from importlib.util import find_spec
from multiprocessing import active_children, get_context, parent_process
from signal import SIG_IGN, SIGINT, signal
from threading import Thread
from typing import TypeVar

from simcg.errors import Finding, InputError, SimcgError, require

Item = TypeVar("Item")
Result = TypeVar("Result")
CONNECT_S = 5


def over_processes(
    work: Callable[[Item], Result], items: Sequence[Item], jobs: int, chunk: int = 1
) -> Iterator[Result]:
    """``work`` on each item by ``jobs`` fresh processes (1: by this one), which end with this one.

    ``chunk``: neighbours that one process takes together. Raises ``SimcgError`` when one of them
    is killed.
    """
    if jobs == 1 or len(items) <= chunk:
        yield from map(work, items)
        return
    context, jobs = get_context("spawn"), min(jobs, -(-len(items) // chunk))
    others = set(active_children())
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_end_with_parent)
    try:
        yield from pool.map(work, items, chunksize=chunk)
    except BrokenProcessPool as error:
        died = (
            "a worker process was killed (memory?): a sweep runs fewer at once with --jobs; with a "
            "file of results the same command goes on from there"
        )
        raise SimcgError(died) from error
    except BaseException:  # they would finish what they have begun
        for child in set(active_children()) - others:
            child.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _end_with_parent() -> None:
    """Workers wait for work for ever when a signal ends their parent: watch it from a thread.

    An interrupt from the keyboard comes to all of them, and is the parent's to answer.
    """
    signal(SIGINT, SIG_IGN)

    def watch() -> None:
        parent = parent_process()
        if parent is not None:
            parent.join()
            os._exit(1)

    Thread(target=watch, daemon=True).start()


def over_dask(
    work: Callable[[Item], Result], items: Sequence[Item], address: str
) -> Iterator[Result]:
    """``work`` on each item by the workers of the scheduler at ``address``, which have simcg.

    Raises ``InputError`` without the package, where no scheduler answers in CONNECT_S, and where
    the cluster is lost before the end.
    """
    missing = Finding("no package distributed")
    require(
        find_spec("distributed") is not None, "--dask", "", missing, "pip install 'simcg[dask]'"
    )
    from distributed import Client, KilledWorker  # noqa: PLC0415  # slow import, only here

    try:
        asyncio.run(_answers(address))  # a Client that never connected complains at its end
        client = Client(  # type: ignore[no-untyped-call]
            address, timeout=CONNECT_S, set_as_default=False
        )
    except (OSError, ValueError, TypeError, MemoryError) as error:  # MemoryError: not Dask's words
        expected = "the address of a running scheduler, such as tcp://10.0.0.1:8786"
        raise InputError("--dask", "", address, expected) from error
    try:
        with client:
            futures = client.map(work, items, pure=False)
            for future in futures:
                yield future.result()
    except (CancelledError, KilledWorker, OSError, ImportError) as error:
        expected = f"a cluster with simcg that runs to the end ({error})"
        raise InputError("--dask", "", address, expected) from error


async def _answers(address: str) -> None:
    """Connect and hang up; ``OSError`` or ``ValueError`` where nobody answers."""
    from distributed import Security  # noqa: PLC0415
    from distributed.comm.core import connect  # noqa: PLC0415

    secure = Security().get_connection_args("client")  # type: ignore[no-untyped-call]
    comm = await connect(  # type: ignore[no-untyped-call]
        address, timeout=CONNECT_S, **secure
    )
    await comm.close()
