"""steve resident: who owns each resident page of the process.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from steve.analysis import live_at, looks, owners
from steve.analysis.owners import LIVE
from steve.analysis.resident_rows import View, facts_of, remarks_of, sums_of
from steve.system.errors import SteveError, UsageError
from steve.system.output import Output
from steve.terminal import listing
from steve.terminal.listing import Column
from steve.terminal.progress import Progress
from steve.terminal.units import human_bytes, human_ns
from steve.trace import policy, source
from steve.trace.places import Places

if TYPE_CHECKING:
    from steve.analysis.live_at import LiveBlocks
    from steve.trace._memtrace import Pages, Trace

NAME = "resident"
HELP = "show who owns each resident page of the process: blocks, free memory, mappings, stacks, code"
WIDEST = 90  # characters of the text of a kind in the table
BY = ("kind", "mapping", "site", "library", "look")
OF_KIND = (
    Column("bytes", "bytes", "bytes that are resident"),
    Column("share", "%", "these in percent of all"),
    Column(
        "shared", "", "of these: in pages that other processes have as well, such as those of a fork until one writes"
    ),
    Column("whole", "", "of an allocator: bytes of whole free pages"),
    Column("whole_below", "", "of these: below a live block of the same heap or arena"),
    Column(
        "returnable",
        "",
        "of whole: what can be returned at least; malloc_trim(0) of glibc does not return the top of an arena",
    ),
    Column("kind", "", f"{', '.join(owners.KINDS)}, before", True),
    Column("what", "what", "what that is", True),
    Column("detail", "", "more about it", True),
)
OF_MAPPING = (
    Column("rss", "resident", "bytes that are resident, as the kernel reports them"),
    Column("pss", "share", "the same, with pages that several processes have divided among them (PSS)"),
    Column("swap", "swap", "bytes that are swapped"),
    Column("huge", "huge", "of the resident bytes: in huge pages"),
    Column("size", "size", "bytes of addresses"),
    Column("start", "", "address where it begins"),
    Column("rights", "", "r, w, x, and s for shared or p for private", True),
    Column("kind", "kind", "kinds of owners of its resident bytes, the largest first", True),
    Column(
        "name",
        "name",
        "of the file, or what the kernel calls it, or in brackets whose static variables are there",
        True,
    ),
)
OF_SITE = (
    Column("bytes", "bytes", "the sum of the next four"),
    Column("live", "live", "bytes of the site's live blocks that are resident"),
    Column(
        "overhead",
        "overhead",
        "what the allocator takes for these blocks besides their bytes: headers, and rounding to its sizes (glibc, LuaJIT, "
        "jemalloc and mimalloc; of others it is in pinned)",
    ),
    Column(
        "pinned",
        "pinned",
        "free bytes of an allocator's pages on which blocks of the site are; a page with blocks of "
        "several sites is divided in proportion to their bytes and overhead on it",
    ),
    Column("mapped", "mapped", "resident bytes of what the site has mapped, with files"),
    Column("blocks", "blocks", "live blocks of the site"),
    Column("site", "site", "call stack", True),
)
OF_LIBRARY = (
    Column("bytes", "bytes", "bytes that are resident"),
    Column("shared", "shared", "of these: in pages that other processes have as well"),
    Column("kind", "kind", "libraries, files or recorder", True),
    Column("file", "file", "path of the library or file", True),
)
OF_LOOK = (
    Column("number", "look", "number of the look, for --at"),
    Column("seconds", "at (s)", "seconds since the recording began"),
    Column("rss", "resident", "bytes that were resident, as the kernel reports them"),
    Column("pss", "share", "the same, with pages that several processes have divided among them (PSS)"),
    Column("swap", "swap", "bytes that were swapped"),
    Column("reason", "why", "first, growth, steady, mark, time, request, end", True),
    Column("name", "mark", "name of the mark", True),
)
COLUMNS = {"kind": OF_KIND, "mapping": OF_MAPPING, "site": OF_SITE, "library": OF_LIBRARY, "look": OF_LOOK}
ORDERS = {"kind": None, "mapping": "rss", "site": "bytes", "library": "bytes", "look": None}
EXAMPLES = f"""\
`ljtrace run --pages` and `ljtrace attach --pages` look at the pages of the process from time to time: first, when a
tenth more memory is resident than at any look before, half a second after such a look if none followed (steady),
when the last look is older than a second and than a quarter of the time until it, at marks, and at the end.
`--pages=1s` looks each second, too. There is no look at the end of a program that is killed by a signal. This
command shows one of these looks. The rows of --by kind add up to what the kernel reports as resident (RSS).

  live       bytes of live blocks that are resident, as `steve sites` has them
  overhead   what allocators take for live blocks besides their bytes, headers and rounding, which is not free: computed
             by the rules of glibc, LuaJIT, jemalloc and mimalloc; of other allocators it is in the next row
  free       other bytes of the C allocator's pages in no live block: whole pages, which can be returned to the system,
             and the rest of pages with live blocks, which --by site divides among the sites of these blocks (`pinned`)
  lua        the same of LuaJIT's allocator
  own        what the program mapped by mmap, mremap, sbrk or shmat, without blocks in it
  files      files and shared memory that are mapped, but no libraries
  stacks     of all threads: what was touched, not what is reserved
  libraries  code and data of the program and its libraries
  jit        machine code that was made at run time, as by LuaJIT
  recorder   memory of the recorder in the program, which is not there without it
  before     private memory that was mapped before `ljtrace attach`, so that the call is not known
  other      private memory that none of these explains, such as what the C library maps for itself
  changed    what the kernel's sums have more, or less, than the pages that were read: the process ran meanwhile

--at says which look: peak, the one with the most resident bytes, but not the one at the end if another has nearly as
many, since at its end a program has often freed its blocks; end, the last one; the name of a mark; or the number of a
look (--by look lists them).

In a recording under Valgrind the pages are those of Valgrind. There, and without --pages, only the bytes of live
blocks are shown.

{listing.explained(OF_KIND)}

With --by mapping:
{listing.explained(OF_MAPPING).partition(chr(10))[2]}

With --by site:
{listing.explained(OF_SITE).partition(chr(10))[2]}

With --by library:
{listing.explained(OF_LIBRARY).partition(chr(10))[2]}

With --by look:
{listing.explained(OF_LOOK).partition(chr(10))[2]}

examples:
  ljtrace run --pages --out=app.ljt ./app && steve resident app.ljt
  steve resident app.ljt --at end --by site
  steve resident app.ljt --at loaded --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    source.add_trace(parser)
    policy.add_arguments(parser)
    looks.add_at(parser)
    parser.add_argument("--by", choices=BY, default=BY[0], help="what a row is (default: kind)")
    listing.add_arguments(parser, OF_KIND, None)


def looks_of(every: list[Pages]) -> list[dict]:
    found = []
    for number, pages in enumerate(every, 1):
        sums = sums_of(pages)
        del sums["huge"]
        found.append(
            {"number": number, "seconds": pages.time / 1e9, **sums, "reason": pages.reason, "name": pages.name}
        )
    return found


# -- output -----------------------------------------------------------------------------------------------------------


def title_of(facts: dict) -> str:
    why = f"mark {facts['mark']}" if facts["mark"] else facts["reason"]
    most = f"; at most {human_bytes(facts['highest'])} in the recording" if facts["highest"] > facts["rss"] else ""
    return f"{facts['file']}: {human_bytes(facts['rss'])} resident ({human_ns(facts['seconds'] * 1e9)}, {why}){most}"


def shown(rows: Iterable[dict]) -> list[dict]:
    """The rows of a table: bytes with units."""
    sizes = ("bytes", "live", "overhead", "pinned", "mapped", "rss", "pss", "swap", "huge", "size", "shared")
    return [
        {key: human_bytes(value) if key in sizes and value is not None else value for key, value in row.items()}
        for row in rows
    ]


def without_long_details(rows: list[dict]) -> tuple[list[dict], list[str]]:
    """The rows by kind without the details that would make the table wider than a line, and these as lines below it."""
    found, below = [], []
    for row in rows:
        detail = row.get("detail")
        if detail and len(row["what"]) > WIDEST:
            below.append(f"{row['what']}.")
            row = {**row, "what": row["what"].removesuffix(f": {detail}")}
        found.append(row)
    return found, below


def write(args: argparse.Namespace, facts: dict, rows: list[dict], title: str, remarks: list[str]) -> None:
    """Write the rows as the arguments request. facts: the other keys of --json; remarks: lines below a table."""
    columns = COLUMNS[args.by]
    order = args.sort or ORDERS[args.by]
    rows = listing.ranked(rows, columns, order)
    with Output(args.output or "-") as out:
        if args.json:
            keys = [column.key for column in columns]
            kept = [{key: row[key] for key in keys} for row in rows[: args.top]]
            out.write(json.dumps({**facts, "rows": kept}, indent=1) + "\n")
        elif args.csv:
            out.write(listing.csv_text(rows[: args.top], columns))
        else:
            plain = not sys.stdout.isatty() or args.output not in (None, "-")
            top = len(rows) if args.top is None and order is None else args.top
            rows, below = without_long_details(rows)
            out.write(listing.text(title, shown(rows), columns, top, plain, order))
            lines = [*below, *remarks]
            out.write("".join(f"{text}\n" for text in ("", *lines) if lines))


def without_pages(trace: Trace, args: argparse.Namespace) -> int:
    """What can be said of a recording without looks: the bytes of live blocks at the end."""
    why = looks.why_none(trace)
    if args.at not in ("peak", "end"):
        raise SteveError(f"{trace.name}: has no look at the pages of the process: {why}")
    end = read_live(args, None)
    facts = {"file": trace.name, "look": None, "rss": None, "why": why, "by": args.by}
    heaps: Counter[str] = Counter()
    for heap, size in zip(end.heap.tolist(), end.size.tolist()):
        known = trace.heap(heap)
        heaps[known.kind if known else "malloc"] += size
    nothing = dict.fromkeys((column.key for column in OF_KIND), None)
    rows = [
        {**nothing, "bytes": size, "kind": LIVE, "what": f"live blocks of {kind}", "detail": kind}
        for kind, size in heaps.most_common()
    ]
    title = f"{trace.name}: bytes of live blocks at the end; what was resident is not known"
    write(argparse.Namespace(**{**vars(args), "by": "kind"}), facts, rows, title, [f"Not known: {why}."])
    return source.verdict(NAME, trace)


def read_live(args: argparse.Namespace, time: int | None) -> LiveBlocks:
    """The blocks that are live at a time; None: at the end."""
    trace = source.open_trace(args)
    with Progress(NAME, args.quiet) as progress:
        return live_at.live_at(trace, (1 << 64) - 1 if time is None else time, progress)


def run(args: argparse.Namespace) -> int:
    listing.check(args, COLUMNS[args.by])
    if args.file == "-" or source.is_pipe(args.file):
        raise UsageError(f"{args.file}: is read twice, so it has to be a file")
    trace = source.open_trace(args)
    with Progress(NAME, args.quiet) as progress:
        trace.skim(progress)
    every = looks.of_trace(trace)
    if not every:
        return without_pages(trace, args)
    if args.by == "look":
        write(args, {"file": trace.name, "by": args.by}, looks_of(every), f"{trace.name}: looks at its pages", [])
        return source.verdict(NAME, trace)
    number = looks.number_of(every, args.at)
    pages = every[number - 1]
    live = read_live(args, pages.time)
    found = owners.Finder(trace, pages, live).find()
    places = Places(trace, policy.of_arguments(args))
    view = View(trace, found, live, places, places.listed_sites(args))
    rows = {"kind": view.of_kinds, "mapping": view.of_mappings, "site": view.of_sites, "library": view.of_libraries}[
        args.by
    ]
    facts = {**facts_of(trace, found, number), "by": args.by}
    remarks = looks.of_the_end(trace, pages) if args.at == "end" else []
    if args.by == "kind":
        remarks = remarks_of(trace, view, facts, args.at)
    write(args, facts, rows(), title_of(facts), remarks)
    return source.verdict(NAME, trace)
