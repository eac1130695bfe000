#!/usr/bin/python3
"""run_graphs_from_allocstats.py FILE, or APP FILE...: figures and tables from allocstats files.

This is the first Steve's name for `steve graphs`. As its documents describe, FILE may lack its ending: if there is no
file NAME, then NAME.allocstats or NAME-kill0-allocstats is used. The script runs the `steve` in its own folder, else
that on PATH.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import os
import sys


def full_name(name: str) -> str:
    """The allocstats file that a name without ending refers to; the name itself if there is no such file."""
    endings = (".allocstats", "-kill0-allocstats")
    return next((name + ending for ending in endings if os.path.exists(name + ending)), name)


here = os.path.dirname(os.path.realpath(__file__))
os.environ["PATH"] = here + os.pathsep + os.environ.get("PATH", os.defpath)
arguments = sys.argv[1:]
if not arguments or arguments[0] in ("-h", "--help"):
    print(
        "usage: run_graphs_from_allocstats.py FILE | APP FILE...",
        file=sys.stdout if arguments else sys.stderr,
    )
    sys.exit(0 if arguments else 2)
names = arguments[:1] + [full_name(name) for name in arguments[1:]]
if len([name for name in names if not name.startswith("-")]) == 1:
    names[0] = full_name(names[0])
try:
    os.execvp("steve", ["steve", "graphs", *names])
except FileNotFoundError:
    sys.exit("run_graphs_from_allocstats.py: steve: no such program; install it, or use ./in-place")
