"""steve memtrace: write a memtrace as classic text.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import argparse

from steve.analysis import blocks
from steve.terminal import arguments
from steve.trace import source
from steve.system.output import Output
from steve.system.messages import note
from steve.terminal.progress import Progress

NAME = "memtrace"
HELP = "write a memtrace as classic text (>>> OP ADDRESS SIZE)"
EXAMPLES = f"""\
OP is N, F, L, S or M. The size of an F is 0; a resize is written as an F and an N. `steve ops` writes the same bytes
for this text as for the memtrace. Classic text has no form for marks, lost events and frees of addresses where no
block begins; they are left out and counted.

{blocks.WHERE_HELP}
examples:
  steve memtrace ljtrace.out.77.ljt | less
  steve memtrace ljtrace.out.77.ljt -o app.memtrace
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    blocks.add_arguments(parser)
    arguments.add_output(parser, "the default")


def run(args: argparse.Namespace) -> int:
    from steve.kernels import _ops

    trace = blocks.Blocks(NAME, args).open_chosen()
    with Output(args.output or "-") as out, Progress(NAME, args.quiet) as progress:
        counts = _ops.write_classic(trace, out.fd, progress)
    if counts["bad_frees"] or counts["others"]:
        note(
            NAME,
            f"{trace.name}: left out what classic text cannot express: frees of no block "
            f"{counts['bad_frees']}, marks and other events {counts['others']}",
            args.quiet,
        )
    return source.verdict(NAME, trace)
