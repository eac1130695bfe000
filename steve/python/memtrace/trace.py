"""A trace and its events. Import it as `memtrace`.

The reader is the binding that steve uses (steve/trace/_memtrace.pyx); here it gets names and types that stay the same
when that one changes.

SPDX-License-Identifier: GPL-2.0-or-later
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from steve.trace._memtrace import (
    BADFREE_NAMES,
    CONTAINER,
    CONTAINER_KEPT,
    FREED,
    HOW_MASK,
    HOW_NAMES,
    IMPLIED,
    KERNEL,
    REACH_NAMES,
    STACK_KINDS,
    TYPE_NAMES,
    VM_NAMES,
)
from steve.trace._memtrace import Trace as Binding

from memtrace.kinds import BADFREE, FREE, KIND_NAMES, LOAD, LOST, MARK, MODIFY, NEW, REACH, RESIZE, STATE, STORE, TYPE
from memtrace.records import RecordFile

ACCESSES = (LOAD, STORE, MODIFY)
_OF_BLOCKS = (NEW, FREE, RESIZE)


class Event(NamedTuple):
    """One event. A field that a kind of event does not have is 0, "" or False."""

    kind: str
    """"new", "free", "resize", "load", "store", "modify", "mark", "badfree" ...: one of KIND_NAMES"""
    time: int
    """instructions of the program since its start; nanoseconds in a trace of the native recorder"""
    thread: int
    """the recorder's number of the thread, from 1"""
    handle: int
    """the number of the block, in the order in which blocks were made; never used again"""
    addr: int
    size: int
    """of the block, or bytes accessed"""
    old_addr: int
    """of a resize"""
    old_size: int
    """of a resize"""
    offset: int
    """of an access: where in the block it begins"""
    heap: int
    """for Trace.heap()"""
    stack: int
    """for Trace.frames(): who requested it; 0 for accesses, and where no stack was recorded"""
    site: int
    """for Trace.site(): the instruction of an access; 0 if it is not known"""
    how: str
    """of a new block "malloc", "new[]", "lua" ...; of a bad free "double" ...; "tab", "str" ... of a type;
    "GC" ... of a state; "lost", "possible", "indirect" of what cannot be reached at the end"""
    name: str
    """of a mark; the reason of lost events"""
    implied: bool
    """a free that the program did not request; a block that existed before the recording"""
    kernel: bool
    """an access of a system call"""
    freed: bool
    """an access to memory that is in no block; only with open(freed=True)"""
    container: bool
    """an event of a block that another allocator divides into blocks of its own, whose bytes never count as live; always
    false if the list of these blocks could not be read ahead, as from a pipe"""
    kept: bool
    """and its own allocator had not freed that block when the trace ended"""


class Frame(NamedTuple):
    """A function of a call stack."""

    function: str
    file: str
    line: int
    object: str
    """the file that contains the code"""
    ip: int
    """the address of the code"""
    kind: str
    """"host" of C, "lua", "inlined" ..."""
    defined: int
    """of a Lua function: the line where it begins"""


class Site(NamedTuple):
    """An instruction that accesses memory."""

    ip: int
    size: int
    kind: str
    frame: Frame | None


class Heap(NamedTuple):
    """An allocator of the program. Heap 0 is that of C."""

    id: int
    """how the program identifies it: the address of the allocator's state"""
    kind: str
    """"malloc", "lua", "mmap" or "custom\""""


class Trace(RecordFile):
    """An open trace; see open(). The fields of a record of arrays() are those of struct mt_event."""

    def __iter__(self) -> Iterator[Event]:
        """The events, in program order; errors as in arrays()."""
        for array in self.arrays():
            for record in array.tolist():
                yield self._event(*record)

    def _event(
        self,
        addr: int,
        size: int,
        handle: int,
        time: int,
        old_addr: int,
        offset: int,
        old_size: int,
        ref: int,
        thread: int,
        kind: int,
        how: int,
        heap: int,
        slot: int,
    ) -> Event:
        access = kind in ACCESSES
        resize = kind == RESIZE
        return Event(
            KIND_NAMES[kind],
            time,
            thread,
            handle,
            addr,
            size,
            old_addr if resize else 0,
            old_size if resize else 0,
            offset if access or kind == BADFREE else 0,
            heap,
            ref if kind in STACK_KINDS else 0,
            ref if access else 0,
            _how(kind, how & HOW_MASK, ref),
            self.string(ref) if kind in (MARK, LOST) else "",
            bool(how & IMPLIED),
            access and bool(how & KERNEL),
            access and bool(how & FREED),
            kind in _OF_BLOCKS and bool(how & CONTAINER),
            kind in _OF_BLOCKS and bool(how & CONTAINER_KEPT),
        )

    def frames(self, stack: int) -> list[Frame]:
        """The functions of a stack, the innermost first; [] for stack 0."""
        return [_frame(frame) for frame in self._binding.stack_frames(stack)]

    def site(self, site: int) -> Site | None:
        """The instruction of an access; None if there is no such site."""
        found = self._binding.site(site)
        if found is None:
            return None
        frame = self._binding.frame(found.frame) if found.frame else None
        return Site(found.ip, found.size, found.kind, None if frame is None else _frame(frame))

    def heap(self, heap: int) -> Heap | None:
        """The allocator with a number; None if there is no such one."""
        found = self._binding.heap(heap)
        return None if found is None else Heap(*found)

    def string(self, string: int) -> str:
        """The string with a number; "" if there is none."""
        return str(self._binding.string(string))

    @property
    def info(self) -> Mapping[str, str]:
        """The facts about the recording that were read so far: "command", "pid", "tool" ..."""
        facts: dict[str, str] = self._binding.info()
        return facts

    @property
    def sample_mean(self) -> int:
        """The mean number of bytes between samples, if this is a sample of the blocks, so far as it is read; else 0."""
        return int(self._binding.sample.mean)

    @property
    def sample_every(self) -> int:
        """N, if this is a sample by blocks, of which one of N on average was recorded, so far as it is read; else 0."""
        return int(self._binding.sample.every)

    @property
    def ending(self) -> str:
        """How the trace ended: "exit", "killed", "limit" ...; "unknown" until the end is read."""
        return str(self._binding.stats()["ending"])

    @property
    def damages(self) -> list[str]:
        """With open(salvage=True): a line for each of the first 100 places that were damaged and left out."""
        return list(self._binding.damages())


def _frame(frame: Any) -> Frame:
    return Frame(frame.function, frame.file, frame.line, frame.object, frame.ip, frame.kind, frame.defined)


def _how(kind: int, how: int, ref: int) -> str:
    """The name of what the fields `how` and `ref` of an event contain."""
    if kind == TYPE:
        return str(TYPE_NAMES[ref])
    if kind == REACH:
        return str(REACH_NAMES[ref])
    names = {NEW: HOW_NAMES, BADFREE: BADFREE_NAMES, STATE: VM_NAMES}.get(kind)
    return "" if names is None else str(names[how])


def open(path: str, *, accesses: bool = True, freed: bool = False, salvage: bool = False, text: bool = False) -> Trace:
    """Open a trace; "-" is standard input. TraceError if that is not possible, or if it is no trace.

    accesses: deliver loads, stores and modifies. freed: deliver also accesses to memory that is in no block.
    salvage: leave out damaged parts and go on. text: read it as classic text even if it does not look like it."""
    binding = Binding(path, salvage=salvage, freed=freed, text=text)
    if not accesses:
        binding.pass_accesses()
    return Trace(binding)
