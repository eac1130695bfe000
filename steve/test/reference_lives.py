"""A reference implementation of the lives of blocks, for the tests of the analyses.

A run is a list of steps: events of reference.Event with their thread, stack and line, or names of marks. It
is slow, and it shares no code with the kernels.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from typing import NamedTuple

from reference import Event

STACKS = ("main parse@parser.lua:10 malloc", "main draw@ui.c:5", "main parse@parser.lua:10 grow@buf.c:7 realloc")
SITES = ("parse (parser.lua:10) < main", "draw (ui.c:5) < main", "grow (buf.c:7) < parse (parser.lua:10) < main")
LINES = (("parser.lua", 10, "parse"), ("ui.c", 5, "draw"), ("buf.c", 7, "grow"))
PLACES = ("draw@ui.c:5", "scan@parser.lua:20")
PLACE_LINES = (("ui.c", 5, "draw"), ("parser.lua", 20, "scan"))


class Step(NamedTuple):
    """An event, its thread (from 1), and the indices of its stack in STACKS and of its place in PLACES."""

    event: Event
    thread: int
    stack: int
    place: int


Run = list[Step | str]


def script(run: Run) -> str:
    """The run as a script of mktrace."""
    lines = [f"stack {stack}\n" for stack in STACKS]
    for step in run:
        if isinstance(step, str):
            lines.append(f"mark {step}\n")
            continue
        event, stack = step.event, step.stack + 1
        lines.append(f"thread {step.thread}\nat {PLACES[step.place]}\n")
        if event.letter == "R":
            lines.append(f"R {event.old} {event.addr} {event.size} {stack}\n")
        elif event.letter == "F":
            lines.append(f"F {event.addr} {stack}\n")
        else:
            tail = f" {stack}" if event.letter == "N" else ""
            lines.append(f"{event.letter} {event.addr} {event.size}{tail}\n")
    return "".join(lines) + "end exit\n"


def granule(size: int) -> int:
    """The bytes of a unit of utilisation: the smallest power of two of which 64 cover the block."""
    part = 1
    while part * 64 < size:
        part *= 2
    return part


class Block:
    """A block and what happens to it."""

    def __init__(self, handle: int, step: Step, now: int, news: int) -> None:
        self.handle, self.addr, self.size = handle, step.event.addr, step.event.size
        self.thread, self.stack, self.born, self.bytes = step.thread, step.stack, now, self.size
        self.news_before, self.resizes, self.died = news, 0, None
        self.uses: list[int] = []
        self.count = {"L": 0, "S": 0, "M": 0}
        self.bytes_read = self.bytes_written = self.free_thread = 0
        self.shared = self.freed = False
        self.parts: set[int] = set()
        self.by_line: list[tuple] = []

    def resize(self, event: Event) -> None:
        old, new = granule(self.size), granule(event.size)
        self.parts = {
            byte // new
            for part in self.parts
            for byte in range(part * old, (part + 1) * old)
            if byte // new * new < event.size
        }
        self.addr, self.size = event.addr, event.size
        self.bytes += event.size
        self.resizes += 1

    def access(self, step: Step, now: int) -> None:
        letter, size = step.event.letter, step.event.size
        self.uses.append(now)
        self.count[letter] += 1
        self.bytes_read += size * (letter in "LM")
        self.bytes_written += size * (letter in "SM")
        self.shared |= step.thread != self.thread
        offset = step.event.addr - self.addr
        self.parts |= {byte // granule(self.size) for byte in range(offset, min(offset + size, self.size))}
        self.by_line.append((step.place, step.thread, letter, size))

    def used(self) -> int:
        part = granule(self.size)
        return sum(min(part, self.size - i * part) for i in self.parts if i * part < self.size)

    def end(self, now: int, news: int) -> None:
        self.died, self.news = now, news - self.news_before - 1

    def record(self) -> dict[str, int]:
        return {
            "handle": self.handle,
            "size": self.size,
            "bytes": self.bytes,
            "resizes": self.resizes,
            "born": self.born,
            "died": self.died,
            "first_use": (self.uses or [self.died])[0],
            "last_use": (self.uses or [self.died])[-1],
            "loads": self.count["L"],
            "stores": self.count["S"],
            "modifies": self.count["M"],
            "bytes_read": self.bytes_read,
            "bytes_written": self.bytes_written,
            "used": self.used(),
            "news": self.news,
            "thread": self.thread,
            "free_thread": self.free_thread,
            "freed": int(self.freed),
            "shared": int(self.shared),
            "peak_bytes": self.peak_bytes,
        }


class Lives:
    """All blocks of a run, in `blocks`. Their peak_bytes are the bytes live at the last peak."""

    def __init__(self, run: Run, first: str | None = None, last: str | None = None) -> None:
        self.blocks: list[Block] = []
        self.live: dict[int, Block] = {}
        self.old: dict[int, int] = {}  # sizes of the blocks made before the part that counts
        self.now = self.news = self.handles = self.peak = 0
        self.at_peak: dict[int, int] = {}
        within = first is None
        for step in run:
            if isinstance(step, str):
                if within and step == last:
                    break
                within = within or step == first
            elif within:
                self.step(step)
            else:
                self.before(step.event)
        self.finish()

    def before(self, event: Event) -> None:
        """Process the part of the run that does not count: only handles and addresses matter."""
        former = event.old if event.letter == "R" else event.addr
        known = self.old.pop(former, None) if event.letter in "FR" else None
        if event.letter in "NR":
            self.old[event.addr] = event.size
            self.handles += event.letter == "N" or known is None

    def step(self, step: Step) -> None:
        event = step.event
        former = event.old if event.letter == "R" else event.addr
        if event.letter in "LSM":
            self.access(step)
        elif former in self.old and event.letter in "FR":
            self.before(event)
            self.now += 1
        elif event.letter == "F" and former in self.live:
            self.free(step)
        elif event.letter == "R" and former in self.live:
            block = self.live.pop(former)
            block.resize(event)
            self.live[event.addr] = block
            self.now += 1
        elif event.letter in "NR":
            self.new(step)
        self.note_peak()

    def new(self, step: Step) -> None:
        block = Block(self.handles, step, self.now, self.news)
        self.blocks.append(block)
        self.live[step.event.addr] = block
        self.handles += 1
        self.news += 1
        self.now += 1

    def free(self, step: Step) -> None:
        block = self.live.pop(step.event.addr)
        block.freed, block.free_thread = True, step.thread
        block.end(self.now, self.news)
        self.now += 1

    def access(self, step: Step) -> None:
        at = step.event.addr
        for block in self.live.values():
            if block.addr <= at < block.addr + block.size:
                block.access(step, self.now)
                self.now += 1
        self.now += sum(start <= at < start + size for start, size in self.old.items())

    def note_peak(self) -> None:
        total = sum(block.size for block in self.live.values())
        if total > self.peak:
            self.peak = total
            self.at_peak = {block.handle: block.size for block in self.live.values()}

    def finish(self) -> None:
        for block in self.live.values():
            block.end(self.now, self.news)
        for block in self.blocks:
            block.peak_bytes = self.at_peak.get(block.handle, 0)
