"""Read allocstats files: those of the first Steve and those of steve-replay.

The format looks like Python source: lines `key = literal`, then `alloc_stats = [`, one `{...}` for each data point
with commas before or after it, then `]`. It is read as data: each value is parsed by ast.literal_eval, and nothing is
executed. Records may be in any order, because shell scripts joined the old files; they are sorted by op_index here.
steve.allocstats.result and steve.allocstats.ranking evaluate the numbers.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from steve.system.errors import SteveError

REQUIRED = ("op_index", "used", "maxmem", "current_op_time", "op")  # keys that every record must have
MAX_LINE = 1 << 16  # bytes; no line of an allocstats file is longer
MAX_HEADERS = 1000  # no allocstats file has more header values
_HEADER = re.compile(r"([A-Za-z_]\w*)\s*=\s*(.*)")


@dataclass
class AllocStats:
    """One result file.

    header: the values before the records. columns: for each numeric key of the records a float64 array with one value
    for each data point, in the order of op_index; NaN where a record lacks the key. ops: the letters of the operations
    in the same order. warnings: sentences for the user. Sizes are in bytes, times in nanoseconds (the documents of the
    first Steve say microseconds, but they were nanoseconds).
    """

    path: str
    header: dict[str, Any]
    columns: dict[str, np.ndarray]
    ops: np.ndarray
    warnings: list[str] = field(default_factory=list)

    @property
    def driver(self) -> str:
        """Name of the allocator's driver."""
        return str(self.header["driver"])

    @property
    def opsfile(self) -> str:
        """The ops file that was replayed, without folders."""
        return Path(str(self.header["opsfile"])).name

    @property
    def heap_size(self) -> int:
        """The size in bytes of the heap that the allocator was given."""
        return int(self.header["heap_size"])

    def __len__(self) -> int:
        return len(self.ops)

    def column(self, key: str, default: float = 0.0) -> np.ndarray:
        """The values of a key (float64); `default` where the file has none."""
        values = self.columns.get(key)
        if values is None:
            return np.full(len(self.ops), default)
        return np.where(np.isnan(values), default, values)

    def has(self, key: str) -> bool:
        """Does every record have the key?"""
        values = self.columns.get(key)
        return values is not None and not bool(np.isnan(values).any())


def _fail(path: str, line: int, what: str) -> SteveError:
    return SteveError(f"{path}: line {line}: {what}")


def _literal(path: str, line: int, text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        shown = text if len(text) <= 40 else text[:37] + "..."
        raise _fail(path, line, f"expected a plain value, found {shown!r}; is this an allocstats file?") from None


def _lines(path: str) -> Iterator[tuple[int, str]]:
    """(number, stripped text) of each line that is not empty. SteveError if a line is longer than MAX_LINE."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            for number in range(1, 1 << 62):
                line = file.readline(MAX_LINE)
                if not line:
                    return
                if len(line) >= MAX_LINE:
                    raise _fail(path, number, "longer than any line of an allocstats file; is this one?")
                if line.strip():
                    yield number, line.strip()
    except OSError as error:
        raise SteveError(f"{path}: {error.strerror}") from None


class _Reader:
    """A parser that is fed line by line; collects header values and records.

    state: "header", "records" or "end", the part of the file that the next line belongs to."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.header: dict[str, Any] = {}
        self.records: list[tuple[int, dict[str, Any]]] = []
        self.state = "header"

    def feed(self, line: int, text: str) -> None:
        """Parse one line. line: its number; text: not empty. SteveError if it does not fit the format."""
        if self.state == "header":
            self._feed_header(line, text)
        elif self.state == "records":
            self._feed_record(line, text)
        elif _HEADER.fullmatch(text) and not text.startswith("alloc_stats"):
            self._set_header(line, *_HEADER.fullmatch(text).groups())
        else:
            raise _fail(self.path, line, "text after the end of the list; remove it")

    def _feed_header(self, line: int, text: str) -> None:
        match = _HEADER.fullmatch(text)
        if text.startswith("#"):
            return
        if match is None:
            raise _fail(self.path, line, "expected `key = value`; this is not an allocstats file")
        key, value = match.groups()
        if key != "alloc_stats":
            self._set_header(line, key, value)
            return
        if not value.startswith("["):
            raise _fail(self.path, line, "expected `alloc_stats = [`")
        self.state = "records"
        if value[1:].strip():
            self._feed_record(line, value[1:].strip())

    def _set_header(self, line: int, key: str, value: str) -> None:
        if len(self.header) >= MAX_HEADERS:
            raise _fail(self.path, line, f"more than {MAX_HEADERS} header values; is this an allocstats file?")
        self.header[key] = _literal(self.path, line, value)

    def _feed_record(self, line: int, text: str) -> None:
        body = text.strip(", \t")
        if body.endswith("]"):
            self.state = "end"
            body = body[:-1].strip(", \t")
        if not body or body.startswith("#"):
            return
        values = _literal(self.path, line, f"[{body}]")
        for value in values:
            self.records.append((line, self._checked(line, value)))

    def _checked(self, line: int, record: Any) -> dict[str, Any]:
        if not isinstance(record, dict):
            raise _fail(self.path, line, "expected a record like {'op_index': 0, ...}")
        for key in REQUIRED:
            if key not in record:
                raise _fail(self.path, line, f"the record lacks {key!r}")
        for key, value in record.items():
            if key != "op" and not _is_number(value):
                raise _fail(self.path, line, f"{key!r} should be a number, not {value!r:.40}")
        if record["op_index"] < 0:
            raise _fail(self.path, line, "op_index is negative")
        return record


class NoPoints(SteveError):
    """The result file has no data points, because the allocator failed before the first one."""


def failure(stats: AllocStats) -> str | None:
    """The error that the file records; None if the allocator did not fail or only ran out of memory."""
    error = str(stats.header.get("error") or "")
    return error if error and ": out of memory at operation " not in error else None


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and abs(value) < 2**64 and math.isfinite(value)


def _check_header(path: str, header: dict[str, Any]) -> None:
    for key in ("driver", "opsfile", "heap_size"):
        if key not in header:
            raise SteveError(f"{path}: the header lacks {key!r}; this is not an allocstats file")
    if not _is_number(header["heap_size"]) or header["heap_size"] <= 0:
        raise SteveError(f"{path}: heap_size should be a number above 0, not {header['heap_size']!r:.40}")
    if header.get("opmode", "allocstats") != "allocstats":
        raise SteveError(f"{path}: opmode is {header['opmode']!r:.40}; only 'allocstats' files can be read")


def _sorted_unique(reader: _Reader, warnings: list[str]) -> list[dict[str, Any]]:
    """The records sorted by op_index. If several have the same index, the last one in the file is kept."""
    by_index = {record["op_index"]: record for _, record in reader.records}
    if len(by_index) < len(reader.records):
        repeated = len(reader.records) - len(by_index)
        warnings.append(f"{reader.path}: {repeated} data points repeat an op_index; the last of each is used")
    return [by_index[index] for index in sorted(by_index)]


def _columns(records: list[dict[str, Any]]) -> dict[str, np.ndarray]:
    keys = {key: None for record in records for key in record if key != "op"}
    nan = float("nan")
    return {str(key): np.array([float(r.get(key, nan)) for r in records]) for key in keys}


def read_results(paths: list[str]) -> tuple[list[AllocStats], list[str]]:
    """Read several files: (those of allocators that did not fail, a sentence about each file that is left out).

    SteveError if a file cannot be parsed, or if all allocators failed."""
    files, left_out = [], []
    for path in paths:
        try:
            stats = read_allocstats(path)
        except NoPoints as error:
            left_out.append(f"left out: {error}")
            continue
        reason = failure(stats)
        if reason is None:
            files.append(stats)
        else:
            left_out.append(f"left out: {path}: {reason}")
    if not files:
        raise SteveError(left_out[0].removeprefix("left out: "))
    return files, left_out


def read_allocstats(path: str) -> AllocStats:
    """Read one file. If it cannot be parsed, SteveError names the file and the line. Raises NoPoints if the allocator
    failed before the first data point."""
    reader = _Reader(path)
    for line, text in _lines(path):
        reader.feed(line, text)
    if not reader.header and reader.state == "header":
        raise SteveError(f"{path}: the file is empty; run `steve allocstats` to make one")
    _check_header(path, reader.header)
    if not reader.records:
        if reader.header.get("error"):
            raise NoPoints(f"{path}: no data points: {reader.header['error']}")
        raise SteveError(f"{path}: no data points; run `steve allocstats` again with a larger --heap")
    warnings = []
    if reader.state != "end":
        warnings.append(f"{path}: the list of data points is not closed; the file may be cut off")
    records = _sorted_unique(reader, warnings)
    ops = np.array([str(record["op"]) for record in records])
    return AllocStats(path, reader.header, _columns(records), ops, warnings)
