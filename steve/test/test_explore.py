"""The explorable part of the report: units of its script by node, and the built page in headless Chromium.

Screenshots of the views are written to the folder LJTRACE_SCREENSHOTS, if that is set, to be looked at.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import importlib.util
import json
import os
import random
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import Steve, make_trace
from test_windows import page_data

SOURCES = Path(__file__).parents[1] / "report" / "page"
WIDTH = 64  # operations between two marks: one bin or several
BEGAN = 1700000000  # when the recording began
STACKS = (
    "main@app.c:10 parse@parse.c:5 grow@buf.c:7 malloc",
    "main@app.c:11 draw@ui.c:20 malloc",
    "main@app.c:12 load@@app.lua:3/1 step@@app.lua:9/7 malloc",
    "main@app.c:13 walk@walk.c:1 walk@walk.c:1 walk@walk.c:2 malloc",
)
PLACES = ("step@@app.lua:9/7", "load@@app.lua:4/1", "draw@ui.c:20")  # of the accesses
needs_browser = pytest.mark.skipif(
    shutil.which("chromium") is None
    or shutil.which("chromedriver") is None
    or importlib.util.find_spec("selenium") is None,
    reason="Debian's chromium, chromium-driver or python3-selenium is missing",
)


def history(seed: int) -> str:
    """A script of mktrace: blocks of several stacks, heaps, threads and types, with a mark every WIDTH operations."""
    choose, live, lines, operations = random.Random(seed), [], [f"stack {stack}" for stack in STACKS], 0
    lines += ["heap 0x77 lua", f"info start_unix_seconds {BEGAN}"]
    addr = 4096
    while operations < 40 * WIDTH:
        if operations % WIDTH == 0:
            lines.append(f"mark m{operations // WIDTH}")
        lines += [f"thread {choose.randint(1, 2)}", f"time {operations * 10}"]
        if operations % 90 in (0, 30):
            lines.append(f"state 1 {2 - operations % 90 // 15}")  # the garbage collector; the interpreter
        what = choose.random()
        if what < 0.4 or not live:
            stack, size = choose.randint(1, len(STACKS)), choose.randint(1, 400)
            lines.append(f"N {addr} {size} {stack} {int(stack == 3)}")
            if stack == 3:
                lines.append(f"type {addr} 1 {choose.choice((1, 8))}")
            live.append((addr, size, int(stack == 3)))
            addr += 4096
        elif what < 0.65:
            at, _, heap = live.pop(choose.randrange(len(live)))
            lines.append(f"F {at} 1 {heap}")
        elif what < 0.7:
            i = choose.randrange(len(live))
            at, _, heap = live[i]
            live[i] = at, choose.randint(1, 900), heap
            lines.append(f"R {at} {at} {live[i][1]} 2 {heap}")
        else:
            at, _, _ = choose.choice(live)
            lines.append(f"at {PLACES[operations % len(PLACES)]}")
            lines.append(f"{choose.choice('LLSM')} {at} 1")
        operations += 1
    return "\n".join([*lines, f"mark m{operations // WIDTH}", "end exit"]) + "\n"


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


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> tuple[Steve, Path]:
    folder = tmp_path_factory.mktemp("report")
    make_trace(folder / "app.ljt", history(7))
    for name, changed in (("app.lua", BEGAN - 9), ("buf.c", BEGAN + 9)):
        (folder / name).write_text("".join(f"-- line {i} of </script>\n" for i in range(1, 12)))
        os.utime(folder / name, (changed, changed))
    steve = Steve(folder)
    assert steve("report", "app.ljt", "-q").returncode == 0
    return steve, folder / "app.ljt.html"


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--window-size=1200,1000",
        f"--user-data-dir={tmp_path_factory.mktemp('chromium')}",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    found = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    yield found
    found.quit()


class Page:
    """The page in a browser."""

    def __init__(self, driver: Any, path: Path) -> None:
        self.driver, self.path = driver, path

    def open(self, fragment: str = "") -> Page:
        from selenium.webdriver.support.ui import WebDriverWait

        self.driver.get("about:blank")
        self.driver.get(self.path.as_uri() + fragment)
        WebDriverWait(self.driver, 20).until(
            lambda driver: driver.execute_script("return document.documentElement.dataset.explore") == "ready"
        )
        return self

    def size(self, width: int, height: int = 1000, dark: bool = False) -> None:
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False},
        )
        self.driver.execute_cdp_cmd(
            "Emulation.setEmulatedMedia",
            {"features": [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]},
        )

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait for what an event of the mouse brings about."""
        from selenium.webdriver.support.ui import WebDriverWait

        WebDriverWait(self.driver, 20).until(lambda driver: condition())

    def find(self, selector: str) -> Any:
        return self.driver.find_element("css selector", selector)

    def all(self, selector: str) -> list[Any]:
        return self.driver.find_elements("css selector", selector)

    def total(self, name: str) -> int:
        return int(float(self.find(f"[data-total='{name}']").get_attribute("data-v")))

    def choose(self, control: str, value: str) -> None:
        from selenium.webdriver.support.ui import Select

        Select(self.find(f"#explore-{control}")).select_by_value(value)

    def rows(self) -> dict[str, float]:
        """The rows of the roll-up that is shown."""
        return {
            row.get_attribute("data-row"): float(row.find_element("css selector", "td.n").get_attribute("data-v"))
            for row in self.all("#explore-table tr[data-row]")
        }

    def picture(self, name: str, place: str = "#explore h2") -> None:
        folder = os.environ.get("LJTRACE_SCREENSHOTS")
        if folder:
            Path(folder).mkdir(parents=True, exist_ok=True)
            self.driver.execute_script("document.querySelector(arguments[0]).scrollIntoView()", place)
            self.driver.save_screenshot(str(Path(folder) / f"{name}.png"))

    def complaints(self) -> list[str]:
        """What the console says, and requests to hosts."""
        urls = [
            json.loads(entry["message"])["message"]["params"].get("request", {}).get("url", "")
            for entry in self.driver.get_log("performance")
            if "requestWillBeSent" in entry["message"]
        ]
        return [entry["message"] for entry in self.driver.get_log("browser")] + [
            url for url in urls if not url.startswith(("file:", "data:", "about:", "blob:", "chrome"))
        ]


@pytest.fixture
def page(report: tuple[Steve, Path], driver: Any) -> Page:
    found = Page(driver, report[1])
    found.size(1200)
    return found.open()


@needs_browser
def test_every_view(page: Page) -> None:
    parts = ("flame", "tree", "source", "rows")
    for view in (*parts[:3], "function", "line", "file", "object", "kind", "heap", "thread"):
        page.find(f"#explore-tab-{view}").click()
        shown = [part for part in parts if page.find(f"#explore-{part}").is_displayed()]
        assert shown == [view if view in parts else "rows"]
        page.picture(view)
    assert page.complaints() == []


@needs_browser
@pytest.mark.parametrize("seed", range(3))
def test_windows(report: tuple[Steve, Path], page: Page, seed: int) -> None:
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
def test_brush(page: Page) -> None:
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
def test_first_sentences(driver: Any, troubled: Path) -> None:
    """The page begins with what is wrong; a click on a sentence shows the blocks, and Back goes back."""
    page = Page(driver, troubled)
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
    assert page.find("#explore-filters button").text == "line: remember (app.c:9) ×"
    steps = 256 * 3000 / 256  # the window is a step shorter at most
    assert 256 * 3000 - 2 * steps <= page.total("growth.bytes") <= 256 * 3000
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
    assert "line=remember" in page.driver.current_url and "metric=growth" in page.driver.current_url
    assert (
        "Nothing was found: " in page.find("#without-sites").text
        and "Resized again and again" in page.find("#without-sites").text
    )
    assert page.complaints() == []


@needs_browser
def test_first_sentence_without_findings(driver: Any, tmp_path: Path) -> None:
    """If nothing is wrong, the first sentence says what the peak consists of."""
    lines = ["stack main@a.c:1 big@a.c:2 malloc", "stack main@a.c:1 small@a.c:3 malloc", "thread 1"]
    for i, (stack, size) in enumerate(((1, 3000), (2, 1000))):
        lines += [f"N {4096 * (i + 1)} {size} {stack}", f"S {4096 * (i + 1)} {size}"]
    lines += [f"L {4096 * (1 + i % 2)} 1000" for i in range(2000)] + ["F 4096 1", "F 8192 2", "end exit"]
    make_trace(tmp_path / "good.ljt", "\n".join(lines) + "\n")
    assert Steve(tmp_path)("report", "good.ljt", "-q").returncode == 0
    page = Page(driver, tmp_path / "good.ljt.html").open()
    assert [item.text for item in page.all("ol.first li a")] == [
        "big (a.c:2) has 2.93 KiB of the 3.91 KiB that are live at the peak (75%), more than any other site."
    ]
    page.find("ol.first li a").click()
    assert page.total("peak.bytes") == 3000


@needs_browser
def test_growth_between_marks(driver: Any, tmp_path: Path) -> None:
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
    page = Page(driver, tmp_path / "t.ljt.html")
    page.size(1200)
    page.open()
    first = page.find("ol.first li a")
    assert first.text.startswith(
        "grow (buf.c:7) made 49.2 KiB in 504 blocks between the marks half and end that live at the "
    )
    assert "504" in json.dumps(leaks) and "50400" in json.dumps(leaks)
    first.click()
    assert page.total("growth.bytes") == 504 * 100
    assert page.find("#explore-filters button").text == "line: grow (buf.c:7) ×"
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
def test_axis_is_zoomed(page: Page) -> None:
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
def test_marks(page: Page) -> None:
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
def test_pointer(page: Page) -> None:
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


@needs_browser
def test_callers_and_callees(page: Page) -> None:
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
def test_sizes_of_blocks(driver: Any, tmp_path: Path) -> None:
    """Blocks by the size that they were made with, as `--where size` chooses them; a row filters the page."""
    choose, lines, sizes = random.Random(5), [*(f"stack {stack}" for stack in STACKS), "thread 1"], {}
    for i in range(3000):
        sizes[i % 40] = choose.choice((0, 1, 2, 3, 16, 63, 64, 127, 128, 3000))
        lines.append(f"N {4096 * (1 + i % 40)} {sizes[i % 40]} {1 + i % 4}")
        lines += [f"F {4096 * (1 + i % 40)} 1"] if i < 2990 else []
    make_trace(tmp_path / "t.ljt", "\n".join([*lines, "end exit"]) + "\n")
    steve = Steve(tmp_path)
    assert steve("report", "t.ljt", "-q").returncode == 0
    page = Page(driver, tmp_path / "t.ljt.html").open("#explore:metric=allocated&unit=blocks&view=size&order=name")
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
def test_ages_of_blocks(page: Page) -> None:
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
def test_tables_are_sorted(page: Page) -> None:
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
def test_peak_of_a_moment(driver: Any, tmp_path: Path) -> None:
    """What is live at the peak is shown exactly, however short the peak is, in any window that contains it."""
    lines = [f"stack {stack}" for stack in STACKS] + ["thread 1", "N 4096 1000 1"]
    lines += ["S 4096 8"] * 3000 + ["N 65536 30000000 2", "N 40000000 500 4", "F 65536 1"] + ["S 4096 8"] * 3000
    make_trace(tmp_path / "peak.ljt", "\n".join([*lines, "end exit"]) + "\n")
    assert Steve(tmp_path)("report", "peak.ljt", "-q").returncode == 0
    page = Page(driver, tmp_path / "peak.ljt.html").open()
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
def test_search_of_many_paths(driver: Any, tmp_path: Path) -> None:
    """Sites that are too small to be shown one by one count in searches, filters and tables."""
    digits = [[n // 10**k % 10 for k in range(4)] for n in range(4000)]
    sizes = [16 + n * 7 % 333 for n in range(4000)]
    lines = ["stack main@a.c:1 " + " ".join(f"g{d}@a.c:{10 + d} f@a.c:5" for d in path) + " malloc" for path in digits]
    lines += ["thread 1", *(f"N {4096 * (n + 1)} {sizes[n]} {n + 1}" for n in range(4000)), "end exit"]
    make_trace(tmp_path / "paths.ljt", "\n".join(lines) + "\n")
    assert Steve(tmp_path)("report", "paths.ljt", "-q").returncode == 0
    page = Page(driver, tmp_path / "paths.ljt.html").open("#explore:search=g3")
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
def test_search_of_many_sites(driver: Any, tmp_path: Path) -> None:
    """A sum that lacks sites, because there are too many functions, says so."""
    lines = [f"stack main@a.c:1 f{i % 30}@a.c:{2 + i % 30} g{i}@b.c:{i + 1} malloc" for i in range(4000)]
    lines += ["thread 1", *(f"N {8192 * i} {4001 - i} {i}" for i in range(1, 4001)), "end exit"]
    make_trace(tmp_path / "many.ljt", "\n".join(lines) + "\n")
    assert Steve(tmp_path)("report", "many.ljt", "-q").returncode == 0
    page = Page(driver, tmp_path / "many.ljt.html").open("#explore:search=g12")
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
def test_sums(page: Page) -> None:
    """Every roll-up sums up to the total; main contains everything."""
    for view in ("function", "line", "file", "object", "kind", "heap", "thread"):
        page.find(f"#explore-tab-{view}").click()
        assert sum(page.rows().values()) == page.total("peak.bytes")
        assert page.find("#explore-table tr.x-sum:last-child td:nth-child(3)").text == "100.0%"
    page.find("#explore-tab-function").click()
    main = page.find("#explore-table tr[data-row^='main']")
    assert [cell.text for cell in main.find_elements("css selector", "td")][-1] == "100.0%"


@needs_browser
def test_filters_and_search(page: Page) -> None:
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
def test_keyboard(page: Page) -> None:
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
def test_source(page: Page, report: tuple[Steve, Path]) -> None:
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
def test_garbage_collection_and_clock(page: Page, report: tuple[Steve, Path]) -> None:
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


def test_without_source(report: tuple[Steve, Path]) -> None:
    """--no-source leaves the texts out."""
    head, _ = page_data(report[0]("report", "app.ljt", "-o", "-", "--no-source").out)
    assert head["sources"] == []


@needs_browser
def test_kinds_and_axis(page: Page) -> None:
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
def test_live_bytes_divided(page: Page, report: tuple[Steve, Path]) -> None:
    """The live bytes of the timeline by kind, heap and thread are those of `steve sites --where`, at each moment."""
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


@needs_browser
def test_a_trace_without_accesses(driver: Any, tmp_path: Path) -> None:
    """Reads and writes are not recorded, which is not the same as 0; and nothing is called never read."""
    lines = [line for line in history(3).splitlines() if line[:2] not in ("L ", "S ", "M ")]
    make_trace(tmp_path / "t.ljt", "\n".join(lines) + "\n")
    done = Steve(tmp_path)("report", "t.ljt", "-q")
    assert done.returncode == 0, done.err
    page = Page(driver, tmp_path / "t.ljt.html").open()
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
def test_address(page: Page) -> None:
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
def test_sizes(page: Page, width: int, dark: bool) -> None:
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
def test_nothing_covers_the_focus(page: Page, width: int, height: int) -> None:
    """What gets the focus is not below the part of the page that stays in view, wherever one comes from."""
    page.size(width, height)
    for view in ("flame", "function", "callers"):
        page.open(f"#explore:view={view}")
        covered = page.driver.execute_script(
            """
            const found = [], all = [...document.querySelectorAll("#explore :is(button, select, input, canvas, [tabindex='0'])")]
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
def test_printing(page: Page) -> None:
    """In print there are no controls, and the whole page is printed."""
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    assert not page.find("#explore-metric").is_displayed() and page.find("#explore-totals").is_displayed()
    assert page.find("#explore-flame .x-key").is_displayed() and page.find("#explore-canvas").is_displayed()
    style = "return getComputedStyle(document.querySelector(arguments[0]))[arguments[1]]"
    for place in ("#explore-flame .x-key i", ".tile", "ol.first li"):
        assert page.driver.execute_script(style, place, "printColorAdjust") == "exact"
    assert page.driver.execute_script(style, "ol.first a", "textDecorationLine") == "underline"
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
