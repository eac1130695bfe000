# SPDX-License-Identifier: GPL-2.0-or-later
"""The page of `steve report A B`: what changed from one trace to another.

Its numbers are those of `steve diff`, by all roll-ups at once. The stacks of both traces form one tree, whose frames are
matched as the rows of `steve diff` are (steve.trace.matched). To bound the size of the page, at most MOST_SITES sites
are kept, those that differ most by any measure; the others become one node "others" below their nearest caller that is
kept. Tables show the MOST_ROWS rows that differ most by the chosen measure, and one for the others; the page has those
of all measures.

The two timelines can be aligned at the marks that both traces have in the same order.
"""
from __future__ import annotations

import base64
import json
import os
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import numpy as np
from markupsafe import Markup

from steve.analysis import looks
from steve.analysis.blocks import choice_text
from steve.analysis.closed import GARBAGE, has_lua
from steve.analysis.differences import MEASURES, SUMS, Differences, Measured, measured
from steve.analysis.resident_changes import ResidentChanges
from steve.analysis.totals import NEVER_FREED, cut_short, not_freed
from steve.kernels._report import HeapProfile
from steve.report.collect import BINS
from steve.report.lua_growth import grown_most, last_snapshot
from steve.report.page import environment, script, trace_name
from steve.report.sentences import MOST, WORTH, Sentence
from steve.report.windows import NAME_LIMIT, OTHERS, clean, code_of, shortened, timeline_of, with_place
from steve.terminal.units import human_bytes
from steve.trace import missing
from steve.trace.matched import Matched
from steve.trace.policy import FEW
from steve.trace.rollups import BY, Rollup, key_of

if TYPE_CHECKING:
    from steve.analysis.blocks import Blocks
    from steve.snapshots.graph import Universe
    from steve.trace._memtrace import Trace

MOST_SITES = 2000
MOST_ROWS = 500
MOSTLY = 0.5  # of what Lua reaches, for what holds it to be worth a sentence
FEW_MARKS = 5  # that are named
TEXT_LIMIT = 600  # characters of the text of a row
KEYS = tuple(key for key, _, _ in MEASURES)
TEXTS = {
    "blocks": "blocks made",
    "bytes": "bytes requested",
    "peak_bytes": "live bytes at the peak",
    "live_bytes": "bytes",  # measures_of() adds what is true of them
    "accesses": "accesses to blocks",
}
SCRIPT = "report/changes.js"
Shown = tuple[str, int]  # a frame: its text and its kind of code


@dataclass
class Names:
    """The names of what is compared in two traces: the rows by each roll-up."""

    rows: dict[str, Matched] = field(default_factory=lambda: {by: Matched(by) for by in BY})


@dataclass
class Side:
    """One of the two traces. rows: the measures by roll-up; accesses: were they recorded? problem: what is wrong with the
    trace; "" if nothing is. resident: what was resident. marks_made: the number of all marks, of which `marks` are the first.
    cut_short: that the program did not end as usual; "" if it did. choice: which blocks are compared, as headings have it;
    live: what is true of the blocks that live at the end of what was read; at_mark: is that a mark? has_lua: are there heaps of Lua?
    universe: the last snapshot of Lua's objects, if it is compared."""

    name: str
    command: str
    operations: int
    timeline: dict[str, list[int]]
    marks: list[tuple[int, str]]
    rows: dict[str, Measured]
    accesses: bool
    problem: str
    resident: looks.Measures
    marks_made: int = 0
    cut_short: str = ""
    choice: str = ""
    live: str = NEVER_FREED
    at_mark: bool = False
    has_lua: bool = False
    universe: Universe | None = None

    @property
    def label(self) -> str:
        """The name without its folder."""
        return os.path.basename(self.name)


def side(opened: Callable[[], Blocks], names: Names) -> tuple[Side, Trace]:
    """Read a trace. opened: opens it; it is read twice. names: of both traces. The trace is returned, too, so that it can
    be closed before the other one is read."""
    rows = measures(opened(), names)
    chosen = opened()
    profile = chosen.over_trace(partial(HeapProfile, BINS))
    totals, problem = profile.totals(), chosen.trace.problem
    found = Side(
        trace_name(chosen.args.file),
        clean(chosen.trace.info().get("command", ""), 200),
        int(totals["operations"]),
        timeline_of(profile),
        [(int(m["operation"]), clean(chosen.trace.string(int(m["string"])))) for m in profile.marks()],
        rows,
        missing.has_accesses(chosen.trace, sum(totals[kind] for kind in ("load", "store", "modify"))),
        "" if problem is None else clean(str(problem), 400),
        looks.measures(chosen, looks.NAMES),
        totals["marks"],
        cut_short(chosen.trace, chosen.args.end),
        clean(choice_text(chosen.args).removeprefix(", "), 400),
        not_freed(chosen.trace) if chosen.args.end is None else clean(f"live at '{chosen.args.end}'"),
        chosen.args.end is not None,
        has_lua(chosen.trace),
        last_snapshot(chosen),
    )
    return found, chosen.trace


def measures(chosen: Blocks, names: Names) -> dict[str, Measured]:
    """The measures of a trace by each roll-up."""
    keys = list(dict.fromkeys(map(key_of, names.rows)))
    tables = dict(zip(keys, chosen.sum_by(*keys, columns=SUMS)))
    accesses = not missing.not_recorded(chosen.trace)
    rows = {}
    for by, matched in names.rows.items():
        rows[by] = measured(tables[key_of(by)], Rollup(by, chosen.places), matched, accesses, chosen.sample)
    return rows


class Nodes:
    """A tree of frames, by column. Node 0 is the root; parents have smaller numbers than their children."""

    def __init__(self) -> None:
        self.parents, self.frames = [0], [("all", 0)]
        self._known: dict[tuple[int, str], int] = {}

    def child(self, parent: int, frame: Shown) -> int:
        known = self._known.setdefault((parent, frame[0]), len(self.parents))
        if known == len(self.parents):
            self.parents.append(parent)
            self.frames.append(frame)
        return known

    def reach(self, path: Iterable[Shown]) -> int:
        node = 0
        for frame in path:
            node = self.child(node, frame)
        return node

    def known(self, parent: int, frame: Shown) -> int | None:
        return self._known.get((parent, frame[0]))


def leading(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The indices of the rows that differ most by any measure, or are the largest; at most MOST_SITES, in order. a, b:
    the measures by row."""
    change, size = np.abs(b.astype("f8") - a.astype("f8")), np.maximum(a, b).astype("f8")
    share = [values / np.maximum(values.sum(axis=0), 1) for values in (change, size / 16)]
    order = np.argsort(-np.maximum(*share).max(axis=1), kind="stable")
    return np.sort(order[:MOST_SITES])


def both(names: Matched, first: Measured, second: Measured) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The nodes of the rows of both traces, those of the first one first, and the measures of each, 0 where it has no such
    row."""
    found = Differences(names, first, second)
    a, b = (np.column_stack([found.column(f"{key}_{of}") for key in KEYS]).astype("u8") for of in ("a", "b"))
    return found.nodes, a, b


def path_to(node: int, callers: np.ndarray, names: np.ndarray, frames: list[Shown]) -> list[Shown]:
    """The frames of a stack, from main on. callers, names: of Matched; frames: by number of a name."""
    path = []
    while node:
        path.append(frames[names[node]])
        node = int(callers[node])
    return path[::-1]


def nearest(nodes: Nodes, callers: np.ndarray, names: np.ndarray, frames: list[Shown]) -> np.ndarray:
    """By node of Matched, the last of `nodes` on the way to it."""
    found = np.zeros(len(callers), "i8")  # -1 minus that node, where the way goes on without a node of its own
    for first in range(0, len(callers), FEW):
        links = zip(callers[first : first + FEW].tolist(), names[first : first + FEW].tolist())
        for at, (caller, name) in enumerate(links, first):
            node = int(found[caller])
            known = nodes.known(node, frames[name]) if node >= 0 and at else None
            found[at] = known if known is not None else min(node, -1 - node) if at else 0
    return np.where(found < 0, -1 - found, found)


def frames_of(stacks: Matched) -> tuple[list[Shown], dict[str, str]]:
    """The frames by number of a name; and by text, the one that is shown in its place."""
    frames: list[Shown] = []
    short: dict[str, str] = {}
    for name, frame in stacks.names():
        text, brief = with_place(name), with_place(shortened(name, frame), NAME_LIMIT)
        frames.append((text, code_of(frame) if frame is not None else 0))
        if brief != text:
            short[text] = brief
    return frames, short


def tree_of(stacks: Matched, first: Measured, second: Measured) -> dict[str, Any]:
    """The tree of both traces for JSON: parents, frames, and the leaves with the measures of both. Frames are matched as the
    rows of `steve diff` are, so a line that has moved is one frame."""
    of_leaves, a, b = both(stacks, first, second)
    nodes, kept, leaves = Nodes(), leading(a, b), np.zeros(len(of_leaves), "u4")
    steps, (shown, short) = stacks.steps(), frames_of(stacks)
    for i in kept.tolist():
        leaves[i] = nodes.reach(path_to(int(of_leaves[i]), *steps, shown))
    rest = np.setdiff1d(np.arange(len(of_leaves)), kept)
    for i, node in zip(rest.tolist(), nearest(nodes, *steps, shown)[of_leaves[rest]].tolist()):
        leaves[i] = nodes.child(node, (OTHERS, 0))
    texts: dict[str, int] = {}
    frames = [texts.setdefault(text, len(texts)) for text, _ in nodes.frames]
    codes = dict.fromkeys(texts, 0)
    codes.update((text, code) for text, code in nodes.frames)
    return {
        "parent": nodes.parents,
        "frame": frames,
        "frames": {
            "text": list(texts),
            "short": {number: short[text] for text, number in texts.items() if text in short},
            "code": [codes[text] for text in texts],
        },
        "leaves": leaves.tolist(),
        "a": a.T.tolist(),
        "b": b.T.tolist(),
    }


def changed_most(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The indices of the rows that are among the MOST_ROWS that differ most by some measure, in order. a, b: the measures
    by row."""
    change = np.abs(b.astype("f8") - a.astype("f8"))
    order = np.argsort(-change, axis=0, kind="stable")[:MOST_ROWS]
    return np.unique(order[np.take_along_axis(change, order, axis=0) > 0])


def rows_of(names: Matched, first: Measured, second: Measured) -> dict[str, Any]:
    """The rows of a table for JSON, by column, and the sums of those that are left out."""
    nodes, a, b = both(names, first, second)
    kept = changed_most(a, b)
    rest = np.setdiff1d(np.arange(len(nodes)), kept)
    return {
        "text": [clean(names.text(node), TEXT_LIMIT) for node in nodes[kept].tolist()],
        "a": a[kept].T.tolist(),
        "b": b[kept].T.tolist(),
        "others": len(rest),
        "othersA": a[rest].sum(axis=0).tolist(),
        "othersB": b[rest].sum(axis=0).tolist(),
    }


def anchors(first: Side, second: Side) -> list[tuple[int, int, str]]:
    """The marks that both traces have in the same order: the operation in each, and the name."""
    names = [[name for _, name in side.marks] for side in (first, second)]
    found: list[tuple[int, int, str]] = []
    for run in SequenceMatcher(None, *names, autojunk=False).get_matching_blocks():
        pairs = zip(first.marks[run.a : run.a + run.size], second.marks[run.b : run.b + run.size])
        found += [(at_a, at_b, name) for (at_a, name), (at_b, _) in pairs]
    return found


def measures_of(first: Side, second: Side) -> dict[str, str]:
    """The measures that both traces have, with their texts."""
    both = first.accesses and second.accesses
    live = first.live if first.live == second.live else "live at the end"
    texts = TEXTS | {"live_bytes": f"bytes {live}"}
    return {key: text for key, text in texts.items() if key != "accesses" or both}


def not_recorded(first: Side, second: Side) -> str:
    """Which trace has no accesses; "" if both have them."""
    lacking = [name for name, side in (("A", first), ("B", second)) if not side.accesses]
    return f"not recorded in {' and '.join(lacking)}" if lacking else ""


def first_sentences(names: Names, first: Side, second: Side) -> list[Sentence]:
    """What changed above all: the path through which Lua holds more, if the second has snapshots; the lines whose live bytes at the
    mark up to which both were read, or else at the peak, differ most, if that is at least WORTH of the larger sum; and the same of
    bytes requested, of other lines. At most MOST; without a mark, one of them is about bytes requested if such a line is there.
    """
    at_mark = first.at_mark and second.at_mark
    live, requested = (
        _changed_lines(names, first, second, key) for key in ("live_bytes" if at_mark else "peak_bytes", "bytes")
    )
    held = _held_more(first, second)
    others = [sentence for line, sentence in requested.items() if line not in live]
    kept = 0 if at_mark else min(len(others), 1)
    found = [*held, *[*live.values()][: MOST - len(held) - kept], *others][:MOST]
    what = "live there" if at_mark else "live at the peak"
    text = f"No line differs by {WORTH:.0%} or more of the bytes that are {what}, or of those that are requested."
    return found or [Sentence("", text, "", "")]


def _held_more(first: Side, second: Side) -> list[Sentence]:
    """The sentence about the path of references that has more in the last snapshot of the second trace than in that of the first,
    if that is at least WORTH of what its roots lead to. If the first trace has no snapshot, what holds most in that of the second.
    """
    before, after = first.universe, second.universe
    if before is None and after is not None:
        return _held_most(after)
    row = grown_most(before, after) if before is not None and after is not None else None
    if row is None or before is None or after is None or row["more_bytes"] < WORTH * (after.bytes - after.unreachable):
        return []
    names = [clean(f"'{universe.snapshot.name}'") for universe in (before, after)]
    text = f"retains {human_bytes(row['more_bytes'])} more in the last snapshot of B, {names[1]}, than in that of A, {names[0]}."
    return [Sentence(clean(row["path"], TEXT_LIMIT), text, "", "")]


def _held_most(universe: Universe) -> list[Sentence]:
    """The sentence about what holds most of what Lua reaches in the only snapshot, if it is half of that."""
    from steve.snapshots.holders import held_paths

    row = next(iter(held_paths(universe)), None)
    if row is None or row["share"] < MOSTLY:
        return []
    quoted = f"'{universe.snapshot.name}'"
    text = f"holds {human_bytes(row['bytes'])} of the {human_bytes(universe.bytes - universe.unreachable)} that Lua reaches "
    text += f"in the last snapshot of B, {clean(quoted)} ({row['share']:.0%}). A has no snapshot."
    return [Sentence(clean(row["path"], TEXT_LIMIT), text, "", "")]


def on_garbage(first: Side, second: Side) -> str:
    """What is to be said of live bytes at the peak of a heap of Lua; "" if the sentences are not about them."""
    if not (first.has_lua or second.has_lua) or (first.at_mark and second.at_mark):
        return ""
    marks = [
        name for name in dict.fromkeys(name for _, name in second.marks) if name in {mark for _, mark in first.marks}
    ]
    known = f" Both have the {'marks' if len(marks) > 1 else 'mark'} {', '.join(marks[:FEW_MARKS])}." if marks else ""
    if first.universe is not None and second.universe is not None:
        return f"{GARBAGE}.{known}"
    return f"{GARBAGE}, or call ljtrace.snapshot there in both.{known}"


def _changed_lines(names: Names, first: Side, second: Side, key: str) -> dict[int, Sentence]:
    """The sentence of each of the MOST lines that differ most by a measure, if that is at least WORTH of the larger sum."""
    matched = names.rows["line"]
    nodes, a, b = both(matched, first.rows["line"], second.rows["line"])
    was, now = (values[:, KEYS.index(key)].astype("i8") for values in (a, b))
    change, least = np.abs(now - was), WORTH * max(was.sum(), now.sum(), 1)
    order = [i for i in np.argsort(-change, kind="stable")[:MOST].tolist() if change[i] >= least]
    lines = [(int(nodes[i]), clean(matched.text(int(nodes[i])), TEXT_LIMIT), int(was[i]), int(now[i])) for i in order]
    what = measures_of(first, second)[key]
    return {node: _sentence(key, what, line, before, after) for node, line, before, after in lines}


def _sentence(key: str, what: str, line: str, was: int, now: int) -> Sentence:
    """What is said of a line. key, what: of the measure."""
    more = f"{human_bytes(abs(now - was))} {'more' if now > was else 'less'}"
    return Sentence(
        line,
        f"has {more} of the {what}: {human_bytes(was)} in A, {human_bytes(now)} in B.",
        "",
        "#changes:" + urlencode({"measure": key, "view": "line", "search": line}),
    )


def data_of(names: Names, first: Side, second: Side) -> str:
    """The data of the page, as base64 of compressed JSON."""
    sides = [
        {
            "name": side.label,
            "command": side.command,
            "operations": side.operations,
            "timeline": side.timeline,
            "marks": side.marks,
        }
        for side in (first, second)
    ]
    data = {
        "sides": sides,
        "anchors": anchors(first, second),
        "mostRows": MOST_ROWS,
        "measure": "live_bytes" if first.at_mark and second.at_mark else "bytes",
        "measures": list(measures_of(first, second).items()),
        "accesses": not_recorded(first, second),
        "tree": tree_of(names.rows["stack"], first.rows["stack"], second.rows["stack"]),
        "rows": {by: rows_of(names.rows[by], first.rows[by], second.rows[by]) for by in BY},
    }
    text = json.dumps(data, separators=(",", ":")).encode()
    return base64.b64encode(zlib.compress(text, 9)).decode()


def render(names: Names, first: Side, second: Side) -> bytes:
    """The page as UTF-8. names: those of both sides."""
    resident = ResidentChanges(first.resident, second.resident)
    page: str = (
        environment()
        .get_template("changes.html.j2")
        .render(
            sides=[first, second],
            measures=measures_of(first, second),
            commands=(first.command, second.command) if first.command != second.command else ("", ""),
            title=second.command or second.label,
            by=BY,
            sentences=first_sentences(names, first, second),
            resident=resident.rows(),
            resident_remark=resident.remark(),
            no_growth="",
            some_growth=False,
            on_garbage=on_garbage(first, second),
            data=data_of(names, first, second),
            script=Markup(script(SCRIPT)),
        )
    )
    return page.encode()
