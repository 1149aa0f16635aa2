"""A trace served on the device: by a full server first, then at shares of what that one did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec

from real_gpu.graphs.device import GraphDevice
from real_gpu.measure.bench import Bench, Room
from real_gpu.measure.runner import Emit
from real_gpu.measure.sections import dtype_on
from real_gpu.measure.setting import Setting
from real_gpu.serving.model import ServedModel
from real_gpu.serving.policy import Limits
from real_gpu.serving.request import Asked, asked_of
from real_gpu.serving.server import Served, ServedStep, Server
from simcg.des.serving.policy import policy_named
from simcg.engines.registry import engine_named
from simcg.engines.sizes import sglang_decode_sizes, sglang_prefill_sizes
from simcg.errors import Finding, InputError, SimcgError
from simcg.runs.schema import ServingLine, ServingRequest, ServingStep
from simcg.workload.requests import Requests

SEED = 0
QUIET = 4
"""The closed run of few requests has so many times fewer than the full one."""
SECOND_NS = 10**9


@dataclass(frozen=True)
class _Shop:
    """What serves, under the line that describes it, and where its figures go."""

    model: ServedModel
    line: ServingLine
    emit: Emit

    def serve(
        self, run: int, asked: Sequence[Asked], stop_ns: int | None = None,
        running: int | None = None, utilisation: float | None = None,
    ) -> Served:  # fmt: skip
        """One run, written when it is over."""
        line = msgspec.structs.replace(
            self.line, run=run, running=running or self.line.running, utilisation=utilisation
        )
        limits = Limits(line.chunk, line.running)
        policy = policy_named(line.policy, line.prefill_sizes)
        server = Server(self.model, policy, limits, line.longest)
        served = server.serve(asked, stop_ns)
        self.emit(line)
        for row in rows_of(run, served):
            self.emit(row)
        return served


def run_serving(setting: Setting, device: GraphDevice, emit: Emit) -> None:
    """The first of the models behind SGLang's default ladders, on the trace.

    Two closed runs come first, whose requests, the trace's last ones, all wait from the start:
    one of few at once, and one of a full server, which says what it can do. Then the trace's
    first requests at each utilisation of that.
    """
    asked = _asked(setting)
    bench, shop = _open(setting, device, emit)
    waiting = [replace(one, arrival_ns=0) for one in reversed(asked)]
    stop = round(setting.scale.closed_seconds * SECOND_NS)
    shop.serve(0, waiting, stop, running=max(1, shop.line.running // QUIET))
    capacity = capacity_of(shop.serve(1, waiting, stop), asked)
    for run, utilisation in enumerate(setting.utilisation, start=2):
        offered = offered_at(asked, utilisation * capacity, setting.seconds)
        print(f"serving {len(offered)} requests in {setting.seconds:g} s, {utilisation:g} of "
              f"{capacity:.2f} a second", flush=True)  # fmt: skip
        shop.serve(run, offered, utilisation=utilisation)
    bench.close()


def _asked(setting: Setting) -> list[Asked]:
    """The trace's requests, cut to what the cache holds."""
    traffic, arch = setting.traffic, next(iter(setting.models.values()))
    if not isinstance(traffic, Requests):
        raise InputError("--trace", "", Finding("steps, not requests"), "a trace of requests")
    return asked_of(traffic, arch.vocab, setting.scale.longest, SEED)


def _open(setting: Setting, device: GraphDevice, emit: Emit) -> tuple[Bench, _Shop]:
    """A bench with both ladders captured, and what serves on it."""
    name, arch = next(iter(setting.models.items()))
    scale = setting.scale
    running, chunk = scale.running, scale.max_chunk
    room = Room(chunk + running, running, 1 + running * scale.longest)
    bench = Bench(arch, device, dtype_on(device), room)
    rule = engine_named("sglang").admission
    sizes, decode_sizes = sglang_prefill_sizes(chunk), sglang_decode_sizes(running)
    prefill, decode = bench.served(sizes, rule, decode_sizes)
    prefill.runner.capture()
    decode.runner.capture()
    ratio = rule.max_ratio
    line = ServingLine(
        run=0, model=name, trace=setting.trace_name, policy=setting.policy, prefill_sizes=sizes,
        max_ratio=None if ratio is None else (ratio.numerator, ratio.denominator),
        decode_sizes=decode_sizes, chunk=chunk, running=running, longest=scale.longest,
    )  # fmt: skip
    return bench, _Shop(ServedModel(bench.decoder, prefill, decode), line, emit)


def capacity_of(served: Served, asked: Sequence[Asked]) -> float:
    """Requests a second of a closed run: tokens in its second half over the mean request's.

    Raises ``SimcgError`` for a run that is too short to tell.
    """
    if not served.steps:
        raise SimcgError("measure: the closed run of the serving section made no step")
    end = served.steps[-1].end_ns
    half = end // 2
    tokens = sum(_handed_out(step, served) for step in served.steps if step.start_ns >= half)
    if tokens == 0:
        raise SimcgError("measure: the closed run of the serving section ended before its tokens")
    wanted = sum(one.output_tokens for one in asked) / len(asked)
    return tokens / wanted / ((end - half) / SECOND_NS)


def _handed_out(step: ServedStep, served: Served) -> int:
    """Tokens of requests whose prompt was complete with this step."""
    lengths = (len(served.sessions[index].asked.prompt) for index in step.requests)
    ends = (new + cached for new, cached in zip(step.new, step.cached, strict=True))
    return sum(end >= length for end, length in zip(ends, lengths, strict=True))


def offered_at(asked: Sequence[Asked], rate: float, seconds: float) -> list[Asked]:
    """The first requests of the trace, as many as make ``seconds`` at ``rate`` a second.

    Their arrivals are the trace's, stretched or pressed as a whole.
    """
    count = max(2, min(len(asked), round(rate * seconds)))
    first, last = asked[0].arrival_ns, asked[count - 1].arrival_ns
    spread = (count - 1) / rate * SECOND_NS / max(1, last - first)
    return [replace(one, arrival_ns=round((one.arrival_ns - first) * spread)) for one in
            asked[:count]]  # fmt: skip


def rows_of(run: int, served: Served) -> list[ServingRequest | ServingStep]:
    """The finished requests in order of arrival, then the steps in order of time."""
    requests = [
        ServingRequest(
            run=run, arrival_ns=one.asked.arrival_ns, prompt=len(one.asked.prompt),
            output=len(one.produced), first_token_ns=one.first_token_ns, finish_ns=one.finish_ns,
        )
        for one in served.sessions
        if one.done
    ]  # fmt: skip
    return [*requests, *(_step_row(run, step) for step in served.steps)]


def _step_row(run: int, step: ServedStep) -> ServingStep:
    both = list(zip(step.new, step.cached, strict=True))
    prefills = both[step.decodes :]
    return ServingStep(
        run=run,
        tokens=sum(new for new, _ in prefills), prefills=len(prefills),
        pairs=sum(new * cached + new * (new + 1) // 2 for new, cached in prefills),
        decodes=step.decodes, keys=sum(cached + 1 for _, cached in both[: step.decodes]),
        bucket=step.ran.bucket, start_ns=step.start_ns, end_ns=step.end_ns,
        plan_ns=step.ran.plan_ns, host_ns=step.ran.host_ns, device_ns=step.ran.device_ns,
        lengths=tuple(cached + 1 for _, cached in both[: step.decodes]),
    )  # fmt: skip
