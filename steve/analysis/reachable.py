"""Is what Lua never frees still reachable? Blocks that live at the end, and the last snapshot of their state.

A snapshot knows objects by address, with the bytes of their parts (a table's array and hash, a thread's
stack), which are blocks of their own: those count here where the object was made. An object is reachable if strong
links lead to it from the roots; what is not only waits for the collector. Blocks made after the snapshot are
neither: their bytes are a sum of their own. Memory is O(live blocks + objects).

SPDX-License-Identifier: GPL-2.0-or-later
"""
from typing import TYPE_CHECKING, Callable, Dict, List, Optional

from steve.analysis.folds import Kept, Table, columns

if TYPE_CHECKING:
    import numpy as np

    from steve.trace._memtrace import Snapshot, Trace
    from steve.parallel.window import Window

SUMS = ("reachable", "unreachable", "later")  # bytes of reachable and of unreachable objects, of blocks made afterwards
AT_EXIT = "at exit"  # the snapshot that --universe=at-exit takes, and its mark
RETURNED = (  # {}: the option that selects the snapshot
    "most objects of Lua are garbage at this mark. All that only local variables of the main script held is, since it "
    "has returned. `require 'ljtrace'.snapshot('end')` as its last line, and {}, show what these hold"
)


def is_live(batch: "np.ndarray") -> "np.ndarray":
    """A mask of the lives that did not end."""
    return batch["freed"] == 0


class Survivors(Kept):
    """The fold (see steve.analysis.folds) of the lives that did not end, of all heaps. key: what they will be summed by,
    the name of a number of a life. rule: from a batch of lives to the mask of those to keep."""

    def __init__(self, key: str = "stack", rule: "Callable[[np.ndarray], np.ndarray]" = is_live) -> None:
        super().__init__()
        self.key, self.rule = key, rule

    def add(self, batch: "np.ndarray", keep: "np.ndarray | None") -> None:
        live = self.rule(batch)
        kept = batch[live if keep is None else live & keep]
        self._kept.append(
            columns(kept, *dict.fromkeys(("handle", "heap", self.key, "born_time", "size", "type", "weight")))
        )

    def of_lua(self, trace: "Trace") -> "np.ndarray":
        """The lives in Lua heaps, by handle."""
        import numpy as np

        heaps = [trace.heap(i) for i in range(trace.counts()["heaps"])]
        lua = [i for i, heap in enumerate(heaps) if heap is not None and heap.kind == "lua"]
        lives = np.concatenate(self._kept)
        return np.sort(lives[np.isin(lives["heap"], lua)], order="handle")


def bytes_of(lives: "np.ndarray") -> int:
    """The bytes of lives; in a sample, of all blocks that these represent."""
    import numpy as np

    return int((np.where(lives["weight"], lives["weight"], 1) * lives["size"]).round().sum())


class LastOfEach:
    """The last snapshot of each heap that was read so far. Older ones are dropped."""

    def __init__(self, trace: "Trace") -> None:
        self._trace, self._seen = trace, 0
        self._number: Dict[int, int] = {}

    def look(self) -> None:
        """Find the snapshots that were read since the last call. They precede the events that were read last."""
        while (snapshot := self._trace.snapshot(self._seen)) is not None:
            if snapshot.heap in self._number:
                self._trace.forget_snapshot(self._number[snapshot.heap])
            self._number[snapshot.heap] = self._seen
            self._seen += 1

    def snapshots(self) -> "List[Snapshot]":
        return [self._trace.snapshot(number) for number in self._number.values()]


class Addresses:
    """The addresses of blocks at the end of the trace, and the snapshots until then. handles: sorted."""

    def __init__(self, handles: "np.ndarray", trace: "Trace", window: "Optional[Window]") -> None:
        """Read the trace, up to the end of a window."""
        import numpy as np

        # a column of a table of lives would be copied by each search
        self._handles, self.found = np.ascontiguousarray(handles), np.zeros(len(handles), "u8")
        self.taken = LastOfEach(trace)
        if window is not None:
            window.begin()
        trace.pass_accesses()
        for batch in trace.batches():
            self.taken.look()
            self._note(batch)
            if window is not None and self._ends(batch, trace, window):
                return
        self.taken.look()

    def _note(self, batch: "np.ndarray") -> None:
        """Keep the last address of each block. The objects that are searched for do not move."""
        import numpy as np

        events = batch[np.isin(batch["kind"], kinds("new", "resize"))]
        at = np.searchsorted(self._handles, events["handle"])
        known = at < len(self._handles)
        known[known] = self._handles[at[known]] == events["handle"][known]
        self.found[at[known]] = events["addr"][known]

    def _ends(self, batch: "np.ndarray", trace: "Trace", window: "Window") -> bool:
        import numpy as np

        for event in batch[np.isin(batch["kind"], kinds("mark"))]:
            if window.state(trace.string(int(event["ref"]))) == "after":
                return True
        return False


def kinds(*names: str) -> List[int]:
    """The numbers of kinds of events."""
    from steve.trace._memtrace import KIND_NAMES

    return [KIND_NAMES.index(name) for name in names]


def reached(snapshot: "Snapshot") -> "np.ndarray":
    """Which objects of a snapshot are reachable from the roots by strong links?"""
    import numpy as np
    from steve.snapshots._graph import shortest

    links = snapshot.links[snapshot.links["weak"] == 0]
    return (
        shortest(
            len(snapshot.objects),
            links["from"].astype(np.int64),
            links["to"].astype(np.int64),
            np.flatnonzero(snapshot.objects["root"]),
        )
        != -2
    )


def objects_of(heap: "np.ndarray", made: "np.ndarray", addr: "np.ndarray", snapshot: "Snapshot") -> "np.ndarray":
    """For each block, the number of its object in a snapshot; -1: it has none there. heap, made, addr: of the blocks, their
    heaps, the times of their News, and their addresses."""
    import numpy as np

    order = np.argsort(snapshot.objects["addr"])
    places = snapshot.objects["addr"][order]
    at = np.minimum(np.searchsorted(places, addr), max(len(places) - 1, 0))
    mine = (heap == snapshot.heap) & (made <= snapshot.time)
    if not len(places):
        return np.full(len(addr), -1)
    return np.where(mine & (places[at] == addr), order[at], -1)


def add_up(lives: "np.ndarray", key: str, addresses: "np.ndarray", snapshot: "Snapshot", weight: int) -> Table:
    """What a snapshot says of the lives: SUMS by their number `key`. weight: as how many blocks a recorded one counts. A
    snapshot has the recorded blocks alone, and a sample by bytes has no snapshots."""
    import numpy as np

    objects = objects_of(lives["heap"], lives["born_time"], addresses, snapshot)
    known, alive = objects >= 0, reached(snapshot)
    later = (lives["heap"] == snapshot.heap) & (lives["born_time"] > snapshot.time)
    sizes = np.zeros(len(lives), [(name, "u8") for name in SUMS])
    held = np.zeros(len(lives), bool)
    held[known] = alive[objects[known]]
    of_objects = np.zeros(len(lives), "u8")
    of_objects[known] = snapshot.objects["size"][objects[known]]
    sizes["reachable"][held] = of_objects[held]
    sizes["unreachable"][known & ~held] = of_objects[known & ~held]
    sizes["later"][later] = lives["size"][later]
    some = np.flatnonzero(known | later)
    numbers, rows = np.unique(lives[key][some], return_inverse=True)
    found = np.zeros(len(numbers), sizes.dtype)
    for name in SUMS:
        np.add.at(found[name], rows, sizes[name][some] * np.uint64(weight))
    return Table(numbers.astype("u4"), found)


def sums_of(
    lives: "np.ndarray", trace: "Trace", window: "Optional[Window]", key: str = "stack"
) -> "Optional[tuple[Table, list[str]]]":
    """SUMS of the survivors, by their number `key`, and the names of the snapshots, those of each state; None if no state of
    theirs has a snapshot by the end of the window. A number can occur several times, once for each state. trace: from
    its beginning, with snapshots."""
    import numpy as np

    addresses = Addresses(lives["handle"], trace, window)
    taken = [s for s in addresses.taken.snapshots() if np.any(lives["heap"] == s.heap)]
    if not taken:
        return None
    parts = [add_up(lives, key, addresses.found, snapshot, trace.sample.weight) for snapshot in taken]
    return Table(*map(np.concatenate, zip(*parts))), list(dict.fromkeys(snapshot.name for snapshot in taken))
