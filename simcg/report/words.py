"""A study in sentences: verdict, regime, proof, and what it rests on."""

from __future__ import annotations

from simcg.engines.traps import warnings
from simcg.optimize.gain import Gain
from simcg.optimize.study import HOSTS_DIFFER, NEGLIGIBLE, Answer, Study
from simcg.report.grounds import better_profile, grounds_lines, study_grounds
from simcg.report.links import link_note
from simcg.report.units import count, ms, percent, seconds, size
from simcg.workload.describe import quantiles
from simcg.workload.steps import Steps

FEWER_IF = "fewer graphs"
"""So begins what is said of fewer graphs that are not recommended as they are."""
MUCH_BYTES = 16 << 20
"""A rise of the peak memory worth a sentence."""


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
    lines = [_to_do(study)]
    answer, default = study.answer.score, study.default
    changes = study.decision != "keep_default"
    if changes and study.slowdown is not None and study.slowdown >= HOSTS_DIFFER:
        lines.append(_counts_on(study, study.slowdown))
    if changes and answer.memory.peak > default.memory.peak + MUCH_BYTES:
        more = size(answer.memory.peak - default.memory.peak)
        fallback = study.scenario.model.fallback.name
        lines.append(
            f"it needs {more} more memory at the peak, beside its graphs for {fallback} steps"
        )
    if changes and study.fewest is not None:
        lines.append(f"the fewest graphs that lose nothing: {_fewer(study, study.fewest)}")
    withheld = fewest_withheld(study)
    if withheld is not None and withheld.startswith(FEWER_IF):
        lines.append(withheld)
    return tuple(lines)


def interval(gain: Gain) -> str:
    """The gain's interval."""
    return f"95%, model error included: {percent(gain.low)} to {percent(gain.high)}"


def _to_do(study: Study) -> str:
    """The first sentence: the recommendation, its reason and the interval."""
    gain, share = study.gain, percent(study.gain.share)
    graphs, usual = len(study.ladder), len(study.default.ladder)
    slower, bounds = study.slowdown, f" ({interval(gain)})"
    if slower is not None and slower < HOSTS_DIFFER:
        bounds += f", but {_only_on(slower)}"
    if study.decision == "use_ladder":
        return f"use this ladder: mean step {share} shorter than the engine's default{bounds}"
    if study.decision == "no_graphs":
        shorter = f"mean step {share} shorter than the engine's default"
        return f"capture no prefill graphs: {shorter}{bounds}"
    if study.decision == "fewer_graphs":
        return f"use this ladder: {graphs} graphs instead of {usual} do as well{bounds}"
    keep, fewest = "keep the default", study.fewest
    if fewest is not None:
        keep += f", or fewer graphs that lose nothing, {_fewer(study, fewest)}"
    return f"{keep}: {_why_keep(study)}"


def _why_keep(study: Study) -> str:
    """Why the default stays."""
    gain, share, bounds = study.gain, percent(study.gain.share), f" ({interval(study.gain)})"
    if not study.has_enough_steps:
        return f"{study.traffic.counted.total} steps are too few to judge by{bounds}"
    if study.ladder == study.default.ladder:
        return "the proved ladder is the same one"
    if not gain.is_certain:
        return f"the best ladder's gain of {share} is not certain{bounds}"
    if gain.low > 0:
        return f"a gain of {share} is hardly worth a change{bounds}"
    return f"under these limits the best ladder is slower{bounds}"


def _counts_on(study: Study, margin: float) -> str:
    """How far a change that runs more steps without a graph rests on a fast host."""
    fallback = study.scenario.model.fallback.name
    return (
        f"this counts on {fallback} steps, with the profile's host costs; "
        f"with a host up to {margin:.1f} times slower the estimate is still a gain, but the slower "
        "the host, the smaller it is and the less certain"
    )


def _only_on(margin: float) -> str:
    return (
        f"only on a host at most {margin:.1f} times slower than the profile's; hosts differ by up "
        f"to {HOSTS_DIFFER:.0f} times, so measure first"
    )


def ladder_title(study: Study) -> str:
    """What ``study.ladder`` is called beside its sizes and flags."""
    if study.decision != "keep_default":
        return "this ladder"
    if study.ladder == study.default.ladder:
        return "the default ladder"
    if study.gain.is_certain:
        return "the ladder that is not recommended"
    return "the ladder that was not certain to be better"


def flags_to_paste(study: Study) -> list[tuple[str, str]]:
    """What to start the engine with and what for, the recommended first."""
    fewest, keeps = study.fewest, study.decision == "keep_default"
    ladder = (ladder_title(study), study.flags)
    if fewest is None:
        return [ladder]
    host = f" ({_host(study)})" if _host(study) else ""
    title = f"the fewest graphs that lose nothing, {len(fewest.score.ladder)}{host}"
    fewer = (title, study.flags_of(fewest))
    if fewest.score.ladder == study.ladder:
        return [fewer if keeps else ladder]
    return [fewer, ladder] if keeps else [ladder, fewer]


def fewest_withheld(study: Study) -> str | None:
    """Why no flags are given for fewer graphs; None where they are."""
    no_loss, slower = study.no_loss, study.no_loss_slowdown
    if study.fewest is not None:
        return None
    if not study.has_enough_steps:
        return f"{study.traffic.counted.total} steps are too few to judge by"
    if no_loss is None or len(no_loss.score.ladder) >= len(study.default.ladder):
        return "no fewer graphs cost as little as the default's"
    fewer = f"{FEWER_IF}, {_counts(study, no_loss)}, lose nothing"
    if slower is not None and slower < HOSTS_DIFFER:
        return f"{fewer} {_only_on(slower)}"
    return f"{fewer}, but their start-up is longer than --max-startup"


def _counts(study: Study, fewer: Answer) -> str:
    return f"{len(fewer.score.ladder)} instead of {len(study.default.ladder)}"


def _fewer(study: Study, fewer: Answer) -> str:
    """How many graphs instead of how many, what they save, and with which host."""
    default = study.default
    saved = seconds(default.startup.ns - fewer.score.startup.ns)
    bytes_less = default.memory.device - fewer.score.memory.device
    memory = f"{size(abs(bytes_less))} {'less' if bytes_less >= 0 else 'more'}"
    host = f"; {_host(study)}" if _host(study) else ""
    counts = _counts(study, fewer)
    return f"{counts} (start-up {saved} shorter, graph memory {memory}{host})"


def _host(study: Study) -> str:
    slower = study.no_loss_slowdown
    if slower is None:
        return ""
    return f"with a host at most {slower:.1f} times slower than the profile's"


def regime(study: Study) -> str:
    """Launch-bound or compute-bound at the median step, and so what there is to gain."""
    table, steps = study.table, study.traffic.counted
    median = quantiles(steps.tokens, steps.count).p50
    host, device = table.eager_host_ns, int(table.eager_device_ns[median])
    fallback = study.scenario.model.fallback.name
    step = f"an {fallback}" if fallback[0] in "aeiou" else f"a {fallback}"
    figures = (
        f"at {count(median)} tokens {step} step keeps the host busy for {ms(host)} ms, the GPU "
        f"for {ms(device)} ms"
    )
    saved = 1 - study.limit_ns / study.default.mean_step_ns
    at_most = f"no ladder can save more than {percent(max(saved, 0.0))} over the default"
    if host > device:
        what = "graphs pay, and padding is nearly free: fewer graphs give the same latency"
        return f"launch-bound: {figures}; {what}; {at_most}"
    what = f"padding costs time: latency is gained by sizes that fit, or by running {fallback}"
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
    fallback = study.scenario.model.fallback.name
    if study.research is not None:
        more = 1 - study.research.mean_step_ns / study.answer.score.mean_step_ns
        lines.append(
            f"research answer (a runner that picks graph or {fallback} per size, as many graphs): "
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
