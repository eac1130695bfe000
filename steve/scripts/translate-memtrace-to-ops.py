#!/usr/bin/python3
"""translate-memtrace-to-ops.py MEMTRACE: write MEMTRACE-ops and, with simple locks, MEMTRACE-lockops.

This is the first Steve's name for `steve ops` and `steve lockops --simple`. Options are passed to both. The files are
text, as those of the first Steve were. The script runs the `steve` in its own folder, else that on PATH. A truncated
trace is translated up to the cut, with exit status 1.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import os
import sys
import subprocess

here = os.path.dirname(os.path.realpath(__file__))
os.environ["PATH"] = here + os.pathsep + os.environ.get("PATH", os.defpath)
arguments = sys.argv[1:]
form = [] if "--binary" in arguments or "--text" in arguments else ["--text"]
if not arguments or arguments[0] in ("-h", "--help"):
    print("usage: translate-memtrace-to-ops.py MEMTRACE", file=sys.stdout if arguments else sys.stderr)
    sys.exit(0 if arguments else 2)
try:
    first = subprocess.call(["steve", "ops", *form, *arguments])
    second = subprocess.call(["steve", "lockops", "--simple", *form, *arguments]) if first != 2 else 0
except FileNotFoundError:
    sys.exit("translate-memtrace-to-ops.py: steve: no such program; install it, or use ./in-place")
sys.exit(first or second)
