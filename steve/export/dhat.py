"""DHAT's JSON, version 2, for dh_view.html, which comes with Valgrind.

Times are guest instructions. Bytes of a resized block count once for each size it had, its block once. The
viewer wants each stack in one point only, so points of the same frames are added up; accesses of each byte
(`acc`) are not written.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from typing import TYPE_CHECKING, Dict, List, Tuple

from steve.export.profile import frame_ids
from steve.export.walk import Holding, Walk
from steve.frames import frame_line

if TYPE_CHECKING:
    import numpy as np

    from steve._memtrace import Trace
    from steve.folds import Table

SUMS = (("tb", "bytes"), ("tbk", "blocks"), ("tl", "lifetime"), ("mb", "most"), ("mbk", "most_blocks"),
        ("gb", "peak"), ("gbk", "peak_blocks"), ("eb", "held"), ("ebk", "held_blocks"))


class Frames:
    """The frame table; 0 is the root, which no point names."""

    def __init__(self, trace: "Trace") -> None:
        self.trace = trace
        self.texts: Dict[str, int] = {"[root]": 0}

    def index(self, number: int) -> int:
        frame = self.trace.frame(number) if number else None
        text = "(no stack)" if frame is None else f"{frame.ip:#x}: {frame_line(frame)}"
        return self.texts.setdefault(text, len(self.texts))


def point(frames: Tuple[int, ...], holding: Holding, read: int, written: int) -> dict:
    """A program point; fs is innermost first, as DHAT has it."""
    sums = {name: getattr(holding, attribute) for name, attribute in SUMS}
    return {**sums, "rb": read, "wb": written, "fs": list(frames)}


def add(known: dict, more: dict) -> None:
    for name, value in more.items():
        if name != "fs":
            known[name] += value


def points(state: Walk, trace: "Trace", sums: "Table", frames: Frames) -> List[dict]:
    """All points, the one with most bytes first. sums: bytes_read and bytes_written by stack."""
    found: Dict[Tuple[int, ...], dict] = {}
    accessed = {stack: (read, written) for stack, read, written in zip(
        *(values.tolist() for values in (sums.numbers, sums.rows["bytes_read"], sums.rows["bytes_written"])))}
    same: Dict[int, int] = {}
    for stack, holding in state.stacks.items():
        read, written = accessed.get(stack, (0, 0))
        key = tuple(map(frames.index, frame_ids(trace, stack, same)))
        more = point(key, holding, read, written)
        if key in found:
            add(found[key], more)
        else:
            found[key] = more
    return sorted(found.values(), key=lambda p: (-p["tb"], p["fs"]))


def dhat(state: Walk, trace: "Trace", sums: "Table") -> dict:
    """The whole file as an object."""
    facts, frames = trace.info(), Frames(trace)
    pid = facts.get("pid", "")
    return {"dhatFileVersion": 2, "mode": "heap", "verb": "Allocated", "bklt": True, "bkacc": True,
            "tu": "instrs", "Mtu": "Minstr", "tuth": 500, "cmd": facts.get("command", trace.name),
            "pid": int(pid) if pid.isdecimal() else 0, "te": state.time, "tg": state.peak_time,
            "pps": points(state, trace, sums, frames), "ftbl": list(frames.texts)}
