"""Operations without a program: models of traces, and programs that are difficult for allocators.

adversaries.py makes the latter; model.py describes a trace by distributions, generate.py makes operations of such a
description, distances.py compares them with the original. steve/commands/synth.py is the command.

SPDX-License-Identifier: GPL-2.0-or-later
"""
