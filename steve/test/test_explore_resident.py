"""What was resident over the run, above the timeline of the report: its numbers are those of `steve resident`.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from browser_page import Page, driver, needs_browser  # noqa: F401  (fixtures)
from conftest import Steve, make_trace
from steve.terminal.units import human_bytes

PAGE, HEAP, OWN = 4096, 0x500000, 0x7F3000000000
BLOCKS = 40


def script(looks: int) -> str:
    """Blocks of two pages, one each 100 ns; a look after each few of them, at which all their pages are resident, and a
    mapping of the program that grows. The last look is long after the last block."""
    lines = ["info recorder native", "stack main@app.c:1 keep@app.c:5", "stack main@app.c:2 load@app.c:14 mmap"]
    texts, every = [], BLOCKS // (looks - 1)
    for i in range(BLOCKS):
        if i % every == 0 and i // every < looks - 1:
            texts += look(i * 100, "mark loaded" if i // every == 1 else "growth -", 2 * i, i)
        lines += [f"time {i * 100 + 50}"] + (["mark loaded"] if i == every else [])
        lines.append(f"N {HEAP + 2 * i * PAGE} {2 * PAGE} 1")
    return "\n".join([*lines, *texts, *look(8000, "end -", 2 * BLOCKS, 15), "end exit"]) + "\n"


def look(time: int, why: str, blocks: int, own: int) -> list[str]:
    return [
        f"pages {time} {why} 1 0 2 1",
        f"mapping {HEAP} {100 * PAGE} 3 {(blocks + 1) * PAGE} [heap] {runs(blocks + 1)}",
        f"mapping {OWN} {100 * PAGE} 3 {own * PAGE} - {runs(own)}",
        f"region {OWN} {100 * PAGE} 2",
    ]


def runs(resident: int) -> str:
    """Of 100 pages, the first ones are resident."""
    return " ".join(f"{n}:{state}" for n, state in ((resident, 9), (100 - resident, 0)) if n)


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> Steve:
    folder = tmp_path_factory.mktemp("resident")
    steve = Steve(folder)
    make_trace(folder / "t.ljt", script(5))
    assert steve("report", "t.ljt", "-q").returncode == 0
    return steve


@pytest.fixture
def page(reported: Steve, driver: Any) -> Iterator[Page]:  # noqa: F811
    found = Page(driver, reported.folder / "t.ljt.html")
    found.size(1200)
    yield found.open()


def owners(page: Page) -> dict[str, int]:
    return {
        cell.get_attribute("data-owner"): int(cell.find_element("css selector", "dd").get_attribute("data-v"))
        for cell in page.all("#explore-owners [data-owner]")
    }


def resident(steve: Steve, number: int) -> dict[str, int]:
    rows = json.loads(steve("resident", "t.ljt", "--json", "--at", str(number)).out)["rows"]
    return {row["kind"]: row["bytes"] for row in rows if row["bytes"]}


def test_numbers(reported: Steve) -> None:
    """Those of `report --json` are those of `steve resident`, at each look."""
    found = json.loads(reported("report", "t.ljt", "--json", "-q").out)["resident"]
    looks = json.loads(reported("resident", "t.ljt", "--by", "look", "--json").out)["rows"]
    assert found["looks"] == 5 and found["number"] == [1, 2, 3, 4, 5] and found["why"][1] == "mark loaded"
    assert found["resident"] == [look["rss"] for look in looks]
    assert found["time"] == [round(look["seconds"] * 1e9) for look in looks]
    for i, number in enumerate(found["number"]):
        here = {kind: part[i] for kind, part in zip(found["kinds"], found["parts"]) if part[i]}
        assert here == resident(reported, number) and sum(here.values()) == found["resident"][i]


def test_header(reported: Steve) -> None:
    """The most resident bytes and whose most of them were; not if the owners are not known."""
    html = reported("report", "t.ljt", "-o", "-", "-q").out
    found = json.loads(reported("report", "t.ljt", "--json", "-q").out)["resident"]
    most = max(found["resident"])
    at = found["resident"].index(most)
    size, title = max((part[at], title) for part, title in zip(found["parts"], found["titles"]))
    highest = json.loads(reported("summary", "t.ljt", "--json", "-q").out)["resident"]
    assert f'title="{highest:,} bytes"' in html and highest >= most
    assert f"{human_bytes(most)} at look {found['number'][at]}: {human_bytes(size)} {title}" in html
    assert "also between looks" not in reported("report", "t.ljt", "-o", "-", "-q", "--where", "size > 1").out


def cells(html: str, table: str) -> list[list[str]]:
    """The rows of a table of the page: the text of the first cell, and the exact numbers of the others."""
    body = html.partition(f'<table id="{table}">')[2].partition("</table>")[0].partition("<tbody>")[2]
    rows = re.findall(r"<tr[^>]*>(.*?)</tr>", body, re.S)
    return [[re.findall(r"<td>(.*?)</td>", row)[0], *re.findall(r'data-v="([^"]*)"', row)] for row in rows]


def test_sites_with_the_same_frame_have_their_callers(tmp_path: Path) -> None:
    text = script(5).replace("keep@app.c:5\n", "keep@app.c:5\nstack main@app.c:1 other@app.c:9 keep@app.c:5\n", 1)
    make_trace(tmp_path / "t.ljt", text.replace(f" {2 * PAGE} 1\n", f" {2 * PAGE} 2\n", BLOCKS // 2))
    html = Steve(tmp_path)("report", "t.ljt", "-o", "-", "-q").out
    names = {row[0] for row in cells(html, "resident-sites")}
    assert {"keep (app.c:5) &lt; main", "keep (app.c:5) &lt; other"} <= names


def test_tables(reported: Steve) -> None:
    """The page has the rows of `steve resident` at the look with the most, by kind and by site, and what is said of them."""
    html = reported("report", "t.ljt", "-o", "-", "-q").out
    by_kind = json.loads(reported("resident", "t.ljt", "--json").out)["rows"]
    assert [row[:2] for row in cells(html, "resident-kinds")] == [[row["what"], str(row["bytes"])] for row in by_kind]
    by_site = json.loads(reported("resident", "t.ljt", "--json", "--by", "site").out)["rows"]
    assert sorted(row[1:] for row in cells(html, "resident-sites")) == sorted(
        [str(row[key]) for key in ("bytes", "live", "overhead", "pinned", "mapped", "blocks")] for row in by_site
    )
    assert {row[0] for row in cells(html, "resident-sites")} == {"keep (app.c:5)", "load (app.c:14)"}
    assert (
        "Shared pages divided (PSS)" in html and "Free, kept by the allocator" in html.partition("Nothing was found")[2]
    )
    of_some = reported("report", "t.ljt", "-o", "-", "-q", "--where", "size > 1").out
    assert 'id="resident"' not in of_some


def test_free_memory_at_the_maximum_and_at_the_end(steve: Steve) -> None:
    """The first sentence has both numbers; the finding is about the last look."""
    n, texts = 1000, ["info recorder native", "stack main@app.c:1 keep@app.c:5"]
    for when, free in ((100, 900), (900, 400)):
        texts += [
            f"pages {when} time - 1 0 1 0",
            f"mapping {HEAP} {n * PAGE} 3 {(free + 1) * PAGE} [heap] {f'{free + 1}:9 {n - free - 1}:0'}",
        ]
    texts[2:2] = ["time 50", f"N {HEAP} {PAGE} 1"]
    make_trace(steve.folder / "f.ljt", "\n".join([*texts, "end exit"]) + "\n")
    html = steve("report", "f.ljt", "-o", "-", "-q").out
    assert (
        "3.52 MiB of the 3.52 MiB that are resident (100%) at the maximum are free memory that the allocator keeps"
        in html
    )
    assert (
        "up to 3.52 MiB of it, in whole pages, can be returned to the system. At the last look it was 1.56 MiB" in html
    )
    assert "Free, kept by the allocator: 1.56 MiB of the 1.57 MiB that are resident at the last look" in html
    assert 'class="show" href="#resident"' in html and 'id="resident"' in html


def test_not_without_looks_or_of_some_blocks(reported: Steve) -> None:
    make_trace(reported.folder / "without.ljt", "stack main@app.c:1\nN 4096 10 1\nend exit\n")
    assert "resident" not in json.loads(reported("report", "without.ljt", "--json", "-q").out)
    found = json.loads(reported("report", "t.ljt", "--json", "-q", "--where", "size > 1").out)["resident"]
    assert found["number"] == [] and "--where" in found["why_not"]
    (reported.folder / "in").write_bytes((reported.folder / "t.ljt").read_bytes())
    piped = reported("report", "-", "--json", "-q", stdin=(reported.folder / "t.ljt").read_bytes())
    assert "pipe" in json.loads(piped.out)["resident"]["why_not"]


def test_most_looks_are_left_out_if_there_are_many(reported: Steve) -> None:
    """The first, the last and the largest are there."""
    texts = [line for i in range(300) for line in look(i, "time -", 0, 90 if i == 77 else i % 50)]
    make_trace(
        reported.folder / "many.ljt", "\n".join(["info recorder native", "stack a@a.c:1 mmap", *texts, "end exit"])
    )
    found = json.loads(reported("report", "many.ljt", "--json", "-q").out)["resident"]
    assert found["looks"] == 300 and len(found["number"]) == 60
    assert {1, 78, 300} <= {*found["number"]} and max(found["resident"]) == 91 * PAGE


@needs_browser
def test_picture(reported: Steve, page: Page) -> None:
    """Bands in the order of the kinds, as many as there are; the look that the mouse is nearest to is described."""
    from selenium.webdriver.common.action_chains import ActionChains

    assert [area.get_attribute("data-area") for area in page.all("[data-area]")] == ["live", "free", "own"]
    assert page.find("#explore-look").get_attribute("data-look") == "5"
    assert owners(page) == resident(reported, 5)
    assert "5 looks only" in page.find("#explore-looks").text
    page.choose("axis", "instructions")  # which is the time here
    svg = page.find("#explore-timeline")
    left, right = 62, svg.size["width"] - 12
    for number, time in ((2, 1000), (3, 2000), (5, 7900), (1, 10)):
        x = left + (right - left) * time / 8000 - svg.size["width"] / 2
        ActionChains(page.driver).move_to_element_with_offset(svg, int(x), -60).perform()
        page.until(lambda: page.find("#explore-look").get_attribute("data-look") == str(number))
        assert {kind: size for kind, size in owners(page).items() if size} == resident(reported, number)
    page.picture("resident")
    ActionChains(page.driver).move_to_element(page.find("#explore-tabs")).perform()
    page.until(lambda: page.find("#explore-look").get_attribute("data-look") == "5")
    assert page.complaints() == []


@needs_browser
def test_the_brush_is_that_of_the_timeline(page: Page) -> None:
    """It can be drawn over the picture, and the look with the most of the window is described."""
    from selenium.webdriver.common.action_chains import ActionChains

    page.choose("axis", "instructions")
    overlay = page.find(".x-brush .overlay")
    width, height = overlay.size["width"], overlay.size["height"]
    ActionChains(page.driver).move_to_element_with_offset(
        overlay, int(-0.47 * width), int(-0.4 * height)
    ).click_and_hold().move_by_offset(int(0.2 * width), 0).release().perform()
    assert page.find(".x-brush .selection").is_displayed()
    ActionChains(page.driver).move_to_element(page.find("#explore-tabs")).perform()
    page.until(lambda: page.find("#explore-look").get_attribute("data-look") == "2")


@needs_browser
def test_narrow_dark_and_printed(page: Page) -> None:
    for width in (360, 1200):
        page.size(width, dark=True)
        script = "return document.documentElement.scrollWidth <= document.documentElement.clientWidth"
        assert page.driver.execute_script(script)
        assert all(cell.is_displayed() for cell in page.all("#explore-owners dd"))
        page.picture(f"resident-{width}")
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    seen = "return ['[data-area=live]', '#explore-owners'].every(name => document.querySelector(name).getClientRects().length)"
    assert page.driver.execute_script(seen)
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


@needs_browser
def test_address_space(reported: Steve, page: Page) -> None:
    """One picture is shown, that of the button that was clicked last; each has its natural shape."""

    def shown() -> list[str]:
        return [each.get_attribute("alt") for each in page.all("img.addresses") if each.is_displayed()]

    assert page.find("#addresses").text == "Address space"
    assert shown() == ["The address space by owner"]
    for name in ("site", "age", "size", "owner"):
        button = page.find(f"label[for=addresses-{name}]")
        page.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", button)
        button.click()
        assert shown() == [f"The address space by {name}"]
        (image,) = (each for each in page.all("img.addresses") if each.is_displayed())
        assert page.driver.execute_script("return arguments[0].naturalWidth", image) > 900
    page.picture("addresses", "#addresses")
    assert page.complaints() == []


def test_address_space_only_with_looks(reported: Steve) -> None:
    make_trace(reported.folder / "few.ljt", "stack main@app.c:1\nN 4096 10 1\nend exit\n")
    for trace, pictures in (("t.ljt", 4), ("few.ljt", 0)):
        assert reported("report", trace, "-q", "-f", "-o", "page.html").returncode == 0
        assert (reported.folder / "page.html").read_text().count('<img class="addresses"') == pictures
