"""Arguments that many subcommands have: where the result goes, in what form, and how much is said on the way.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import argparse


def add_quiet(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress bar and no remarks")


def add_output(parser: argparse.ArgumentParser, default: str) -> None:
    """-o FILE."""
    parser.add_argument("-o", "--output", metavar="FILE",
                        help=f"write to FILE; - is standard output ({default})")


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="write one JSON object instead of text")


def add_facts(parser: argparse.ArgumentParser) -> None:
    """--json and --csv of a command whose result is one object."""
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="write one JSON object instead of text")
    form.add_argument("--csv", action="store_true", help="write lines key,value; keys within keys with dots")
