"""steve symbolize: name the code addresses of a memtrace again.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import argparse
import json
import os
import sys
from typing import TYPE_CHECKING, Any

from steve.system.errors import SteveError, UsageError
from steve.system.messages import note
from steve.system.output import Output
from steve.terminal import arguments
from steve.terminal.progress import Progress
from steve.trace import source
from steve.trace.symbol_files import find_file

if TYPE_CHECKING:
    from steve.trace._memtrace import Module

NAME = "symbolize"
HELP = "copy a memtrace with functions and lines that were not known when it was recorded"
READS_SAMPLES = True
EXAMPLES = """A trace has the code addresses of stacks and accesses, and which object files were mapped, with their build ids. This
command looks them up again: on another machine, with debug files that the recorder did not have, or after a server's
stripped programs were recorded. A file is used only if its build id is that of the object that was recorded. Events,
times and Lua frames stay as they are.

examples:
  steve symbolize server.ljt --debug-dir ~/debug -o named.ljt
  steve sites named.ljt
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    arguments.reads(parser.add_argument("file", metavar="FILE", help="the memtrace"), arguments.TRACE)
    parser.add_argument(
        "--debug-dir",
        metavar="DIR",
        action="append",
        default=[],
        help="look for files here first: DIR/.build-id/xx/rest.debug, or by path or name; may be repeated",
    )
    parser.add_argument("-o", "--output", metavar="OUT", help="the copy (required)")
    arguments.add_json(parser)
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress bar and no remarks on stderr")


def modules_of(path: str, progress: Progress) -> list[Module]:
    """The object files of a trace, all of which is read."""
    from steve.trace._memtrace import Trace

    trace = Trace(path)
    trace.pass_accesses()
    trace.skim(progress)
    if trace.stats()["is_text"]:
        raise SteveError(f"{path}: is classic text, which has no code addresses")
    return trace.modules()


def run(args: argparse.Namespace) -> int:
    from steve.trace._memtrace import Trace
    from steve.trace._symbols import Symbols

    if args.output is None:
        raise UsageError("no file is given for the copy: -o OUT")
    if args.file == "-" or source.is_pipe(args.file):
        raise UsageError("the memtrace is read twice, so it must be a file")
    for folder in args.debug_dir:
        if not os.path.isdir(folder):
            raise UsageError(f"--debug-dir: {folder}: no such folder")
    with Progress(NAME, args.quiet) as progress:
        modules = modules_of(args.file, progress)
    symbols = Symbols([find_file(module, args.debug_dir) for module in modules])
    trace = Trace(args.file)
    with Output(args.output, binary=True) as out:
        symbols.rewrite(trace, out.fd)
    facts = describe(modules, args.debug_dir, symbols)
    report(facts, args)
    return source.verdict(NAME, trace)


def describe(modules: list[Module], folders: list[str], symbols: Any) -> dict[str, Any]:
    """The object of --json."""
    rows = [
        {
            "object": module.object,
            "build_id": module.build_id,
            "file": find_file(module, folders),
            "addresses": met,
            "named": named,
        }
        for module, met, named in zip(modules, symbols.frames, symbols.named)
    ]
    return {
        "addresses": sum(row["addresses"] for row in rows),
        "named": sum(row["named"] for row in rows),
        "modules": rows,
        "problems": symbols.problems(),
    }


def report(facts: dict[str, Any], args: argparse.Namespace) -> None:
    """Print the result: with --json on stdout, else remarks on stderr."""
    if args.json:
        sys.stdout.write(json.dumps(facts, indent=2) + "\n")
        return
    note(
        NAME,
        f"{facts['named']:,} of {facts['addresses']:,} code addresses of object files have names from these",
        args.quiet,
    )
    for row in facts["modules"]:
        if row["addresses"] and row["file"] is None:
            wanted = f"with the build id {row['build_id']}" if row["build_id"] else "without a build id"
            note(
                NAME,
                f"{row['object']}: no file {wanted} was found; --debug-dir names folders to look in; its "
                f"{row['addresses']:,} addresses stay as they were",
                args.quiet,
            )
    for path, why in facts["problems"].items():
        note(NAME, f"{path}: its debug information cannot be read: {why}", args.quiet)
