"""The program that a memtrace records: on which allocator it ran, for how long, and how to start it on another one.

A library in LD_PRELOAD takes the place of every other malloc library, also of one that the program is linked with. It
has no effect on a program whose executable contains malloc: the dynamic linker finds that one first.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from mmap import ACCESS_READ, mmap
from typing import TYPE_CHECKING, Any

from steve.system.errors import SteveError
from steve.trace.allocators import OWN, allocator_in

if TYPE_CHECKING:
    from steve.trace._memtrace import Trace
    from steve.tune.options import OptionSet

C_LIBRARY = "glibc"
LIBC = "libc.so.6"
OTHER_HEAPS = {"lua": "Lua states", "custom": "pools of the program", "mmap": "mappings of the program"}  # by kind
# functions of allocators after which a program allocates or frees other blocks, or that return memory
ASKED = ("malloc_usable_size", "malloc_trim", "mallctl", "mi_collect", "MallocExtension_ReleaseFreeMemory")
# of which allocator those that return memory are
RETURNING = dict(zip(ASKED[1:], ("glibc", "jemalloc", "mimalloc", "tcmalloc")))
LONG_ENOUGH = 0.5  # part of the program's time that a replay takes at least, to see what is returned after some time


@dataclass(frozen=True)
class Program:
    """allocator: a name as that of a driver; "" if it is not known. object: path of the library or executable that contains
    its malloc. is_within: is that the executable? names: under which the program was started, without folders. seconds:
    how long it ran; 0 if that is not known. resident: the most bytes that were resident, with the recorder's; 0 if that was not
    recorded. others: of other_heaps(). asks: of asks_of(). ops: the name of an ops file without its memtrace; "" if
    there is one."""

    allocator: str = ""
    object: str = ""
    is_within: bool = False
    names: frozenset[str] = frozenset()
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    resident: int = 0
    others: tuple[str, ...] = ()
    asks: tuple[str, ...] = ()
    ops: str = field(default="", compare=False)

    def environment(self, options: OptionSet) -> dict[str, str] | None:
        """The variables that start the program with these options. None if no variables do: its executable contains
        another allocator."""
        if self.is_within:
            return options.environment() if options.allocator.name == self.allocator else None
        library = options.allocator.library
        if not library and self.allocator not in ("", C_LIBRARY):
            library = LIBC
        return {**({"LD_PRELOAD": library} if library else {}), **options.environment()}

    def as_dict(self) -> dict[str, Any]:
        """For JSON: null for what is not known."""
        return {
            "allocator": self.allocator or None,
            "object": self.object or None,
            "in_executable": self.is_within,
            "seconds": self.seconds or None,
            "cpu_seconds": self.cpu_seconds or None,
            "most_resident": self.resident or None,
            "asks": list(self.asks),
        }

    def parts(self, costs: Iterable[float]) -> str:
        """What part of the program's time some nanoseconds are, one after the other; "" if neither its CPU time nor the elapsed
        time is known."""
        seconds = self.cpu_seconds or self.seconds
        if not seconds:
            return ""
        whole = (
            f"its CPU time of {seconds:.3g} s"
            if self.cpu_seconds
            else f"the {seconds:.3g} s that elapsed, with all waits"
        )
        return f"{', '.join(f'{cost / seconds / 1e7:.1f}%' for cost in costs)} of {whole}"

    def remark_on_others(self) -> str:
        """A sentence for commands that replay the blocks of other allocators, too, without a full stop; "" if there are none."""
        if not self.others:
            return ""
        return (
            f"operations on {' and '.join(self.others)} are replayed as calls of malloc, too, though a library in LD_PRELOAD gets "
            "only what their allocators request of malloc; without them: steve ops --where 'heap = \"malloc\"'"
        )

    def remark_on_left_out(self) -> str:
        """The same for commands that leave these blocks out."""
        if not self.others:
            return ""
        return (
            f"blocks of {' and '.join(self.others)} are left out; a block of malloc that their allocators divide, or give to Lua "
            "as it is, is freed in the replay when they do"
        )

    @property
    def returning(self) -> str:
        """The function by which it may return memory of its allocator, as no replay does; "" if none is known."""
        return next((name for name in self.asks if RETURNING.get(name) == self.allocator), "")

    def remark_on_asked(self) -> str:
        """A sentence if what the program allocates or returns may depend on its allocator, without a full stop; "" if not."""
        if not self.asks:
            return ""
        return (
            f"the executable has the names {' and '.join(self.asks)}: if it calls them, what it allocates, keeps at a limit or "
            "returns may depend on the allocator, which no replay shows; steve tune --verify runs the program"
        )

    def described(self, reference: str) -> str:
        """A sentence about its allocator, without a full stop. reference: with what others are compared."""
        if not self.allocator:
            name = self.ops.removesuffix("-ops").removesuffix(".ljt")
            remedy = (
                f" (its memtrace says it, if it is beside the ops file: {name}.ljt of {name}.ljt-ops or {name}-ops)"
                if name
                else ""
            )
            return f"the file does not say on which allocator the program runs; the reference is {reference}{remedy}"
        text = f"the program ran on {self.allocator}"
        if self.is_within:
            text += f", which is in its executable ({self.object}): LD_PRELOAD has no effect on this program"
            if reference == self.allocator:
                text += f"; the replay uses the {reference} of this machine, which may have another version and other settings"
        elif self.allocator != C_LIBRARY:
            text += f" ({self.object})"
        return text + ("" if reference in ("", self.allocator) else f"; the reference is {reference}")


def other_heaps(trace: Trace) -> list[str]:
    """What the trace has blocks of whose allocator is not malloc, in the plural."""
    heaps = (trace.heap(number) for number in range(trace.counts()["heaps"]))
    kinds = {heap.kind for heap in heaps if heap is not None}
    return [text for kind, text in OTHER_HEAPS.items() if kind in kinds]


def program_of(trace: Trace, libraries: Mapping[str, str]) -> Program:
    """The program of a memtrace that was read to its end. libraries: those of drivers, "" for none, by the drivers' names."""
    info, objects = trace.info(), [module.object for module in trace.modules()]
    executable = info.get("executable", "")
    names = frozenset(os.path.basename(path) for path in (executable, info.get("command", "").split(" ")[0]) if path)
    stats = trace.stats()
    seconds = (stats["totals"]["nanoseconds"] or stats["nanoseconds"]) / 1e9
    if info.get(OWN):
        return Program(info[OWN], executable, True, names, seconds)
    drivers = {library: name for name, library in libraries.items() if library}
    for path in objects:  # in the order in which the dynamic linker looks for malloc
        found = allocator_in(path)
        name = drivers.get(os.path.basename(path), found.name if found else "")
        if name:
            return Program(name, path, False, names, seconds)
    return Program(names=names, seconds=seconds)


def asks_of(executable: str) -> tuple[str, ...]:
    """Those of ASKED whose names an executable has that is still there, as one that calls them. One that contains its
    allocator has them, too."""
    try:
        with open(executable, "rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as data:
            return tuple(name for name in ASKED if data.find(f"\0{name}\0".encode()) >= 0)
    except (OSError, ValueError):  # it is not there, or empty
        return ()


def recorded_program(path: str, libraries: Mapping[str, str]) -> Program:
    """The program of a memtrace, or of the memtrace from which `steve ops` made the ops file `path` if it is still beside
    it, by its name: APP.ljt of APP.ljt-ops or APP-ops. Of another file nothing is known."""
    from steve.analysis.totals import most_resident
    from steve.system.errors import TraceError
    from steve.trace import source
    from steve.trace._memtrace import Trace

    if source.holds_operations(path):
        ops, stem = os.path.basename(path), path.removesuffix("-ops")
        beside = [name for name in (f"{stem}.ljt", stem) if os.path.isfile(name) and not source.holds_operations(name)]
        if not beside:
            return Program(ops=ops)
        path = beside[0]
    try:
        trace = Trace(path)
        trace.skim()
    except TraceError:  # what is wrong with it is said by whoever translates it
        return Program()
    own, others = program_of(trace, libraries), tuple(other_heaps(trace))
    asks = () if own.is_within else asks_of(trace.info().get("executable", ""))
    resident = most_resident(trace.pages())
    return replace(own, cpu_seconds=cpu_seconds_of(path, trace), resident=resident, others=others, asks=asks)


def cpu_seconds_of(path: str, trace: Trace) -> float:
    """The CPU time of a program under the native recorder: the weights of its samples. 0 if the trace has none."""
    from steve.profilers.sysprof import traced
    from steve.trace._memtrace import Trace as Reading

    facts = trace.info()
    if "sample_stacks" not in facts or facts.get("time_unit") != "nanoseconds":
        return 0.0
    try:
        return sum(sample.weight for sample in traced.collect(Reading(path))) / 1e9
    except SteveError:  # there are none
        return 0.0


def is_too_short(program: float, replay: float) -> bool:
    """May a replay of so many seconds be too short for what is returned after some time? program: seconds, 0 = not known."""
    return not program or replay < LONG_ENOUGH * program


def unseen_returns(allocators: list[str], program: float, replay: float, way: str) -> list[str]:
    """The sentence that the replay was too short for allocators that return memory after some time; none if it was long
    enough. program, replay: how long both took, in seconds; the first is 0 if that is not known. way: what to do about it.
    """
    if not allocators or not is_too_short(program, replay):
        return []
    took = f"the program took {program:.3g} s, a replay {replay:.2g} s" if program else f"a replay took {replay:.2g} s"
    unless = "" if program else ", if the program took longer"
    verb = "returns" if len(allocators) == 1 else "return"
    return [f"{took}: what {' and '.join(allocators)} {verb} after some time is not seen{unless}; {way}"]
