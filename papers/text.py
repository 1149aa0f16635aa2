"""Numbers as the report prints them; no line ends between a number and its unit."""

from __future__ import annotations


def percent(share: float, digits: int = 1) -> str:
    """A share in percent; no minus sign on zero."""
    text = f"{100 * share:.{digits}f}"
    return f"{text.removeprefix('-') if float(text) == 0 else text}\u00a0%"


def signed(share: float, digits: int = 1) -> str:
    """A share in percent with its sign; zero has a plus."""
    text = f"{100 * share:+.{digits}f}"
    return f"{text if float(text) else text.replace('-', '+')}\u00a0%".replace("-", "−")


def interval(low: float, high: float, digits: int = 1) -> str:
    """Two shares in percent, as an interval."""
    return f"{100 * low:.{digits}f} to {100 * high:.{digits}f}\u00a0%".replace("-", "−")


def ms(ns: float, digits: int = 2) -> str:
    """Nanoseconds as milliseconds."""
    return f"{ns / 1e6:,.{digits}f}\u00a0ms"


def seconds(ns: float) -> str:
    """Nanoseconds as seconds."""
    return f"{ns / 1e9:.1f}\u00a0s"


def mib(num_bytes: float) -> str:
    """Bytes in MiB."""
    return f"{num_bytes / 2**20:,.0f}\u00a0MiB"


def count(number: float) -> str:
    """An integer with thousands separators."""
    return f"{round(number):,}"


def listed(items: list[str]) -> str:
    """Items as a list in a sentence."""
    return items[0] if len(items) == 1 else ", ".join(items[:-1]) + " and " + items[-1]
