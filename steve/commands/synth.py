"""steve synth: make operations without a program.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import argparse
import json
import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from steve.commands import tune
from steve.plots.style import parse_formats, stem_of
from steve.system.errors import SteveError, UsageError
from steve.system.messages import note
from steve.system.output import Output
from steve.system.tempfiles import scratch_folder
from steve.terminal import arguments
from steve.terminal.aligned import aligned
from steve.terminal.progress import Progress
from steve.terminal.units import human_bytes

if TYPE_CHECKING:
    from steve.allocstats.replay import Driver, Replay
    from steve.analysis.opsarrays import Ops
    from steve.plots.bound import Curve
    from steve.synth.adversaries import Program
    from steve.synth.model import Model

NAME = "synth"
HELP = "make operations like those of a trace, or such as are difficult for allocators"
STARTS_ALLOCATORS = True
KINDS = ("robson", "ratchet", "ramp", "sawtooth", "random", "producer-consumer")
UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
POINTS = 150
EXAMPLES = """\
--like describes a trace by distributions in 16 phases: of sizes, of lifetimes, of what follows what, of the lengths of
runs of Frees, and of which block such a run frees next. Of a memtrace, these are the blocks of malloc; to compare with
the original, take the operations of steve ops --where 'heap = "malloc"'. It writes operations that follow them, and
prints how far they are from the original: Kolmogorov-Smirnov distances from 0 (the same) to 1, those of lifetimes also
by size class. --save-model writes the description, a JSON file that can be changed; --model makes operations of it.
Where many blocks live equally long, those of the model do so only nearly, and the distance of lifetimes is large.
  --threads  so many threads, each with a program like the original
  --times    about so many times as many operations
  --stretch  blocks live so many times as long, so more are live at once

KIND is a program that is difficult for allocators:
  robson             forces every allocator that moves no blocks to need M/2 log2 n + M - n + 1 words, if M words are
                     live and the largest block has n; this one is for those that place blocks side by side, like first
                     fit
  ratchet            every second block is freed, and blocks of twice the size follow
  ramp               sizes grow, nothing is freed before the end
  sawtooth           nearly all is freed, again and again
  random             random blocks replace each other in a full heap
  producer-consumer  each thread makes blocks that the next thread frees
The file names the source of the program and the bound on memory that it approaches. --allocators replays it on some,
and draws how much memory they need, with the bound. All threads of producer-consumer are replayed as one there: use
steve allocstats --threads=replay or steve tune.

examples:
  steve synth --like app.ljt -o like-ops
  steve synth --like app.ljt --save-model app.json --times 10
  steve synth --model app.json --threads 4 -o four-ops
  steve synth robson --allocators firstfit,bestfit,glibc -o robson-ops
"""


def size_of(text: str) -> int:
    """A number of bytes: 4096, 64K, 16M."""
    unit = UNITS.get(text[-1:].lower())
    digits = text[:-1] if unit else text
    if not digits.isdecimal() or not 0 < int(digits) * (unit or 1) < 1 << 40:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of bytes like 65536, 64K or 16M")
    return int(digits) * (unit or 1)


def factor_of(text: str) -> float:
    """A factor above 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0
    if not 0 < value <= 1e6:
        raise argparse.ArgumentTypeError(f"'{text}' is not a factor from above 0 to a million")
    return value


def count_of(text: str) -> int:
    """A whole number from 1 on."""
    if not text.isdecimal() or not 0 < int(text) < 10**9:
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number from 1 on")
    return int(text)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("kind", metavar="KIND", nargs="?", help="one of " + ", ".join(KINDS))
    arguments.reads(
        parser.add_argument("--like", metavar="FILE", help="memtrace or ops file to be like"),
        arguments.TRACE,
        arguments.OPS,
    )
    arguments.reads(
        parser.add_argument("--model", metavar="FILE", help="a description that --save-model wrote"), arguments.MODEL
    )
    parser.add_argument("--save-model", metavar="FILE", help="write the description of the trace to this file")
    parser.add_argument("--threads", type=count_of, metavar="N", help="number of threads (default 1)")
    parser.add_argument("--times", type=factor_of, metavar="X", help="about so many times as many operations")
    parser.add_argument("--stretch", type=factor_of, metavar="X", help="lifetimes so many times as long")
    parser.add_argument("--live", type=size_of, metavar="SIZE", help="of KIND: most bytes live at once (default 16M)")
    parser.add_argument("--largest", type=size_of, metavar="SIZE", help="of KIND: the largest block (default 256K)")
    parser.add_argument("--operations", type=count_of, metavar="N", help="of KIND: about how many (default 200000)")
    parser.add_argument("--seed", type=count_of, default=1, metavar="N", help="of random choices (default 1)")
    parser.add_argument("--allocators", metavar="A,B", help="of KIND: replay on these, and draw memory and bound")
    arguments.add_output(parser, "default: KIND-ops or FILE-synth-ops")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    arguments.add_quiet(parser)


def _check(args: argparse.Namespace) -> None:
    given = [one for one in (args.kind, args.like, args.model) if one]
    if len(given) != 1:
        raise UsageError("give one of KIND, --like FILE and --model FILE")
    if args.kind and args.kind not in KINDS:
        raise UsageError(f"there is no KIND '{args.kind}'; there are: {', '.join(KINDS)}")
    of_kind = {
        "--live": args.live,
        "--largest": args.largest,
        "--operations": args.operations,
        "--allocators": args.allocators,
    }
    of_model = {"--times": args.times, "--stretch": args.stretch, "--save-model": args.save_model}
    for option, value in (of_model if args.kind else of_kind).items():
        if value is not None:
            raise UsageError(f"{option} is not for {'KIND' if args.kind else 'models'}")
    if args.threads and args.kind and args.kind != "producer-consumer":
        raise UsageError(f"--threads: {args.kind} has one thread")
    if args.model and args.save_model:
        raise UsageError("--save-model is for --like; the model of --model is in a file already")


def _write(args: argparse.Namespace, default: str, ops: Ops, comments: list[str]) -> str:
    """Write the operations in the text form, with comments about them."""
    from steve.analysis import opsarrays

    output = args.output or default
    opsarrays.write(output, ops, comments)
    return output


def _like(args: argparse.Namespace) -> dict[str, Any]:
    """Make operations of a model."""
    from steve.analysis import opsarrays
    from steve.synth import generate, model
    from steve.synth.distances import by_size_class, distances

    original, described = None, None
    if args.like:
        with scratch_folder("steve-synth-") as folder:
            original = model.lives_of(opsarrays.read(tune.ops_of(args.like, folder, args.quiet)))
        described = model.describe(original, args.like)
    else:
        described = model.read_model(args.model)
    if args.save_model:
        with Output(args.save_model) as out:
            out.write(described.as_text())
    scale = generate.Scale(args.threads or 1, args.times or 1.0, args.stretch or 1.0)
    ops = generate.generate(described, scale, args.seed)
    comments = [
        f"made by steve synth, like {described.source}; seed {args.seed}, threads {scale.threads}, "
        f"times {scale.times:g}, stretch {scale.stretch:g}"
    ]
    output = _write(args, f"{args.like or args.model}-synth-ops", ops, comments)
    made = model.lives_of(ops)
    found = {
        "file": output,
        "like": described.source,
        "operations": made.operations,
        "blocks": len(made.size),
        "live_peak": int(made.live_bytes().max()),
        "original": _original(described),
        "distances": distances(original, made) if original is not None else None,
        "size_classes": [asdict(one) for one in by_size_class(original, made)] if original is not None else None,
    }
    return found


def _original(described: Model) -> dict[str, int]:
    return {"operations": described.operations, "blocks": described.blocks, "live_peak": described.live_peak}


def _curves(replay: Replay, drivers: list[Driver], ops: str, heap: int, quiet: bool) -> list[Curve]:
    """The resident memory of the allocators over time. Those that fail are named and left out."""
    from steve.allocstats.parse import read_allocstats
    from steve.allocstats.runner import Failure, Plan, result_path, run_all
    from steve.plots.bound import Curve

    curves = []
    with scratch_folder("steve-synth-") as folder, Progress(NAME, quiet, "allocators") as progress:
        plan = Plan(os.path.abspath(ops), folder, heap, POINTS, 0, None, False, ("--passes=1",))
        for outcome in run_all(replay, plan, drivers, 1, progress):
            if isinstance(outcome, Failure):
                note(NAME, f"no result of {outcome.allocator}: {outcome.reason}")
                continue
            stats = read_allocstats(result_path(plan, outcome.allocator))
            memory = stats.column("resident")
            curves.append(
                Curve(outcome.allocator, stats.column("op_index").astype(int).tolist(), memory.astype(int).tolist())
            )
    return curves


def _draw(args: argparse.Namespace, program: Program, output: str, source: str) -> tuple[list[str], list[Curve]]:
    """Replay the program, and draw memory and bound."""
    import numpy as np

    from steve.allocstats.replay import Replay, choose
    from steve.plots.bound import draw_bound
    from steve.synth.model import lives_of

    replay = Replay()
    drivers, _ = choose(args.allocators, replay.drivers())
    live = lives_of(program.ops).live_bytes()
    curves = _curves(replay, drivers, output, int(max(program.bound, live.max()) * 1.5), args.quiet)
    if not curves:
        raise SteveError("none of the allocators gave a result")
    at = np.linspace(0, len(live) - 1, min(len(live), 2000)).astype(int)
    title = f"{args.kind}: memory that allocators need, and the bound"
    stem, kind = stem_of(f"{output}.png")
    texts = (title, program.bound_is, f"source: {source}")
    return draw_bound(curves, (at.tolist(), live[at].tolist()), program.bound, texts, stem, parse_formats(kind)), curves


def _adversary(args: argparse.Namespace) -> dict[str, Any]:
    """Make a program that is difficult for allocators."""
    from steve.synth.adversaries import KINDS as PROGRAMS
    from steve.synth.adversaries import Wanted
    from steve.synth.model import lives_of

    make, source = PROGRAMS[args.kind]
    wanted = Wanted(
        args.live or 16 << 20, args.largest or 256 << 10, args.operations or 200000, args.threads or 2, args.seed
    )
    if wanted.largest > wanted.live:
        raise UsageError(f"--largest: {wanted.largest} bytes are more than --live, {wanted.live}")
    program = make(wanted)
    comments = [f"{args.kind}: {source}", f"bound: {program.bound} bytes, {program.bound_is}"]
    output = _write(args, f"{args.kind}-ops", program.ops, comments)
    figure, curves = _draw(args, program, output, source) if args.allocators else ([], [])
    lives = lives_of(program.ops)
    return {
        "file": output,
        "kind": args.kind,
        "source": source,
        "operations": lives.operations,
        "blocks": len(lives.size),
        "live_peak": int(lives.live_bytes().max()),
        "bound": program.bound,
        "bound_is": program.bound_is,
        "allocators": {curve.allocator: max(curve.heap) for curve in curves},
        "figure": figure,
    }


def _size_classes(classes: list[dict[str, Any]]) -> str:
    """A table of the blocks by size class."""
    rows = [
        [
            f"to {human_bytes(one['to'])}",
            f"{one['blocks']:,}",
            f"{one['made']:,}",
            f"{one['lifetime']:.3f}",
            *(f"{100 * part:.1f}%" for part in one["never_freed"]),
        ]
        for one in classes
    ]
    return aligned([["size", "blocks", "made", "lifetime", "never freed", "made"], *rows])


def _text(found: dict[str, Any]) -> str:
    lines = [
        f"{found['file']}: {found['operations']:,} operations, {found['blocks']:,} blocks, "
        f"live peak {human_bytes(found['live_peak'])}"
    ]
    if "kind" in found:
        lines.append(f"{found['kind']}: {found['source']}")
        lines.append(f"bound: {human_bytes(found['bound'])}, {found['bound_is']}")
        for name, most in found["allocators"].items():
            lines.append(f"{name}: {human_bytes(most)}, {100 * most / found['bound']:.1f}% of the bound")
        return "\n".join([*lines, *(f"figure: {path}" for path in found["figure"])])
    original = found["original"]
    lines.append(
        f"like {found['like']}: {original['operations']:,} operations, {original['blocks']:,} blocks, "
        f"live peak {human_bytes(original['live_peak'])}"
    )
    if found["distances"]:
        parts = ", ".join(f"{name} {value:.3f}" for name, value in found["distances"].items())
        parts = parts.replace("free_runs", "runs of Frees").replace("free_steps", "steps in these")
        lines.append(f"Kolmogorov-Smirnov distances: {parts}")
        lines += ["", _size_classes(found["size_classes"])]
    return "\n".join(lines)


def run(args: argparse.Namespace) -> int:
    """Exit status 0."""
    _check(args)
    found = _adversary(args) if args.kind else _like(args)
    if args.json:
        print(json.dumps(found, indent=2))
    elif not args.quiet:
        print(_text(found))
    return 0
