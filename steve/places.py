"""Where in the program something happens: lines and sites of stacks and of access sites.

The line of a stack is its innermost frame of a Lua function or, where there is none, that has a name and is
not the allocator itself; the line of an
access is that of its instruction. A site is longer: the three innermost frames. Names are looked up once.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import os
from typing import TYPE_CHECKING, Callable, Dict, List, NamedTuple, Optional, Tuple

from steve.callers import is_allocator
from steve.stacks import Inherited, Sites, frame_text

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


# of a stack or frame: the line of Lua, that of a function with a name that is not the allocator; None: there is none
Lines = Tuple[Optional[Found], Optional[Found]]


def lua_line(frame: "Frame") -> Optional[Found]:
    """The line of Lua that a frame stands for; vm: the parser is there."""
    if frame.line and (frame.kind in LUA_FRAMES or frame.kind == "vm"):
        return Found(line_of(frame), True, frame.kind == "vm")
    return None


def named_line(frame: "Frame") -> Optional[Found]:
    """A frame that has a name and is not the allocator's."""
    return Found(line_of(frame), False) if (frame.function or frame.file) and not is_allocator(frame) else None


class Places:
    """The places of one trace."""

    def __init__(self, trace: "Trace") -> None:
        from steve._memtrace import HOW_NAMES, TYPE_NAMES
        self.trace = trace
        self.sites = Sites(trace)
        self._lines: List[Line] = []  # by stack
        self._of_stacks: Inherited[Lines] = Inherited(trace, self._add_frame, (None, None))
        self._of_frames: Dict[int, Lines] = {}
        self._of_sites: "Dict[Optional[Tuple[int, ...]], Found]" = {}
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
        lua, named = self._of_stacks.of(stack)
        if lua is not None or named is not None:
            return lua or named
        frames = self.trace.stack_frames(stack)
        return Found(line_of(frames[0]) if frames else NOWHERE, False)

    def _add_frame(self, number: int, callers: "Lines") -> "Lines":
        """What a stack's lines are, by its innermost frame and those of its callers."""
        if number not in self._of_frames:
            frame = self.trace.frame(number)
            self._of_frames[number] = (None, None) if frame is None else (lua_line(frame), named_line(frame))
        lua, named = self._of_frames[number]
        return lua or callers[0], named or callers[1]

    def access_line(self, site: int) -> Line:
        """The line of an access site."""
        return self._named(self.find_site(site))

    def find_site(self, site: int) -> "Found":
        """The line of an access site, called as its own frame has it."""
        key = self.trace.site_key(site)
        if key not in self._of_sites:
            known = self.trace.site(site)
            frame = self.trace.frame(known.frame) if known is not None and known.frame else None
            self._of_sites[key] = Found(NOWHERE, False) if frame is None else \
                Found(line_of(frame), frame.kind in LUA_FRAMES)
        return self._of_sites[key]

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
