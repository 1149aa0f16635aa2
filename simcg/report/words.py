"""A study in sentences: verdict, regime, proof, and what it rests on."""

from __future__ import annotations

from typing import Literal

from simcg.engines.traps import warnings
from simcg.optimize.gain import MOST_MARGIN, Gain
from simcg.optimize.study import NEGLIGIBLE, Answer, Study
from simcg.report.grounds import better_profile, grounds_lines, study_grounds
from simcg.report.links import link_note
from simcg.report.units import count, ms, percent, seconds, size
from simcg.workload.describe import quantiles
from simcg.workload.steps import Steps

Decision = Literal["use_ladder", "no_graphs", "fewer_graphs", "keep_default"]

NOTABLE = 0.01
"""A share of the steps worth a sentence."""
FEW_STEPS = 100
"""Fewer say nothing of the traffic they come from."""
MUCH_BYTES = 16 << 20
"""A rise of the peak memory worth a sentence."""
WORTHWHILE = 0.005
"""A share of the mean step time worth another ladder."""


def heading(study: Study) -> str:
    """What was asked, in one line."""
    scenario = study.scenario
    engine = scenario.engine
    return (
        f"{scenario.model.forward.name} on {scenario.model.profile.name}, {engine.name} "
        f"{engine.version}, backend {scenario.model.backend.name}, chunk {scenario.max_chunk}"
    )


def traffic_line(study: Study) -> str:
    """Which steps were optimised for."""
    steps = study.traffic.counted
    median = quantiles(steps.tokens, steps.count).p50
    line = f"{steps.source}: {count(steps.total)} prefill steps, median {count(median)} tokens"
    load = study.traffic.load
    if isinstance(study.scenario.traffic, Steps):
        return line
    if load is None:
        return line + "; no times, so each request is computed alone"
    line += f", server {percent(load.busy_share, 0)} busy at rate {study.scenario.rate:g}"
    return line + ("; MORE THAN IT CAN SERVE, the queue grows" if load.unstable else "")


def verdict(study: Study) -> tuple[str, ...]:
    """What to do, first; then what else is worth knowing."""
    decided, sentence = recommendation(study)
    lines = [f"{sentence} ({interval(study.gain)})"]
    answer, default = study.answer.score, study.default
    if decided != "keep_default" and answer.eager_share > default.eager_share + NOTABLE:
        fallback = study.scenario.model.fallback.name
        lines.append(
            f"this counts on {fallback} steps, with the profile's host costs; it still pays in an "
            f"engine whose host issues them up to {study.eager_host_margin:.1f} times slower"
        )
    if decided != "keep_default" and answer.memory.peak > default.memory.peak + MUCH_BYTES:
        more = size(answer.memory.peak - default.memory.peak)
        lines.append(f"it needs {more} more memory at the peak, beside its graphs for eager steps")
    fewer = study.no_loss
    if fewer is not None and len(fewer.score.ladder) < len(default.ladder):
        lines.append(_fewer(study, fewer))
    return tuple(lines)


def interval(gain: Gain) -> str:
    """The gain's interval."""
    return f"95%, model error included: {percent(gain.low)} to {percent(gain.high)}"


def recommendation(study: Study) -> tuple[Decision, str]:
    """Change only for a gain that is certain and worth it, or for fewer graphs that do as well."""
    gain, share = study.gain, percent(study.gain.share)
    graphs, usual = len(study.ladder), len(study.default.ladder)
    steps = study.traffic.counted.total
    if steps < FEW_STEPS:
        return "keep_default", f"keep the default: {steps} steps are too few to judge by"
    if gain.low > 0 and gain.share >= WORTHWHILE:
        decided: Decision = "use_ladder" if graphs else "no_graphs"
        what = "use this ladder" if graphs else "capture no prefill graphs"
        return decided, f"{what}: mean step {share} shorter than the engine's default"
    if not gain.is_certain:
        return "keep_default", f"keep the default: the gain of {share} is not certain"
    if 0 < graphs < usual and gain.low > -2 * NEGLIGIBLE:
        return "fewer_graphs", f"use this ladder: {graphs} graphs instead of {usual} do as well"
    if gain.low > 0:
        return "keep_default", f"keep the default: a gain of {share} is hardly worth a change"
    return "keep_default", "keep the default: under these limits the best ladder is slower"


def _fewer(study: Study, fewer: Answer) -> str:
    """The fewest graphs, what they save, and how far that rests on a fast host."""
    default = study.default
    saved = seconds(default.startup.ns - fewer.score.startup.ns)
    bytes_less = default.memory.device - fewer.score.memory.device
    memory = f"{size(abs(bytes_less))} {'less' if bytes_less >= 0 else 'more'}"
    line = (
        f"the fewest graphs that lose nothing: {len(fewer.score.ladder)} instead of "
        f"{len(default.ladder)} (start-up {saved} shorter, graph memory {memory}"
    )
    more_eager = fewer.score.eager_share > default.eager_share + NOTABLE
    if more_eager and study.no_loss_margin < MOST_MARGIN:
        line += f"; with a host at most {study.no_loss_margin:.1f} times slower than the profile's"
    return line + ")"


def regime(study: Study) -> str:
    """Launch-bound or compute-bound at the median step, and so what there is to gain."""
    table, steps = study.table, study.traffic.counted
    median = quantiles(steps.tokens, steps.count).p50
    host, device = table.eager_host_ns, int(table.eager_device_ns[median])
    figures = (
        f"at {count(median)} tokens an eager step keeps the host busy for {ms(host)} ms, the GPU "
        f"for {ms(device)} ms"
    )
    saved = 1 - study.limit_ns / study.default.mean_step_ns
    at_most = f"no ladder can save more than {percent(max(saved, 0.0))} over the default"
    if host > device:
        what = "graphs pay, and padding is nearly free: fewer graphs give the same latency"
        return f"launch-bound: {figures}; {what}; {at_most}"
    what = "padding costs time: latency is gained by sizes that fit, or by running eager"
    return f"compute-bound: {figures}; {what}; {at_most}"


def proof(study: Study) -> str:
    """What is proved, and for what."""
    answer, steps = study.answer, study.traffic.counted
    claim = (
        f"optimal among ladders of at most {answer.max_buckets} sizes, for these "
        f"{count(steps.total)} prefill steps and this cost table ({study.table.provenance}); "
        "certificate checked"
    )
    if answer.price_ns is not None:
        each = answer.price_ns / steps.total / 1e3
        claim += f"; one more size would save {each:.3g} us a step"
    if study.bound_gap > 0:
        claim += f"; --max-startup may cost up to {percent(study.bound_gap, 2)}"
    if study.scenario.limits.max_buckets is None:
        claim += f"; fewer sizes were taken where they cost at most {percent(NEGLIGIBLE)} more"
    return claim


def rests_on(study: Study) -> tuple[str, ...]:
    """Figures that say how far to trust the rest."""
    table = study.table
    gain, fitted = study.gain, table.correction
    fall = ""
    if round(100 * fitted.fall, 1) > 0:
        fall = f", the largest fall left is {percent(fitted.fall)} (at {fitted.fall_at + 1} tokens)"
    lines = [
        *grounds_lines(study_grounds(study)),
        f"smoothing noise moved a cost by at most {percent(fitted.largest_correction)}{fall}; full "
        f"timeline against table {percent(study.table_error, 2)}",
        f"interval: traffic {percent(gain.traffic[0])} to {percent(gain.traffic[1])}, kernel sizes "
        f"±{percent(gain.shape)}, host against GPU ±{percent(gain.balance)}",
    ]
    if study.holdout is not None:
        held = percent(study.holdout)
        lines.append(f"hold-out: chosen on the first 70% of the time, gain on the rest {held}")
    if study.research is not None:
        more = 1 - study.research.mean_step_ns / study.answer.score.mean_step_ns
        lines.append(
            f"research answer (a runner that picks graph or eager per size, as many graphs): "
            f"{percent(max(more, 0.0), 2)} less again"
        )
    rest = "settled" if study.settled else "did not settle"
    lines.append(f"steps and ladder were solved together in {study.rounds} rounds: {rest}")
    return tuple(lines)


def cautions(study: Study) -> tuple[str, ...]:
    """Traps of the answer, in the engine's terms."""
    ladder, scenario = study.ladder, study.scenario
    found = warnings(ladder, scenario.engine, scenario.max_chunk, typed=False)
    decode = scenario.engine.decode_sizes(scenario.max_chunk, scenario.deployment)
    if decode:
        found = (
            f"{scenario.engine.name}'s one list serves decode too: {len(decode)} of its default "
            f"sizes, up to {decode[-1]}, are kept for it (see --max-num-seqs)",
            *found,
        )
    model = scenario.model
    notes = (better_profile(model.profile, scenario.engine.name),
             link_note(model.forward, model.profile))  # fmt: skip
    return (*found, *(note for note in notes if note is not None))
