"""Analyses of events in parts of a trace (steve.parallel.rounds), joined exactly.

States: a part does not know what state a thread is in before it tells one, and puts down what it does meanwhile
apart, by thread. The time up to a part's first event is that of who ran last before.

Working set: windows are counted from the beginning of the trace. A first round tells how many operations there are
before each part; a part makes the windows that begin in it, and reads on into the next for the end of the last.

Fields: a first round, which passes over the accesses, tells which stacks made the blocks that live where a part
begins.

Sharing: the same round; who had a line or a block before, a part does not know: steve/kernels/accesses/sharing_parts.h.

Reuse: one round; what a part touches first is told in order: steve/kernels/accesses/reuse.h.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Optional, Tuple

from steve.parallel.rounds import Rounds, View, count_operations

if TYPE_CHECKING:
    import numpy as np

    from steve.kernels._accesses import Walk
    from steve.kernels._lives import Selection
    from steve.system.errors import TraceError

    Task = Tuple[Any, Optional[TraceError], dict]
    Key = Tuple[int, int, int]

SURVEY = 0.2  # of the time of a round that looks at accesses
OWNER_SAME, OWNER_MADE = 0, 2  # of steve/kernels/lives/slot_owners.h


def walk_over(view: View, chosen: Any) -> "Walk":
    """A walk over a part; chosen: the part() of a Selection, or None."""
    from steve.kernels._accesses import Walk
    from steve.kernels._lives import Selection
    bits = None
    if chosen is not None:
        selection = Selection()
        selection.join(chosen)
        bits = selection.as_bits()
    return Walk(view.open(), view.window(), bits, part=True, since=view.cut.since)


def part_of(chosen: "Optional[Selection]") -> Any:
    return None if chosen is None else chosen.part()


# ---- states -----------------------------------------------------------------------------------


def states_task(view: View, chosen: Any) -> "Task":
    """Task: the states of a part."""
    from steve.kernels import _accesses
    walk = walk_over(view, chosen)
    return _accesses.states_part(walk), walk.trace.problem, walk.trace.stats()


class States:
    """Rows of steve.kernels._accesses.STATE, of parts that are added in their order. time: when they begin, None: with the
    first event."""

    def __init__(self, time: Optional[int] = 0) -> None:
        from steve.trace._memtrace import VM_NAMES
        self._none: "Key" = (0, len(VM_NAMES), 0)
        self._rows: "Dict[Key, List[int]]" = {self._none: self._empty()}
        self._now: "Dict[int, Key]" = {}  # by thread
        self._thread: Optional[int] = None
        self._time = time

    @staticmethod
    def _empty() -> List[int]:
        from steve.kernels._accesses import STATE
        return [0] * (len(STATE.names) - 3)

    def add(self, part: Optional[tuple]) -> None:
        """What states_part() tells of the next part."""
        if part is None:
            return
        rows, now, first, last, thread = part
        self._time = first if self._time is None else self._time
        self.pass_time(first)
        keys = [self._key(row) for row in rows.tolist()]
        for key, row in zip(keys[1:], rows.tolist()[1:]):
            self._rows[key] = [a + b for a, b in zip(self._rows.get(key, self._empty()), row[3:])]
        self._now.update((who, keys[row]) for who, row in now.items())
        self._time, self._thread = last, thread

    def _key(self, row: tuple) -> "Key":
        from steve.kernels._accesses import BEFORE
        return self._now.get(row[0], self._none) if row[1] == BEFORE else row[:3]

    def pass_time(self, time: int) -> None:
        """The time up to then goes to who ran last."""
        from steve.kernels._accesses import STATE
        if self._time is not None and time > self._time:
            key = self._none if self._thread is None else self._now.get(self._thread, self._none)
            self._rows[key][STATE.names.index("instructions") - 3] += time - self._time
            self._time = time

    def rows(self) -> "np.ndarray":
        """As steve.kernels._accesses.states_of()."""
        import numpy as np
        from steve.kernels._accesses import STATE
        return np.array([(*key, *row) for key, row in self._rows.items()], STATE)


def states_of(rounds: Rounds, chosen: "Optional[Selection]") -> "np.ndarray":
    """As steve.kernels._accesses.states_of(), of the chosen blocks."""
    states = States(0 if rounds.span is None else None)
    for part in rounds.first(states_task, part_of(chosen)):
        states.add(part)
    whole = rounds.whole()
    if whole.problem is None and rounds.span is None:
        states.pass_time(whole.stats()["totals"]["instructions"])
    return states.rows()


# ---- working set ------------------------------------------------------------------------------


def windows_task(view: View, chosen: Any, length: int, before: int, wanted: int) -> "np.ndarray":
    """Task: the windows that begin in a part."""
    from steve.kernels import _accesses
    walk = walk_over(view, chosen)
    return _accesses.working_set_part(walk, length, before, wanted)


def windows_by_part(counts: List[int], length: int) -> Iterator[Tuple[int, int, int]]:
    """(number of the part, operations before it, windows that begin in it) for each part where any does; counts:
    the parts' operations."""
    before = 0
    for i, count in enumerate(counts):
        wanted = -(-(before + count) // length) - -(-before // length)
        if wanted:
            yield i, before, wanted
        before += count


def working_set(rounds: Rounds, chosen: "Optional[Selection]", length: int) -> "np.ndarray":
    """As steve.kernels._accesses.working_set(), of the chosen blocks."""
    import numpy as np
    from steve.kernels._accesses import WINDOW
    plan = list(windows_by_part(rounds.first(count_operations, share=SURVEY), length))
    tasks = [(rounds.view(i, onward=True), part_of(chosen), length, before, wanted) for i, before, wanted in plan]
    found = [np.empty(0, WINDOW)]
    for (i, _, _), windows in zip(plan, rounds.pool.run(windows_task, tasks)):
        found.append(windows)
        rounds.tell(rounds.parts[i], SURVEY, 1 - SURVEY)
    return np.concatenate(found)


# ---- owners -----------------------------------------------------------------------------------


def owners_task(view: View) -> "Task":
    """Task: what a part does to the owners of slots."""
    from steve.kernels._accesses import owners_of
    trace = view.open()
    trace.pass_accesses()
    owners = owners_of(trace)
    return owners, trace.problem, trace.stats()


def owners_after(before: "np.ndarray", part: "np.ndarray") -> "np.ndarray":
    """The stack + 1 that made each slot's block where a part ends, 0 if there is none; part: of owners_of()."""
    import numpy as np
    after = np.zeros(max(len(before), len(part)), "u4")
    after[:len(before)] = before
    told = np.flatnonzero(part != OWNER_SAME)
    after[told] = part[told] - (OWNER_MADE - 1)
    return after


def owners_by_part(rounds: Rounds, share: float) -> "List[np.ndarray]":
    """A round: these where each part begins."""
    import numpy as np
    owners = [np.zeros(0, "u4")]
    for part in rounds.first(owners_task, share=share):
        owners.append(owners_after(owners[-1], part))
    return owners[:-1]


# ---- fields -----------------------------------------------------------------------------------


def fields_task(view: View, chosen: Any, group_of: "np.ndarray", largest: List[int],
                owners: "np.ndarray") -> "Task":
    """Task: the fields of a part."""
    from steve.kernels import _accesses
    walk = walk_over(view, chosen)
    maps = _accesses.field_maps(walk, group_of, largest, owners=owners)
    return maps, walk.trace.problem, walk.trace.stats()


def groups_by_slot(owners: "np.ndarray", group_of: "np.ndarray") -> "np.ndarray":
    """The group + 1 of each slot's block, 0 for none; 2^32 - 1 is no group."""
    import numpy as np
    groups = np.zeros(max(len(group_of), int(owners.max(initial=0))) + 1, "u4")
    groups[1:len(group_of) + 1] = group_of + np.uint32(1)
    return groups[owners]


def field_maps(rounds: Rounds, chosen: "Optional[Selection]", group_of: "np.ndarray",
               largest: List[int]) -> List[tuple]:
    """As steve.kernels._accesses.field_maps(), of the chosen blocks."""
    common = (part_of(chosen), group_of, largest)
    more = [(*common, groups_by_slot(owners, group_of)) for owners in owners_by_part(rounds, SURVEY)]
    result: List[tuple] = []
    for _, maps in rounds.each(fields_task, more, SURVEY, 1 - SURVEY):
        result = [added(one, other) for one, other in zip(result, maps)] if result else maps
    return result


def added(one: tuple, other: tuple) -> tuple:
    """The map of one group in two parts."""
    cell, made, cells = one
    for name in cells.dtype.names:
        cells[name] += other[2][name]
    return cell, made + other[1], cells


# ---- sharing and reuse ------------------------------------------------------------------------


def sharing_task(view: View, chosen: Any, owners: "np.ndarray") -> "Task":
    """Task: the sharing in a part."""
    from steve.kernels import _accesses
    walk = walk_over(view, chosen)
    return _accesses.sharing_part(walk, owners), walk.trace.problem, walk.trace.stats()


def sharing_by_stack(rounds: Rounds, chosen: "Optional[Selection]") -> tuple:
    """As steve.kernels._accesses.sharing_by_stack(), of the chosen blocks."""
    from steve.kernels._accesses import WholeSharing
    whole = WholeSharing()
    more = [(part_of(chosen), owners) for owners in owners_by_part(rounds, SURVEY)]
    for _, part in rounds.each(sharing_task, more, SURVEY, 1 - SURVEY):
        whole.add(part)
    return whole.result()


def reuse_task(view: View, chosen: Any, line_shift: int, rate: int) -> "Task":
    """Task: the reuse in a part."""
    from steve.kernels import _accesses
    walk = walk_over(view, chosen)
    return _accesses.reuse_part(walk, line_shift, rate), walk.trace.problem, walk.trace.stats()


def reuse_distances(rounds: Rounds, chosen: "Optional[Selection]", line_shift: int, rate: int) -> Dict[str, Any]:
    """As steve.kernels._accesses.reuse_distances(), of the chosen blocks."""
    from steve.kernels._accesses import WholeReuse
    whole = WholeReuse(line_shift, rate)
    more = [(part_of(chosen), line_shift, rate)] * len(rounds.parts)
    for _, part in rounds.each(reuse_task, more, 0.0, 1.0):
        whole.add(part)
    return whole.found()
