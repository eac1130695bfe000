"""Where in the program something happens: lines and sites of stacks and of access sites.

The line of a stack is its innermost frame of a Lua function or, where there is none, that has a name and is
not the allocator itself; the line of an
access is that of its instruction. A site is longer: the three innermost frames. Names are looked up once.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from steve.trace.callers import is_allocator
from steve.trace.stacks import Inherited, Sites, frame_text

if TYPE_CHECKING:
    from steve.trace._memtrace import Frame, Trace


class Line(NamedTuple):
    """file "" and line 0: not known. function: else the object's name in brackets, else "(unknown)"."""
    file: str
    line: int
    function: str


Owner = tuple[str, int, int, str]  # a function of Lua in its source: owner_of


class Found(NamedTuple):
    """A line and, of Lua code, the function in the source that it is a part of."""
    line: Line
    owner: Owner | None = None


LUA_FRAMES = ("lua", "inlined")
NOWHERE = Line("", 0, "(unknown)")


def line_of(frame: Frame) -> Line:
    """What a frame is called: of the code without names that of its object."""
    if frame.function or frame.file:
        return Line(frame.file, frame.line, frame.function)
    return Line("", 0, f"[{os.path.basename(frame.object)}]" if frame.object else NOWHERE.function)


def owner_of(file: str, function: str, defined: int, nth: int) -> Owner:
    """Which function of a file it is: the nth that begins on a line. It may be called by several names, which only
    tell functions apart of which it is not known where they begin."""
    return (file, defined, nth, "") if defined else (file, 0, 0, function)


# of a stack or frame: the line of Lua, that of a function with a name that is not the allocator; None: there is none
Lines = tuple[Found | None, Found | None]


def lua_line(frame: Frame) -> Found | None:
    """The line of Lua that a frame is at; vm: the parser reads it."""
    if frame.line and (frame.kind in LUA_FRAMES or frame.kind == "vm"):
        return Found(line_of(frame), owner_of(frame.file, frame.function, frame.defined, frame.nth))
    return None


def named_line(frame: Frame) -> Found | None:
    """A frame that has a name and is not the allocator's."""
    return Found(line_of(frame)) if (frame.function or frame.file) and not is_allocator(frame) else None


class Places:
    """The places of one trace."""

    def __init__(self, trace: Trace) -> None:
        from steve.trace._memtrace import HOW_NAMES, TYPE_NAMES
        self.trace = trace
        self.sites = Sites(trace)
        self._lines: list[Line] = []  # by stack
        self._of_stacks: Inherited[Lines] = Inherited(trace, self._add_frame, (None, None))
        self._of_frames: dict[int, Lines] = {}
        self._of_sites: dict[tuple[int, ...] | None, Found] = {}
        self._functions: dict[Owner, str] = {}  # what they are called
        self._site_names: dict[int, str] = {}
        self._texts: dict[str, Callable[[int], str]] = {
            "site": self.site_name, "stack": self.stack_text,
            "function": lambda stack: self.stack_line(stack).function,
            "file": lambda stack: self.stack_line(stack).file,
            "heap": self.heap_kind, "how": lambda how: HOW_NAMES[how],
            "type": lambda number: TYPE_NAMES[number]}

    def text(self, field: str, number: int) -> str:
        """The text of a stack, heap or way of allocation; field: of steve.analysis.filter.TEXTS."""
        return self._texts[field](number)

    def site_name(self, stack: int) -> str:
        if stack not in self._site_names:
            self._site_names[stack] = self.sites.name(self.sites.frames(stack))
        return self._site_names[stack]

    def stack_text(self, stack: int) -> str:
        return " < ".join(frame_text(frame) for frame in self.trace.stack_frames(stack))

    def heap_kind(self, heap: int) -> str:
        known = self.trace.heap(heap)
        return known.kind if known is not None else ""

    def stack_line(self, stack: int) -> Line:
        """The line of a stack. Those before it are named first, so that a name does not depend on who is asked for."""
        for each in range(len(self._lines), stack + 1):
            self._lines.append(self._named(self.find_stack(each)))
        return self._lines[stack]

    def find_stack(self, stack: int) -> Found:
        """The line of a stack, called as its own frame has it."""
        lua, named = self._of_stacks.of(stack)
        if lua is not None or named is not None:
            return lua or named
        frames = self.trace.stack_frames(stack)
        return Found(line_of(frames[0]) if frames else NOWHERE)

    def _add_frame(self, number: int, callers: Lines) -> Lines:
        """What a stack's lines are, by its innermost frame and those of its callers."""
        if number not in self._of_frames:
            frame = self.trace.frame(number)
            self._of_frames[number] = (None, None) if frame is None else (lua_line(frame), named_line(frame))
        lua, named = self._of_frames[number]
        return lua or callers[0], named or callers[1]

    def access_line(self, site: int) -> Line:
        """The line of an access site."""
        return self._named(self.find_site(site))

    def find_site(self, site: int) -> Found:
        """The line of an access site, called as its own frame has it."""
        key = self.trace.site_key(site)
        if key not in self._of_sites:
            known = self.trace.site(site)
            frame = self.trace.frame(known.frame) if known is not None and known.frame else None
            owner = owner_of(frame.file, frame.function, frame.defined, frame.nth) \
                if frame is not None and frame.kind in LUA_FRAMES else None
            self._of_sites[key] = Found(NOWHERE if frame is None else line_of(frame), owner)
        return self._of_sites[key]

    def _named(self, found: Found) -> Line:
        """A function of Lua has one name, though it may be called by several: that of its first stack."""
        if found.owner is None:
            return found.line
        return found.line._replace(function=self._functions.setdefault(found.owner, found.line.function))

    def find_proto(self, number: int) -> list[Found]:
        """The lines of the instructions of a Lua prototype. It does not know what its function is called."""
        proto = self.trace.proto(number)
        owner = owner_of(proto.file, proto.function, proto.defined, proto.nth)
        return [Found(Line(proto.file, line, proto.function), owner) for line in proto.lines]
