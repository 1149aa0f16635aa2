"""The published results: figures with their source, one value a row."""

from __future__ import annotations

import csv
import difflib
import io
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal

from simcg.errors import InputError

Status = Literal["published", "draft"]


@dataclass(frozen=True, slots=True)
class Published:
    """One published value; where its source states a range, ``low`` < ``high``.

    ``status`` draft: digitised from a chart that its authors dropped. ``digits``: the value as
    printed, whose last digit says how exactly it is known.
    """

    id: str
    source: str
    status: Status
    model: str
    hardware: str
    parallelism: str
    setup: str
    metric: str
    unit: str
    low: float
    high: float
    digits: str

    def relative_error(self, simulated: float) -> float:
        """(simulated - published) / published; against the nearer end of a range, 0 inside.

        A value printed with one significant digit, such as 0.001, stands for all that round to it:
        closer than that it is not known.
        """
        low, high = self.low, self.high
        if self.one_digit:
            half = low / int(self.one_digit) / 2
            low, high = low - half, high + half
        nearest = min(max(simulated, low), high)
        return (simulated - nearest) / abs(nearest)

    @property
    def one_digit(self) -> str:
        """Its only significant digit, where it is printed with one; "" else."""
        digits = self.digits.lstrip("0.")
        return digits if len(digits) == 1 else ""

    @property
    def shown(self) -> str:
        """The value as its source prints it."""
        return self.digits


@cache
def published_rows() -> tuple[Published, ...]:
    """All values, in the order of the file."""
    text = (files("simcg.reproduce") / "data" / "published.csv").read_text()
    return tuple(_row(fields) for fields in csv.DictReader(io.StringIO(text)))


def _row(fields: dict[str, str]) -> Published:
    low, high = fields.pop("low"), fields.pop("high")
    status: Status = "draft" if fields.pop("status") == "draft" else "published"
    digits = low if low == high else f"{low}-{high}"
    return Published(status=status, low=float(low), high=float(high), digits=digits, **fields)


def published(row_id: str) -> Published:
    """The value with exactly that id."""
    return next(row for row in published_rows() if row.id == row_id)


def matching(name: str, known: tuple[str, ...]) -> tuple[str, ...]:
    """The ids among ``known`` that ``name`` means: itself, or all that begin with it and a dash.

    Raises ``InputError`` that names the closest ids.
    """
    wanted = name.lower()
    found = tuple(i for i in known if i.lower() == wanted or i.lower().startswith(f"{wanted}-"))
    if found:
        return found
    stems = sorted({i.split("-", maxsplit=1)[0] for i in known} | set(known))
    lower = {i.lower(): i for i in stems}
    close = difflib.get_close_matches(wanted, lower, n=3, cutoff=0.5)
    hint = " or ".join(lower[i] for i in close) or "R1"
    raise InputError("--row", "", name, f"a published row such as {hint}")
