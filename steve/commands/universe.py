"""steve universe: the objects in a heap snapshot of a Lua state: by type, retained size, and what keeps them alive.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import argparse
import json
import re
from typing import TYPE_CHECKING, Any

from steve.analysis.reachable import AT_EXIT, RETURNED
from steve.terminal import arguments
from steve.terminal import listing
from steve.trace import source
from steve.system.errors import SteveError
from steve.terminal.listing import Column
from steve.system.output import Output
from steve.system.messages import note
from steve.terminal.progress import Progress

if TYPE_CHECKING:
    from steve.snapshots.graph import Universe

NAME = "universe"
HELP = "show all Lua objects of a snapshot: by type, retained sizes, what keeps them alive"
EXAMPLES = """\
A snapshot is taken of a running program (`ljtrace attach --universe`), each time its heap has grown
(--universe=growing), at the end of a recording (--universe=at-exit), or when the script (ljtrace.snapshot), the program
(LJTRACE_SNAPSHOT) or vgdb requests it. The first two tables show bytes by type, and by type and name (for cdata the C
type, for userdata the name of the metatable). Garbage are those of the objects that no root reaches, which wait for
the garbage collector; dead objects, which only wait for its sweep, are counted separately. The third table shows the
objects that retain most, with a shortest path from a root. An object retains the bytes that would be freed if it were
freed. Weak references keep nothing alive.

--diff shows which paths grew, such as `local cache (app.lua:3) -> [string] -> table`, what grew by type and name, the
old objects that retain more than before, and the new objects that retain most. In a path, [string], [number] or
[object] stands for the keys of a table that has many, and ... for further equal steps, as along a linked list. Paths
show keys of the registry, of loaded modules and of globals as they are, unless many of a table are new. Objects are
the same by address and type, or with --diff-file of another process by place: shortest paths with the same keys and
variables lead to both, whatever the names, files and lines of the functions. Of a recording with --universe=growing,
the last two snapshots of the state are compared, unless --snapshot is given. What grew by type also counts garbage.

All new objects that are reachable count in a path, or in one to what retains them, less those that they replace. So a
row may contain what another one retains. Old objects that became larger themselves, as a list of numbers does, count
with that.

examples:
  steve universe app.ljt
  steve universe app.ljt --snapshot 'request 200' --diff 'request 100'
  ljtrace attach --universe=growing --seconds=600 --out=app.ljt 4711; steve universe app.ljt
"""
SUMS = (
    Column("objects", "objects", ""),
    Column("bytes", "bytes", ""),
    Column("garbage_objects", "garbage", ""),
    Column("garbage_bytes", "garbage bytes", ""),
    Column("dead_objects", "dead", ""),
    Column("dead_bytes", "dead bytes", ""),
)
OF_GARBAGE = ("garbage_objects", "garbage_bytes", "dead_objects", "dead_bytes")
KINDS = (Column("type", "type", "", True), *SUMS)
TYPES = (Column("type", "type", "", True), Column("name", "name", "", True), *SUMS)
POSITIONS = re.compile(r"(?<=\[)\d+(?=\])| 0x[0-9a-f]+")
SWOLLEN = (
    Column("more_retained", "more retained", ""),
    Column("retained", "retained now", ""),
    Column("object", "object", "", True),
    Column("path", "path from a root", "", True),
)
HOLDERS = (
    Column("retained", "retained", ""),
    Column("bytes", "own", ""),
    Column("object", "object", "", True),
    Column("path", "path from a root", "", True),
)
PATHS = (
    Column("more_bytes", "more retained", ""),
    Column("more_objects", "more", ""),
    Column("bytes", "retained now", ""),
    Column("objects", "objects now", ""),
    Column("path", "path", "", True),
)
GROWTH = (
    Column("more_bytes", "more bytes", ""),
    Column("more_objects", "more", ""),
    Column("type", "type", "", True),
    Column("name", "name", "", True),
    Column("bytes", "bytes now", ""),
    Column("objects", "objects now", ""),
    Column("more_garbage", "more garbage", ""),
    Column("garbage", "garbage now", ""),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    source.add_trace(parser)
    arguments.add_output(parser, "the default")
    arguments.add_json(parser)
    parser.add_argument("--snapshot", metavar="NAME", help="snapshot to show, by name or number (default: the last)")
    parser.add_argument(
        "--diff", metavar="NAME", help="show what grew since this snapshot of the trace, and what keeps it alive"
    )
    former = parser.add_argument(
        "--diff-file", metavar="FILE", help="show what grew since the last snapshot (or --diff) of FILE"
    )
    arguments.reads(former, arguments.TRACE)
    parser.add_argument(
        "--top",
        metavar="N",
        type=listing.count,
        default=listing.TOP,
        help=f"rows of each table (default: {listing.TOP})",
    )


def open_universe(args: argparse.Namespace, path: str, wanted: str | int | None) -> Universe:
    """Read one snapshot of the trace at `path`. wanted: its name or number; a number that is no text is not a name. None: the
    last."""
    from steve.trace._memtrace import Trace
    from steve.snapshots.graph import read

    with Progress(NAME, args.quiet) as progress:
        universe = read(Trace(path, salvage=args.salvage, snapshots=True), wanted, progress)
    if len(universe.namesakes) > 1 and str(wanted) != str(universe.number):
        numbers = ", ".join(map(str, universe.namesakes[:20])) + ", ..." * (len(universe.namesakes) > 20)
        note(
            NAME,
            f"{len(universe.namesakes)} snapshots are called '{universe.snapshot.name}', numbers {numbers}; "
            "the last one is shown",
            args.quiet,
        )
    return universe


def type_rows(universe: Universe, by_name: bool) -> list[dict]:
    """Rows by type, or by type and name, most bytes first."""
    rows = [
        dict(zip(("type", "name", "objects", "bytes", *OF_GARBAGE), (*key, n, size, lost, lost_bytes, dead, gone)))
        for key, (n, size, dead, gone, lost, lost_bytes) in universe.groups(by_name).items()
    ]
    rows.sort(key=lambda row: (-row["bytes"], row["type"], row["name"]))
    return rows if by_name else [{key: row[key] for key in row if key != "name"} for row in rows]


def holder_rows(universe: Universe, numbers: list[int]) -> list[dict]:
    """Rows of objects with their retained sizes and paths."""
    return [
        {
            "retained": int(universe.retained[n]),
            "bytes": int(universe.objects["size"][n]),
            "object": universe.label(n),
            "path": universe.path_text(n),
        }
        for n in numbers
    ]


def largest(universe: Universe, most: int) -> list[int]:
    """The numbers of the `most` objects that retain most bytes."""
    import numpy as np

    order = np.lexsort((np.arange(len(universe.objects)), -universe.retained.astype(np.int64)))
    return order[:most].tolist()


def facts(universe: Universe) -> dict:
    """The totals of a snapshot, for --json and the heading."""
    s = universe.snapshot
    return {
        "snapshot": s.name,
        "number": universe.number,
        "heap": s.heap,
        "time": s.time,
        "gc_total": s.total,
        "objects": len(universe.objects),
        "object_bytes": universe.bytes,
        "garbage_bytes": universe.unreachable,
        "internal_bytes": s.internal,
        "unaccounted": universe.unaccounted,
        **({"longest_stop_ns": stop} if (stop := universe.stop) is not None else {}),
    }


def summary(universe: Universe, most: int) -> dict:
    """The object of --json without --diff. most: rows of the last table."""
    return {
        **facts(universe),
        "kinds": type_rows(universe, False),
        "types": type_rows(universe, True),
        "holders": holder_rows(universe, largest(universe, most)),
    }


def difference(before: Universe, after: Universe, most: int) -> dict:
    """The object of --json with --diff. most: rows of the last two tables."""
    from steve.snapshots.diff import growth, newcomers, swollen
    from steve.snapshots.growth import grown_paths
    from steve.snapshots.holders import held_paths
    from steve.snapshots.matching import identify

    is_one_process = identify(before, after)
    return {
        **facts(after),
        "since": facts(before),
        "held": held_paths(after)[:most],
        "paths": grown_paths(before, after)[:most],
        "growth": growth(before, after, is_one_process),
        "swollen": swollen(before, after, most),
        "holders": holder_rows(after, newcomers(before, after, most)),
    }


def folded(rows: list[dict]) -> list[dict]:
    """Rows for text: objects that follow each other with the same numbers and the same path, but for positions in a table and
    addresses, are one row with their number."""
    found: list[dict] = []
    alike, last = 0, None
    for row in rows:
        this = {key: POSITIONS.sub("", value) if isinstance(value, str) else value for key, value in row.items()}
        if this != last:
            alike, last = 0, this
            found.append(row)
        alike += 1
        if alike > 1:
            found[-1] = {**row, "object": f"{this['object'].rstrip()} ({alike:,} of them)"}
    return found


def times(before: Universe, after: Universe, is_same: bool) -> str:
    """When two snapshots were taken, and the time between them. is_same: are they of one recording? Two recordings have
    clocks of their own, and the second in which each began, if they were recorded natively."""
    from steve.analysis.totals import duration, time_unit
    from steve.snapshots.graph import number_of
    from steve.terminal.tables import printable

    units = [time_unit(universe.trace) for universe in (before, after)]
    then, now = (duration(u.snapshot.time, unit) for u, unit in zip((before, after), units))
    began = [number_of(universe.trace.info().get("start_unix_seconds")) for universe in (before, after)]
    span = after.snapshot.time - before.snapshot.time
    file = "" if is_same else f" of {printable(before.trace.name)}"
    between = ""
    if is_same:
        between = f"; {duration(abs(span), units[0])} between them"
    elif units == ["nanoseconds"] * 2 and None not in began:
        between = f"; about {duration(abs(span + (began[1] - began[0]) * 10**9), units[0])} between them"
    return (
        f"'{printable(after.snapshot.name)}' was taken {now} after its recording began, "
        f"'{printable(before.snapshot.name)}'{file} {then}{'' if is_same else ' after that one began'}{between}"
    )


def of_reached(result: dict) -> str:
    """How much more can be reached than in the snapshot before, the first question to a difference, and what holds most of it, old
    or new."""
    from steve.terminal.tables import number, printable

    before, now = (found["object_bytes"] - found["garbage_bytes"] for found in (result["since"], result))
    if now <= before:
        change = f"{number(before - now)} less: more was freed than the rows below grew" if before > now else "as many"
    else:
        change = f"{number(now - before)} more"
    text = f"reachable objects have {number(now)} bytes, {change} (before: {number(before)})"
    for row in result["held"][:1]:
        text += f"\n{number(row['bytes'])} of these ({row['share']:.1%}) are held by {printable(row['path'])}"
    return text


def text(result: dict, name: str, most: int, plain: bool, taken: str = "") -> str:
    """The result as tables. taken: when the snapshots were taken, of a difference."""
    from steve.terminal.tables import number, printable, render
    from steve.terminal.units import human_ns

    head = (
        f"{printable(name)}: snapshot '{printable(result['snapshot'])}': {number(result['objects'])} objects of "
        f"{number(result['object_bytes'])} bytes + {number(result['internal_bytes'])} internal = "
        f"{number(result['object_bytes'] + result['internal_bytes'])}; gc.total {number(result['gc_total'])}"
    )
    if result["garbage_bytes"]:
        head += f"\nof the objects, {number(result['garbage_bytes'])} bytes are garbage: no root leads to them"
    if "longest_stop_ns" in result:
        head += f"\nthe program waited {human_ns(result['longest_stop_ns'])} at most for the copy that takes a snapshot"
    if "growth" in result:
        head += f"\n{of_reached(result)}"
    parts: list[Any] = [f"{head}\n{taken}" if taken else head]
    if "growth" in result:
        since = result["since"]["snapshot"]
        parts.append(listing.table(f"paths that grew since '{since}'", result["paths"], PATHS))
        grown = result["growth"][:most]
        hidden = set() if any(row["garbage"] or row["more_garbage"] for row in grown) else {"more_garbage", "garbage"}
        parts.append(listing.table("grown by type and name", grown, listing.without(GROWTH, hidden)))
        parts.append(listing.table("old objects that retain more", folded(result["swollen"]), SWOLLEN))
        parts.append(listing.table("new objects that retain most", folded(result["holders"]), HOLDERS))
    else:
        hidden = {key for key in OF_GARBAGE if not any(row[key] for row in result["kinds"])}
        parts.append(listing.table("by type", result["kinds"], listing.without(KINDS, hidden)))
        parts.append(listing.table("by type and name", result["types"][:most], listing.without(TYPES, hidden)))
        parts.append(listing.table("objects that retain most", folded(result["holders"]), HOLDERS))
    return render(parts, not plain)


def hint(universe: Universe) -> str | None:
    """What to know of the snapshot at the end of a program if nothing keeps most of its bytes alive."""
    is_lost = 2 * universe.unreachable > universe.bytes and universe.snapshot.name == AT_EXIT
    return RETURNED.format("--snapshot end") if is_lost else None


def alone(args: argparse.Namespace, universe: Universe) -> str | None:
    """Why a recording with --universe=growing has nothing to compare; None if it has, or is no such recording."""
    if universe.trace.info().get("universe") != "growing" or universe.before or args.snapshot is not None:
        return None
    part = "an eighth" if "attached" in universe.trace.info() else "half"
    return (
        f"it has one snapshot of this state: its heap did not grow by {part} afterwards; record longer, or take another one "
        "later and compare them with --diff-file"
    )


def grown_since(args: argparse.Namespace, universe: Universe) -> int | None:
    """The number of the snapshot with which the last one of a recording with --universe=growing is compared."""
    growing = universe.trace.info().get("universe") == "growing"
    return universe.before if growing and universe.before and args.snapshot is None and args.file != "-" else None


def run(args: argparse.Namespace) -> int:
    if args.file == "-" and args.diff:
        raise SteveError("--diff reads the trace twice; name a file")
    universe = open_universe(args, args.file, args.snapshot)
    since = args.diff if args.diff is not None or args.diff_file is not None else grown_since(args, universe)
    if since is not None or args.diff_file is not None:
        before = open_universe(args, args.diff_file or args.file, since)
        result = difference(before, universe, args.top)
        taken = times(before, universe, args.diff_file is None)
    else:
        result, taken = summary(universe, args.top), ""
    with Output(args.output or "-") as out:
        out.write(
            json.dumps(result, indent=1) + "\n"
            if args.json
            else text(result, universe.trace.name, args.top, True, taken)
        )
    for advice in filter(None, (hint(universe), alone(args, universe) if args.diff_file is None else None)):
        note(NAME, advice, args.quiet)
    return source.verdict(NAME, universe.trace)
