"""The page of the report in headless Chromium, for tests: the driver, a page with a history of its own, and how it is read.

Screenshots of the views are written to the folder LJTRACE_SCREENSHOTS, if that is set, to be looked at.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import importlib.util
import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import Steve, make_trace

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
