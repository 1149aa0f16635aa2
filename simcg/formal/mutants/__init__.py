"""Every way we know to get capture and replay wrong, as a permanent list."""

from simcg.formal.mutants.capturing import CAPTURING
from simcg.formal.mutants.choosing import CHOOSING
from simcg.formal.mutants.inputs import INPUTS
from simcg.formal.mutants.mutant import Mutant
from simcg.formal.mutants.ranking import RANKING

MUTANTS: dict[str, Mutant] = {m.name: m for m in (*CHOOSING, *INPUTS, *CAPTURING, *RANKING)}
"""By name."""

__all__ = ["MUTANTS", "Mutant"]
