"""Write ranking tables as plain text, Markdown, LaTeX or JSON. steve.allocstats.ranking computes the numbers.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import json
import math

from steve.allocstats.ranking import Row, Ranking
from steve.terminal.aligned import aligned

KINDS = ("text", "markdown", "latex", "json")
HEADINGS = ("allocator", "penalty(c) %", "penalty(w) %", "best %", "worst %", "average", "median", "points %")


def _number(value: float, digits: int = 1) -> str:
    return "-" if not math.isfinite(value) else f"{value:,.{digits}f}"


def _cells(row: Row) -> list[str]:
    return [
        row.allocator,
        _number(row.penalty_count),
        _number(row.penalty_weighted),
        _number(row.best),
        _number(row.worst),
        _number(row.average),
        _number(row.median),
        _number(row.points),
    ]


def _heading(table: Ranking) -> list[str]:
    return [f"{name} {table.unit}" if name in ("average", "median") else name for name in HEADINGS]


def _text(table: Ranking) -> str:
    body = aligned([_heading(table)] + [_cells(row) for row in table.rows])
    return f"{table.title} ({table.rules} rules)\n{body}\n"


def _markdown(table: Ranking) -> str:
    lines = [_heading(table), ["---"] + ["---:"] * (len(HEADINGS) - 1)] + [_cells(row) for row in table.rows]
    body = "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
    return f"### {table.title} ({table.rules} rules)\n\n{body}\n"


_LATEX = {
    "\\": r"\textbackslash{}",
    "%": r"\%",
    "_": r"\_",
    "&": r"\&",
    "#": r"\#",
    "$": r"\$",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}


def _escape(text: str) -> str:
    return "".join(_LATEX.get(char, char) for char in text)


def _latex(table: Ranking) -> str:
    lines = [_heading(table)] + [_cells(row) for row in table.rows]
    rows = ["  " + " & ".join(map(_escape, line)) + r" \\" for line in lines]
    columns = "l" + "r" * (len(HEADINGS) - 1)
    return "\n".join(
        [
            r"\begin{table}",
            rf"  \caption{{{_escape(table.title)} ({table.rules} rules)}}",
            rf"  \begin{{tabular}}{{{columns}}}",
            r"  \hline",
            rows[0],
            r"  \hline",
            *rows[1:],
            r"  \hline",
            r"  \end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def render_tables(tables: list[Ranking], kind: str) -> str:
    """All tables as text. kind: one of KINDS. The text ends with a newline."""
    if kind == "json":
        return json.dumps([table.as_dict() for table in tables], indent=2) + "\n"
    writer = {"text": _text, "markdown": _markdown, "latex": _latex}[kind]
    return "\n".join(writer(table) for table in tables)
