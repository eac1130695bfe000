"""Which blocks that live at the end the program could still reach, by allocation site.

The recorder looks at the end for pointers to blocks of malloc and of custom heaps (memtrace/blocks/reach.h); blocks of
other heaps are not judged. Memory is O(stacks of live blocks).

SPDX-License-Identifier: GPL-2.0-or-later
"""
from typing import TYPE_CHECKING, Callable, Dict, Hashable, List, Optional, Tuple

from steve.analysis.reducers import both
from steve.trace.policy import only_allocates
from steve.trace.stacks import Inherited

if TYPE_CHECKING:
    import numpy as np

    from steve.trace._memtrace import Trace
    from steve.trace.places import Places

JUDGED = ("malloc", "custom")  # kinds of heaps
# Bytes of a site's live blocks by how they can be reached, under the names that the trace gives these ways; and those
# that the C and C++ libraries keep for themselves ("runtime"), whatever way.
Reach = Dict[str, int]
MERGE_ROWS = 1 << 16


class Reached:
    """The fold (see steve.analysis.reducers): blocks and bytes by stack, heap and way, of the lives that a rule finds."""

    numbered = False

    def __init__(self, rule: "Callable[[np.ndarray], np.ndarray]") -> None:
        self._rule = rule
        self._rows: "List[np.ndarray]" = []
        self._merged = self._waiting = 0

    def add(self, batch: "np.ndarray", keep: "Optional[np.ndarray]") -> None:
        import numpy as np
        lives = batch[both(keep, self._rule(batch))]
        rows = np.zeros(len(lives), [("stack", "u4"), ("heap", "u4"), ("reach", "u4"), ("bytes", "u8")])
        for name in ("stack", "heap", "reach"):
            rows[name] = lives[name]
        rows["bytes"] = lives["size"]
        self._take([rows])

    def part(self, peak: int) -> "List[np.ndarray]":
        self._merge()
        return self._rows

    def join(self, part: "List[np.ndarray]", peak: int) -> None:
        self._take(part)

    def _take(self, rows: "List[np.ndarray]") -> None:
        self._rows += rows
        self._waiting += sum(map(len, rows))
        if self._waiting > MERGE_ROWS + self._merged:
            self._merge()

    def _merge(self) -> None:
        """Make one row of those that are alike."""
        import numpy as np
        rows = np.sort(np.concatenate(self._rows), order=("stack", "heap", "reach")) if self._rows else []
        if len(rows):
            keys = rows[["stack", "heap", "reach"]]
            first = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
            sums = np.add.reduceat(rows["bytes"], first)
            rows = rows[first]
            rows["bytes"] = sums
            self._rows = [rows]
        self._merged, self._waiting = len(rows), 0

    def by_site(self, places: "Places") -> Dict[Hashable, Reach]:
        """The bytes by site. Sites without blocks that are judged are left out."""
        from steve.trace._memtrace import REACH_NAMES
        self._merge()
        runtime = Runtime(places.trace)
        found: Dict[Hashable, Reach] = {}
        for stack, heap, reach, size in (row for rows in self._rows for row in rows.tolist()):
            if places.heap_kind(heap) not in JUDGED:
                continue
            known = found.setdefault(places.site_name(stack), dict.fromkeys((*REACH_NAMES, "runtime"), 0))
            known[REACH_NAMES[reach]] += size
            if runtime.owns(stack):
                known["runtime"] += size
        return found


RUNTIME = ("libc.so", "libc-", "libstdc++.so", "libc++.so", "libc++abi.so", "libgcc_s.so", "ld-linux", "ld-2",
           "libpthread.so", "libpthread-", "ld-musl")
STREAM_BUFFER = "_IO_file_doallocate"  # of glibc's stdio


class Runtime:
    """Tells by their stacks which blocks the C or C++ library made for itself: nobody else called for them, as for
    libstdc++'s memory for exceptions when there is no other; or it is the buffer of a stream."""

    def __init__(self, trace: "Trace") -> None:
        self._trace = trace
        self._all_own: "Inherited[bool]" = Inherited(trace, lambda frame, callers: callers and self._is_own(frame), True)
        self._frames: Dict[int, Tuple[bool, bool, str]] = {}  # is it an allocator's, a library's; its function

    def owns(self, stack: int) -> bool:
        caller = self._caller(stack)
        if not caller:
            return False
        return self._frame(caller)[2] == STREAM_BUFFER or self._all_own.of(caller)

    def _caller(self, stack: int) -> int:
        """The stack without the allocator's own frames."""
        while stack and self._frame(stack)[0]:
            parent = self._trace.stack(stack)[0]
            stack = parent if parent < stack else 0
        return stack

    def _is_own(self, frame: int) -> bool:
        return self._look_at(frame)[1]

    def _frame(self, stack: int) -> "Tuple[bool, bool, str]":
        return self._look_at(self._trace.stack(stack)[1])

    def _look_at(self, number: int) -> "Tuple[bool, bool, str]":
        if number not in self._frames:
            frame = self._trace.frame(number)
            own = frame.object.rpartition("/")[2].startswith(RUNTIME)
            self._frames[number] = only_allocates(frame), own, frame.function
        return self._frames[number]
