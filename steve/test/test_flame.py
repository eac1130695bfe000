"""steve flame: the names in the drawing, also those that its script writes when a reader zooms.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
from conftest import Steve

from steve.flame.draw import FITTING, fitting

NAMES = (
    "f",
    "std::vector<int>::push_back (vec.h:7)",
    "operator() (a.cc:1)",
    "größe \U0001f600 in (x) (y.lua:3)",
    "a (b) c",
    "",
)


def test_the_end_of_a_long_name_is_shown() -> None:
    name = "std::vector<int>::push_back (vec.h:7)"
    assert [fitting(name, letters) for letters in (99, 27, 10, 3, 2, 0, -1)] == [
        name,
        "std::vector<int>::push_back",
        "…push_back",
        "…ck",
        "",
        "",
        "",
    ]
    assert fitting("operator() (a.cc:1)", 10) == "operator()"
    assert [fitting("main chunk app.lua:12", letters) for letters in (21, 20, 9)] == [
        "main chunk app.lua:12",
        "main chunk",
        "…in chunk",
    ]


@pytest.mark.skipif(shutil.which("node") is None, reason="node is missing")
def test_the_script_fits_names_in_the_same_way() -> None:
    cases = [(name, letters) for name in NAMES for letters in range(-1, 40)]
    text = f"{FITTING};console.log(JSON.stringify({json.dumps(cases)}.map(([n,c])=>fitting(n,c))))"
    done = subprocess.run(["node", "-e", text], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [fitting(name, letters) for name, letters in cases]


def test_the_drawing_has_short_names_and_whole_ones(steve: Steve, trace: Callable[..., Path]) -> None:
    whole = "very_long_name_of_a_function_" + "x" * 200 + "_that_ends_here"
    trace(f"stack {whole}@app.c:10 malloc\nN 4096 64 1\nend exit\n")
    assert steve("flame", "t.ljt", "-o", "f.svg").returncode == 0
    drawing = ElementTree.fromstring((steve.folder / "f.svg").read_text())
    (box,) = (each for each in drawing.findall(".//{*}g") if (each.get("data-n") or "").startswith("very_long"))
    assert box.get("data-n") == whole
    assert (box.findtext("{*}title") or "").startswith(whole)
    assert re.fullmatch(r"…x+_that_ends_here", box.findtext("{*}text") or "")
