"""The policy of all views and exports: which frames of a stack they show.

A stack begins at the code that needed the memory. Functions that only allocate are left out at its inner end, with all
that they call: malloc and its relatives, wrappers of them (alloc_functions.txt lists those that are well known,
--alloc-fn adds others), and LuaJIT's own code that works for a line of Lua. Frames of the recorder's own libraries are
left out everywhere, and so is LuaJIT's own code between frames of Lua. If nothing else is in a stack, the outermost
frame that allocates stays.

A stack ends at the start of the program or thread: main or start_thread. What calls these is left out, and code that
runs before or after main ends where the C library's start code calls it. A stack that the recorder cut ends at the frame
that says so.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import os
import re
from array import array
from collections.abc import Container, Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from steve.trace.frames import is_native, short_name, without_return_type

if TYPE_CHECKING:
    import argparse

    import numpy as np

    from steve.trace._memtrace import Frame, Module, Trace

ALLOC_FUNCTIONS = os.path.join(os.path.dirname(__file__), "alloc_functions.txt")
RECORDERS = ("vgpreload_ljtrace", "libljtrace-")  # prefixes of the recorder's libraries inside the program
INTERNAL = "lj_"  # prefix of functions that only LuaJIT calls
API = ("lua_", "luaL_")  # prefixes of the functions of LuaJIT's C API
START_OF_THREAD = "start_thread"  # of the C library
STARTS = frozenset(("main", START_OF_THREAD))
BELOW_MAIN = re.compile(r"\(below main\)|_start|__libc_start_(main|call_main).*|(__)?clone[23]?|thread_start")
RUNS_CODE = re.compile(r"::(construct|destroy)[<(]")  # functions of allocators that call constructors or destructors
CUT = "cut"  # the kind of the frame at which the recorder cut a stack
INLINED = "inlined"  # the kind of functions that a compiler inlined in that of the next frame


class Policy(NamedTuple):
    """What the options choose. alloc_fns: further patterns for names of functions that only allocate; keep_alloc_fns:
    show all frames of the inner end; short: elide parts of long names."""

    alloc_fns: tuple[str, ...] = ()
    keep_alloc_fns: bool = False
    short: bool = False


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add --alloc-fn, --keep-alloc-fns and --names."""
    parser.add_argument(
        "--alloc-fn",
        metavar="PATTERN",
        dest="alloc_fns",
        action="append",
        default=[],
        help="leave out functions of this name, too, and what they call, at the inner end of stacks; "
        "* is any text; may be repeated",
    )
    parser.add_argument("--keep-alloc-fns", action="store_true", help="show the functions that only allocate")
    parser.add_argument(
        "--names",
        choices=("short", "full"),
        help="elide the arguments of templates and types of parameters in long names, and hashes of Rust, or show whole names "
        "(default: short in a table, else full)",
    )


def of_arguments(args: argparse.Namespace) -> Policy:
    """The policy that the arguments of add_arguments() choose; the default one if there are no such arguments."""
    return Policy(
        tuple(getattr(args, "alloc_fns", ())),
        getattr(args, "keep_alloc_fns", False),
        getattr(args, "names", None) == "short",
    )


def short_in_table(args: argparse.Namespace) -> bool:
    """Shall a list have short names? args: those of add_arguments() and of steve.terminal.listing."""
    if args.names is not None:
        return args.names == "short"
    return not (args.json or args.csv)


@lru_cache(maxsize=None)
def known_alloc_functions() -> tuple[str, ...]:
    """The patterns of alloc_functions.txt."""
    with open(ALLOC_FUNCTIONS, encoding="utf-8") as file:
        lines = [line.partition("#")[0].strip() for line in file]
    return tuple(filter(None, lines))


def glob(patterns: Iterable[str]) -> re.Pattern[str]:
    """A regular expression that matches the names that one of the patterns fits. In a pattern, * is any text and ? any
    character."""
    parts = [re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".") for pattern in patterns]
    return re.compile("|".join(parts) or r"(?!)", re.DOTALL)


@lru_cache(maxsize=None)
def _alloc_names(more: tuple[str, ...]) -> re.Pattern[str]:
    return glob((*known_alloc_functions(), *more))


NAMES_OF_C = re.compile(r"[a-z_*]+")  # patterns of functions of C allocators, as those of a prefix


def named_functions(recording: dict[str, str]) -> tuple[str, ...]:
    """The patterns of allocation functions that the recorder's options have named. recording: the facts of a trace."""
    prefixes = [prefix for prefix in recording.get("alloc_prefix", "").split(",") if prefix]
    names = [name for name in known_alloc_functions() if NAMES_OF_C.fullmatch(name)] if prefixes else []
    observed = [pattern for pattern in recording.get("observe_alloc", "").split(",") if pattern]
    return (*observed, *(prefix + name for prefix in prefixes for name in names))


@lru_cache(maxsize=None)
def _names_of_c_heap() -> re.Pattern[str]:
    return glob(
        name for name in known_alloc_functions() if NAMES_OF_C.fullmatch(name) or name.startswith("operator new")
    )


def is_of_c_heap(frame: Frame) -> bool:
    """Is it a frame of malloc, of operator new or of another function that allocates from the C heap?"""
    return bool(_names_of_c_heap().fullmatch(frame.function))


def only_allocates(frame: Frame, more: tuple[str, ...] = ()) -> bool:
    """Is it a frame of a function that only allocates? more: patterns of --alloc-fn."""
    pattern, name = _alloc_names(more), frame.function
    return bool(name) and bool(pattern.fullmatch(name) or pattern.fullmatch(without_return_type(name)))


@lru_cache(maxsize=4096)
def _is_recorders(object_name: str) -> bool:
    return os.path.basename(object_name).startswith(RECORDERS) or object_name.endswith("/ljtrace/misc.so")


@lru_cache(maxsize=4096)
def _is_luajit(object_name: str) -> bool:
    return "luajit" in os.path.basename(object_name)


RUNTIME = (
    "libc.so",
    "libc-",
    "libstdc++.so",
    "libc++.so",
    "libc++abi.so",
    "libgcc_s.so",
    "ld-linux",
    "ld-2",
    "libpthread.so",
    "libpthread-",
    "ld-musl",
)  # beginnings of the names of runtime libraries' files
# Beginnings of names in the C++ and Rust libraries, also of Rust's types and of references to them, as in
# `<&alloc::vec::Vec<u8> as core::ops::deref::Deref>::deref`. A function of Rust's own types is its library's.
LIBRARY_NAME = re.compile(
    r"(std|__gnu_cxx|core|alloc|hashbrown|__rustc)::|operator |__cxa_|<[&*]?(mut |const )?"
    r"((std|core|alloc|hashbrown)::|(\[|\(|fn|str|bool|char|[iuf](8|16|32|64|128|size))\b.* as "
    r"(std|core|alloc|hashbrown)::)"
)


# Files of the C++ and Rust libraries, as compilers and distributions install and build them. Code of these is compiled into
# programs: templates, generic and inlined functions.
LIBRARY_FILE = re.compile(
    r"(.*/)?(include/c\+\+/|c\+\+/v1/|libstdc\+\+-v3/|libcxx(abi)?/|hashbrown-[^/]*/src/|"
    r"library/(alloc|core|std|std_detect|stdarch|portable-simd|proc_macro|backtrace|panic_(abort|unwind))/)"
)


@lru_cache(maxsize=4096)
def _is_library_file(file: str) -> bool:
    return bool(LIBRARY_FILE.match(file))


def is_of_library(frame: Frame) -> bool:
    """Does the function belong to the library of C++ or Rust? Its file shows that or, if that is unknown, its name."""
    if frame.file:
        return _is_library_file(frame.file)
    return bool(LIBRARY_NAME.match(without_return_type(frame.function)))


def is_of_runtime(frame: Frame) -> bool:
    """Does the frame belong to the C or C++ library or to the dynamic linker?"""
    return os.path.basename(frame.object).startswith(RUNTIME)


def is_own(frame: Frame) -> bool:
    """Is it a frame of the program's own code, which no standard library contains?"""
    return not (is_of_runtime(frame) or frame.kind in (CUT, "vm", "fast") or is_of_library(frame))


# Kinds of frames, as far as the policy distinguishes them. CONSTRUCTS: a function of an allocator that calls constructors
# or destructors, which may allocate themselves.
(PLAIN, ALLOCATES, CONSTRUCTS, GLUE, START, BELOW, CUT_OFF, LUA, LUAJIT, LUAJIT_API, NAMELESS) = range(11)


def category(frame: Frame | None, more: tuple[str, ...] = ()) -> int:
    """The kind of a frame. LUAJIT is LuaJIT's own code, LUAJIT_API functions of its C API. NAMELESS is code without a
    name, which is LuaJIT's if LuaJIT was linked into its object. more: patterns of --alloc-fn."""
    if frame is None:
        return PLAIN
    if frame.kind == CUT:
        return CUT_OFF
    if not is_native(frame):
        return ALLOCATES if frame.kind in ("c", "fast") and only_allocates(frame, more) else LUA
    if _is_recorders(frame.object):
        return ALLOCATES if only_allocates(frame, more) else GLUE
    name = frame.function
    if name in STARTS:
        return START
    if only_allocates(frame, more):
        return CONSTRUCTS if RUNS_CODE.search(name) else ALLOCATES
    if name.startswith(API):
        return LUAJIT_API
    if name.startswith(INTERNAL) or _is_luajit(frame.object):
        return LUAJIT
    if BELOW_MAIN.fullmatch(name):
        return BELOW
    return PLAIN if name else NAMELESS


# Flags of a stack. START_CODE: it has frames of start code only. EMPTY: no frame of it can begin a stack. STARTED: it
# has a frame at which stacks end. IN_LUA: it has a frame of Lua. HIDDEN: its innermost frame is never shown. ALLOCATING:
# a function that only allocates calls its innermost frame, or is it.
FEW = 1 << 14  # stacks that are looked at together, as Python's numbers
START_CODE, EMPTY, STARTED, IN_LUA, HIDDEN, ALLOCATING = (1 << i for i in range(6))


class State(NamedTuple):
    """What the policy needs to know of a stack. machine: the number of the object that calls the outermost frame of Lua;
    innermost: that of the innermost frame. 0: none."""

    flags: int
    machine: int
    innermost: int


class Step(NamedTuple):
    """What an innermost frame makes of a stack, given the state of its callers. state: the number of its own state;
    ends: the shown stack has no callers; skips: the innermost frame of the callers is not shown; drops: the shown
    stack is that of the callers."""

    state: int
    ends: bool
    skips: bool
    drops: bool


def grouped_places(ids: Sequence[int], inlined: Container[int]) -> list[tuple[int, ...]]:
    """The frames of a stack, a function with those that were inlined in it. inlined: the frames that were."""
    found, group = [], []
    for number in ids:
        group.append(number)
        if number not in inlined:
            found.append(tuple(group))
            group = []
    return [*found, tuple(group)] if group else found


class ShownStacks:
    """The stacks of a trace as views show them.

    A shown stack is named by the id of a recorded stack, that of which its innermost frame is the innermost. Each
    recorded stack is looked at once, after the stack of its callers. Memory: 16 bytes for each stack."""

    def __init__(self, trace: Trace, policy: Policy = Policy()) -> None:
        self.trace, self.policy = trace, policy
        self._named: tuple[str, ...] | None = None  # patterns of functions that only allocate, by options
        self._shown, self._outer, self._frames = array("I", [0]), array("I", [0]), array("I", [0])
        self._states = array("I", [0])
        self._known = [State(START_CODE | EMPTY, 0, 0)]
        self._numbers = {self._known[0]: 0}
        self._steps: dict[tuple[int, int], Step] = {}  # by the state of the callers and the frame
        self._categories: dict[int, int] = {}
        self._inlined: set[int] = set()
        self._objects: dict[str, int] = {"": 0}
        self._object_of: dict[int, int] = {}
        self._modules: dict[str, list[Module]] = {}  # by object

    def stack(self, stack: int) -> int:
        """The shown stack of a recorded stack; 0 if it is unknown or none."""
        return self._shown[stack] if self._reach(stack) else 0

    def stacks(self, stacks: np.ndarray) -> np.ndarray:
        """stack() of each stack of an array of ids."""
        import numpy as np

        self._reach(int(stacks.max(initial=0)))
        return np.frombuffer(self._shown, "u4")[np.where(stacks < len(self._shown), stacks, 0)]

    def inner(self, shown: np.ndarray) -> np.ndarray:
        """frame() of each stack of such an array."""
        import numpy as np

        return np.frombuffer(self._frames, "u4")[shown]

    def outer(self, shown: int) -> int:
        """The shown stack without its innermost frame; 0 if it has no other."""
        return self._outer[shown]

    def frame(self, shown: int) -> int:
        """The id of the innermost frame of a shown stack; 0 for stack 0."""
        return self._frames[shown]

    def named(self, frame: int) -> Frame | None:
        """The frame with an id, with the name that the policy chooses; None if it is unknown. A function without a name
        is known by its address, which is that in the object's file: the address in memory differs from run to run."""
        found = self.trace.frame(frame)
        if found is None:
            return None
        found = self.in_file(found)
        return found._replace(function=short_name(found.function)) if self.policy.short else found

    def in_file(self, frame: Frame) -> Frame:
        """A frame of a function without a name has the address in the object's file, if it is known where that was."""
        if frame.function or not frame.object:
            return frame
        if not self._modules.get(frame.object):
            self._modules[frame.object] = [module for module in self.trace.modules() if module.object == frame.object]
        for module in self._modules[frame.object]:
            if module.start <= frame.ip < module.start + module.size:
                return frame._replace(ip=frame.ip - module.bias)
        return frame

    def is_inlined(self, frame: int) -> bool:
        """Is it a frame of a function that a compiler inlined in the function of the next frame?"""
        return frame in self._inlined

    def is_programs(self, frame: int) -> bool:
        """Is it a frame of the program's own code, which can stand for what a library does for it? Not if its function
        starts the program or only allocates; main is one if its line is known."""
        found, kind = self.trace.frame(frame), self._category(frame)
        if found is None or kind not in (PLAIN, START) or (kind == START and not found.file):
            return False
        return bool(found.function or found.file) and is_own(found)

    def places(self, ids: Sequence[int]) -> list[tuple[int, ...]]:
        """The frames of a stack by place in the machine code: a function with those that were inlined in it, innermost
        first. ids: of all frames of the stack, innermost first."""
        return grouped_places(ids, self._inlined)

    def __len__(self) -> int:
        """A number above that of any stack."""
        return self.trace.counts()["stacks"] + 1

    def ids(self, stack: int) -> list[int]:
        """The ids of the shown frames of a recorded stack, innermost first; [0] if it is unknown or none."""
        shown, ids = self.stack(stack), []
        while shown:
            ids.append(self._frames[shown])
            shown = self._outer[shown]
        return ids or [0]

    def frames(self, stack: int) -> list[Frame]:
        """The shown frames of a recorded stack, innermost first; [] if it is unknown or none."""
        return [self.named(number) for number in self.ids(stack) if number]

    def table(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """All stacks read so far: arrays of the results of stack(), outer() and frame(), by stack id. They are views, and
        while one exists no more stacks can be looked at (BufferError)."""
        import numpy as np

        self._reach(self.trace.counts()["stacks"] - 1)
        return (
            np.frombuffer(self._shown, "u4"),
            np.frombuffer(self._outer, "u4"),
            np.frombuffer(self._frames, "u4"),
        )

    def merged(self, stacks: np.ndarray, columns: Iterable[np.ndarray]) -> tuple[np.ndarray, list[np.ndarray]]:
        """The sums of numbers of recorded stacks by shown stack: the ids of the shown stacks, in order, and for each
        column an array that is parallel to them."""
        import numpy as np

        shown = self.stacks(stacks)
        order = shown.argsort(kind="stable")
        starts = np.flatnonzero(np.diff(shown[order].astype("i8"), prepend=-1))
        sums = [np.add.reduceat(column[order], starts) if len(starts) else column.copy() for column in columns]
        return shown[order[starts]], sums

    def _reach(self, stack: int) -> bool:
        """Look at all stacks up to this one, as far as the trace has defined them; false if it is not defined."""
        if stack < len(self._shown):
            return True
        end = min(stack + 1, self.trace.counts()["stacks"])
        for first in range(len(self._shown), end, FEW):
            self._look_at(first, min(first + FEW, end))
        return stack < end

    def _look_at(self, first: int, end: int) -> None:
        """Look at the next stacks, from one to before another."""
        shown, outer, frames, states, steps = self._shown, self._outer, self._frames, self._states, self._steps
        links = (column.tolist() for column in self.trace.stack_links(first, end))
        for each, callers, frame in zip(range(first, end), *links):
            callers = callers if callers < each else 0
            step = steps.get((states[callers], frame)) or self._step(states[callers], frame)
            outer.append(0 if step.ends else outer[callers] if step.skips else callers)
            shown.append(shown[callers] if step.drops else each)
            frames.append(frame)
            states.append(step.state)

    def _step(self, of_callers: int, frame: int) -> Step:
        """What a frame adds to callers with the state of this number."""
        kind, known, keeps = self._category(frame), self._known[of_callers], self.policy.keep_alloc_fns
        flags, machine = known.flags & (STARTED | IN_LUA | ALLOCATING), known.machine
        native = self._object_of.get(frame, 0)
        if kind == ALLOCATES:
            flags |= ALLOCATING
        if known.flags & START_CODE and kind == BELOW:
            flags |= START_CODE | EMPTY
        if kind == CUT_OFF:
            flags |= STARTED | EMPTY
        if kind == LUA:
            machine = machine if flags & IN_LUA else known.innermost
            flags |= IN_LUA
        is_machine = kind in (LUAJIT, LUAJIT_API) or kind == NAMELESS and machine != 0 and native == machine
        if kind == GLUE or is_machine and flags & IN_LUA and not keeps:
            flags |= HIDDEN
        starts = kind == START and not flags & STARTED
        state = State(flags | STARTED if starts else flags, machine, native)
        number = self._numbers.setdefault(state, len(self._known))
        if number == len(self._known):
            self._known.append(state)
        allocates = flags & ALLOCATING or kind in (CONSTRUCTS, LUAJIT)
        drops = (flags & HIDDEN or allocates and not keeps) and not known.flags & EMPTY
        self._steps[of_callers, frame] = Step(
            number, starts or bool(known.flags & START_CODE), bool(known.flags & HIDDEN), bool(drops)
        )
        return self._steps[of_callers, frame]

    def _category(self, frame: int) -> int:
        if frame not in self._categories:
            if self._named is None:
                self._named = (*self.policy.alloc_fns, *named_functions(self.trace.info()))
            found = self.trace.frame(frame)
            self._categories[frame] = category(found, self._named)
            if found is not None and found.kind == INLINED:
                self._inlined.add(frame)
            if found is not None and is_native(found):
                self._object_of[frame] = self._objects.setdefault(found.object, len(self._objects))
        return self._categories[frame]
