"""test_gates - `steve check --fail-if` of what the recorders find: lost blocks under Valgrind, and not natively.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from pathlib import Path

from support import good, record, run

PROGRAM = """\
#include <stdlib.h>
static void *kept;
int main(void)
{
    for (int i = 0; i < 10; i++)
        *(volatile char *)malloc(100) = 1;
    kept = malloc(5000);
    return 0;
}
"""


def test_lost_blocks(tmp_path: Path) -> None:
    source, program = tmp_path / "p.c", tmp_path / "p"
    source.write_text(PROGRAM)
    good(["gcc", "-g", "-o", program, source])
    valgrind = record(tmp_path / "v.ljt", [program]).path
    native = tmp_path / "n.ljt"
    good(["ljtrace", "run", f"--out={native}", program])
    conditions = {"lost_bytes > 900": 1, "lost_bytes > 1000": 0, "lost_blocks = 10": 1, "live_at_end > 6k": 0}
    for condition, status in conditions.items():
        done = run(["steve", "check", "-q", valgrind, "--fail-if", condition])
        assert done.status == status, (condition, done.text, done.complaint)
    done = run(["steve", "check", "-q", native, "--fail-if", "lost_bytes > 0"])
    assert done.status == 2 and "lost_bytes was not recorded" in done.complaint
    assert run(["steve", "check", "-q", native, "--fail-if", "live_at_end > 5k"]).status == 1
