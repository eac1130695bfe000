"""A heap's history by allocation stack: what each holds now, held at most, and held at the heap's peak.

One walk over the News, Frees and Resizes; memory for live blocks and stacks. What every stack held at the peak
is found without a second walk: a stack notes what it holds before it changes, if the peak came since it last
changed. A block stays its New's stack's when it is resized.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from typing import TYPE_CHECKING, Any, Callable, Dict, Optional, Tuple

if TYPE_CHECKING:
    from steve._memtrace import Trace

NEW, FREE = 1, 2


class Holding:
    """Of one stack. bytes, blocks: asked for in all; held, held_blocks: now; most...: at its own maximum;
    peak...: at the heap's; lifetime: instructions, summed over its blocks."""
    __slots__ = ("bytes", "blocks", "held", "held_blocks", "most", "most_blocks", "peak", "peak_blocks",
                 "lifetime", "seen")

    def __init__(self) -> None:
        for name in self.__slots__:
            setattr(self, name, 0)

    def look(self, peak: int) -> None:
        """About to change, or the end: remember what was held at the peak of that number."""
        if self.seen != peak:
            self.peak, self.peak_blocks, self.seen = self.held, self.held_blocks, peak

    def change(self, size: int, blocks: int) -> None:
        self.held += size
        self.held_blocks += blocks
        if self.held > self.most:
            self.most, self.most_blocks = self.held, self.held_blocks


class Walk:
    """The state of the walk: stacks by id, bytes held, the time (instructions), the peak and its time."""

    def __init__(self) -> None:
        self.stacks: Dict[int, Holding] = {}
        self.live: Dict[int, Tuple[int, int, int]] = {}  # address -> size, stack, time of the New
        self.held = self.peak = self.peak_time = self.time = self._peaks = 0

    def _holding(self, stack: int) -> Holding:
        found = self.stacks.get(stack)
        if found is None:
            found = self.stacks[stack] = Holding()
            found.seen = -1
        found.look(self._peaks)
        return found

    def _grow(self, size: int) -> None:
        self.held += size
        if self.held > self.peak:
            self.peak, self.peak_time = self.held, self.time
            self._peaks += 1

    def _new(self, stack: int, address: int, size: int) -> None:
        holding = self._holding(stack)
        holding.bytes += size
        holding.blocks += 1
        holding.change(size, 1)
        self.live[address] = size, stack, self.time
        self._grow(size)

    def _free(self, address: int) -> None:
        known = self.live.pop(address, None)
        if known is None:
            return
        size, stack, born = known
        holding = self._holding(stack)
        holding.change(-size, -1)
        holding.lifetime += self.time - born
        self.held -= size

    def _resize(self, old: int, address: int, size: int) -> None:
        known = self.live.pop(old, None)
        if known is None:
            return
        before, stack, born = known
        holding = self._holding(stack)
        holding.bytes += size
        holding.change(size - before, 0)
        self.live[address] = size, stack, born
        self._grow(size - before)

    def event(self, kind: int, stack: int, old: int, address: int, size: int, time: int) -> None:
        """One event of steve._ljstream.heap_events."""
        self.time = time
        if kind == NEW:
            self._new(stack, address, size)
        elif kind == FREE:
            self._free(old)
        else:
            self._resize(old, address, size)

    def finish(self, time: int) -> None:
        """The end: `time` is that of the trace's end."""
        self.time = max(time, self.time)
        for holding in self.stacks.values():
            holding.look(self._peaks)
        for _, stack, born in self.live.values():
            self.stacks[stack].lifetime += self.time - born


def walk(trace: "Trace", tick: Optional[Callable] = None, after: Callable[[Walk], Any] = lambda w: None) -> Walk:
    """Walk over a whole trace; after(walk) is called after each event."""
    from steve._ljstream import heap_events
    state = Walk()
    for batch in heap_events(trace, lambda heap: True, tick):
        for kind, stack, old, _, address, size, _, time in batch:
            state.event(kind, stack, old, address, size, time)
            after(state)
    state.finish(trace.stats()["totals"]["instructions"])
    return state
