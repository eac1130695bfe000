# SPDX-License-Identifier: GPL-2.0-or-later
"""The data of the explorable part of the report: sums that answer for any window of the run.

They are the cells of steve/kernels/lives/cells.h, with the stacks as a tree of shown frames. The page sums them up
(steve/report/page/). To bound its size, at most MOST_SITES sites are kept: those with the largest share of any sum. The
others become one node "others" below their nearest caller that is kept. If the cells take more than MOST_BYTES, bins are
merged.

The form is JSON and columns of numbers, compressed and written as base64. The head of steve/report/page/data.ts
describes it.
"""
from __future__ import annotations

import base64
import json
import struct
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from steve.analysis.totals import time_unit
from steve.kernels._cells import CELL, SUMS
from steve.trace.frames import is_lua, is_native
from steve.trace.policy import INLINED
from steve.trace.rollups import Rollup, Sums

if TYPE_CHECKING:
    from steve.kernels._cells import BlockCells
    from steve.kernels._profile import HeapProfile
    from steve.parallel.rounds import Whole
    from steve.report.line_work import Work
    from steve.report.sources import Sources
    from steve.trace._memtrace import Frame, Trace
    from steve.trace.places import Places

NAME_LIMIT = 160  # characters of a name
MOST_SITES = 2000
MOST_BYTES = 5 << 19  # of the compressed data
LEVEL = 6  # of zlib: 9 takes three times as long for 2% fewer bytes
CODE = ("C", "Lua", "inlined", "virtual machine")
ROLLUPS = ("function", "line", "file", "object")
OTHERS, NO_STACK = "others", "no stack recorded"


def clean(text: str, limit: int = NAME_LIMIT) -> str:
    """Text of a trace fit for showing: printable, valid and not longer than `limit`."""
    text = text.encode("utf-8", "replace").decode()
    text = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)
    return text if len(text) <= limit else text[: limit - 1] + "…"


@dataclass
class Nodes:
    """A tree of frames. Node 0 is the root; parents have smaller numbers than their children. of_sites: by stack id of
    a site, the node of its blocks; frames: ids of frames, or one of the two numbers below."""

    parents: np.ndarray
    frames: np.ndarray
    of_sites: np.ndarray


OF_OTHERS, OF_NO_STACK = -1, -2  # instead of the id of a frame


def leading(cells: np.ndarray, sites: np.ndarray, most: int) -> np.ndarray:
    """The sites with the largest share of any sum, at most so many, in order. sites: of the group of each cell."""
    numbers, which = np.unique(sites, return_inverse=True)
    best = np.zeros(len(numbers))
    for values in [*(cells[name] for name in SUMS), cells["allocated"].astype("f8") - cells["freed"]]:
        sums = np.bincount(which, values, len(numbers))
        best = np.maximum(best, sums / (sums.sum() or 1))
    return np.sort(numbers[np.argsort(-best, kind="stable")[:most]])


def nodes_of(callers: np.ndarray, frames: np.ndarray, all_sites: np.ndarray, kept: np.ndarray) -> Nodes:
    """The tree of the kept sites. callers, frames: of Sites.tree(); all_sites: those that have cells."""
    node, parents, ids = {0: 0}, [0], [0]

    def reach(site: int) -> int:
        path = []
        while site not in node:
            path.append(site)
            site = int(callers[site])
        for each in reversed(path):
            parents.append(node[site])
            ids.append(int(frames[each]))
            node[each], site = len(parents) - 1, each
        return node[site]

    def child(parent: int, frame: int) -> int:
        """The node of no site below a node."""
        if (parent, frame) not in extra:
            extra[parent, frame] = len(parents)
            parents.append(parent)
            ids.append(frame)
        return extra[parent, frame]

    extra: dict[tuple[int, int], int] = {}
    of_sites = np.zeros(len(callers), "u4")
    for site in kept.tolist():
        of_sites[site] = reach(site) if site else child(0, OF_NO_STACK)
    for site in np.setdiff1d(all_sites, kept).tolist():
        caller = int(callers[site])
        while caller not in node:
            caller = int(callers[caller])
        of_sites[site] = child(node[caller], OF_OTHERS)
    return Nodes(np.array(parents, "u4"), np.array(ids, "i8"), of_sites)


def code_of(frame: Frame) -> int:
    """The kind of code of a frame: an index into CODE."""
    if frame.kind == INLINED:
        return 2
    return 1 if is_lua(frame) else 0 if is_native(frame) else 3


class Frames:
    """The frames of the page: for each its text, its kind of code, and the rows of the roll-ups to which it belongs."""

    def __init__(self, places: Places) -> None:
        self._places, self._sites = places, places.sites
        self._rollups = {by: Rollup(by, places) for by in ROLLUPS}
        self._numbers: dict[str, int] = {}
        self._rows: list[tuple[str, int, list[int]]] = []
        self.found: list[Frame | None] = []  # by number

    def number(self, frame: int) -> int:
        """The number of a frame with an id."""
        found = self._sites.shown.named(frame) if frame > 0 else None
        text = {OF_OTHERS: OTHERS, OF_NO_STACK: NO_STACK}.get(frame) or self._sites.frame_text(max(frame, 0))
        if text not in self._numbers:
            self._numbers[text] = len(self._rows)
            rows = [OF_OTHERS if frame == OF_OTHERS else self._rollups[by].of_frame(max(frame, 0)) for by in ROLLUPS]
            self._rows.append((text, code_of(found) if found is not None else 0, rows))
            self.found.append(found)
        return self._numbers[text]

    def file_rows(self) -> list[tuple[int, Frame | None]]:
        """By number, the row in the roll-up by file and the frame."""
        return [(row[2][ROLLUPS.index("file")], frame) for row, frame in zip(self._rows, self.found)]

    def object(self) -> dict[str, Any]:
        """For JSON: `frames` by column, and the texts of the rows of each roll-up. To be called last."""
        rows, texts = {}, {}
        for i, by in enumerate(ROLLUPS):
            found = [row[2][i] for row in self._rows]
            n = max(found, default=-1) + 1
            texts[by] = [clean(self._rollups[by].text(number)) for number in range(n)] + [OTHERS]
            rows[by] = [n if number == OF_OTHERS else number for number in found]
        return {
            "frames": {
                "text": [clean(row[0]) for row in self._rows],
                "code": [row[1] for row in self._rows],
                "lineNumber": [frame.line if frame is not None else 0 for frame in self.found],
                **rows,
            },
            "rows": texts,
        }


def kind_name(trace: Trace | Whole, heap: int, number: int) -> str:
    """The kind of blocks: the type of their content or, if there is none, the kind of their heap, as in `steve
    lines`."""
    from steve.trace._memtrace import TYPE_NAMES

    known = trace.heap(heap)
    return TYPE_NAMES[number] if number else known.kind if known is not None else "malloc"


def heap_name(trace: Trace | Whole, number: int) -> str:
    """The name of a heap."""
    names = {"malloc": "C heap (malloc)", "lua": "Lua state", "mmap": "mmap", "custom": "custom pool"}
    heap = trace.heap(number)
    kind = "malloc" if heap is None else heap.kind
    return names.get(kind, kind) + (f" {heap.id:#x}" if heap is not None and heap.id else "")


def merged(cells: np.ndarray, groups: np.ndarray, shift: int) -> np.ndarray:
    """Cells summed by new groups and by 2^shift bins. groups: of each cell."""
    made, bins = ((cells[name] >> shift).astype("u8") for name in ("made", "bin"))
    keys = groups.astype("u8") << np.uint64(16) | made << np.uint64(8) | bins
    order = np.argsort(keys, kind="stable")
    starts = np.flatnonzero(np.diff(keys[order], prepend=~keys[order[:1]]))
    found = np.zeros(len(starts), CELL)
    firsts = keys[order[starts]]
    found["group"], found["made"], found["bin"] = (
        firsts >> np.uint64(16),
        firsts >> np.uint64(8) & np.uint64(255),
        firsts & np.uint64(255),
    )
    for name in SUMS:
        found[name] = np.add.reduceat(cells[name][order], starts) if len(starts) else 0
    return found


def varints(values: np.ndarray) -> bytes:
    """Numbers, 7 bits a byte, low bits first, the top bit set if more follow."""
    left, lengths = values.astype("u8"), np.ones(len(values), "i8")
    for bits in range(7, 64, 7):
        lengths += left >> np.uint64(bits) > 0
    ends = np.cumsum(lengths)
    out = np.zeros(int(ends[-1]) if len(ends) else 0, "u1")
    at = ends - lengths
    for i in range(int(lengths.max(initial=0))):
        some = lengths > i
        out[at[some] + i] = (left[some] & np.uint64(127)).astype("u1") | np.where(lengths[some] > i + 1, 128, 0).astype(
            "u1"
        )
        left >>= np.uint64(7)
    return out.tobytes()


def packed(head: dict[str, Any], cells: np.ndarray) -> bytes:
    """The compressed data."""
    columns = [
        np.diff(cells["group"].astype("i8"), prepend=0),
        cells["made"],
        cells["bin"] - cells["made"],
        *(cells[name] for name in SUMS),
    ]
    text = json.dumps(head, separators=(",", ":")).encode()
    return zlib.compress(struct.pack("<I", len(text)) + text + b"".join(map(varints, columns)), LEVEL)


def timeline_of(profile: HeapProfile) -> dict[str, list[int]]:
    """The bins of the timeline, by column."""
    bins = profile.timeline()
    return {
        name: bins[column].tolist()
        for name, column in (
            ("ends", "operations_end"),
            ("times", "time_end"),
            ("bytes", "live_bytes_most"),
            ("blocks", "live_blocks_most"),
            ("allocated", "allocated_end"),
        )
    }


def sources_of(
    frames: Frames, sources: Sources | None, own: np.ndarray, bytes_of: np.ndarray, work: Work
) -> list[dict[str, Any]]:
    """The source files for JSON, those of the most bytes first. own: the frame of each node to which its blocks belong;
    bytes_of: of each node."""
    rows = frames.file_rows()
    order = np.argsort(-np.bincount(own, bytes_of, len(rows)), kind="stable")
    others = sorted(work, key=lambda file: -sum(map(sum, work[file].values())))
    found = sources.of_frames((rows[i] for i in order.tolist()), others) if sources is not None else ()
    return [
        {
            "file": source.file,
            "path": clean(source.path),
            "text": source.text,
            "missing": source.missing,
            "work": []
            if source.missing
            else [(line, *sums) for line, sums in sorted(work.get(source.name, {}).items())],
        }
        for source in found
    ]


def explorable(
    trace: Trace | Whole,
    places: Places,
    found: BlockCells,
    timeline: dict[str, list[int]],
    course: dict[str, Any],
    marks: list[tuple[int, int, str]],
    tallies: Sums,
    sources: Sources | None,
    work: Work,
) -> str:
    """The data as base64; "" if the trace has no operation. timeline: of timeline_of(); course: what else the timeline
    shows; tallies: by site, of which unread_bytes are shown; sources: None: no source is shown;
    work: what lines access."""
    cells, groups = found.cells(), found.groups()
    if not len(cells):
        return ""
    shown, sites, callers, frame_ids = places.sites.tree()
    groups["stack"][groups["stack"] >= len(shown)] = 0
    of_groups = sites[shown[groups["stack"]]]
    of_cells = of_groups[cells["group"]]
    all_sites = np.unique(of_cells)
    kept = leading(cells, of_cells, MOST_SITES)
    nodes = nodes_of(callers, frame_ids, all_sites, kept)
    frames = Frames(places)
    own = np.full(len(nodes.parents), frames.number(OF_OTHERS), "u4")
    for site in kept.tolist():
        own[nodes.of_sites[site]] = frames.number(places.line_frame(site) or OF_NO_STACK)
    unread_of = np.zeros(len(nodes.parents), "u8")
    has_cells = np.isin(tallies.numbers, all_sites)
    accesses = any(cells[name].any() for name in ("reads", "writes"))
    np.add.at(unread_of, nodes.of_sites[tallies.numbers[has_cells]], tallies.rows["unread_bytes"][has_cells] * accesses)
    bytes_of = np.bincount(nodes.of_sites[of_cells], cells["allocated"], len(nodes.parents))
    # in the order of their names: that of the groups differs if the trace is read in shards
    kind_of_groups = [kind_name(trace, heap, number) for heap, number in groups[["heap", "type"]].tolist()]
    names = {number: heap_name(trace, number) for number in np.unique(groups["heap"]).tolist()}
    kinds, heaps = sorted(set(kind_of_groups)), sorted(set(names.values()))
    of_kinds = [kinds.index(kind) for kind in kind_of_groups]
    of_heaps = [heaps.index(names[heap]) for heap in groups["heap"].tolist()]
    keys = np.column_stack([nodes.of_sites[of_groups], groups["thread"], of_kinds, of_heaps])
    rows, numbers = np.unique(keys, axis=0, return_inverse=True)
    head = {
        "operations": found.operations(),
        "timeline": timeline,
        **course,
        "marks": [[operation, name] for operation, _, name in marks],
        "nodes": {
            "parent": nodes.parents.tolist(),
            "frame": [frames.number(int(f)) for f in nodes.frames],
            "own": own.tolist(),
            "unread": unread_of.tolist(),
        },
        "groups": {
            "node": rows[:, 0].tolist(),
            "thread": rows[:, 1].tolist(),
            "kind": rows[:, 2].tolist(),
            "heap": rows[:, 3].tolist(),
        },
        "kinds": kinds,
        "heaps": heaps,
        "timeUnit": time_unit(trace),
        "accesses": bool(accesses),
        "codes": CODE,
        "sites": len(all_sites),
        "folded": len(all_sites) - len(kept),
        "sources": sources_of(frames, sources, own, bytes_of, work),
    }
    head |= frames.object()
    for shift in range(9):
        some = merged(cells, np.ravel(numbers)[cells["group"]], shift)
        head |= {"width": found.width() << shift, "cells": len(some)}
        data = packed(head, some)
        if len(data) <= MOST_BYTES:
            break
    return base64.b64encode(data).decode()
