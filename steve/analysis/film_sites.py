"""Which line of the program made each block, for films with a colour for each: the file that steve-replay --sites reads.

The lines with most bytes at the peak of the heap have names. drivers/film/sites.h describes the file.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

from typing import TYPE_CHECKING

from steve.analysis.folds import Kept, Sums, Together, columns
from steve.trace import rollups

if TYPE_CHECKING:
    import numpy as np

    from steve.analysis.blocks import Blocks

MOST = 5  # FILM_SITES of drivers/base/shared.h
LONGEST = 62  # letters of a name: SITE_NAME there, without its ends
OTHERS = ord("9")


class Owners(Kept):
    """The fold that keeps the stack of each block."""

    def add(self, batch: np.ndarray, keep: np.ndarray | None) -> None:
        self._kept.append(columns(batch if keep is None else batch[keep], "handle", "stack"))

    def take(self) -> list[np.ndarray]:
        """The handles and stacks, which are no longer kept."""
        kept, self._kept = self._kept, []
        return kept


def together() -> Together:
    return Together(Sums("stack"), Owners())


def fitting(name: str, letters: int) -> str:
    """A name in ASCII of at most so many letters, or LONGEST; what is too much is left out in its middle."""
    name = name.encode("ascii", "replace").decode()
    most = min(letters, LONGEST)
    if len(name) <= most:
        return name
    first = (most - 3) // 3
    return f"{name[:first]}...{name[first + 3 - most:]}"


def write(chosen: Blocks, path: str, letters: int) -> None:
    """Write the file. chosen: the blocks of a whole trace, which was not read yet; letters: of a name, at most."""
    import numpy as np

    walked = chosen.fold(together)
    of_stacks, of_blocks = walked.fold.folds
    (sums,) = of_stacks.rows(walked.totals["peak"], ("peak_bytes", "bytes"))
    rollup = rollups.Rollup("line", chosen.places, True)
    rows = rollup.merged(rollups.Sums(*sums))
    order = np.lexsort((-rows.rows["bytes"].astype("i8"), -rows.rows["peak_bytes"].astype("i8")))[:MOST]
    leading = rows.numbers[order]
    digit_of = np.full(int(sums.numbers.max(initial=0)) + 1, OTHERS, "u1")
    of_rows = rollup.numbers(sums.numbers)
    for digit, number in enumerate(leading.tolist()):
        digit_of[sums.numbers[of_rows == number]] = ord("0") + digit
    digits = np.full(chosen.trace.stats()["handles"], OTHERS, "u1")
    for lives in of_blocks.take():
        digits[lives["handle"]] = digit_of[lives["stack"]]
    names = [fitting(rollup.text(number), letters) for number in leading.tolist()]
    with open(path, "wb") as file:
        file.write("".join(f"{name}\n" for name in [*names, ""]).encode())
        file.write(digits.tobytes())
