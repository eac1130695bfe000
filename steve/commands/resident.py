"""steve resident: who owns each resident page of the process.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from steve.analysis import live_at, looks, owners
from steve.analysis.owners import (
    CHANGED,
    FILES,
    FREE,
    LIBRARIES,
    LIVE,
    LUA,
    OTHER,
    OWN,
    RECORDER,
    STACKS,
    Owners,
)
from steve.system.errors import SteveError, UsageError
from steve.system.output import Output
from steve.terminal import listing
from steve.terminal.listing import Column
from steve.terminal.progress import Progress
from steve.terminal.units import counted, human_bytes, human_ns
from steve.trace import allocators, page_runs, policy, runtimes, source
from steve.trace.places import Places

if TYPE_CHECKING:
    from steve.analysis.live_at import LiveBlocks
    from steve.trace._memtrace import Pages, Trace

NAME = "resident"
BEFORE = "before"  # the kind of a row: a part of owners.OTHER
TITLE_BEFORE = "mapped before the attach"
HELP = "show who owns each resident page of the process: blocks, free memory, mappings, stacks, code"
BY = ("kind", "mapping", "site", "library", "look")
OF_KIND = (
    Column("bytes", "bytes", "bytes that are resident"),
    Column("share", "%", "these in percent of all"),
    Column(
        "shared", "", "of these: in pages that other processes have as well, such as those of a fork until one writes"
    ),
    Column("whole", "", "of an allocator: bytes of whole free pages"),
    Column("whole_below", "", "of these: below a live block of the same heap or arena"),
    Column("returnable", "", "of whole: what malloc_trim(0) can return, so not the ends of arenas of threads"),
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
    Column("name", "name", "of the file, or what the kernel calls it", True),
)
OF_SITE = (
    Column("bytes", "bytes", "the sum of the next three"),
    Column("live", "live", "bytes of the site's live blocks that are resident"),
    Column(
        "pinned",
        "pinned",
        "free bytes of an allocator's pages on which blocks of the site are; a page with blocks of "
        "several sites is divided in proportion to their bytes on it",
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
tenth more memory is resident than at any look before, half a second after such a look if none followed (steady), at marks, and
at the end. `--pages=1s` looks each second, too. There is no look at the end of a program that is killed by a signal. This
command shows one of these looks. The rows of --by kind add up to what the kernel reports as resident (RSS).

  live       bytes of live blocks that are resident, as `steve sites --at peak` has them
  free       bytes of the C allocator's pages in no live block: whole pages, which can be returned to the system, and
             the rest of pages with live blocks, which --by site divides among the sites of these blocks (`pinned`)
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

--at says which look: peak, the one with the most resident bytes; end, the last one; the name of a mark; or the number
of a look (--by look lists them).

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


# -- rows -------------------------------------------------------------------------------------------------------------


def site_namer(trace: Trace, args: argparse.Namespace) -> tuple[Places, Any]:
    places = Places(trace, policy.of_arguments(args))
    return places, places.listed_sites(args)


class View:
    """The rows of one look. live: the blocks that are live at that time."""

    def __init__(self, trace: Trace, found: Owners, live: LiveBlocks, args: argparse.Namespace) -> None:
        self.trace, self.found, self.live, self.args = trace, found, live, args
        self.places, self.site = site_namer(trace, args)
        self.kinds = found.by_kind()
        self.allocator = allocators.allocator_of(trace)
        self.titles = looks.titles_of(trace.info())
        self.knows_blocks = not looks.lacks_blocks(trace.info())

    def rows(self) -> list[dict]:
        return {
            "kind": self.of_kinds,
            "mapping": self.of_mappings,
            "site": self.of_sites,
            "library": self.of_libraries,
        }[self.args.by]()

    # -- by kind --

    def of_kinds(self) -> list[dict]:
        all_bytes = self.found.resident
        shared: Counter[str] = Counter()
        for owned in self.found.parts:
            shared[LIVE] += owned.shared_live
            shared[BEFORE if owned.part.is_older else owned.part.kind] += owned.shared - owned.shared_live
        return [
            {
                "bytes": size,
                "share": round(100 * size / all_bytes, 2) if all_bytes else None,
                "shared": None if kind == CHANGED else shared[kind],
                **self.free_of(kind),
                "kind": kind,
                "what": self.named(kind),
                "detail": self.detail(kind),
            }
            for kind, size in self.sizes()
            if size or kind in (LIVE, FREE)
        ]

    def sizes(self) -> Iterator[tuple[str, int]]:
        """The kinds of rows with their bytes: what is of unknown owner is in two rows, if a part was mapped before the attach."""
        for kind, size in self.kinds.items():
            before = sum(owned.resident for owned in self.older()) if kind == OTHER else 0
            if before:
                yield BEFORE, before
            yield kind, size - before

    def older(self) -> list[owners.Owned]:
        """What of unknown owner was mapped before the attach."""
        return [owned for owned in self.found.parts if owned.part.is_older]

    def named(self, kind: str) -> str:
        detail = self.detail(kind)
        title = TITLE_BEFORE if kind == BEFORE else self.titles[kind]
        return f"{title}: {detail}" if detail else title

    def detail(self, kind: str) -> str:
        """What is to be said of a kind."""
        if kind == LIVE:
            return self._of_live()
        if kind in (FREE, LUA):
            return self._of_free(kind)
        if kind in (OWN, FILES):
            return self._largest(kind)
        return {
            STACKS: self._of_stacks(),
            RECORDER: "not there without it",
            BEFORE: f"{counted(len({o.mapping for o in self.older()}), 'mapping')}, made by calls that are not known",
            LIBRARIES: counted(len({o.part.name for o in self.of(LIBRARIES) if o.part.name[:1] == "/"}), "file"),
        }.get(kind, "")

    def of(self, kind: str) -> list[owners.Owned]:
        return [owned for owned in self.found.parts if owned.part.kind == kind]

    def _of_live(self) -> str:
        all_bytes = int(self.live.size.sum())
        absent = all_bytes - self.kinds[LIVE]
        text = counted(len(self.live.size), "block")
        return f"{text} of {human_bytes(all_bytes)}" if absent > 0 else text

    def knows_free(self, kind: str) -> bool:
        """Is this an allocator, of which it is known what is free?"""
        return kind == LUA or kind == FREE and self.knows_blocks

    def free_of(self, kind: str) -> dict[str, int | None]:
        """The columns of an allocator's free memory; None of each if it is none or not known."""
        values = (*self.whole(kind), self.returnable(kind)) if self.knows_free(kind) else (None, None, None)
        return dict(zip(("whole", "whole_below", "returnable"), values))

    def whole(self, kind: str) -> tuple[int, int]:
        """Bytes of whole free pages of an allocator, and of those of them that have a live block above them."""
        return sum(o.whole for o in self.of(kind)), sum(o.whole_below for o in self.of(kind))

    def _of_free(self, kind: str) -> str:
        """What is free in an allocator: FREE or LUA."""
        whole, below = self.whole(kind)
        known = allocators.LUAJIT if kind == LUA else self.allocator
        beside = self.kinds[kind] - whole
        arenas = sum(o.part.name == "arena" for o in self.of(kind))
        returned = known.whole.format(human_bytes(self.returnable(kind))) if known else ""
        texts = []
        if self.knows_free(kind):
            texts.append(f"{human_bytes(whole)} in whole pages{f' ({returned})' if returned else ''}")
            texts += [f"{human_bytes(below)} of them below live blocks"] if below else []
            texts.append(f"{human_bytes(beside)} beside live blocks (--by site: pinned)")
        texts += [f"with {counted(arenas, 'arena')} of threads"] if arenas else []
        return ", ".join(texts)

    def returnable(self, kind: str) -> int:
        """Bytes of an allocator that a trim returns, if no cache of a thread holds a block there."""
        return sum(o.returnable for o in self.of(kind))

    def _largest(self, kind: str) -> str:
        """The largest two files or sites of a kind."""
        sizes: Counter[str] = Counter()
        for owned in self.of(kind):
            sizes[owned.part.name or self.site_of(owned.part.stack)] += owned.resident - owned.live
        names = [os.path.basename(name) if kind == FILES else name for name, _ in sizes.most_common(2)]
        more = f" and {len(sizes) - 2} more" if len(sizes) > 2 else ""
        return ", ".join(names) + more

    def site_of(self, stack: int) -> str:
        text = self.site(int(self.places.sites.of(_one(stack))[0])) if stack else ""
        return getattr(text, "brief", text) or "(unknown)"

    def _of_stacks(self) -> str:
        count = sum(o.part.name == "thread" for o in self.of(STACKS))
        threads = self.found.pages.threads
        reserved = sum(o.part.end - o.part.start for o in self.of(STACKS))
        kept = count + 1 - threads
        if not threads:
            return ""
        ended = f" and {kept} that have ended" if kept > 0 else ""
        return f"of {counted(threads, 'thread')}{ended}, {human_bytes(reserved)} reserved"

    # -- by mapping, site, library --

    def of_mappings(self) -> list[dict]:
        kinds: dict[int, Counter[str]] = {}
        for owned in self.found.parts:
            of_one = kinds.setdefault(owned.mapping, Counter())
            of_one[LIVE] += owned.live
            of_one[BEFORE if owned.part.is_older else owned.part.kind] += owned.resident - owned.live
        return [
            {
                "rss": mapping.rss,
                "pss": mapping.pss,
                "swap": mapping.swap,
                "huge": mapping.huge,
                "size": mapping.size,
                "start": f"0x{mapping.start:x}",
                "rights": rights_of(mapping.flags),
                "kind": ", ".join(kind for kind, size in kinds.get(number, Counter()).most_common() if size > 0),
                "name": mapping.name,
            }
            for number, mapping in enumerate(self.found.pages.mappings)
        ]

    def of_sites(self) -> list[dict]:
        import numpy as np

        sums: dict[int, dict[str, float]] = {}

        def add(site: int, **values: float) -> None:
            row = sums.setdefault(site, dict.fromkeys(("live", "pinned", "mapped", "blocks"), 0))
            for key, value in values.items():
                row[key] += value

        assert self.found.live_resident is not None and self.found.pinned is not None
        sites, which = np.unique(self.places.sites.of(self.live.stack), return_inverse=True)
        live = np.bincount(which, self.found.live_resident, len(sites))
        pinned = np.bincount(which, self.found.pinned, len(sites))
        blocks = np.bincount(which, minlength=len(sites))
        for i, site in enumerate(sites.tolist()):
            add(site, live=live[i], pinned=pinned[i], blocks=blocks[i])
        for owned in self.found.parts:
            if owned.part.stack and owned.part.kind in (OWN, FILES):
                add(int(self.places.sites.of(_one(owned.part.stack))[0]), mapped=owned.resident - owned.live)
        return [
            {
                "bytes": round(row["live"] + row["pinned"] + row["mapped"]),
                **{key: round(value) for key, value in row.items()},
                "site": self.site(site) if site else "(unknown)",
            }
            for site, row in sums.items()
        ]

    def of_libraries(self) -> list[dict]:
        sums: dict[tuple[str, str], list[int]] = {}
        for owned in self.found.parts:
            if owned.part.kind in (LIBRARIES, FILES, RECORDER):
                row = sums.setdefault((owned.part.kind, owned.part.name), [0, 0])
                row[0] += owned.resident - owned.live
                row[1] += owned.shared
        return [
            {"bytes": row[0], "shared": row[1], "kind": kind, "file": name or "(memory without a file)"}
            for (kind, name), row in sums.items()
        ]


def _one(stack: int) -> Any:
    import numpy as np

    return np.array([stack], "u4")


def rights_of(flags: int) -> str:
    letters = ((page_runs.READ, "r"), (page_runs.WRITE, "w"), (page_runs.EXECUTE, "x"))
    return "".join(letter if flags & flag else "-" for flag, letter in letters) + "ps"[flags & page_runs.SHARED != 0]


def sums_of(pages: Pages) -> dict[str, int]:
    """What the kernel reports of all mappings together."""
    return {name: sum(getattr(mapping, name) for mapping in pages.mappings) for name in ("rss", "pss", "swap", "huge")}


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


def facts_of(trace: Trace, found: Owners, number: int, args: argparse.Namespace) -> dict:
    """The object of --json, without its rows."""
    pages = found.pages
    return {
        "file": trace.name,
        "look": number,
        "seconds": pages.time / 1e9,
        "reason": pages.reason,
        "mark": pages.name or None,
        **sums_of(pages),
        "before": pages.before,
        "after": pages.after,
        "highest": pages.highest or None,
        "threads": pages.threads or None,
        "before_end": looks.before_end(trace, pages),
        "not_read": found.unread,
        **in_pools(trace, found),
        "by": args.by,
    }


def title_of(facts: dict) -> str:
    why = f"mark {facts['mark']}" if facts["mark"] else facts["reason"]
    most = f", at most {human_bytes(facts['highest'])}" if facts["highest"] else ""
    return f"{facts['file']}: {human_bytes(facts['rss'])} resident{most} ({human_ns(facts['seconds'] * 1e9)}, {why})"


def remarks_of(trace: Trace, view: View, facts: dict) -> list[str]:
    """Sentences below the table."""
    found, info = view.found, trace.info()
    parts = [f"shared pages divided (PSS) {human_bytes(facts['pss'])}"]
    parts += [f"swapped {human_bytes(facts['swap'])}"] if facts["swap"] else []
    parts += [f"in huge pages {human_bytes(facts['huge'])}"] if facts["huge"] else []
    texts = [f"{'; '.join(parts)}."]
    if abs(facts["after"] - facts["before"]) > 0:
        texts.append(
            f"While the pages were read, the resident bytes went from {human_bytes(facts['before'])} to "
            f"{human_bytes(facts['after'])}."
        )
    if found.reserved_huge:
        texts.append(
            f"Mappings of {human_bytes(found.reserved_huge)} have reserved huge pages, which do not count as resident."
        )
    if found.unread:
        texts.append(f"The pages of mappings with {human_bytes(found.unread)} could not be read, only their sums.")
    if facts["highest"] and facts["highest"] > 1.1 * max(facts["rss"], 1) and view.args.at == "peak":
        texts.append("The highest value was between two looks; --pages=10ms looks more often.")
    texts += looks.of_the_end(trace, found.pages) if view.args.at == "end" else []
    texts += looks.of_growth(looks.of_trace(trace), facts["look"]) if view.args.at in ("peak", "end") else []
    texts += [f"{remark}." for remark in runtimes.remarks(facts)]
    if "attached" in info:
        texts += looks.from_before(info)
        texts += looks.of_older_mappings(sum(owned.resident for owned in view.older()))
    whole = view.whole(FREE)[0] if view.knows_free(FREE) else 0
    if whole and view.allocator and view.allocator.caveat:
        texts.append(view.allocator.caveat)
    if view.allocator and whole >= max(1 << 20, facts["rss"] // 20):
        texts.append(f"What {view.allocator.name} offers for free memory (nothing of it was tried here):")
        texts += [f"  {advice}" for advice in view.allocator.advice]
    if view.whole(LUA)[0] >= max(1 << 20, facts["rss"] // 20):
        texts.append("What LuaJIT offers (nothing of it was tried here):")
        texts += [f"  {advice}" for advice in allocators.LUAJIT.advice]
    return texts


def in_pools(trace: Trace, found: Owners) -> dict:
    """What is not seen of runtimes with pools of their own: the key of the object of --json. What such a runtime has mapped is
    known by the objects of the stacks; calls of a runtime without libc are not seen, so that their memory is of unknown owner.
    """

    def size(runtime: runtimes.Runtime) -> int:
        def is_its_own(stack: int) -> bool:
            return runtimes.has_object(runtime, (frame.object for frame in trace.stack_frames(stack)))

        mapped = {o.part.stack for o in found.parts if o.part.kind == OWN and o.part.stack}
        its_own = {stack for stack in mapped if is_its_own(stack)}
        pools = [o for o in found.parts if o.part.kind == OTHER or (o.part.kind == OWN and o.part.stack in its_own)]
        return sum(owned.resident - owned.live for owned in pools)

    return runtimes.facts_of(trace, "resident_at_most", size)


def shown(rows: Iterable[dict]) -> list[dict]:
    """The rows of a table: bytes with units."""
    sizes = ("bytes", "live", "pinned", "mapped", "rss", "pss", "swap", "huge", "size", "shared")
    return [
        {key: human_bytes(value) if key in sizes and value is not None else value for key, value in row.items()}
        for row in rows
    ]


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
            out.write(listing.text(title, shown(rows), columns, top, plain, order))
            out.write("".join(f"{text}\n" for text in ("", *remarks) if remarks))


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
    view = View(trace, found, live, args)
    facts = facts_of(trace, found, number, args)
    write(args, facts, view.rows(), title_of(facts), remarks_of(trace, view, facts) if args.by == "kind" else [])
    return source.verdict(NAME, trace)
