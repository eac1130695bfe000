"""test_own_allocators - programs and libraries that bring their own malloc, under both recorders.

native/ownheap.c has an allocator under any names; real ones are linked statically. What both recorders record is compared,
and what the native one cannot see must be said.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from support import (
    SECONDS,
    SOURCE,
    Done,
    Trace,
    good,
    native,
    natively,
    record,
    run,
    started,
    steve,
    wait_for,
)

RECORDERS = {"valgrind": record, "native": natively}
OWN = SOURCE / "regtest/native/ownheap.c"
HIDDEN = '-DSHARED=__attribute__((visibility("hidden")))'
WORK = {("new", "1001"): 100, ("new", "1003"): 10, ("resize", "3005"): 10, ("new", "1007"): 1}
FREED = {"1001": 100, "3005": 10}
# an operator of C++, and each function of malloc's family, with sizes that no library has
MIXED = """
#include <cstdlib>
#include <cstring>
#include <new>
#include <thread>
#include <malloc.h>
struct alignas(64) Wide { char bytes[7104]; };
static void *volatile passed;
static void work()
{
    for (int i = 0; i < 20; i++) {
        char *p = (char *)malloc(7001);
        p = (char *)realloc(p, 7103);
        free(passed = p);
        free(passed = calloc(7, 1003));
        void *q = nullptr;
        if (posix_memalign(&q, 256, 7019) == 0)
            free(passed = q);
        char *a = new char[7027];
        passed = a;
        delete[] a;
        passed = ::operator new(7039, std::nothrow);
        ::operator delete(passed);
        delete (Wide *)(passed = new Wide);
        try {
            passed = ::operator new((size_t)-1 / 4);
        } catch (std::bad_alloc &) { // the allocator's own function has thrown, for which libstdc++ allocates
            free(passed = malloc(7069));
        }
    }
}
int main()
{
    std::thread t(work);
    work();
    t.join();
    passed = malloc(7057);
    return 0;
}
"""


def built(folder: Path, *options: object, source: Path = OWN, name: str = "p") -> Path:
    good(["gcc", "-g", "-O1", "-w", "-I", SOURCE, "-o", folder / name, source, *options, "-pthread", "-ldl"])
    return folder / name


def events(trace: Trace, sizes: set[str] | None = None) -> Counter[tuple[str, str]]:
    """The number of events by kind and size, of blocks of these sizes; None: of those that native/ownheap.c makes."""
    wanted = sizes or {"1001", "1003", "3005", "1007", "1009", "5003"}
    return Counter((e[0], e[3]) for e in trace.events() if e[0] == "badfree" or e[3] in wanted)


def all_of_work(times: int = 1) -> dict[tuple[str, str], int]:
    found = {**WORK, **{("free", size): n for size, n in FREED.items()}}
    return {key: n * times for key, n in found.items()}


def said(trace: Trace) -> str:
    """What the trace says of what was not recorded: in `steve info`, and as a remark of `steve summary`."""
    summary = steve("summary", "--json", trace.path)
    remarks = json.loads(summary.text).get("not_recorded", [])
    text = steve("info", trace.path).text
    assert all(sentence in summary.complaint for sentence in remarks)
    return " ".join([*remarks, text])


def library(name: str) -> Path:
    found = good(["gcc", f"-print-file-name={name}"]).text.strip()
    if not Path(found).is_absolute():
        pytest.skip(f"no {name}")
    return Path(found)


@pytest.mark.parametrize("archive", ["libjemalloc.a", "libtcmalloc_minimal.a"])
def test_allocators_that_are_linked_statically(archive: str, tmp_path: Path) -> None:
    """Both recorders have the same events, and no free is called an error."""
    source, program = tmp_path / "p.cc", tmp_path / "p"
    source.write_text(MIXED)
    whole = ["-Wl,--whole-archive", library(archive), "-Wl,--no-whole-archive"]
    good(["g++", "-std=c++17", "-g", "-O1", "-fno-builtin", "-o", program, source, *whole, "-pthread", "-ldl", "-lm"])
    sizes = {"7001", "7103", "7021", "7019", "7027", "7039", "7104", "7057", "7069"}
    found = {name: events(recorder(tmp_path / f"{name}.ljt", [program]), sizes) for name, recorder in RECORDERS.items()}
    assert found["native"] == found["valgrind"]
    assert (
        found["native"][("new", "7069")] == found["native"][("new", "7027")] == found["native"][("free", "7104")] == 40
    )
    assert found["native"][("resize", "7103")] == 40 and not any(kind == "badfree" for kind, _ in found["native"])


@pytest.mark.parametrize("shared", ["exported", "hidden"])
def test_functions_of_the_executable(shared: str, tmp_path: Path) -> None:
    program = built(tmp_path, "-rdynamic" if shared == "exported" else HIDDEN)
    trace = natively(tmp_path / "t.ljt", [program, "work"])
    assert trace.run.status == 7 and events(trace) == all_of_work()
    assert "work (ownheap.c:" in steve("sites", trace.path).text


def test_functions_without_symbols_are_reported(tmp_path: Path) -> None:
    program = built(tmp_path, HIDDEN, "-s")
    trace = natively(tmp_path / "t.ljt", [program, "work", "big"])
    assert not events(trace)
    assert trace.run.complaint.count("hardly any block was recorded") == 1 and "--alloc-prefix" in trace.run.complaint
    assert "hardly any block was recorded" in said(trace) and "not seen: used" in said(trace)


def test_a_trace_without_blocks_is_remarked_on(tmp_path: Path) -> None:
    for name, recorder in RECORDERS.items():
        trace = recorder(tmp_path / f"{name}.ljt", [built(tmp_path, HIDDEN, "-s"), "work"])
        assert trace.counts()["new"] == 0
        assert ("the trace has no blocks" if name == "native" else "not seen: mapped") in said(trace)


@pytest.mark.parametrize("recorder", RECORDERS)
def test_a_prefix(recorder: str, tmp_path: Path) -> None:
    """Sites begin in the program, not in what the compiler has inlined in the allocator. `grown_` is no allocator."""
    program = built(tmp_path, "-DPREFIX=zz_", "-fno-inline-small-functions")
    trace = RECORDERS[recorder](tmp_path / "t.ljt", [program, "work"], "--alloc-prefix=zz_")
    assert events(trace) == all_of_work() and {e[6] for e in trace.events() if e[3] == "1001"} != {"0"}
    sites = json.loads(steve("sites", "--json", trace.path).text)
    assert {row["site"].split(" <")[0].split(":")[0] for row in sites if row["blocks"] >= 10} == {"work (ownheap.c"}
    unseen = RECORDERS[recorder](tmp_path / "u.ljt", [program, "work"], "--alloc-prefix=none_")
    assert "--alloc-prefix=none_ names no allocation function" in unseen.run.complaint
    assert not events(unseen)


def test_a_prefix_of_jemalloc_is_recognized(tmp_path: Path) -> None:
    (tmp_path / "p.c").write_text("long _x_sallocx(void *p) { return 0; }\nint main(void) { return _x_sallocx(0); }\n")
    program = built(tmp_path, source=tmp_path / "p.c")
    why = "begin with _x_, which are not recorded without --alloc-prefix=_x_"
    trace = natively(tmp_path / "t.ljt", [program])
    assert trace.run.complaint.count(why) == 1 and why in said(trace)
    assert why not in natively(tmp_path / "u.ljt", [program], "--alloc-prefix=_x_").run.complaint


@pytest.mark.parametrize("option", ["--alloc-prefix=", "--alloc-prefix=a,b", "--alloc-prefix=a:b"])
def test_prefixes_that_are_none(option: str, tmp_path: Path) -> None:
    done = run([*native(tmp_path / "t.ljt", option), "true"])
    assert done.status == 125 and "--alloc-prefix takes" in done.complaint


def test_too_many_prefixes(tmp_path: Path) -> None:
    done = run([*native(tmp_path / "t.ljt", *[f"--alloc-prefix=p{i}_" for i in range(17)]), "true"])
    assert done.status == 125 and "given too often" in done.complaint


MALLOCX = """
#include <jemalloc/jemalloc.h>
#include <stdio.h>
#include <string.h>
int main(void)
{
    char *a = mallocx(901, MALLOCX_ALIGN(64)), *b;
    a = rallocx(a, 907, 0);
    printf("%zu ", sallocx(a, 0));
    free(a);
    b = strcpy(malloc(911), "text");
    printf("%s %zu\\n", b, malloc_usable_size(b));
    sdallocx(b, 911, 0);
    return 0;
}
"""


@pytest.mark.parametrize("recorder", RECORDERS)
def test_functions_of_jemalloc_and_of_c_free_each_others_blocks(recorder: str, tmp_path: Path) -> None:
    (tmp_path / "p.c").write_text(MALLOCX)
    program = built(tmp_path, "-ljemalloc", source=tmp_path / "p.c")
    trace = RECORDERS[recorder](tmp_path / "t.ljt", [program])
    if recorder == "native":
        assert trace.run.out == good([program]).out
    assert events(trace, {"901", "907", "911"}) == {
        ("new", "901"): 1,
        ("resize", "907"): 1,
        ("free", "907"): 1,
        ("new", "911"): 1,
        ("free", "911"): 1,
    }


# loads libraries, each into the program's namespace or one of its own; calls their `work` on a thread
HOST = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
static void *call(void *f)
{
    ((void (*)(void))f)();
    return 0;
}
int main(int n, char **a)
{
    for (int i = 2; i < n; i++) {
        pthread_t t;
        void *h = a[1][0] == 'n' ? dlmopen(LM_ID_NEWLM, a[i], RTLD_NOW) : dlopen(a[i], RTLD_NOW), *f;
        if (!h || !(f = dlsym(h, "work")))
            return puts(dlerror()), 1;
        call(f);
        pthread_create(&t, 0, call, f);
        pthread_join(t, 0);
        dlclose(h);
    }
    return 0;
}
"""


def host(folder: Path) -> Path:
    (folder / "host.c").write_text(HOST)
    return built(folder, source=folder / "host.c", name="host")


def test_libraries_with_functions_of_their_own(tmp_path: Path) -> None:
    """They are loaded and unloaded several times, so their places in memory are used again."""
    shared = built(tmp_path, HIDDEN, "-DPLUGIN", "-shared", "-fPIC", name="plugin.so")
    trace = natively(tmp_path / "t.ljt", [host(tmp_path), "same", *[shared] * 3])
    assert trace.run.status == 0 and events(trace) == all_of_work(6)


def test_another_namespace(tmp_path: Path) -> None:
    """It has a libc of its own. What that keeps for a thread is freed when the thread ends, which is no error."""
    shared = built(tmp_path, "-DSYSTEM", "-DPLUGIN", "-shared", "-fPIC", name="plugin.so")
    trace = natively(tmp_path / "t.ljt", [host(tmp_path), "new", shared, shared])
    assert trace.run.status == 0 and events(trace) == all_of_work(4)


WRAPS = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
void *malloc(size_t size)
{
    static void *(*real)(size_t);
    if (!real)
        real = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
    char *p = real(size + 32);
    return p ? p + 32 : p;
}
void free(void *p)
{
    static void (*real)(void *);
    if (!real)
        real = (void (*)(void *))dlsym(RTLD_NEXT, "free");
    if (p)
        real((char *)p - 32);
}
int main(void)
{
    for (int i = 0; i < 50; i++)
        free(malloc(6007));
    return 0;
}
"""


def test_only_the_outermost_call_counts(tmp_path: Path) -> None:
    (tmp_path / "p.c").write_text(WRAPS)
    program = built(tmp_path, "-fno-builtin", source=tmp_path / "p.c")
    trace = natively(tmp_path / "t.ljt", [program])
    assert events(trace, {"6007", "6039"}) == {("new", "6007"): 50, ("free", "6007"): 50}


def test_a_handler_that_allocates_while_a_block_is_made(tmp_path: Path) -> None:
    trace = natively(tmp_path / "t.ljt", [built(tmp_path), "handler"])
    assert trace.run.status == 7
    assert events(trace) == {(kind, size): 1 for kind in ("new", "free") for size in ("1001", "1009")}


@pytest.mark.parametrize("option", [(), ("--sample=16",)])
def test_a_block_where_a_resize_that_runs_has_freed_its_own(option: tuple[str, ...], tmp_path: Path) -> None:
    """The free of that is recorded first; then the resize has made a block."""
    trace = natively(tmp_path / "t.ljt", [built(tmp_path), "handover"], *option)
    assert trace.run.status == 7 and trace.counts()["dropped"] == 0
    kinds = [(e[0], e[3]) for e in trace.events() if e[3] in ("1001", "1003", "3005") or e[0] == "badfree"]
    assert kinds == [
        ("new", "1001"),
        ("free", "1001"),
        ("new", "1003"),
        ("new", "3005"),
        ("free", "3005"),
        ("free", "1003"),
    ]


@pytest.mark.parametrize("allocator", ["own", "libjemalloc.so.2", ""])
def test_threads_that_resize_while_the_program_forks(allocator: str, tmp_path: Path) -> None:
    """The allocator's locks are held at a fork, when the recorder locks its ring; and a block may begin where a call that
    has not returned yet has freed its own."""
    preloaded = {} if allocator == "own" else {"LD_PRELOAD": allocator}
    program = built(tmp_path, *([] if allocator == "own" else ["-DSYSTEM", "-fno-builtin"]))
    trace = natively(tmp_path / "t.ljt", [program, "threads"], env=preloaded)
    assert trace.run.status == 7
    kinds = Counter(e[0] for e in trace.events() if e[3] == "5003")
    assert kinds["badfree"] == 0 and kinds["free"] == 3000
    summary = json.loads(steve("summary", "--json", trace.path).text)
    assert summary["dropped"] == 0 and summary["blocks"]["live_at_end"] < 50


def test_a_sample_with_blocks_that_are_all_chosen(tmp_path: Path) -> None:
    """Each of them is so much larger than the mean that the probability to miss one is below 1e-20."""
    trace = natively(tmp_path / "t.ljt", [built(tmp_path), "work"], "--sample=16")
    kinds = Counter(e[0] for e in trace.events() if e[3] in ("1001", "1003", "3005", "1007"))
    assert kinds == {"new": 121, "free": 120}, "a resize of a sampled block is a free and an allocation"


# -- programs that run --


def attached(
    program: list[object], path: Path, *options: str, until: bytes = b"recording process"
) -> tuple[Trace, Done]:
    """Record a program during one of three calls of `work`. until: what the recorder has written when the second begins."""
    pipes = {name: subprocess.PIPE for name in ("stdin", "stdout", "stderr")}
    messages = path.with_suffix(".err")
    with started(program, **pipes) as process, messages.open("wb") as err:  # type: ignore[arg-type]

        def work() -> None:
            assert process.stdin and process.stdout
            process.stdin.write(b"x")
            process.stdin.flush()
            assert process.stdout.read(1) == b"x"

        work()
        with started(["ljtrace", "attach", f"--out={path}", *options, process.pid], stderr=err) as recorder:
            wait_for(lambda: until in messages.read_bytes(), "the recording begins")
            work()
            good(["ljtrace", "detach", process.pid])
            assert recorder.wait(timeout=SECONDS) == 0
        work()
        out, complaint = process.communicate(timeout=SECONDS)
        assert (process.returncode, out, complaint) == (7, b"", b"")
    return Trace(path, Done(0, b"", messages.read_bytes())).check(), Done(process.returncode, out, complaint)


@pytest.mark.parametrize("shared", ["-rdynamic", HIDDEN], ids=["exported", "hidden"])
@pytest.mark.parametrize("options", [(), ("--alloc-prefix=zz_",)])
def test_attach(options: tuple[str, ...], shared: str, tmp_path: Path) -> None:
    program = built(tmp_path, shared, f"-DPREFIX={'zz_' if options else ''}")
    trace, _ = attached([program, "live"], tmp_path / "t.ljt", *options)
    assert events(trace) == all_of_work()


def test_attach_to_a_program_with_several_threads(tmp_path: Path) -> None:
    """Another thread may be executing the first instructions of a function, so it stays as it is; that is said."""
    trace, _ = attached([built(tmp_path, HIDDEN), "live-threads"], tmp_path / "t.ljt")
    if events(trace) == all_of_work():
        return
    why = " of the program is not recorded, and so the other functions of this allocator are not: another thread may be"
    assert trace.run.complaint.count(why) == 1 and why in said(trace) and not events(trace)


# an allocator that is linked as a library, in a process with two threads
SHARED_LIVE = """
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
#include <jemalloc/jemalloc.h>
static void *volatile passed;
static void work(void)
{
    for (int i = 0; i < 100; i++) {
        free(passed = malloc(1001));
        free(passed = calloc(1, 1003));
        passed = realloc(passed = malloc(1007), 3005);
        free(passed);
    }
#ifdef NAMED
    dallocx(mallocx(5003, 0), 0);
#endif
}
static void *rest(void *any)
{
    pause();
    return any;
}
int main(void)
{
    pthread_t t;
    char c;
    pthread_create(&t, NULL, rest, NULL);
    while (read(0, &c, 1) == 1) {
        work();
        if (write(1, &c, 1) != 1)
            return 1;
    }
    return 7;
}
"""


@pytest.mark.parametrize("named", [False, True], ids=["standard", "named"])
def test_attach_to_threads_with_an_allocator_in_a_library(named: bool, tmp_path: Path) -> None:
    """jemalloc's functions cannot be patched then, but calls of malloc and free need no patch. What is lacking is said at once."""
    (tmp_path / "p.c").write_text(SHARED_LIVE)
    program = built(tmp_path, *(["-DNAMED"] if named else []), "-ljemalloc", source=tmp_path / "p.c")
    trace, _ = attached([program], tmp_path / "t.ljt", until=b"libjemalloc.so.2")
    found = events(trace, {"1001", "1003", "1007", "3005", "5003"})
    assert found == {
        **{(kind, size): 100 for kind in ("new", "free") for size in ("1001", "1003")},
        ("new", "1007"): 100,
        ("resize", "3005"): 100,
        ("free", "3005"): 100,
    }
    assert json.loads(steve("summary", "--json", trace.path).text)["blocks"]["live_at_end"] == 0
    (line,) = [line for line in trace.run.complaint.splitlines() if "libjemalloc.so.2" in line]
    assert "calls of malloc, free and their relatives by other objects are recorded, but not those within it" in line
    assert "nor its functions of other names, such as mallocx" in line and line.removeprefix("ljtrace: ") in said(trace)
    assert ("(no object that is loaded needs them)" in line) is not named


def test_rust(tmp_path: Path) -> None:
    if not shutil.which("rustc"):
        pytest.skip("no rustc")
    use = "unsafe { std::ptr::read_volatile(v.as_ptr()); }"
    (tmp_path / "p.rs").write_text(f"fn main() {{ for _ in 0..50 {{ let v = vec![1u8; 8009]; {use} }} }}\n")
    good(["rustc", "-g", "-O", "-o", tmp_path / "p", tmp_path / "p.rs"])
    trace = natively(tmp_path / "t.ljt", [tmp_path / "p"])
    assert events(trace, {"8009"}) == {("new", "8009"): 50, ("free", "8009"): 50}
