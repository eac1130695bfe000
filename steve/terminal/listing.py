"""Listings: write the rows of an analysis as a table for people, as JSON or as CSV, all with the same columns.

A row is a dictionary. A Column names the key it shows, how to show it, and what the value means (the text of
--help and of the man page). JSON and CSV contain every row and full values; a table shows the first --top rows.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import argparse
import csv
import io
import json
import sys
import textwrap
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from steve.system.samples import WHOLE, Sample
from steve.terminal import arguments
from steve.system.errors import UsageError, meant
from steve.system.output import Output

TOP = 20  # rows of a table, by default
SERIES_TOP = 100  # the same for rows with an order of their own, such as a time series
BATCH = 1000  # rows written at a time


class Column(NamedTuple):
    """One column of a listing."""

    key: str
    """Key in the row's dictionary, and the name in JSON and CSV."""
    head: str
    """Heading in the table; "" leaves the column out of the table."""
    meaning: str
    """Explanation for --help and the man page; "" leaves the column out of JSON and CSV."""
    is_text: bool = False
    """The value is a string: left-aligned, sorted ascending."""
    is_group: bool = False
    """The value is a dictionary of dictionaries; rows cannot be sorted by it."""
    is_unknown: bool = False
    """The trace does not have the value: null in JSON, empty in CSV."""
    sum: str = ""
    """The sum that it shows, by its name in steve/kernels/base/sums.def; "": something else, or computed of several."""


def sums_of(columns: Sequence[Column]) -> dict[str, str]:
    """The sums that columns show, by the keys of these. Those that sums.def calls VARIED have standard errors in a sample of
    the blocks (Sample.standard_errors)."""
    return {column.key: column.sum for column in columns if column.sum}


def unknown(columns: Sequence[Column], keys: Container[str]) -> tuple[Column, ...]:
    """The columns; those of `keys` are not known of this trace: tables leave them out, JSON and CSV have no value."""
    return tuple(column._replace(head="", is_unknown=True) if column.key in keys else column for column in columns)


def without(columns: Sequence[Column], keys: Container[str]) -> tuple[Column, ...]:
    """The columns; tables leave out those of `keys`."""
    return tuple(column._replace(head="") if column.key in keys else column for column in columns)


def in_unit(columns: Sequence[Column], unit: str) -> tuple[Column, ...]:
    """The columns; `unit` is the heading of those that say `instructions`, which is what times count in most traces."""
    return tuple(column._replace(head=unit) if column.head == "instructions" else column for column in columns)


class Rows(Protocol):
    """A list of rows, or an object that makes slices of them on demand so that they are never all in memory.

    If it has a method rest(first), which sums up the rows from an index on, a list that is cut ends with such a
    row."""

    def __len__(self) -> int:
        ...

    def __getitem__(self, some: slice) -> list[dict]:
        ...


class Summed(list):
    """Rows whose numbers can be added up. key: the column of their texts; the other columns are numbers."""

    def __init__(self, rows: Iterable[dict], key: str) -> None:
        super().__init__(rows)
        self.key = key

    def rest(self, first: int) -> dict:
        """One row for all rows from an index on."""
        rows = self[first:]
        texts = (self.key, "standard_errors")
        sums = {key: sum(row[key] for row in rows) for key in rows[0] if key not in texts}
        return {**sums, self.key: f"others ({len(rows):,})"}


def cut(rows: Rows, most: int | None) -> Rows:
    """The first `most` rows, all for None, and a row for the others if the rows can be summed up."""
    if most is None or len(rows) <= most:
        return rows
    return [*rows[:most], *([rows.rest(most)] if hasattr(rows, "rest") else [])]


# What rows also have if the trace is a sample of the blocks.
ESTIMATE_COLUMNS = (
    Column("estimated", "", "true: the trace is a sample of the blocks, and the numbers are estimates"),
    Column("sample_mean", "", "bytes of which one on average was chosen, with its block; or"),
    Column("sample_every", "", "blocks of which one on average was recorded"),
    Column("standard_errors", "", "the standard errors of columns, by their names", is_group=True),
)


def estimated(rows: list[dict], sample: Sample) -> list[dict]:
    """The rows with the columns of ESTIMATE_COLUMNS; as they are if the trace is no sample."""
    return rows if not sample else [{**row, **sample.facts(row.get("standard_errors", {}))} for row in rows]


def recorded(columns: Sequence[Column]) -> list[Column]:
    """The columns that JSON and CSV contain."""
    return [column for column in columns if column.meaning]


def entry(name: str, meaning: str, room: int = 21) -> str:
    """A name and its meaning as lines of --help. room: characters for the name."""
    return textwrap.fill(meaning, 108, initial_indent=f"  {name:<{room}}", subsequent_indent=" " * (room + 2))


def explained(columns: Sequence[Column]) -> str:
    """The meanings of all columns, for --help."""
    lines = [entry(c.key, c.meaning) for c in recorded(columns)]
    return "columns (names of JSON and CSV; bytes are those that the program requested):\n" + "\n".join(lines)


def count(text: str) -> int:
    """argparse type: a whole number, at least 0 and below 2**63."""
    if not text.isdecimal() or int(text) >= 2**63:
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number")
    return int(text)


def add_arguments(
    parser: argparse.ArgumentParser, columns: Sequence[Column], order: str | None
) -> argparse._MutuallyExclusiveGroup:
    """Add -o, --json, --csv, --top and --sort. order: the key of the default sort column; None: the rows have an
    order of their own. Returns the group of the options that name a form of output."""
    arguments.add_output(parser, "the default")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="write a JSON list of all rows")
    form.add_argument("--csv", action="store_true", help="write comma-separated values, all rows")
    parser.add_argument(
        "-n",
        "--top",
        metavar="N",
        type=count,
        help="only the first N rows " f"(default: {TOP if order else SERIES_TOP} in a table, else all)",
    )
    sort = parser.add_argument(
        "--sort",
        metavar="COLUMN",
        default=order,
        help="the column to sort by, largest first, text alphabetically "
        f"(default: {order or 'the order of the rows'})",
    )
    arguments.suggest(sort, sortable(columns))
    return form


def sortable(columns: Sequence[Column]) -> list[str]:
    """The names of the columns that rows can be sorted by."""
    return [column.key for column in columns if not column.is_group]


def check(args: argparse.Namespace, columns: Sequence[Column]) -> None:
    """UsageError if --sort does not name a column that can be sorted."""
    keys = sortable(columns)
    if args.sort is not None and args.sort not in keys:
        raise UsageError(
            f"--sort {args.sort}: no such column" + (meant(args.sort, keys) or f"; there are: {', '.join(keys)}")
        )


def ranked(rows: list[dict], columns: Sequence[Column], order: str | None) -> list[dict]:
    """The rows sorted by the column with key `order`; None: as they are. Ties are sorted by the text columns, so
    that the result does not depend on the input order."""
    if order is None:
        return rows
    texts = [column.key for column in columns if column.is_text]
    rows = sorted(rows, key=lambda row: tuple(str(row[key]) for key in texts))
    if order in texts:
        return sorted(rows, key=lambda row: str(row[order]))
    return sorted(rows, key=lambda row: -(row[order] or 0))


def cell(value: Any) -> str:
    """A value as text for a table; "-" for None."""
    if value is None:
        return "-"
    if isinstance(value, dict):
        return by_name(value)
    if isinstance(value, float):
        return f"{value:,.2f}"
    if isinstance(value, str):
        return value
    return f"{value:,}" if isinstance(value, int) else str(value)


def estimate(value: Any, error: float | None) -> str:
    """The same of a number that may be an estimate, with its standard error in percent. error: None = it has none."""
    return f"{cell(value)} ±{error / value:.0%}" if error and value else cell(value)


def by_name(found: dict[str, dict[str, int]]) -> str:
    """A dictionary of dictionaries as text for one cell: `name number number; ...`."""
    return "; ".join(" ".join((name, *map(str, numbers.values()))) for name, numbers in found.items())


def table(title: str, rows: list[dict], columns: Sequence[Column], order: str | None = None) -> Any:
    """A table for steve.terminal.tables.render(). The column it is sorted by is never dropped for lack of room."""
    from steve.terminal.tables import columns as grid

    shown = [column for column in columns if column.head]
    body = [
        [estimate(row[column.key], row.get("standard_errors", {}).get(column.key)) for column in shown] for row in rows
    ]
    return grid(
        title,
        [column.head for column in shown],
        body,
        left=[column.head for column in shown if column.is_text],
        kept=[column.head for column in shown if column.key == order],
    )


def csv_parts(rows: Rows, columns: Sequence[Column], sample: Sample = WHOLE) -> Iterator[str]:
    """The text of the CSV file, BATCH rows at a time."""
    return csv_of(_batches(rows, columns, sample), columns, sample)


def csv_of(batches: Iterable[list[dict]], columns: Sequence[Column], sample: Sample = WHOLE) -> Iterator[str]:
    """The text of the CSV file of rows that come in batches."""
    keys = [column.key for column in recorded(columns)] + list(sample.fact)
    yield _csv_lines([keys])
    for some in batches:
        yield _csv_lines(
            [by_name(row[key]) if isinstance(row[key], dict) else row[key] for key in keys] for row in some
        )


def _csv_lines(rows: Iterable[list]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows(rows)
    return buffer.getvalue()


def csv_text(rows: Rows, columns: Sequence[Column]) -> str:
    """The whole CSV file as one string."""
    return "".join(csv_parts(rows, columns))


def json_parts(rows: Rows, columns: Sequence[Column], sample: Sample = WHOLE) -> Iterator[str]:
    """The text that json.dumps(rows, indent=1) returns, BATCH rows at a time."""
    keys = [column.key for column in recorded(columns)]
    keys += list(sample.facts({}))
    yield from json_list([{key: row[key] for key in keys} for row in some] for some in _batches(rows, columns, sample))
    yield "\n"


def json_list(batches: Iterable[list[dict]]) -> Iterator[str]:
    """The text that json.dumps(rows, indent=1) returns, for rows that come in batches, none of which is empty."""
    before = "["
    for some in batches:
        yield before + json.dumps(some, indent=1)[1:-2]
        before = ","
    yield "[]" if before == "[" else "\n]"


def json_object(found: dict[str, Any], key: str, batches: Iterable[list[dict]]) -> Iterator[str]:
    """The text that json.dumps(found, indent=1) returns if found[key] is a list of the rows that come in batches."""
    name = json.dumps(key)
    before, after = json.dumps({**found, key: []}, indent=1).split(f"\n {name}: []")
    yield f"{before}\n {name}: "
    yield from (part.replace("\n", "\n ") for part in json_list(batches))
    yield after


def _batches(rows: Rows, columns: Sequence[Column], sample: Sample) -> Iterator[list[dict]]:
    nulls = dict.fromkeys(column.key for column in columns if column.is_unknown)
    for i in range(0, len(rows), BATCH):
        some = [_with_nulls(row, nulls) for row in rows[i : i + BATCH]] if nulls else rows[i : i + BATCH]
        yield estimated(some, sample)


def _with_nulls(row: dict, nulls: dict[str, None]) -> dict:
    """The row without values that are not known, and without their standard errors."""
    if "standard_errors" in row:
        errors = {key: error for key, error in row["standard_errors"].items() if key not in nulls}
        row = {**row, "standard_errors": errors}
    return {**row, **nulls}


def facts_csv(found: dict[str, Any]) -> str:
    """An object as CSV lines key,value. Keys of nested objects and indices of lists are appended after a dot. None
    is an empty value; booleans are written as in JSON."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(("key", "value"))
    writer.writerows(_flat(found, ""))
    return buffer.getvalue()


def _flat(found: Any, name: str) -> Iterator[tuple[str, Any]]:
    if isinstance(found, (dict, list)):
        items = found.items() if isinstance(found, dict) else enumerate(found)
        for key, value in items:
            yield from _flat(value, f"{name}.{key}" if name else str(key))
    else:
        yield name, json.dumps(found) if isinstance(found, bool) else found


def text(
    title: str,
    rows: Rows,
    columns: Sequence[Column],
    top: int | None,
    plain: bool,
    order: str | None = None,
    nothing: str = "nothing",
) -> str:
    """The table as text, with a remark on the rows left out. top: the number of rows to show; None: TOP. plain:
    without colours. nothing: shown if there are no rows."""
    from steve.terminal.tables import render

    most = TOP if top is None else top
    parts = [table(title, list(cut(rows, most)[: most + 1]), columns, order)] if len(rows) else [title, f"({nothing})"]
    if len(rows) > most:
        more = len(rows) - most
        parts.append(f"{more:,} more {'row' if more == 1 else 'rows'}; --top shows more")
    return render(parts, not plain)


def write(
    args: argparse.Namespace, title: str, rows: list[dict], columns: Sequence[Column], sample: Sample = WHOLE
) -> None:
    """Sort the rows and write them as the arguments of add_arguments() request. sample: that of the trace."""
    write_ranked(args, title, ranked(rows, columns, args.sort), columns, sample=sample)


def write_ranked(
    args: argparse.Namespace,
    title: str,
    rows: Rows,
    columns: Sequence[Column],
    nothing: str = "nothing",
    sample: Sample = WHOLE,
) -> None:
    """As write(), for rows that are sorted already. nothing: what a table says without rows."""
    kept = cut(rows, args.top)
    with Output(args.output or "-") as out:
        if args.json or args.csv:
            for part in (json_parts if args.json else csv_parts)(kept, columns, sample):
                out.write(part)
        else:
            plain = not sys.stdout.isatty() or args.output not in (None, "-")
            top = SERIES_TOP if args.top is None and args.sort is None else args.top
            out.write(text(title, rows, columns, top, plain, args.sort, nothing))
