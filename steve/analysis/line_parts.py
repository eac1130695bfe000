"""What lines of the program do, in parts of a trace (steve.parallel.rounds), joined exactly.

Accesses to a Lua heap belong to the instruction that their thread executed last, and lines are told blocks that
they made themselves from others. So a first round tells what each thread did last in a part (only where there are
Lua heaps; it looks at the accesses near the part's end) and which stacks made the blocks that live at its end. Joined
this tells every part's beginning, and all lines are numbered. The parts of the second round then tell pieces, which
steve/kernels/lines/lines_parts.h joins.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from dataclasses import dataclass
from typing import TYPE_CHECKING, List, NamedTuple, Optional, Tuple

from steve.parallel.checkpoints import owners_after
from steve.trace.line_numbers import LineNumbers
from steve.parallel.rounds import Rounds, View
from steve.trace.places import Places

if TYPE_CHECKING:
    import numpy as np

    from steve.system.errors import TraceError

SURVEY = 0.2  # of the time of a round that counts by line


@dataclass(frozen=True)
class Known:
    """As a steve.trace.line_numbers.LineNumbers, of a whole trace from the beginning: its numbers by stack, site and place,
    and how many lines there are."""
    stacks: "np.ndarray"
    sites: "np.ndarray"
    places: "np.ndarray"
    lines: int

    def reach(self, stacks: int, sites: int, protos: int) -> "Tuple[np.ndarray, np.ndarray, np.ndarray]":
        return self.stacks, self.sites, self.places

    def count(self) -> int:
        return self.lines


class Begin(NamedTuple):
    """What is known where a part begins: the stack + 1 that made the block of each slot, 0 if there is none; what
    each thread did last, as steve.kernels._lives.THREAD."""
    owners: "np.ndarray"
    threads: "np.ndarray"


def survey(view: View, follows: bool) -> "Tuple[tuple, Optional[TraceError], dict]":
    """Task: what a part does to owners and, if it is to follow them, to threads."""
    import numpy as np
    from steve.kernels._accesses import owners_of
    from steve.kernels._lives import THREAD
    trace, threads = view.open(), np.zeros(0, THREAD)
    trace.pass_accesses()
    owners = owners_of(trace)
    if follows and any(trace.heap(i).kind == "lua" for i in range(trace.counts()["heaps"])):
        threads = threads_at_end(view)
    return (owners, threads), trace.problem, trace.stats()


def threads_at_end(view: View) -> "np.ndarray":
    """What threads did last in a part. Only which instruction they executed last takes accesses to know: those of the
    last chunk, and if these do not tell it of all threads that there were, the part is read backwards, from point to
    point, until that is known."""
    import numpy as np
    from steve.kernels._lives import AT_BEFORE, followed_threads, known_threads, met_threads
    part = view.open()
    part.pass_to_last(1)
    threads = followed_threads(part)
    met = met_threads(part)
    rows = before_part(len(met))
    rows[:len(threads)] = threads
    for point in range(view.end - 1, view.first - 1, -1):
        if not np.any(met & (rows["by"] == AT_BEFORE)):
            break
        told = followed_threads(View(view.path, point, point + 1).open())
        new = np.flatnonzero((rows["by"][:len(told)] == AT_BEFORE) & (told["by"] != AT_BEFORE))
        for name in ("by", "at"):
            rows[name][new] = told[name][new]
    return known_threads(rows)


def before_part(n: int) -> "np.ndarray":
    """n threads that are as before a part."""
    import numpy as np
    from steve.kernels._lives import AS_BEFORE, AT_BEFORE, THREAD
    rows = np.zeros(n, THREAD)
    rows["by"] = AT_BEFORE
    for name in ("made_heap", "collects"):
        rows[name] = AS_BEFORE
    return rows


def threads_after(before: "np.ndarray", part: "np.ndarray") -> "np.ndarray":
    """What threads did last where a part ends; part: of followed_threads()."""
    import numpy as np
    from steve.kernels._lives import AS_BEFORE, AT_BEFORE
    after = np.zeros(max(len(before), len(part)), before.dtype)
    after[:len(before)] = before
    rows, old = after[:len(part)], after[:len(part)].copy()
    for names, known in ((("by", "at"), part["by"] != AT_BEFORE),
                         (("made_stack", "made_heap"), part["made_heap"] != AS_BEFORE),
                         (("collects", "then_stack", "then_heap"), part["collects"] != AS_BEFORE)):
        for name in names:
            rows[name][known] = part[name][known]
    # the collector began to work before anything was made there
    then = (part["collects"] != AS_BEFORE) & (part["then_heap"] == AS_BEFORE)
    for name, made in (("then_stack", "made_stack"), ("then_heap", "made_heap")):
        rows[name][then] = old[made][then]
    return after


def begins_of(surveys: List[tuple]) -> List[Begin]:
    """Where each part begins."""
    import numpy as np
    from steve.kernels._lives import THREAD
    begins = [Begin(np.zeros(0, "u4"), np.zeros(0, THREAD))]
    for owners, threads in surveys[:-1]:
        begins.append(Begin(owners_after(begins[-1].owners, owners), threads_after(begins[-1].threads, threads)))
    return begins


def all_lines(places: Places) -> Tuple[LineNumbers, Known]:
    """The lines of a trace that was read to its end."""
    lines = LineNumbers(places)
    lines.reach_all()
    stacks, sites, numbers = lines.reach(0, 0, 0)
    return lines, Known(stacks, sites, numbers, lines.count())


def prepared(rounds: Rounds, share: float) -> Tuple[LineNumbers, Known, List[Begin]]:
    """The first round: all lines, and where each part begins; share: how much of the work it is."""
    more = [(follows,) for follows in [True] * (len(rounds.parts) - 1) + [False]]  # nobody asks how the last one ends
    earlier = rounds.before(survey, True)  # what threads did there they are at still
    begins = begins_of([*earlier, *(result for _, result in rounds.each(survey, more, 0.0, share))])[len(earlier):]
    return (*all_lines(Places(rounds.whole())), begins)
