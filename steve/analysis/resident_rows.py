"""The rows and sentences of who owns each resident page of the process at one look, for `steve resident` and the report.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from steve.analysis import looks, owners, totals
from steve.analysis.owners import (
    CHANGED,
    FILES,
    FREE,
    LIBRARIES,
    LIVE,
    LUA,
    OTHER,
    OVERHEAD,
    OWN,
    RECORDER,
    STACKS,
    Owners,
)
from steve.terminal.units import counted, human_bytes
from steve.trace import allocators, page_runs, policy, runtimes
from steve.trace.frames import frame_text, is_native, short_name
from steve.trace.places import Places

if TYPE_CHECKING:
    from steve.analysis.live_at import LiveBlocks
    from steve.trace._memtrace import Pages, Trace

FEW_STARTS = 4  # functions in which threads begin that are named
FEW_KEEPERS = 3  # sites that are named of those that keep pages
BEFORE = "before"  # the kind of a row: a part of owners.OTHER
OVERHEAD_UNKNOWN = "with headers and rounding of live blocks, which are not known of this allocator"
TITLE_BEFORE = "private memory of unknown owner, mapped before the attach"


class View:
    """The rows of one look. live: the blocks that are live at that time. site: the name of a site of `places`."""

    def __init__(
        self, trace: Trace, found: Owners, live: LiveBlocks, places: Places, site: Callable[[int], str]
    ) -> None:
        self.trace, self.found, self.live = trace, found, live
        self.places, self.site = places, site
        self.kinds = found.by_kind()
        self.allocator = allocators.allocator_of(trace)
        self.titles = looks.titles_of(trace.info())
        self.knows_blocks = not looks.lacks_blocks(trace.info())

    # -- by kind --

    def of_kinds(self) -> list[dict]:
        all_bytes = self.found.resident
        shared: Counter[str] = Counter()
        for owned in self.found.parts:
            shared[LIVE] += owned.shared_live
            shared[OVERHEAD] += owned.shared_overhead
            rest = owned.shared - owned.shared_live - owned.shared_overhead
            shared[BEFORE if owned.part.is_older else owned.part.kind] += rest
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
        """The kinds of rows with their bytes: what is of unknown owner is in two rows, if a part was mapped before the
        attach."""
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
        if kind == OVERHEAD:
            return self._of_overhead()
        if kind in (FREE, LUA):
            return self._of_free(kind)
        if kind in (OWN, FILES):
            return self._largest(kind)
        return {
            STACKS: self._of_stacks(),
            RECORDER: "not there without it",
            BEFORE: f"{counted(len({o.mapping for o in self.older()}), 'mapping')}",
            LIBRARIES: counted(len({o.part.name for o in self.of(LIBRARIES) if o.part.name[:1] == "/"}), "file"),
        }.get(kind, "")

    def of(self, kind: str) -> list[owners.Owned]:
        return [owned for owned in self.found.parts if owned.part.kind == kind]

    def _of_live(self) -> str:
        all_bytes = int(self.live.size.sum())
        absent = all_bytes - self.kinds[LIVE]
        text = counted(len(self.live.size), "block")
        return f"{text} of {human_bytes(all_bytes)}" if absent > 0 else text

    def _of_overhead(self) -> str:
        """What allocators take for live blocks besides their bytes."""
        count = len(self.live.size)
        each = f"{self.kinds[OVERHEAD] / count:.0f} bytes a block (--by site)" if count else ""
        return each if self.found.knows_overhead else f"of LuaJIT's blocks only; {each}"

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

    def arenas(self, kind: str) -> int:
        """How many arenas of threads an allocator has."""
        return sum(o.part.name == "arena" for o in self.of(kind))

    def _of_free(self, kind: str) -> str:
        """What is free in an allocator: FREE or LUA."""
        whole, below = self.whole(kind)
        known = allocators.LUAJIT if kind == LUA else self.allocator
        beside = self.kinds[kind] - whole
        arenas = self.arenas(kind)
        returned = known.whole.format(looks.returnable_text(self.returnable(kind), whole)) if known else ""
        texts = []
        if self.knows_free(kind):
            texts.append(f"{human_bytes(whole)} in whole pages{f' ({returned})' if returned else ''}")
            texts += [f"{human_bytes(below)} of them below live blocks"] if below else []
            texts.append(f"{human_bytes(beside)} beside live blocks (--by site: pinned)")
            texts += [OVERHEAD_UNKNOWN] if kind == FREE and not self.found.knows_overhead else []
        texts += [f"with {counted(arenas, 'arena')} of threads"] if arenas else []
        return ", ".join(texts)

    def returnable(self, kind: str) -> int:
        """Bytes of an allocator that a trim returns at least, if no cache of a thread holds a block there."""
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

    def large_stacks(self) -> list[str]:
        """What is to be said of stacks that are much of what is resident."""
        sizes = [owned.resident for owned in self.of(STACKS)]
        if sum(sizes) < max(1 << 20, self.found.resident // 20):
            return []
        begin = [
            f"{line.function} ({os.path.basename(line.file)})" if line.file else line.function
            for line in self.places.thread_functions()
        ]
        more = f" and {len(begin) - FEW_STARTS} more" if len(begin) > FEW_STARTS else ""
        starts = f" Threads begin in {', '.join(begin[:FEW_STARTS])}{more}." if begin else ""
        return [
            f"Stacks: the largest has {human_bytes(max(sizes))} (--by mapping: each). A stack keeps what was ever touched until "
            f"its thread ends. Which calls touched it is not recorded: deep recursion, large local arrays or alloca; gcc "
            f"-fstack-usage lists the bytes of each function.{starts}"
        ]

    def own_line(self, site: int) -> str:
        """The innermost frame of a site in the program's own code."""
        frames = [frame for frame in self.places.sites.shown.frames(site) if frame is not None]
        own = next(filter(policy.is_own, frames), frames[0] if frames else None)
        if own is None:
            return "(unknown)"
        return frame_text(own._replace(function=short_name(own.function)) if is_native(own) else own)

    def keepers(self) -> list[str]:
        """What is to be said of free memory beside live blocks, if it is much: whose blocks they are."""
        beside = self.kinds[FREE] + self.kinds[LUA] - self.whole(FREE)[0] - self.whole(LUA)[0]
        if beside < max(1 << 20, self.found.resident // 10) or not self.knows_free(FREE):
            return []
        live, pinned = Counter[str](), Counter[str]()
        for row in self.of_sites(self.own_line):
            live[row["site"]] += row["live"]
            pinned[row["site"]] += row["pinned"]
        named = [
            f"blocks of {line}, {human_bytes(live[line])}, keep {human_bytes(size)}"
            for line, size in pinned.most_common(FEW_KEEPERS)
            if size >= beside / 10
        ]
        if not named:
            return []
        return [
            f"What keeps the {human_bytes(beside)} beside live blocks, the largest first: {'; '.join(named)} (--by site: all). "
            "No call such as malloc_trim returns them. If these blocks were apart from those that are freed, as in a pool, pages "
            "would become free."
        ]

    def large_variables(self) -> list[str]:
        """What is to be said of static variables that are much of what is resident: of the file that has most of them."""
        mappings = self.found.pages.mappings
        sizes: Counter[str] = Counter()
        for owned in self.of(LIBRARIES):
            if mappings[owned.mapping].flags & page_runs.WRITE:
                sizes[owned.part.name] += owned.resident - owned.live
        ((name, size),) = sizes.most_common(1) or [("", 0)]
        if size < max(1 << 20, self.found.resident // 20):
            return []
        return [
            f"Static variables: those of {name} have {human_bytes(size)} (--by library: each file). How much each of "
            "them has is not recorded: nm -CS --size-sort FILE lists the variables and their sizes, unless the file was stripped."
        ]

    # -- by mapping, site, library --

    def of_mappings(self) -> list[dict]:
        kinds: dict[int, Counter[str]] = {}
        files: dict[int, str] = {}
        for owned in self.found.parts:
            of_one = kinds.setdefault(owned.mapping, Counter())
            of_one[LIVE] += owned.live
            of_one[OVERHEAD] += owned.overhead
            of_one[BEFORE if owned.part.is_older else owned.part.kind] += owned.rest
            files.setdefault(owned.mapping, owned.part.name)
        rows = []
        for number, mapping in enumerate(self.found.pages.mappings):
            owners = [kind for kind, size in kinds.get(number, Counter()).most_common() if size > 0]
            variables = f"(static variables of {files[number]})" if owners == [LIBRARIES] else ""
            rows.append(
                {
                    "rss": mapping.rss,
                    "pss": mapping.pss,
                    "swap": mapping.swap,
                    "huge": mapping.huge,
                    "size": mapping.size,
                    "start": f"0x{mapping.start:x}",
                    "rights": rights_of(mapping.flags),
                    "kind": ", ".join(owners),
                    "name": mapping.name or variables,
                }
            )
        return rows

    def of_sites(self, name: Callable[[int], str] | None = None) -> list[dict]:
        """name: of a site, by its number; None: as in other rows."""
        import numpy as np

        sums: dict[int, dict[str, float]] = {}

        def add(site: int, **values: float) -> None:
            row = sums.setdefault(site, dict.fromkeys(("live", "overhead", "pinned", "mapped", "blocks"), 0))
            for key, value in values.items():
                row[key] += value

        assert self.found.live_resident is not None and self.found.pinned is not None
        assert self.found.overhead is not None
        sites, which = np.unique(self.places.sites.of(self.live.stack), return_inverse=True)
        live = np.bincount(which, self.found.live_resident, len(sites))
        overhead = np.bincount(which, self.found.overhead, len(sites))
        pinned = np.bincount(which, self.found.pinned, len(sites))
        blocks = np.bincount(which, minlength=len(sites))
        for i, site in enumerate(sites.tolist()):
            add(site, live=live[i], overhead=overhead[i], pinned=pinned[i], blocks=blocks[i])
        for owned in self.found.parts:
            if owned.part.stack and owned.part.kind in (OWN, FILES):
                add(int(self.places.sites.of(_one(owned.part.stack))[0]), mapped=owned.resident - owned.live)
        return [
            {
                "bytes": round(row["live"] + row["overhead"] + row["pinned"] + row["mapped"]),
                **{key: round(value) for key, value in row.items()},
                "site": (name or self.site)(site) if site else "(unknown)",
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


def facts_of(trace: Trace, found: Owners, number: int) -> dict:
    """What is known of look `number` as a whole: keys and values of `steve resident --json`."""
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
        "highest": totals.most_resident(trace.pages()),
        "threads": pages.threads or None,
        "before_end": looks.before_end(trace, pages),
        "not_read": found.unread,
        **in_pools(trace, found),
    }


def remarks_of(trace: Trace, view: View, facts: dict, at: str) -> list[str]:
    """Sentences below the table by kind. at: which look was wanted. A line that begins with spaces belongs to a list
    of advice."""
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
    if facts["highest"] > 1.1 * max(facts["rss"], 1) and at == "peak":
        texts.append("The highest value was between two looks; --pages=10ms looks more often.")
    texts += looks.of_the_end(trace, found.pages) if at == "end" else []
    texts += looks.of_growth(looks.of_trace(trace), facts["look"]) if at in ("peak", "end") else []
    texts += [f"{remark}." for remark in runtimes.remarks(facts)]
    if "attached" in info:
        texts += looks.from_before(info)
        texts += looks.of_older_mappings(sum(owned.resident for owned in view.older()))
    texts += [*view.large_stacks(), *view.large_variables(), *view.keepers()]
    whole, below = view.whole(FREE) if view.knows_free(FREE) else (0, 0)
    if whole and view.allocator and view.allocator.caveat:
        texts.append(view.allocator.caveat)
    if view.allocator and whole >= max(1 << 20, facts["rss"] // 20):
        texts.append(
            f"What {view.allocator.name} offers for free memory (nothing of it was tried here; steve tune --goal end tries "
            "settings and other allocators):"
        )
        texts += [f"  {advice}" for advice in view.allocator.offers(view.arenas(FREE) > 0, whole - below >= 1 << 20)]
    if view.whole(LUA)[0] >= max(1 << 20, facts["rss"] // 20):
        texts.append("What LuaJIT offers (nothing of it was tried here):")
        texts += [f"  {advice}" for advice in allocators.LUAJIT.offers(arenas=False, ends=False)]
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
