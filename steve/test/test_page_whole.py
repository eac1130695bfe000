"""The page of the report as a whole, in headless Chromium: what it says first, its address, keyboard, widths, printing, and
what it has of a trace that lacks something.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from browser_page import STACKS, Page, driver, history, needs_browser, page, report  # noqa: F401  (fixtures)
from conftest import Steve, make_trace
from test_windows import page_data


@pytest.fixture(scope="module")
def troubled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a program that keeps 256 bytes in every fourth round, frees a block of 24 bytes in each, and reserves
    500,000 bytes once, of which it uses 8; all is freed at the end."""
    folder = tmp_path_factory.mktemp("troubled")
    lines = [
        "stack main@app.c:1 run@app.c:5 remember@app.c:9 malloc",
        "stack main@app.c:1 run@app.c:6 brief@app.c:12 malloc",
    ]
    lines += ["stack main@app.c:1 reserve@app.c:20 malloc", "thread 1", "N 4096 500000 3", "S 4096 8"]
    kept = [10_000_000 + 256 * i for i in range(3000)]
    for i in range(12000):
        lines += [f"N {1_000_000 + i % 7 * 64} 24 2", f"S {1_000_000 + i % 7 * 64} 8"]
        lines += [f"L {1_000_000 + i % 7 * 64} 8", f"F {1_000_000 + i % 7 * 64} 2"]
        if i % 4 == 0:
            lines += [f"N {kept[i // 4]} 256 1", f"S {kept[i // 4]} 256", f"L {kept[i // 4]} 256"]
    make_trace(folder / "app.ljt", "\n".join([*lines, *(f"F {at} 1" for at in kept), "F 4096 3", "end exit"]) + "\n")
    assert Steve(folder)("report", "app.ljt", "-q").returncode == 0
    return folder / "app.ljt.html"


@needs_browser
def test_first_sentences(driver: Any, troubled: Path) -> None:  # noqa: F811
    """The page begins with what is wrong; a click on a sentence shows the blocks, and Back goes back."""
    page = Page(driver, troubled)  # noqa: F811
    page.size(1200)
    page.open()
    texts = [item.text.splitlines() for item in page.all("ol.first li")]
    assert texts[0][0].startswith("remember (app.c:9) keeps more and more: ") and "of the peak)." in texts[0][0]
    assert texts[0][1] == "remember (app.c:9) ← run (app.c:5) ← main (app.c:1)"
    assert texts[1][0].startswith("reserve (app.c:20) requests 480 KiB in 1 block that nothing ever accesses")
    assert texts[2][0].startswith("brief (app.c:12) makes 12,000 blocks with 281 KiB that live only for a moment")
    assert page.find("ol.first").rect["y"] + page.find("ol.first").rect["height"] < 500
    whole = page.total("peak.bytes")
    page.find("ol.first li:nth-child(1) a").click()
    assert page.find("#explore-metric").get_attribute("value") == "growth"
    assert page.find("#explore-filters button").text == "site: remember (app.c:9) ×"
    said = re.search(r"more: \S+ KiB in ([\d,]+) blocks were added from operation", texts[0][0])
    # a block that is made at one of the two operations counts to what was before it in the rule, and not in the window
    assert said and abs(page.total("growth.blocks") - int(said[1].replace(",", ""))) <= 1
    assert page.total("growth.bytes") == 256 * page.total("growth.blocks")
    assert 0.8 * 256 * 3000 < page.total("growth.bytes") <= 256 * 3000
    assert page.driver.execute_script("return document.getElementById('explore').getBoundingClientRect().top") < 5
    page.driver.back()
    assert page.total("peak.bytes") == whole and not page.all("#explore-filters button")
    page.find("ol.first li:nth-child(3) a").click()
    assert (
        page.total("allocated.bytes") == 12000 * 24
        and page.find("#explore-metric").get_attribute("value") == "allocated"
    )
    page.open()
    page.find("#findings ~ .scroll a.show").click()
    assert "site=" in page.driver.current_url and "metric=growth" in page.driver.current_url
    assert (
        "Nothing was found: " in page.find("#without-sites").text
        and "Resized again and again" in page.find("#without-sites").text
    )
    assert page.complaints() == []


@needs_browser
def test_first_sentence_without_findings(driver: Any, tmp_path: Path) -> None:  # noqa: F811
    """If nothing is wrong, the first sentence says what the peak consists of."""
    lines = ["stack main@a.c:1 big@a.c:2 malloc", "stack main@a.c:1 small@a.c:3 malloc", "thread 1"]
    for i, (stack, size) in enumerate(((1, 3000), (2, 1000))):
        lines += [f"N {4096 * (i + 1)} {size} {stack}", f"S {4096 * (i + 1)} {size}"]
    lines += [f"L {4096 * (1 + i % 2)} 1000" for i in range(2000)] + ["F 4096 1", "F 8192 2", "end exit"]
    make_trace(tmp_path / "good.ljt", "\n".join(lines) + "\n")
    assert Steve(tmp_path)("report", "good.ljt", "-q").returncode == 0
    page = Page(driver, tmp_path / "good.ljt.html").open()  # noqa: F811
    assert [item.text for item in page.all("ol.first li a")] == [
        "big (a.c:2) has 2.93 KiB of the 3.91 KiB that are live at the peak (75%), more than any other site."
    ]
    page.find("ol.first li a").click()
    assert page.total("peak.bytes") == 3000


@needs_browser
def test_growth_between_marks(driver: Any, tmp_path: Path) -> None:  # noqa: F811
    """As in the tutorial: the first sentence names what is kept between marks; dragging from one to the other shows the same,
    and so does a click on the first one."""
    from selenium.webdriver.common.action_chains import ActionChains

    lines = [*(f"stack {stack}" for stack in STACKS), "thread 1"]
    for i in range(1024):
        lines += [f"mark {name}" for at, name in ((512, "half"), (1016, "end")) if i == at]
        lines += [f"N {4096 * (2 * i + 1)} 100 1", f"N {4096 * (2 * i + 2)} 300 2", f"F {4096 * (2 * i + 2)} 2"]
        lines += ["L 4096 1"]
    lines += [f"F {4096 * (2 * i + 1)} 1" for i in range(1024)]
    make_trace(tmp_path / "t.ljt", "\n".join([*lines, "end exit"]) + "\n")
    steve = Steve(tmp_path)
    assert steve("report", "t.ljt", "-q").returncode == 0
    leaks = json.loads(steve("leaks", "t.ljt", "--from", "half", "--to", "end", "--by", "line", "--json").out)
    page = Page(driver, tmp_path / "t.ljt.html")  # noqa: F811
    page.size(1200)
    page.open()
    first = page.find("ol.first li a")
    assert first.text.startswith(
        "grow (buf.c:7) made 49.2 KiB in 504 blocks between the marks half and end that live at the "
    )
    assert "504" in json.dumps(leaks) and "50400" in json.dumps(leaks)
    first.click()
    assert page.total("growth.bytes") == 504 * 100
    assert page.find("#explore-filters button").text == "line: grow (buf.c:7) itself ×"
    page.driver.back()
    half, end = (float(mark.get_attribute("x1")) for mark in page.all("#explore-timeline .x-mark"))
    svg = page.find("#explore-timeline")
    ActionChains(page.driver).move_to_element_with_offset(
        svg, round(half - svg.size["width"] / 2), -20
    ).click_and_hold().move_by_offset(round(end - half), 0).release().perform()
    page.choose("metric", "growth")
    page.find("#explore-tab-line").click()
    assert max(page.rows(), key=lambda line: page.rows()[line]) == "grow (buf.c:7)"
    dragged = page.rows()["grow (buf.c:7)"]
    step = int(page.find("#explore-window").text.split("steps of ")[1].split(".")[0])
    assert abs(dragged - 504 * 100) <= 100 * 2 * step
    page.find("#explore-reset").click()
    page.all("#explore-timeline .x-label")[0].click()
    assert page.total("growth.bytes") == 504 * 100
    assert page.complaints() == []


@needs_browser
def test_keyboard(page: Page) -> None:  # noqa: F811
    from selenium.webdriver.common.keys import Keys

    body = page.find("body")
    body.send_keys("4")
    assert page.find("#explore-tab-function").get_attribute("aria-selected") == "true"
    body.send_keys("1")
    body.send_keys("m")
    assert page.find("#explore-metric").get_attribute("value") == "live"
    canvas = page.find("#explore-canvas")
    canvas.send_keys(Keys.ARROW_DOWN)
    first = page.find("#explore-about").text
    assert first.startswith("main (app.c:1")
    canvas.send_keys(Keys.ARROW_RIGHT)
    assert page.find("#explore-about").text != first
    canvas.send_keys(Keys.ENTER)
    assert "zoom=" in page.driver.current_url
    page.picture("zoomed")
    canvas.send_keys(Keys.BACKSPACE)
    assert "zoom=" not in page.driver.current_url
    body.send_keys("i")
    assert page.find("#explore-inverted").is_selected()
    page.picture("inverted")
    page.find("#explore-from").send_keys(Keys.ARROW_RIGHT)
    assert "from=" in page.driver.current_url
    body.send_keys("0")
    assert "from=" not in page.driver.current_url
    body.send_keys("2")
    row = page.find("#explore-tree [role=treeitem]")
    row.send_keys(Keys.ARROW_LEFT)
    assert page.find("#explore-tree [role=treeitem]").get_attribute("aria-expanded") == "false"
    body.send_keys("/")
    assert page.driver.switch_to.active_element.get_attribute("id") == "explore-search"


@needs_browser
def test_source(page: Page, report: tuple[Steve, Path]) -> None:  # noqa: F811
    """The lines of a file that ran have the numbers of `steve lines`; another version of a file is not shown."""
    lines = json.loads(report[0]("lines", "app.ljt", "--json").out)
    made = {row["line"]: row for row in lines if row["file"] == "@app.lua" and row["alloc_bytes"]}
    page.find("#explore-tab-source").click()
    assert page.find("#explore-file").get_attribute("value") == "app.lua"
    rows = {int(row.get_attribute("data-line")): row for row in page.all("#explore-code tr[data-line]")}
    assert rows[9].text.endswith("-- line 9 of </script>") and len(rows) == 12
    found = {}
    for number, row in rows.items():
        cells = [cell.get_attribute("data-v") for cell in row.find_elements("css selector", "td")]
        if cells[1]:
            found[number] = [int(cells[i] or 0) for i in (0, 1, 3, 4)]
    keys = ("allocs", "alloc_bytes", "live_bytes_at_peak", "live_bytes_at_end")
    assert found == {number: [row[key] for key in keys] for number, row in made.items()}
    heads = [head.text for head in page.all("#explore-code thead th")]
    for head, key in (("reads", "bytes_read"), ("writes", "bytes_written")):
        at = heads.index(head)
        done = {
            number: int(row.find_elements("css selector", "td")[at].get_attribute("data-v") or 0)
            for number, row in rows.items()
        }
        of_lines = {row["line"]: row[key] for row in lines if row["file"] == "@app.lua"}
        assert any(done.values()) and done == {number: of_lines.get(number, 0) for number in rows}
    for name, why in (("buf.c", "was changed after"), ("ui.c", "was not found")):
        page.choose("file", name)
        assert why in page.find("#explore-missing").text and page.all("#explore-code tr") == []


@needs_browser
def test_garbage_collection_and_clock(page: Page, report: tuple[Steve, Path]) -> None:  # noqa: F811
    """The strip of the timeline is what `steve states` says of the state GC; the third axis is the wall clock."""
    states = {row["state"]: row for row in json.loads(report[0]("states", "app.ljt", "--json").out)}
    shown = page.find("#explore-collected")
    assert int(shown.get_attribute("data-v")) == states["GC"]["instructions"] > 0
    share = 100 * states["GC"]["instructions"] / sum(row["instructions"] for row in states.values())
    assert shown.text == f"Garbage collection: {share:.1f}% of the instructions."
    assert len(page.all("#explore-timeline rect.x-gc")) > 9
    parts = []
    for window in ("to=640", "from=640&to=1280", "from=1280"):
        page.open(f"#explore:{window}")
        parts.append(int(page.find("#explore-collected").get_attribute("data-v")))
    assert sum(parts) == states["GC"]["instructions"] and all(parts)
    page.open()
    head, _ = page_data(report[1].read_text())
    operations, nanoseconds = head["clock"]
    assert operations[-1] == head["operations"] and nanoseconds == sorted(nanoseconds) and nanoseconds[-1] > 0
    page.choose("axis", "clock")
    assert "wall clock" in page.find("#explore-timeline").text and "axis=clock" in page.driver.current_url
    page.picture("clock")


def test_without_source(report: tuple[Steve, Path]) -> None:  # noqa: F811
    """--no-source leaves the texts out. Files that were changed since are left out, too, which is said."""
    done = report[0]("report", "app.ljt", "-o", "-", "--no-source")
    assert page_data(done.out)[0]["sources"] == [] and done.err == ""
    done = report[0]("report", "app.ljt", "-o", "-")
    assert "without the text of files that were changed after the program was built or started: buf.c\n" in done.err


@needs_browser
def test_a_trace_without_accesses(driver: Any, tmp_path: Path) -> None:  # noqa: F811
    """Reads and writes are not recorded, which is not the same as 0; and nothing is called never read."""
    lines = [line for line in history(3).splitlines() if line[:2] not in ("L ", "S ", "M ")]
    make_trace(tmp_path / "t.ljt", "\n".join(lines) + "\n")
    done = Steve(tmp_path)("report", "t.ljt", "-q")
    assert done.returncode == 0, done.err
    page = Page(driver, tmp_path / "t.ljt.html").open()  # noqa: F811
    texts = [total.text.split("\n") for total in page.all("#explore-totals .x-total")]
    assert texts[5:] == [["read", "–", "not recorded"], ["written", "–", "not recorded"]]
    disabled = [o.get_attribute("value") for o in page.all("#explore-metric option") if not o.is_enabled()]
    assert disabled == ["reads", "writes"]
    head, _ = page_data((tmp_path / "t.ljt.html").read_text())
    assert not any(head["nodes"]["unread"]) and not head["accesses"]
    assert page.complaints() == []


def test_times_of_other_recorders(tmp_path: Path) -> None:
    """The page knows what the times of the trace count."""
    for facts, unit in (("", "instructions"), ("info time_unit nanoseconds\n", "nanoseconds")):
        make_trace(tmp_path / "t.ljt", facts + history(1))
        head, _ = page_data(Steve(tmp_path)("report", "t.ljt", "-o", "-").out)
        assert head["timeUnit"] == unit


@needs_browser
def test_address(page: Page) -> None:  # noqa: F811
    """The address restores the view."""
    page.choose("metric", "growth")
    page.choose("unit", "blocks")
    page.find("#explore-tab-kind").click()
    page.find("#explore-table tr[data-row] button").click()
    page.find("#explore-from").send_keys("\ue014\ue014\ue014")
    before = page.total("growth.blocks"), page.rows(), page.find("#explore-window").text
    fragment = "#" + page.driver.current_url.split("#")[1]
    page.open(fragment)
    assert (page.total("growth.blocks"), page.rows(), page.find("#explore-window").text) == before
    assert page.find("#explore-metric").get_attribute("value") == "growth"
    assert len(page.all("#explore-filters button")) == 1


@needs_browser
@pytest.mark.parametrize("width, dark", [(360, False), (1200, True), (360, True)])
def test_sizes(page: Page, width: int, dark: bool) -> None:  # noqa: F811
    """Nothing is wider than the page, whatever its width; dark colours are dark."""
    page.size(width, 900, dark)
    for view in ("flame", "tree", "source", "function"):
        page.open(f"#explore:view={view}&unit=bytes")
        page.find(f"#explore-tab-{view}").click()
        wide = page.driver.execute_script("return document.documentElement.scrollWidth")
        assert wide <= width
        page.picture(f"{view}-{width}{'-dark' if dark else ''}")
    colour = page.driver.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert (colour == "rgb(20, 23, 27)") == dark


@needs_browser
@pytest.mark.parametrize("width, height", [(360, 640), (1200, 700), (1200, 1000)])
def test_nothing_covers_the_focus(page: Page, width: int, height: int) -> None:  # noqa: F811
    """What gets the focus is not below the part of the page that stays in view, wherever one comes from."""
    page.size(width, height)
    for view in ("flame", "function", "callers"):
        page.open(f"#explore:view={view}")
        covered = page.driver.execute_script(
            """
            const found = [], all = [...document.querySelectorAll(
                "#explore :is(button, select, input, canvas, [tabindex='0'])")]
                .filter(each => each.checkVisibility() && !each.disabled);
            for (const each of [...all].reverse()) {
                scrollTo(0, each.getBoundingClientRect().top + scrollY + 300);
                each.focus();
                const { left, top, width, height } = each.getBoundingClientRect();
                const at = document.elementFromPoint(left + width / 2, top + Math.min(height, 20) / 2);
                if (at !== each && !each.contains(at) && !at?.contains(each)) found.push(each.id || each.textContent);
            }
            return found;"""
        )
        assert covered == []


@needs_browser
def test_printing(page: Page) -> None:  # noqa: F811
    """In print there are no controls, and the whole page is printed."""
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    assert not page.find("#explore-metric").is_displayed() and page.find("#explore-totals").is_displayed()
    assert page.find("#explore-flame .x-key").is_displayed() and page.find("#explore-canvas").is_displayed()
    style = "return getComputedStyle(document.querySelector(arguments[0]))[arguments[1]]"
    for place in ("#explore-flame .x-key i", ".tile", "ol.first li"):
        assert page.driver.execute_script(style, place, "printColorAdjust") == "exact"
    assert page.driver.execute_script(style, "ol.first a", "textDecorationLine") == "underline"
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
