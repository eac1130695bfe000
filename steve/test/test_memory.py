"""The memory limit of commands, and their behaviour when a file describes more than there is memory for.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import resource
import subprocess
import sys
from typing import Any

import pytest

from steve.system import memory_limit

# half a gigabyte; starting a command needs less than a fifth of it
LIMITED = ["sh", "-c", 'ulimit -v 500000; exec "$@"', "sh"]
# one access is to ten terabytes: its data would need more memory than any machine has
HUGE = ">>> N 4096 64\n>>> S 4096 9999999999998\n>>> L 4104 8\n>>> F 4096 0\n"


@pytest.mark.parametrize("command", ["workingset", "reuse", "sharing", "lines"])
def test_an_access_to_more_than_fits_is_one_line_of_error(steve: Any, command: str) -> None:
    (steve.folder / "huge.txt").write_text(HUGE)
    steve.prefix = LIMITED
    result = steve(command, "huge.txt")
    assert (result.returncode, result.out, result.err) == (1, "", f"steve {command}: out of memory\n")


MEMINFO = "MemTotal:       16000000 kB\nMemAvailable:    1000 kB\nSwapFree:  24 kB\nHugePages_Free:        0\n"


def test_available() -> None:
    assert memory_limit.available(MEMINFO) == 1024 * 1024
    assert memory_limit.available("MemTotal: 16000000 kB\n") is None


def taken(limit: str, size: int) -> str:
    """The result of a process that requests `size` bytes under `limit`."""
    program = (
        f"import resource\nfrom steve.system import memory_limit\n{limit}\ntry:\n    bytearray({size})\n    print('had')\n"
        "except MemoryError:\n    print('refused')\n"
    )
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize(
    "limit",
    [
        "memory_limit.bound_by(300 << 20)",
        "memory_limit.bound(); memory_limit.bound_by(300 << 20)",
        "memory_limit.bound_by(300 << 20); memory_limit.bound()",
    ],
)
def test_what_is_behind_the_limit_is_refused(limit: str) -> None:
    assert (taken(limit, 200 << 20), taken(limit, 400 << 20)) == ("had", "refused")


def limits_of(command: str) -> tuple[int, int]:
    """The memory limit before and after a command has set it."""
    limit = "print(resource.getrlimit(resource.RLIMIT_DATA)[0])"
    program = f"import resource\nfrom steve import cli\n{limit}\ncli.main(['{command}', '/nowhere'])\n{limit}\n"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    before, after = map(int, done.stdout.split())
    return before, after


def test_a_command_is_bound() -> None:
    before, after = limits_of("info")
    assert 0 < after != before and (before == resource.RLIM_INFINITY or after < before)


def test_replaying_is_not_bound() -> None:
    before, after = limits_of("allocstats")
    assert before == after
