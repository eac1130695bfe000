"""What locks mean for a compacting allocator, as text and as an object: `steve lockops --stats`.

What is not locked can be moved. Means are over time (operations), not over samples.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import sys
from typing import TYPE_CHECKING, Any, List

from steve.analysis import blocks
from steve.terminal import listing
from steve.terminal.listing import Column

if TYPE_CHECKING:
    from steve.kernels._locks import LockStats

COLUMNS = (
    Column("operation", "operation", "number of the operation after which this holds"),
    Column("live_blocks", "live blocks", "blocks live then"),
    Column("locked_blocks", "locked", "those of them that are locked"),
    Column("blocks_share", "%", "locked blocks in percent of live ones"),
    Column("live_bytes", "live bytes", "bytes of the live blocks"),
    Column("locked_bytes", "locked", "bytes of the locked blocks"),
    Column("bytes_share", "%", "locked bytes in percent of live ones"),
    Column("movable_blocks", "movable blocks", "blocks that compaction could move then: those not locked"),
    Column("movable_bytes", "bytes", "their bytes"),
)
ROWS = 16  # samples in the table
HOLDS = (
    Column("from", "held from", "operations"),
    Column("to", "to", "operations"),
    Column("locks", "locks", "locks held so long"),
    Column("share", "%", "of all locks"),
)


def samples_of(stats: "LockStats") -> List[dict]:
    """The state over time, at most 256 rows of COLUMNS."""
    return [
        {
            **row,
            "blocks_share": blocks.share(row["locked_blocks"], row["live_blocks"]),
            "bytes_share": blocks.share(row["locked_bytes"], row["live_bytes"]),
            "movable_blocks": row["live_blocks"] - row["locked_blocks"],
            "movable_bytes": row["live_bytes"] - row["locked_bytes"],
        }
        for row in stats.samples
    ]


def holds_of(stats: "LockStats") -> List[dict]:
    """How long locks were held, in powers of two of operations."""
    holds = stats.holds
    return [
        {"from": 1 << i >> 1, "to": (1 << i) - 1, "locks": n, "share": blocks.share(n, sum(holds))}
        for i, n in enumerate(holds)
        if n
    ]


def object_of(name: str, stats: "LockStats") -> dict:
    """The object of --json."""
    totals, sums = stats.totals, stats.sums
    return {
        "file": name,
        **totals,
        "mean_hold": blocks.mean(totals["held"], totals["locks"]),
        **{f"mean_{key}": blocks.mean(value, totals["operations"]) for key, value in sums.items()},
        "mean_blocks_share": blocks.share(sums["locked_blocks"], sums["live_blocks"]),
        "mean_bytes_share": blocks.share(sums["locked_bytes"], sums["live_bytes"]),
        "holds": holds_of(stats),
        "time": samples_of(stats),
    }


def facts_of(found: dict) -> List[tuple]:
    """The lines above the tables."""
    return [
        ("blocks", f"{found['blocks']:,}"),
        ("blocks ever locked", f"{found['blocks_locked']:,}"),
        ("locks", f"{found['locks']:,}"),
        ("unlocks", f"{found['unlocks']:,}"),
        ("blocks freed while locked", f"{found['died_locked']:,}"),
        ("operations", f"{found['operations']:,}"),
        ("operations a lock is held, on average", listing.cell(found["mean_hold"])),
        ("longest", f"{found['longest']:,}"),
        ("% of live blocks locked, on average", listing.cell(found["mean_blocks_share"])),
        ("% of live bytes locked, on average", listing.cell(found["mean_bytes_share"])),
    ]


def text(name: str, stats: "LockStats") -> str:
    """Totals, the state over time, how long locks were held."""
    from steve.terminal.tables import facts, render

    found = object_of(name, stats)
    every = max(1, -(-len(found["time"]) // ROWS))
    parts: List[Any] = [
        facts(f"Locks: {name}", facts_of(found), values="right"),
        listing.table("Over time", found["time"][::every], COLUMNS),
        listing.table("Operations that locks are held", found["holds"], HOLDS),
    ]
    return render(parts, sys.stdout.isatty())
