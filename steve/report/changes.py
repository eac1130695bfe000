# SPDX-License-Identifier: GPL-2.0-or-later
"""The page of `steve report A B`: what changed from one trace to another.

Its numbers are those of `steve diff`, by all roll-ups at once. The stacks of both traces form one tree, whose nodes are
identified by the texts of their frames. To bound the size of the page, at most MOST_SITES sites are kept, those that
differ most by any measure; the others become one node "others" below their nearest caller that is kept. Tables keep
MOST_ROWS rows, and one for the others.

The two timelines can be aligned at the marks that both traces have in the same order.
"""
from __future__ import annotations

import base64
import json
import os
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup

from steve.analysis.differences import ACCESSES, MEASURES, by_text
from steve.kernels._profile import HeapProfile
from steve.kernels._walk import feed_together
from steve.report.collect import BINS
from steve.report.page import environment, script, trace_name
from steve.report.windows import NO_STACK, OTHERS, clean, code_of, timeline_of
from steve.trace import missing
from steve.trace.rollups import BY, Rollup

if TYPE_CHECKING:
    from steve.analysis.blocks import Blocks
    from steve.analysis.folds import Table
    from steve.kernels._walk import Walk
    from steve.trace._memtrace import Trace
    from steve.trace.places import Places

MOST_SITES = 2000
MOST_ROWS = 500
TEXT_LIMIT = 600  # characters of the text of a row
KEYS = tuple(key for key, _, _ in MEASURES)
TEXTS = {
    "blocks": "blocks made",
    "bytes": "bytes requested",
    "peak_bytes": "live bytes at the peak",
    "live_bytes": "bytes never freed",
    "accesses": "accesses to blocks",
}
SCRIPT = "report/changes.js"
Path = tuple[tuple[str, int], ...]


@dataclass
class Side:
    """One of the two traces. rows: the measures by the text of a row, by roll-up; sites: the measures by the frames of
    a stack from main on, each with its text and kind of code; accesses: were they recorded?"""

    name: str
    command: str
    operations: int
    timeline: dict[str, list[int]]
    marks: list[tuple[int, str]]
    rows: dict[str, dict[str, dict]]
    sites: dict[Path, np.ndarray]
    accesses: bool
    trace: Trace | None

    @property
    def label(self) -> str:
        """The name without its folder."""
        return os.path.basename(self.name)

    @property
    def problem(self) -> str:
        """What is wrong with the trace; "" if nothing is."""
        found = self.trace.problem if self.trace else None
        return "" if found is None else clean(str(found), 400)


def sites_of(sums: Table, places: Places) -> dict[Path, np.ndarray]:
    """The measures by the frames of a stack. sums: by stack."""
    shown, sites, callers, frames = places.sites.tree()
    values = np.column_stack(
        [
            sum(sums.rows[name].astype("u8") for name in ACCESSES) if key == "accesses" else sums.rows[key]
            for key in KEYS
        ]
    ).astype("u8")
    of_rows = sites[shown[np.where(sums.numbers < len(shown), sums.numbers, 0)]]
    numbers, which = np.unique(of_rows, return_inverse=True)
    merged = np.zeros((len(numbers), len(KEYS)), "u8")
    np.add.at(merged, which, values)
    texts: dict[int, tuple[str, int]] = {}
    found: dict[Path, np.ndarray] = {}
    for site, row in zip(numbers.tolist(), merged):
        path: list[tuple[str, int]] = []
        while site:
            frame = int(frames[site])
            if frame not in texts:
                named = places.sites.shown.named(frame)
                texts[frame] = clean(places.sites.frame_text(frame)), code_of(named) if named is not None else 0
            path.append(texts[frame])
            site = int(callers[site])
        key = tuple(reversed(path)) or ((NO_STACK, 0),)
        found[key] = found.get(key, np.zeros(len(KEYS), "u8")) + row
    return found


def side(opened: Callable[[], Blocks]) -> Side:
    """Read a trace. opened: opens it; it is read twice."""
    chosen = opened()
    keys = {"stack": 0, "type": 1, "thread": 2}
    tables, places = chosen.sum_by(*keys), chosen.places
    rows = {by: by_text(tables[keys.get(by, 0)], Rollup(by, places)) for by in BY}
    sites = sites_of(tables[0], places)
    chosen = opened()
    profile = chosen.over_trace(partial(ProfileAlone, BINS))
    totals = profile.totals()
    return Side(
        trace_name(chosen.args.file),
        clean(chosen.trace.info().get("command", ""), 200),
        int(totals["operations"]),
        timeline_of(profile),
        [(int(m["operation"]), clean(chosen.trace.string(int(m["string"])))) for m in profile.marks()],
        rows,
        sites,
        missing.has_accesses(chosen.trace, sum(totals[kind] for kind in ("load", "store", "modify"))),
        chosen.trace,
    )


class ProfileAlone(HeapProfile):
    """A profile that is fed without other analyses."""

    def feed(self, walk: Walk) -> None:
        feed_together(walk, (self,))


class Nodes:
    """A tree of frames, by column. Node 0 is the root; parents have smaller numbers than their children."""

    def __init__(self) -> None:
        self.parents, self.frames = [0], [("all", 0)]
        self._known: dict[tuple[int, str], int] = {}

    def child(self, parent: int, frame: tuple[str, int]) -> int:
        known = self._known.setdefault((parent, frame[0]), len(self.parents))
        if known == len(self.parents):
            self.parents.append(parent)
            self.frames.append(frame)
        return known

    def reach(self, path: Iterable[tuple[str, int]]) -> int:
        node = 0
        for frame in path:
            node = self.child(node, frame)
        return node

    def nearest(self, path: Path) -> int:
        """The last node of a path that there is."""
        node = 0
        for text, _ in path:
            if (node, text) not in self._known:
                break
            node = self._known[node, text]
        return node


def leading(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The indices of the rows that differ most by any measure, or are the largest; at most MOST_SITES, in order. a, b:
    the measures by row."""
    change, size = np.abs(b.astype("f8") - a.astype("f8")), np.maximum(a, b).astype("f8")
    share = [values / np.maximum(values.sum(axis=0), 1) for values in (change, size / 16)]
    order = np.argsort(-np.maximum(*share).max(axis=1), kind="stable")
    return np.sort(order[:MOST_SITES])


def tree_of(first: Side, second: Side) -> dict[str, Any]:
    """The tree of both traces for JSON: parents, frames, and the leaves with the measures of both."""
    paths = list({**first.sites, **second.sites})
    none = np.zeros(len(KEYS), "u8")
    a, b = (np.array([s.sites.get(path, none) for path in paths]).reshape(-1, len(KEYS)) for s in (first, second))
    nodes, kept = Nodes(), leading(a, b)
    leaves = {int(i): nodes.reach(paths[i]) for i in kept.tolist()}
    rest = [(i, nodes.nearest(paths[i])) for i in range(len(paths)) if i not in leaves]
    leaves.update((i, nodes.child(node, (OTHERS, 0))) for i, node in rest)
    order = sorted(leaves)
    texts: dict[str, int] = {}
    frames = [texts.setdefault(text, len(texts)) for text, _ in nodes.frames]
    codes = dict.fromkeys(texts, 0)
    codes.update((text, code) for text, code in nodes.frames)
    return {
        "parent": nodes.parents,
        "frame": frames,
        "frames": {"text": list(texts), "code": [codes[text] for text in texts]},
        "leaves": [leaves[i] for i in order],
        "a": a[order].T.tolist(),
        "b": b[order].T.tolist(),
    }


def rows_of(first: dict[str, dict], second: dict[str, dict]) -> dict[str, Any]:
    """The rows of a table for JSON, by column, and the sums of those that are left out."""
    texts = list({**first, **second})
    a, b = (
        np.array([[side.get(text, {}).get(key, 0) for key in KEYS] for text in texts], "u8").reshape(-1, len(KEYS))
        for side in (first, second)
    )
    kept = leading(a, b)[:MOST_ROWS] if len(texts) > MOST_ROWS else np.arange(len(texts))
    rest = np.setdiff1d(np.arange(len(texts)), kept)
    return {
        "text": [clean(texts[i], TEXT_LIMIT) for i in kept.tolist()],
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
    return {key: text for key, text in TEXTS.items() if key != "accesses" or both}


def not_recorded(first: Side, second: Side) -> str:
    """Which trace has no accesses; "" if both have them."""
    lacking = [name for name, side in (("A", first), ("B", second)) if not side.accesses]
    return f"not recorded in {' and '.join(lacking)}" if lacking else ""


def data_of(first: Side, second: Side) -> str:
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
        "measures": list(measures_of(first, second).items()),
        "accesses": not_recorded(first, second),
        "tree": tree_of(first, second),
        "rows": {by: rows_of(first.rows[by], second.rows[by]) for by in BY},
    }
    text = json.dumps(data, separators=(",", ":")).encode()
    return base64.b64encode(zlib.compress(text, 9)).decode()


def render(first: Side, second: Side) -> bytes:
    """The page as UTF-8."""
    page: str = (
        environment()
        .get_template("changes.html.j2")
        .render(
            sides=[first, second],
            measures=measures_of(first, second),
            commands=(first.command, second.command) if first.command != second.command else ("", ""),
            title=second.command or second.label,
            by=BY,
            data=data_of(first, second),
            script=Markup(script(SCRIPT)),
        )
    )
    return page.encode()
