"""Numbers with units: bytes, counts and times, rounded for people; and whole numbers with a noun.

The functions can be used as tick formatters of matplotlib, which passes the position of the tick as second
argument; it is ignored.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations


def counted(n: int, noun: str, nouns: str = "") -> str:
    """A number with its noun: '1 block', '1,234 blocks'. nouns: the plural, if it is not the noun with an s."""
    return f"{n:,} {noun if n == 1 else nouns or noun + 's'}"


def human_bytes(n: float, _pos: object = None) -> str:
    """Bytes with a binary unit: 1536 -> '1.5 KiB'."""
    size = float(n)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(size) < 1023.5 or unit == "TiB":
            return f"{size:.0f} {unit}" if unit == "B" or abs(size) >= 100 else f"{size:.3g} {unit}"
        size /= 1024
    raise AssertionError("unreachable")


def human_count(n: float, _pos: object = None) -> str:
    """A count with a decimal unit: 1500000 -> '1.5 M'."""
    size = float(n)
    for unit in ("", " k", " M", " G", " T"):
        if abs(size) < 999.5 or unit == " T":
            return f"{size:.3g}{unit}"
        size /= 1000
    raise AssertionError("unreachable")


def human_ns_or_less(ns: float, below: bool, step: float | None) -> str:
    """A time in ns measured by a clock of limited resolution. below: it is less than one step of the clock, which
    gives `<10 ns`. step: the clock's resolution in ns; None: unknown."""
    return f"<{human_ns(step)}" if below and step else human_ns(ns)


def human_ns(n: float, _pos: object = None) -> str:
    """Nanoseconds with a unit: 1500 -> '1.5 µs'."""
    size = float(n)
    for unit in ("ns", "µs", "ms", "s"):
        if abs(size) < 999.5 or unit == "s":
            return f"{size:.3g} {unit}"
        size /= 1000
    raise AssertionError("unreachable")
