"""A trace as a folder of CSV files, one for each table of steve.export.tables: for pandas, DuckDB, Spark, R.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from io import StringIO

from steve.export._rows import write_csv
from steve.export.tables import Column, Table, in_pieces
from steve.system.errors import SteveError
from steve.system.output import Output


def csv_lines(rows: Iterable[Sequence]) -> str:
    buffer = StringIO()
    csv.writer(buffer, lineterminator="\n").writerows(rows)
    return buffer.getvalue()


def in_csv(column: Column) -> Column:
    """A column whose words are as CSV has them, in quotation marks if they have commas."""
    return column._replace(words=column.words and [csv_lines([[word, ""]])[:-2] for word in column.words])


class Folder:
    """Writes a folder of tables. `with` gives the files their names, or removes them after an error."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._files = ExitStack()
        self._outputs: dict[str, Output] = {}

    def __enter__(self) -> Folder:
        try:
            os.makedirs(self.path, exist_ok=True)
        except OSError as error:
            raise SteveError(f"{self.path}: cannot make this folder: {error.strerror}") from None
        self._files.__enter__()
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._files.__exit__(kind, error, trace)  # type: ignore[arg-type]

    def make(self, table: Table) -> None:
        out = self._files.enter_context(Output(os.path.join(self.path, f"{table.name}.csv")))
        self._outputs[table.name] = out
        out.write(",".join(table.names()) + "\n")

    def rows(self, table: Table, rows: Iterable[Sequence]) -> None:
        for some in in_pieces(rows):
            self._outputs[table.name].write(csv_lines(some))

    def columns(self, table: Table, columns: list[Column]) -> None:
        out = self._outputs[table.name]
        error = write_csv(out.fd, [in_csv(column) for column in columns])
        if error:
            raise SteveError(f"{out.name}: {os.strerror(error)}")

    def finish(self) -> None:
        pass
