"""Mutants of dispatch and of the output: which bucket a batch gets, and which rows it returns."""

from __future__ import annotations

from simcg.formal.mutants.mutant import Mutant
from simcg.formal.rules import Rules, choose
from simcg.ladder import EAGER_INDEX, AdmissionRule, Ladder


def _next_smaller(ladder: Ladder, rule: AdmissionRule, tokens: int, requests: int) -> int:
    found = choose(ladder, rule, tokens, requests)
    return found - 1 if found > 0 else found


def _top_for_all_above(ladder: Ladder, rule: AdmissionRule, tokens: int, requests: int) -> int:
    found = choose(ladder, rule, tokens, requests)
    return len(ladder) - 1 if tokens > ladder.ceiling else found


def _smaller_for_the_guard(ladder: Ladder, rule: AdmissionRule, tokens: int, requests: int) -> int:
    found = choose(ladder, rule, tokens, requests)
    free = choose(ladder, AdmissionRule(), tokens, requests)
    return free - 1 if found == EAGER_INDEX and free > 0 else found


def _without_slots(ladder: Ladder, rule: AdmissionRule, tokens: int, _requests: int) -> int:
    return choose(ladder, rule, tokens, 1)


def _without_the_guard(ladder: Ladder, _rule: AdmissionRule, tokens: int, requests: int) -> int:
    return choose(ladder, AdmissionRule(), tokens, requests)


CHOOSING = (
    Mutant(
        "smaller bucket",
        "a batch is replayed in the bucket below the one that holds it",
        Rules(choose=_next_smaller),
        ("I10",),
        ("gemm",),
    ),
    Mutant(
        "top size missing",
        "batches above the ladder's top pass a guard that was derived elsewhere, and get the top",
        Rules(choose=_top_for_all_above),
        ("I10",),
        ("gemm",),
        ladder=((1, 1), (2, 2)),
        reports=(
            "vLLM #40734: the largest batch, off the stride, has no graph",
            "vLLM #7999: a graph is used for a batch of a size that was not captured",
            "vllm-ascend #16049: sizes off the stride leave the largest batches without a graph",
            "SGLang #21005: generated sizes leave out the configured largest one",
            "TensorRT-LLM #7675: batches larger than the largest captured one fail",
        ),
    ),
    Mutant(
        "guard selects a smaller bucket",
        "where the guard refuses a bucket the next smaller one is taken instead of eager",
        Rules(choose=_smaller_for_the_guard),
        ("I10",),
        ("gemm",),
        guarded=True,
    ),
    Mutant(
        "guard forgotten",
        "a batch far below its bucket replays although the rule says eager",
        Rules(choose=_without_the_guard),
        ("I10",),
        ("gemm",),
        guarded=True,
    ),
    Mutant(
        "request slots forgotten",
        "a batch of more requests than the bucket has slots is replayed in it",
        Rules(choose=_without_slots),
        ("I10",),
        ("causal",),
        ladder=((2, 1), (3, 2)),
        reports=(
            "xLLM #1939: graphs padded from 100 to 112 rows with metadata for 100 sequences",
            "vLLM #24002: metadata sized for fewer requests than the graph has",
        ),
    ),
    Mutant(
        "output read too late",
        "the view of one step is read after the next replay has overwritten it",
        Rules(reads_output_at_once=False),
        ("I14",),
        ("gemm",),
        checks=("traces",),
        reports=(
            "PyTorch #148439: output overwritten by a subsequent run",
            "PyTorch #144386: the first result is read after the second call",
            "PyTorch #104435: a detached output is overwritten",
        ),
    ),
    Mutant(
        "all rows of the bucket returned",
        "the view has the bucket's rows instead of the step's",
        Rules(output_rows=lambda _tokens, captured: (0, captured)),
        ("I14",),
        ("gemm",),
        reports=("FlashInfer #4365: seen in review, a result keeps the rows of a larger buffer",),
    ),
    Mutant(
        "output rows shifted",
        "the view begins one row late, as when the last rows of the bucket are taken",
        Rules(output_rows=lambda tokens, _captured: (1, tokens + 1)),
        ("I14", "I4"),
        ("gemm",),
        reports=(
            "SGLang #36749: rows of requests are taken where the graph has rows of tokens",
            "SGLang #30834: outputs are cut at the wrong row count",
        ),
    ),
)
