# SPDX-License-Identifier: GPL-2.0-or-later
"""The names of frames and of sites on the page. All shorten long names of C++ and Rust in one way."""
from __future__ import annotations

from itertools import groupby
from typing import Any

from steve.report.windows import clean
from steve.terminal.tables import StackText, times
from steve.trace.frames import frame_text, is_native, short_name, without_return_type
from steve.trace.policy import is_own


def site_name(frames: list[Any]) -> StackText:
    """The name of a site: the names of its frames, innermost first. Calls of one name in a row are one with their number:
    `tree x7`."""
    parts, least = [], 0
    for name, run in groupby(frames, name_of):
        calls = list(run)
        if not least and any(frame is None or is_own(frame) for frame in calls):
            least = len(parts) + 1
        parts.append(times(name, len(calls)))
    return StackText(parts or ["no stack recorded"], least or 1)


def name_of(frame: Any) -> str:
    """The name of a frame in that of a site."""
    if frame is None or not frame.function or not is_native(frame):
        return shown_frame(frame)
    return short_name(without_return_type(frame.function))


def shown_frame(frame: Any) -> str:
    """What is known of a frame, fit for showing. A long name is shorter, as in the tables of steve."""
    if frame is None:
        return "unknown"
    return clean(frame_text(frame._replace(function=short_name(frame.function)) if is_native(frame) else frame))


def own_first(frames: list[Any]) -> str:
    """The name of a site where there is little room: the frame of the program, and what allocates for it."""
    own = next((at for at, frame in enumerate(frames) if frame is None or is_own(frame)), 0)
    text = shown_frame(frames[own])
    return f"{text} by {name_of(frames[0])}" if own else text
