"""The explorable part of the report: units of its script by node, and its views, windows and axes in headless Chromium.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from browser_page import WIDTH, Page, driver, needs_browser, page, report  # noqa: F401  (fixtures)
from conftest import Steve, make_trace
from steve.terminal.units import human_bytes


@pytest.mark.skipif(shutil.which("node") is None, reason="node is missing")
def test_units(tmp_path: Path) -> None:
    """steve/test/page_units.ts, by `node --test`."""
    bundle = tmp_path / "units.mjs"
    subprocess.run(
        [
            "esbuild",
            "--bundle",
            "--platform=node",
            "--format=esm",
            "--log-level=warning",
            f"--outfile={bundle}",
            str(Path(__file__).parent / "page_units.ts"),
        ],
        check=True,
    )
    found = subprocess.run(["node", "--test", str(bundle)], capture_output=True, text=True)
    assert found.returncode == 0, found.stdout + found.stderr


@needs_browser
def test_a_click_on_a_total_shows_it(page: Page) -> None:  # noqa: F811
    """In the control, in the views and in the address; of what was not recorded there is nothing to click on."""
    for metric in ("freed", "reads", "peak"):
        page.find(f"[data-total='{metric}.bytes']").click()
        assert page.find("#explore-metric").get_attribute("value") == metric
        assert page.find(".x-chosen [data-total]").get_attribute("data-total") == f"{metric}.bytes"
    page.find("[data-total='freed.blocks']").click()
    assert "metric=freed" in page.driver.current_url
    assert page.complaints() == []


@needs_browser
def test_a_sentence_shows_its_site(tmp_path: Path, driver: Any) -> None:  # noqa: F811
    """A click on a sentence about growth shows the same bytes and blocks, without those of what the line calls; the
    source is at the line of the site."""
    steve = Steve(tmp_path)
    lines = [
        "info start_unix_seconds 1000",
        "stack main@app.c:3 keep@store.c:40",
        "stack main@app.c:3 keep@store.c:40 name@app.c:9",
        "thread 1",
    ]
    for i in range(2000):
        lines += [f"N {0x100000 + 256 * i} 200 1", f"N {0x900000 + 64 * i} 30 2", f"F {0x900000 + 64 * i} 2"]
    lines += [f"F {0x100000 + 256 * i} 1" for i in range(2000)]
    make_trace(tmp_path / "app.ljt", "\n".join([*lines, "end exit"]) + "\n")
    for name in ("app.c", "store.c"):
        (tmp_path / name).write_text("".join(f"line {i} of {name}\n" for i in range(1, 200)))
        os.utime(tmp_path / name, (1, 1))
    assert steve("report", "app.ljt", "-q").returncode == 0
    found = Page(driver, tmp_path / "app.ljt.html")
    found.size(1200)
    found.open()
    (link,) = (a for a in found.all("ol.first a") if "keeps more and more" in a.text)
    size, blocks = re.search(r"more: ([\d.]+ .iB) in ([\d,]+) blocks were added from operation", link.text).groups()
    link.click()
    assert found.find("#explore-filters button").text == "site: keep (store.c:40) ×"
    assert found.total("growth.blocks") == int(blocks.replace(",", ""))
    assert human_bytes(found.total("growth.bytes")) == size == human_bytes(200 * found.total("growth.blocks"))
    address = driver.current_url.partition("#")[2]
    assert re.search("&site=[0-9]+$", address) and "metric=growth" in address
    found.find("#explore-tab-source").click()
    assert found.find("#explore-file").get_attribute("value").endswith("store.c")
    row, region = found.find("tr[data-line='40']"), found.find("#explore-code")
    assert row.find_element("css selector", "td.n").get_attribute("data-v") == blocks.replace(",", "")
    inside = "const r = arguments[0].getBoundingClientRect(), b = arguments[1].parentElement.getBoundingClientRect();"
    assert driver.execute_script(f"{inside} return r.top >= b.top && r.bottom <= b.bottom", row, region)
    found.open(f"#{address}")
    assert found.find("#explore-filters button").text == "site: keep (store.c:40) ×"
    found.picture("site")
    assert found.complaints() == []


@needs_browser
def test_every_view(page: Page) -> None:  # noqa: F811
    parts = ("flame", "tree", "source", "rows")
    for view in (*parts[:3], "function", "line", "file", "object", "kind", "heap", "thread"):
        page.find(f"#explore-tab-{view}").click()
        shown = [part for part in parts if page.find(f"#explore-{part}").is_displayed()]
        assert shown == [view if view in parts else "rows"]
        page.picture(view)
    assert page.complaints() == []


@needs_browser
@pytest.mark.parametrize("seed", range(3))
def test_windows(report: tuple[Steve, Path], page: Page, seed: int) -> None:  # noqa: F811
    """The numbers of a window are those of summary, sites and lines between the marks."""
    choose, steve = random.Random(seed), report[0]
    first, last = sorted(choose.sample(range(41), 2))
    between = ("app.ljt", "--from", f"m{first}", "--to", f"m{last}", "--json") if last < 41 else ()
    page.open(f"#explore:from={first * WIDTH}&to={last * WIDTH}&scope=made")
    summary = json.loads(steve("summary", *between).out)
    sites = json.loads(steve("sites", *between, "--by", "function").out)
    sites = {row["site"]: row for row in (sites["rows"] if isinstance(sites, dict) else sites)}
    events, amounts = summary["events"], summary["bytes"]
    assert page.total("allocated.bytes") == amounts["allocated"]
    assert page.total("allocated.blocks") == events["new"]
    assert page.total("freed.bytes") == amounts["freed"] and page.total("freed.blocks") == events["free"]
    assert page.total("live.bytes") == page.total("growth.bytes") == amounts["live_at_end"]
    assert page.total("reads.bytes") == amounts["read"] and page.total("writes.bytes") == amounts["written"]
    assert page.total("reads.blocks") == events["load"] + events["modify"]
    page.find("#explore-tab-function").click()
    for metric, key in (
        ("allocated", "bytes"),
        ("growth", "live_bytes_at_end"),
        ("reads", "bytes_read"),
        ("writes", "bytes_written"),
    ):
        page.choose("metric", metric)
        assert {k: v for k, v in page.rows().items() if v} == {k: row[key] for k, row in sites.items() if row[key]}
    page.find("#explore-tab-line").click()
    lines = json.loads(steve("lines", *between).out)
    lines = {
        f"{row['function']} ({os.path.basename(row['file']).lstrip('@')}:{row['line']})": row["alloc_bytes"]
        for row in (lines["rows"] if isinstance(lines, dict) else lines)
    }
    page.choose("metric", "allocated")
    assert {k: v for k, v in page.rows().items() if v} == {k: v for k, v in lines.items() if v}


@needs_browser
def test_brush(page: Page) -> None:  # noqa: F811
    """Dragging over the timeline chooses a window, and a click chooses the whole run again."""
    from selenium.webdriver.common.action_chains import ActionChains

    whole = page.total("allocated.bytes")
    svg = page.find("#explore-timeline")
    middle = svg.size["width"] // 2
    page.find("#explore-reset")
    assert not page.find(".x-brush .selection").is_displayed()  # so that a drag anywhere makes a window
    ActionChains(page.driver).move_to_element_with_offset(
        page.find(".x-brush .overlay"), -middle // 2, 0
    ).click_and_hold().move_by_offset(middle // 2, 0).release().perform()
    assert 0 < page.total("allocated.bytes") < whole
    assert "from=" in page.driver.current_url and page.find(".x-brush .selection").is_displayed()
    inner = page.total("allocated.bytes")
    ActionChains(page.driver).move_to_element_with_offset(
        page.find(".x-brush .handle--w"), 0, 0
    ).click_and_hold().move_by_offset(middle // 4, 0).release().perform()
    assert 0 < page.total("allocated.bytes") < inner
    for expected in (inner, whole):
        page.driver.back()
        assert page.total("allocated.bytes") == expected
    page.driver.forward()
    assert page.total("allocated.bytes") == inner
    assert float(page.driver.execute_script("return document.documentElement.dataset.exploreMs")) > 0  # of the update
    page.picture("brushed")
    page.find("#explore-reset").click()
    assert page.total("allocated.bytes") == whole


@needs_browser
def test_axis_is_zoomed(page: Page) -> None:  # noqa: F811
    """The wheel with Ctrl zooms the axis, with Shift it moves it, and so do buttons and keys; the numbers stay, Back undoes."""
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.actions.wheel_input import ScrollOrigin
    from selenium.webdriver.common.keys import Keys

    def labels() -> list[str]:
        script = "return [...document.querySelectorAll('#explore-timeline > text')].map(text => text.textContent)"
        return page.driver.execute_script(script)[4:-1]  # at once: the timeline is drawn anew

    whole, before = page.total("peak.bytes"), labels()
    page.driver.execute_script("document.querySelector('#explore').scrollIntoView()")
    origin = ScrollOrigin.from_element(page.find("#explore-timeline"))
    for _ in range(3):
        ActionChains(page.driver).key_down(Keys.CONTROL).scroll_from_origin(origin, 0, -100).key_up(
            Keys.CONTROL
        ).perform()
    shown = page.driver.current_url.partition("axis-of=")[2].split("-")
    assert 0 < int(shown[0]) < int(shown[1]) < 40 * WIDTH and labels() != before
    assert page.total("peak.bytes") == whole
    ActionChains(page.driver).key_down(Keys.SHIFT).scroll_from_origin(origin, 0, 100).key_up(Keys.SHIFT).perform()
    page.until(lambda: int(page.driver.current_url.partition("axis-of=")[2].split("-")[0]) > int(shown[0]))
    page.picture("zoomed-axis")
    ActionChains(page.driver).move_to_element(page.find(".x-brush .overlay")).click_and_hold().move_by_offset(
        100, 0
    ).release().perform()
    assert 0 < page.total("allocated.bytes") and "from=" in page.driver.current_url
    first = int(page.driver.current_url.partition("from=")[2].partition("&")[0])
    assert int(shown[0]) < first < int(shown[1])
    page.driver.back()
    assert "from=" not in page.driver.current_url and "axis-of=" in page.driver.current_url
    page.driver.back()
    assert "axis-of=" not in page.driver.current_url and labels() == before
    page.find("#explore-zoom-in").click()
    page.find("#explore-zoom-in").click()
    zoomed = page.driver.current_url
    assert "axis-of=" in zoomed
    page.find("#explore-zoom-right").click()
    assert page.driver.current_url != zoomed
    page.find("#explore-zoom-left").click()
    assert page.driver.current_url == zoomed
    page.find("#explore-zoom-out").click()
    page.find("#explore-zoom-out").click()
    assert "axis-of=" not in page.driver.current_url
    page.find("body").send_keys("+")
    assert "axis-of=" in page.driver.current_url
    page.find("body").send_keys("-")
    page.open(f"#explore:from={10 * WIDTH}&to={20 * WIDTH}")
    page.find("body").send_keys("z")
    assert page.driver.current_url.endswith(f"axis-of={5 * WIDTH}-{25 * WIDTH}")
    page.find("#explore-zoom-fit").click()
    assert "axis-of=" not in page.driver.current_url
    assert page.complaints() == []


@needs_browser
def test_marks(page: Page) -> None:  # noqa: F811
    """A click on a mark chooses the window from there to the next one, also if its name has no room."""
    names = [label.text for label in page.all("#explore-timeline .x-label")]
    assert 3 < len(names) < 41 == len(page.all("#explore-timeline .x-flag"))
    page.find(f"#explore-timeline .x-flag[data-mark={names[1]}]").click()
    at = int(names[1][1:])
    assert page.driver.current_url.endswith(f"#explore:from={at * WIDTH}&to={(at + 1) * WIDTH}")
    text = page.find("#explore-window").text
    assert text.startswith(f"Operations {at * WIDTH:,} to {(at + 1) * WIDTH:,} of 2,560, ") and "s; steps of " in text
    page.driver.back()
    page.all("#explore-timeline .x-label")[2].click()
    assert f"from={int(names[2][1:]) * WIDTH}&" in page.driver.current_url
    page.driver.back()
    assert "from=" not in page.driver.current_url
    steps = [
        ("n", 0),
        ("n", WIDTH),
        ("n", 2 * WIDTH),
        ("N", WIDTH),
        ("0", 0),
        ("N", 40 * WIDTH - 16),
        ("N", 39 * WIDTH),
    ]
    for key, first in steps:  # the last mark is at the end of the run, and chooses the last step
        page.find("body").send_keys(key)
        begin = page.driver.current_url.partition("from=")[2].partition("&")[0]
        assert int(begin or 0) == first


@needs_browser
def test_pointer(page: Page) -> None:  # noqa: F811
    """What the mouse points at in the timeline is read out."""
    from selenium.webdriver.common.action_chains import ActionChains

    text, line = page.find("#explore-pointer"), page.find("#explore-timeline .x-pointer")
    assert text.text == ""
    ActionChains(page.driver).move_to_element(page.find(".x-brush .overlay")).perform()
    found = text.text
    assert found.startswith("operation 1,2") and " instructions, wall clock " in found and " live in " in found
    assert line.get_attribute("visibility") == "visible"
    ActionChains(page.driver).move_to_element(page.find("h1")).perform()
    assert text.text == "" and line.get_attribute("visibility") == "hidden"
