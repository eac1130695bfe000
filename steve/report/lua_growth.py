# SPDX-License-Identifier: GPL-2.0-or-later
"""What the snapshots of a Lua state say, for the report, which a reader may have without the trace: what grew between the last two
of them and what holds it, the first rows of `steve universe --diff`; or of a single one, what holds its objects."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from steve.analysis.closed import has_lua
from steve.terminal.progress import Progress
from steve.terminal.units import counted, human_bytes, human_ns

if TYPE_CHECKING:
    from steve.analysis.blocks import Blocks
    from steve.snapshots.graph import Universe

MOST = 8  # rows
# Objects of the two snapshots: comparing 8 million takes 13 s, and less memory than reading them.
LARGEST = 10_000_000


@dataclass(frozen=True)
class _Paths:
    """rows: the first ones; others: how many more there are; objects: those of the snapshots; command: the arguments of `steve
    universe` that show all."""

    rows: list[dict[str, Any]]
    others: int
    objects: int
    command: str

    @property
    def is_too_large(self) -> bool:
        """Was it not looked for, because there are too many objects?"""
        return self.objects > LARGEST


@dataclass(frozen=True)
class LuaGrowth(_Paths):
    """Of a state with two snapshots or more, rows of steve.snapshots.growth.grown_paths(). before, after: the names of the last
    two. seconds: the time between them; None: the trace counts instructions."""

    before: str
    after: str
    seconds: float | None

    def rate(self, size: int) -> float:
        """Bytes a second of bytes between the snapshots; 0 if the time is not known."""
        return size / self.seconds if self.seconds else 0

    def retains(self, row: Mapping[str, int]) -> str:
        """A phrase: how much more a path retains now than then, and how long that was before."""
        when = f", {human_ns(self.seconds * 1e9)} before" if self.seconds else ""
        more = human_bytes(row["more_bytes"])
        return f"retains {more} more in the snapshot '{self.after}' than in '{self.before}'{when}"


@dataclass(frozen=True)
class LuaHeld(_Paths):
    """Of a state with one snapshot, rows of steve.snapshots.holders.held_paths(). name: that of the snapshot; reached: bytes of
    its reachable objects."""

    name: str
    reached: int


def objects_of(row: Mapping[str, int]) -> str:
    """How many objects a path that grew has, and how many are new."""
    objects = counted(row["objects"], "object")
    return (
        f"{objects}, {row['more_objects']:,} of them more"
        if row["more_objects"]
        else f"{objects} as before, but larger"
    )


def last_snapshot(chosen: Blocks) -> Universe | None:
    """The last snapshot of a trace that was read, by another reading of it; None if there is none, if only some of the blocks are
    chosen, or if it has more objects than are compared."""
    from steve.snapshots.graph import read_if_any

    if chosen.args.where or chosen.trace.sample or chosen.is_from_pipe() or not has_lua(chosen.trace):
        return None
    with Progress(chosen.command, chosen.args.quiet) as progress:
        found = read_if_any(chosen.open_again(snapshots=True), None, progress)
    return found if found is not None and len(found.objects) <= LARGEST // 2 else None


def grown_most(before: Universe, after: Universe) -> dict[str, Any] | None:
    """The path that grew most from a snapshot of one process to one of another; a row of steve.snapshots.growth.grown_paths().
    None: nothing grew."""
    from steve.snapshots.growth import grown_paths
    from steve.snapshots.matching import identify

    identify(before, after)
    rows = grown_paths(before, after)
    return rows[0] if rows else None


def lua_snapshots(chosen: Blocks) -> LuaGrowth | LuaHeld | None:
    """What the last snapshot of a trace that was read says, compared with the one before it of the same state if there is one.
    None if there is no snapshot, or if only some of the blocks are chosen. The trace is read again, once for each."""
    from steve.analysis.totals import time_unit
    from steve.snapshots.graph import read, read_if_any
    from steve.snapshots.growth import grown_paths
    from steve.snapshots.holders import held_paths

    trace = chosen.trace
    if not chosen.is_whole() or trace.sample or chosen.is_from_pipe() or not has_lua(trace):
        return None
    with Progress(chosen.command, chosen.args.quiet) as progress:
        after = read_if_any(chosen.open_again(snapshots=True), None, progress)
        if after is None:
            return None
        name, wanted = after.snapshot.name, f"--snapshot {after.number}"
        if not after.before:
            few = len(after.objects) <= LARGEST
            held = held_paths(after) if few else []
            reached = after.bytes - after.unreachable if few else 0
            return LuaHeld(held[:MOST], max(len(held) - MOST, 0), len(after.objects), wanted, name, reached)
        before = read(chosen.open_again(snapshots=True), after.before, progress)
        objects = len(before.objects) + len(after.objects)
        rows = grown_paths(before, after) if objects <= LARGEST else []
    wanted += f" --diff {before.number}"
    span = after.snapshot.time - before.snapshot.time
    seconds = span / 1e9 if span > 0 and time_unit(trace) == "nanoseconds" else None
    return LuaGrowth(rows[:MOST], max(len(rows) - MOST, 0), objects, wanted, before.snapshot.name, name, seconds)
