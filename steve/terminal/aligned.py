"""A table of cells as plain text, for tables of fixed columns. steve.terminal.listing has those whose columns are chosen.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations


def aligned(lines: list[list[str]]) -> str:
    """A table as text. lines: rows of cells, the first is the heading. The first column is left-aligned, the others are
    right-aligned."""
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    rows = [
        "  ".join([line[0].ljust(widths[0])] + [c.rjust(w) for c, w in zip(line[1:], widths[1:])]) for line in lines
    ]
    return "\n".join([rows[0], "-" * len(rows[0]), *rows[1:]])
