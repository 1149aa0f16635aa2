"""What a check found: which invariant, where, on which tensor, and who is to blame."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from simcg.formal.invariants import INVARIANTS
from simcg.formal.recording import Recording
from simcg.formal.words import counted

Verdict = Literal["violated", "not decided", "holds only while"]
"""Wrong in some replay; nothing that was recorded decides it; right as long as a tensor lives."""
SEVERITY: tuple[Verdict, ...] = ("violated", "not decided", "holds only while")
"""Worst first."""


@dataclass(frozen=True, slots=True, order=True)
class Spot:
    """A place in the recordings: capture, item and event by number; -1 for all of them."""

    capture: int
    item: int = -1
    event: int = -1

    def __str__(self) -> str:
        parts = [f"item {self.item}"] * (self.item >= 0) + [f"event {self.event}"] * (
            self.event >= 0
        )
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding. Texts are "" where there is nothing to say.

    ``bucket``: whose capture; ``op``: operator or break at ``spot``, called at ``line`` of the
    program (``file:number``); ``tensor``: by declared name or number, in ``storage``, at
    ``address`` (-1 for none); ``writer``: who wrote it last; ``found`` and ``expected`` say it;
    ``times``: how often the same was found, ``spot`` being the first.
    """

    invariant: str
    verdict: Verdict
    spot: Spot
    bucket: str
    op: str
    found: str
    expected: str = ""
    tensor: str = ""
    line: str = ""
    address: int = -1
    writer: str = ""
    storage: int = -1
    times: int = 1

    def __str__(self) -> str:
        at = f"{self.op} (at {self.line})" if self.line else self.op
        where = ", ".join(text for text in (self.bucket, str(self.spot), at) if text)
        tensor = f"{self.tensor} at {self.address:#x}" if self.address >= 0 else self.tensor
        parts = [
            f"{self.found}",
            f"tensor: {tensor}" if tensor else "",
            f"last written by {self.writer}" if self.writer else "",
            f"expected {self.expected}" if self.expected else "",
            f"({self.times:,} times)" if self.times > 1 else "",
        ]
        law = f"{self.invariant} {INVARIANTS[self.invariant].name}"
        tie = f" {self.tensor} lives and is not replaced" if self.ties else ""
        return f"{law}, {self.verdict}{tie}: {where}: " + "; ".join(part for part in parts if part)

    @property
    def ties(self) -> bool:
        """Whether the verdict hangs on a tensor's life."""
        return self.verdict == "holds only while"


def bucket_name(recording: Recording) -> str:
    """The bucket in words."""
    return bucket_of(recording.num_tokens, recording.slots)


def bucket_of(num_tokens: int, slots: int) -> str:
    """The same for numbers; 0 tokens: unknown, 0 slots: none."""
    if not num_tokens:
        return "size unknown"
    tokens = counted(num_tokens, "token")
    return f"{tokens}, {counted(slots, 'slot')}" if slots else tokens


def together(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Worst first; what only repeats in other places is one finding with a count.

    Violations stay apart, so that each names its place, and so do tensors on whose life it hangs.
    """
    groups: dict[tuple[str, ...], Finding] = {}
    for number, finding in enumerate(findings):
        alone = str(number) if finding.verdict == "violated" else ""
        tensor = finding.tensor if finding.ties else ""
        key = (finding.invariant, finding.verdict, finding.op, finding.found, tensor, alone)
        first = groups.setdefault(key, finding)
        if first is not finding:
            groups[key] = replace(first, times=first.times + finding.times)
    return tuple(
        sorted(groups.values(), key=lambda f: (SEVERITY.index(f.verdict), int(f.invariant[1:])))
    )
