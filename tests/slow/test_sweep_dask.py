"""Sweeps on a local Dask cluster."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from simcg.errors import InputError
from simcg.sweep.workers import over_dask
from tests.studies import run_cli

distributed = pytest.importorskip("distributed")

ARGS = ("--vary", "request-rate=2,8", "--vary", "ladder=default,64 512",
        "--requests", "60", "--max-chunk", "512", "--workload", "sharegpt")  # fmt: skip


def test_a_cluster_writes_the_bytes_of_one_process(tmp_path: Path) -> None:
    one, cluster_out = tmp_path / "one", tmp_path / "cluster"
    assert run_cli("sweep", "--jobs", "1", "--out", str(one), *ARGS).code == 0
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None,
        protocol="tcp", host="127.0.0.1",
    ) as cluster:  # fmt: skip
        address = cluster.scheduler_address
        ran = run_cli("sweep", "--dask", address, "--out", str(cluster_out), *ARGS)
    assert ran.code == 0, ran.err
    assert cluster_out.read_bytes() == one.read_bytes()


def test_a_cluster_that_is_lost_is_one_error_and_what_it_gave_stays() -> None:
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None,
        protocol="tcp", host="127.0.0.1",
    ) as cluster:  # fmt: skip
        results = over_dask(time.sleep, (0.0, 60.0), cluster.scheduler_address)
        assert next(results) is None
    with pytest.raises(InputError, match="to the end"):
        next(results)


def test_a_scheduler_that_is_not_there_is_one_line() -> None:
    ran = run_cli("sweep", "--dask", "tcp://127.0.0.1:9", *ARGS)
    assert ran.code == 2
    assert "running scheduler" in ran.err
    assert ran.err.count("\n") == 1
