"""The subcommands of steve, one module each.

A module defines NAME, HELP (one line), add_arguments(parser) and run(args), which returns the exit status. EXAMPLES,
if defined, is shown at the end of its --help. It also says what others must know of the command:

    READS_SAMPLES = True      it can read a sample of the blocks; its numbers are estimates then, or are those of the file
    COUNTS_ACCESSES = True    its result says little about a trace without loads and stores: heading and remarks say so
    STARTS_ALLOCATORS = True  it replays, so its memory is not limited
    arguments.reads(argument, kinds)  in add_arguments: which argument names an input file, of which kinds
                                      (source.add_trace and blocks.add_arguments do it for FILE)

Its name is in steve.command.GROUPS, the only list of commands. Packages that are slow to
import (numpy, rich, matplotlib) are imported inside functions, because `steve --help` imports every module of this
folder.

SPDX-License-Identifier: GPL-2.0-or-later
"""
