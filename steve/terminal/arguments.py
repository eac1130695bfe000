"""Arguments shared by many subcommands: the output file, the output format, --quiet. And what is known of the value of
an argument: what the shell can complete, and which kinds of input files it may name.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import argparse
from collections.abc import Iterable


def add_quiet(parser: argparse.ArgumentParser) -> None:
    """Add -q."""
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress bar and no remarks")


def add_output(parser: argparse.ArgumentParser, default: str) -> None:
    """Add -o FILE. default: what the command does without it, for --help."""
    parser.add_argument("-o", "--output", metavar="FILE", help=f"write to FILE; - is standard output ({default})")


def add_force(parser: argparse.ArgumentParser) -> None:
    """Add -f."""
    parser.add_argument("-f", "--force", action="store_true", help="replace a file that is no earlier result, too")


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add --json for a command whose result is one object."""
    parser.add_argument("--json", action="store_true", help="write one JSON object instead of text")


def add_facts(parser: argparse.ArgumentParser) -> None:
    """Add --json and --csv for a command whose result is one object."""
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="write one JSON object instead of text")
    form.add_argument("--csv", action="store_true", help="write lines key,value; nested keys are joined by dots")


# kinds of input files
TRACE, OPS = "trace", "ops"
RECORDING = "recording"  # of another tool
RESULT = "allocstats"
MEMPROF, SYSPROF, FOLDED = "memprof", "sysprof", "folded"
FILM, MODEL, SNAPSHOTS = "film", "model", "snapshots"


def reads(action: argparse.Action, *kinds: str, or_folder: bool = False) -> None:
    """The argument names an input file of one of these kinds. A result cannot overwrite it. or_folder: or a folder of them."""
    setattr(action, "kinds", kinds)
    setattr(action, "or_folder", or_folder)


def kinds_of(action: argparse.Action) -> tuple[str, ...]:
    """The kinds of input files that the argument may name; none if it names no input."""
    return getattr(action, "kinds", ())


def suggest(action: argparse.Action, words: Iterable[str], are_list: bool = False) -> None:
    """Set what the shell completes as the value of an option without `choices`. are_list: the value is a list of
    these words, with commas between."""
    setattr(action, "suggested", (tuple(words), are_list))


def suggested(action: argparse.Action) -> tuple[tuple[str, ...], bool]:
    """The words that the shell completes as the value of an option, and whether it is a list of them."""
    if action.choices is not None:
        return tuple(str(word) for word in action.choices), False
    return getattr(action, "suggested", ((), False))
