"""Locks from call stacks of Lua programs, against a slow reference: Lua functions count as functions.

A story is a list of events: instructions that an interpreter loads, accesses by code of several kinds, calls
on JIT traces, states of the virtual machine, heap operations, marks.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from conftest import Steve, examples, make_trace

# (file, first line) of the prototypes, whose blocks are at 65536, 66560...; their instructions begin at
# offset 104
PROTOS = (("x.lua", 1), ("x.lua", 10), ("y.lua", 1))
X1, X10, Y1 = PROTOS
# the code that makes an access, in the notation of mktrace, and its function
SITES = {"[vm.so]": "object", "lua_rawget": "C rawget", "f@@x.lua:2/1": X1, "g@@x.lua:11/10": X10, "": None}
SITE_NAMES = list(SITES)
STACKS: tuple[tuple[str, ...], ...] = (
    ("[vm.so]",),
    ("main", "f@@x.lua:3/1"),
    ("main", "f@@x.lua:3/1", "[vm.so]", "h@@x.lua:12/10"),
    ("g@@y.lua:2/1", "lua_rawget"),
    ("main",),
)
FUNCTIONS = {**SITES, "main": "C main", "f@@x.lua:3/1": X1, "h@@x.lua:12/10": X10, "g@@y.lua:2/1": Y1}
CALLS = ("g@@y.lua:2/1", "f@@x.lua:3/1")
GC, INTERP = 2, 0
OTHER = 32768  # a block that is accessed before each call, because traces omit calls that change nothing
LUA, MALLOC = 1, 0


class Doing(NamedTuple):
    """One event. what: one of WHATS, or mark a or b; who: the thread, from 1; which, how: depend on `what`;
    heap: the heap."""

    what: str
    who: int
    which: int
    how: int
    heap: int


WHATS = ("fetch", "fetch", "access", "access", "access", "call", "gc", "interp", "N", "N", "F", "R")
Story = list[Doing]
RUNS = examples(30)


@st.composite
def stories(draw: st.DrawFn) -> Story:
    story = [
        Doing(
            draw(st.sampled_from(WHATS)),
            draw(st.integers(1, 2)),
            draw(st.integers(0, 7)),
            draw(st.integers(0, 5)),
            draw(st.sampled_from((LUA, LUA, MALLOC))),
        )
        for _ in range(draw(st.integers(0, 90)))
    ]
    for name in "ab":
        story.insert(draw(st.integers(0, len(story))), Doing(name, 1, 0, 0, 0))
    return story


def place(which: int) -> int:
    return 1 << 20 | which << 12


class Telling:
    """Converts a story to a script of mktrace and to the lines that --stack must write for it: for the blocks
    of one heap (None: all), between the named marks."""

    def __init__(self, story: Story, heap: int | None = None, begin: str = "", end: str = "") -> None:
        self.heap, self.begin, self.end = heap, begin, end
        self.script = ["heap 77 lua", *("stack " + " ".join(stack) for stack in STACKS)]
        self.lines: list[str] = []
        self.counts = not begin
        self.made = 0
        self.live: dict[int, tuple[int, int | None]] = {}  # by address: heap, and number if the block counts
        self.pins: dict[int, set[tuple]] = {}  # by number: (thread, function)
        self.now: dict[int, object] = {}
        self.collects: dict[int, bool] = {}
        self.new(1, OTHER, 8, MALLOC, 0)
        for i, (file, line) in enumerate(PROTOS):
            self.new(1, 65536 + 1024 * i, 500, LUA, 0)
            self.script.append(f"proto {65536 + 1024 * i} 1 104 @{file}/{line} 1 2 3 4 5 6")
        for doing in story:
            self.take(doing)

    def text(self) -> str:
        return "\n".join(self.script) + "\nend exit\n"

    def take(self, d: Doing) -> None:
        if d.what in ("a", "b"):
            self.script.append(f"mark {d.what}")
            self.counts = (self.counts or d.what == self.begin) and not (self.counts and d.what == self.end)
            self.begin, self.end = ("", self.end) if d.what == self.begin else (self.begin, self.end)
            return
        self.script.append(f"thread {d.who}")
        if d.what == "fetch":
            self.fetch(d.who, d.which % len(PROTOS), d.how)
        elif d.what == "access":
            self.access(d)
        elif d.what == "call":
            self.script += ["at [vm.so]", f"L {OTHER} 4", f"call {CALLS[d.how % 2]}"]
            self.touch(d.who, OTHER, "object")
            self.now[d.who] = FUNCTIONS[CALLS[d.how % 2]]
        elif d.what in ("gc", "interp"):
            self.script.append(f"state 1 {GC if d.what == 'gc' else INTERP}")
            self.collects[d.who] = d.what == "gc"
        else:
            self.change(d)

    def fetch(self, who: int, proto: int, instruction: int) -> None:
        addr = 65536 + 1024 * proto
        self.script += ["at [vm.so]", f"L {addr + 104 + 4 * instruction} 4"]
        self.now[who] = PROTOS[proto]
        self.touch(who, addr, "object")

    def access(self, d: Doing) -> None:
        addr, name = place(d.which), SITE_NAMES[d.how % len(SITES)]
        self.script += [f"at {name}", f"{'LSM'[d.how % 3]} {addr + 8} 4"]
        if addr not in self.live:
            return
        if SITES[name] in PROTOS:
            self.now[d.who] = SITES[name]
        self.touch(d.who, addr, SITES[name])

    def touch(self, who: int, addr: int, site: object) -> None:
        """An access by code whose function is `site`."""
        heap, number = self.live[addr]
        if number is None or not self.counts:
            return
        makers = {site}
        lua = "collector" if self.collects.get(who) else self.now.get(who)
        if heap == LUA and site not in PROTOS and lua is not None:
            makers = {lua} | ({site} if str(site).startswith("C ") else set())
        if not self.pins[number]:
            self.lines.append(f"{number} L 0 0")
        self.pins[number] |= {(who, maker) for maker in makers}

    def change(self, d: Doing) -> None:
        addr, stack, size = place(d.which), d.how, 64 + d.how
        what = d.what if addr in self.live else "N"
        what = "F" if d.what == "N" and addr in self.live else what
        if what == "N":
            self.new(d.who, addr, size, d.heap, stack)
            return
        heap, number = self.live[addr]
        self.script.append(f"R {addr} {addr} {size} {stack} {heap}" if what == "R" else f"F {addr} {stack} {heap}")
        if number is None or not self.counts:
            self.live = {at: value for at, value in self.live.items() if at != addr or what == "R"}
            return
        self.learn(d.who, stack)
        del self.pins[number]
        del self.live[addr]
        self.lines.append(f"{number} F {addr} 0")
        if what == "R":
            self.begin_block(addr, size, heap)

    def new(self, who: int, addr: int, size: int, heap: int, stack: int) -> None:
        self.script.append(f"N {addr} {size} {stack} {heap}")
        self.live[addr] = heap, None
        if self.counts and self.heap in (None, heap):
            self.learn(who, stack)
            self.begin_block(addr, size, heap)

    def begin_block(self, addr: int, size: int, heap: int) -> None:
        self.live[addr], self.pins[self.made] = (heap, self.made), set()
        self.lines.append(f"{self.made} N {addr} {size}")
        self.made += 1

    def learn(self, who: int, stack: int) -> None:
        """From the stack of a heap operation that counts: which functions have returned?"""
        if not stack:
            return
        there = {FUNCTIONS[frame] for frame in STACKS[stack - 1]} | {self.now.get(who)}
        there = (there | ({"collector"} if self.collects.get(who) else set())) - {None}
        for number, pins in sorted(self.pins.items()):
            left = {pin for pin in pins if pin[0] != who or pin[1] in there}
            self.lines += [f"{number} U 0 0"] * bool(pins and not left)
            self.pins[number] = left


def found(folder: str, *options: str) -> list[str]:
    words = ["steve", "lockops", "--stack", "-q", "-o", "-", f"{folder}/t.ljt", *options]
    return subprocess.run(words, capture_output=True, check=True).stdout.decode().splitlines()


@RUNS
@given(stories(), st.integers(1, 9))
def test_functions_of_lua(story: Story, chunk: int) -> None:
    telling = Telling(story)
    with tempfile.TemporaryDirectory() as folder:
        make_trace(Path(folder) / "t.ljt", telling.text(), chunk)
        assert found(folder) == telling.lines


@RUNS
@given(stories(), st.sampled_from((None, LUA, MALLOC)), st.sampled_from((("a", ""), ("", "a"), ("", ""))))
def test_of_chosen_blocks(story: Story, heap: int | None, ends: tuple[str, str]) -> None:
    """Events that are not selected still show which Lua function runs."""
    telling = Telling(story, heap, *ends)
    options = [] if heap is None else ["--where", f'heap = "{("malloc", "lua")[heap]}"']
    options += [word for word in (f"--from={ends[0]}", f"--to={ends[1]}") if not word.endswith("=")]
    with tempfile.TemporaryDirectory() as folder:
        make_trace(Path(folder) / "t.ljt", telling.text(), 5)
        assert found(folder, *options) == telling.lines


def test_a_function_of_lua_lets_go_when_it_returns(steve: Steve, trace) -> None:
    """All code belongs to LuaJIT and has no name, so it is on every stack. f returns between the second and the
    third New."""
    trace(
        "heap 77 lua\nstack [luajit]\nstack [luajit] main@@a.lua:9/0 f@@a.lua:2/1 [luajit]\n"
        "stack [luajit] main@@a.lua:9/0 [luajit]\n"
        "N 4096 200 1 1\nproto 4096 1 104 @a.lua/1 2 3\nN 8192 200 1 1\nproto 8192 1 104 @a.lua/0 9 9\n"
        "N 12288 64 1 1\n"
        "at [luajit]\nL 8296 4\nL 4200 4\nL 12288 8\nN 16384 64 2 1\nL 8300 4\nN 20480 64 3 1\nend exit\n"
    )
    assert steve("lockops", "--stack", "-o", "-", "t.ljt").out.splitlines()[3:] == [
        "1 L 0 0",
        "0 L 0 0",
        "2 L 0 0",
        "3 N 16384 64",
        "0 U 0 0",
        "2 U 0 0",
        "4 N 20480 64",
    ]
