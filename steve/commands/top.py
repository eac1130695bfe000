"""steve top: show what a program allocates while it runs.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING

from steve.live.view import METRICS, OF_ACCESSES, ROWS, View
from steve.system.errors import SteveError, UsageError
from steve.system.messages import complain
from steve.terminal import arguments
from steve.terminal.listing import entry
from steve.trace import missing, policy

if TYPE_CHECKING:
    from steve.live.screen import Screen
    from steve.live.trace import LiveTrace
    from steve.trace._memtrace import Trace

NAME = "top"
HELP = "show live what a running program allocates and holds"
READS_SAMPLES = True
EXAMPLES = f"""\
The program is recorded under Valgrind, by `ljtrace run` or `ljtrace attach`; these write what has happened at least
once a second. A process id stands for its trace, which is found by the process that writes it. The screen has the live
bytes over time, rates, the threads by what they allocate, the states of LuaJIT's virtual machine, what is resident (as
/proc says: live blocks at most, the recorder, the rest), and the lines that hold or allocate most. If standard output
is no terminal, one screen is written as text.

metrics:
{chr(10).join(entry(metric.name, metric.meaning, 11) for metric in METRICS)}

keys:
  q quit    s sort by the next metric    b rows are lines, functions, files, objects or stacks    p pause
  / filter: type a text and Enter, Escape removes it    h help

examples:
  ljtrace run --out=app.ljt luajit app.lua & steve top app.ljt
  steve top --sort rate --by function 4711
"""


def seconds(text: str) -> float:
    """argparse type: seconds from one screen to the next."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.05 <= value <= 3600:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of seconds from 0.05 to 3600")
    return value


def add_arguments(parser: argparse.ArgumentParser) -> None:
    arguments.reads(
        parser.add_argument("file", metavar="FILE|PID", help="memtrace, or the process that is being recorded"),
        arguments.TRACE,
    )
    parser.add_argument(
        "--sort",
        metavar="METRIC",
        choices=[metric.name for metric in METRICS],
        default="live",
        help="the column to sort by (default: live); see below",
    )
    parser.add_argument("--by", choices=ROWS, default="line", help="what a row is (default: line)")
    parser.add_argument("--filter", metavar="TEXT", default="", help="only rows that contain TEXT")
    parser.add_argument(
        "--accesses", action="store_true", help="read accesses, too, and show the bytes read and written"
    )
    parser.add_argument(
        "--delay", metavar="SECONDS", type=seconds, default=1.0, help="from one screen to the next (default: 1)"
    )
    parser.add_argument("--until-end", action="store_true", help="exit when the recording has ended")
    parser.add_argument("--once", action="store_true", help="write one screen as text")
    policy.add_arguments(parser)
    arguments.add_quiet(parser)


def draw_until_quit(live: LiveTrace, screen: Screen, view: View, args: argparse.Namespace) -> View:
    """Draw until the user quits. Returns what was chosen last."""
    from rich.console import Console, Group
    from rich.text import Text

    from steve.live.keyboard import Keyboard, pressed

    console = Console(highlight=False, markup=False, emoji=False)
    with Keyboard(sys.stdin.fileno()) as keyboard, console.screen(hide_cursor=True) as shown:
        due, drawn, more = 0.0, None, True
        while not (args.until_end and live.complete):
            now = time.monotonic()
            if drawn != view or now >= due and not view.paused:
                lines = screen.lines(view, console.width, console.height)
                shown.update(Group(*(Text(line.text, line.style, no_wrap=True, overflow="crop") for line in lines)))
                due, drawn = time.monotonic() + args.delay, view
            more = live.read_on(min(due, time.monotonic() + 0.1))
            keys = keyboard.wait(0 if more else min(0.25, max(due - time.monotonic(), 0.02)))
            changed = pressed(view, keys) if keys is not None else None
            if changed is None:
                break
            view = changed
    return view


def lacks_accesses(trace: Trace, args: argparse.Namespace) -> bool:
    """Were loads and stores not recorded? Says so; SteveError if the rows are to be sorted by them."""
    lacking = missing.not_recorded(trace)
    if lacking and args.sort in OF_ACCESSES:
        raise SteveError(f"{trace.name}: --sort {args.sort}: {lacking}")
    if lacking:
        complain(NAME, f"{trace.name}: --accesses: {lacking}")
    return bool(lacking)


def run(args: argparse.Namespace) -> int:
    from steve.live.screen import Screen, plain
    from steve.live.trace import LiveTrace, trace_of
    from steve.terminal.tables import width

    if args.sort in OF_ACCESSES and not args.accesses:
        raise UsageError(f"--sort {args.sort} needs --accesses")
    path = trace_of(int(args.file)) if args.file.isdecimal() else args.file
    live = LiveTrace(path, policy.of_arguments(args), args.accesses)
    live.read_on(time.monotonic())  # what the facts are in
    accesses = args.accesses and not lacks_accesses(live.trace, args)
    screen, view = Screen(live), View(args.by, args.sort, accesses, args.filter)
    if sys.stdout.isatty() and sys.stdin.isatty() and not args.once:
        view = draw_until_quit(live, screen, view, args)._replace(paused=False, help=False, typed=None)
    live.read_all()
    sys.stdout.write(plain(screen.lines(view, width(), None)))
    if live.trace.problem is not None:
        complain(NAME, live.trace.problem)
    return 0 if live.trace.problem is None else 1
