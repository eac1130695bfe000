"""What is known where a shard of a trace begins, besides the trace's own list of live blocks.

An analysis names what it needs; a round that passes over the accesses then finds what each shard does to it
(survey()), and added up from the first shard to the last this gives the checkpoints.

    operations  operations before the shard, and in it
    owners      the stack + 1 that made the block of each slot, 0 if there is none

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np

    from steve.parallel.rounds import View
    from steve.system.errors import TraceError

OWNER_SAME, OWNER_MADE = 0, 2  # of steve/kernels/lives/slot_owners.h


@dataclass
class Checkpoint:
    """See above. first_handle: of the first New of the shard; count: its operations."""
    first_handle: int
    operations: int = 0
    count: int = 0
    owners: np.ndarray | None = None


class Surveyed(NamedTuple):
    """What a shard does to what is needed; None: it was not asked for."""
    operations: int | None
    owners: np.ndarray | None


def survey(view: View, needs: tuple[str, ...]) -> tuple[Surveyed, TraceError | None, dict]:
    """Task: survey a shard. Accesses are looked at only to count operations up to a mark."""
    from steve.kernels import _accesses, _totals
    trace, window = view.open(), view.window()
    operations = owners = None
    if "owners" in needs:
        trace.pass_accesses()
        owners = _accesses.owners_of(trace)
    elif window is None:
        operations = _totals.survey_of(trace)[0]
    else:
        operations = _accesses.Walk(trace, window).finish()
    return Surveyed(operations, owners), trace.problem, trace.stats()


def owners_after(before: np.ndarray, part: np.ndarray) -> np.ndarray:
    """The owners where a shard ends; part: of its survey."""
    import numpy as np
    after = np.zeros(max(len(before), len(part)), "u4")
    after[:len(before)] = before
    known = np.flatnonzero(part != OWNER_SAME)
    after[known] = part[known] - (OWNER_MADE - 1)
    return after


def checkpoints_of(handles: list[int], surveys: list[Surveyed]) -> list[Checkpoint]:
    """Where each shard begins; handles: the first of each."""
    import numpy as np
    operations, owners, found = 0, np.zeros(0, "u4"), []
    for handle, surveyed in zip(handles, surveys):
        found.append(Checkpoint(handle, operations, surveyed.operations or 0, owners))
        operations += surveyed.operations or 0
        owners = owners if surveyed.owners is None else owners_after(owners, surveyed.owners)
    return found
