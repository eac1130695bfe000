"""Who keeps pages in use: the live blocks of a replay by page, from the file that `steve-replay --places` writes.

drivers/measure/places.h describes the file. A page with live blocks belongs to the makers of these blocks, in
proportion to the bytes that they have on it. So the bytes pinned by all blocks are exactly those of the pages.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from steve.system.errors import SteveError

if TYPE_CHECKING:
    import numpy as np

PAGE = 4096
NO_MEMORY = 2**64 - 1


class Places(NamedTuple):
    """Where the live blocks are, after so many operations (N, F and R)."""

    operations: int
    born: np.ndarray  # u8, by block: the number of the operation that made it, from 0
    offset: np.ndarray  # u8, by block: of its first byte in the heap; NO_MEMORY
    size: np.ndarray  # u8, by block: bytes requested
    page: np.ndarray  # u8: the numbers of the pages with live blocks, in order
    ended: np.ndarray  # u8, by page: how many blocks on it have ended
    lived: np.ndarray  # u8, by page: the sum of their lives there, in operations


def read(path: str) -> Places:
    """Read the file. SteveError if it has not the size that its head says."""
    import numpy as np

    data = np.fromfile(path, "u8")
    operations, blocks, pages = data[:3].tolist() if len(data) >= 3 else (0, 0, 0)
    if len(data) != 3 + 3 * (blocks + pages) or len(data) < 3:
        raise SteveError(f"{path}: is not what steve-replay --places writes")
    of_blocks, of_pages = data[3 : 3 + 3 * blocks].reshape(-1, 3), data[3 + 3 * blocks :].reshape(-1, 3)
    return Places(operations, *of_blocks.T.copy(), *of_pages.T.copy())


def pinned(places: Places, owners: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of the owners of live blocks, in order, and a row for each: blocks, bytes, pages, pinned (bytes), ended
    and lived (of the blocks that were on these pages, by the owner's part of each page). owners: u4, by block."""
    import numpy as np

    numbers, owner = np.unique(owners, return_inverse=True)
    kinds = [("blocks", "i8"), ("bytes", "i8"), ("pages", "i8"), ("pinned", "f8"), ("ended", "f8"), ("lived", "f8")]
    rows = np.zeros(len(numbers), kinds)
    rows["blocks"] = np.bincount(owner, minlength=len(numbers))
    np.add.at(rows["bytes"], owner, places.size.astype("i8"))
    placed = np.flatnonzero(places.offset != NO_MEMORY)
    begin = places.offset[placed].astype("i8")
    end = begin + np.maximum(places.size[placed].astype("i8"), 1)  # an empty block has one byte
    first = begin // PAGE
    count = (end - 1) // PAGE - first + 1
    # a piece is a block on one page
    of = np.repeat(np.arange(len(placed)), count)
    page = first[of] + np.arange(len(of)) - np.repeat(np.cumsum(count) - count, count)
    here = np.minimum(end[of], (page + 1) * PAGE) - np.maximum(begin[of], page * PAGE)
    index = np.searchsorted(places.page.astype("i8"), page)
    share = here / np.bincount(index, here, minlength=len(places.page))[index]
    mine = owner[placed][of]
    for name, of_page in (("pinned", PAGE), ("ended", places.ended[index]), ("lived", places.lived[index])):
        rows[name] = np.bincount(mine, share * of_page, minlength=len(numbers))
    pairs = np.unique(np.stack((mine, page), axis=1), axis=0)[:, 0] if len(page) else mine
    rows["pages"] = np.bincount(pairs, minlength=len(numbers))
    return numbers, rows
