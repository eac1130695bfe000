"""Call stacks as text: who allocated.

The innermost frames of an allocation stack are the allocation functions themselves; a label begins at the
first frame that is not one of them.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import os
from functools import partial
from typing import TYPE_CHECKING, Dict, List, Tuple

if TYPE_CHECKING:
    import numpy as np

    from steve._memtrace import Frame, Trace

ALLOCATORS = frozenset((
    "malloc", "calloc", "realloc", "reallocarray", "free", "memalign", "posix_memalign", "aligned_alloc",
    "valloc", "pvalloc", "strdup", "strndup"))


def is_allocator(frame: "Frame") -> bool:
    """True for malloc and its relatives, operator new in all forms."""
    return frame.function in ALLOCATORS or frame.function.startswith("operator new")


def frame_text(frame: "Frame") -> str:
    """`function (file:line)`, or as much of it as is known."""
    name = frame.function or f"{frame.ip:#x}"
    if frame.file:
        return f"{name} ({os.path.basename(frame.file)}{f':{frame.line}' if frame.line else ''})"
    if frame.object:
        return f"{name} ({os.path.basename(frame.object)})"
    return name


class Sites:
    """Allocation sites: the first FRAMES frames of a stack, from its caller of the allocator."""

    FRAMES = 3
    MOST_ALLOCATORS = 8  # frames of one call of the allocator

    def __init__(self, trace: "Trace") -> None:
        self.trace = trace
        self._skip: Dict[int, bool] = {}

    def skip(self, frame: int) -> bool:
        """Is this a frame of the allocator?"""
        if frame not in self._skip:
            known = self.trace.frame(frame)
            self._skip[frame] = known is not None and is_allocator(known)
        return self._skip[frame]

    def frames(self, stack: int) -> Tuple[int, ...]:
        """The ids of the site's frames, innermost first."""
        found: List[int] = []
        skipped = 0
        entry = self.trace.stack(stack)
        while stack and entry is not None and len(found) < self.FRAMES:
            parent, frame = entry
            if not found and parent and skipped < self.MOST_ALLOCATORS and self.skip(frame):
                skipped += 1
            else:
                found.append(frame)
            stack, entry = parent, self.trace.stack(parent)
        return tuple(found)

    def name(self, frames: Tuple[int, ...]) -> str:
        """What a person calls the site."""
        known = [self.trace.frame(frame) for frame in frames]
        return " < ".join(frame_text(frame) for frame in known if frame is not None) or "(no stack)"


def by_site(trace: "Trace", stacks: "np.ndarray") -> List[dict]:
    """Sum an array with a row for each stack id over the stacks of each site.

    Gives a dict for each site, in the order of their first stacks: the columns, and `name`, a function."""
    sites = Sites(trace)
    sums: Dict[Tuple[int, ...], List[int]] = {}
    columns = stacks.dtype.names
    for stack, row in enumerate(stacks.tolist()):
        if any(row):
            key = sites.frames(stack)
            sums[key] = [a + b for a, b in zip(sums.get(key, [0] * len(columns)), row)]
    return [{**dict(zip(columns, row)), "name": partial(sites.name, key)} for key, row in sums.items()]
