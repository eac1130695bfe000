"""The subcommands of steve, one module each.

A module defines NAME, HELP (one line), add_arguments(parser) and run(args), which returns the exit status. EXAMPLES,
if defined, is shown at the end of its --help. Every module is listed in steve.cli.COMMANDS. Packages that are slow to
import (numpy, rich, matplotlib) are imported inside functions, because `steve --help` imports every module of this
folder.

SPDX-License-Identifier: GPL-2.0-or-later
"""
