"""Mutation testing finds the places that it should (regtest/mutants/places.py).

SPDX-License-Identifier: GPL-2.0-or-later
"""
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(os.environ["LJTRACE_SRCDIR"], "regtest", "mutants")))
from places import places  # noqa: E402

C = """#include <assert.h>
#include <stdlib.h>
#define NONE (-1)
int f(int *p, int n);
int f(int *p, int n)
{
    assert(n > 7);
    if (n < 3 && p)
        n -= p[1];
    f(p, NONE);
    free(p);
    return !n;
}
"""
PYTHON = '''"""One 1."""
def f(n: int) -> bool:
    if n < 3 and n != 2:
        print(n + 1)
    return not n
'''


def mutations(path: Path, text: str, arguments: list[str]) -> list[tuple[int, str, str]]:
    path.write_text(text)
    data = text.encode()
    return [(one.line(data), one.old(data), one.new) for one in places(path, arguments)]


def test_places_in_c(tmp_path: Path) -> None:
    """Not: assertions, calls of free, and constants in macros."""
    pytest.importorskip("clang.cindex", reason="needs python3-clang-14")
    if shutil.which("clang") is None:
        pytest.skip("needs clang, for the folder of its headers")
    folder = subprocess.run(["clang", "-print-resource-dir"], capture_output=True, text=True, check=True).stdout.strip()
    assert mutations(tmp_path / "a.c", C, ["-resource-dir", folder]) == [
        (8, "n < 3 && p", "0 && (n < 3 && p)"),
        (8, "n < 3 && p", "1 || (n < 3 && p)"),
        (8, "<", "<="),
        (8, "3", "(3 + 1)"),
        (8, "&&", "||"),
        (9, "-=", "+="),
        (9, "1", "(1 + 1)"),
        (10, "f(p, NONE)", "(void)0"),
        (12, "!", "!!"),
    ]


def test_places_in_python(tmp_path: Path) -> None:
    assert mutations(tmp_path / "a.py", PYTHON, []) == [
        (3, "n < 3 and n != 2", "False"),
        (3, "n < 3 and n != 2", "True"),
        (3, "<", "<="),
        (3, "3", "4"),
        (3, "and", "or"),
        (3, "!=", "=="),
        (3, "2", "3"),
        (4, "print(n + 1)", "pass"),
        (4, "+", "-"),
        (4, "1", "2"),
        (5, "not ", ""),
        (5, "not n", "None"),
    ]


def test_a_mutation_replaces_its_bytes(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("é = 1 + 2\n")
    (plus,) = (one for one in places(path, []) if one.new == "-")
    assert plus.applied(path.read_bytes()).decode() == "é = 1 - 2\n"
