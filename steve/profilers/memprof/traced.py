"""Make memprof's events from a memtrace: its News, Frees and Resizes, each with a place found from its stack.

The place of an event is its innermost Lua line; a library function counts as the line that calls it. As in memprof,
a C function that Lua called and that allocated is a place of its own, and the garbage collector and the compiler are
INTERNAL. Compiled code counts as the line it was compiled from, which memprof does not know. For a stack without Lua
frames, the place is INTERNAL in a Lua heap and the caller of the allocator in a C heap.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from steve.trace import frames
from steve.system.errors import SteveError
from steve.profilers.memprof.places import C, INSIDE, LUA, Place
from steve.trace.policy import only_allocates

if TYPE_CHECKING:
    from steve.trace._memtrace import Frame, Trace

NANOSECONDS = 10**9


class Traced:
    """The events of one trace. heap: "lua" for LuaJIT's heaps only, "all" for every heap. tick(done, total): progress
    in bytes."""

    def __init__(self, trace: Trace, heap: str = "lua", tick: Callable | None = None) -> None:
        self.trace, self.heap, self.tick = trace, heap, tick
        self.seen = 0
        self._places: dict[int, Place] = {}
        self._numbers: dict[str, int] = {}

    def _chosen(self, heap: int) -> bool:
        known = self.trace.heap(heap)
        return self.heap == "all" or (known is not None and known.kind == "lua")

    def batches(self) -> Iterator[list[tuple]]:
        """The events in order, in lists of tuples (kind, stack, old address, old size, address, size, nanoseconds,
        instructions). SteveError at the end if a trace has no event of a Lua heap and only those were requested."""
        from steve.profilers._ljstream import heap_events

        for batch in heap_events(self.trace, self._chosen, self.tick):
            self.seen += len(batch)
            yield batch
        if not self.seen and self.heap == "lua":
            raise SteveError(f"{self.trace.name}: no event of a Lua heap; --heap all takes every heap")

    def _c_place(self, frame: Frame) -> Place:
        name = frame.function or frames.label(frame)
        number = frame.ip or self._numbers.setdefault(name, 16 * (len(self._numbers) + 1))
        return Place(C, name, number=number)

    def _find(self, stack: int) -> Place:
        known = self.trace.stack_frames(stack)
        for frame in known:
            if frames.is_lua(frame):
                return lua_place(frame)
            if frame.kind == "c":
                return self._c_place(frame)
            if frame.kind == "vm" and not frame.line:  # with a line it is the parser, which counts as its caller
                return INSIDE
        named = [frame for frame in known if frame.function and not only_allocates(frame)]
        return self._c_place(named[0]) if self.heap == "all" and named else INSIDE

    def place(self, stack: int) -> Place:
        """The Place of a stack."""
        if stack not in self._places:
            self._places[stack] = self._find(stack)
        return self._places[stack]

    def feed(self, sink: Any, second: Callable[[int], None] = lambda seconds: None) -> None:
        """Deliver all events to `sink`, which has methods alloc(), free() and realloc().

        second(n) is called when n seconds of wall clock time have passed. Its precision is limited: a trace records
        the time once for each chunk."""
        now = 0
        for batch in self.batches():
            for kind, stack, old, old_size, address, size, nanoseconds, _ in batch:
                while (now + 1) * NANOSECONDS <= nanoseconds:
                    now += 1
                    second(now)
                if kind == 1:
                    sink.alloc(self.place(stack), address, size)
                elif kind == 2:
                    sink.free(self.place(stack), old, old_size)
                else:
                    sink.realloc(self.place(stack), old, old_size, address, size)


def lua_place(frame: Frame) -> Place:
    """The Place of a Lua frame. A chunk without LuaJIT's prefix @ or = is a file."""
    chunk = frame.file or "?"
    return Place(LUA, chunk if chunk[:1] in "@=" else "@" + chunk, frame.defined, frame.line)
