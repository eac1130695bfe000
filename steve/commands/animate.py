# SPDX-License-Identifier: GPL-2.0-or-later
"""steve animate: a film of the heap while an ops file is replayed on one allocator.

steve-replay draws the frames and pipes them into ffmpeg; this only names things, runs it and reports.
"""
from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import tempfile
from typing import Any

from steve.allocstats.replay import Replay, choose
from steve.allocstats.runner import heap_bytes
from steve.errors import SteveError, UsageError
from steve.progress import note

NAME = "animate"
HELP = "make a film of the heap from an ops file"
EXAMPLES = """\
The film goes to <ops>-animation.avi, beside OPS, unless -o names another; the ending chooses the
container (.avi, .mp4, .mkv, .webm). $ALLOCATOR is the default of --allocator, as in the old scripts.

examples:
  steve animate app.ljt-ops
  steve animate app.ljt-ops --allocator jemalloc -o heap.mp4 --frames 600
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("ops", metavar="OPS", help="ops or lockops file")
    parser.add_argument(
        "-o", "--output", metavar="FILM", help="name of the film (default <ops>-animation.avi)"
    )
    parser.add_argument(
        "--allocator",
        metavar="NAME",
        default=os.environ.get("ALLOCATOR") or "firstfit",
        help="allocator to show (default %(default)s)",
    )
    parser.add_argument(
        "--heap", metavar="SIZE", help="bytes (K, M, G) or a multiple of the live peak, like 4x"
    )
    parser.add_argument("--size", metavar="WxH", help="pixels, like 1280x720")
    parser.add_argument("--fps", metavar="N", help="frames in a second of film")
    parser.add_argument("--frames", metavar="N", help="most frames in all")
    parser.add_argument("--json", action="store_true", help="print path, frames and duration as JSON")
    parser.add_argument("-q", "--quiet", action="store_true", help="print nothing but errors")


def probe(film: str) -> dict[str, Any]:
    """Frames (int), seconds (float), width and height of a film, counted by ffprobe. SteveError if it is
    none."""
    if shutil.which("ffprobe") is None:
        raise SteveError("ffprobe: no such program; install the package ffmpeg")
    fields = "stream=width,height,nb_read_packets:format=duration"
    result = subprocess.run(
        [
            "ffprobe",
            "-v",
            "error",
            "-count_packets",
            "-select_streams",
            "v:0",
            "-show_entries",
            fields,
            "-of",
            "json",
            film,
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    try:
        answer = json.loads(result.stdout)
        stream = answer["streams"][0]
        return {
            "frames": int(stream["nb_read_packets"]),
            "seconds": float(answer["format"]["duration"]),
            "width": int(stream["width"]),
            "height": int(stream["height"]),
        }
    except (ValueError, KeyError, IndexError):
        raise SteveError(f"{film}: ffprobe cannot read it: {result.stderr.strip()[:200]}") from None


def _arguments(args: argparse.Namespace, replay: Replay, allocator: str, film: str) -> list[str]:
    arguments = ["--allocator", allocator, "--memplot", args.ops, "-o", film]
    if args.heap:
        peak = replay.live_peak(args.ops) if args.heap.lower().endswith("x") else 0
        arguments += ["--heap", str(heap_bytes(args.heap, peak))]
    for option in ("size", "fps", "frames"):
        value = getattr(args, option)
        arguments += [f"--{option}", value] if value is not None else []
    return arguments


def _check_folder(film: str) -> None:
    """steve-replay hands the name to ffmpeg, whose complaint would be of little help."""
    folder = os.path.dirname(os.path.abspath(film))
    if not os.path.isdir(folder) or not os.access(folder, os.W_OK | os.X_OK):
        raise SteveError(f"{film}: cannot write in folder {folder}; name another place with -o")


def _one_allocator(wanted: str, replay: Replay) -> str:
    drivers, _ = choose(wanted, replay.drivers())
    if len(drivers) != 1:
        raise UsageError("--allocator: a film shows one allocator; name one")
    return drivers[0].name


def _make(args: argparse.Namespace, film: str) -> dict[str, Any]:
    """Make the film aside, check it, name it: a failed run leaves nothing and spoils no old film."""
    replay = Replay()
    allocator = _one_allocator(args.allocator, replay)
    with tempfile.TemporaryDirectory(
        prefix=".steve-animate.", dir=os.path.dirname(os.path.abspath(film))
    ) as aside:
        unfinished = os.path.join(aside, os.path.basename(film))
        try:
            outcome = replay.run(*_arguments(args, replay, allocator, unfinished))
        finally:
            replay.kill()
        if outcome.status != 0:
            hint = "; give more with --heap" if outcome.out_of_memory else ""
            raise SteveError(outcome.message + hint)
        facts = probe(unfinished)
        os.replace(unfinished, film)
    return {"film": film, "allocator": allocator, **facts}


def run(args: argparse.Namespace) -> int:
    """0 when the film is there and readable; out of memory is a failure like any other (1)."""
    if not os.path.exists(args.ops):
        raise SteveError(f"{args.ops}: no such file; `steve ops` makes one from a trace")
    film = args.output or f"{args.ops}-animation.avi"
    _check_folder(film)
    facts = _make(args, film)
    if args.json:
        print(json.dumps(facts, indent=2))
    else:
        shape = f"{facts['frames']} frames, {facts['seconds']:.1f} s, {facts['width']}x{facts['height']}"
        note(NAME, f"wrote {film}: {shape}", args.quiet)
    return 0
