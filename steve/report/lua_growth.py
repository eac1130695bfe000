# SPDX-License-Identifier: GPL-2.0-or-later
"""What grew in Lua between the last two snapshots of a state, and what holds it: the first rows of `steve universe --diff`, for
the report, which a reader may have without the trace."""
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from steve.analysis.closed import has_lua
from steve.terminal.progress import Progress

if TYPE_CHECKING:
    from steve.analysis.blocks import Blocks

MOST = 8  # rows
LARGEST = 2_000_000  # objects of both snapshots; a comparison of more takes minutes


@dataclass(frozen=True)
class LuaGrowth:
    """before, after: the names of the snapshots; rows: of steve.snapshots.growth.grown_paths(); others: how many more there
    are; objects: those of both snapshots; command: the arguments of `steve universe` that show all."""

    before: str
    after: str
    rows: list[dict[str, Any]]
    others: int
    objects: int
    command: str

    @property
    def is_too_large(self) -> bool:
        """Was it not looked for, because there are too many objects?"""
        return self.objects > LARGEST


def lua_growth(chosen: Blocks) -> LuaGrowth | None:
    """What grew between the last snapshot of a trace that was read and the one before it of the same state. None if there are
    not two, or if only some of the blocks are chosen. The trace is read twice more."""
    from steve.snapshots.graph import read, read_if_any
    from steve.snapshots.growth import grown_paths

    trace = chosen.trace
    if not chosen.is_whole() or trace.sample or chosen.is_from_pipe() or not has_lua(trace):
        return None
    with Progress(chosen.command, chosen.args.quiet) as progress:
        after = read_if_any(chosen.open_again(snapshots=True), None, progress)
        if after is None or not after.before:
            return None
        before = read(chosen.open_again(snapshots=True), after.before, progress)
        objects = len(before.objects) + len(after.objects)
        rows = grown_paths(before, after) if objects <= LARGEST else []
    names = before.snapshot.name, after.snapshot.name
    wanted = f"--snapshot {after.number} --diff {before.number}"
    return LuaGrowth(*names, rows[:MOST], max(len(rows) - MOST, 0), objects, wanted)
