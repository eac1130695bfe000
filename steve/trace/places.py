"""The places in the program where something happens: lines and sites of stacks and of access sites.

The line of a stack is that of its innermost Lua function. If it has none, it is that of the innermost shown frame
(steve.trace.policy) that has a name. If that is a function of the library of C++ or Rust, it is that of the innermost
frame of the program, if there is one, since code of these libraries allocates for the program; but not with
--keep-alloc-fns. The line of an access is that of its instruction. An allocation site is the whole stack as it is
shown. Each name is looked up once.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Collection
from functools import cache, lru_cache
from typing import TYPE_CHECKING, NamedTuple

from steve.terminal.tables import StackText
from steve.trace.frames import LUA_KINDS, frame_text, is_native
from steve.trace.policy import BELOW_MAIN, FEW, START_OF_THREAD, Policy, is_of_library, short_in_table
from steve.trace.rollups import by_function
from steve.trace.stacks import Sites

if TYPE_CHECKING:
    import argparse

    import numpy as np

    from steve.trace._memtrace import Frame, Trace


class Line(NamedTuple):
    """A line of source code. file is "" and line is 0 if unknown. function: the name of the function, else that of
    the object in brackets, else "(unknown)"."""

    file: str
    line: int
    function: str


Owner = tuple[str, int, int, str]  # the identity of a Lua function in its source, see owner_of()


class Found(NamedTuple):
    """A line and, if it is Lua code, the function in the source that contains it."""

    line: Line
    owner: Owner | None = None


NOWHERE = Line("", 0, "(unknown)")


def line_of(frame: Frame) -> Line:
    """The line of a frame; code without a name is named after its object."""
    if frame.function or frame.file:
        return Line(frame.file, frame.line, frame.function)
    return Line("", 0, f"[{os.path.basename(frame.object)}]" if frame.object else NOWHERE.function)


def owner_of(file: str, function: str, defined: int, nth: int) -> Owner:
    """The identity of a Lua function: the nth function that begins on line `defined` of `file`.

    Its name is not part of it, because a function may be called by several names. Only if the first line is
    unknown (0) does the name distinguish functions."""
    return (file, defined, nth, "") if defined else (file, 0, 0, function)


def has_lua_line(frame: Frame) -> bool:
    """Is the frame at a line of Lua? A frame of kind vm has a line if it is the parser, which reads that line."""
    return frame.line != 0 and (frame.kind in LUA_KINDS or frame.kind == "vm")


def found_line(frame: Frame) -> Found:
    """The line of a frame."""
    if frame.kind not in LUA_KINDS and not has_lua_line(frame):
        return Found(line_of(frame))
    return Found(line_of(frame), owner_of(frame.file, frame.function, frame.defined, frame.nth))


class Places:
    """The places of one trace. policy: which frames are shown, and which only allocate."""

    def __init__(self, trace: Trace, policy: Policy = Policy()) -> None:
        self.trace = trace
        self.sites = Sites(trace, policy._replace(short=False))
        self._lines: list[Line] = []
        self._line_numbers: dict[Line, int] = {}
        self._of_stacks = array("I")  # by stack, the index of its line
        # by stack, the ids of the innermost frame at a line of Lua, of the innermost one that is the program's, and of
        # the innermost one with a name; 0: none
        self._at_lua, self._of_program, self._named_frames = array("I", [0]), array("I", [0]), array("I", [0])
        self._of_frames: dict[int, tuple[bool, bool, bool]] = {}  # is it such a frame
        self._library: dict[int, bool] = {}  # by frame
        self._found: dict[int, Found] = {0: Found(NOWHERE)}  # by frame
        self._of_sites: dict[tuple[int, ...] | None, Found] = {}
        self._functions: dict[Owner, str] = {}  # names of Lua functions
        self._site_names: dict[int, StackText] = {}

    def texts(self, field: str, number: int) -> Collection[str]:
        """The texts of a number in a text field of the filter: a stack, a heap, a way of allocation or a type. A function
        has those of its row in a list, too. field: one of steve.analysis.filter.TEXTS."""
        text, frame = TEXTS[field](self, number), None
        if field == "function":
            frame = self.trace.frame(self.line_frame(number))
        return (text, *by_function(frame)[1]) if frame is not None else (text,)

    def site_name(self, stack: int) -> StackText:
        """The text of a stack's allocation site."""
        if stack not in self._site_names:
            self._site_names[stack] = self.sites.text(stack)
        return self._site_names[stack]

    def listed_sites(self, args: argparse.Namespace) -> Callable[[int], StackText]:
        """The same for a list, which may have short names. args: with those of steve.trace.policy."""
        if not short_in_table(args):
            return self.site_name
        return lru_cache(maxsize=None)(Sites(self.trace, self.sites.shown.policy._replace(short=True)).text)

    def stack_text(self, stack: int) -> str:
        """The text of all frames of a stack, innermost first."""
        return " < ".join(frame_text(self.sites.shown.in_file(frame)) for frame in self.trace.stack_frames(stack))

    def heap_kind(self, heap: int) -> str:
        """The name of a heap's kind, "" if the heap is unknown."""
        known = self.trace.heap(heap)
        return known.kind if known is not None else ""

    def stack_line(self, stack: int) -> Line:
        """The line of a stack. All stacks with lower ids are named first, so that the name of a function does not
        depend on the order of calls."""
        for each in range(len(self._of_stacks), stack + 1):
            self._of_stacks.append(self._number(self.line_frame(each)))
        return self._lines[self._of_stacks[stack]]

    def name_stacks(self, end: int) -> None:
        """Name all stacks before one at once, which takes less time than stack_line() of each."""
        import numpy as np

        frames = self.line_frames(np.arange(len(self._of_stacks), max(end, len(self._of_stacks)), dtype="u4"))
        numbers, first, which = np.unique(frames, return_index=True, return_inverse=True)
        of_frames = np.zeros(len(numbers), self._of_stacks.typecode)
        for at in np.argsort(first).tolist():  # in the order of the stacks
            of_frames[at] = self._number(int(numbers[at]))
        self._of_stacks.frombytes(of_frames[which].tobytes())

    def _number(self, frame: int) -> int:
        """The index of the line of a frame."""
        line = self._named(self.find_frame(frame))
        number = self._line_numbers.setdefault(line, len(self._lines))
        if number == len(self._lines):
            self._lines.append(line)
        return number

    def line_frame(self, stack: int) -> int:
        """The id of the frame whose line is that of a stack; 0 for none."""
        shown = self.sites.shown.stack(stack)
        self._reach(shown)
        own, named = self._of_program[shown], self._named_frames[shown]
        best = own if own and self._is_of_library(named) else named
        return self._at_lua[shown] or best or self.sites.shown.frame(shown)

    def _is_of_library(self, number: int) -> bool:
        """Is it a frame of the library of C++ or Rust?"""
        if number not in self._library:
            frame = self.trace.frame(number)
            self._library[number] = frame is not None and is_native(frame) and is_of_library(frame)
        return self._library[number]

    def line_frames(self, stacks: np.ndarray) -> np.ndarray:
        """line_frame() of each stack of an array of ids."""
        import numpy as np

        shown = self.sites.shown.stacks(stacks)
        self._reach(int(shown.max(initial=0)))
        lua, own, named = (
            np.frombuffer(column, "u4")[shown] for column in (self._at_lua, self._of_program, self._named_frames)
        )
        numbers, which = np.unique(named, return_inverse=True)
        of_library = np.array([self._is_of_library(number) for number in numbers.tolist()], bool)[which]
        found = self.sites.shown.inner(shown)
        for better in (named, np.where(of_library, own, 0), lua):
            found = np.where(better, better, found)
        return found

    def find_stack(self, stack: int) -> Found:
        """The line of a stack, with the function name of its own frame."""
        return self.find_frame(self.line_frame(stack))

    def find_frame(self, number: int) -> Found:
        """The line of the frame with an id; that of frame 0 is not known."""
        if number not in self._found:
            frame = self.trace.frame(number)
            self._found[number] = found_line(frame) if frame is not None else Found(NOWHERE)
        return self._found[number]

    def _reach(self, stack: int) -> None:
        """Look at all stacks up to one, which the trace has defined."""
        at_lua, of_program, named, kinds = self._at_lua, self._of_program, self._named_frames, self._of_frames
        for first in range(len(at_lua), stack + 1, FEW):
            end = min(first + FEW, stack + 1)
            links = (column.tolist() for column in self.trace.stack_links(first, end))
            for each, callers, frame in zip(range(first, end), *links):
                callers = callers if callers < each else 0
                is_at_lua, is_own, has_name = kinds.get(frame) or self._kinds(frame)
                at_lua.append(frame if is_at_lua else at_lua[callers])
                of_program.append(frame if is_own else of_program[callers])
                named.append(frame if has_name else named[callers])

    def thread_functions(self) -> list[Line]:
        """The functions of the program in which its threads begin, by the order of their first stacks: the outermost frame of
        the program in each stack that begins with the C library's start of a thread. A thread without stacks, and all threads if
        the C library has no symbols, are not known."""
        self._reach(self.trace.counts()["stacks"] - 1)
        in_thread, found = bytearray(1), {}
        starts_thread = cache(self._starts_thread)
        for first in range(1, len(self._of_program), FEW):
            links = (
                column.tolist() for column in self.trace.stack_links(first, min(first + FEW, len(self._of_program)))
            )
            for each, callers, frame in zip(range(first, first + FEW), *links):
                callers = callers if callers < each else 0
                in_thread.append(in_thread[callers] or starts_thread(frame))
                if in_thread[callers] and self._of_program[each] and not self._of_program[callers]:
                    found[self._of_program[each]] = None
        lines = (self.find_frame(frame).line for frame in found)
        return list({(line.file, line.function): line for line in lines}.values())

    def _starts_thread(self, number: int) -> bool:
        """Is it a frame of the C library's start of a thread?"""
        frame = self.trace.frame(number)
        return frame is not None and frame.function == START_OF_THREAD

    def _kinds(self, number: int) -> tuple[bool, bool, bool]:
        """Is it a frame at a line of Lua, one of the program, and one with a name? What starts a program or a thread
        is not meant: it would be the name of all that a program without symbols does."""
        frame, found = self.trace.frame(number), (False, False, False)
        if frame is not None:
            at_lua, named = has_lua_line(frame), bool(frame.function or frame.file)
            named = named and not BELOW_MAIN.fullmatch(frame.function) and frame.function != START_OF_THREAD
            own = not self.sites.shown.policy.keep_alloc_fns and self.sites.shown.is_programs(number)
            found = at_lua, own and (named or at_lua), named
        self._of_frames[number] = found
        return found

    def access_line(self, site: int) -> Line:
        """The line of an access site."""
        return self._named(self.find_site(site))

    def find_site(self, site: int) -> Found:
        """The line of an access site, with the function name of its own frame."""
        key = self.trace.site_key(site)
        if key not in self._of_sites:
            known = self.trace.site(site)
            frame = self.trace.frame(known.frame) if known is not None and known.frame else None
            owner = (
                owner_of(frame.file, frame.function, frame.defined, frame.nth)
                if frame is not None and frame.kind in LUA_KINDS
                else None
            )
            self._of_sites[key] = Found(NOWHERE if frame is None else line_of(frame), owner)
        return self._of_sites[key]

    def _named(self, found: Found) -> Line:
        """The line with the one name of its Lua function: of the names used for it, the one named here first."""
        if found.owner is None:
            return found.line
        return found.line._replace(function=self._functions.setdefault(found.owner, found.line.function))

    def find_proto(self, number: int) -> list[Found]:
        """The lines of the instructions of a Lua prototype, in order. A prototype does not record by which name its
        function is called."""
        proto = self.trace.proto(number)
        owner = owner_of(proto.file, proto.function, proto.defined, proto.nth)
        return [Found(Line(proto.file, line, proto.function), owner) for line in proto.lines]


def how_text(places: Places, how: int) -> str:
    """The name of a way of allocation."""
    from steve.trace._memtrace import HOW_NAMES

    return HOW_NAMES[how]


def type_text(places: Places, number: int) -> str:
    """The name of a type."""
    from steve.trace._memtrace import TYPE_NAMES

    return TYPE_NAMES[number]


# The text of a number, by field. An object that contains its own methods would not be freed when it is no longer used, but
# at some time later, and with it the trace.
TEXTS: dict[str, Callable[[Places, int], str]] = {
    "site": Places.site_name,
    "stack": Places.stack_text,
    "function": lambda places, stack: places.stack_line(stack).function,
    "file": lambda places, stack: places.stack_line(stack).file,
    "heap": Places.heap_kind,
    "how": how_text,
    "type": type_text,
}
