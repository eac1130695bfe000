"""The dump of a universe in the form of the first memprof RFC.

    ===== MEMORY SNAPSHOT
    @LJ_TTAB 0x40 holds 96 bytes and linked with
    <TAB>metatable => LJ_TTAB 0x80 (or NULL)
    ===== ARRAY PART / ===== HASH PART, or a list of what the object refers to

SPDX-License-Identifier: GPL-2.0-or-later
"""
import argparse
from typing import Dict, Iterator, List

from steve import source
from steve.output import Output
from steve.progress import Progress
from steve.universe.graph import ARRAY, Universe, read

METATABLE, KEY, VALUE = 1, 7, 8
PLAIN = ("str", "udata", "cdata")  # without links, as the RFC has it


def rfc_name(universe: Universe, number: int) -> str:
    return f"LJ_T{universe.type_name(number).upper()} {int(universe.objects['addr'][number]):#x}"


def links_of(universe: Universe) -> Dict[int, List[int]]:
    """Numbers of the links of each object."""
    found: Dict[int, List[int]] = {}
    for number, start in enumerate(universe.links["from"].tolist()):
        found.setdefault(start, []).append(number)
    return found


def table_lines(universe: Universe, links: List[int]) -> Iterator[str]:
    """Array part and hash part; a key that is no object is told by its text only."""
    parts = {kind: [n for n in links if universe.links["kind"][n] == kind] for kind in (ARRAY, KEY, VALUE)}
    yield "===== ARRAY PART"
    for n in parts[ARRAY]:
        yield f"\t{universe.link_text(n)} => {rfc_name(universe, int(universe.links['to'][n]))}"
    yield "===== HASH PART"
    for n in parts[KEY]:
        yield f"\t{rfc_name(universe, int(universe.links['to'][n]))} => (key)"
    for n in parts[VALUE]:
        yield f"\t{universe.link_text(n)} => {rfc_name(universe, int(universe.links['to'][n]))}"


def object_lines(universe: Universe, number: int, links: List[int]) -> Iterator[str]:
    yield f"@{rfc_name(universe, number)} holds {universe.objects['size'][number]} bytes and linked with"
    kind = universe.type_name(number)
    meta = [n for n in links if universe.links["kind"][n] == METATABLE]
    target = rfc_name(universe, int(universe.links["to"][meta[0]])) if meta else "NULL"
    yield f"\tmetatable => {target}"
    if kind == "tab":
        yield from table_lines(universe, links)
    elif kind not in PLAIN:
        yield from (f"\t{rfc_name(universe, int(universe.links['to'][n]))}" for n in links if n not in meta)


def dump(universe: Universe) -> Iterator[str]:
    """All lines."""
    yield "===== MEMORY SNAPSHOT"
    links = links_of(universe)
    for number in range(len(universe.objects)):
        yield from object_lines(universe, number, links.get(number, []))


def memprof_dump(command: str, args: argparse.Namespace) -> int:
    """`luajit-parse-memprof --dump`; the exit status."""
    from steve._memtrace import Trace
    trace = Trace(args.file, salvage=args.salvage, snapshots=True)
    with Progress(command, args.quiet) as progress:
        universe = read(trace, None, progress)
    with Output(args.output or "-") as out:
        for line in dump(universe):
            out.write(line + "\n")
    return source.verdict(command, trace)
