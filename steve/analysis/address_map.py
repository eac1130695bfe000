"""A map of the address space of a process at a look: what each resident byte is, in rows of cells with rising addresses.

What is resident is divided into layers that do not overlap: kinds of owners, or live blocks by site, age or size and the
rest. A cell has some bytes and belongs to the layer that has most of them; where blocks are drawn by what they
are, a cell with any byte of a block belongs to blocks, since those that hold a page are often small. Long ranges
without a resident page are left out, so that the map consists of stretches, each of which begins a row. Without looks
at the pages, live blocks are all that is known.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from steve.analysis import looks
from steve.analysis.owners import FREE, KINDS, LIVE, LUA, OVERHEAD, OWN, STACKS, TITLES, Finder
from steve.terminal.units import human_bytes, human_ns
from steve.trace import page_runs
from steve.trace.page_runs import Ranges

if TYPE_CHECKING:
    import numpy as np

    from steve.analysis.live_at import LiveBlocks
    from steve.analysis.owners import Owners, Part
    from steve.trace._memtrace import Pages, Trace
    from steve.trace.places import Places

COLORS = ("owner", "site", "age", "size")
COLUMNS = 256  # cells in a row
LEAST_CELL = 64  # bytes
MOST_ROWS = 240  # of cells, of all stretches
MOST_STRETCHES = 60
TOP = 1 << 63  # above are no addresses of a program
MOST_SITES = 9
AGES = tuple(10**power for power in range(6, 13))  # ns: 1 ms to 1000 s
SIZES = tuple(4**power for power in range(2, 11))  # 16 bytes to 1 MiB
NONE = 255  # the layer of a cell in which nothing is resident
KEPT, REST = "free in the allocators", "other resident memory"
# of the parts of allocators and of stacks
NAMES = {"heap": "heap", "arena": "arena of threads", "mappings": "mappings of the allocator"}


class Layer(NamedTuple):
    """Resident addresses of one kind. key: a kind of owners; "block", if they are of blocks that number `rank` in their
    order describes; "kept", "rest"."""

    key: str
    rank: int
    title: str
    ranges: Ranges


class Stretch(NamedTuple):
    """A part of the map: addresses from a multiple of the bytes of a cell on. before: the bytes left out before it; resident:
    its resident bytes; name: what is most of it; cells: the layer of each."""

    start: int
    end: int
    before: int
    resident: int
    name: str
    cells: np.ndarray


class AddressMap(NamedTuple):
    """The map. cell: bytes of one; has_pages: is it known what is resident?; omitted, omitted_bytes: stretches that
    are too many, and what is resident in them."""

    cell: int
    has_pages: bool
    layers: list[Layer]
    stretches: list[Stretch]
    omitted: int
    omitted_bytes: int


Namer = Callable[[int], str]


class Blocks(NamedTuple):
    """The live blocks that are drawn, by class. classes: of each block; titles: of the classes."""

    live: LiveBlocks
    classes: np.ndarray
    titles: list[str]


def by_bounds(
    values: np.ndarray, bounds: tuple[int, ...], text: Callable[[float], str], what: str
) -> tuple[np.ndarray, list[str]]:
    """The class of each value between bounds, and the titles of the classes, from the least on."""
    import numpy as np

    between = [f"{text(low)} to {text(high)}" for low, high in zip(bounds, bounds[1:])]
    titles = [f"less than {text(bounds[0])}", *between, f"{text(bounds[-1])} or more"]
    return np.searchsorted(np.array(bounds, "u8"), values, "right"), [f"{what} {title}" for title in titles]


def classified(live: LiveBlocks, color: str, time: int, sites: np.ndarray, named: Namer) -> Blocks:
    """The blocks by what --color names. time: of the map; sites: of each block; named: the text of a site."""
    import numpy as np

    if color == "age":
        ages = np.uint64(time) - np.minimum(live.made, np.uint64(time))
        return Blocks(live, *by_bounds(ages, AGES, human_ns, "aged"))
    if color == "size":
        return Blocks(live, *by_bounds(live.size, SIZES, human_bytes, "of"))
    if color == "site":
        numbers, which = np.unique(sites, return_inverse=True)
        sums = np.bincount(which, live.size, len(numbers))
        order = np.argsort(-sums, kind="stable")
        rank = np.empty(len(order), "i8")
        rank[order] = np.minimum(np.arange(len(order)), MOST_SITES)
        titles = [named(int(numbers[i])) for i in order[:MOST_SITES]]
        more = len(order) - MOST_SITES
        return Blocks(live, rank[which], titles + ([f"{more:,} other site{'s' * (more > 1)}"] if more > 0 else []))
    return Blocks(live, np.zeros(len(live.addr), "i8"), [TITLES[LIVE]])


def ranges_of(live: LiveBlocks, which: np.ndarray) -> Ranges:
    """The addresses of some blocks."""
    import numpy as np

    addr, size = live.addr[which], live.size[which]
    return page_runs.union(addr, addr + np.minimum(size, ~np.uint64(0) - addr))


def layers_of(found: Owners | None, blocks: Blocks, color: str) -> list[Layer]:
    """The layers of a map, those that have any byte. found: None: nothing is known but blocks."""
    import numpy as np

    live = ranges_of(blocks.live, np.ones(len(blocks.live.addr), bool))
    is_owner = color == "owner"
    layers = []
    for rank, title in enumerate(blocks.titles):
        here = live if is_owner else ranges_of(blocks.live, blocks.classes == rank)
        here = page_runs.intersection(here, found.present) if found else here
        layers.append(Layer(LIVE if is_owner else "block", rank, title, here))
    if found:
        taken = page_runs.intersection(page_runs.intersection(found.in_use, found.present), _of_kinds(found, FREE, LUA))
        overhead = page_runs.difference(taken, live)
        layers.append(Layer(OVERHEAD, 0, TITLES[OVERHEAD], overhead))
        rest = page_runs.difference(page_runs.difference(found.present, live), overhead)
        others = tuple(kind for kind in KINDS if kind not in (LIVE, OVERHEAD))
        groups, titles = {kind: (kind,) for kind in others}, TITLES
        if not is_owner:
            groups = {"kept": (FREE, LUA), "rest": tuple(kind for kind in others if kind not in (FREE, LUA))}
            titles = {"kept": KEPT, "rest": REST}
        for key, kinds in groups.items():
            layers.append(Layer(key, 0, titles[key], page_runs.intersection(_of_kinds(found, *kinds), rest)))
    return [layer for layer in layers if layer.ranges.bytes]


def _of_kinds(found: Owners, *kinds: str) -> Ranges:
    import numpy as np

    parts = [owned.part for owned in found.parts if owned.part.kind in kinds]
    return page_runs.union(np.array([part.start for part in parts], "u8"), np.array([part.end for part in parts], "u8"))


def spans(present: Ranges, cell: int) -> Ranges:
    """Where the stretches of a map begin and end: a gap of a row or more is left out. They begin and end at cells."""
    import numpy as np

    if not len(present):
        return present
    size = np.uint64(cell)
    starts, ends = present.starts // size * size, (present.ends - np.uint64(1)) // size * size + size
    far = starts[1:] >= ends[:-1] + np.uint64(cell * COLUMNS)
    return Ranges(starts[np.append(True, far)], ends[np.append(far, True)])


def rows_in(size: int, cell: int) -> int:
    """How many rows so many bytes take."""
    return -(-size // (cell * COLUMNS))


def cell_for(present: Ranges) -> int:
    """The bytes of a cell, a power of two, so that the map is not too high."""
    cell = LEAST_CELL
    while True:
        found = spans(present, cell)
        sizes = sorted((found.ends - found.starts).tolist(), reverse=True)[:MOST_STRETCHES]
        if sum(rows_in(size, cell) for size in sizes) <= max(MOST_ROWS, len(sizes)):
            return cell
        cell *= 2


def made(found: Owners | None, blocks: Blocks, color: str, site_of: Namer) -> AddressMap:
    """The map of the owners at a look, or of blocks alone. site_of: the text of the stack of a mapping."""
    import numpy as np

    layers = layers_of(found, blocks, color)
    every = [layer.ranges for layer in layers]
    resident = page_runs.union(
        *(np.concatenate([page_runs.nothing()[i], *(some[i] for some in every)]) for i in (0, 1))
    )
    present = page_runs.clipped(resident, 0, TOP)
    cell = cell_for(present)
    found_spans = spans(present, cell)
    sizes = page_runs.covered(found_spans, present)
    shown = np.sort(np.argsort(-sizes.astype("i8"), kind="stable")[:MOST_STRETCHES])
    stretches, before = [], 0
    for i in shown.tolist():
        start, end = int(found_spans.starts[i]), int(found_spans.ends[i])
        name = _name(found, start, end, site_of) if found else "live blocks"
        stretches.append(Stretch(start, end, start - before, int(sizes[i]), name, _cells(layers, start, end, cell)))
        before = end
    omitted = len(found_spans) - len(shown)
    return AddressMap(cell, found is not None, layers, stretches, omitted, resident.bytes - int(sizes[shown].sum()))


def of_look(
    trace: Trace, pages: Pages | None, live: LiveBlocks, colors: Iterable[str], places: Places, named: Namer
) -> tuple[dict[str, AddressMap], list[str]]:
    """A map for each of `colors`, and what is to be said of them. pages: the look, None if the trace has none; live: the
    blocks that are live then; named: the text of a site of `places`."""
    import numpy as np

    def of_stack(stack: int) -> str:
        return named(int(places.sites.of(np.array([stack], "u4"))[0])) if stack else "mapped by the program"

    found = Finder(trace, pages, live).find(by_block=False) if pages else None
    notes = []
    if found and found.unread:
        notes.append(
            f"The pages of mappings with {human_bytes(found.unread)} could not be read, so they are not drawn."
        )
    if found and found.changed:
        notes.append(f"What was resident changed by {human_bytes(found.changed)} while it was read.")
    if found and looks.lacks_blocks(trace.info()):
        notes.append(
            "Blocks from before the attach are not known; where they are, memory is drawn as free in the allocator."
        )
    maps = {}
    for color in colors:
        sites = places.sites.of(live.stack) if color == "site" else live.stack
        blocks = classified(live, color, pages.time if pages else 0, sites, named)
        maps[color] = made(found, blocks, color, of_stack)
    return maps, notes


def _cells(layers: list[Layer], start: int, end: int, cell: int) -> np.ndarray:
    """The layer of each cell."""
    import numpy as np

    edges = np.arange(start, end + 1, cell, dtype="u8")
    most, cells = np.zeros(len(edges) - 1, "u8"), np.full(len(edges) - 1, NONE, "u1")
    of_blocks = np.zeros(len(cells), bool)
    for number, layer in enumerate(layers):
        before = page_runs.below(page_runs.clipped(layer.ranges, start, end), edges)
        here = before[1:] - before[:-1]
        is_new = (here > most) & ~(of_blocks & (layer.key != "block"))
        cells[is_new] = number
        most = np.where(is_new, here, most)
        of_blocks |= is_new & (layer.key == "block")
    return cells


def _name(found: Owners, start: int, end: int, site_of: Namer) -> str:
    """What is most of the resident bytes of a stretch, and how many other things there are."""
    sums: Counter[str] = Counter()
    for owned in found.parts:
        if owned.part.start < end and owned.part.end > start:
            # of a part in several stretches, each has a part of its bytes
            share = min(end, owned.part.end) - max(start, owned.part.start)
            sums[_part_name(owned.part, site_of)] += min(owned.resident, share)
    names = [name for name, _ in sums.most_common()]
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"{names[0]}{more}" if names else ""


def _part_name(part: Part, site_of: Namer) -> str:
    if part.kind in (FREE, LUA):
        return f"{NAMES.get(part.name, part.name)}{' of LuaJIT' if part.kind == LUA else ''}"
    if part.kind == STACKS:
        return f"stack of {'the main thread' if part.name == 'main' else 'a thread'}"
    if part.kind == OWN:
        return site_of(part.stack)
    return os.path.basename(part.name) or TITLES[part.kind]
