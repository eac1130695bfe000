#!/usr/bin/python3
"""translate-ops-to-locking-lifetime.py STEM: write the locks of the blocks in STEM-ops, found by their life counters,
to STEM-lockopsfull.

This is the first Steve's name for `steve lockops --full`. The file is text, as that of the first Steve was. STEM may
also be the ops file itself. The script runs the `steve` in its own folder, else that on PATH.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import os
import sys

here = os.path.dirname(os.path.realpath(__file__))
os.environ["PATH"] = here + os.pathsep + os.environ.get("PATH", os.defpath)
arguments = sys.argv[1:]
form = [] if "--binary" in arguments or "--text" in arguments else ["--text"]
if not arguments or arguments[0] in ("-h", "--help"):
    print("usage: translate-ops-to-locking-lifetime.py STEM", file=sys.stdout if arguments else sys.stderr)
    sys.exit(0 if arguments else 2)
ops = arguments[0] + "-ops"
try:
    file = ops if os.path.exists(ops) else arguments[0]
    os.execvp("steve", ["steve", "lockops", "--full", *form, file, *arguments[1:]])
except FileNotFoundError:
    sys.exit("translate-ops-to-locking-lifetime.py: steve: no such program; install it, or use ./in-place")
