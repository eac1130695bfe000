#!/usr/bin/python3
"""translate-ops-to-histogram.py STEM: write the lifetimes of the blocks in STEM-ops to files named STEM....

This is the first Steve's name for `steve histogram`. STEM may also be the ops file itself. The script runs the `steve`
in its own folder, else that on PATH.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import os
import sys

here = os.path.dirname(os.path.realpath(__file__))
os.environ["PATH"] = here + os.pathsep + os.environ.get("PATH", os.defpath)
arguments = sys.argv[1:]
if not arguments or arguments[0] in ("-h", "--help"):
    print("usage: translate-ops-to-histogram.py STEM", file=sys.stdout if arguments else sys.stderr)
    sys.exit(0 if arguments else 2)
ops = arguments[0] + "-ops"
try:
    os.execvp("steve", ["steve", "histogram", ops if os.path.exists(ops) else arguments[0], *arguments[1:]])
except FileNotFoundError:
    sys.exit("translate-ops-to-histogram.py: steve: no such program; install it, or use ./in-place")
