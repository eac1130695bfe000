"""Flame graphs: a tree of folded stacks, drawn as one self-contained SVG.

SPDX-License-Identifier: GPL-2.0-or-later
"""
