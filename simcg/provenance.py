"""Where a number comes from; a prediction is as good as the weakest figure it rests on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

Provenance = Literal["measured", "interpolated", "fitted", "published", "datasheet", "assumed"]

ORDER: tuple[Provenance, ...] = (
    "measured", "interpolated", "fitted", "published", "datasheet", "assumed"
)  # fmt: skip
"""From strongest to weakest; interpolated: between measured kernels of smaller and larger sizes, by
a rule whose error was measured; fitted: solved for so that the model meets measured or published
totals, or carried over from measured kernels of other sizes."""

RELATIVE_ERROR: dict[Provenance, float] = {
    "measured": 0.05,
    "interpolated": 0.08,
    "fitted": 0.10,
    "published": 0.15,
    "datasheet": 0.30,
    "assumed": 0.50,
}
"""How far a cost that rests on such figures may be off, as a share of it.

measured: full and breakable steps of three models on the H200 were off from op curves by 3.8 % in
the median and 9.0 % at the 95th percentile, 68 % of them by less than 4.8 %, and all steps of one
model by up to 4.8 % in common, so a common factor is put at 5 %.

interpolated: with it the 6 % that sizes of dense products are off when they are held out, at twice
the spacing (68 % of them; median of 31 tables). The others are assumed.
"""


def weakest(provenances: Iterable[Provenance]) -> Provenance:
    """The weakest of them; "measured" when there are none."""
    return max(provenances, key=ORDER.index, default="measured")
