"""The subcommands of steve, one small module each.

A module defines NAME, HELP (one line), add_arguments(parser) and run(args) -> exit status; EXAMPLES (text
shown at the end of its --help) if it has any. It is listed in steve.cli.COMMANDS. Whatever is slow to
import (numpy, rich, matplotlib) is imported inside functions, since `steve --help` imports every module of
this folder.

SPDX-License-Identifier: GPL-2.0-or-later
"""
