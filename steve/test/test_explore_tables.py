"""The tables and trees of the explorable part of the report, in headless Chromium: rows, sums, searches, filters.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from browser_page import STACKS, WIDTH, Page, driver, needs_browser, page, report  # noqa: F401  (fixtures)
from conftest import Steve, make_trace


@needs_browser
def test_callers_and_callees(page: Page) -> None:  # noqa: F811
    """The stacks with a function, its callers above and what it calls below; by mouse and keyboard."""
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    page.find("#explore-tab-function").click()
    row = page.find("#explore-table tr[data-row^='parse']")
    value = row.find_elements("css selector", "td.n")[2].get_attribute("data-v")
    row.find_element("css selector", ".x-callers").click()
    assert page.find("#explore-tab-callers").get_attribute("aria-selected") == "true"
    assert page.find("#explore-callers-found").get_attribute("data-v") == value
    page.picture("callers")
    callers, callees = page.find("#explore-callers-canvas"), page.find("#explore-callees-canvas")
    for canvas, name in ((callers, "main (app.c:10)"), (callees, "grow (buf.c:7)")):
        canvas.send_keys(Keys.ARROW_UP if canvas is callers else Keys.ARROW_DOWN)
        about = page.find("#" + canvas.get_attribute("aria-describedby"))
        assert about.text.startswith(f"{name}: ") and about.text.endswith(", 100.0% of what is shown")
    height = callees.size["height"]
    ActionChains(page.driver).move_to_element_with_offset(callees, 0, height // 2 - 8).click().perform()
    assert page.find("#explore-function").get_attribute("value").startswith("grow")
    page.driver.back()
    assert page.find("#explore-function").get_attribute("value").startswith("parse")
    walk = next(each for each in page.all("#explore-function option") if each.text.startswith("walk"))
    walk.click()
    callees.send_keys(Keys.ARROW_DOWN)  # it calls itself
    assert page.find("#explore-callees-about").text.startswith("walk (walk.c:1): ")
    page.find("#explore-tab-flame").click()
    canvas = page.find("#explore-canvas")
    ActionChains(page.driver).move_to_element_with_offset(canvas, 0, 28 - canvas.size["height"] // 2).click().perform()
    page.find("#explore-callers").click()
    assert page.find("#explore-function").get_attribute("value").startswith("main")
    page.driver.back()
    page.find("#explore-only").click()
    assert page.find("#explore-filters button").text.startswith("function: main")
    assert page.complaints() == []


@needs_browser
def test_sizes_of_blocks(driver: Any, tmp_path: Path) -> None:  # noqa: F811
    """Blocks by the size that they were made with, as `--where size` chooses them; a row filters the page."""
    choose, lines, sizes = random.Random(5), [*(f"stack {stack}" for stack in STACKS), "thread 1"], {}
    for i in range(3000):
        sizes[i % 40] = choose.choice((0, 1, 2, 3, 16, 63, 64, 127, 128, 3000))
        lines.append(f"N {4096 * (1 + i % 40)} {sizes[i % 40]} {1 + i % 4}")
        lines += [f"F {4096 * (1 + i % 40)} 1"] if i < 2990 else []
    make_trace(tmp_path / "t.ljt", "\n".join([*lines, "end exit"]) + "\n")
    steve = Steve(tmp_path)
    assert steve("report", "t.ljt", "-q").returncode == 0
    page = Page(driver, tmp_path / "t.ljt.html").open(  # noqa: F811
        "#explore:metric=allocated&unit=blocks&view=size&order=name"
    )  # noqa: F811
    found = page.rows()
    assert list(found) == [
        "0 B",
        "1 B",
        "2 B to below 4 B",
        "16 B to below 32 B",
        "32 B to below 64 B",
        "64 B to below 128 B",
        "128 B to below 256 B",
        "2.00 KiB to below 4.00 KiB",
    ]
    where = ("summary", "t.ljt", "--json", "--where", "size >= 64 and size < 128")
    chosen = json.loads(steve(*where).out)
    page.find("#explore-table tr[data-row^='64 B'] button").click()
    assert page.find("#explore-filters button").text == "size: 64 B to below 128 B ×"
    assert page.total("allocated.blocks") == found["64 B to below 128 B"] == chosen["events"]["new"]
    assert page.total("freed.bytes") == chosen["bytes"]["allocated"] - chosen["bytes"]["live_at_end"]
    assert page.total("live.bytes") == chosen["bytes"]["live_at_end"]
    assert page.complaints() == []


@needs_browser
def test_ages_of_blocks(page: Page) -> None:  # noqa: F811
    """What is older and what is younger adds up to all; the blocks of the window are the youngest at its end."""
    names = [
        f"{metric}.{unit}" for metric in ("peak", "live", "freed", "reads", "writes") for unit in ("bytes", "blocks")
    ]
    whole = {name: page.total(name) for name in names}
    step = int(page.find("#explore-age option[value='1']").text.split()[2])
    parts = []
    for age in (8, -8):
        page.choose("age", str(age))
        assert f"age={age * step}" in page.driver.current_url
        parts.append({name: page.total(name) for name in names})
    assert all(all(part.values()) for part in parts)
    assert {name: parts[0][name] + parts[1][name] for name in names} == whole
    page.driver.back()
    assert {name: page.total(name) for name in names} == parts[0]
    bins = page.find("#explore-to").get_attribute("max")
    page.open(f"#explore:from={(int(bins) - 8) * step}&age={-8 * step}&metric=live")
    assert page.total("live.bytes") == page.total("growth.bytes") > 0


@needs_browser
def test_tables_are_sorted(page: Page) -> None:  # noqa: F811
    page.find("#explore-tab-function").click()
    assert page.find("#explore-table th[aria-sort=descending]").text == "itself"
    page.find("#explore-table th[data-key=name] button").click()
    assert list(page.rows()) == sorted(page.rows()) and "order=name" in page.driver.current_url
    page.find("#explore-table th[data-key=inclusive] button").click()
    assert next(iter(page.rows())).startswith("main")
    page.find("#explore-table th[data-key=inclusive] button").send_keys("\n")
    assert page.find("#explore-table th[aria-sort]").get_attribute("aria-sort") == "ascending"
    assert list(page.rows())[-1].startswith("main")


@needs_browser
def test_peak_of_a_moment(driver: Any, tmp_path: Path) -> None:  # noqa: F811
    """What is live at the peak is shown exactly, however short the peak is, in any window that contains it."""
    lines = [f"stack {stack}" for stack in STACKS] + ["thread 1", "N 4096 1000 1"]
    lines += ["S 4096 8"] * 3000 + ["N 65536 30000000 2", "N 40000000 500 4", "F 65536 1"] + ["S 4096 8"] * 3000
    make_trace(tmp_path / "peak.ljt", "\n".join([*lines, "end exit"]) + "\n")
    assert Steve(tmp_path)("report", "peak.ljt", "-q").returncode == 0
    page = Page(driver, tmp_path / "peak.ljt.html").open()  # noqa: F811
    assert page.find("#explore-metric").get_attribute("value") == "peak"
    assert page.total("peak.bytes") == 30001500 and page.total("peak.blocks") == 3
    assert page.total("live.bytes") == 1500
    page.find("#explore-tab-function").click()
    assert {name.split()[0]: value for name, value in page.rows().items() if value} == {
        "grow": 1000,
        "draw": 30000000,
        "walk": 500,
    }
    page.find("#explore-timeline .x-peak").click()
    assert "from=" in page.driver.current_url and page.total("peak.bytes") == 30001500
    chosen = page.driver.current_url
    page.find("body").send_keys("0")
    assert page.driver.current_url != chosen
    page.find("body").send_keys("p")
    assert page.driver.current_url == chosen
    assert page.total("allocated.bytes") == 30000500
    page.open("#explore:from=4000&to=5000")
    assert page.total("peak.bytes") == 1500
    assert page.complaints() == []


@needs_browser
def test_search_of_many_paths(driver: Any, tmp_path: Path) -> None:  # noqa: F811
    """Sites that are too small to be shown one by one count in searches, filters and tables."""
    digits = [[n // 10**k % 10 for k in range(4)] for n in range(4000)]
    sizes = [16 + n * 7 % 333 for n in range(4000)]
    lines = ["stack main@a.c:1 " + " ".join(f"g{d}@a.c:{10 + d} f@a.c:5" for d in path) + " malloc" for path in digits]
    lines += ["thread 1", *(f"N {4096 * (n + 1)} {sizes[n]} {n + 1}" for n in range(4000)), "end exit"]
    make_trace(tmp_path / "paths.ljt", "\n".join(lines) + "\n")
    assert Steve(tmp_path)("report", "paths.ljt", "-q").returncode == 0
    page = Page(driver, tmp_path / "paths.ljt.html").open("#explore:search=g3")  # noqa: F811
    assert page.find("#explore-folded").text
    wanted, whole = sum(size for size, path in zip(sizes, digits) if 3 in path), sum(sizes)
    assert page.find("#explore-found").text.endswith(f", {100 * wanted / whole:.1f}%")
    assert not page.find("#explore-found").text.startswith("at least")
    page.find("#explore-tab-function").click()
    cells = page.find("#explore-table tr[data-row^='g3']").find_elements("css selector", "td")
    assert cells[-1].text == f"{100 * wanted / whole:.1f}%"
    page.open("#explore:view=function")
    assert {name.split()[0]: value for name, value in page.rows().items() if value} == {"f": whole}
    page.find("#explore-table tr[data-row^='g3'] button").click()
    assert page.total("peak.bytes") == wanted and not page.all("#explore-filters .muted:not(:empty)")


@needs_browser
def test_search_of_many_sites(driver: Any, tmp_path: Path) -> None:  # noqa: F811
    """A sum that lacks sites, because there are too many functions, says so."""
    lines = [f"stack main@a.c:1 f{i % 30}@a.c:{2 + i % 30} g{i}@b.c:{i + 1} malloc" for i in range(4000)]
    lines += ["thread 1", *(f"N {8192 * i} {4001 - i} {i}" for i in range(1, 4001)), "end exit"]
    make_trace(tmp_path / "many.ljt", "\n".join(lines) + "\n")
    assert Steve(tmp_path)("report", "many.ljt", "-q").returncode == 0
    page = Page(driver, tmp_path / "many.ljt.html").open("#explore:search=g12")  # noqa: F811
    assert page.find("#explore-found").text.startswith("at least ")
    assert page.find("#explore-found").get_attribute("title").startswith("at most ")
    page.find("#explore-tab-function").click()
    page.find("#explore-table tr[data-row^='g12 '] button").click()
    assert page.find("#explore-filters .muted").text.startswith("All sums are at least so much")
    whole = page.open("#explore:").total("peak.bytes")
    page.open("#explore:line=nobody+(b.c:9999)")
    assert page.total("peak.bytes") == whole
    (chip,) = page.all("#explore-filters button")
    assert chip.text == "line: nobody (b.c:9999) is not in this page, so it leaves nothing out ×"
    chip.click()
    assert page.total("peak.bytes") == whole and not page.all("#explore-filters button")
    page.open("#explore:search=main")
    assert page.find("#explore-found").text.endswith(", 100.0%")
    assert not page.find("#explore-found").text.startswith("at least ")


@needs_browser
def test_sums(page: Page) -> None:  # noqa: F811
    """Every roll-up sums up to the total; main contains everything."""
    for view in ("function", "line", "file", "object", "kind", "heap", "thread"):
        page.find(f"#explore-tab-{view}").click()
        assert sum(page.rows().values()) == page.total("peak.bytes")
        assert page.find("#explore-table tr.x-sum:last-child td:nth-child(3)").text == "100.0%"
    page.find("#explore-tab-function").click()
    main = page.find("#explore-table tr[data-row^='main']")
    assert [cell.text for cell in main.find_elements("css selector", "td")][-1] == "100.0%"


@needs_browser
def test_filters_and_search(page: Page) -> None:  # noqa: F811
    whole = page.total("peak.bytes")
    page.find("#explore-tab-function").click()
    grow = next(name for name in page.rows() if name.startswith("grow"))
    value = page.rows()[grow]
    page.find("#explore-search").send_keys("grow")
    assert page.find("#explore-found").text.endswith(f"{100 * value / whole:.1f}%")
    page.find("#explore-search").clear()
    page.find("#explore-search").send_keys(" \b")
    page.find(f"#explore-table tr[data-row='{grow}'] button").click()
    assert page.total("peak.bytes") == value < whole
    page.find("#explore-filters button").click()
    assert page.total("peak.bytes") == whole


@needs_browser
def test_kinds_and_axis(page: Page) -> None:  # noqa: F811
    """The kind of blocks as the last frame, by which the page can be filtered, and the timeline over instructions."""
    from selenium.webdriver.common.keys import Keys

    page.find("#explore-tab-kind").click()
    kinds = page.rows()
    page.find("#explore-tab-flame").click()
    page.find("body").send_keys("k")
    canvas, about = page.find("#explore-canvas"), ""
    while page.find("#explore-about").text != about:
        about = page.find("#explore-about").text
        canvas.send_keys(Keys.ARROW_DOWN)
    kind = about.split(":")[0]
    assert kind in kinds
    page.picture("kinds")
    canvas.send_keys("f")
    assert page.find("#explore-filters button").text == f"kind: {kind} ×"
    assert page.total("peak.bytes") == kinds[kind]
    before = page.find("#explore-window").text
    page.choose("axis", "instructions")
    assert "instructions" in page.find("#explore-timeline").text and page.find("#explore-window").text == before
    page.picture("instructions")


@needs_browser
def test_live_bytes_divided(page: Page, report: tuple[Steve, Path]) -> None:  # noqa: F811
    """The live bytes of the timeline by kind, heap and thread are those of `steve sites --where`, at each moment; by line those
    of `steve sites --by line`."""
    steve = report[0]

    def bands() -> dict[str, int]:
        return {
            b.get_attribute("data-band"): int(b.get_attribute("data-v")) for b in page.all("#explore-bands [data-band]")
        }

    def live(where: str, *options: str) -> int:
        return json.loads(steve("summary", "app.ljt", "--json", *options, "--where", where).out)["bytes"]["live_at_end"]

    assert bands() == {}
    page.choose("split", "heap")
    assert bands() == {"C heap (malloc)": live('heap = "malloc"'), "Lua state 0x77": live('heap = "lua"')}
    page.choose("split", "thread")
    assert bands() == {f"thread {n}": live(f"thread = {n}") for n in (1, 2)}
    page.open(f"#explore:to={20 * WIDTH}&split=line")
    sites = json.loads(steve("sites", "app.ljt", "--json", "--by", "line", "--to", "m20").out)
    assert (
        bands() == {row["site"]: row["live_bytes_at_end"] for row in sites if row["live_bytes_at_end"]}
        and len(sites) > 3
    )
    page.open(f"#explore:to={20 * WIDTH}&split=kind&axis=instructions")
    found = bands()
    assert found["malloc"] == live('heap = "malloc"', "--to", "m20") and len(found) > 2
    assert sum(found.values()) == page.total("live.bytes")
    assert len(page.all("#explore-timeline path[class^=x-band]")) == len(found)
    page.picture("divided")
    page.find("#explore-tab-heap").click()
    page.choose("metric", "live")
    assert page.rows()["C heap (malloc)"] == found["malloc"]
    page.find("#explore-table tr[data-row='C heap (malloc)'] button").click()
    assert bands() == {"malloc": found["malloc"]}
    assert page.complaints() == []
