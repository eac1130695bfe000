"""The command line `steve COMMAND ...`: find the subcommand, run it, report its errors.

steve.command has their list, and what each says of itself. Nothing here depends on what a subcommand does.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import os
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

from steve.command import COMMANDS, GROUPS, Command
from steve.system import imports, interrupts, memory_limit, standard_streams
from steve.system.errors import SteveError, TraceError, meant
from steve.system.messages import complain


def overview() -> str:
    """The text of `steve --help`."""
    groups = [
        "\n".join((f"{heading}:", *(f"  {name:<13}{Command(name).help}" for name in names)))
        for heading, names in GROUPS.items()
    ]
    return (
        "usage: steve COMMAND [ARGUMENT...]\n"
        "\n"
        "Translate, analyse and show memtraces: histories of a program's heap.\n"
        "\n" + "\n\n".join(groups) + "\n\n"
        "`steve help COMMAND` describes a command. Exit status: 0 done, 1 bad input or failure,\n"
        "2 wrong usage.\n"
    )


def first_steps() -> str:
    """What `steve` without arguments says: how to record a program, and the commands to begin with."""
    return (
        "usage: steve COMMAND [ARGUMENT...]\n"
        "\n"
        "Show what a program does with its memory. Record a run of the program first:\n"
        "\n"
        "  valgrind --tool=ljtrace --out=app.ljt luajit app.lua   with every load and store\n"
        "  ljtrace run --out=app.ljt luajit app.lua               at native speed: allocations only\n"
        "\n"
        "Then begin with these three commands:\n"
        "\n"
        "  steve summary app.ljt    how much memory the program allocates, and where\n"
        "  steve findings app.ljt   what looks wrong, and which lines cause it\n"
        "  steve report app.ljt     everything in one HTML page, app.ljt.html\n"
        "\n"
        "`steve --help` lists all commands, `steve help COMMAND` describes one.\n"
    )


def wrong_usage(message: str) -> int:
    """Report wrong usage of `steve` itself; return the exit status."""
    complain("", message + "; `steve --help` lists the commands")
    return 2


def describe(error: Exception) -> str:
    """The message for an error that is not a SteveError."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    if isinstance(error, MemoryError):
        return "out of memory"
    if isinstance(error, ImportError):
        return f"{error}: run `make`, and from a build tree use ./in-place steve"
    return str(error)


def die_by(signum: int) -> NoReturn:
    """Remove temporary files, then let signal `signum` end the process as it does by default."""
    from steve.system.tempfiles import remove_all

    remove_all()
    signal.signal(signum, signal.SIG_DFL)
    os.kill(os.getpid(), signum)
    os._exit(1)


def explained(error: SteveError) -> object:
    """The message of an error. A file that is no memtrace may be an ops file; then the message says so."""
    from steve.trace import source

    if isinstance(error, TraceError) and error.code == "format" and source.holds_operations(error.path):
        return f"{error.path}: is an ops file; this command reads the memtrace from which `steve ops` made it"
    return error


def guarded(name: str, argv: Sequence[str], is_bound: bool = False) -> int:
    """Run a subcommand and return its exit status. Every expected failure becomes one line on stderr. is_bound: limit the
    memory of this process, if the command starts no allocators."""
    from steve.system.output import protect

    try:
        command = Command(name)
        if is_bound and not command.starts_allocators:
            memory_limit.bound()
        args = command.parser.parse_args(argv)
        command.check_inputs(args)
        protect(command.given_inputs(args), getattr(args, "force", False))  # inputs often cannot be made again
        return int(command.run(args))
    except SteveError as error:
        complain(name, explained(error))
        return error.status
    except BrokenPipeError:  # the reader of standard output has closed it
        standard_streams.give_up_output()
        return 1
    except (OSError, MemoryError, ImportError) as error:
        complain(name, describe(error))
        return 1


def main(argv: Sequence[str] | None = None) -> int:
    """Run `steve` with the given arguments (default: those of the process) and return the exit status."""
    argv = list(sys.argv[1:] if argv is None else argv)
    standard_streams.prepare()
    imports.defer()
    interrupts.install()
    try:
        try:
            status = dispatch(argv)
        except SystemExit as leaving:  # raised by argparse
            status = leaving.code if isinstance(leaving.code, int) else 0
        except OSError as error:  # while writing help; guarded() handles the errors of commands
            standard_streams.give_up_output()
            if not isinstance(error, BrokenPipeError):
                complain("", f"standard output: {describe(error)}")
            status = 1
        return finished(argv[0] if argv and argv[0] in COMMANDS else "", status)
    except KeyboardInterrupt as interrupt:
        die_by(interrupt.args[0] if interrupt.args else signal.SIGINT)


def finished(name: str, status: int) -> int:
    """Flush standard output; the exit status: `status`, or 1 if it was 0 or if the output could not be written."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        standard_streams.give_up_output()
        return status or 1
    except OSError as error:
        complain(name, f"standard output: {error.strerror}")
        standard_streams.give_up_output()
        return status or 1
    return status


def print_version() -> int:
    """Run `steve --version`; return the exit status."""
    try:
        from steve.trace._memtrace import VERSION
    except ImportError as error:
        complain("", describe(error))
        return 1
    print(f"steve {VERSION}")
    return 0


def dispatch(argv: Sequence[str]) -> int:
    """Run what the first argument names, a subcommand or a general option; return the exit status."""
    if not argv:
        sys.stderr.write(first_steps())
        return 2
    if argv[0] == "help" and len(argv) == 2 and argv[1] in COMMANDS:
        return dispatch([argv[1], "--help"])
    if argv[0] in ("-h", "--help") or argv == ["help"]:
        print(overview(), end="")
        return 0
    if argv[0] == "help":
        return wrong_usage(
            f"help: unknown command '{argv[1]}'" + meant(argv[1], COMMANDS)
            if len(argv) == 2
            else "help: give one command"
        )
    if argv[0] == "--version":
        return print_version()
    if argv[0] not in COMMANDS:
        what = "option" if argv[0].startswith("-") else "command"
        return wrong_usage(f"unknown {what} '{argv[0]}'" + meant(argv[0], COMMANDS))
    return guarded(argv[0], argv[1:], is_bound=True)
