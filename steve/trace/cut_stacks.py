"""Stacks that do not reach the start of the program or thread, because the recorder has cut them.

Such a stack ends with a frame that says why: it has more frames than --stack-depth, or the caller of the last one could
not be found, since its code has neither call frame information nor a frame pointer.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from steve.trace.policy import CUT

if TYPE_CHECKING:
    from steve.trace._memtrace import Trace


def counts(trace: Trace) -> dict[str, int]:
    """The number of stacks that are cut, by the text of the frame that says so; {} if none are. A stack that others
    continue is not counted."""
    known = trace.counts()
    frames = ((number, trace.frame(number)) for number in range(1, known["frames"]))
    reasons = {number: frame.function for number, frame in frames if frame is not None and frame.kind == CUT}
    return _by_reason(trace, known["stacks"], reasons) if reasons else {}


def _by_reason(trace: Trace, stacks: int, reasons: dict[int, str]) -> dict[str, int]:
    ends: dict[int, int] = {}  # by stack that is cut and that no other continues so far: its outermost frame
    outermost = [0] * stacks
    for stack in range(1, stacks):
        entry = trace.stack(stack)
        if entry is None:
            break
        callers, frame = entry
        outermost[stack] = outermost[callers] if 0 < callers < stack else frame
        ends.pop(callers, None)
        if outermost[stack] in reasons:
            ends[stack] = outermost[stack]
    return dict(Counter(reasons[frame] for frame in ends.values()))


def facts(trace: Trace) -> dict:
    """The key of an object of --json that has these numbers; {} if no stacks are cut."""
    found = counts(trace)
    return {"cut_stacks": found} if found else {}


def text(found: dict[str, int]) -> str:
    """The numbers in a sentence."""
    total = sum(found.values())
    parts = ", ".join(f"{n:,} {reason}" for reason, n in sorted(found.items()))
    return f"{total:,} {'stack does' if total == 1 else 'stacks do'} not reach the start of the program: {parts}"
