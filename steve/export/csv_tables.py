"""A trace as a folder of CSV files, one for each table of steve.export.tables: for pandas, DuckDB, Spark, R.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from io import StringIO

import numpy as np

from steve.export.tables import BLOCK, Column, Table, in_pieces
from steve.system.errors import SteveError
from steve.system.output import Output


def values(column: Column) -> list:
    """The values of a column; None if they are not known."""
    if column.words is not None:
        return np.array(column.words, object)[column.numbers].tolist()
    if column.unknown is None:
        return column.numbers.tolist()
    return np.where(column.numbers == column.unknown, None, column.numbers).tolist()


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
            buffer = StringIO()
            csv.writer(buffer, lineterminator="\n").writerows(some)
            self._outputs[table.name].write(buffer.getvalue())

    def blocks(self, columns: list[Column]) -> None:
        self.rows(BLOCK, zip(*(values(column) for column in columns)))

    def finish(self) -> None:
        pass
