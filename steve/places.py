"""Where in the program something happens: lines and sites of stacks and of access sites.

The line of a stack is its innermost frame of a Lua function or, where there is none, that has a name and is
not the allocator itself; the line of an
access is that of its instruction. A site is longer: the three innermost frames. Names are looked up once.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import os
from typing import TYPE_CHECKING, Callable, Dict, List, NamedTuple, Tuple

from steve.callers import is_allocator
from steve.stacks import Sites, frame_text

if TYPE_CHECKING:
    from steve._memtrace import Frame, Trace


class Line(NamedTuple):
    """file "" and line 0: not known. function: else the object's name in brackets, else "(unknown)"."""
    file: str
    line: int
    function: str


class Found(NamedTuple):
    """A line, whether it is of Lua code, and whether all that is known is that the parser is there: then the
    function is not that of the line."""
    line: Line
    is_lua: bool
    is_parsed: bool = False


LUA_FRAMES = ("lua", "inlined")
NOWHERE = Line("", 0, "(unknown)")


def line_of(frame: "Frame") -> Line:
    """What a frame is called: of the code without names that of its object."""
    if frame.function or frame.file:
        return Line(frame.file, frame.line, frame.function)
    return Line("", 0, f"[{os.path.basename(frame.object)}]" if frame.object else NOWHERE.function)


class Places:
    """The places of one trace."""

    def __init__(self, trace: "Trace") -> None:
        from steve._memtrace import HOW_NAMES, TYPE_NAMES
        self.trace = trace
        self.sites = Sites(trace)
        self._lines: List[Line] = []  # by stack
        self._lua_lines: Dict[Tuple[str, int], Line] = {}
        self._site_names: Dict[int, str] = {}
        self._texts: Dict[str, Callable[[int], str]] = {
            "site": self.site_name, "stack": self.stack_text,
            "function": lambda stack: self.stack_line(stack).function,
            "file": lambda stack: self.stack_line(stack).file,
            "heap": self.heap_kind, "how": lambda how: HOW_NAMES[how],
            "type": lambda number: TYPE_NAMES[number]}

    def text(self, field: str, number: int) -> str:
        """The text of a stack, heap or way of allocation; field: of steve.where.TEXTS."""
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

    def find_stack(self, stack: int) -> "Found":
        """The line of a stack, called as its own frame has it."""
        frames = self.trace.stack_frames(stack)
        for frame in frames:
            if frame.line and (frame.kind in LUA_FRAMES or frame.kind == "vm"):  # vm: the parser is there
                return Found(line_of(frame), True, frame.kind == "vm")
        for frame in frames:
            if (frame.function or frame.file) and not is_allocator(frame):
                return Found(line_of(frame), False)
        return Found(line_of(frames[0]) if frames else NOWHERE, False)

    def access_line(self, site: int) -> Line:
        """The line of an access site."""
        return self._named(self.find_site(site))

    def find_site(self, site: int) -> "Found":
        """The line of an access site, called as its own frame has it."""
        known = self.trace.site(site)
        frame = self.trace.frame(known.frame) if known is not None and known.frame else None
        return Found(NOWHERE, False) if frame is None else Found(line_of(frame), frame.kind in LUA_FRAMES)

    def _named(self, found: "Found") -> Line:
        """A line of Lua code has one name, though its function may be called by several: that of its first stack."""
        if not found.is_lua:
            return found.line
        known = self._lua_lines.get(found.line[:2], found.line)
        return known if found.is_parsed else self._lua_lines.setdefault(known[:2], known)

    def find_proto(self, number: int) -> List["Found"]:
        """The lines of the instructions of a Lua prototype. It does not know what its function is called."""
        proto = self.trace.proto(number)
        return [Found(Line(proto.file, line, proto.function), True) for line in proto.lines]
