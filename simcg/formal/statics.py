"""Static inputs: what each step writes into the buffers that replays read, padding included."""

from __future__ import annotations

from dataclasses import dataclass, field

from simcg.formal.memory import Layout
from simcg.formal.rules import Rules
from simcg.formal.step import Step
from simcg.formal.terms import Terms

Image = tuple[tuple[str, list[int]], ...]
"""By static input, the cells that a step writes from its base on."""
Known = dict[tuple[Step, int, int], Image]


@dataclass(slots=True)
class Images:
    """The images of steps. ``known`` may be shared where terms, rules, rows and length agree."""

    terms: Terms
    layout: Layout
    rules: Rules
    known: Known = field(default_factory=dict)

    def of(self, step: Step, rows: int, slots: int) -> Image:
        """What the step writes for a launch of so many rows and slots."""
        key = (step, rows, slots)
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = self._image(step, rows, slots)
        return found

    def _image(self, step: Step, rows: int, slots: int) -> Image:
        image = []
        for name, values in self._values(step).items():
            captured = {"offsets": slots + 1, "count": 1, "ids": rows, "slots": rows,
                        "positions": rows}.get(name, slots)  # fmt: skip
            count = self.rules.rewritten(name, len(values), captured)
            pad = self.rules.padding(name, step, self.layout)
            image.append((name, (values + [pad] * (captured - len(values)))[:count]))
        return tuple(image)

    def _values(self, step: Step) -> dict[str, list[int]]:
        """The step as its static inputs tell it."""
        terms, length, requests = self.terms, self.layout.length, step.requests
        tokens = [(r, p) for r in requests for p in range(r.context, r.length)]
        offsets = [0]
        for r in requests:
            offsets.append(offsets[-1] + r.query)
        return {
            "ids": [terms.make("token", r.name, p) for r, p in tokens],
            "slots": [r.row * length + p for r, p in tokens],
            "positions": [p for _, p in tokens],
            "offsets": offsets,
            "lengths": [r.length for r in requests],
            "rows": [r.row for r in requests],
            "fresh": [int(r.context == 0) for r in requests],
            "count": [step.tokens],
        }
