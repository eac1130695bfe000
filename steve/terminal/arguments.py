"""Arguments shared by many subcommands: the output file, the output format, --quiet.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import argparse


def add_quiet(parser: argparse.ArgumentParser) -> None:
    """Add -q."""
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress bar and no remarks")


def add_output(parser: argparse.ArgumentParser, default: str) -> None:
    """Add -o FILE. default: what the command does without it, for --help."""
    parser.add_argument("-o", "--output", metavar="FILE", help=f"write to FILE; - is standard output ({default})")


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add --json for a command whose result is one object."""
    parser.add_argument("--json", action="store_true", help="write one JSON object instead of text")


def add_facts(parser: argparse.ArgumentParser) -> None:
    """Add --json and --csv for a command whose result is one object."""
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="write one JSON object instead of text")
    form.add_argument("--csv", action="store_true", help="write lines key,value; nested keys are joined by dots")
