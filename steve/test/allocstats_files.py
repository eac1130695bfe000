"""Make allocstats files for tests: the old format from text, the current one from given numbers.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

from pathlib import Path
from typing import Any

OLD = """\
driver = "dlmalloc"
opsfile = "result.soffice-ops"
heap_size = 270416
theoretical_heap_size = 67604
opmode = 'allocstats'
alloc_stats = [
    {'op_index':      0, 'free': 270400, 'used':     16, 'overhead':      0, 'maxmem': 262040.00, \
'current_op_time':  12088, 'oom_time':      0, 'optime_maxmem':    751, 'op': 'N', 'size':     16}
,    {'op_index':   1000, 'free': 269000, 'used':   1416, 'overhead':      0, 'maxmem': 261000.00, \
'current_op_time':    500, 'oom_time':     20, 'optime_maxmem':    740, 'op': 'N', 'size':    352}
,    {'op_index':    100, 'free': 269416, 'used':   1000, 'overhead':      0, 'maxmem': 261500.00, \
'current_op_time':    300, 'oom_time':      0, 'optime_maxmem':    745, 'op': 'F', 'size':     16}
]
"""


def record(index: int, op: str = "N", time: float = 10, maxmem: float = 1000, used: int = 100, **more: Any) -> dict:
    """A record for one data point."""
    return {
        "op_index": index,
        "free": 4096 - used,
        "used": used,
        "overhead": 0,
        "maxmem": maxmem,
        "current_op_time": time,
        "oom_time": 0,
        "optime_maxmem": 1,
        "op": op,
        "size": 16,
        **more,
    }


def write(folder: Path, driver: str, records: list[dict], ops: str = "app-ops", heap: int = 4096, **header: Any) -> str:
    """Write a file in the current format; return its path."""
    values = {
        "driver": driver,
        "opsfile": ops,
        "heap_size": heap,
        "theoretical_heap_size": heap // 4,
        "opmode": "allocstats",
        "time_unit": "ns",
        **header,
    }
    lines = [f"{key} = {value!r}" for key, value in values.items()] + ["alloc_stats = ["]
    lines += [("," if i else "") + repr(item) for i, item in enumerate(records)] + ["]"]
    path = folder / f"{ops}-{driver}-kill0-allocstats"
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def series(n: int, seed: int, **more: Any) -> list[dict]:
    """n data points, different for each seed, with memory columns."""
    points = []
    for i in range(n):
        used = 100 + (i * 37 + seed * 11) % 900
        points.append(
            record(
                i * 3,
                "NF"[(i + seed) % 2],
                5 + (i * seed) % 17,
                4096 - used - seed * 50,
                used,
                committed=2048,
                resident=used + 200,
                highest=used + 100,
                **more,
            )
        )
    return points
