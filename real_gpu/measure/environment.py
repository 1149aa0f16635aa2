"""What the figures were measured on."""

from __future__ import annotations

import os
import platform
import time
from contextlib import suppress
from pathlib import Path
from typing import Literal

import torch

from simcg.runs.schema import Environment


def environment(device: Literal["cuda", "cpu"]) -> Environment:
    """The device, its host and the versions; names of machines are left out."""
    return Environment(
        device=device,
        gpu=torch.cuda.get_device_name() if device == "cuda" else "",
        host=f"{_cpu()}, {os.cpu_count()} cores",
        torch=str(torch.__version__),
        cuda=(torch.version.cuda or "") if device == "cuda" else "",
        python=platform.python_version(),
        date=time.strftime("%Y-%m-%d"),
    )


def _cpu() -> str:
    with suppress(OSError), Path("/proc/cpuinfo").open() as lines:
        for line in lines:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.machine()
