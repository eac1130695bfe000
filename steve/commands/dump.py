"""steve dump: every record of a memtrace as text.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import argparse
import os
import threading
from collections.abc import Callable

from steve.terminal import arguments
from steve.trace import source
from steve.system.output import Output
from steve.terminal.progress import Progress

NAME = "dump"
HELP = "write every record of a memtrace as text"
READS_SAMPLES = True
EXAMPLES = """\
Each line is one record, in the order of the file, including definitions; each access has a line of its own. Equal
traces give equal text, so dumps can be compared by diff.

examples:
  steve dump ljtrace.out.77.ljt | head
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    source.add_trace(parser)
    arguments.add_output(parser, "the default")


def interruptible(work: threading.Thread, tick: Callable[[], None]) -> None:
    """Start a thread and wait for it. tick() is called five times a second, and interrupts are handled at once,
    whatever the thread is doing."""
    work.start()
    while work.is_alive():
        work.join(0.2)
        tick()


def written(fd: int) -> int:
    """The bytes in an output file; 0 for a pipe or device."""
    return os.fstat(fd).st_size


def run(args: argparse.Namespace) -> int:
    from steve.kernels import _ops

    failures: list = []

    def work() -> None:
        try:
            _ops.dump(args.file, out.fd, salvage=args.salvage)
        except BaseException as error:
            failures.append(error)

    with Output(args.output or "-") as out, Progress(f"{NAME}: written", args.quiet) as progress:
        # the library dumps a whole file in one call, which Python cannot interrupt
        interruptible(threading.Thread(target=work, daemon=True), lambda: progress(written(out.fd)))
        keep_partial(failures)
    for error in failures:
        source.complain(NAME, error)
    return 1 if failures else 0


def keep_partial(failures: list) -> None:
    """Raise the error, unless the file is damaged: then the text up to the damage is a valid result."""
    for error in failures:
        if getattr(error, "code", "") not in ("corrupt", "truncated", "growing"):
            raise error
