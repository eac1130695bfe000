"""Amounts of time on the command line.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import argparse


def seconds_of(text: str) -> float:
    """An amount of time: 90, 90s, 10m, 1h."""
    units = {"s": 1, "m": 60, "h": 3600}
    number, unit = (text[:-1], text[-1]) if text[-1:] in units else (text, "s")
    try:
        value = float(number) * units[unit]
    except ValueError:
        value = 0
    if not 0 < value < 1e7:
        raise argparse.ArgumentTypeError(f"'{text}' is not a time like 90s, 10m or 1h")
    return value
