"""The colours of pictures of the heap differ visibly with any kind of colour vision.

Sight without red, green or blue cones is simulated by the matrices of Machado, Oliveira and Fernandes (2009). Colours
are compared by their distance in CIE Lab, in which 2 is just visible side by side.

SPDX-License-Identifier: GPL-2.0-or-later
"""

from __future__ import annotations

import re
from itertools import combinations

import pytest
from ops_tools import SOURCE

SIGHT = {
    "all cones": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "no red": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "no green": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "no blue": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}
STATES = ("UNTOUCHED", "UNUSED", "USED", "OVERHEAD", "LOCKED")
CURVES = ("STRIP", "USED", "RESIDENT", "FRAGMENTED")
ON_USED = ("USED", "FRESH", "READ", "WRITTEN")
ON_FREE = ("UNUSED", "GONE")
CLASSES = (*(f"CLASS_{i}" for i in range(6)), "UNTOUCHED", "UNUSED", "OVERHEAD", "LOCKED")


def _linear(rgb: int) -> list[float]:
    parts = [(rgb >> shift & 255) / 255 for shift in (16, 8, 0)]
    return [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]


def _lab(linear: list[float]) -> tuple[float, float, float]:
    rows = ((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505))
    white = (0.9505, 1.0, 1.089)
    xyz = [sum(a * b for a, b in zip(row, linear)) / w for row, w in zip(rows, white)]
    x, y, z = (c ** (1 / 3) if c > 0.008856 else 7.787 * c + 16 / 116 for c in xyz)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def _seen(rgb: int, sight: str) -> tuple[float, float, float]:
    linear = _linear(rgb)
    return _lab([min(1, max(0, sum(a * b for a, b in zip(row, linear)))) for row in SIGHT[sight]])


def _distance(one: int, other: int, sight: str) -> float:
    return sum((a - b) ** 2 for a, b in zip(_seen(one, sight), _seen(other, sight))) ** 0.5


def _colours() -> dict[str, int]:
    text = (SOURCE / "drivers/film/colours.h").read_text()
    return {name: int(value, 16) for name, value in re.findall(r"(\w+)_COLOUR = (0x[0-9a-f]{6})", text)}


def test_the_distance() -> None:
    assert _distance(0x000000, 0xFFFFFF, "all cones") == pytest.approx(100, abs=0.1)
    assert _distance(0xD0463B, 0x2C7A45, "all cones") > 80 > 40 > _distance(0xD0463B, 0x7A6A20, "no green")


@pytest.mark.parametrize("sight", SIGHT)
@pytest.mark.parametrize("names", [STATES, CURVES, ON_USED, ON_FREE, CLASSES])
def test_colours_differ(names: tuple[str, ...], sight: str) -> None:
    colours = _colours()
    for one, other in combinations(names, 2):
        assert _distance(colours[one], colours[other], sight) > 20, (one, other)
