"""steve map: a picture of the address space of the process.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from steve.analysis import address_map, live_at, looks
from steve.analysis.address_map import COLORS, AddressMap
from steve.plots.style import FORMATS, parse_formats, stem_of
from steve.system.errors import SteveError, UsageError
from steve.system.output import Output, wrote
from steve.terminal import arguments
from steve.terminal.progress import Progress
from steve.terminal.units import human_bytes, human_ns
from steve.trace import policy, source
from steve.trace.places import Places

if TYPE_CHECKING:
    from steve.analysis.live_at import LiveBlocks
    from steve.trace._memtrace import Pages, Trace

NAME = "map"
HELP = "draw the address space of the process: whose each resident byte is, or where blocks are by site, age or size"
EXAMPLES = """\
The picture has what is resident at a look of a recording with --pages (`steve resident --by look` lists the looks):
addresses rise from left to right and downwards. Long ranges without a resident page are left out; the addresses at
the left tell where each row is, and the names at the right what most of a stretch is.

  owner  kinds of owners, as `steve resident` has them
  site   live blocks by the stack that made them: the nine with most bytes
  age    live blocks by the time since they were made
  size   live blocks by their sizes

With site, age and size, the free memory of allocators and what else is resident are paler. The legend has the bytes of
each colour. A cell has the colour of what is most of it, so what is small may not be seen; with site, age and size, a
cell with any byte of a block has the colour of blocks.

Without looks only live blocks at the end are known, and not their ages. Addresses under Valgrind are those of its
allocator, not those that the program's own would have chosen.

--json prints the numbers of the picture instead: cell (bytes), layers (key, title, bytes), stretches (start, end,
resident, name) and what is not drawn.

examples:
  ljtrace run --pages --out=app.ljt ./app && steve map app.ljt
  steve map app.ljt --at end --color site -o blocks.png
  steve map app.ljt --at loaded --color age --format png,svg
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    source.add_trace(parser)
    policy.add_arguments(parser)
    looks.add_at(parser)
    parser.add_argument("--color", choices=COLORS, default=COLORS[0], help="what the colours tell (default: owner)")
    parser.add_argument(
        "-o",
        "--output",
        metavar="PATH",
        help="the picture; an ending .png, .svg or .pdf selects the format (default: TRACE-map.png)",
    )
    formats = parser.add_argument("--format", metavar="LIST", help="png, svg, pdf, or several separated by commas")
    arguments.suggest(formats, FORMATS, are_list=True)
    parser.add_argument("--json", action="store_true", help="print the numbers of the picture")
    parser.set_defaults(csv=False)


class Moment:
    """What is drawn: a look, or without looks the blocks at the end."""

    def __init__(self, trace: Trace, args: argparse.Namespace) -> None:
        self.trace, self.args = trace, args
        self.looks = looks.of_trace(trace)
        self.number = looks.number_of(self.looks, args.at) if self.looks else 0
        if not self.looks and args.at not in ("peak", "end"):
            raise SteveError(f"{trace.name}: has no look at the pages of the process: {looks.why_none(trace)}")
        if not self.looks and args.color == "age":
            raise SteveError(
                f"{trace.name}: --color age needs a look at the pages of the process: {looks.why_none(trace)}"
            )

    @property
    def pages(self) -> Pages | None:
        return self.looks[self.number - 1] if self.looks else None

    def live(self) -> LiveBlocks:
        """The blocks that are live then."""
        trace = source.open_trace(self.args)
        with Progress(NAME, self.args.quiet) as progress:
            return live_at.live_at(trace, self.time, progress)

    @property
    def time(self) -> int:
        return self.pages.time if self.pages else (1 << 64) - 1

    def title(self, live: LiveBlocks) -> str:
        if self.pages is None:
            return f"{self.trace.name}: {human_bytes(int(live.size.sum()))} in live blocks at the end"
        why = f"mark {self.pages.name}" if self.pages.name else self.pages.reason
        rss = human_bytes(looks.resident_of(self.pages))
        return f"{self.trace.name}: {rss} resident at look {self.number} ({human_ns(self.pages.time)}, {why})"

    def notes(self) -> list[str]:
        """What is to be said of the picture."""
        if self.pages is None:
            found = [f"What was resident is not known: {looks.why_none(self.trace)}."]
            is_native = self.trace.info().get("recorder") == "native"
            return found + (
                [] if is_native else ["Addresses of a recording under Valgrind are those of its allocator."]
            )
        info = self.trace.info()
        return looks.from_before(info) if "attached" in info else []


def drawn(moment: Moment, live: LiveBlocks) -> tuple[AddressMap, list[str]]:
    """The map, and what is to be said of it."""
    args = moment.args
    places = Places(moment.trace, policy.of_arguments(args))
    named = places.listed_sites(args)

    def site(number: int) -> str:
        text = named(number)
        return str(getattr(text, "brief", text)) or "(unknown)"

    maps, notes = address_map.of_look(moment.trace, moment.pages, live, [args.color], places, site)
    return maps[args.color], moment.notes() + notes


def numbers_of(found: AddressMap, moment: Moment, notes: list[str]) -> dict[str, Any]:
    """The object of --json."""
    return {
        "file": moment.trace.name,
        "look": moment.number or None,
        "color": moment.args.color,
        "cell": found.cell,
        "layers": [{"key": layer.key, "title": layer.title, "bytes": layer.ranges.bytes} for layer in found.layers],
        "stretches": [
            {"start": f"{each.start:#x}", "end": f"{each.end:#x}", "resident": each.resident, "name": each.name}
            for each in found.stretches
        ],
        "not_drawn": {"stretches": found.omitted, "bytes": found.omitted_bytes},
        "notes": notes,
    }


def draw(found: AddressMap, moment: Moment, title: str, notes: list[str]) -> None:
    """Write the picture."""
    from steve.plots.address_map import Picture, notes_of
    from steve.plots.style import drawing, save

    args = moment.args
    stem, ending = stem_of(args.output or f"{args.file}-map")
    formats = parse_formats(args.format) if args.format else [ending or "png"]
    with drawing() as plt:
        picture = Picture(plt, found, args.color, title, [*notes_of(found), *notes])
        for path in save(picture.figure, stem, formats):
            wrote(NAME, path, args.output, "", args.quiet)


def run(args: argparse.Namespace) -> int:
    if args.file == "-" or source.is_pipe(args.file):
        raise UsageError(f"{args.file}: is read twice, so it has to be a file")
    trace = source.open_trace(args)
    with Progress(NAME, args.quiet) as progress:
        trace.skim(progress)
    moment = Moment(trace, args)
    live = moment.live()
    found, notes = drawn(moment, live)
    if not found.layers:
        notes = ["There is nothing to draw.", *notes]
    if args.json:
        with Output(args.output or "-") as out:
            out.write(json.dumps(numbers_of(found, moment, notes), indent=1) + "\n")
    else:
        draw(found, moment, moment.title(live), notes)
    return source.verdict(NAME, trace)
