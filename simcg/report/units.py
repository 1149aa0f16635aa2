"""Numbers as people read them; exact values go to JSON."""

from __future__ import annotations


def ms(ns: float) -> str:
    """Milliseconds with four significant digits or so."""
    value = ns / 1e6
    return f"{value:.3f}" if value < 100 else f"{value:.1f}"


def percent(share: float, digits: int = 1) -> str:
    """A share in percent, without a minus sign on zero."""
    text = f"{100 * share:.{digits}f}"
    return f"{text.removeprefix('-') if float(text) == 0 else text}%"


def size(num_bytes: float) -> str:
    """Bytes in binary units."""
    value = float(num_bytes)
    for unit in ("B", "KiB", "MiB"):
        if abs(value) < 1024:
            return f"{value:.0f} {unit}"
        value /= 1024
    return f"{value:.2f} GiB"


def seconds(ns: float) -> str:
    """Seconds."""
    return f"{ns / 1e9:.1f} s"


def count(number: int) -> str:
    """An integer with thousands separators."""
    return f"{number:,}"
