"""The operators of the formal model in torch: what a forward launches, at any number of rows.

Values are [rows, ``WIDTH``] float64, integers below ``P``. Rows that belong to no request come out
of attention and recurrences as NaN, so that whoever lets them leak is found out.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from real_gpu.attention.cache import SINK
from real_gpu.attention.metadata import AttentionMetadata
from real_gpu.conformance.arithmetic import (
    EXTRA,
    FACTOR,
    FRESH,
    MATRIX,
    OFFSET,
    SECOND,
    WIDTH,
    P,
    coefficients,
    place,
)

NAN = float("nan")
FIELDS = 4 + WIDTH


@dataclass(frozen=True, slots=True)
class Views:
    """The static inputs and the output buffer at one shape, T rows and S request slots.

    ``index`` [S]: each request's row among the states; ``fresh`` [S]: 1 where a sequence begins;
    ``count`` [1]: n.
    """

    ids: torch.Tensor
    out: torch.Tensor
    metadata: AttentionMetadata
    index: torch.Tensor
    fresh: torch.Tensor
    count: torch.Tensor

    def first(self, rows: int, requests: int) -> Views:
        """Views of the first rows and requests."""
        return Views(
            self.ids[:rows],
            self.out[:rows],
            self.metadata.first(rows, requests),
            self.index[:requests],
            self.fresh[:requests],
            self.count,
        )

    def tensors(self) -> tuple[torch.Tensor, ...]:
        """All of them: their addresses must stay."""
        meta = self.metadata
        return (
            self.ids, self.out, meta.query_ends, meta.key_starts, meta.key_lengths, meta.slots,
            meta.positions, self.index, self.fresh, self.count,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Launch:
    """Host numbers of a launch. ``longest``: bound on a request's length; ``mode``: a phase.

    ``draws``: where its random numbers come from; None is the device's own generator.
    """

    longest: int
    mode: int
    draws: torch.Generator | None = None


class Model:
    """Coefficients, caches and states of a program: memory that lives outside every pool."""

    def __init__(
        self, ops: int, most: int, caches: dict[int, torch.Tensor], states: dict[int, torch.Tensor]
    ) -> None:
        self.caches, self.states = caches, states
        packed = [
            [coefficients(k, which) for which in (FACTOR, SECOND, OFFSET, EXTRA)]
            + [coefficients(k, MATRIX + row) for row in range(WIDTH)]
            for k in range(ops)
        ]
        device = next(iter((*caches.values(), *states.values()))).device
        table = torch.tensor(packed, dtype=torch.float64, device=device)
        self.factor, self.second, self.offset, self.extra = table[:, :4].unbind(1)
        self.matrix = table[:, 4:FIELDS]
        self.places = _numbers([place(i) for i in range(most)], device)
        self.fresh = _numbers(coefficients(0, FRESH), device)
        self.powers = {
            k: _numbers([[pow(a, i, P) for a in coefficients(k, FACTOR)] for i in range(most)],
                        device)
            for k in states
        }  # fmt: skip

    def affine(self, k: int, x: torch.Tensor, y: torch.Tensor | None) -> torch.Tensor:
        """Operator k's a * x + b * y + c."""
        value = x * self.factor[k] + self.offset[k]
        if y is not None:
            value = value + y * self.second[k]
        return value % P


def _numbers(values: object, device: torch.device) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64, device=device)


def gemm(model: Model, k: int, x: torch.Tensor, *_: object) -> torch.Tensor:
    """Rows times a matrix."""
    return (x @ model.matrix[k] + model.offset[k]) % P


def add(model: Model, k: int, x: torch.Tensor, y: torch.Tensor, *_: object) -> torch.Tensor:
    """Two tensors, row by row."""
    return model.affine(k, x, y)


def alone(model: Model, k: int, x: torch.Tensor, *_: object) -> torch.Tensor:
    """One tensor, row by row; a sum over one rank is the rank's own."""
    return model.affine(k, x, None)


def attend(
    model: Model, k: int, x: torch.Tensor, _y: object, views: Views, launch: Launch, _c: object,
    cache: int,
) -> torch.Tensor:  # fmt: skip
    """Over the cache of each row's request, up to the row; no further than the launch's bound."""
    meta, rows, bound = views.metadata, x.shape[0], launch.longest
    slot, inside, row = _owners(views, rows)
    end, length = meta.query_ends[1:].index_select(0, slot), meta.key_lengths.index_select(0, slot)
    key = torch.arange(bound, device=x.device)
    seen = inside[:, None] & (key[None, :] < (length - (end - 1 - row))[:, None])
    start = meta.key_starts.index_select(0, slot)
    where = (start[:, None] + key[None, :]).masked_fill(~seen, SINK)
    found = model.caches[cache].index_select(0, where.flatten()).view(rows, bound, WIDTH)
    terms = (found * model.places[:bound][None, :, None]).masked_fill(~seen[:, :, None], 0.0)
    return _outside_is_nan(model.affine(k, x, terms.sum(1) % P), inside)


def causal(model: Model, k: int, x: torch.Tensor, _y: object, views: Views, *_: object) -> torch.Tensor:  # noqa: E501  # fmt: skip
    """Over the rows of each row's request, up to the row."""
    slot, inside, row = _owners(views, x.shape[0])
    first = views.metadata.query_ends.index_select(0, slot)
    seen = _same(slot, inside, row)
    weight = model.places.index_select(0, (row - first).masked_fill(~inside, 0))
    terms = (x * weight[:, None])[None, :, :].masked_fill(~seen[:, :, None], 0.0)
    return _outside_is_nan(model.affine(k, x, terms.sum(1) % P), inside)


def mix(model: Model, k: int, x: torch.Tensor, _y: object, views: Views, *_: object) -> torch.Tensor:  # noqa: E501  # fmt: skip
    """Over all rows before the count."""
    rows = x.shape[0]
    seen = torch.arange(rows, device=x.device) < views.count
    terms = (x * model.places[:rows, None]).masked_fill(~seen[:, None], 0.0)
    return model.affine(k, x, terms.sum(0, keepdim=True) % P)


def mix_all(model: Model, k: int, x: torch.Tensor, *_: object) -> torch.Tensor:
    """Over all rows."""
    terms = x * model.places[: x.shape[0], None]
    return model.affine(k, x, terms.sum(0, keepdim=True) % P)


def state(model: Model, k: int, x: torch.Tensor, _y: object, views: Views, *_: object) -> torch.Tensor:  # noqa: E501  # fmt: skip
    """h = a * h + b * x + c along each request, from its state; the last h is the new state.

    In closed form, as a graph has no loop over rows: powers of a times what each row adds.
    """
    slot, inside, row = _owners(views, x.shape[0])
    ends, states, powers = views.metadata.query_ends, model.states[k], model.powers[k]
    old = states.index_select(0, views.index)
    before = torch.where(views.fresh[:, None] != 0, model.fresh[None, :], old)
    added = ((x * model.second[k] + model.offset[k]) % P).masked_fill(~inside[:, None], 0.0)
    same = _same(slot, inside, row)
    steps = (row[:, None] - row[None, :]).masked_fill(~same, 0)
    shares = powers.index_select(0, steps.flatten()).view(*steps.shape, WIDTH)
    shares = (shares * added[None, :, :]).masked_fill(~same[:, :, None], 0.0)
    since = (row - ends.index_select(0, slot) + 1).masked_fill(~inside, 0)
    start = before.index_select(0, slot) * powers.index_select(0, since)
    result = _outside_is_nan((start + shares.sum(1)) % P, inside)
    last = result.index_select(0, (ends[1:] - 1).clamp(min=0))
    new = torch.where((ends[1:] > ends[:-1])[:, None], last, old)
    states.index_copy_(0, views.index, new)
    return result


def with_tensor(
    model: Model, k: int, x: torch.Tensor, _y: object, _v: Views, _l: Launch, c: torch.Tensor
) -> torch.Tensor:
    """Every row with one more tensor."""
    return model.affine(k, x, c)


def random(model: Model, k: int, x: torch.Tensor, _y: object, views: Views, *_: object) -> torch.Tensor:  # noqa: E501  # fmt: skip
    """A number of each row's position."""
    number = model.places.index_select(0, views.metadata.positions)
    return model.affine(k, x, number[:, None])


def draw(
    model: Model, k: int, x: torch.Tensor, _y: object, _v: Views, launch: Launch, *_: object
) -> torch.Tensor:
    """A number of the generator for each row, one call each: so they do not depend on n."""
    numbers = [next_number(x.device, launch.draws) for _ in range(x.shape[0])]
    if not numbers:
        return x.clone()
    return model.affine(k, x, torch.cat(numbers)[:, None].double())


def next_number(device: torch.device, draws: torch.Generator | None) -> torch.Tensor:
    """One number [1] below P."""
    return torch.randint(P, (1,), device=device, generator=draws)


def launch_scalar(
    model: Model, k: int, x: torch.Tensor, _y: object, _v: Views, launch: Launch, *_: object
) -> torch.Tensor:
    """With a host number that the launch bakes."""
    return _with_number(model, k, x, place(launch.mode))


def host(model: Model, k: int, x: torch.Tensor, _y: object, views: Views, *_: object) -> torch.Tensor:  # noqa: E501  # fmt: skip
    """With a number that the host reads from the device."""
    return _with_number(model, k, x, place(int(views.count[0])))


def _with_number(model: Model, k: int, x: torch.Tensor, number: int) -> torch.Tensor:
    return (x * model.factor[k] + model.second[k] * float(number) + model.offset[k]) % P


def _owners(views: Views, rows: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Each row's request slot (any for rows of none), whether it is a request's, its number."""
    ends = views.metadata.query_ends[1:]
    row = torch.arange(rows, device=ends.device, dtype=ends.dtype)
    slot = torch.searchsorted(ends, row, right=True)
    return slot.clamp(max=ends.shape[0] - 1), slot < ends.shape[0], row


def _same(slot: torch.Tensor, inside: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
    """[i, j]: row j belongs to row i's request and does not come after it."""
    together = inside[:, None] & inside[None, :] & (slot[:, None] == slot[None, :])
    return together & (row[None, :] <= row[:, None])


def _outside_is_nan(value: torch.Tensor, inside: torch.Tensor) -> torch.Tensor:
    return value.masked_fill(~inside[:, None], NAN)
