"""From the values of shared options to a server and a scenario."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from simcg.errors import InputError, one_of
from simcg.optimize.scenario import Limits, Scenario
from simcg.server import Server
from simcg.workload.builtin import builtin_workload, workload_names
from simcg.workload.read import read_traffic
from simcg.workload.requests import Requests
from simcg.workload.steps import Steps

DEFAULT_WORKLOAD = "azure-conv"
DRAWN_REQUESTS = 5_000
"""Requests drawn from a built-in workload unless told otherwise: enough that another seed moves
the mean step time by about one percent."""


@dataclass(frozen=True, slots=True)
class TrafficSource:
    """Where the traffic comes from, as the user said it."""

    traffic: str | None
    workload: str | None
    requests: int | None
    columns: Mapping[str, str] | None
    cache_tokens: int | None
    file_format: str | None = None
    skip_invalid: bool = False

    @classmethod
    def taken_from(cls, options: dict[str, Any]) -> TrafficSource:
        """The values of ``traffic_options``, which are taken out of ``options``."""
        return cls(**{name: options.pop(name) for name in cls.__dataclass_fields__})

    def read(self, max_context: int | None = None) -> Requests | Steps:
        """The requests or steps; prompts at most ``max_context`` tokens long."""
        if self.traffic is None:
            about_file = {
                "--format": self.file_format,
                "--columns": self.columns,
                "--cache-tokens": self.cache_tokens,
                "--skip-invalid": self.skip_invalid or None,
            }
            for flag, value in about_file.items():
                if value is not None:
                    raise InputError(flag, "", "no traffic file", "a file that it describes")
            name = self.workload or DEFAULT_WORKLOAD
            return _drawn(name, self.requests, max_context)
        for flag, value in (("--workload", self.workload), ("--requests", self.requests)):
            if value is not None:
                raise InputError(flag, "", value, "no traffic file beside it")
        return read_traffic(
            self.traffic,
            format=self.file_format,
            columns=self.columns,
            cache_tokens=self.cache_tokens,
            max_context=max_context,
            skip_invalid=self.skip_invalid,
        )


def _drawn(name: str, count: int | None, max_context: int | None) -> Requests:
    """A built-in workload; its longest prompts must fit the model as a file's must."""
    if name not in workload_names():
        raise InputError("--workload", "", name, one_of(name, workload_names()))
    drawn = builtin_workload(name, count if count is not None else DRAWN_REQUESTS)
    longest = int(drawn.prompt_tokens.max())
    if max_context is not None and longest > max_context:
        raise InputError(f"workload {name}", "prompt tokens", longest,
                         f"at most {max_context}, the model's context")  # fmt: skip
    return drawn


def server_from(options: Mapping[str, Any]) -> Server:
    """The server that ``server_options`` describe."""
    return Server(**{field.name: options[field.name] for field in fields(Server)})


def scenario_from(
    source: TrafficSource,
    options: Mapping[str, Any],
    limits: Limits,
    *,
    any_length: bool = False,
) -> Scenario:
    """The scenario that the options describe.

    ``any_length``: prompts may be longer than the model's context.
    """
    server = server_from(options)
    traffic = source.read(None if any_length else server.arch.max_position)
    return server.scenario(traffic, rate=options["rate"], limits=limits)
