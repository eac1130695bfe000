# SPDX-License-Identifier: GPL-2.0-or-later
"""The data of the explorable part of the report: sums that answer for any window of the run.

They are the cells of steve/kernels/lives/cells.h, with the stacks as a tree of shown frames. The page sums them up
(steve/report/page/). To bound its size, at most MOST_SITES sites are kept: those with the largest share of any sum. The
others become one node "others" below their nearest caller that is kept. The set of their frames is kept, so that
searches and filters find them, for at most MOST_SETS of these sets. If the cells take more than MOST_BYTES, bins are
merged.

The form is JSON and columns of numbers, compressed and written as base64. The head of steve/report/page/data.ts
describes it.
"""
from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from steve.analysis.totals import time_unit
from steve.kernels._report import AFTER, CELL, SUMS
from steve.trace.frames import is_lua, is_native, short_name
from steve.trace.policy import INLINED
from steve.trace.rollups import Rollup, Sums, heap_name

if TYPE_CHECKING:
    from steve.kernels._report import BlockCells, HeapProfile
    from steve.parallel.rounds import Whole
    from steve.report.line_work import Work
    from steve.report.sources import Sources
    from steve.trace._memtrace import Frame, Trace
    from steve.trace.places import Places

NAME_LIMIT = 160  # characters of a name
WHOLE_LIMIT = 400  # characters of a name that is shown shortened, and as a whole where it is pointed at
MOST_SITES = 2000
MOST_BYTES = 5 << 19  # of the compressed data
MOST_SETS, MOST_NAMES = 1000, 100000  # sets of frames of the other sites; numbers of frames in all of them
LEVEL = 6  # of zlib: 9 takes three times as long for 2% fewer bytes
CODE = ("C", "Lua", "inlined", "virtual machine")
ROLLUPS = ("function", "line", "file", "object")
OTHERS, NO_STACK = "others", "no stack recorded"


def clean(text: str, limit: int = NAME_LIMIT) -> str:
    """Text of a trace fit for showing: printable, valid and not longer than `limit`."""
    text = text.encode("utf-8", "replace").decode()
    text = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def with_place(text: str, limit: int = WHOLE_LIMIT) -> str:
    """The same for a frame, `function (file:line)`, of which the place is kept."""
    text = clean(text, max(len(text), 1))
    if len(text) <= limit:
        return text
    at = text.rfind(" (")
    place = text[at:] if 0 < at and len(text) - at < limit // 2 else ""
    return clean(text[: len(text) - len(place)], limit - len(place)) + place


def shortened(text: str, frame: Frame | None) -> str:
    """The text of a frame with the short name that tables in the terminal have, too."""
    if frame is None or not frame.function:
        return text
    return text.replace(frame.function, short_name(frame.function), 1)


class Cells(NamedTuple):
    """What remains of a BlockCells."""

    cells: np.ndarray
    groups: np.ndarray
    maxima: np.ndarray
    width: int
    operations: int

    @staticmethod
    def of(found: BlockCells) -> Cells:
        return Cells(found.cells(), found.groups(), found.maxima(), found.width(), found.operations())


@dataclass
class Nodes:
    """A tree of frames. Node 0 is the root; parents have smaller numbers than their children. of_sites: by stack id of
    a site, the node of its blocks; frames: ids of frames, or one of the two numbers below; known: the stack ids that
    have nodes of their own."""

    parents: np.ndarray
    frames: np.ndarray
    of_sites: np.ndarray
    known: frozenset[int]


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
    return Nodes(np.array(parents, "u4"), np.array(ids, "i8"), of_sites, frozenset(node))


NOT_KNOWN, NOT_SEEN = -1, -2  # instead of the number of a set: the frames are not known; the site was not looked at


class FrameSets:
    """The sets of frames of the sites that have no node, below their nearest caller that has one. With these, searches
    and filters count them, too. Recursive programs have many paths, but few such sets. Set 0 is empty."""

    def __init__(
        self, callers: np.ndarray, ids: np.ndarray, known: frozenset[int], number: Callable[[int], int]
    ) -> None:
        self._callers, self._ids, self._known, self._number = callers, ids, known, number
        self._numbers = {0: 0}  # by set, which is the sum of a bit for each frame
        self._next: dict[tuple[int, int], int] = {}  # by set and id of a frame, the set with that frame
        self._of_sites = np.full(len(callers), NOT_SEEN, "i4")
        self._masks = [0]
        self._frames: list[int] = []  # by bit
        self._bits: dict[int, int] = {}
        self._size = 0

    def of(self, site: int) -> int:
        """The number of the set of a site, or NOT_KNOWN."""
        path = []
        while site not in self._known and self._of_sites[site] == NOT_SEEN:
            path.append(site)
            site = int(self._callers[site])
        found = 0 if site in self._known else int(self._of_sites[site])
        for each in reversed(path):
            found = self._of_sites[each] = self._with(found, int(self._ids[each]))
        return found

    def _with(self, number: int, frame: int) -> int:
        if number == NOT_KNOWN or self._size > MOST_NAMES:
            return NOT_KNOWN
        if (number, frame) not in self._next:
            mask = self._masks[number] | 1 << self._bit(self._number(frame))
            if mask not in self._numbers:
                self._size += mask.bit_count()
                self._numbers[mask] = len(self._masks)
                self._masks.append(mask)
            self._next[number, frame] = self._numbers[mask]
        return self._next[number, frame]

    def _bit(self, frame: int) -> int:
        if frame not in self._bits:
            self._bits[frame] = len(self._frames)
            self._frames.append(frame)
        return self._bits[frame]

    def leading(self, numbers: np.ndarray, bytes_of: np.ndarray) -> np.ndarray:
        """Numbers of sets, with NOT_KNOWN instead of all but the MOST_SETS with the most bytes. bytes_of: parallel."""
        sums = np.bincount(numbers + 1, bytes_of, len(self._masks) + 1)
        dropped = np.argsort(-sums, kind="stable")[MOST_SETS:]
        return np.where(np.isin(numbers + 1, dropped), NOT_KNOWN, numbers)

    def frames(self, number: int) -> list[int]:
        """The numbers of the frames of a set."""
        mask = self._masks[number]
        return [frame for bit, frame in enumerate(self._frames) if mask >> bit & 1]


def folded_sets(
    sites: np.ndarray,
    nodes: Nodes,
    callers: np.ndarray,
    ids: np.ndarray,
    frames: Frames,
    of_cells: np.ndarray,
    cells: np.ndarray,
) -> tuple[np.ndarray, FrameSets]:
    """By stack id, the number of the set of frames of a site without a node, 0 for others; and the sets. sites: those
    without; of_cells: the site of each cell."""
    sets, found = FrameSets(callers, ids, nodes.known, frames.number), np.zeros(len(callers), "i4")
    for site in sites.tolist():
        found[site] = sets.of(site)
    bytes_of = np.bincount(of_cells, cells["allocated"], len(callers))
    found[sites] = sets.leading(found[sites], bytes_of[sites])
    return found, sets


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
        rows, texts, short = {}, {}, {}
        for i, by in enumerate(ROLLUPS):
            found = [row[2][i] for row in self._rows]
            n = max(found, default=-1) + 1
            names = [self._rollups[by].text(number) for number in range(n)]
            texts[by] = [with_place(name) for name in names] + [OTHERS]
            short[by] = _shortened(names, [self._rollups[by].frame(number) for number in range(n)])
            rows[by] = [n if number == OF_OTHERS else number for number in found]
        return {
            "frames": {
                "text": [with_place(row[0]) for row in self._rows],
                "short": _shortened([row[0] for row in self._rows], self.found),
                "code": [row[1] for row in self._rows],
                "lineNumber": [frame.line if frame is not None else 0 for frame in self.found],
                **rows,
            },
            "rows": texts,
            "shortRows": short,
        }


def _shortened(texts: list[str], frames: list[Frame | None]) -> dict[int, str]:
    """By number, the short texts of frames that have one."""
    short = (with_place(shortened(text, frame), NAME_LIMIT) for text, frame in zip(texts, frames))
    return {number: text for number, text in enumerate(short) if text != texts[number]}


def distinct(*columns: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
    """The columns of the distinct rows, sorted, and for each row its number among these."""
    order = np.lexsort(columns[::-1])
    is_first = np.ones(len(order), bool)
    is_first[1:] = False
    for column in columns:
        is_first[1:] |= np.diff(column[order]) != 0
    numbers = np.zeros(len(order), "i8")
    numbers[order] = np.cumsum(is_first) - 1
    return [column[order[is_first]] for column in columns], numbers


def kind_name(trace: Trace | Whole, heap: int, number: int) -> str:
    """The kind of blocks: the type of their content or, if there is none, the kind of their heap, as in `steve
    lines`."""
    from steve.trace._memtrace import TYPE_NAMES

    known = trace.heap(heap)
    return TYPE_NAMES[number] if number else known.kind if known is not None else "malloc"


def leading_bins(maxima: np.ndarray, shift: int) -> np.ndarray:
    """Of each 2^shift bins, the number of the first with the most live bytes. maxima: of BlockCells."""
    firsts = np.arange(0, len(maxima), 1 << shift)
    return np.array([first + np.argmax(maxima["most"][first : first + (1 << shift)]) for first in firsts], "i8")


def merged(cells: np.ndarray, groups: np.ndarray, leading: np.ndarray, shift: int) -> np.ndarray:
    """Cells summed by new groups and by 2^shift bins. groups: of each cell; leading: of leading_bins()."""
    peaks = leading[cells["bin"] >> shift].astype("u2")
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
    for name, made, gone in zip(AFTER, ("allocated", "news"), ("freed", "frees")):
        net = (cells[made] - cells[gone]).view("i8")
        after = np.where(cells["bin"] > peaks, net, np.where(cells["bin"] == peaks, cells[name], 0))
        found[name] = np.add.reduceat(after[order], starts) if len(starts) else 0
    return found


def zigzag(values: np.ndarray) -> np.ndarray:
    """Numbers with a sign as numbers without, small ones for those near 0."""
    return (values.astype("i8") << 1 ^ values.astype("i8") >> 63).view("u8")


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
        *(zigzag(cells[name]) for name in AFTER),
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


def shown_groups(
    trace: Trace | Whole,
    places: Places,
    found: Cells,
    unread: Sums,
    sources: Sources | None,
    work: Work,
    accesses: bool,
    linked: Iterable[int],
) -> tuple[dict[str, Any], np.ndarray, dict[int, str]]:
    """The tree of the page and the groups of its nodes, for the head of the data; the number there of each group of the
    cells; the lines of linked sites. The arguments are those of explorable()."""
    cells, groups = found.cells, found.groups
    shown, sites, callers, frame_ids = places.sites.tree()
    groups["stack"][groups["stack"] >= len(shown)] = 0
    of_groups = sites[shown[groups["stack"]]]
    of_cells = of_groups[cells["group"]]
    all_sites = np.unique(of_cells)
    kept = leading(cells, of_cells, MOST_SITES)
    nodes = nodes_of(callers, frame_ids, all_sites, kept)
    frames = Frames(places)
    own_nodes = frozenset(kept.tolist())
    own = np.full(len(nodes.parents), frames.number(OF_OTHERS), "u4")
    for site in kept.tolist():
        own[nodes.of_sites[site]] = frames.number(places.line_frame(site) or OF_NO_STACK)
    of_others, sets = folded_sets(np.setdiff1d(all_sites, kept), nodes, callers, frame_ids, frames, of_cells, cells)
    unread_of = np.zeros(len(nodes.parents), "u8")
    has_cells = np.isin(unread.numbers, all_sites)
    np.add.at(unread_of, nodes.of_sites[unread.numbers[has_cells]], unread.rows[has_cells] * accesses)
    bytes_of = np.bincount(nodes.of_sites[of_cells], cells["allocated"], len(nodes.parents))
    # in the order of their names: that of the groups differs if the trace is read in shards
    kind_of_groups = [kind_name(trace, heap, number) for heap, number in groups[["heap", "type"]].tolist()]
    names = {number: heap_name(trace, number) for number in np.unique(groups["heap"]).tolist()}
    kinds, heaps = sorted(set(kind_of_groups)), sorted(set(names.values()))
    of_kinds = np.array([kinds.index(kind) for kind in kind_of_groups], "u4")
    of_heaps = np.array([heaps.index(names[heap]) for heap in groups["heap"].tolist()], "u4")
    own_of = own[nodes.of_sites].astype("i4")
    for site in np.flatnonzero(of_others > 0).tolist():
        own_of[site] = frames.number(places.line_frame(site) or OF_NO_STACK)
    rows, numbers = distinct(
        nodes.of_sites[of_groups],
        groups["thread"],
        groups["size"],
        of_kinds,
        of_heaps,
        own_of[of_groups],
        of_others[of_groups],
    )
    head = {
        "nodes": {
            "parent": nodes.parents.tolist(),
            "frame": [frames.number(int(f)) for f in nodes.frames],
            "own": own.tolist(),
            "unread": unread_of.tolist(),
        },
        "groups": {
            name: column.tolist()
            for name, column in zip(("node", "thread", "size", "kind", "heap", "own", "set"), rows)
        },
        "sets": {number: sets.frames(number) for number in np.unique(rows[-1]).tolist() if number > 0},
        "kinds": kinds,
        "heaps": heaps,
        "timeUnit": time_unit(trace),
        "accesses": accesses,
        "codes": CODE,
        "sites": len(all_sites),
        "folded": len(all_sites) - len(kept),
        "sources": sources_of(frames, sources, own, bytes_of, work),
        "links": {site: int(nodes.of_sites[site]) for site in linked if site in own_nodes},
    }
    of_links = {site: frames.number(places.line_frame(site) or OF_NO_STACK) for site in linked}
    described = frames.object()
    lines, texts = described["frames"]["line"], described["rows"]["line"]
    return head | described, numbers, {site: texts[lines[number]] for site, number in of_links.items()}


class Linked(NamedTuple):
    """How links name sites. lines: by site, the text of its row in the table of lines; apart: the sites that the page knows
    one by one, by which it can be filtered."""

    lines: dict[int, str]
    apart: frozenset[int]


class Kept(NamedTuple):
    """The line that made most of what was made between the first and the last mark and lives at the last one; as the page
    shows it, in whole steps. short: the line where there is little room; marks: their names; operations: where they are.
    """

    line: str
    short: str
    bytes: int
    blocks: int
    marks: tuple[str, str]
    operations: tuple[int, int]


def kept_between(head: dict[str, Any], cells: np.ndarray) -> Kept | None:
    """That line; None if there are no two marks a step apart. head: of the data of the page, with these cells."""
    if len(head["marks"]) < 2:
        return None
    (begin, first), (end, last) = head["marks"][0], head["marks"][-1]
    inside = cells[(cells["made"] >= begin // head["width"]) & (cells["bin"] < end // head["width"])]
    rows = np.array(head["frames"]["line"], "i8")[np.array(head["groups"]["own"], "i8")[inside["group"]]]
    texts, short = head["rows"]["line"][:-1], head["shortRows"]["line"]  # the last one is of others
    known = (rows >= 0) & (rows < len(texts))
    net = {
        name: np.bincount(rows[known], inside[made][known].astype("f8") - inside[gone][known], len(texts))
        for name, made, gone in (("bytes", "allocated", "freed"), ("blocks", "news", "frees"))
    }
    if not known.any():
        return None
    row = int(np.argmax(net["bytes"]))
    return Kept(
        texts[row],
        short.get(row, texts[row]),
        int(net["bytes"][row]),
        int(net["blocks"][row]),
        (first, last),
        (begin, end),
    )


def explorable(
    trace: Trace | Whole,
    places: Places,
    found: Cells,
    timeline: dict[str, list[int]],
    course: dict[str, Any],
    marks: list[tuple[int, int, str]],
    unread: Sums,
    sources: Sources | None,
    work: Work,
    accesses: bool,
    linked: Iterable[int],
) -> tuple[str, Linked, Kept | None]:
    """The data as base64, "" if the trace has no operation; how links name sites; what was kept between marks.
    timeline: of timeline_of(); course: what else the timeline shows; unread: bytes of blocks that were never read, by
    site; sources: None: no source is shown; work: what lines access; accesses: were they recorded?
    """
    cells = found.cells
    if not len(cells):
        return "", Linked({}, frozenset()), None
    # what it needs for each stack is freed before the cells are summed
    shown, numbers, lines = shown_groups(trace, places, found, unread, sources, work, accesses, linked)
    head = {
        "operations": found.operations,
        "timeline": timeline,
        **course,
        "marks": [[operation, name] for operation, _, name in marks],
        **shown,
    }
    for shift in range(9):
        peaks = leading_bins(found.maxima, shift)
        some = merged(cells, numbers[cells["group"]], peaks, shift)
        head |= {"width": found.width << shift, "cells": len(some)}
        head["maxima"] = {"bytes": found.maxima["most"][peaks].tolist(), "at": found.maxima["at"][peaks].tolist()}
        data = packed(head, some)
        if len(data) <= MOST_BYTES:
            break
    return base64.b64encode(data).decode(), Linked(lines, frozenset(head["links"])), kept_between(head, some)
