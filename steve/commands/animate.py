"""steve animate: a film of the heap while a memtrace or ops file is replayed on one allocator, or several side by side.

steve-replay draws the frames and pipes them into ffmpeg. This module chooses file names and options, runs
steve-replay and reports the result.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import argparse
import json
import os
import re
import shutil
from typing import TYPE_CHECKING, Any

from steve.allocstats.film import probe
from steve.allocstats.replay import Driver, Outcome, Replay, choose
from steve.allocstats.runner import heap_bytes, round_up
from steve.commands import ops
from steve.system.errors import SteveError, TraceError, UsageError
from steve.plots.sidebyside import join_films, plan_grid
from steve.system.messages import note
from steve.terminal import arguments
from steve.system.output import Output, publish
from steve.system.tempfiles import scratch_folder
from steve.trace import source

if TYPE_CHECKING:
    from steve.parallel.rounds import Whole
    from steve.trace._memtrace import Trace

NAME = "animate"
HELP = "make a film or pictures of the heap from a memtrace or ops file"
STARTS_ALLOCATORS = True
EXAMPLES = """\
The film is written to FILE-animation.avi, next to FILE, unless -o names another file; its extension selects the
container (.avi, .mp4, .mkv, .webm). By default it shows the program's own allocator: luajit if FILE is the memtrace of
a program with Lua states, else the one whose library the program was started with (LD_PRELOAD), if the recording lists
it, as all of `ljtrace run` do, else glibc, the C library's.
An ops file does not say what allocator its program had, so glibc is shown. $ALLOCATOR is another default, as in the old
scripts.
Several allocators are shown side by side, synchronised and to the same scale, both in the film and in the pictures
of --still and --poster.

examples:
  steve animate app.ljt
  steve animate app.ljt-ops --allocator jemalloc -o heap.mp4 --frames 600
  steve animate app.ljt-ops --allocator glibc,jemalloc,mimalloc,luajit --size 1920x1080
  steve animate app.ljt-ops --color age --poster ages.png
  steve animate app.ljt --color site --poster sites.png
  steve animate app.ljt-ops --layout hilbert --still end.png --poster whole.png
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    file = parser.add_argument("ops", metavar="FILE", help="memtrace (.ljt), ops or lockops file")
    arguments.reads(file, arguments.TRACE, arguments.OPS)
    parser.add_argument("-o", "--output", metavar="FILM", help="name of the film (default FILE-animation.avi)")
    parser.add_argument(
        "--allocator",
        metavar="NAME",
        default=os.environ.get("ALLOCATOR"),
        help="allocator to show, or several with commas (default: the program's own; see below)",
    )
    parser.add_argument("--heap", metavar="SIZE", help="bytes (K, M, G) or a multiple of the live peak, like 4x")
    parser.add_argument("--size", metavar="WxH", help="pixels, like 1280x720")
    parser.add_argument("--fps", metavar="N", help="frames per second")
    parser.add_argument("--frames", metavar="N", help="greatest number of frames")
    layout = parser.add_argument(
        "--layout", metavar="HOW", help="how addresses are laid out: rows (default) or hilbert"
    )
    arguments.suggest(layout, ("rows", "hilbert"))
    time = parser.add_argument(
        "--time", metavar="WHAT", help="the time axis: each frame covers as many ops (default), bytes or instructions"
    )
    arguments.suggest(time, ("ops", "bytes", "instructions"))
    colour = parser.add_argument(
        "--color",
        metavar="WHAT",
        help="what the colour of used bytes shows: state (default), age or size of blocks, or, of a memtrace, the site "
        "that made them: the five lines with most bytes at the peak, and others",
    )
    arguments.suggest(colour, ("state", "age", "size", "site"))
    parser.set_defaults(sites=None)
    parser.add_argument(
        "--accesses", choices=("yes", "no"), help="perform the loads and stores of FILE, and show them (default yes)"
    )
    parser.add_argument("--extent", metavar="SIZE", help="bytes of heap to draw (default: all that blocks occupy)")
    parser.add_argument("--still", metavar="PNG", help="also draw the heap after the last operation")
    parser.add_argument("--at", metavar="OP,...", help="with --still: draw the heap after these operations instead")
    parser.add_argument(
        "--poster", metavar="PNG", help="also draw the whole replay: addresses upwards, time to the right"
    )
    parser.add_argument("--json", action="store_true", help="print path, frames and duration as JSON")
    parser.add_argument("-q", "--quiet", action="store_true", help="print nothing but errors")


def _heap(args: argparse.Namespace, replay: Replay) -> int:
    peak = replay.live_peak(args.ops) if args.heap.lower().endswith("x") else 0
    return heap_bytes(args.heap, peak)


def _settle_heap(args: argparse.Namespace, replay: Replay, drivers: list[Driver]) -> None:
    """Set --heap to one size for several allocators: in bytes as the user gave it, else large enough that each of
    them can start."""
    args.heap = args.heap or "4x"
    if args.heap.lower().endswith("x"):
        args.heap = str(max([_heap(args, replay), *(round_up(driver.least_heap) for driver in drivers)]))


def _arguments(args: argparse.Namespace, replay: Replay, allocator: str, *more: str) -> list[str]:
    """The command line of steve-replay for a film. The options in `more` override others, as they come last."""
    arguments = ["--allocator", allocator, "--memplot", args.ops]
    if args.heap:
        arguments += ["--heap", str(_heap(args, replay))]
    for option in ("size", "fps", "frames", "layout", "time", "color", "sites", "extent", "accesses"):
        value = getattr(args, option)
        arguments += [f"--{option}", value] if value is not None else []
    return [*arguments, *more]


def _check_folder(film: str) -> None:
    """SteveError if the film cannot be written there. steve-replay passes the name to ffmpeg, whose own error message
    would not help the user."""
    folder = os.path.dirname(os.path.abspath(film))
    if not os.path.isdir(folder) or not os.access(folder, os.W_OK | os.X_OK):
        raise SteveError(f"{film}: cannot write in folder {folder}; name another place with -o")


def _pictures(args: argparse.Namespace) -> list[str]:
    """The options --still, --at, --poster and --force, for steve-replay."""
    given = [(name, getattr(args, name)) for name in ("still", "at", "poster")]
    forced = ["--force"] if args.force else []
    return [*forced, *(part for name, value in given if value is not None for part in (f"--{name}", value))]


def _replayed(outcome: Outcome) -> None:
    if outcome.status != 0:
        hint = "; give more with --heap" if outcome.out_of_memory else ""
        raise SteveError(outcome.message + hint)


def _film_one(args: argparse.Namespace, replay: Replay, driver: Driver, unfinished: str) -> None:
    _replayed(replay.run(*_arguments(args, replay, driver.name, "-o", unfinished, *_pictures(args))))


def _size(text: str | None) -> tuple[int, int]:
    match = re.fullmatch(r"(\d{1,5})x(\d{1,5})", text or "1280x720")
    if match is None:
        raise UsageError(f"--size: '{text}' is not like 1280x720")
    return int(match[1]), int(match[2])


def _scale(args: argparse.Namespace, replay: Replay, drivers: list[Driver], scratch: str) -> list[str]:
    """Options that give all films the same scale, large enough for the blocks of every allocator."""
    still = os.path.join(scratch, "extent.png")
    extents, strips = [], []
    for driver in drivers:
        outcome = replay.run(*_arguments(args, replay, driver.name, "--still", still, "--json"))
        if outcome.status != 0 and not outcome.out_of_memory:
            raise SteveError(outcome.message)
        answer = json.loads(outcome.output)
        extents.append(int(answer["extent"]))
        strips.append(int(answer["strip"]))
    return ["--extent", args.extent or str(max(extents)), "--strip", str(max(strips))]


def _picture_names(args: argparse.Namespace) -> list[str]:
    """The names of the pictures that steve-replay makes for --still, --at and --poster, in its order."""
    moments = args.at.split(",") if args.at else []
    stills = [args.still] if args.still else []
    if args.still and len(moments) > 1:
        stills = [f"{args.still[:-len('.png')]}-{int(moment)}.png" for moment in moments]
    return [*stills, *([args.poster] if args.poster else [])]


def _tile_options(args: argparse.Namespace, scratch: str, number: int) -> list[str]:
    """Options for the pictures of one of several allocators, which are made in the folder `scratch`."""
    options = ["--still", os.path.join(scratch, f"{number}-still.png")] if args.still else []
    options += ["--at", args.at] if args.at else []
    return options + (["--poster", os.path.join(scratch, f"{number}-poster.png")] if args.poster else [])


def _check_pictures(args: argparse.Namespace, drivers: list[Driver]) -> None:
    """Check the options for pictures of several allocators before the long runs, as steve-replay does for one."""
    if len(drivers) < 2:
        return
    if args.at and not args.still:
        raise UsageError("--at needs a name for the pictures: --still=FILE.png")
    if args.at and not re.fullmatch(r"\d+(,\d+)*", args.at):
        raise UsageError(f"--at: '{args.at}' is not a list of numbers from 1 on, separated by commas")
    for name in _picture_names(args):
        if not name.lower().endswith(".png"):
            raise UsageError(f"{name}: a picture's name must end in .png")
        _check_folder(name)


def _memtrace(path: str) -> Trace | None:
    """The file as a memtrace. None if it is something else, about which steve-replay says more."""
    from steve.trace._memtrace import Trace

    if not os.path.isfile(path) or source.holds_operations(path):
        return None
    try:
        trace = Trace(path)
    except TraceError:
        return None
    return None if trace.stats()["is_text"] else trace


def _write_ops(args: argparse.Namespace, folder: str) -> Trace | Whole:
    """Replace the memtrace in args by an ops file of it. Returns the trace, which was read."""
    path = os.path.join(folder, os.path.basename(args.ops) + "-ops")
    ways = {"resize": True, "threads": False, "times": args.time == "instructions", "compat": False}
    choice = {"where": None, "begin": None, "end": None, "divided": True, "jobs": 1, "scheduler": None}
    given = {"file": args.ops, "salvage": False, "quiet": args.quiet, "every_block": args.every_block}
    with Output(path) as out:
        trace, _ = ops.translated(argparse.Namespace(**given, **ways, **choice), out, "binary")
    args.ops = path
    return trace


def _write_sites(args: argparse.Namespace, folder: str) -> None:
    """For colours by site, set --sites to a file about the memtrace in args."""
    from steve.analysis import film_sites
    from steve.analysis.blocks import Blocks

    if args.color != "site":
        return
    width, height = _size(args.size)
    letter = max(11, min(width // 28, height // 45)) * 5 / 8  # as the legend of drivers/film/geometry.c
    given = {"file": args.ops, "salvage": False, "quiet": args.quiet, "every_block": args.every_block}
    choice = {"where": None, "begin": None, "end": None}
    args.sites = os.path.join(folder, "sites")
    film_sites.write(Blocks(NAME, argparse.Namespace(**given, **choice)), args.sites, int((width - 60) / letter))


def _own_allocator(trace: Trace | Whole | None, drivers: list[Driver]) -> str:
    """The allocator that a program had, as far as a memtrace of it says: LuaJIT's if it had Lua states, else the one
    whose library it was started with, else the C library's."""
    if trace is None:
        return "glibc"
    usable = [driver for driver in drivers if driver.available]
    heaps = [trace.heap(number) for number in range(trace.counts()["heaps"])]
    if any(heap is not None and heap.kind == "lua" for heap in heaps) and "luajit" in {d.name for d in usable}:
        return "luajit"
    mapped = {os.path.basename(module.object) for module in trace.modules()}
    return next((driver.name for driver in usable if driver.library in mapped), "glibc")


def _check_programs() -> None:
    for name in (os.environ.get("FFMPEG") or "ffmpeg", "ffprobe"):
        if shutil.which(name) is None:
            raise SteveError(f"{name}: no such program; films and pictures need it; install the package ffmpeg")


def _film_several(args: argparse.Namespace, replay: Replay, drivers: list[Driver], unfinished: str) -> None:
    """Make a film of each allocator, then join them into `unfinished`. The film of an allocator that runs out of
    memory ends there, and its last picture stays."""
    scratch = os.path.dirname(unfinished)
    _settle_heap(args, replay, drivers)
    grid = plan_grid(len(drivers), *_size(args.size))
    scale = _scale(args, replay, drivers, scratch)
    films, frames = [], []
    tiles = {picture: [] for picture in _picture_names(args)}
    for number, driver in enumerate(drivers):
        films.append(os.path.join(scratch, f"{number}.mkv"))
        pictures = _tile_options(args, scratch, number)
        more = ("-o", films[-1], "--size", grid.size, *scale, "--json", *pictures)
        outcome = replay.run(*_arguments(args, replay, driver.name, *more))
        if not outcome.out_of_memory:
            _replayed(outcome)
        else:
            note(NAME, f"{outcome.message}; its last picture stays", args.quiet)
        answers = [json.loads(line) for line in outcome.output.splitlines()]
        frames.append(int(answers[0]["frames"]))
        for picture, answer in zip(tiles, answers[1:]):
            tiles[picture].append(str(answer["file"]))
    join_films(films, frames, grid, unfinished)
    for picture, names in tiles.items():
        joined = os.path.join(scratch, "joined.png")
        join_films(names, [1] * len(names), grid, joined)
        shutil.copyfile(joined, picture)


def _make(args: argparse.Namespace, film: str) -> tuple[dict[str, Any], bool]:
    """Make the film in a temporary folder, check it, and rename it. A failed run leaves no files and does not damage
    an existing film. Returns the object of --json, and whether all of the file was read."""
    replay = Replay()
    known = replay.drivers()
    if args.allocator:
        choose(args.allocator, known)  # whether they are known, before the file is read
    trace, file = _memtrace(args.ops), args.ops
    with scratch_folder(".steve-animate.", os.path.dirname(os.path.abspath(film))) as scratch:
        if trace is not None:
            _write_sites(args, scratch)
            trace = _write_ops(args, scratch)
        elif args.color == "site":
            raise UsageError(f"--color site: {args.ops} does not say what made its blocks; give the memtrace")
        drivers, _ = choose(args.allocator or _own_allocator(trace, known), known)
        _check_pictures(args, drivers)
        unfinished = os.path.join(scratch, os.path.basename(film))
        try:
            if len(drivers) == 1:
                _film_one(args, replay, drivers[0], unfinished)
            else:
                _film_several(args, replay, drivers, unfinished)
        except SteveError as error:
            if args.ops == file or args.ops not in str(error):
                raise
            raise SteveError(str(error).replace(args.ops, file)) from None
        finally:
            replay.kill()
        facts = probe(unfinished)
        publish(film, unfinished, film)
    whole = trace is None or source.verdict(NAME, trace) == 0
    return {"film": film, "allocator": ",".join(driver.name for driver in drivers), **facts}, whole


def run(args: argparse.Namespace) -> int:
    """Exit status 0 if the film exists and can be read. Out of memory is a failure like any other (1), and so is a
    memtrace that is damaged or cut off, of which the film shows what comes before."""
    if not os.path.exists(args.ops):
        raise SteveError(f"{args.ops}: no such file; `steve ops` makes one from a trace")
    _check_programs()
    film = args.output or f"{args.ops}-animation.avi"
    _check_folder(film)
    facts, whole = _make(args, film)
    if args.json:
        print(json.dumps(facts, indent=2))
    else:
        shape = f"{facts['frames']} frames, {facts['seconds']:.1f} s, {facts['width']}x{facts['height']}"
        chosen = "" if args.allocator else f", {facts['allocator']}"
        note(NAME, f"wrote {film}: {shape}{chosen}", args.quiet)
    return 0 if whole else 1
