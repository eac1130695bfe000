"""table - the benchmark's results as one table of text.

A row for each program, a column for each tool: the median as a multiple of --tool=none, and for native and
none themselves seconds. Then the contents and the size of ljtrace's full trace. The last row of each kind is
the geometric mean. A dash means that there was no such run.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import math
from typing import Iterable, Mapping, Sequence

Row = Mapping[str, Mapping[str, float]]  # tool -> figure -> value

IN_SECONDS = ("native", "none")
FIGURES = (
    ("events", "M events", 1e-6, 1),
    ("events_per_second", "M/s", 1e-6, 1),
    ("bytes_per_event", "B/event", 1, 3),
    ("tool_memory", "tool MB", 1e-6, 0),
    ("collector_memory", "coll. MB", 1e-6, 0),
)
LEGEND = """native and none: seconds. Other tools: times --tool=none. The last five columns: ljtrace, with
loads and stores. Memory: peaks; the tool's holds the program's as well."""
MEANS = ("ratio", "bytes_per_event", "events_per_second")


def geometric_mean(values: Iterable[float]) -> float | None:
    """None of nothing, and of anything that is not above 0."""
    logs = [math.log(v) if v > 0 else math.nan for v in values]
    mean = math.exp(sum(logs) / len(logs)) if logs else math.nan
    return None if math.isnan(mean) else mean


def means(rows: Sequence[Row], tools: Sequence[str]) -> dict[str, dict[str, float]]:
    """tool -> figure -> geometric mean over the programs that have it"""
    result: dict[str, dict[str, float]] = {}
    for tool in tools:
        for figure in MEANS:
            mean = geometric_mean(row[tool][figure] for row in rows if figure in row.get(tool, {}))
            if mean is not None:
                result.setdefault(tool, {})[figure] = mean
    return result


def cell(value: float | None, digits: int, width: int) -> str:
    return f"{'-' if value is None else format(value, f',.{digits}f'):>{width}}"


def line(name: str, row: Row, tools: Sequence[str]) -> str:
    parts = [f"{name:<12}"]
    for tool in tools:
        figure = "seconds" if tool in IN_SECONDS else "ratio"
        parts.append(cell(row.get(tool, {}).get(figure), 2, 11))
    for figure, _, unit, digits in FIGURES:
        value = row.get("ljtrace", {}).get(figure)
        parts.append(cell(None if value is None else value * unit, digits, 10))
    return "".join(parts)


def heading(tools: Sequence[str]) -> str:
    names = [f"{tool + (' s' if tool in IN_SECONDS else ''):>11}" for tool in tools]
    return f"{'program':<12}" + "".join(names) + "".join(f"{title:>10}" for _, title, _, _ in FIGURES)


def table(groups: Mapping[str, Mapping[str, Row]], tools: Sequence[str]) -> str:
    """The whole table; groups: kind -> program -> row"""
    lines = [heading(tools)]
    for rows in groups.values():
        lines += [line(name, row, tools) for name, row in rows.items()]
        lines += [line("geo. mean", means(list(rows.values()), tools), tools), ""]
    return "\n".join(lines) + "\n" + LEGEND
