"""A snapshot as a graph of objects and links: sizes by type and name, retained sizes, paths from the roots.

Weak links keep nothing alive and are not used in paths. Dead objects, which wait for the garbage collector's sweep,
are counted separately.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from steve.system.errors import SteveError
from steve.terminal.tables import printable

if TYPE_CHECKING:
    from steve.trace._memtrace import Snapshot, Trace

# constants of enum mt_link_kind, and the kinds whose names are strings
UPVALUE, ARRAY, KEY, VALUE, STACK = 4, 6, 7, 8, 9
STRINGS = frozenset((UPVALUE, VALUE, STACK))


class Universe:
    """One snapshot of a trace that was read to its end. Objects are identified by their index in `objects`.

    number: that of the snapshot in the trace, from 1. namesakes: the numbers of all snapshots with its name; a program
    with several Lua states has one for each state. before: the number of the one before it of the same state; 0: there is
    none."""

    def __init__(self, trace: Trace, snapshot: Snapshot, number: int, namesakes: list[int], before: int) -> None:
        from steve.trace._memtrace import LINK_NAMES, TYPE_NAMES

        self.trace, self.snapshot = trace, snapshot
        self.number, self.namesakes, self.before = number, namesakes, before
        self.objects, self.links = snapshot.objects, snapshot.links
        self.type_names, self._link_names = TYPE_NAMES, LINK_NAMES
        self.strong = np.flatnonzero(self.links["weak"] == 0)
        self.roots = np.flatnonzero(self.objects["root"])
        if len(self.objects) and not len(self.roots):
            raise SteveError(f"{trace.name}: the snapshot '{snapshot.name}' has no roots")
        self._retained: np.ndarray | None = None
        self._over: np.ndarray | None = None
        self._order: np.ndarray | None = None
        self._via: np.ndarray | None = None
        # a number for each object that is the same for it in another snapshot; see steve.snapshots.matching
        self.identity: np.ndarray = self.objects["addr"] << np.uint64(8) | self.objects["type"]

    @property
    def bytes(self) -> int:
        """The sum of the sizes of all objects."""
        return int(self.objects["size"].sum())

    @property
    def unreachable(self) -> int:
        """The bytes of the objects that are not reachable from the roots: garbage, dead ones among it."""
        return int(self.objects["size"][self.retained == 0].sum())

    @property
    def unaccounted(self) -> int:
        """Bytes of gc.total that belong neither to objects nor to internal data: 0 in a complete snapshot."""
        return self.snapshot.total - self.snapshot.internal - self.bytes

    @property
    def stop(self) -> int | None:
        """The longest time for which the program waited for a snapshot, in nanoseconds. None: not recorded."""
        return number_of(self.trace.info().get("snapshot_stop"))

    def type_name(self, number: int) -> str:
        """The type of an object."""
        return self.type_names[self.objects["type"][number]]

    def name(self, number: int) -> str:
        """The name of an object, or ""."""
        return self.trace.string(int(self.objects["name"][number]))

    def label(self, number: int) -> str:
        """`type name`, or `type address` if the object has no name."""
        return f"{self.type_name(number)} {self.name(number) or hex(int(self.objects['addr'][number]))}"

    def _ends(self) -> tuple[np.ndarray, np.ndarray]:
        links = self.links[self.strong]
        return links["from"].astype(np.int64), links["to"].astype(np.int64)

    @property
    def retained(self) -> np.ndarray:
        """By object, the retained size: the bytes that would be freed if the object were freed. 0 if the object is not
        reachable from the roots."""
        if self._retained is None:
            from steve.snapshots._graph import dominators, retained

            self._over, self._order = dominators(len(self.objects), *self._ends(), self.roots)
            self._retained = retained(self.objects["size"], self._over, self._order)
        return self._retained

    def summed(self, values: np.ndarray) -> np.ndarray:
        """By object, the sum of these values (i8, one for each object) of the objects that it retains; 0 if it is not
        reachable."""
        from steve.snapshots._graph import retained

        assert self.retained is not None
        return retained(values.view(np.uint64), self._over, self._order).view(np.int64)  # sums that wrap are right

    @property
    def keepers(self) -> np.ndarray:
        """By object, its immediate dominator: the closest object on all paths from the roots to it. -1 if there is
        none."""
        assert self.retained is not None and self._over is not None
        return np.where(self._over == len(self.objects), -1, self._over)

    @property
    def via(self) -> np.ndarray:
        """By object, the link by which a shortest path from the roots reaches it, as an index of `strong`; -1 for a root, -2
        if the object cannot be reached. A slot of a stack without a name may have the object only at the moment of the
        snapshot, as for an instruction that uses it, and compiled code refers to objects that it uses: links of both
        kinds are taken to what no others lead to."""
        if self._via is None:
            from steve.snapshots._graph import shortest

            order = self._preferred()
            sources, targets = self._ends()
            via = shortest(len(self.objects), sources[order], targets[order], self.roots, self._secondary()[order])
            self._via = np.where(via >= 0, order[np.maximum(via, 0)], via) if len(order) else via
        return self._via

    def _secondary(self) -> np.ndarray:
        """Of `strong`, is a link a slot of a stack without a name, or one of compiled code?"""
        links = self.links[self.strong]
        of_code = self.objects["type"][links["from"]] == self.type_names.index("trace")
        return ((links["kind"] == STACK) & (links["name"] == 0)) | of_code

    def _preferred(self) -> np.ndarray:
        """The indices of `strong`, of several links to an object the one first that says most: of variables those of outer
        functions come first, which live longer."""
        on_stack = self.links[self.strong]["kind"] == STACK
        index = np.arange(len(on_stack))
        return np.argsort(np.where(on_stack, -index, index), kind="stable")

    def path(self, number: int) -> list[tuple[int, int]]:
        """A shortest path from a root to an object: a list of (object, link that leads to it), where the link of the
        root is -1. [] if the object cannot be reached."""
        if self.via[number] == -2:
            return []
        steps = []
        while self.via[number] >= 0:
            link = int(self.strong[self.via[number]])
            steps.append((number, link))
            number = int(self.links["from"][link])
        return [(number, -1)] + steps[::-1]

    def link_text(self, number: int) -> str:
        """A link as text: `.key`, `["another key"]`, `[index]`, `local variable (file:line)`, or its kind in angle
        brackets."""
        link = self.links[number]
        kind, name = int(link["kind"]), int(link["name"])
        if kind == ARRAY:
            return f"[{name}]"
        text = self.trace.string(name) if kind in STRINGS else ""
        if kind == STACK and text:
            return f"local {printable(text)}"
        return key_text(text) if text else f"<{self._link_names[kind]}>"

    def path_text(self, number: int) -> str:
        """The path to an object as text: labels of objects and links, root first."""
        steps = self.path(number)
        if not steps:
            return "(not reached)"
        return self.label(steps[0][0]) + "".join(f" {self.link_text(link)} {self.label(at)}" for at, link in steps[1:])

    def groups(self, by_name: bool = False) -> dict[tuple[str, str], list[int]]:
        """Objects counted by type and, if by_name, by name: (type, name or "") -> [live objects, their bytes, dead objects,
        their bytes, garbage among the live ones: objects to which no root leads, their bytes]."""
        names = self.objects["name"] if by_name else np.zeros(len(self.objects), np.uint32)
        keys = self.objects["type"].astype(np.uint64) << np.uint64(32) | names
        distinct, group = np.unique(keys, return_inverse=True)
        dead, sizes = self.objects["dead"] != 0, self.objects["size"]
        found: dict[tuple[str, str], list[int]] = {}
        columns = [
            np.bincount(group, weights, len(distinct)).astype(np.int64)
            for which in (~dead, dead, ~dead & (self.retained == 0))
            for weights in (which * 1.0, which * sizes)
        ]
        for key, *row in zip(distinct.tolist(), *(column.tolist() for column in columns)):
            name = self.type_names[key >> 32], self.trace.string(key & 0xFFFFFFFF) if by_name else ""
            found[name] = [a + b for a, b in zip(found.get(name, [0] * len(row)), row)]
        return found


def number_of(fact: str | None) -> int | None:
    """A fact that is a number; None: it is missing, or is none."""
    return int(fact) if fact is not None and fact.isdecimal() else None


def key_text(key: str) -> str:
    """A key as Lua code: `.name`, an integer or boolean in brackets, [number] of one that is no integer, any other string in
    brackets and quotes."""
    if re.fullmatch(r"[A-Za-z_]\w*", key, re.ASCII):
        return f".{key}"
    if re.fullmatch(r"\[(-?\d+|true|false|number)\]", key, re.ASCII):
        return key
    quoted = printable(key.replace("\\", "\\\\").replace('"', '\\"'))
    return f'["{quoted}"]'


class Selection:
    """Selects one snapshot while a trace is read, and frees the objects of all others.

    wanted: a name, which selects the last snapshot of that name, or a number from 1; None selects the last snapshot. A
    name has precedence over a number given as text. best: the number from 0 of the selected snapshot, -1: none. names,
    heaps: those of all snapshots."""

    def __init__(self, trace: Trace, wanted: str | int | None) -> None:
        self.trace, self.wanted = trace, wanted
        self.names: list[str] = []
        self.heaps: list[int] = []
        self.best = -1
        self._named = False

    def __call__(self, number: int, name: str, heap: int) -> None:
        """Keep or free a snapshot that was just read. number: from 0."""
        self.names.append(name)
        self.heaps.append(heap)
        named = self.wanted is None or name == self.wanted
        if named or (str(self.wanted) == str(number + 1) and not self._named):
            if self.best >= 0:
                self.trace.forget_snapshot(self.best)
            self.best, self._named = number, self._named or named
        else:
            self.trace.forget_snapshot(number)


def _remedy(facts: dict[str, str]) -> str:
    """How a recording gets a snapshot. Not every recorder takes one in all ways."""
    if "snapshot_problem" in facts:
        return f"one was to be taken: {facts['snapshot_problem']}"
    if facts.get("universe") == "growing":
        return "no heap of a Lua state became larger than 256 KiB"
    if facts.get("attached") == "yes":
        return "record it with `ljtrace attach --universe`"
    if facts.get("recorder") == "native":
        return (
            "take one with ljtrace.snapshot() or --universe=growing, or record the program with "
            "`valgrind --tool=ljtrace --universe=at-exit`"
        )
    return "record it with --universe=at-exit or take one with ljtrace.snapshot()"


def read_if_any(trace: Trace, wanted: str | int | None = None, tick: Callable | None = None) -> Universe | None:
    """As read(), but None if the trace has no snapshot at all."""
    choice = Selection(trace, wanted)
    trace.skim(tick, choice)
    return _universe(trace, choice) if choice.names else None


def read(trace: Trace, wanted: str | int | None = None, tick: Callable | None = None) -> Universe:
    """Read a trace and return one of its snapshots.

    wanted: see Selection. tick(done, total): progress in bytes. Memory: that of two snapshots, however many there are.
    SteveError if the trace has no such snapshot."""
    found = read_if_any(trace, wanted, tick)
    if found is None:
        raise SteveError(f"{trace.name}: has no snapshot; {_remedy(trace.info())}")
    return found


def _universe(trace: Trace, choice: Selection) -> Universe:
    """The snapshot that was selected. SteveError if none was."""
    if choice.best < 0:
        known = ", ".join(f"'{name}'" for name in choice.names[:20]) + ", ..." * (len(choice.names) > 20)
        raise SteveError(f"{trace.name}: no snapshot '{choice.wanted}'; there are: {known}")
    snapshot = trace.snapshot(choice.best)
    trace.forget_snapshot(choice.best)
    namesakes = [i for i, name in enumerate(choice.names, 1) if name == snapshot.name]
    before = [i for i, heap in enumerate(choice.heaps[: choice.best], 1) if heap == snapshot.heap]
    return Universe(trace, snapshot, choice.best + 1, namesakes, before[-1] if before else 0)
