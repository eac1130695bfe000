"""The window between two marks (--from and --to), for one reader and for shards (steve.parallel.rounds).

A window gets the names of all marks in order, and says which events count. A shard alone cannot know whether it lies
within the window. So a round that skips the accesses finds the shards with the two marks (located). Shards outside are
then not read, and a shard that contains a mark has a window of its own. Blocks that were made before the window have
smaller handles (`since`) than those that count.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from typing import TYPE_CHECKING, Any, Dict, List, NamedTuple, Optional, Tuple

from steve.system.errors import MarkError

if TYPE_CHECKING:
    from steve.system.errors import TraceError
    from steve.parallel.processes import Part
    from steve.parallel.rounds import Rounds, View

SHOWN = 20  # names of marks in a message


class Window:
    """The part of a trace between two marks; for steve.kernels._lives.Lives."""

    def __init__(self, begin: Optional[str], end: Optional[str]) -> None:
        self.first, self.last = begin, end
        self.seen: Dict[str, None] = {}
        self.now = "within"

    def begin(self) -> str:
        self.now = "within" if self.first is None else "before"
        return self.now

    def state(self, mark: str) -> str:
        """The position after a mark: before, within or after. To be called for each mark until the end."""
        self.seen[mark] = None
        if self.now == "within" and mark == self.last:
            self.now = "after"
        elif self.now == "before" and mark == self.first:
            self.now = "within"
        return self.now

    def verify(self, name: str) -> None:
        """To be called after the trace was read. MarkError if a mark of the window did not occur."""
        missing = self.first if self.now == "before" else self.last if self.now == "within" else None
        if missing is None:
            return
        known = ", ".join(f"'{mark}'" for mark in list(self.seen)[:SHOWN]) or "none"
        after = f" after '{self.first}'" if self.first is not None and self.now == "within" else ""
        raise MarkError(f"{name}: no mark '{missing}'{after}; marks in the trace: {known}")


class Until(Window):
    """The part of a trace from its beginning to the next mark `end` after the first mark `begin`."""

    def begin(self) -> str:
        super().begin()
        return "within"

    def state(self, mark: str) -> str:
        return "after" if super().state(mark) == "after" else "within"


class Cut(NamedTuple):
    """What counts of a shard: blocks from the handle `since` on, and events after the first mark `begin` and before the
    next mark `end`. None: the shard contains no such mark."""

    since: int
    begin: Optional[str] = None
    end: Optional[str] = None

    def window(self) -> Optional[Window]:
        """The window in this shard; None if the shard contains neither mark."""
        return None if self.begin is None and self.end is None else Window(self.begin, self.end)


class Span(NamedTuple):
    """Where a window lies: the shards before it and the number of events in them, the shards that contain it, and the
    fields of Cut for the first and the last of these."""

    earlier: "List[Part]"
    events: int
    parts: "List[Part]"
    since: int
    begin: Optional[str]
    end: Optional[str]

    def cut(self, i: int, onward: bool = False) -> Cut:
        """The cut of shard i; onward: of that shard and all after it."""
        ends = onward or i + 1 == len(self.parts)
        return Cut(self.since, self.begin if i == 0 else None, self.end if ends else None)


class Found(NamedTuple):
    """The marks in a shard. since: number of News in the trace before the first mark `begin`, None if it does not occur
    here; end: does a mark `end` occur; closed: does one occur after `begin`; names: the first SHOWN marks."""

    since: Optional[int]
    end: bool
    closed: bool
    names: List[str]


def find(view: "View", begin: Optional[str], end: Optional[str]) -> "Tuple[Found, Optional[TraceError], dict]":
    """Task: find the ends of a window in a shard."""
    import numpy as np
    from steve.trace._memtrace import MARK, NEW

    trace = view.open()
    handles, since, any_end = trace.seek_points()[view.first][1], None, False
    names: Dict[str, None] = {}
    window = Window(begin, end)
    window.now = "before"
    trace.pass_accesses()
    for batch in trace.batches():
        made = batch["kind"] == NEW
        for i in np.flatnonzero(batch["kind"] == MARK).tolist():
            mark = trace.string(int(batch["ref"][i]))
            any_end |= mark == end
            if len(names) < SHOWN:
                names[mark] = None
            if window.now == "before" and window.state(mark) == "within":
                since = handles + int(np.count_nonzero(made[:i]))
            elif window.now == "within":
                window.state(mark)
        handles += int(np.count_nonzero(made))
    return Found(since, any_end, window.now == "after", list(names)), trace.problem, trace.stats()


class Search:
    """The position of a window, from what was found in the shards, in their order."""

    def __init__(self, begin: Optional[str], end: Optional[str]) -> None:
        self.window = Window(begin, end)
        self.window.begin()
        self.first, self.last, self.since = 0, 0, 0

    def add(self, i: int, found: Found) -> None:
        """Add what was found in shard i."""
        window = self.window
        window.seen.update(dict.fromkeys(found.names))
        if window.now == "before" and found.since is not None:
            window.now = "after" if found.closed else "within"
            self.first, self.since = i, found.since
        elif window.now == "within" and found.end:
            window.now = "after"
        elif window.now == "after":
            return
        self.last = i


def search(rounds: "Rounds", begin: Optional[str], end: Optional[str]) -> Optional[Span]:
    """Where a window lies in a trace. MarkError if a mark does not occur. None: the trace is damaged before the first
    mark, and one reader has to read it and report that."""
    result = Search(begin, end)
    for i, found in enumerate(rounds.each(find, begin, end)):
        result.add(i, found)
    window = result.window
    if rounds.problem is None:
        window.verify(rounds.name)
    if window.now == "before":
        return None
    held = rounds.parts[result.first : result.last + 1]
    events = sum(stats["events"] + stats["passed"] for stats in rounds.stats[: result.first])
    return Span(rounds.parts[: result.first], events, held, result.since, begin, end if window.now == "after" else None)


def located(rounds: "Rounds", begin: Optional[str], end: Optional[str]) -> Optional[Span]:
    """The same, but the window is divided into as many shards as the workers need."""
    span = search(rounds, begin, end)
    if span is None or not rounds.divide(span.parts[0].first, span.parts[-1].end):
        return span
    finer = search(rounds, begin, end)
    if finer is None:
        return None
    return finer._replace(earlier=span.earlier + finer.earlier, events=span.events + finer.events)


def walked(trace: Any, window: Optional[Window]) -> Any:
    """The trace, after it was read to its end, or to the end of a window."""
    from steve.kernels._walk import Walk

    if window is None:
        trace.skim()
    else:
        Walk(trace, window).finish()
    return trace
