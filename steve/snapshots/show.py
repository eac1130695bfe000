"""Dump a heap snapshot in the form of the first memprof RFC.

    ===== MEMORY SNAPSHOT
    @LJ_TTAB 0x40 holds 96 bytes and linked with
    <TAB>metatable => LJ_TTAB 0x80 (or NULL)
    ===== ARRAY PART / ===== HASH PART, or a list of what the object refers to

SPDX-License-Identifier: GPL-2.0-or-later
"""
import argparse
from collections.abc import Iterator

import numpy as np

from steve.trace import source
from steve.system.output import Output
from steve.terminal.progress import Progress
from steve.snapshots.graph import ARRAY, Universe, read

METATABLE, KEY, VALUE = 1, 7, 8
PLAIN = ("str", "udata", "cdata")  # types whose links the RFC does not list


class Dump:
    """The lines of a dump. The columns of the snapshot are converted to lists, which Python reads faster."""

    def __init__(self, universe: Universe) -> None:
        self.universe = universe
        objects, links = universe.objects, universe.links
        types = [universe.type_names[i] for i in objects["type"].tolist()]
        self.types, self.sizes = types, objects["size"].tolist()
        self.names = [f"LJ_T{kind.upper()} {addr:#x}" for kind, addr in zip(types, objects["addr"].tolist())]
        self.order = np.argsort(links["from"], kind="stable").tolist()
        self.starts = np.searchsorted(np.sort(links["from"]), np.arange(len(objects) + 1)).tolist()
        self.kinds, self.ends = links["kind"].tolist(), links["to"].tolist()

    def target(self, link: int) -> str:
        """The name of the object that a link leads to."""
        return self.names[self.ends[link]]

    def table_lines(self, links: list[int]) -> Iterator[str]:
        """The array part and the hash part of a table. A key that is not an object appears only as text."""
        parts: dict[int, list[int]] = {ARRAY: [], KEY: [], VALUE: []}
        for n in links:
            parts.setdefault(self.kinds[n], []).append(n)
        yield "===== ARRAY PART"
        for n in parts[ARRAY]:
            yield f"\t{self.universe.link_text(n)} => {self.target(n)}"
        yield "===== HASH PART"
        for n in parts[KEY]:
            yield f"\t{self.target(n)} => (key)"
        for n in parts[VALUE]:
            yield f"\t{self.universe.link_text(n)} => {self.target(n)}"

    def object_lines(self, number: int) -> Iterator[str]:
        """The lines of one object."""
        links = self.order[self.starts[number] : self.starts[number + 1]]
        yield f"@{self.names[number]} holds {self.sizes[number]} bytes and linked with"
        meta = [n for n in links if self.kinds[n] == METATABLE]
        yield f"\tmetatable => {self.target(meta[0]) if meta else 'NULL'}"
        if self.types[number] == "tab":
            yield from self.table_lines(links)
        elif self.types[number] not in PLAIN:
            yield from (f"\t{self.target(n)}" for n in links if self.kinds[n] != METATABLE)

    def lines(self) -> Iterator[str]:
        """All lines of the dump."""
        yield "===== MEMORY SNAPSHOT"
        for number in range(len(self.types)):
            yield from self.object_lines(number)


def memprof_dump(command: str, args: argparse.Namespace) -> int:
    """Run `luajit-parse-memprof --dump`; return the exit status."""
    from steve.trace._memtrace import Trace

    trace = Trace(args.file, salvage=args.salvage, snapshots=True)
    with Progress(command, args.quiet) as progress:
        universe = read(trace, None, progress)
    with Output(args.output or "-") as out:
        for line in Dump(universe).lines():
            out.write(line + "\n")
    return source.verdict(command, trace)
