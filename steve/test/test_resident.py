"""steve resident: each resident page has one owner, and the sum is what the kernel says; ranges of addresses.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
import re
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import Steve
from steve.analysis import looks
from steve.terminal.units import human_bytes
from steve.trace import page_runs
from steve.trace.allocators import ALLOCATORS
from steve.trace._memtrace import Trace
from steve.trace.page_runs import Ranges

Maker = Callable[..., Path]
PAGE = 4096
ARENA = 64 << 20
RW, RX, NONE, R = 3, 5, 0, 1
ALONE, SHARED_FILE, LIBRARY = 9, 5, 13  # states of pages
MANY = 40  # the length of a line in a property


def pages(n: int) -> int:
    return n * PAGE


# A process: a program with its data, a heap, a file, an arena, a stack with its guard, a mapping of its own, memory of
# the recorder, and machine code. Blocks are in the heap and in the arena.
HEAP, FILE, STACK = 0x500000, 0x7F0000000000, 0x7F2000001000
OWN, RECORDER, CODE = 0x7F3000000000, 0x7F4000000000, 0x7F5000000000
IN_ARENA = 0x7F10 * ARENA
SCRIPT = f"""\
info recorder native
stack main keep
stack main load@app.c:14 mmap
stack =[recorder]
time 10
N {HEAP + 2 * PAGE} 2048 1
N {HEAP + 2 * PAGE + 2048} 1024 1
N {HEAP + 6 * PAGE} {2 * PAGE} 1
N {IN_ARENA + 4 * PAGE} 100 1
time 20
F {HEAP + 2 * PAGE + 2048}
mark loaded
time 90
F {HEAP + 6 * PAGE}
N {HEAP + 9 * PAGE} 64 1
pages 50 mark loaded 2 {pages(8)} 11 2
mapping 0x400000 {pages(2)} {RX} {pages(2)} /bin/app 2:{SHARED_FILE}
mapping 0x402000 {pages(1)} {RW} {pages(1)} /bin/app 1:{LIBRARY}
mapping 0x403000 {pages(2)} {RW} {pages(1)} - 1:{ALONE} 1:0
mapping {HEAP} {pages(10)} {RW} {pages(9)} [heap] 9:{ALONE} 1:0
mapping {FILE} {pages(4)} 9 {pages(3)} /data/model.bin 3:{SHARED_FILE} 1:0
mapping {IN_ARENA} {pages(8)} {RW} {pages(8)} - 8:{ALONE}
mapping {STACK - PAGE} {PAGE} {NONE} 0 - 1:0
mapping {STACK} {pages(8)} {RW} {pages(2)} - 6:0 2:{ALONE}
mapping {OWN} {pages(20)} {RW} {pages(12)} - 10:{ALONE} 5:0 2:{ALONE} 3:0
mapping {RECORDER} {pages(5)} {RW} {pages(4)} - 5:{ALONE}
mapping {CODE} {pages(1)} {RX} {pages(1)} - 1:{ALONE}
region {OWN} {pages(20)} 2
region {RECORDER} {pages(5)} 3
pages 100 end - 1 0 1 0
mapping {HEAP} {pages(10)} {RW} {pages(10)} [heap] 10:{ALONE}
end exit
"""


def found(steve: Steve, *arguments: str) -> dict:
    result = steve("resident", "--json", "t.ljt", *arguments)
    assert result.returncode == 0, result.err
    return json.loads(result.out)


def by_kind(look: dict) -> dict[str, int]:
    return {row["kind"]: row["bytes"] for row in look["rows"]}


def test_each_page_has_an_owner(steve: Steve, trace: Maker) -> None:
    trace(SCRIPT)
    look = found(steve)
    assert (look["look"], look["reason"], look["mark"]) == (1, "mark", "loaded")
    live = 2048 + 2 * PAGE + 100
    assert by_kind(look) == {
        "live": live,
        "free": pages(9) + pages(8) - live,
        "own": pages(12),
        "files": pages(3),
        "stacks": pages(2),
        "libraries": pages(4),
        "jit": pages(1),
        "recorder": pages(5),
        "changed": -pages(1),  # the kernel counted one page less
    }
    assert sum(by_kind(look).values()) == look["rss"] == pages(43)


def test_data_of_a_library_end_where_the_library_ends(steve: Steve, trace: Maker) -> None:
    """Memory without a file directly after a library is its own as far as the library says; the rest is another's. Here it is
    two pages after /bin/app, of which the first is resident; the name of the module is that of a link."""
    for size, libraries, other in ((0x2010, pages(3), pages(1)), (0x3010, pages(4), 0), (0x9000, pages(4), 0)):
        trace(SCRIPT.replace("pages 50", f"module 0x400000 {size} /usr/bin/app\npages 50"))
        rows = by_kind(found(steve))
        assert (rows["libraries"], rows.get("other", 0)) == (libraries, other)


def test_offers_are_those_that_can_help() -> None:
    (glibc,) = (one for one in ALLOCATORS if one.name == "glibc")
    assert [name for name in ("arena_max", "trim_threshold") if name in " ".join(glibc.offers(False, False))] == []
    assert "arena_max" in glibc.offers(True, False)[-1] and "trim_threshold" in glibc.offers(False, True)[-1]
    assert "malloc_trim(0)" in glibc.offers(True, True)[0]
    for one in ALLOCATORS:
        assert set(one.advice) <= set(one.offers(True, True)) == {*one.advice, *one.of_arenas, *one.of_ends}


def test_mapped_memory_is_an_allocators(steve: Steve, trace: Maker) -> None:
    """Freed blocks of malloc may have been where the program maps memory later. It is the allocator's if the call was made
    within malloc, or has mapped other memory in which blocks of the same heap are. Other heaps keep what they map."""
    other = OWN + pages(64)

    def kind_of(call: str, *events: str) -> str:
        block = f"N {OWN + 16} {pages(2)} 1"
        lines = [
            "info recorder native",
            "stack main",
            f"stack {call} mmap",
            "heap 7 custom",
            block,
            f"F {OWN + 16}",
            *(event.replace("BLOCK", block) for event in events),
            "pages 50 end - 1 0 2 2",
        ]
        for start in (OWN, other):
            lines.append(f"mapping {start} {pages(20)} {RW} {pages(20)} - 20:{ALONE}")
        lines += [f"region {start} {pages(20)} 2" for start in (OWN, other)]
        trace("\n".join([*lines, "end exit", ""]))
        looked = found(steve, "--by", "mapping", "--top", "9")
        return {int(row["start"], 0): row["kind"] for row in looked["rows"]}[OWN]

    assert kind_of("main load") == "own"
    assert kind_of("main load", f"N {other} 64 1") == "free"
    assert kind_of("main load", f"N {other} 64 1 1") == "own"
    assert kind_of("main load", "BLOCK 1", f"F {OWN + 16} 1 1") == "free"
    assert kind_of("main load", "BLOCK") == "free, live"
    assert kind_of("main malloc grow") == "free"


def test_what_a_trim_returns(steve: Steve, trace: Maker) -> None:
    """Not the pages with a block, the page with the header of one, nor the first ones of a heap and of an arena."""
    trace(SCRIPT)
    (free,) = (row for row in found(steve)["rows"] if row["kind"] == "free")
    # of the heap: pages 3, 4 and 8; 1 and 5 have the headers of the blocks at the beginnings of 2 and 6. Of the arena:
    # 1, 2 and 5 to 7. 3 and 4, and 1 and 2, are below live blocks
    assert free["detail"].startswith("32 KiB in whole pages, 16 KiB of them below live blocks")
    assert "1 arena of threads" in free["detail"]


ATTACHED = f"""\
info recorder native
info attached yes
stack =[arena]
pages 1 first - 3 {pages(8)} 2 1
mapping {IN_ARENA} {pages(8)} {RW} {pages(8)} - 8:{ALONE}
mapping {OWN} {pages(4)} {RW} {pages(4)} - 4:{ALONE}
region {IN_ARENA} {pages(8)} 1
pages 9 end - 3 {pages(8)} 3 1
mapping {IN_ARENA} {pages(8)} {RW} {pages(8)} - 8:{ALONE}
mapping {STACK - PAGE} {PAGE} {NONE} 0 - 1:0
mapping {OWN - PAGE} {pages(7)} {RW} {pages(7)} - 7:{ALONE}
region {IN_ARENA} {pages(8)} 1
end detached
"""


def test_what_is_older_than_the_attach(steve: Steve, trace: Maker) -> None:
    """An arena is known without blocks in it. Mappings are from before, as far as the first look had them."""
    trace(ATTACHED)
    assert by_kind(found(steve, "--at", "end")) == {"live": 0, "free": pages(8), "before": pages(4), "other": pages(3)}
    out = steve("resident", "t.ljt", "--at", "end").out
    assert "or in blocks from before the attach: with 1 arena of threads" in out and "whole pages" not in out
    assert "Whose the 16 KiB are that were mapped before the attach is not known" in out
    reported = json.loads(steve("report", "-q", "--json", "t.ljt").out)["resident"]
    assert dict(zip(reported["kinds"], reported["titles"]))["free"].endswith("or in blocks from before the attach")
    kinds = [row["kind"] for row in found(steve, "--at", "end", "--by", "mapping")["rows"]]
    assert kinds == ["free", "before, other", ""]


def test_free_memory_is_known_with_the_blocks_from_before(steve: Steve, trace: Maker) -> None:
    """None is the number of blocks that were found only if nothing went wrong."""
    facts = "info existing_blocks 0\ninfo existing_bytes 0\n"
    trace(facts + ATTACHED)
    (free,) = (row for row in found(steve, "--at", "end")["rows"] if row["kind"] == "free")
    assert (free["whole"], free["whole_below"], free["returnable"]) == (pages(7), 0, 0)  # an arena's end stays
    trace(facts + "info existing_problem a reason\n" + ATTACHED)
    (free,) = (row for row in found(steve, "--at", "end")["rows"] if row["kind"] == "free")
    assert (free["whole"], free["returnable"]) == (None, None)


def growing(*reasons: str) -> str:
    """A look for each reason, a second after the other, with more and more pages; a program that was killed at 9.5 s."""
    lines = ["info recorder native", "info signal 9"]
    for i, reason in enumerate(reasons, 1):
        lines += [
            f"pages {i}000000000 {reason} - 1 0 1 0",
            f"mapping {HEAP} {pages(i)} {RW} {pages(i)} [heap] {i}:{ALONE}",
        ]
    return "\n".join([*lines, "time 9500000000", "N 4096 8", "end killed", ""])


def test_a_look_while_memory_grew(steve: Steve, trace: Maker) -> None:
    """It is said that it was, and which look came later."""
    trace(growing("first", "growth"))
    said = "This look was taken while memory grew, so that some of it may be freed soon after"
    assert f"{said}; --pages=TIME looks" in steve("resident", "t.ljt").out
    trace(growing("first", "growth", "steady"))
    assert said not in steve("resident", "t.ljt").out


def test_there_was_no_look_at_the_end(steve: Steve, trace: Maker) -> None:
    trace(growing("first", "growth", "steady"))
    assert found(steve, "--at", "end")["before_end"] == 6.5
    out = steve("resident", "t.ljt", "--at", "end").out
    assert "the program ended by SIGKILL, the last look is 6.5 s before its end. --pages=TIME" in out
    assert "no look at the end" not in steve("resident", "t.ljt", "--at", "2").out
    assert (
        "the last look is 6.5 s before its end. --pages=TIME" in steve("resident", "--at=end", "--by=site", "t.ljt").out
    )
    trace(f"info pages_every 1000000000\n{growing('first', 'time', 'time')}")
    out = steve("resident", "t.ljt", "--at", "end").out
    assert "the last look is 6.5 s before its end." in out and "--pages=TIME" not in out, "it looked at regular times"
    trace(growing("first", "end"))
    assert "no look at the end" not in steve("resident", "t.ljt", "--at", "end").out


def test_sites_that_pin_pages(steve: Steve, trace: Maker) -> None:
    trace(SCRIPT)
    rows = {row["site"]: row for row in found(steve, "--by", "site")["rows"]}
    kept = rows["keep < main"]
    assert kept["live"] == 2048 + 2 * PAGE + 100 and kept["blocks"] == 3
    assert kept["pinned"] == (PAGE - 2048) + (PAGE - 100)
    assert rows["load (app.c:14) < main"]["mapped"] == pages(12)


def test_whose_blocks_keep_pages_is_said(steve: Steve, trace: Maker) -> None:
    """By line of the program: two sites of one line are named once. Little is not worth a sentence."""

    def said(count: int) -> str:
        lines = ["info recorder native", "stack main keep@k.c:5 malloc", "stack main other keep@k.c:5 malloc"]
        lines += [f"N {HEAP + i * PAGE + 64} 96 {1 + i % 2}" for i in range(count)]
        lines += ["pages 50 end - 1 0 1 0", f"mapping {HEAP} {pages(count)} {RW} {pages(count)} [heap] {count}:{ALONE}"]
        trace("\n".join([*lines, "end exit", ""]))
        return steve("resident", "t.ljt").out

    text = "What keeps the 1.53 MiB beside live blocks, the largest first: blocks of keep (k.c:5), 37.5 KiB, keep 1.53 MiB (--by site: all)."
    assert text in said(400)
    assert "What keeps the" not in said(100)


def test_moments(steve: Steve, trace: Maker) -> None:
    trace(SCRIPT)
    assert by_kind(found(steve, "--at", "end")) == {"live": 2048 + 64, "free": pages(10) - 2048 - 64}
    assert found(steve, "--at", "1") == found(steve, "--at", "loaded") == found(steve, "--at", "peak")
    assert found(steve, "--at", "2")["seconds"] == 100 / 1e9
    looks = found(steve, "--by", "look")["rows"]
    assert [(row["reason"], row["rss"]) for row in looks] == [("mark", pages(43)), ("end", pages(10))]
    result = steve("resident", "t.ljt", "--at", "unknown")
    assert result.returncode == 2 and "there are 2 looks" in result.err and "with the marks loaded" in result.err


def looks_with(*looks_of: tuple[int, int, str]) -> str:
    """Looks at a heap: time, pages that are resident, and why."""
    lines = ["info recorder native"]
    for time, count, reason in looks_of:
        lines += [
            f"pages {time} {reason} - 1 {pages(8)} 1 0",
            f"mapping {HEAP} {pages(4000)} {RW} {pages(count)} [heap] ",
        ]
        lines[-1] += f"{count}:{ALONE} {4000 - count}:0"
    return "\n".join([*lines, "end exit", ""])


@pytest.mark.parametrize(
    "every, largest, last",
    [
        (((90, 1000, "steady"), (100, 1010, "end")), 0, 0),  # nearly as many, and late
        (((70, 1000, "steady"), (100, 1010, "end")), 0, 1),
        (((90, 1000, "steady"), (100, 1200, "end")), 1, 0),
        (((90, 990, "time"), (100, 1010, "time")), 1, 1),  # there is none at the end
        (((50, 1100, "growth"), (90, 1000, "steady"), (100, 900, "end")), 0, 1),
        (((100, 1000, "end"),), 0, 0),
    ],
)
def test_the_end_counts_little(every: tuple, largest: int, last: int, steve: Steve, trace: Maker) -> None:
    """At its end a program has often freed its blocks."""
    trace(looks_with(*every))
    reader = Trace(str(steve.folder / "t.ljt"))
    reader.skim()
    assert (looks.largest(looks.of_trace(reader)), looks.last_at_work(looks.of_trace(reader))) == (largest, last)
    assert found(steve)["look"] == largest + 1 and found(steve, "--at", "end")["look"] == len(every)
    (finding,) = json.loads(steve("findings", "--rules", "kept_free", "t.ljt", "--json").out)
    assert finding["resident"] == pages(every[last][1])


def test_mappings_and_libraries(steve: Steve, trace: Maker) -> None:
    trace(SCRIPT)
    rows = found(steve, "--by", "mapping")["rows"]
    assert sum(row["rss"] for row in rows) == pages(43) and len(rows) == 11
    heap = next(row for row in rows if row["name"] == "[heap]")
    assert (heap["start"], heap["rights"], heap["size"]) == (f"0x{HEAP:x}", "rw-p", pages(10))
    assert heap["kind"] == "free, live"
    files = {row["file"]: row["bytes"] for row in found(steve, "--by", "library")["rows"]}
    assert files == {"/bin/app": pages(4), "/data/model.bin": pages(3), "(memory without a file)": pages(5)}
    csv = steve("resident", "t.ljt", "--by", "library", "--csv").out
    assert csv.splitlines()[0] == "bytes,shared,kind,file" and len(csv.splitlines()) == 4


def test_the_summary_names_the_most(steve: Steve, trace: Maker) -> None:
    trace(SCRIPT.replace("end exit", "pages 150 end - 1 0 0 0\nmark last\nend exit"))
    assert json.loads(steve("summary", "--json", "t.ljt").out)["resident"] == pages(
        43
    )  # the kernel's count is not known
    trace(SCRIPT.replace(f"1 {pages(0)} 1 0", "1 0 1 0 277777").replace("end exit", "mark last\nend exit"))
    assert json.loads(steve("summary", "--json", "t.ljt").out)["resident"] == 277777
    assert "bytes resident at most" in steve("summary", "t.ljt").out
    between = steve("summary", "--json", "t.ljt", "--from", "loaded", "--to", "last")
    assert between.returncode == 0 and "resident" not in json.loads(between.out)


@pytest.mark.parametrize("most", [pages(40), pages(45)])
def test_the_most_is_one_number(most: int, steve: Steve, trace: Maker) -> None:
    """Of the kernel, which is known at the last look only, or of the largest look, if that has more: the process runs while
    it is looked at. Summary, resident and the page say the same, whichever look is shown."""
    trace(SCRIPT.replace("100 end - 1 0 1 0", f"100 end - 1 0 1 0 {most}"))
    highest = max(most, pages(43))
    summary = json.loads(steve("summary", "--json", "t.ljt").out)
    assert (summary["resident"], summary["resident_recorder"]) == (highest, pages(5))
    text = steve("summary", "t.ljt").out
    assert re.search(rf"bytes resident at most +{highest:,} ", text)
    assert re.search(rf"bytes resident of the recorder +{pages(5):,} ", text)
    for at, rss in (("peak", pages(43)), ("end", pages(10))):
        look = found(steve, "--at", at)
        assert (look["rss"], look["highest"]) == (rss, highest)
        title = steve("resident", "t.ljt", "--at", at).out.splitlines()[0]
        assert title.endswith(f"; at most {human_bytes(highest)} in the recording") == (highest > rss), title
    assert json.loads(steve("report", "-q", "--json", "t.ljt").out)["resident"]["highest"] == highest
    html = steve("report", "-q", "-o", "-", "t.ljt").out
    assert (
        f'title="{highest:,} bytes"' in html
        and "RSS with 20 KiB of the recorder, also between looks; 172 KiB at" in html
    )
    assert steve("check", "-q", "t.ljt", f"--fail-if=resident = {highest}").returncode == 1


def kept(recorder: int, objects: str = "") -> str:
    """A process of which 2500 pages are resident with `recorder` pages of the recorder, and 400 free in an arena."""
    own = f"mapping {RECORDER} {pages(recorder)} {RW} {pages(recorder)} - {recorder}:{ALONE}\n" if recorder else ""
    region = f"region {RECORDER} {pages(recorder)} 2\n" if recorder else ""
    other = 2500 - 400 - recorder
    return f"""\
info recorder native
{objects}stack =[arena]
stack =[recorder]
pages 9 end - 1 {pages(8)} {2 + (recorder > 0)} {1 + (recorder > 0)}
mapping {IN_ARENA} {pages(400)} {RW} {pages(400)} - 400:{ALONE}
mapping {OWN} {pages(other)} {RW} {pages(other)} - {other}:{ALONE}
{own}region {IN_ARENA} {pages(400)} 1
{region}end exit
"""


def test_free_memory_is_judged_without_the_recorder(steve: Steve, trace: Maker) -> None:
    """400 of 2500 pages are less than a fifth; of the 1500 that are not the recorder's, they are more."""
    of_free = ("findings", "--rules", "kept_free", "t.ljt")
    trace(kept(0))
    assert json.loads(steve(*of_free, "--json").out)[0]["bytes"] == 0
    trace(kept(1000))
    (finding,) = json.loads(steve(*of_free, "--json").out)
    assert (finding["bytes"], finding["resident"], finding["recorder"]) == (pages(400), pages(2500), pages(1000))
    said = "1.56 MiB of the 5.86 MiB that are resident without the recorder's 3.91 MiB"
    assert f"Free, kept by the allocator: {said} (26.67%)" in steve(*of_free).out
    html = steve("report", "-q", "-o", "-", "t.ljt").out.replace("&#39;", "'")
    assert f"{said} at the last look" in html and f"{said} (27%) at the last look" in html


@pytest.mark.parametrize(
    "name, call",
    [("jemalloc", 'mallctl("arena.4096.purge")'), ("mimalloc", "mi_collect(true)"), ("glibc", "malloc_trim(0)")],
)
def test_advice_fits_the_allocator(name: str, call: str, steve: Steve, trace: Maker) -> None:
    trace(kept(1000, f"info own_allocator {name}\n"))
    (finding,) = json.loads(steve("findings", "--json", "--rules", "kept_free", "t.ljt").out)
    assert finding["returnable"] == 0 and "hardly any of it can be returned" in finding["help"]
    free = looks.KeptFree(*(finding[key] for key in ("bytes", "whole", "bytes", "resident", "recorder")))
    whole = Trace(str(steve.folder / "t.ljt"))
    assert not any(len(batch) for batch in whole.batches())
    text = looks.free_help([looks.free_call(whole)], free)
    assert text.startswith(f"return it when much was freed ({call}), or ")
    assert ("malloc_trim" in steve("resident", "t.ljt").out) == (name == "glibc")
    assert "malloc_trim" not in steve("report", "-q", "-o", "-", "t.ljt").out or name == "glibc"
    assert ("background_thread:true" in steve("resident", "t.ljt").out) == (name == "jemalloc")


def test_advice_where_hardly_anything_can_be_returned() -> None:
    free = looks.KeptFree(1000, 100, 100, 5000, 0)
    assert looks.free_help(["malloc_trim(0)"], free).startswith("return it when much was freed (malloc_trim(0)), or ")
    assert looks.free_help(["malloc_trim(0)"], None).startswith("return it")
    assert looks.free_help(["malloc_trim(0)"], free._replace(whole=99, returnable=99)).startswith(
        "hardly any of it can be returned"
    )
    perhaps = looks.free_help(["malloc_trim(0)"], free._replace(returnable=99))
    assert perhaps.startswith("perhaps hardly any of it can be returned")


def test_a_table(steve: Steve, trace: Maker) -> None:
    trace(SCRIPT)
    text = steve("resident", "t.ljt").out
    assert text.startswith("t.ljt: 172 KiB resident (50 ns, mark loaded)")
    assert "mapped by the program itself: load (app.c:14)" in text and "shared pages divided (PSS)" in text
    assert "stacks: of 2 threads, 32 KiB reserved" in text


def test_large_stacks_name_the_functions_in_which_threads_begin(steve: Steve, trace: Maker) -> None:
    """Each function once, whatever it was doing; what has no C library below it is not in a thread."""
    size = 1 << 20
    small = f"mapping {STACK} {pages(8)} {RW} {pages(2)} - 6:0 2:{ALONE}"
    assert small in SCRIPT
    stacks = (
        "stack start_thread serve@app.c:9 draw@app.c:5\nstack start_thread serve@app.c:8\nstack main draw@app.c:5\n"
    )
    added = "N 0x600000 10 4\nN 0x600100 10 5\nN 0x600200 10 6\n"
    script = SCRIPT.replace("stack =[recorder]\n", f"stack =[recorder]\n{stacks}").replace(
        "time 20\n", f"{added}time 20\n"
    )
    assert "Stacks:" not in (trace(script), steve("resident", "t.ljt").out)[1]
    script = script.replace(f"loaded 2 {pages(8)}", f"loaded 2 {pages(400)}")
    trace(script.replace(small, f"mapping {STACK} {pages(400)} {RW} {size} - 144:0 256:{ALONE}"))
    (line,) = [line for line in steve("resident", "t.ljt").out.splitlines() if line.startswith("Stacks:")]
    assert line.startswith("Stacks: the largest has 1 MiB (--by mapping: each).")
    assert line.endswith(" Threads begin in serve (app.c).")


def test_large_static_variables_have_a_line(steve: Steve, trace: Maker) -> None:
    """Of the file that has most. The memory of zeros that follows the program's data is no file's; its row has a name, too."""
    bss = f"mapping 0x403000 {pages(2)} {RW} {pages(1)} - 1:{ALONE} 1:0"
    assert bss in SCRIPT and "Static variables" not in (trace(SCRIPT), steve("resident", "t.ljt").out)[1]
    large = SCRIPT.replace(bss, f"mapping 0x403000 {pages(400)} {RW} {pages(400)} - 400:{ALONE}")
    trace(large.replace(" 0x40", " 0x10"))  # there it does not reach to the heap
    (line,) = [line for line in steve("resident", "t.ljt").out.splitlines() if line.startswith("Static variables:")]
    assert line.startswith("Static variables: those of /bin/app have 1.57 MiB (--by library: each file).")
    names = {row["start"]: row["name"] for row in found(steve, "--by", "mapping")["rows"]}
    assert names["0x103000"] == "(static variables of /bin/app)" and names["0x102000"] == "/bin/app"


def test_findings_name_what_no_allocator_has(steve: Steve, trace: Maker) -> None:
    trace(SCRIPT)
    assert "steve resident" not in steve("findings", "t.ljt").out
    end = f"mapping {HEAP} {pages(10)} {RW} {pages(10)} [heap] 10:{ALONE}\n"
    other = f"mapping {OWN} {pages(5000)} {RW} {pages(5000)} - 5000:{ALONE}\nregion {OWN} {pages(5000)} 2\n"
    assert end in SCRIPT
    trace(SCRIPT.replace(end, end + other).replace("pages 100 end - 1 0 1 0", "pages 100 end - 1 0 2 1"))
    done = steve("findings", "t.ljt")
    assert "19.5 MiB of the 19.6 MiB that were resident at the last look, which no allocator has" in done.out, done.out


def test_pages_of_zeros_do_not_count(steve: Steve, trace: Maker) -> None:
    """Pages that were only read are all the same page of zeros, which the kernel does not count."""
    trace(
        "info recorder native\npages 5 end - 1 0 1 0\n"
        f"mapping {OWN} {pages(9)} {RW} {pages(4)} - 3:{ALONE} 5:1 1:{ALONE}\nend exit\n"
    )
    assert by_kind(found(steve)) == {"live": 0, "free": 0, "other": pages(4)}


def test_reserved_huge_pages_are_apart(steve: Steve, trace: Maker) -> None:
    trace(
        "info recorder native\npages 5 end - 1 0 2 0\n"
        f"mapping {OWN} {pages(512)} {RW | page_runs.HUGETLB} 0 /dev/hugepages/x 512:{ALONE}\n"
        f"mapping {RECORDER} {pages(1)} {RW} {pages(1)} - 1:{ALONE}\nend exit\n"
    )
    assert by_kind(found(steve)) == {"live": 0, "free": 0, "other": pages(1)}
    assert "Mappings of 2 MiB have reserved huge pages" in steve("resident", "t.ljt").out


def test_pages_of_a_fork_are_shared(steve: Steve, trace: Maker) -> None:
    """Until one of both writes to them: two pages of the heap, of which one has a block on half of it."""
    trace(
        f"info recorder native\nN {HEAP + 2 * PAGE} 2048\npages 5 end - 1 0 1 0\n"
        f"mapping {HEAP} {pages(4)} {RW} {pages(4)} [heap] 1:{ALONE} 2:1 1:{ALONE}\nend exit\n"
    )
    shared = {row["kind"]: row["shared"] for row in found(steve)["rows"]}
    assert shared == {"live": 2048, "free": pages(2) - 2048}


def test_pages_that_were_not_read(steve: Steve, trace: Maker) -> None:
    trace(f"info recorder native\npages 5 end - 1 0 1 0\nmapping {OWN} {pages(9)} {RW} {pages(4)} -\nend exit\n")
    look = found(steve)
    assert look["not_read"] == look["rss"] == pages(4) and by_kind(look)["other"] == pages(4)
    assert "could not be read, only their sums" in steve("resident", "t.ljt").out


def test_a_mapping_in_parts_is_one(steve: Steve, trace: Maker) -> None:
    trace(
        f"info recorder native\npages 5 end - 1 0 2 0\nmapping {OWN} {pages(4)} {RW} {pages(5)} - 4:{ALONE}\n"
        f"mapping {OWN + 4 * PAGE} {pages(4)} {RW | page_runs.CONTINUED} 0 - 1:{ALONE} 3:0\nend exit\n"
    )
    (row,) = found(steve, "--by", "mapping")["rows"]
    assert (row["size"], row["rss"]) == (pages(8), pages(5))
    assert by_kind(found(steve)) == {"live": 0, "free": 0, "other": pages(5)}


@pytest.mark.parametrize(
    "facts, why",
    [
        ("info recorder native\n", "without --pages"),
        ("info tool ljtrace\n", "are Valgrind's"),
        ("info recorder native\ninfo pages_problem no /proc\n", "no /proc"),
        ("info recorder native\ninfo look_at_pages yes\ninfo signal 9\n", "SIGKILL), before the first look was taken"),
    ],
)
def test_without_pages(steve: Steve, trace: Maker, facts: str, why: str) -> None:
    """The bytes of live blocks are shown all the same, and why the rest is not known."""
    trace(facts + "heap 7 lua\nN 4096 100\nN 8192 50 0 1\nF 4096\nN 16384 25\nend exit\n")
    look = found(steve)
    assert why in look["why"] and look["rss"] is None
    assert {row["detail"]: row["bytes"] for row in look["rows"]} == {"malloc": 25, "lua": 50}
    assert why in steve("resident", "t.ljt").out
    result = steve("resident", "t.ljt", "--at", "loaded")
    assert result.returncode == 1 and why in result.err


def test_an_incomplete_look_is_none(steve: Steve, trace: Maker) -> None:
    """The file lacks mappings that the look has announced."""
    trace("info recorder native\npages 5 end - 1 0 3 0\nmapping 4096 4096 3 4096 - 1:9\nend exit\n")
    assert found(steve)["rss"] is None
    assert "the file ends within the first look" in steve("resident", "t.ljt").out


def test_a_pipe_is_refused(steve: Steve, trace: Maker) -> None:
    result = steve("resident", "-", stdin=trace(SCRIPT).read_bytes())
    assert result.returncode == 2 and "read twice" in result.err


# -- any process -------------------------------------------------------------------------------------------------------


PLACES = (0, PAGE, 0x10000, ARENA, 2 * ARENA, HEAP, FILE, 2**47, 2**64 - 2 * PAGE)
NAMES = ("-", "[heap]", "[stack]", "/bin/app", "/lib/libljtrace-native.so", "[anon:x]", "[vdso]")


def odd_script(choose: random.Random) -> str:
    # -- any process -----------------------------------------------------------------------------------------------------

    def place(size: int) -> int:
        at = choose.choice((*PLACES, PAGE * choose.randrange(64)))
        return at if at + size < 2**64 else 0

    lines = ["info recorder native", "stack main a", "stack =[recorder]", "heap 7 lua", "time 3"]
    for _ in range(choose.randrange(12)):
        size = choose.choice((0, 1, 50, PAGE, 100000, 2**40))
        lines.append(f"N {place(size + 8) + choose.choice((0, 8))} {size} {choose.randrange(3)} {choose.randrange(2)}")
    mappings, regions = choose.randrange(1, 8), choose.randrange(5)
    lines.append(f"pages {choose.randrange(6)} end - 3 {choose.choice((0, PAGE, 8 << 20))} {mappings} {regions}")
    for _ in range(mappings):
        size = choose.choice((PAGE, pages(16), ARENA, 2**30, 2**40, pages(choose.randrange(1, 20))))
        left, runs = size // PAGE, []
        while left and len(runs) < 8:
            some = choose.randrange(1, left + 1) if len(runs) < 7 else left
            runs.append(f"{some}:{choose.randrange(16)}")
            left -= some
        head = f"mapping {place(size)} {size} {choose.randrange(64)} {choose.choice((0, PAGE, size))}"
        lines.append(" ".join([head, choose.choice(NAMES), *(runs if choose.random() < 0.8 else ())]))
    for _ in range(regions):
        size = choose.choice((1, PAGE, 5000, 2**30))
        lines.append(f"region {place(size)} {size} {choose.randrange(3)}")
    return "\n".join([*lines, "end exit\n"])


@pytest.mark.parametrize("seed", range(20))
def test_the_sum_is_right_whatever_is_in_the_file(steve: Steve, trace: Maker, seed: int) -> None:
    trace(odd_script(random.Random(seed)))
    look = found(steve)
    assert sum(by_kind(look).values()) == look["rss"]
    assert all(row["bytes"] >= 0 for row in look["rows"] if row["kind"] != "changed")
    for by in ("mapping", "site", "library"):
        assert found(steve, "--by", by)["rss"] == look["rss"]


# -- ranges ------------------------------------------------------------------------------------------------------------

LINES = st.lists(st.tuples(st.integers(0, MANY), st.integers(0, MANY)).map(sorted), max_size=8)


def union_of(pairs: list) -> Ranges:
    sides = np.array(pairs, "u8").reshape(-1, 2)
    return page_runs.union(sides[:, 0], sides[:, 1])


def points(pairs: list) -> set[int]:
    return {i for start, end in pairs for i in range(start, end)}


@given(LINES, LINES)
def test_ranges_are_sets_of_addresses(one: list, other: list) -> None:
    ranges, by = union_of(one), union_of(other)
    assert points(list(zip(ranges.starts.tolist(), ranges.ends.tolist()))) == points(one)
    assert ranges.bytes == len(points(one))
    assert (ranges.starts[1:] > ranges.ends[:-1]).all()
    assert page_runs.covered(ranges, by).sum() == len(points(one) & points(other))
    at = np.arange(MANY + 2, dtype="u8")
    assert page_runs.below(ranges, at).tolist() == [len(points(one) & set(range(i))) for i in at.tolist()]
    part = page_runs.clipped(ranges, 10, 20)
    assert part.bytes == len(points(one) & set(range(10, 20)))


@given(st.lists(st.integers(0, 2**64 - 1), max_size=20))
def test_numbers_of_runs(numbers: list[int]) -> None:
    data = bytearray()
    for number in numbers:
        while number > 127:
            data.append(number & 127 | 128)
            number >>= 7
        data.append(number)
    assert page_runs.uvarints(bytes(data)).tolist() == numbers


def test_the_table_is_not_wide(steve: Steve, trace: Maker) -> None:
    """A long detail is a line below the table."""
    trace(SCRIPT)
    table, _, below = steve("resident", "t.ljt").out.partition("\n\nfree in the allocator: ")
    assert max(map(len, table.splitlines())) <= 120 and re.search("free in the allocator$", table, re.MULTILINE)
    assert below.startswith("32 KiB in whole pages, 16 KiB of them below live blocks")
    (free,) = (row for row in found(steve)["rows"] if row["kind"] == "free")
    assert free["what"] == f"free in the allocator: {free['detail']}"


def test_what_can_be_returned_of_an_arena(steve: Steve, trace: Maker) -> None:
    """The end of an arena cannot be: the finding and the first sentence say so, as the table does."""
    facts = "info existing_blocks 0\ninfo existing_bytes 0\n"
    trace(facts + ATTACHED.replace(f" {pages(8)} ", f" {pages(512)} ").replace(" 8:", " 512:"))
    (finding,) = json.loads(steve("findings", "--json", "--rules", "kept_free", "t.ljt").out)
    assert (finding["bytes"], finding["whole"], finding["returnable"]) == (pages(512), pages(511), 0)
    text = steve("findings", "--rules", "kept_free", "t.ljt").out
    assert "2 MiB in whole pages, 0 B to 2 MiB of which can be returned to the system" in text
    html = steve("report", "-q", "-o", "-", "t.ljt").out
    assert html.count("0 B to 2 MiB of it, in whole pages, can be returned to the system") == 2
    assert "private memory of unknown owner, mapped before the attach" in html
