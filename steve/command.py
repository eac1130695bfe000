"""The subcommands of steve: which there are, and what each says of itself.

A module of steve.commands describes its command: see there. GROUPS only has the names, since a module is imported only
when its command is requested (--help imports all of them). `steve --help`, completion, the manual page's sections and
the lists of the tests are made from this, or compared with it.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import argparse
import functools
import importlib
import os
from typing import NoReturn

from steve.system.errors import SteveError
from steve.terminal import arguments
from steve.trace import source

# headings, and their commands in the order in which --help and the manual page show them
GROUPS = {
    "Where to begin": ("summary", "findings", "report", "top"),
    "Who holds memory": ("sites", "types", "threads", "resident", "map", "diff"),
    "What leaks": ("leaks", "globals", "universe"),
    "What churns": ("temporaries", "resizes", "lifetimes"),
    "Who accesses": ("lines", "states", "heat", "fields", "sharing", "workingset", "reuse"),
    "How allocators do": (
        "ops",
        "lockops",
        "histogram",
        "allocstats",
        "compare",
        "pins",
        "tune",
        "synth",
        "graphs",
        "animate",
    ),
    "Other tools' files": ("import", "export", "flame", "memtrace", "memprof", "sysprof", "serve"),
    "What a file is": ("info", "check", "dump", "symbolize"),
}
COMMANDS = tuple(name for names in GROUPS.values() for name in names)


class Parser(argparse.ArgumentParser):
    """A parser whose errors name the command that explains the usage."""

    def error(self, message: str) -> NoReturn:
        command = self.prog.removeprefix("steve ")
        if message.startswith("unrecognized arguments: ") and os.path.exists(message.split()[2]):
            message += f". `steve {command}` reads one file. {several_text()}"
        super().error(f"{message}; `steve help {command}` describes it")


def several_text() -> str:
    """Which commands add up several memtraces, for errors."""
    return f"Several, or a folder of them, are read by {', '.join(name for name in COMMANDS if Command(name).reads_several)}"


class Command:
    """A subcommand, one of COMMANDS. ImportError if something that its module needs is missing."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.module = importlib.import_module(f"steve.commands.{name}")
        self.run = self.module.run

    @property
    def help(self) -> str:
        """What it does, in one line."""
        return str(self.module.HELP)

    @property
    def reads_samples(self) -> bool:
        """Can it read a sample of the blocks? Its numbers are estimates then, or are those of the file."""
        return getattr(self.module, "READS_SAMPLES", False)

    @property
    def counts_accesses(self) -> bool:
        """Does its result say little about a trace without loads and stores?"""
        return getattr(self.module, "COUNTS_ACCESSES", False)

    @property
    def starts_allocators(self) -> bool:
        """Does it replay? An allocator may reserve more address space than it uses, so memory is not limited."""
        return getattr(self.module, "STARTS_ALLOCATORS", False)

    @functools.cached_property
    def parser(self) -> argparse.ArgumentParser:
        """The parser of its arguments."""
        parser = Parser(
            prog=f"steve {self.name}",
            description=self.help,
            epilog=getattr(self.module, "EXAMPLES", None),
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        self.module.add_arguments(parser)
        if "--output" in parser._option_string_actions and "--force" not in parser._option_string_actions:
            arguments.add_force(parser)
        every_block = "" if self.reads_samples else f"steve {self.name}"
        parser.set_defaults(counts_accesses=self.counts_accesses, every_block=every_block)
        return parser

    @property
    def inputs(self) -> dict[str, tuple[str, ...]]:
        """The arguments that name input files, and the kinds of files that each may be."""
        kinds = {action.dest: arguments.kinds_of(action) for action in self.parser._actions}
        return {name: some for name, some in kinds.items() if some}

    def reads(self, kind: str) -> bool:
        """Can an input be of this kind?"""
        return any(kind in kinds for kinds in self.inputs.values())

    def has_option(self, option: str) -> bool:
        """Does it have this option, such as "--jobs"?"""
        return option in self.parser._option_string_actions

    @property
    def reads_several(self) -> bool:
        """Does it add up several memtraces?"""
        return any(isinstance(action, source.Files) for action in self.parser._actions)

    def check_inputs(self, args: argparse.Namespace) -> None:
        """SteveError for a folder in the place of a file."""
        folders = [getattr(args, a.dest, None) for a in self.parser._actions if getattr(a, "or_folder", False)]
        for path in self.given_inputs(args):
            if os.path.isdir(path) and path not in folders:
                raise SteveError(f"{path}: is a folder; `steve {self.name}` reads one file. {several_text()}")

    def given_inputs(self, args: argparse.Namespace) -> list[str]:
        """The input files that the user gave."""
        given = [getattr(args, name, None) for name in self.inputs]
        return [path for value in given for path in (value if isinstance(value, list) else [value]) if path is not None]
