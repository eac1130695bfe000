"""Which blocks that live at the end the program could still reach, by allocation site, type or thread.

The recorder looks at the end for pointers to blocks of malloc and of custom heaps (memtrace/blocks/block_graph.h);
blocks of other heaps are not judged. Memory is O(stacks of live blocks).

SPDX-License-Identifier: GPL-2.0-or-later
"""
from typing import TYPE_CHECKING, Callable, Dict, List, Optional, Tuple

from steve.analysis.folds import Table, both
from steve.trace.policy import is_of_runtime, named_functions, only_allocates
from steve.trace.stacks import Inherited

if TYPE_CHECKING:
    import numpy as np

    from steve.analysis.blocks import Blocks
    from steve.trace._memtrace import Trace

JUDGED = ("malloc", "custom")  # kinds of heaps
KEYS = ("row", "stack", "heap", "reach")
SUMS = ("bytes", "blocks", "accesses")
ROW = [*((key, "u4") for key in KEYS), *((name, "u8") for name in SUMS)]
REALLY_LOST = ("lost", "indirect")
MERGE_ROWS = 1 << 16


def is_leak(batch: "np.ndarray") -> "np.ndarray":
    """A mask of the lives that did not end and that this process began. The parent process has to free inherited
    blocks."""
    return (batch["freed"] == 0) & (batch["inherited"] != 1)


def searched(chosen: "Blocks") -> bool:
    """Did the recorder search for pointers where the analysis ends?"""
    return chosen.trace.info().get("reach") == "done" and chosen.args.end is None


class Reached:
    """The fold (see steve.analysis.folds): SUMS by row, stack, heap and way, of the lives that a rule finds; bytes and
    blocks are estimates in a sample of the blocks. key: the number of a life that names its row."""

    needs_operation_numbers = False

    def __init__(self, rule: "Callable[[np.ndarray], np.ndarray]", key: str = "stack") -> None:
        self._rule, self._key = rule, key
        self._rows: "List[np.ndarray]" = []
        self._merged = self._waiting = 0

    def add(self, batch: "np.ndarray", keep: "Optional[np.ndarray]") -> None:
        import numpy as np
        from steve.kernels._lives import scaled

        lives = batch[both(keep, self._rule(batch))]
        rows = np.zeros(len(lives), ROW)
        for name in ("stack", "heap", "reach"):
            rows[name] = lives[name]
        rows["row"] = lives[self._key]
        rows["bytes"], rows["blocks"] = scaled(lives, "size")[0], scaled(lives)[0]
        rows["accesses"] = lives["loads"] + lives["stores"] + lives["modifies"]
        self._take([rows])

    def partial(self, peak: int) -> "List[np.ndarray]":
        self._sum_up()
        return self._rows

    def merge(self, shard: "List[np.ndarray]", peak: int) -> None:
        self._take(shard)

    def _take(self, rows: "List[np.ndarray]") -> None:
        self._rows += rows
        self._waiting += sum(map(len, rows))
        if self._waiting > MERGE_ROWS + self._merged:
            self._sum_up()

    def _sum_up(self) -> None:
        """Make one row of those that are alike."""
        import numpy as np

        rows = np.sort(np.concatenate(self._rows), order=KEYS) if self._rows else []
        if len(rows):
            keys = rows[list(KEYS)]
            first = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
            sums = [np.add.reduceat(rows[name], first) for name in SUMS]
            rows = rows[first]
            for name, values in zip(SUMS, sums):
                rows[name] = values
            self._rows = [rows]
        self._merged, self._waiting = len(rows), 0

    def by_row(self, trace: "Trace") -> Table:
        """Bytes by row: a column for each way in which blocks can be reached, under the name that the trace gives it, and
        `runtime`: what the C and C++ libraries keep for themselves, whatever way. Blocks that are not judged count nowhere.
        """
        import numpy as np
        from steve.trace._memtrace import REACH_NAMES

        rows = self._judged(trace)
        numbers, index = np.unique(rows["row"], return_inverse=True)
        found = np.zeros(len(numbers), [(name, "u8") for name in (*REACH_NAMES, "runtime")])
        for number, name in enumerate(REACH_NAMES):
            mine = rows["reach"] == number
            np.add.at(found[name], index[mine], rows["bytes"][mine])
        own = _of_runtime(rows, trace)
        np.add.at(found["runtime"], index[own], rows["bytes"][own])
        return Table(numbers, found)

    def lost(self, trace: "Trace") -> Table:
        """SUMS by row of the blocks that no pointer led to, or only lost blocks, without those of the C and C++ libraries."""
        import numpy as np
        from steve.trace._memtrace import REACH_NAMES

        rows = self._judged(trace)
        really = np.isin(rows["reach"], [REACH_NAMES.index(name) for name in REALLY_LOST])
        rows = rows[really & ~_of_runtime(rows, trace)]
        numbers, index = np.unique(rows["row"], return_inverse=True)
        found = np.zeros(len(numbers), [(name, "u8") for name in SUMS])
        for name in SUMS:
            np.add.at(found[name], index, rows[name])
        return Table(numbers, found)

    def _judged(self, trace: "Trace") -> "np.ndarray":
        """The rows of blocks that are judged."""
        import numpy as np

        self._sum_up()
        rows = self._rows[0] if self._rows else np.zeros(0, ROW)
        judged = [heap for heap in np.unique(rows["heap"]).tolist() if heap_kind(trace, heap) in JUDGED]
        return rows[np.isin(rows["heap"], judged)]


def _of_runtime(rows: "np.ndarray", trace: "Trace") -> "np.ndarray":
    """A mask of the rows of blocks that the C or C++ library made for itself."""
    import numpy as np

    stacks, of_row = np.unique(rows["stack"], return_inverse=True)
    runtime = Runtime(trace)
    return np.array([runtime.owns(stack) for stack in stacks.tolist()], bool)[of_row]


def heap_kind(trace: "Trace", heap: int) -> str:
    """The name of a heap's kind, "" if the heap is unknown."""
    known = trace.heap(heap)
    return known.kind if known is not None else ""


STREAM_BUFFER = "_IO_file_doallocate"  # of glibc's stdio


class Runtime:
    """Tells by their stacks which blocks the C or C++ library made for itself: nobody else called for them, as for
    libstdc++'s memory for exceptions when there is no other; or it is the buffer of a stream."""

    def __init__(self, trace: "Trace") -> None:
        self._trace = trace
        self._all_own: "Inherited[bool]" = Inherited(
            trace, lambda frame, callers: callers and self._is_own(frame), True
        )
        self._named = named_functions(trace.info())
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
            own = is_of_runtime(frame)
            self._frames[number] = only_allocates(frame, self._named), own, frame.function
        return self._frames[number]
