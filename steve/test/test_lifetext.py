"""The text lines of the lifetimes of blocks, against Python's own number formatting.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steve.kernels import _totals
from steve.system.errors import WriteError
from steve.analysis.lifetimes import Lifetimes, write_lifetime, write_statistics
from steve.system.output import Output

Rows = list[tuple[int, int, int]]  # handle, own accesses, other accesses

COUNTS = st.one_of(st.integers(0, 20), st.integers(0, 10**6), st.integers(0, 10**14))
ROWS = st.lists(st.tuples(st.integers(0, 2**64 - 1), COUNTS, COUNTS), max_size=20)


def lifetimes(rows: Rows, compat: bool = False) -> Lifetimes:
    accesses = max([sum(row[1] for row in rows), *(own + other for _, own, other in rows)], default=0)
    return Lifetimes(accesses, np.array(rows, _totals.LIFETIME), compat)


def statistics(rows: Rows, accesses: int, compat: bool, unmatched: int) -> str:
    """The expected file of statistics."""

    def micro(row: tuple[int, int, int]) -> float:
        return row[2] / max(row[1], 1)

    def own(row: tuple[int, int, int]) -> int:
        return max(row[1], 1) if compat else row[1]

    def macro(row: tuple[int, int, int]) -> float:
        return (own(row) + row[2]) / max(accesses, 1)

    def tail(row: tuple[int, int, int]) -> str:
        return f" (own = {own(row)}, other = {row[2]})\n"

    by_micro = sorted(rows, key=micro)
    by_macro = sorted(by_micro, key=macro)
    return (
        "\nOps per handle (sorted by micro lifetime):\n"
        + "".join(f"# {row[0]}: {micro(row):.2f}{tail(row)}" for row in by_micro)
        + "\nOps per handle (sorted by macro lifetime):\n"
        + "".join(f"# {row[0]}: {int(macro(row) * 100)}%{tail(row)}" for row in by_macro)
        + f"\nTotal number of ops: {accesses}\n\nOut of bounds ops ({unmatched} ops):\n[]\n"
    )


def written(path: Path, write: Any, *values: Any) -> str:
    path.unlink(missing_ok=True)
    with Output(str(path)) as out:
        write(out, *values)
    return path.read_text()


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lifetext") / "file"


@given(rows=ROWS)
def test_lifetime(path: Path, rows: Rows) -> None:
    found = lifetimes(rows)
    pairs = ", ".join(f'"{handle}": [{own}, {other}]' for handle, own, other in rows)
    assert written(path, write_lifetime, found) == f'{{"mod-op-count": {found.accesses}, "lifetime-ops": {{{pairs}}}}}'


@given(rows=ROWS, compat=st.booleans(), unmatched=st.integers(0, 10**9))
def test_statistics(path: Path, rows: Rows, compat: bool, unmatched: int) -> None:
    found = lifetimes(rows, compat)
    assert written(path, write_statistics, found, unmatched) == statistics(rows, found.accesses, compat, unmatched)


def test_halves_of_a_hundredth(path: Path) -> None:
    """Halves that a double represents exactly are rounded to even; others are a little above or below."""
    rows = [(i, 8 * own, i) for own in (1, 25, 125) for i in range(1, 5000, 2)]
    assert written(path, write_statistics, lifetimes(rows), 0) == statistics(rows, lifetimes(rows).accesses, False, 0)


def test_more_rows_than_are_written_at_once(path: Path) -> None:
    rows = [(i, i % 7, i % 100_003) for i in range(200_000)]
    found = lifetimes(rows)
    assert json.loads(written(path, write_lifetime, found))["lifetime-ops"] == {
        str(handle): [own, other] for handle, own, other in rows
    }
    assert written(path, write_statistics, found, 1) == statistics(rows, found.accesses, False, 1)


def test_a_full_disk() -> None:
    blocks = lifetimes([(1, 2, 3)]).blocks
    with open("/dev/full", "wb") as full:
        with pytest.raises(WriteError, match="No space left"):
            _totals.write_lifetime_pairs(full.fileno(), blocks)
        with pytest.raises(WriteError, match="No space left"):
            _totals.write_lifetime_lines(full.fileno(), blocks, np.array([0]), compat=False, macro=True, accesses=5)
