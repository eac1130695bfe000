"""The report's accesses by offset: its numbers are those of `steve fields`, and the page as a browser shows it.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from browser_page import Page, driver, needs_browser  # noqa: F401  (fixtures)
from conftest import Steve, make_trace

SITES = 11
COLUMNS = ("offset", "bytes", "loads", "stores", "modifies")


def history() -> str:
    """Sites f0, f1...: blocks of 32 bytes and more; byte 12 to 15 is never accessed. Site 3 has one of 100,000 bytes. A block
    that f1 makes is resized by `resizer`, which makes none."""
    lines = [f"stack main@a.c:1 f{i}@a.c:{10 + i} malloc" for i in range(SITES)]
    lines += ["stack main@a.c:2 resizer@a.c:90 realloc", "thread 1"]
    for i in range(SITES):
        at = 1 << 20 | i << 18
        for turn, mark in enumerate(("", "from", "", "to", "")):
            lines += [f"mark {mark}{i}"] if mark else []
            base, size = at + turn * 8192, 100_000 if (i, turn) == (3, 4) else 32 + 8 * turn
            lines += [f"N {base} {size} {i + 1}", f"S {base} 8", f"M {base + 16} 4", f"L {base + size - 4} 8"]
            lines += [f"L {base + 8} 4"] * (1 + i)
    lines += [f"R {1 << 20 | 1 << 18} {1 << 20 | 1 << 18} 400 {SITES + 1}", f"S {(1 << 20 | 1 << 18) + 399} 1"]
    return "\n".join([*lines, "end exit"]) + "\n"


@pytest.mark.parametrize("choice", ((), ("--where", "size < 60"), ("--from", "from4", "--to", "to9")))
@pytest.mark.parametrize("workers", ((), ("-j", "2")))
def test_numbers_are_those_of_fields(
    steve: Steve, trace: Callable[..., Path], choice: tuple[str, ...], workers: tuple[str, ...]
) -> None:
    """Also with filters, marks and workers. The sites with the most accesses are shown, and the others counted."""
    trace(history(), chunk_events=40)
    rows = json.loads(steve("fields", "t.ljt", "--sites", "99", "--json", *choice).out)
    done = steve("report", "t.ljt", "--json", *choice, *workers)
    assert done.returncode == 0, done.err
    found = json.loads(done.out)["by_offset"]
    of_fields: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        of_fields.setdefault(row["site"].split(" ")[0], []).append(row)
    assert found["why_not"] == "" and len(found["sites"]) == min(8, len(of_fields))
    assert len(found["sites"]) + found["other_sites"] == len(of_fields) >= 6
    for site in found["sites"]:
        of = of_fields[site["name"].split(" ")[0]]
        assert site["fields"] == [{key: row[key] for key in COLUMNS} for row in of]
        assert {(site["cell"], site["blocks"])} == {(row["cell"], row["blocks"]) for row in of}
        assert site["largest"] == sum(row["bytes"] for row in of)
    counts = [site["accesses"] for site in found["sites"]]
    assert counts == sorted(counts, reverse=True) and counts[0] > counts[-1] > 0


def test_what_has_none(steve: Steve, trace: Callable[..., Path]) -> None:
    """A trace without accesses has no such section. Of a pipe and of a sample the reason is reported."""
    whole = trace(history())
    trace("\n".join(line for line in history().splitlines() if line[:2] not in ("L ", "S ", "M ")) + "\n", "none.ljt")
    assert "by_offset" not in json.loads(steve("report", "none.ljt", "--json").out)
    assert 'id="offsets"' not in steve("report", "none.ljt", "-o", "-").out
    trace("info sample_mean 64\ninfo sample_seed 5\n" + history(), "sample.ljt")
    for arguments, stdin, why in (
        (("-",), whole.read_bytes(), "it takes a second reading of the trace, which came from a pipe"),
        (("sample.ljt",), b"", "the trace is a sample of the blocks"),
    ):
        found = json.loads(steve("report", *arguments, "--json", stdin=stdin).out)["by_offset"]
        assert found["sites"] == [] and found["other_sites"] == SITES and found["why_not"].startswith(why)
        assert f"Not shown: {why}" in steve("report", *arguments, "-o", "-", stdin=stdin).out
    # a copy of a pipe is made for --where, which can be read again
    found = json.loads(steve("report", "-", "--where", "size < 99", "--json", stdin=whole.read_bytes()).out)
    assert len(found["by_offset"]["sites"]) == 8


def test_many_fields_are_bounded(steve: Steve, trace: Callable[..., Path]) -> None:
    """Of a block with thousands of fields, a strip has at most 96 parts and a table 48 rows, which is said."""
    lines = ["stack f malloc", "thread 1", "N 65536 4000 1"]
    lines += [f"L {65536 + 2 * i} 1" for i in range(2000)]
    trace("\n".join([*lines, "end exit"]) + "\n")
    page = steve("report", "t.ljt", "-o", "-").out
    strips = page[page.index('id="offsets"') :].split("</section>")[0]
    assert 50 < strips.count("<i ") / 2 <= 96 and strips.count("<tr><td>byte ") == 48
    assert "3,952 more fields are not shown." in strips and "4,000 fields" in strips
    assert "at most 1 read, at most 0 writes, 21 bytes never accessed" in strips


@pytest.fixture(scope="module")
def structure(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a program with blocks as of a structure."""
    folder = tmp_path_factory.mktemp("structure")
    make_trace(folder / "app.ljt", history())
    assert Steve(folder)("report", "app.ljt", "-q").returncode == 0
    return folder / "app.ljt.html"


@needs_browser
@pytest.mark.parametrize("width, dark", [(1200, False), (360, True)])
def test_page(driver: Any, structure: Path, width: int, dark: bool) -> None:  # noqa: F811
    """Widths are those of the fields, texts have their numbers, what is never accessed is striped, and nothing is wider than
    the page."""
    page = Page(driver, structure)
    page.size(width, 900, dark)
    page.open("#offsets")
    assert page.driver.execute_script("return document.documentElement.scrollWidth") <= width
    text = page.find("#offsets ~ p").text
    assert "8 of 11 sites" in text and "steve fields" in text
    sites = page.all(".offsets")
    assert len(sites) == 8 and sites[0].find_element("css selector", "summary").text == "f10"
    assert "f10 (a.c:20)" in sites[0].text
    assert "Most often read: bytes 8–11, 55 times." in sites[0].text
    assert "5 blocks of at most 64 bytes, 70 accesses." in sites[0].text
    assert "Never accessed: 28 bytes (43.8%)." in sites[0].text
    reads = sites[0].find_elements("css selector", ".read i")
    first, third = reads[0], reads[2]
    assert first.get_attribute("title") == "bytes 0–7: 0 reads, 5 writes"
    assert third.get_attribute("title") == "bytes 12–15: never accessed"
    assert abs(first.rect["width"] / third.rect["width"] - 2) < 0.2
    assert "gradient" in third.value_of_css_property("background-image") and third.rect["height"] > 9
    assert not first.find_elements("css selector", "b") and reads[1].find_elements("css selector", "b")
    sites[0].find_element("css selector", ":scope > details > summary").click()
    row = sites[0].find_elements("css selector", "tbody tr")[1].text
    assert row == "bytes 8–11 4 55 0"
    assert page.driver.execute_script("return document.documentElement.scrollWidth") <= width
    page.picture(f"offsets-{width}", "#offsets")
    assert page.complaints() == []
