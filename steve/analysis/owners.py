"""Whose the resident pages of a process are: live blocks, free memory of allocators, mappings, stacks, code and others.

The ranges of addresses of a process are divided into *parts*, each of one kind of owner (KINDS), by what the kernel
says of the mappings, by what the program mapped itself, and by where blocks were. In each part, what is resident and in
a live block belongs to that, and the rest to the part. A page that is partly covered by live blocks is divided by
bytes. What an allocator takes for a live block besides what was asked for is neither live nor free, but the block's overhead
(steve.analysis.chunks_of_blocks), if it is known how the allocator rounds. The sum is what the kernel reports as resident: where the pages that were read differ from its sum for a mapping,
since the process ran meanwhile, the difference is a row of its own.

Memory that the program mapped is an allocator's if blocks of that allocator are or were there. Freed blocks of malloc are
not enough: they may have been there before it was mapped, and the trace does not say when that was. Then the call that
mapped it must be one of malloc's.

Heaps of glibc's arenas are recognized by the recorder. Of older traces, and where the recorder must not read the memory of
the process, they are known by their form: each begins at a multiple of 64 MiB, with blocks in its first pages. Stacks of
threads are private memory without a name, directly above pages without any rights.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from typing import TYPE_CHECKING, NamedTuple

from steve.analysis import chunks_of_blocks
from steve.analysis.live_at import GRANULE, LiveBlocks
from steve.trace import allocators, page_runs, policy
from steve.trace.page_runs import Ranges

if TYPE_CHECKING:
    import numpy as np

    from steve.trace._memtrace import Mapping, Pages, Trace

LIVE, OVERHEAD, FREE, LUA, OWN, FILES, STACKS, LIBRARIES, JIT, RECORDER, OTHER, CHANGED = KINDS = (
    "live",
    "overhead",
    "free",
    "lua",
    "own",
    "files",
    "stacks",
    "libraries",
    "jit",
    "recorder",
    "other",
    "changed",
)
TITLES = {
    LIVE: "live blocks",
    OVERHEAD: "headers and rounding of live blocks",
    FREE: "free in the allocator",
    LUA: "free in LuaJIT's allocator",
    OWN: "mapped by the program itself",
    FILES: "mapped files and shared memory",
    STACKS: "stacks",
    LIBRARIES: "code and data of the program and its libraries",
    JIT: "machine code made at run time",
    RECORDER: "the recorder",
    OTHER: "private memory of unknown owner",
    CHANGED: "changed while it was read",
}
ARENA = 64 << 20  # bytes, and alignment, of a heap of an arena of glibc
ARENA_HEAD, HEAP_HEAD = 2304, 656  # bytes of glibc's own at the beginning of an arena, and of the heap
# the functions in the stacks of regions of the recorder, and of heaps of glibc's arenas
FROM_RECORDER, FROM_ARENA = "[recorder]", "[arena]"
# parts of names of files that the recorder brings along
RECORDERS = ("libljtrace-native.so", "memfd:ljtrace-ring", "libZydis.so")


class Part(NamedTuple):
    """A range of addresses of one kind. name: of a file, or of the part of an allocator: "heap", "arena", "mappings".
    stack: that of the call that mapped it; 0: none is known. heaps: of an allocator, those that have blocks here. is_older:
    was it mapped before the attach, so that the call cannot be known?"""

    start: int
    end: int
    kind: str
    name: str = ""
    stack: int = 0
    heaps: tuple[int, ...] = ()
    is_older: bool = False


@dataclass
class Owned:
    """What of a part is resident, in bytes."""

    part: Part
    mapping: int
    """the index of its mapping."""
    resident: int
    live: int
    """of resident: in live blocks."""
    shared: int
    """of resident: in pages that other processes have as well."""
    shared_live: int = 0
    """of live: likewise."""
    overhead: int = 0
    """Of an allocator: what it takes for live blocks besides their bytes, which is not free."""
    shared_overhead: int = 0
    """of overhead: in pages that other processes have as well."""
    whole: int = 0
    """Of an allocator: whole free pages."""
    whole_below: int = 0
    """Of these: below a live block of the same part, so that the part's end cannot be returned."""

    @property
    def rest(self) -> int:
        """Of resident: what is the part's own kind, in no live block and none's overhead."""
        return self.resident - self.live - self.overhead

    @property
    def returnable(self) -> int:
        """Of `whole`: what malloc_trim of glibc returns at least, if no cache of a thread holds a block there. It does not
        return the top chunk of an arena of a thread. Where that begins is not known: at the last live block, or above
        what caches of threads hold there, so that some of the end, up to `whole` in all, may be returned, too."""
        return self.whole_below if self.part.name == "arena" else self.whole


@dataclass
class Owners:
    """Whose the resident pages are at one time."""

    pages: Pages
    parts: list[Owned] = field(default_factory=list)
    changed: int = 0
    """Bytes that the kernel's sums have and the pages that were read do not; may be negative."""
    unread: int = 0
    """Bytes of mappings whose pages could not be read."""
    present: Ranges = field(default_factory=page_runs.nothing)
    """The addresses that are resident, as far as pages could be read."""
    pinned: np.ndarray | None = None
    """By live block: free bytes of the allocators' pages on which it is, divided in proportion to the blocks' bytes."""
    live_resident: np.ndarray | None = None
    """By live block: bytes that are resident."""
    overhead: np.ndarray | None = None
    """By live block: resident bytes that its allocator takes for it besides these."""
    in_use: Ranges = field(default_factory=page_runs.nothing)
    """The addresses of live blocks and their overhead."""
    knows_overhead: bool = True
    """Is it known how the allocator of the program rounds, if it has live blocks?"""

    @property
    def resident(self) -> int:
        """What the kernel reports as resident, the sum over all mappings."""
        return sum(mapping.rss for mapping in self.pages.mappings)

    @property
    def reserved_huge(self) -> int:
        """Bytes of mappings of reserved huge pages, which the kernel does not count as resident."""
        return sum(mapping.size for mapping in self.pages.mappings if mapping.flags & page_runs.HUGETLB)

    def by_kind(self) -> dict[str, int]:
        """The bytes of each kind. Their sum is `resident`."""
        found = dict.fromkeys(KINDS, 0)
        for owned in self.parts:
            found[LIVE] += owned.live
            found[OVERHEAD] += owned.overhead
            found[owned.part.kind] += owned.rest
        found[CHANGED] = self.changed
        return found


def is_recorders(name: str) -> bool:
    """Is this a file that the recorder brings along?"""
    return any(part in os.path.basename(name) for part in RECORDERS)


def is_special(trace: Trace, stack: int, function: str) -> bool:
    """Is this the stack of regions of the recorder (FROM_RECORDER) or of heaps of arenas (FROM_ARENA)?"""
    frames = trace.stack_frames(stack)
    return len(frames) == 1 and frames[0].function == function


def caller_frame(trace: Trace, stack: int) -> int:
    """The frame that called mmap or another function that maps memory, which is the innermost of this stack; -1: not known."""
    known = trace.stack(stack)
    caller = trace.stack(known[0]) if known and known[0] else None
    return caller[1] if caller else -1


def is_within_malloc(trace: Trace, stack: int) -> bool:
    """Has malloc, or a library of an allocator, mapped memory with this stack?"""
    frames = trace.stack_frames(stack)[1:]
    return bool(frames) and (allocators.is_in_library(frames[0].object) or any(map(policy.is_of_c_heap, frames)))


def mapped_before(trace: Trace) -> Ranges:
    """What was mapped at the first look of a process that the recorder was attached to; it looks at once."""
    import numpy as np

    first = trace.pages(most=1) if "attached" in trace.info() else []
    if not first or first[0].reason != "first":
        return page_runs.nothing()
    starts = np.array([mapping.start for mapping in first[0].mappings], "u8")
    return page_runs.union(starts, starts + np.array([mapping.size for mapping in first[0].mappings], "u8"))


class Layout:
    """Divides the mappings of a look into parts."""

    def __init__(self, trace: Trace, pages: Pages, live: LiveBlocks) -> None:
        self.pages = pages
        self.objects = {m.name for m in pages.mappings if m.flags & page_runs.EXECUTE and m.name.startswith("/")}
        self.modules = list(trace.modules())
        self.objects |= {module.object for module in self.modules}
        self.live = live
        kinds = {heap: known.kind for heap in live.used if (known := trace.heap(heap)) is not None}
        self.lua = {heap for heap, kind in kinds.items() if kind == "lua"}
        self.of_malloc = {heap for heap in live.used if kinds.get(heap, "malloc") == "malloc"}
        self.regions = sorted(pages.regions)
        stacks = {region.stack for region in pages.regions}
        self.recorders = {stack for stack in stacks if is_special(trace, stack, FROM_RECORDER)}
        self.arenas = {stack for stack in stacks if is_special(trace, stack, FROM_ARENA)}
        self.older = mapped_before(trace)
        self.callers = {stack: (known[0] if (known := trace.stack(stack)) else 0) for stack in stacks}
        self.frames = {stack: caller_frame(trace, stack) for stack in stacks - self.recorders - self.arenas}
        self.within_malloc = cache(partial(is_within_malloc, trace))
        self.filled = self._heaps_of_calls()

    def _heaps_of_calls(self) -> set[tuple[int, int]]:
        """By which calls memory was mapped in which blocks of which heaps begin now: pairs of a frame and a heap."""
        import numpy as np

        found = set()
        starts = np.array([region.start for region in self.regions], "u8")
        ends = starts + np.array([region.size for region in self.regions], "u8")
        first, end_of = np.searchsorted(self.live.addr, starts), np.searchsorted(self.live.addr, ends)
        for region, low, high in zip(self.regions, first.tolist(), end_of.tolist()):
            if low < high and region.stack in self.frames:
                frame = self.frames[region.stack]
                found.update((frame, heap) for heap in np.unique(self.live.heap[low:high]).tolist())
        return found

    def _maps_for(self, stack: int, heap: int) -> bool:
        """Was the memory with this stack mapped for the blocks of a heap that were in it? When it was mapped is not known, and
        malloc may have unmapped other memory there before. So it must have been mapped by the allocator: by a call that
        mapped other memory in which blocks of the heap are, or within malloc. Other allocators seldom unmap memory."""
        return heap not in self.of_malloc or (self.frames[stack], heap) in self.filled or self.within_malloc(stack)

    def heaps_in(self, start: int, end: int) -> tuple[int, ...]:
        """The heaps of which blocks ever began between two addresses; a granule at an edge counts."""
        import numpy as np

        found = []
        for heap, granules in self.live.used.items():
            first, last = np.searchsorted(granules, np.array([start >> GRANULE, (end - 1 >> GRANULE) + 1], "u8"))
            if last > first:
                found.append(heap)
        return tuple(found)

    def parts(self) -> Iterator[tuple[int, Part]]:
        """All parts with the indices of their mappings, by rising addresses."""
        mappings = self.pages.mappings
        for number, mapping in enumerate(mappings):
            before = (
                mappings[number - 1]
                if number and mappings[number - 1].start + mappings[number - 1].size == (mapping.start)
                else None
            )
            for part in self._of_mapping(mapping, before):
                yield number, part

    def _of_mapping(self, mapping: Mapping, before: Mapping | None) -> Iterator[Part]:
        start, end = mapping.start, mapping.start + mapping.size
        name = mapping.name.removesuffix(" (deleted)")
        if is_recorders(name):
            yield Part(start, end, RECORDER, name)
        elif name.startswith(("/", "socket:", "anon_inode:")):
            yield from self._with_regions(start, end, LIBRARIES if mapping.name in self.objects else FILES, name)
        elif name == "[heap]":
            yield from self._heap(start, end)
        elif name.startswith("[stack") or "pthread stack" in name:
            yield Part(start, end, STACKS, "main" if name == "[stack]" else "thread")
        elif name.startswith("[v"):
            yield Part(start, end, LIBRARIES, name)
        elif mapping.flags & page_runs.EXECUTE:
            for first, last, stack in self._cut(start, end):
                yield Part(first, last, RECORDER if stack in self.recorders else JIT)
        else:
            if before is not None and before.name in self.objects and mapping.flags & page_runs.WRITE and not name:
                start = min(self._end_of(before, end), end)
                if mapping.start < start:
                    yield Part(mapping.start, start, RECORDER if is_recorders(before.name) else LIBRARIES, before.name)
            if start < end:
                yield from self._anonymous(start, end, mapping, before)

    def _end_of(self, mapping: Mapping, unknown: int) -> int:
        """Where the object file of a mapping ends in memory, with its data that are not in the file (.bss). Memory without a
        file may follow directly that is not the object's. unknown: what is returned if the trace does not say it."""
        page = self.pages.page
        for module in reversed(self.modules):  # another one may have been there before; its name may be that of a link
            if module.start <= mapping.start < module.start + module.size:
                return -(-(module.start + module.size) // page) * page
        return unknown

    def _with_regions(self, start: int, end: int, kind: str, name: str) -> Iterator[Part]:
        """A mapping of one kind, in parts by the calls that mapped it."""
        for first, last, stack in self._cut(start, end):
            if stack in self.recorders:
                yield Part(first, last, RECORDER)
            else:
                yield Part(first, last, kind, name, self.callers.get(stack, 0))

    def _cut(self, start: int, end: int) -> Iterator[tuple[int, int, int]]:
        """A range in pieces, each with the stack of its region, 0 if it is in none."""
        import bisect

        at = start
        first = max(bisect.bisect_right(self.regions, (start,)) - 1, 0)
        for region in self.regions[first:]:
            low, high = max(region.start, at), min(region.start + region.size, end)
            high = min(-(-high // self.pages.page) * self.pages.page, end)  # the rest of the last page is the region's
            if low >= end:
                break
            if high <= low:
                continue
            if low > at:
                yield at, low, 0
            yield low, high, region.stack
            at = high
        if at < end:
            yield at, end, 0

    def _heap(self, start: int, end: int) -> Iterator[Part]:
        """The break: malloc's, but for what the program itself took."""
        for first, last, stack in self._cut(start, end):
            if stack and stack not in self.recorders:
                yield self._of_region(first, last, stack)
            else:
                yield Part(first, last, FREE, "heap", 0, (0,))

    def _of_region(self, start: int, end: int, stack: int) -> Part:
        """What the program mapped itself: an allocator's, if its blocks are or were in it."""
        heaps = tuple(heap for heap in self.heaps_in(start, end) if self._maps_for(stack, heap))
        if not heaps:
            return Part(start, end, OWN, "", self.callers.get(stack, 0))
        return self._of_allocator(start, end, heaps, self.callers.get(stack, 0))

    def _of_allocator(self, start: int, end: int, heaps: tuple[int, ...], stack: int) -> Part:
        return Part(start, end, LUA if set(heaps) <= self.lua else FREE, "mappings", stack, heaps)

    def _anonymous(self, first: int, last: int, mapping: Mapping, before: Mapping | None) -> Iterator[Part]:
        """Private memory without a file: the part of a mapping between two addresses."""
        is_guarded = before is not None and not before.flags & 7 and not before.name
        limit = self.pages.reserved or mapping.size
        for start, end, stack in self._cut(first, last):
            if stack in self.recorders:
                yield Part(start, end, RECORDER)
            elif stack in self.arenas:
                yield Part(start, end, FREE, "arena", 0, (0,))
            elif stack:
                yield self._of_region(start, end, stack)
            elif not mapping.flags & page_runs.WRITE:
                yield from self._of_nobody(start, end, mapping.name)
            else:
                is_stack = is_guarded and start == mapping.start
                yield from self._unknown(start, end, limit if is_stack else 0, mapping.name)

    def _unknown(self, start: int, end: int, stack: int, name: str) -> Iterator[Part]:
        """Private memory that neither the program nor the recorder has mapped: libc has. stack: how much of it at most
        is a thread's stack, if it is no arena."""
        is_first = True
        while start % ARENA == 0 and start < end and 0 in self.heaps_in(start, min(end, start + (1 << GRANULE))):
            yield Part(start, min(end, start + ARENA), FREE, "arena", 0, (0,))
            start, is_first = start + ARENA, False
        if start >= end:
            return
        if stack and is_first:
            yield Part(start, min(end, start + stack), STACKS, "thread")
            start += stack
        if start >= end:
            return
        heaps = self.heaps_in(start, end)
        if heaps:
            yield self._of_allocator(start, end, heaps, 0)
        else:
            yield from self._of_nobody(start, end, name)

    def _of_nobody(self, start: int, end: int, name: str) -> Iterator[Part]:
        """Memory that is not known to be anybody's, in parts from before the attach and others."""
        older = page_runs.clipped(self.older, start, end)
        at = start
        for low, high in zip(older.starts.tolist(), older.ends.tolist()):
            if at < low:
                yield Part(at, low, OTHER, name)
            yield Part(low, high, OTHER, name, is_older=True)
            at = high
        if at < end:
            yield Part(at, end, OTHER, name)


def resident_of(mapping: Mapping, page: int) -> tuple[Ranges, Ranges]:
    """The ranges of a mapping that are resident, and those of them that other processes have as well. Pages of zeros
    that were only read are present, but the kernel does not count them: of pages that may be such ones, as many are
    left out as there are more pages than it counts."""
    import numpy as np

    starts, ends, states = page_runs.runs(mapping, page)
    present = states & page_runs.PRESENT != 0
    if mapping.flags & page_runs.HUGETLB:  # the kernel counts reserved huge pages apart
        present[:] = False
    more = int((ends - starts)[present].sum()) - mapping.rss
    if more > 0:
        for i in np.flatnonzero(states == page_runs.PRESENT)[::-1].tolist():
            cut = min(more, int(ends[i] - starts[i]))
            ends[i] -= np.uint64(cut)
            more -= cut
    shared = present & (states & page_runs.ALONE == 0)
    return page_runs.union(starts[present], ends[present]), page_runs.union(starts[shared], ends[shared])


def whole_mappings(pages: Pages) -> Pages:
    """The same, with mappings whose runs are in several records joined to one."""
    found: list[Mapping] = []
    for mapping in pages.mappings:
        if mapping.flags & page_runs.CONTINUED and found and found[-1].start + found[-1].size == mapping.start:
            last = found[-1]
            runs = last.runs + mapping.runs if last.runs and mapping.runs else b""
            found[-1] = last._replace(size=last.size + mapping.size, runs=runs)
        else:
            found.append(mapping)
    return pages._replace(mappings=found)


class Finder:
    """Finds the owners of the pages of one look."""

    def __init__(self, trace: Trace, pages: Pages, live: LiveBlocks) -> None:
        import numpy as np

        self.pages, self.live = whole_mappings(pages), live
        self.layout = Layout(trace, self.pages, live)
        self.parts = list(self.layout.parts())
        sizes = np.minimum(live.size, ~np.uint64(0) - live.addr)
        self.blocks = page_runs.union(live.addr, live.addr + sizes)
        known = allocators.allocator_of(trace)
        self.starts, self.ends, self.knows_overhead = self._with_overhead(known.name if known else "", sizes)
        self.in_use = page_runs.union(self.starts, self.ends)
        page = np.uint64(self.pages.page)
        mask = ~(page - np.uint64(1))
        header = np.uint64(0 if self.knows_overhead else chunks_of_blocks.HEADER)  # which any allocator may have
        low = self.in_use.starts - np.minimum(self.in_use.starts, header)
        in_last = self.in_use.ends - np.uint64(1)
        self.used_pages = page_runs.union(low & mask, (in_last & mask) + page)
        last = np.maximum(self.ends, self.starts + np.uint64(1)) - np.uint64(1)
        self.block_pages = np.unique(np.concatenate((self.starts & mask, last & mask)))  # where blocks begin or end
        self._free_pages: list[tuple[np.ndarray, np.ndarray]] = []

    def _with_overhead(self, allocator: str, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray, bool]:
        """By live block: where what its allocator takes for it begins and ends, and whether that is known of all blocks of
        `allocator`, that of malloc."""
        import numpy as np

        live = self.live
        is_lua = np.isin(live.heap, list(self.layout.lua))
        in_own = is_lua & page_runs.contains(self._ranges_of(LUA), live.addr)  # the allocator that LuaJIT brings along
        in_malloc = np.isin(live.heap, list(self.layout.of_malloc)) | (is_lua & ~in_own)
        starts, ends = live.addr.copy(), live.addr + np.maximum(sizes, np.uint64(1))
        for name, which in (("LuaJIT", in_own), (allocator, in_malloc)):
            if chunks_of_blocks.is_known(name):
                found = chunks_of_blocks.with_overhead(name, live.addr[which], sizes[which], self.pages.page)
                starts[which], ends[which] = found[0], np.maximum(ends[which], found[1])
        ends[:-1] = np.maximum(np.minimum(ends[:-1], live.addr[1:]), (live.addr + sizes)[:-1])
        starts[1:] = np.minimum(np.maximum(starts[1:], ends[:-1]), live.addr[1:])
        return starts, ends, chunks_of_blocks.is_known(allocator) or not in_malloc.any()

    def _ranges_of(self, *kinds: str) -> Ranges:
        """The addresses of the parts of some kinds."""
        import numpy as np

        found = [part for _, part in self.parts if part.kind in kinds]
        return page_runs.union(
            np.array([part.start for part in found], "u8"), np.array([part.end for part in found], "u8")
        )

    def find(self, by_block: bool = True) -> Owners:
        """by_block: also find what depends on single blocks, `pinned` and `live_resident`."""
        import numpy as np

        found = Owners(self.pages, in_use=self.in_use, knows_overhead=self.knows_overhead)
        ranges: dict[int, tuple[Ranges, Ranges]] = {}
        resident: list[Ranges] = []
        for number, part in self.parts:
            mapping = self.pages.mappings[number]
            if number not in ranges:
                ranges = {number: resident_of(mapping, self.pages.page)}
                resident.append(ranges[number][0])
                self._compare(found, mapping, ranges[number][0])
            here, shared = (page_runs.clipped(some, part.start, part.end) for some in ranges[number])
            if not mapping.runs and mapping.rss:
                found.parts.append(Owned(part, number, mapping.rss if part.start == mapping.start else 0, 0, 0))
            elif here.bytes:
                found.parts.append(self._owned(part, number, here, shared))
        starts = np.concatenate([page_runs.nothing().starts, *(some.starts for some in resident)])
        ends = np.concatenate([page_runs.nothing().ends, *(some.ends for some in resident)])
        found.present = page_runs.union(starts, ends)
        if by_block:
            self._by_block(found)
        return found

    def _compare(self, found: Owners, mapping: Mapping, here: Ranges) -> None:
        if not mapping.runs:
            found.unread += mapping.rss
        else:
            found.changed += mapping.rss - here.bytes

    def _owned(self, part: Part, mapping: int, here: Ranges, shared: Ranges) -> Owned:
        live = int(page_runs.covered(here, self.blocks).sum())
        owned = Owned(part, mapping, here.bytes, live, shared.bytes, int(page_runs.covered(shared, self.blocks).sum()))
        if part.kind in (FREE, LUA):
            owned.overhead = int(page_runs.covered(here, self.in_use).sum()) - live
            owned.shared_overhead = int(page_runs.covered(shared, self.in_use).sum()) - owned.shared_live
            self._free(owned, here)
        return owned

    def _free(self, owned: Owned, here: Ranges) -> None:
        """Find the whole free pages of a part of an allocator, and remember the free bytes of pages with blocks. Time
        and memory are those of its blocks and ranges, however many pages it has."""
        import numpy as np

        page, part = np.uint64(self.pages.page), owned.part
        head = {"arena": ARENA_HEAD, "heap": HEAP_HEAD}.get(part.name, 0)
        used = page_runs.clipped(self.used_pages, part.start, part.end)
        if head:
            pages = -(-head // self.pages.page) * self.pages.page
            start, end = np.array([part.start], "u8"), np.array([part.start + pages], "u8")
            used = page_runs.union(np.append(used.starts, start), np.append(used.ends, end))
        last = int(used.ends[-1]) if len(used) else part.start
        owned.whole = here.bytes - int(page_runs.covered(here, used).sum())
        below = page_runs.clipped(here, part.start, min(max(last, part.start), part.end))
        owned.whole_below = below.bytes - int(page_runs.covered(below, used).sum())
        first, end_of = np.searchsorted(self.block_pages, np.array([part.start, part.end], "u8"))
        starts = self.block_pages[first:end_of]
        starts = starts[page_runs.covered(Ranges(starts, starts + page), here) == page]
        self._free_pages.append((starts, page - page_runs.covered(Ranges(starts, starts + page), self.in_use)))

    def _by_block(self, found: Owners) -> None:
        """Divide the free bytes of pages among the blocks on them, and find which bytes of blocks are resident."""
        import numpy as np

        live, page = self.live, np.uint64(self.pages.page)
        of_allocators = page_runs.intersection(found.present, self._ranges_of(FREE, LUA))
        found.live_resident = _between(found.present, live.addr, live.addr + live.size)
        taken = _between(of_allocators, self.starts, self.ends)
        found.overhead = taken - np.minimum(_between(of_allocators, live.addr, live.addr + live.size), taken)
        found.pinned = np.zeros(len(live.addr))
        at = np.concatenate([page_runs.nothing().starts, *(some for some, _ in self._free_pages)])
        free = np.concatenate([page_runs.nothing().starts, *(some for _, some in self._free_pages)])
        order = np.argsort(at)
        at, free = at[order], free[order]
        if not len(at) or not len(live.addr):
            return
        mask = ~(page - np.uint64(1))
        first, last = self.starts & mask, (np.maximum(self.ends, self.starts + np.uint64(1)) - np.uint64(1)) & mask
        for which, pages in ((slice(None), first), (first != last, last)):
            addr, end = self.starts[which], self.ends[which]
            pages = pages[which] if len(pages) != len(addr) else pages
            i = np.minimum(np.searchsorted(at, pages), len(at) - 1)
            known = at[i] == pages
            here = np.minimum(end, pages + page) - np.maximum(addr, pages)
            share = np.where(known, free[i] * (here / np.maximum(page - free[i], np.uint64(1))), 0.0)
            found.pinned[which] += share


def _between(ranges: Ranges, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """How many bytes of the ranges are between each two addresses."""
    return page_runs.below(ranges, ends) - page_runs.below(ranges, starts)


def of_recorder(trace: Trace, pages: Pages) -> int:
    """The resident bytes of the recorder at a look. It takes no reading of the trace, since no blocks are there."""
    import numpy as np

    none, ids = np.zeros(0, "u8"), np.zeros(0, "u4")
    live = LiveBlocks(none, none, ids, ids, none, {})
    return Finder(trace, pages, live).find(by_block=False).by_kind()[RECORDER]
