"""Search for the options of an allocator that suit a program: `steve tune`.

options.py reads what options there are, measure.py replays with them, search.py decides what to replay, verify.py
runs the program itself, text.py says what was found. steve/commands/tune.py is the command.

SPDX-License-Identifier: GPL-2.0-or-later
"""
