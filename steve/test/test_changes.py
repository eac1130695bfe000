"""The page of `steve report A B` in headless Chromium: its numbers are those of `steve diff --json`.

Screenshots are written to the folder LJTRACE_SCREENSHOTS, if that is set, to be looked at.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import base64
import json
import re
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conftest import Steve, make_trace
from steve.analysis.looks import Measures
from steve.analysis.differences import MEASURES, Measured
from steve.report import changes
from steve.system.samples import WHOLE
from steve.trace.matched import Matched
from steve.trace.rollups import BY
from browser_page import Page, driver, history, needs_browser  # noqa: F401  driver is a fixture

KEYS = [key for key, _, _ in MEASURES]


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Steve, Path]:
    folder = tmp_path_factory.mktemp("changes")
    make_trace(folder / "a.ljt", history(3))
    text = history(4).replace("main@app.c:11 draw@ui.c:20", "main@app.c:11 paint@ui.c:25 shade@ui.c:9")
    make_trace(folder / "b.ljt", text.replace("mark m7\n", "").replace("mark m9\n", "mark extra\n"))
    steve = Steve(folder)
    assert steve("report", "a.ljt", "b.ljt", "-q").returncode == 0
    return steve, folder / "b.ljt.changes.html"


def test_a_program_that_was_killed(tmp_path: Path) -> None:
    make_trace(tmp_path / "a.ljt", "N 4096 8\nend exit\n")
    make_trace(tmp_path / "b.ljt", "N 4096 8\nend killed\n")
    assert Steve(tmp_path)("report", "-q", "a.ljt", "b.ljt").returncode == 0
    text = (tmp_path / "b.ljt.changes.html").read_text()
    assert (
        text.count("missing.</p>") == 1 and "<strong>B:</strong> the program was killed: what it had not done" in text
    )


@pytest.mark.parametrize(
    "options, choice, live",
    [
        ((), "", "bytes never freed"),
        (("--to", "half"), "to &#39;half&#39;", "bytes live at &#39;half&#39;"),
        (("--from", "half"), "from &#39;half&#39;", "bytes never freed"),
        (("--where", "size > 1", "--from", "half", "--to", "end"), None, "bytes live at &#39;end&#39;"),
    ],
)
def test_a_part_of_the_run(options: tuple, choice: str | None, live: str, tmp_path: Path) -> None:
    """The page says which part it is, and no block is called never freed that may be freed after the mark."""
    choice = "where size &gt; 1, from &#39;half&#39;, to &#39;end&#39;" if choice is None else choice
    for name in ("a.ljt", "b.ljt"):
        make_trace(tmp_path / name, "N 4096 8\nmark half\nN 8192 8\nmark end\nF 4096\nF 8192\nend exit\n")
    assert Steve(tmp_path)("report", "-q", "a.ljt", "b.ljt", *options).returncode == 0
    text = (tmp_path / "b.ljt.changes.html").read_text()
    assert text.count("Only a part is compared") == int(bool(choice))
    assert f"Only a part is compared: {choice}.</p>" in text or not choice
    assert f'<option value="live_bytes">{live}</option>' in text
    assert dict(changes_data(text)["measures"])["live_bytes"] == live.replace("&#39;", "'")


def test_bytes_that_live_at_a_detach(tmp_path: Path) -> None:
    for name, end in (("a.ljt", "exit"), ("b.ljt", "detached"), ("c.ljt", "detached")):
        make_trace(tmp_path / name, f"N 4096 8\nend {end}\n")
    for name, live in (("a.ljt", "live at the end"), ("c.ljt", "not freed before the recording ended")):
        assert Steve(tmp_path)("report", "-q", name, "b.ljt", "-f").returncode == 0
        text = (tmp_path / "b.ljt.changes.html").read_text()
        assert dict(changes_data(text)["measures"])["live_bytes"] == f"bytes {live}"


@pytest.fixture
def page(compared: tuple[Steve, Path], driver: Any) -> Page:  # noqa: F811
    found = Page(driver, compared[1])
    found.size(1200)
    return found.open()


def changes_data(text: str) -> dict[str, Any]:
    """The data of a page."""
    found = re.search(r'id="explore-data">([^<]*)<', text)
    assert found
    return json.loads(zlib.decompress(base64.b64decode(found[1])))


def shown(page: Page) -> dict[str, tuple[int, int]]:
    """The rows of the table in order: A and B."""
    rows = page.driver.execute_script(
        "return [...document.querySelectorAll('#explore-table tr[data-row]')]"
        ".map(row => [row.dataset.row, Number(row.dataset.a), Number(row.dataset.b)])"
    )
    return {text: (a, b) for text, a, b in rows}


def exact(row: Any) -> list[int]:
    """The numbers A and B of a row that is a sum."""
    return [int(cell.get_attribute("title").replace(",", "")) for cell in row.find_elements("css selector", ".x-more")]


@needs_browser
@pytest.mark.parametrize("by", BY)
def test_tables(compared: tuple[Steve, Path], page: Page, by: str) -> None:
    rows = json.loads(compared[0]("diff", "a.ljt", "b.ljt", "--json", "--by", by).out)
    page.find(f"#explore-tab-{by}").click()
    for key in KEYS:
        page.choose("metric", key)
        assert shown(page) == {r["place"]: (r[f"{key}_a"], r[f"{key}_b"]) for r in rows if r[f"{key}_change"]}
        total = page.find(f"[data-total='{key}']")
        change = int(total.get_attribute("data-b")) - int(total.get_attribute("data-a"))
        assert change == sum(row[f"{key}_change"] for row in rows)
        order = [abs(b - a) for a, b in shown(page).values()]
        assert order == sorted(order, reverse=True)
    page.picture(f"changes-{by}", "#changes")
    assert page.complaints() == []


def of_functions(sizes: dict[str, int]) -> str:
    """A script of a program each of whose functions makes a block."""
    lines = [f"stack main@app.c:1 {name}@app.c:{i}" for i, name in enumerate(sizes, 2)]
    return (
        "\n".join([*lines, *(f"N {4096 * i} {size} {i}" for i, size in enumerate(sizes.values(), 1)), "end exit"])
        + "\n"
    )


@needs_browser
def test_more_rows_than_are_shown(driver: Any, tmp_path: Path) -> None:  # noqa: F811
    """The rows that differ most by the chosen measure are shown, wherever they are in the traces. Of the same functions
    some differ by many bytes, others by a block."""
    names = [f"f{i}" for i in range(1000)]
    first = {**{name: 5000 for name in names}, **{f"gone{i}": 1 for i in range(600)}}
    second = {**{name: 5000 + 2 * i for i, name in enumerate(names)}, **{f"new{i}": 1 for i in range(300)}}
    for path, sizes in (("a.ljt", first), ("b.ljt", second)):
        make_trace(tmp_path / path, of_functions(sizes))
    steve = Steve(tmp_path)
    assert steve("report", "a.ljt", "b.ljt", "-q").returncode == 0
    page = Page(driver, tmp_path / "b.ljt.changes.html")
    page.size(1200)
    page.open()
    for by in BY:
        rows = json.loads(steve("diff", "a.ljt", "b.ljt", "--json", "--by", by).out)
        page.find(f"#explore-tab-{by}").click()
        for key in KEYS[:-1]:  # there are no accesses
            page.choose("metric", key)
            changed = sorted((abs(row[f"{key}_change"]) for row in rows if row[f"{key}_change"]), reverse=True)
            found = shown(page)
            assert [abs(b - a) for a, b in found.values()] == changed[: changes.MOST_ROWS], (by, key)
            if len(found) == len(rows):
                continue
            others, total = page.all("#explore-table .x-sum")
            assert others.text.startswith(f"{len(rows) - len(found):,} others")
            for i, side in enumerate("ab"):
                left = sum(row[f"{key}_{side}"] for row in rows) - sum(values[i] for values in found.values())
                assert exact(others)[i] == left
                assert exact(total)[i] == sum(row[f"{key}_{side}"] for row in rows)
    page.find("#explore-tab-function").click()
    page.picture("changes-others", "#explore-table .x-sum")
    page.choose("metric", "bytes")
    page.find("#explore-search").send_keys("f999")
    found, (others, total) = shown(page), page.all("#explore-table .x-sum")
    assert len(found) == 1
    for i in range(2):  # what the search hides is in the row of the others
        assert exact(others)[i] + next(iter(found.values()))[i] == exact(total)[i]
    page.find("#explore-search").clear()
    page.find("#explore-search").send_keys(" \b")
    for key, names_are in (("bytes", {*names[500:]}), ("blocks", {*first, *second} - {*names})):
        page.choose("metric", key)
        assert len(shown(page)) == changes.MOST_ROWS and {text.split()[0] for text in shown(page)} <= names_are


@needs_browser
def test_flame_graph(compared: tuple[Steve, Path], page: Page) -> None:
    """The root has the sums; arrow keys lead to frames, whose change is a text, too."""
    rows = json.loads(compared[0]("diff", "a.ljt", "b.ljt", "--json", "--by", "stack").out)
    change = sum(row["bytes_change"] for row in rows)
    page.picture("changes-flame", "#explore h2")
    about = page.find("#explore-about")
    assert about.text.startswith("all: " + ("+" if change > 0 else "−")) and f"{abs(change):,}" in about.text
    canvas = page.find("#explore-canvas")
    page.driver.execute_script("arguments[0].focus()", canvas)
    canvas.send_keys("\ue015")
    assert about.text.startswith("main (app.c:1")
    canvas.send_keys("\ue007")
    assert "zoom=main" in page.driver.execute_script("return location.hash")
    canvas.send_keys("\ue003")
    assert page.driver.execute_script("return location.hash") == ""
    page.find("#explore-search").send_keys("shade")
    assert page.find("#explore-found").text == "1 frames"


@needs_browser
def test_lines_that_have_moved(driver: Any, tmp_path: Path) -> None:  # noqa: F811
    """A line that is inserted above a function changes nothing, as `steve diff` says; the flame graph has each frame once."""
    script = history(3)
    moved = script.replace("@buf.c:7", "@buf.c:9").replace("@parse.c:5", "@parse.c:8").replace("@app.c:1", "@app.c:2")
    assert moved != script
    for name, text in (("a", script), ("b", moved)):
        make_trace(tmp_path / f"{name}.ljt", text)
    steve = Steve(tmp_path)
    assert steve("report", "a.ljt", "b.ljt", "-q").returncode == 0
    tree = changes_data((tmp_path / "b.ljt.changes.html").read_text())["tree"]
    assert tree["a"] == tree["b"] and any(map(any, tree["a"]))
    texts = tree["frames"]["text"]
    assert "grow (buf.c:9)" in texts and not [text for text in texts if "buf.c:7" in text]
    page = Page(driver, tmp_path / "b.ljt.changes.html").open()
    assert page.find("ol.first").text.startswith("No line differs by 2% or more")
    canvas = page.find("#explore-canvas")
    canvas.send_keys("\ue015")
    about = page.find("#explore-about").text
    assert about.startswith("main (app.c:2") and ": 0 B (0), 0.0%: " in about


@needs_browser
def test_a_click_on_a_total_shows_it(page: Page) -> None:
    for key in ("live_bytes", "blocks", "peak_bytes"):
        page.find(f"[data-total='{key}']").click()
        assert page.find("#explore-metric").get_attribute("value") == key
        assert page.find(".x-chosen [data-total]").get_attribute("data-total") == key
    assert page.complaints() == []


@needs_browser
def test_first_sentences(compared: tuple[Steve, Path], page: Page) -> None:
    """The lines that differ most come first, and lead to their rows; Back goes back."""
    rows = json.loads(compared[0]("diff", "a.ljt", "b.ljt", "--json", "--by", "line").out)
    rows.sort(key=lambda row: -abs(row["peak_bytes_change"]))
    links = page.all("ol.first a")
    assert [link.text.split(" has ")[0] for link in links] == [row["place"] for row in rows[:3]]
    links[0].click()
    assert shown(page) == {rows[0]["place"]: (rows[0]["peak_bytes_a"], rows[0]["peak_bytes_b"])}
    assert page.find("#explore-metric").get_attribute("value") == "peak_bytes"
    page.driver.back()
    assert page.find("#explore-flame").is_displayed() and page.find("#explore-search").get_attribute("value") == ""
    page.find("#explore-search").send_keys("main")
    page.find("#explore-tab-line").click()
    page.driver.back()
    assert page.find("#explore-flame").is_displayed() and page.find("#explore-search").get_attribute("value") == "main"
    page.driver.back()
    assert page.find("#explore-search").get_attribute("value") == ""
    assert page.complaints() == []


@pytest.mark.parametrize("lines", (1, 4))
def test_one_first_sentence_is_of_bytes_requested(lines: int, steve: Steve, tmp_path: Path) -> None:
    """A line that churns more is named, however many lines have more at the peak."""
    stacks = "".join(f"stack main keep@k.c:{5 + i} malloc\n" for i in range(lines)) + "stack main churn@c.c:7 malloc\n"
    for name, size in (("a", 100), ("b", 200)):
        churned = f"N 4096 {size} {lines + 1}\nF 4096\n" * 50
        kept = "".join(f"N {8192 * (i + 1)} {(9 - i) * size} {i + 1}\n" for i in range(lines))
        make_trace(tmp_path / f"{name}.ljt", f"{stacks}{churned}{kept}end exit\n")
    assert steve("report", "a.ljt", "b.ljt", "-q", "-o", "c.html").returncode == 0
    said = re.findall(r"<b>(\w+) \([^<]*</b> has ([^:<]*)", (tmp_path / "c.html").read_text())
    at_peak = [("keep", f"{(9 - i) * 100} B more of the live bytes at the peak") for i in range(lines)]
    assert said == [*at_peak[:2], ("churn", "4.88 KiB more of the bytes requested")]


def sentences(steve: Steve, *options: str) -> list[str]:
    """The first sentences of the page of a.ljt and b.ljt without their markup, and what is said below them."""
    assert steve("report", "a.ljt", "b.ljt", "-q", "-o", "c.html", *options).returncode == 0
    page = (steve.folder / "c.html").read_text()
    found = page.partition('<ol class="first"')[2].partition('<p id="explore-failed"')[0]
    return [re.sub(r"<[^>]*>", "", text) for text in re.findall(r"<(?:li|p)[^>]*>(.*)</(?:li|p)>", found)]


def lua_trace(path: Path, kept: int, snapshot: bool) -> None:
    """A state whose registry holds one table of so many bytes, with more garbage before that."""
    lines = ["info recorder native", "heap 0x77 lua", "stack main keep@k.lua:5", "stack main waste@w.lua:7"]
    lines += [f"N 16384 {kept} 1 1", f"N 65536 {10 * kept} 2 1", "F 65536 0 1", "mark collected"]
    if snapshot:
        lines += [f"snapshot kept 1 {kept + 164} 100", "object thread 64 - root", f"object tab {kept}"]
        lines += ["link 0 1 upvalue kept", "endsnapshot"]
    make_trace(path, "\n".join([*lines, "F 16384 0 1", "end exit", ""]))


def test_garbage_of_lua_is_no_more_than_a_remark(steve: Steve, tmp_path: Path) -> None:
    for name, kept in (("a", 1000), ("b", 5000)):
        lua_trace(tmp_path / f"{name}.ljt", kept, False)
    first, *_, remark = sentences(steve)
    assert first.startswith("waste (w.lua:7) has 39.1 KiB more of the live bytes at the peak")
    assert "includes garbage" in remark and remark.endswith(
        "ljtrace.snapshot there in both. Both have the mark collected."
    )
    assert "includes garbage" in steve("diff", "a.ljt", "b.ljt", "-q").out
    first, *more = sentences(steve, "--to", "collected")
    assert first.startswith("keep (k.lua:5) has 3.91 KiB more of the bytes live at &#39;collected&#39;: 1000 B in A")
    assert not any("garbage" in text for text in more)


def test_snapshots_say_what_holds_more(steve: Steve, tmp_path: Path) -> None:
    for name, kept in (("a", 1000), ("b", 5000)):
        lua_trace(tmp_path / f"{name}.ljt", kept, True)
    first, *_, remark = sentences(steve)
    assert "includes garbage" in remark and "ljtrace.snapshot" not in remark
    assert first == (
        "thread -&gt; upvalue kept -&gt; table retains 3.91 KiB more in the last snapshot of B, &#39;kept&#39;, "
        "than in that of A, &#39;kept&#39;."
    )
    assert "retains" not in " ".join(sentences(steve, "--where", "size > 0"))
    lua_trace(tmp_path / "a.ljt", 1000, False)
    first, *_ = sentences(steve, "-f")
    assert first == (
        "thread holds 4.95 KiB of the 4.95 KiB that Lua reaches in the last snapshot of B, &#39;kept&#39; (100%). "
        "A has no snapshot."
    )


@needs_browser
def test_address_and_keys(page: Page) -> None:
    body = page.find("body")
    body.send_keys("m")
    body.send_keys("4")
    wanted = page.driver.execute_script("return location.hash")
    assert wanted == "#changes:measure=peak_bytes&view=line"
    before = shown(page)
    page.find("#changes-aligned").click()
    wanted = page.driver.execute_script("return location.hash")
    page.open(wanted)
    assert shown(page) == before and not page.find("#changes-aligned").is_selected()
    page.find("#explore-reset").click()
    assert page.find("#explore-flame").is_displayed() and page.find("#changes-aligned").is_selected()


@needs_browser
def test_timelines(page: Page) -> None:
    """Aligned, there are the marks of both; otherwise operations are counted."""
    texts = [text.text for text in page.all("#changes-time text")]
    assert "m0" in texts and "m7" not in texts and "extra" not in texts and "operations" not in texts
    assert len(page.all("#changes-time line.x-mark")) == 39 and "39 marks" in page.find("#changes-about-time").text
    page.find("#changes-aligned").click()
    texts = [text.text for text in page.all("#changes-time text")]
    assert "operations" in texts and not page.all("#changes-time line.x-mark")


@needs_browser
@pytest.mark.parametrize("width, dark", [(360, False), (1200, True), (360, True)])
def test_sizes(page: Page, width: int, dark: bool) -> None:
    """Nothing is wider than the page."""
    page.size(width, 900, dark)
    for view in ("flame", "stack"):
        page.open(f"#changes:view={view}")
        wide = page.driver.execute_script("return document.documentElement.scrollWidth")
        assert wide <= width
        for place, name in (("h1", "top"), ("#changes", "changes")):
            page.picture(f"changes-{view}-{name}-{width}{'-dark' if dark else ''}", place)


@needs_browser
@pytest.mark.parametrize("which, says", [("AB", "not recorded in A and B"), ("B", "not recorded in B")])
def test_without_accesses(which: str, says: str, driver: Any, tmp_path: Path) -> None:  # noqa: F811
    """What is not recorded is no change. Both traces are named."""
    for name in "AB":
        lines = [line for line in history(3).splitlines() if name not in which or line[:2] not in ("L ", "S ", "M ")]
        make_trace(tmp_path / f"{name}.ljt", "\n".join(lines) + "\n")
    assert Steve(tmp_path)("report", "A.ljt", "B.ljt", "-q").returncode == 0
    page = Page(driver, tmp_path / "B.ljt.changes.html").open()
    texts = [total.text.split("\n") for total in page.all("#explore-totals .x-total")]
    assert texts[-1] == ["accesses to blocks", "–", says] and len(texts) == len(KEYS)
    assert [o.get_attribute("value") for o in page.all("#explore-metric option")] == KEYS[:-1]
    assert all(f"{name}.ljt" in page.find("header").text for name in "AB")
    assert "A: A.ljt" in page.find(".x-key").text and "B: B.ljt" in page.find(".x-key").text
    assert page.complaints() == []


def of_nodes(nodes: Any, values: Any) -> Measured:
    """Rows all of whose measures are one value."""
    rows = np.zeros(len(nodes), [(key, "i8") for key in KEYS])
    for key in KEYS:
        rows[key] = values
    return Measured(np.array(nodes, "u4"), rows, True, WHOLE)


def test_marks_are_matched() -> None:
    def side(*marks: str) -> changes.Side:
        made = [(10 * i, name) for i, name in enumerate(marks)]
        return changes.Side("", "", 0, {}, made, {}, True, "", Measures({}, ""))

    found = changes.anchors(side("a", "b", "turn", "turn", "c"), side("a", "turn", "x", "turn", "turn", "c"))
    assert [name for _, _, name in found] == ["a", "turn", "turn", "c"]
    assert all(one < other for one, other in zip(found, found[1:]))


def test_options(compared: tuple[Steve, Path]) -> None:
    steve = compared[0]
    for option in (["--json"], ["--film", "x"], ["--allocator", "glibc"], ["--allocstats", "x"]):
        result = steve("report", "a.ljt", "b.ljt", *option)
        assert result.returncode == 2 and "does not go with two traces" in result.err
    assert steve("report", "-", "b.ljt", stdin=b"").returncode == 2
    assert steve("report", "b.ljt", "a.ljt", "-o", "b.ljt.changes.html").returncode == 2
    assert steve("report", "a.ljt", "b.ljt", "-q").returncode == 0


def test_many_sites_are_folded(monkeypatch: pytest.MonkeyPatch, compared: tuple[Steve, Path]) -> None:
    """The sums stay the same."""

    class Threads:
        def text(self, number: int) -> str:
            return f"thread {number}"

    class Callers:
        """The sites of a tree, of which every frame has its own name."""

        def __init__(self, callers: np.ndarray, frames: np.ndarray) -> None:
            self._tree = callers, callers, callers, frames
            self.shown = self.sites = self

        def tree(self) -> tuple[np.ndarray, ...]:
            return self._tree

        def frame_text(self, number: int) -> str:
            return f"f{number}"

        def named(self, number: int) -> None:
            return None

        def is_own(self, number: int) -> bool:
            return True

    names = Matched("thread")
    nodes = names.add(Threads(), np.arange(9))
    monkeypatch.setattr(changes, "MOST_ROWS", 4)
    found = changes.rows_of(names, of_nodes(nodes, range(9)), of_nodes(nodes[1:2], [5]))
    assert found["others"] == 5 and found["text"] == [f"thread {number}" for number in (5, 6, 7, 8)]
    assert sum(found["a"][0]) + found["othersA"][0] == 36 and sum(found["b"][0]) + found["othersB"][0] == 5
    monkeypatch.setattr(changes, "MOST_SITES", 2)
    sites = np.arange(1, 10)  # main with nine functions, each of which calls another one
    callers, frames = np.array([0, 0, *[1] * 9, *range(2, 11)]), np.arange(20)
    stacks = Matched("stack")
    nodes = stacks.add(Callers(callers, frames), sites + 10)
    tree = changes.tree_of(stacks, of_nodes(nodes, range(9)), of_nodes([], []))
    assert len(tree["leaves"]) == 9 and sum(tree["a"][0]) == 36 and sum(tree["b"][0]) == 0
    assert tree["frames"]["text"][-1] == "others" and len(tree["parent"]) == 7
