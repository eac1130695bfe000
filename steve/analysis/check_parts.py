"""`steve check` in parts of a trace (steve.parallel.rounds), joined exactly where nothing is broken.

A part takes the blocks that live where it begins from the trace's own list, and verifies what follows; the next one's
list must be what it ends with. So, from the first part to the last, all have begun as one reader would have, and what
they say is what it says. If anything is broken, in a part or between two, nothing is told here: what comes of a breach
depends on all behind it, and one reader has to tell. With a filter, or between marks, breaches of what is not chosen
are nobody's.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple

from steve.analysis.access_parts import part_of, walk_over
from steve.parallel.rounds import Rounds, View

if TYPE_CHECKING:
    from steve.kernels._lives import Selection
    from steve.system.errors import TraceError


def check_task(view: View, chosen: Any) -> "Tuple[dict, Optional[TraceError], dict]":
    """Task: what steve.kernels._check.check_part tells of a part."""
    from steve.kernels import _check
    walk = walk_over(view, chosen)
    found = _check.check_part(walk, walk.trace.seek_points()[view.first][1])
    return found, walk.trace.problem, walk.trace.stats()


def is_sound(parts: List[Dict[str, Any]], stats: List[dict]) -> bool:
    """Is nothing broken in parts, nor between them? stats: what their readers told, of parts that count wholly."""
    if any(part["walked"] != counted["events"] for part, counted in zip(parts, stats)):
        return False
    time = 0
    for part in parts:
        if any(finding["count"] for finding in part["rules"].values()):
            return False
        if part["first_time"] is not None:
            if part["first_time"] < time:
                return False
            time = part["last_time"]
    return all(one["end"] == other["begin"] for one, other in zip(parts, parts[1:]))


def left_by(parts: List[Dict[str, Any]]) -> bytes:
    """What the last of them leaves. A block that is not made nor resized in a part keeps the ordinal it had."""
    import numpy as np
    from steve.kernels._check import LIVED_BEFORE
    made, slots, ordinals = 0, np.empty(0, int), np.empty(0, "u8")
    for part in parts:
        n, now, found = part["left"]
        known = np.full(max(now.max(initial=-1), slots.max(initial=-1)) + 1, LIVED_BEFORE, "u8")
        known[slots] = ordinals
        slots, ordinals, made = now, np.where(found == LIVED_BEFORE, known[now], found + np.uint64(made)), made + n
    return np.sort(ordinals).tobytes()


def joined(parts: List[Dict[str, Any]]) -> Dict[str, Any]:
    """Sound parts, as steve.kernels._check.check_of tells of the whole."""
    walked, crossing = 0, {"count": 0}
    for part in parts:
        found = part["crossing"]
        if found["count"] and not crossing["count"]:
            crossing = {**found, "event": walked + found["event"], "count": 0}
        crossing["count"] += found["count"]
        walked += part["walked"]
    kinds = {name: sum(part["kinds"][name] for part in parts) for name in parts[0]["kinds"]}
    events = sum(part["events"] for part in parts)
    return {"events": events, "live": parts[-1]["live"], "kinds": kinds, "rules": parts[-1]["rules"],
            "crossing": crossing, "left": left_by(parts)}


def check_of(rounds: Rounds, chosen: "Optional[Selection]") -> Optional[Dict[str, Any]]:
    """As of steve.kernels._check.check_of, of the chosen blocks; None if anything is broken."""
    parts = rounds.first(check_task, part_of(chosen))
    return joined(parts) if is_sound(parts, rounds.stats if rounds.span is None else []) else None
