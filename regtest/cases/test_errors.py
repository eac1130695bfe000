"""test_errors - errors of the traced program: all are found, each with its place and its block, as by memcheck.

native/errors.c makes each error a known number of times. memcheck must report the same errors, as often.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
import xml.etree.ElementTree as xml
from collections import Counter
from pathlib import Path

import pytest

from support import INSTALLED_VALGRIND, NATIVE, SOURCE, good, record, steve

ERRORS = NATIVE / "errors"
# finding, function: how often
KNOWN = {
    ("freed_access", "load_freed"): 3,
    ("freed_access", "store_freed"): 1,
    ("freed_access", "load_rest"): 1,
    ("freed_access", "(system call)"): 1,
    ("beyond_end", "load_across"): 2,
    ("beyond_end", "store_across"): 1,
    ("beside_block", "store_after"): 4,
    ("beside_block", "load_before"): 1,
    ("beside_block", "(system call)"): 1,
    ("double_free", "free_twice"): 1,
    ("inside_free", "free_inside"): 1,
    ("invalid_free", "free_static"): 1,
    ("mismatched_free", "free_of_new"): 1,
}
MEMCHECK = {"InvalidRead", "InvalidWrite", "InvalidFree", "MismatchedFree", "SyscallParam"}


@pytest.fixture(scope="module")
def findings(tmp_path_factory: pytest.TempPathFactory) -> list[dict]:
    trace = record(tmp_path_factory.mktemp("errors") / "t.ljt", [ERRORS])
    assert trace.run.status == 0
    found = json.loads(steve("findings", "--json", "--rules", "errors", trace.path).text)
    shown = steve("findings", "--rules", "errors", trace.path).text
    assert "Accesses to freed memory: 6 in 4 contexts" in shown and "free_twice (errors.c:" in shown
    return found


UNWATCHED = {
    **{k: n for k, n in KNOWN.items() if k[0] not in ("freed_access", "double_free")},
    ("invalid_free", "free_twice"): 1,
}


def places(findings: list[dict]) -> Counter[tuple[str, str]]:
    """The number of each finding in each function of errors.c."""
    seen: Counter[tuple[str, str]] = Counter()
    for found in findings:
        for context in found["contexts"]:
            functions = [part.split(" (")[0] for part in context["at"].split(" < ")]
            seen[found["finding"], next(f for f in functions if f not in ("free", ""))] += context["count"]
    return seen


def test_all_errors_are_found(findings: list[dict]) -> None:
    assert places(findings) == KNOWN


def test_each_tells_its_block(findings: list[dict]) -> None:
    reported = {c["at"].split(" (")[0]: c for f in findings for c in f["contexts"] if f["finding"] == "freed_access"}
    assert (reported["load_freed"]["offset"], reported["load_freed"]["size"]) == (5, 1)
    assert (reported["store_freed"]["offset"], reported["store_freed"]["size"]) == (8, 4)
    (across,) = [c for f in findings if f["finding"] == "beyond_end" for c in f["contexts"] if c["kind"] == "load"]
    assert (across["offset"], across["size"], across["block_size"]) == (20, 8, 24)
    rest = reported.pop("load_rest")
    assert (rest["offset"], rest["block_size"]) == (3000, 4000)
    for context in reported.values():
        assert context["block_size"] == 24
        assert "main (errors.c:" in context["made_at"] and "main (errors.c:" in context["freed_at"]


def test_the_rest_of_reused_memory_stays_freed(tmp_path: Path) -> None:
    """A block at the beginning of a larger freed one reuses only its own bytes."""
    trace = record(tmp_path / "t.ljt", [ERRORS])
    made = [line.split() for line in steve("memtrace", trace.path).text.splitlines() if " N " in line or line[0] == "N"]
    (large,) = [int(words[-2], 16) for words in made if words[-1] == "4000"]
    (small,) = [int(words[-2], 16) for words in made if words[-1] == "1000"]
    assert large <= small <= large + 1000, made


def test_an_access_beside_a_block_names_the_block_and_the_distance(findings: list[dict], tmp_path: Path) -> None:
    (found,) = [f["contexts"] for f in findings if f["finding"] == "beside_block"]
    reported = {c["at"].split(" (")[0]: (c["kind"], c["offset"], c["size"], c["block_size"]) for c in found}
    assert reported == {
        "store_after": ("store", 24, 4, 24),
        "load_before": ("load", -4, 4, 24),
        "(system call)": ("store", 24, 4, 24),
    }
    assert all("main (errors.c:" in c["made_at"] for c in found)
    shown = steve("findings", "--rules", "errors", record(tmp_path / "t.ljt", [ERRORS]).path).text
    assert "0 bytes after block" in shown and "4 bytes before block" in shown


FAR = """
#include <stdlib.h>
#include <string.h>
static char *volatile p, *volatile q;
int main(void)
{
    p = malloc(100);
    q = malloc(100);
    p[DISTANCE] = 1;
    free(q);
    p = realloc(p, 0x2000); /* and the new place has the same around it */
    p[0x2000 + 3] = 2;
    q = calloc(1, 0);
    q[0] = 3;
    memset(p, strlen("a string that ends in its block"), 0x2000);
    return 0;
}
"""


@pytest.mark.parametrize(
    "options, distance, errors",
    [
        ((), "100 + 8", 3),
        ((), "-1", 3),
        ((), "100 + 17", 2),
        (("--redzone=200",), "100 + 17", 3),
        (("--redzone=200",), "100 + 190", 3),
        (("--redzone=200",), "-190", 3),
    ],
)
def test_red_zones_show_accesses_further_away(options: tuple, distance: str, errors: int, tmp_path: Path) -> None:
    """Without the option, 16 bytes on either side of a block of any size are checked."""
    (tmp_path / "p.c").write_text(FAR)
    good(["gcc", "-g", "-O0", "-w", f"-DDISTANCE=({distance})", "-o", tmp_path / "p", tmp_path / "p.c"])
    trace = record(tmp_path / "t.ljt", [tmp_path / "p"], *options)
    found = json.loads(steve("findings", "--json", "--rules", "errors", trace.path).text)
    assert sum(f["errors"] for f in found if f["finding"] == "beside_block") == errors, found
    assert {f["finding"] for f in found} == {"beside_block"}


def test_freed_memory_need_not_be_watched(tmp_path: Path) -> None:
    """Accesses to the memory are then no errors, its second free is an invalid one, and `steve findings` says
    so."""
    trace = record(tmp_path / "t.ljt", [ERRORS], "--trace-freed=no")
    assert trace.run.status == 0, trace.run.complaint
    assert places(json.loads(steve("findings", "--json", "--rules", "errors", trace.path).text)) == UNWATCHED
    assert "freed memory was not watched" in steve("findings", "--rules", "errors", trace.path).text
    assert r"\-\-trace\-freed=" in (SOURCE / "docs/ljtrace.1").read_text()


def memcheck_errors(path: Path) -> int:
    """The number of errors memcheck counts, of the kinds that concern the heap."""
    good([*INSTALLED_VALGRIND, "-q", "--xml=yes", f"--xml-file={path}", ERRORS])
    tree = xml.parse(path).getroot()
    kinds = {e.findtext("unique"): e.findtext("kind") for e in tree.iter("error")}
    counts = {p.findtext("unique"): int(p.findtext("count") or 0) for p in tree.iter("pair")}
    return sum(counts[unique] for unique, kind in kinds.items() if kind in MEMCHECK)


def test_memcheck_counts_as_many(findings: list[dict], tmp_path: Path) -> None:
    assert memcheck_errors(tmp_path / "m.xml") == sum(KNOWN.values())
    assert sum(f["errors"] for f in findings) == sum(KNOWN.values())


def test_a_sound_program_has_none(tmp_path: Path) -> None:
    trace = record(tmp_path / "t.ljt", ["/bin/ls", "/"])
    assert json.loads(steve("findings", "--json", "--rules", "errors", trace.path).text) == []
