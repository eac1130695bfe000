"""What the last snapshots say of the blocks in Lua heaps that live at the end of a trace: by allocation site, what is garbage,
what is reachable, and through which table or variable.

A snapshot knows the objects by address, with the bytes of their parts (a table's array and hash, a thread's stack), which
are blocks of their own: those count at the site of the object, wherever they were made. Of blocks made after the snapshot
nothing is known. Memory is O(live blocks + objects).

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from steve.analysis import live_at
from steve.analysis.reachable import LastOfEach, objects_of, reached
from steve.terminal.progress import Progress

if TYPE_CHECKING:
    import numpy as np

    from steve.analysis.blocks import Blocks
    from steve.analysis.live_at import LiveBlocks
    from steve.trace._memtrace import Snapshot, Trace

END = (1 << 64) - 1


class Held(NamedTuple):
    """What of the objects of a site, which live at the end, the snapshots reach. bytes: of these with their parts; garbage:
    bytes of those that they do not reach, with theirs; path: the way to what holds most of the reachable ones,
    `registry._LOADED.sessions.active`, "" if there are none; share: of the reachable bytes, those that it holds; snapshot:
    its name."""

    objects: int
    bytes: int
    garbage: int
    path: str
    share: float
    snapshot: str

    @property
    def text(self) -> str:
        """In words, through what the blocks are reachable."""
        most = "" if self.share > 0.995 else f" ({self.share:.0%} of what is reachable)"
        return f"held by {self.path}{most}, in the snapshot '{self.snapshot}'"


def held(chosen: Blocks) -> dict[int, Held]:
    """By site, what the last snapshot of each state says, of a trace that was read; {} if it has none. This is another reading
    of the trace, which is not made if nothing of Lua lives at the end or if only some of the blocks are chosen."""
    if not chosen.is_whole() or chosen.trace.sample or chosen.is_from_pipe():
        return {}
    trace = chosen.open_again(snapshots=True)
    taken = LastOfEach(trace)
    with Progress(chosen.command, chosen.args.quiet) as progress:

        def tick(done: int, total: int) -> None:
            taken.look()
            progress(done, total)

        live = live_at.live_at(trace, END, tick)
    taken.look()
    found: dict[int, Held] = {}
    for snapshot in taken.snapshots():
        for site, of_site in _of_snapshot(chosen, trace, snapshot, live).items():
            known = found.get(site)
            found[site] = of_site if known is None else _both(known, of_site)
    return found


def _both(one: Held, other: Held) -> Held:
    """Of a site with objects in several states: the path is that of the state with more of them."""
    larger = max(one, other, key=lambda held: held.bytes)
    size = one.bytes + other.bytes
    return larger._replace(
        objects=one.objects + other.objects,
        bytes=size,
        garbage=one.garbage + other.garbage,
        share=larger.share * larger.bytes / (size or 1),
    )


def _of_snapshot(chosen: Blocks, trace: Trace, snapshot: Snapshot, live: LiveBlocks) -> dict[int, Held]:
    import numpy as np

    objects = objects_of(live.heap, live.made, live.addr, snapshot)
    some = np.flatnonzero(objects >= 0)
    objects = objects[some]
    sizes = snapshot.objects["size"][objects].astype("f8")
    sites, which = np.unique(chosen.places.sites.of(live.stack[some]), return_inverse=True)
    alive = reached(snapshot)[objects] if len(some) else np.zeros(0, bool)
    counts = np.bincount(which[alive], minlength=len(sites))
    held_bytes = np.bincount(which[alive], sizes[alive], len(sites))
    garbage = np.bincount(which[~alive], sizes[~alive], len(sites))
    paths = _paths(trace, snapshot, which[alive], objects[alive], sizes[alive])
    return {
        site: Held(
            int(counts[i]),
            int(held_bytes[i]),
            int(garbage[i]),
            paths[i][0] if i in paths else "",
            paths[i][1] / held_bytes[i] if i in paths else 0,
            snapshot.name,
        )
        for i, site in enumerate(sites.tolist())
    }


def _paths(
    trace: Trace, snapshot: Snapshot, rows: np.ndarray, objects: np.ndarray, sizes: np.ndarray
) -> dict[int, tuple[str, float]]:
    """By row, the way to what holds most of its objects, and the bytes of these. rows, objects, sizes: of reachable blocks."""
    import numpy as np

    from steve.snapshots.graph import Universe
    from steve.snapshots.growth import Places

    if not len(objects):
        return {}
    places = Places(Universe(trace, snapshot, 1, [1], 0))
    keys = rows.astype("u8") << np.uint64(32) | places.holders()[objects].astype("u8")
    distinct, which = np.unique(keys, return_inverse=True)
    sums = np.bincount(which, sizes, len(distinct))
    found: dict[int, tuple[str, float]] = {}
    texts: dict[int, str] = {}
    order = np.argsort(-sums, kind="stable")
    for key, size in zip(distinct[order].tolist(), sums[order].tolist()):
        if key >> 32 not in found:
            holder = key & 0xFFFFFFFF
            texts.setdefault(holder, places.holder_text(holder))
            found[key >> 32] = texts[holder], size
    return found
