"""What an analysis knows at the beginning of a shard, besides the trace's own list of live blocks.

An analysis names what it needs. A round that skips the accesses then finds for each shard what it changes (survey()).
Added up from the first shard to the last, these changes give the checkpoints.

    operations     number of operations before the shard, in it, and in all shards
    handles        handle + 1 of the block in each slot, 0 if there is none, and the handle of the next block
    split_handles  the same for an ops file in which a Resize is an F and an N with the next handle. Such a Resize is
                   two operations
    owners         stack + 1 of the New of the block in each slot, 0 if there is none
    threads        what each thread did last, as steve.kernels._lives.THREAD; only in traces with Lua heaps
    definitions    all that the trace defines, as the function know() of the analysis makes it of the trace

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np

    from steve.parallel.rounds import View
    from steve.system.errors import TraceError

SLOT_NONE, SLOT_MADE = 1, 2  # of steve/kernels/base/survey.h
LAST_CHUNKS = (1, 2, 16)  # how many chunks are read for the last instructions of threads


class Checkpoint(NamedTuple):
    """See above. view: the shard; first_handle: the handle of its first New; first: is it the first shard; count: its
    operations; total: those of all shards."""

    view: View
    first_handle: int
    first: bool
    operations: int = 0
    count: int = 0
    total: int = 0
    next_handle: int = 0
    handles: np.ndarray | None = None
    owners: np.ndarray | None = None
    threads: np.ndarray | None = None
    definitions: Any = None


class Surveyed(NamedTuple):
    """What a shard changes. made: number of handles; handles, owners: of steve/kernels/base/survey.h. None, or an empty
    array: it is not needed."""

    operations: int = 0
    made: int = 0
    handles: np.ndarray | None = None
    owners: np.ndarray | None = None
    threads: np.ndarray | None = None


def survey(view: View, needs: tuple[str, ...]) -> tuple[Surveyed, TraceError | None, dict]:
    """Task: survey a shard. It reads accesses only where it must: to count operations up to a mark, and near the end of
    the shard for threads."""
    from steve.kernels import _totals, _walk

    trace, window = view.open(), view.window()
    if window is not None and "operations" in needs:
        found = Surveyed(_walk.Walk(trace, window).finish())
    else:
        found = Surveyed(*_totals.survey_of(trace, needs))
    if "threads" in needs and any(trace.heap(i).kind == "lua" for i in range(trace.counts()["heaps"])):
        found = found._replace(threads=threads_at_end(view))
    return found, trace.problem, trace.stats()


def slots_after(before: np.ndarray, changes: np.ndarray | None, first: int) -> np.ndarray:
    """Handles or owners at the end of a shard, of those at its beginning; changes: of its survey; first: what is
    added to the numbers there."""
    import numpy as np

    if changes is None:
        return before
    after = np.zeros(max(len(before), len(changes)), before.dtype)
    after[: len(before)] = before
    after[: len(changes)][changes == SLOT_NONE] = 0
    made = np.flatnonzero(changes >= SLOT_MADE)
    after[made] = changes[made] - SLOT_MADE + first + 1
    return after


def threads_at_end(view: View) -> np.ndarray:
    """What each thread did last in a shard.

    Only its last instruction needs accesses: mostly those of the last chunk. If some threads have none there, as in a
    short chunk, more chunks are read, and then the shard backwards, from seek point to seek point, until the last
    instructions of all threads are known."""
    import numpy as np
    from steve.kernels._lives import AT_BEFORE, followed_threads, known_threads, met_threads

    for chunks in LAST_CHUNKS:
        shard = view.open()
        shard.pass_to_last(chunks)
        threads = followed_threads(shard)
        met = met_threads(shard)
        rows = before_shard(len(met))
        rows[: len(threads)] = threads
        if not np.any(met & (rows["by"] == AT_BEFORE)):
            return known_threads(rows)
    for point in range(view.end - 1, view.first - 1, -1):
        if not np.any(met & (rows["by"] == AT_BEFORE)):
            break
        found = followed_threads(view._replace(first=point, end=point + 1).open())
        new = np.flatnonzero((rows["by"][: len(found)] == AT_BEFORE) & (found["by"] != AT_BEFORE))
        for name in ("by", "at"):
            rows[name][new] = found[name][new]
    return known_threads(rows)


def before_shard(n: int) -> np.ndarray:
    """The rows of n threads that do nothing in a shard."""
    import numpy as np
    from steve.kernels._lives import AS_BEFORE, AT_BEFORE, THREAD

    rows = np.zeros(n, THREAD)
    rows["by"] = AT_BEFORE
    for name in ("made_heap", "collects"):
        rows[name] = AS_BEFORE
    return rows


def threads_after(before: np.ndarray | None, changes: np.ndarray | None) -> np.ndarray | None:
    """What each thread did last at the end of a shard. before: at its beginning, None if nothing is known; changes: of
    followed_threads()."""
    if changes is None:
        return before
    import numpy as np
    from steve.kernels._lives import AS_BEFORE, AT_BEFORE

    if before is None:
        before = changes[:0]
    after = np.zeros(max(len(before), len(changes)), changes.dtype)
    after[: len(before)] = before
    rows, old = after[: len(changes)], after[: len(changes)].copy()
    for names, known in (
        (("by", "at"), changes["by"] != AT_BEFORE),
        (("made_stack", "made_heap"), changes["made_heap"] != AS_BEFORE),
        (("collects", "then_stack", "then_heap"), changes["collects"] != AS_BEFORE),
    ):
        for name in names:
            rows[name][known] = changes[name][known]
    # the collector began to work before the thread made anything in the shard
    then = (changes["collects"] != AS_BEFORE) & (changes["then_heap"] == AS_BEFORE)
    for name, made in (("then_stack", "made_stack"), ("then_heap", "made_heap")):
        rows[name][then] = old[made][then]
    return after


def checkpoints_of(
    shards: list[tuple[View, int]], earlier: list[Surveyed], surveys: list[Surveyed]
) -> list[Checkpoint]:
    """The checkpoint of each shard. shards: with the handle of the first New of each; earlier: surveys of the shards
    before the first."""
    import numpy as np

    now = Checkpoint(
        shards[0][0],
        0,
        True,
        total=sum(surveyed.operations for surveyed in surveys),
        handles=np.zeros(0, "u8"),
        owners=np.zeros(0, "u4"),
    )
    found = []
    for i, surveyed in enumerate([*earlier, *surveys]):
        if i >= len(earlier):
            view, handle = shards[i - len(earlier)]
            found.append(now._replace(view=view, first_handle=handle, first=not found, count=surveyed.operations))
        now = now._replace(
            operations=now.operations + surveyed.operations,
            next_handle=now.next_handle + surveyed.made,
            handles=slots_after(now.handles, surveyed.handles, now.next_handle),
            owners=slots_after(now.owners, surveyed.owners, 0),
            threads=threads_after(now.threads, surveyed.threads),
        )
    return found
