"""What engines take where nobody says: how many requests run together, and the decode graphs.

Sources: the public sources of vLLM (``EngineArgs.get_batch_defaults``) and of SGLang (the memory
settings of ``ServerArgs``, ``resolve_max_num_reqs`` of the model runner).
"""

from __future__ import annotations

from simcg.des.serving.memory import KvBudget
from simcg.engines import Engine
from simcg.engines.engine import Deployment
from simcg.engines.sizes import sglang_decode_sizes
from simcg.hardware.profile import HardwareProfile
from simcg.model.architecture import Architecture

GIB = 1 << 30
FEWEST, MOST = 2_048, 4_096
"""SGLang runs so many requests together, unless the cache holds fewer than two tokens of each."""
VLLM_LARGE, VLLM_SMALL, VLLM_LARGE_GIB = 1_024, 256, 70
STATE_SHARE, STATES_EACH = 0.9 / 1.9, 3
"""SGLang's share of what is left for states of linear layers, and states that a request may have:
its own and two of prefixes. For vLLM, whose states live in pages of the cache, the share is
assumed, with one state a request."""
GRAPH_TOPS = ((20, 8, 8), (35, 24, 80), (60, 32, 160), (160, 256, 512))
"""SGLang's largest decode graph on GPUs below so many GiB: under four ranks, and from four on."""
LARGEST_GPU_TOP = 512


def default_running(  # noqa: PLR0913 - keyword-only; what an engine looks at
    engine: Engine,
    profile: HardwareProfile,
    arch: Architecture,
    *,
    tp: int,
    chunk: int,
    budget: KvBudget,
) -> int:
    """Most requests that run together, where ``budget`` says what the cache may have.

    vLLM: 1,024 on GPUs of 70 GiB or more, but 256 on an A100 and on smaller ones, for the API
    server as for offline use, and no more than a step has tokens. SGLang: 512 for each context
    length that the cache holds, within 2,048 and 4,096.
    """
    rest, each = budget.kv_bytes + budget.states, arch.state_bytes_per_request(tp)
    if engine.name == "vllm":
        large = profile.gpu.memory_bytes.value >= VLLM_LARGE_GIB * GIB
        usual = VLLM_LARGE if large and "a100" not in profile.name else VLLM_SMALL
        running = min(usual, chunk)
    else:
        tokens = max(rest, 0) // max(budget.bytes_per_token, 1)
        running = min(max(tokens * 512 // arch.max_position, FEWEST), MOST, tokens // 2)
        each *= STATES_EACH
    if each:
        running = min(running, int(rest * STATE_SHARE) // each)
    return max(running, 1)


def default_decode_sizes(  # noqa: PLR0913 - keyword-only; what an engine looks at
    engine: Engine,
    profile: HardwareProfile,
    tp: int,
    *,
    chunk: int,
    max_running: int | None,
    deployment: Deployment,
) -> tuple[int, ...]:
    """Requests of the decode graphs: vLLM's one list, or SGLang's own for decode.

    SGLang's end at what the GPU's memory suggests; more requests decode without a graph.
    """
    shared = engine.decode_sizes(chunk, deployment)
    if shared:
        return shared
    top = graph_top(profile, tp)
    return sglang_decode_sizes(top if max_running is None else min(top, max_running))


def graph_top(profile: HardwareProfile, tp: int) -> int:
    """Requests of SGLang's largest decode graph."""
    memory = profile.gpu.memory_bytes.value / GIB
    for below, few, many in GRAPH_TOPS:
        if memory < below:
            return few if tp < 4 else many
    return LARGEST_GPU_TOP
