"""`steve check` in parts of a trace (steve.parts), joined exactly where nothing is broken.

A part takes the blocks that live where it begins from the trace's own list, and verifies what follows; the next one's
list must be what it ends with. So, from the first part to the last, all have begun as one reader would have, and what
they say is what it says. If anything is broken, in a part or between two, nothing is told here: what comes of a breach
depends on all behind it, and one reader has to tell.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple

from steve.parts import Rounds, View, Whole

if TYPE_CHECKING:
    from steve.errors import TraceError
    from steve.parallel import Pool
    from steve.progress import Progress


def check_task(view: View) -> "Tuple[dict, Optional[TraceError], dict]":
    """Task: what steve._kernels.check_part tells of a part."""
    from steve import _kernels
    trace = view.open()
    return _kernels.check_part(trace, trace.points()[view.first][1]), trace.problem, trace.stats()


def is_sound(parts: List[Dict[str, Any]], stats: List[dict]) -> bool:
    """Is nothing broken in parts, whose readers told the stats, nor between them?"""
    time = 0
    for part, counted in zip(parts, stats):
        if any(finding["count"] for finding in part["rules"].values()) or part["events"] != counted["events"]:
            return False
        if part["events"]:
            if part["first_time"] < time:
                return False
            time = part["last_time"]
    return all(one["end"] == other["begin"] for one, other in zip(parts, parts[1:]))


def joined(parts: List[Dict[str, Any]]) -> Dict[str, Any]:
    """Sound parts, as steve._kernels.check_trace tells of the whole."""
    events, crossing = 0, {"count": 0}
    for part in parts:
        found = part["crossing"]
        if found["count"] and not crossing["count"]:
            crossing = {**found, "event": events + found["event"], "count": 0}
        crossing["count"] += found["count"]
        events += part["events"]
    kinds = {name: sum(part["kinds"][name] for part in parts) for name in parts[0]["kinds"]}
    return {"events": events, "live": parts[-1]["live"], "kinds": kinds, "rules": parts[-1]["rules"],
            "crossing": crossing}


def check_of(path: str, pool: "Pool", progress: "Progress") -> Optional[Tuple[Whole, dict]]:
    """The trace, and as of steve._kernels.check_trace; None if anything is broken."""
    rounds = Rounds(path, pool, progress)
    parts = rounds.first(check_task)
    return (rounds.whole(), joined(parts)) if is_sound(parts, rounds.stats) else None
