"""What is known where a shard of a trace begins, besides the trace's own list of live blocks.

An analysis names what it needs; a round that passes over the accesses then finds what each shard does to it
(survey()), and added up from the first shard to the last this gives the checkpoints.

    operations  operations before the shard, and in it
    owners      the stack + 1 that made the block of each slot, 0 if there is none
    threads     what each thread did last, as steve.kernels._lives.THREAD; only where there are Lua heaps
    definitions all that the trace defines, as the analysis makes it of the trace (its function know())

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np

    from steve.parallel.rounds import View
    from steve.system.errors import TraceError

OWNER_SAME, OWNER_MADE = 0, 2  # of steve/kernels/lives/slot_owners.h


@dataclass
class Checkpoint:
    """See above. view: the shard; first_handle: of its first New; count: its operations."""
    view: View
    first_handle: int
    operations: int = 0
    count: int = 0
    owners: np.ndarray | None = None
    threads: np.ndarray | None = None
    definitions: Any = None


class Surveyed(NamedTuple):
    """What a shard does to what is needed; None: it was not asked for."""
    operations: int | None = None
    owners: np.ndarray | None = None
    threads: np.ndarray | None = None


def survey(view: View, needs: tuple[str, ...]) -> tuple[Surveyed, TraceError | None, dict]:
    """Task: survey a shard. Accesses are looked at only to count operations up to a mark, and near the end of the shard
    for threads."""
    from steve.kernels import _accesses, _totals
    trace, window = view.open(), view.window()
    operations = owners = threads = None
    if "owners" in needs:
        trace.pass_accesses()
        owners = _accesses.owners_of(trace)
    elif window is None:
        operations = _totals.survey_of(trace)[0]
    else:
        operations = _accesses.Walk(trace, window).finish()
    if "threads" in needs and any(trace.heap(i).kind == "lua" for i in range(trace.counts()["heaps"])):
        threads = threads_at_end(view)
    return Surveyed(operations, owners, threads), trace.problem, trace.stats()


def owners_after(before: np.ndarray, part: np.ndarray) -> np.ndarray:
    """The owners where a shard ends; part: of its survey."""
    import numpy as np
    after = np.zeros(max(len(before), len(part)), "u4")
    after[:len(before)] = before
    known = np.flatnonzero(part != OWNER_SAME)
    after[known] = part[known] - (OWNER_MADE - 1)
    return after


def threads_at_end(view: View) -> np.ndarray:
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
        told = followed_threads(view._replace(first=point, end=point + 1).open())
        new = np.flatnonzero((rows["by"][:len(told)] == AT_BEFORE) & (told["by"] != AT_BEFORE))
        for name in ("by", "at"):
            rows[name][new] = told[name][new]
    return known_threads(rows)


def before_part(n: int) -> np.ndarray:
    """n threads that are as before a part."""
    import numpy as np
    from steve.kernels._lives import AS_BEFORE, AT_BEFORE, THREAD
    rows = np.zeros(n, THREAD)
    rows["by"] = AT_BEFORE
    for name in ("made_heap", "collects"):
        rows[name] = AS_BEFORE
    return rows


def threads_after(before: np.ndarray, part: np.ndarray) -> np.ndarray:
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


def checkpoints_of(shards: list[tuple[View, int]], earlier: list[Surveyed],
                   surveys: list[Surveyed]) -> list[Checkpoint]:
    """Where each shard begins; shards: with the handle of its first New; earlier: of what comes before the first."""
    import numpy as np
    from steve.kernels._lives import THREAD
    operations, owners, threads, found = 0, np.zeros(0, "u4"), np.zeros(0, THREAD), []
    for i, surveyed in enumerate([*earlier, *surveys]):
        if i >= len(earlier):
            view, handle = shards[i - len(earlier)]
            found.append(Checkpoint(view, handle, operations, surveyed.operations or 0, owners, threads))
        operations += surveyed.operations or 0
        owners = owners if surveyed.owners is None else owners_after(owners, surveyed.owners)
        threads = threads if surveyed.threads is None else threads_after(threads, surveyed.threads)
    return found
