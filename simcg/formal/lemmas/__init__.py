"""What holds for all numbers, proved by z3: dispatch, padding, baked bounds, ranks in lockstep."""

from __future__ import annotations

from importlib.util import find_spec

from simcg.errors import Finding, require

require(
    find_spec("z3") is not None, "simcg verify", "", Finding("no package z3-solver"),
    "pip install 'simcg[verify]'",
)  # fmt: skip

from simcg.formal.lemmas.baked import BAKED_LEMMAS  # noqa: E402  # they import z3
from simcg.formal.lemmas.choice import CHOICE_LEMMAS  # noqa: E402
from simcg.formal.lemmas.guards import GUARD_LEMMAS  # noqa: E402
from simcg.formal.lemmas.lemma import Claim, Lemma, Proof  # noqa: E402
from simcg.formal.lemmas.lockstep import LOCKSTEP_LEMMAS  # noqa: E402
from simcg.formal.lemmas.padding import PADDING_LEMMAS  # noqa: E402
from simcg.formal.lemmas.sink import SINK_LEMMAS  # noqa: E402

LEMMAS: tuple[Lemma, ...] = (
    *CHOICE_LEMMAS,
    *GUARD_LEMMAS,
    *PADDING_LEMMAS,
    *SINK_LEMMAS,
    *BAKED_LEMMAS,
    *LOCKSTEP_LEMMAS,
)
"""Every lemma, in the order in which they are told."""

__all__ = ["LEMMAS", "Claim", "Lemma", "Proof"]
