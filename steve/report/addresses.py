# SPDX-License-Identifier: GPL-2.0-or-later
"""The address space of the process at the look with the most resident bytes, for the report: pictures of `steve map`."""
from __future__ import annotations

import base64
import io
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from steve.analysis import address_map, looks
from steve.analysis.address_map import COLORS
from steve.report import resident
from steve.terminal.units import human_bytes, human_ns

if TYPE_CHECKING:
    from steve.analysis.blocks import Blocks
    from steve.report.resident import PeakLook
    from steve.trace._memtrace import Pages


def addresses(chosen: Blocks, look: PeakLook) -> dict[str, Markup]:
    """The pictures by what their colours tell. Empty without matplotlib."""
    if not find_spec("matplotlib"):
        return {}
    maps, notes = address_map.of_look(
        chosen.trace, look.pages, look.live, COLORS, chosen.places, partial(resident.name_of_site, chosen)
    )
    title = _title(look.pages, look.number)
    return _pictures({color: found for color, found in maps.items() if found.layers}, title, notes)


def _title(pages: Pages, number: int) -> str:
    why = f"mark {pages.name}" if pages.name else pages.reason
    return f"{human_bytes(looks.resident_of(pages))} resident at look {number} ({human_ns(pages.time)}, {why})"


def _pictures(maps: dict[str, address_map.AddressMap], title: str, notes: list[str]) -> dict[str, Markup]:
    from steve.plots.address_map import Picture, notes_of
    from steve.plots.style import drawing

    with drawing() as plt:
        return {
            color: _image(Picture(plt, found, color, title, [*notes_of(found), *notes]).figure, color)
            for color, found in maps.items()
        }


def _image(figure: Any, color: str) -> Markup:
    """An element of its own, because the names of shapes in one picture are those in another."""
    file = io.BytesIO()
    figure.savefig(file, format="svg", metadata={"Date": None})
    text = base64.b64encode(file.getvalue()).decode()
    return Markup('<img class="addresses" alt="The address space by {}" src="data:image/svg+xml;base64,{}">').format(
        color, text
    )
