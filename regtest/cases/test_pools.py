"""test_pools - `ljtrace run --pool-fn` records the blocks of pools, which end with their pools.

`steve sites --by pool` has their sums.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from support import NATIVE, SOURCE, Done, Trace, collectors_of, good, native, natively, run, started, steve, wait_for

sys.path.insert(0, str(SOURCE / "regtest/programs"))
from servers import HTTP, SERVERS  # noqa: E402
from serving import Place, as_user, prepare  # noqa: E402

POOLED = NATIVE / "pooled"
OWN = [
    f"--pool-fn={each}"
    for each in (
        "pool_new:make",
        "pool_get:alloc",
        "pool_zeroed:alloc:pool,count,size",
        "pool_reset:clear",
        "pool_delete:end",
    )
]
APR = r"""
#include <apr_general.h>
#include <apr_pools.h>
#include <apr_strings.h>
static apr_pool_t *root;
__attribute__((noinline)) static apr_pool_t *of_connection(void)
{
    apr_pool_t *p;
    apr_pool_create(&p, root);
    for (int i = 0; i < 100; i++)
        apr_pstrdup(p, "0123456789");
    return p;
}
__attribute__((noinline)) static void of_request(apr_pool_t *connection)
{
    apr_pool_t *p;
    apr_pool_create(&p, connection);
    for (int i = 0; i < 50; i++)
        apr_pcalloc(p, 200);
    apr_pool_clear(p);
    apr_palloc(p, 3001);
}
int main(void)
{
    apr_initialize();
    apr_pool_create(&root, NULL);
    for (int i = 0; i < 5; i++) {
        apr_pool_t *p = of_connection();
        for (int k = 0; k < 10; k++)
            of_request(p);
        if (i != 3)
            apr_pool_destroy(p); /* and the pools of its requests */
    }
    return 0;
}
"""


TALLOC = r"""
#include <stdio.h>
#include <talloc.h>
struct session { int n; char *name; };
struct request { int n; };
static int saw;
static int on_end(struct request *r) { saw += r->n; talloc_free(talloc_new(NULL)); return 0; }
__attribute__((noinline)) static struct session *open_session(void *all, int n)
{
    struct session *s = talloc(all, struct session);
    s->name = talloc_asprintf(s, "session %04d", n); /* 13 */
    for (int i = 0; i < 10; i++)
        talloc_strdup(s, "0123456789"); /* 11 */
    return s;
}
__attribute__((noinline)) static void serve(struct session *s)
{
    struct request *r = talloc_zero(s, struct request);
    r->n = 1;
    talloc_set_destructor(r, on_end);
    int *list = talloc_array(r, int, 10);
    char *text = talloc_strdup(list, "a");
    for (int i = 0; i < 100; i++)
        list = talloc_realloc(r, list, int, 20 + 1000 * i); /* moves; text is in it */
    text = talloc_asprintf_append(text, "bcd");
    talloc_free(r);
    r = NULL;
}
__attribute__((noinline)) static char *kept(void *all, struct session *s)
{
    void *t = talloc_new(s);
    char *k = talloc_strdup(t, "stays after all");
    talloc_steal(all, k);
    talloc_free(t);
    return k;
}
int main(void)
{
    void *all = talloc_named_const(NULL, 0, "all");
    void *unseen = talloc_init("of %s", "varying arguments");
    talloc_strdup(unseen, "abc");
    talloc_free(unseen);
    for (int i = 0; i < 5; i++) {
        struct session *s = open_session(all, i);
        for (int k = 0; k < 4; k++)
            serve(s);
        kept(all, s);
        if (i != 3)
            talloc_free(s);
    }
    printf("%d %zu %zu\n", saw, talloc_total_size(all), talloc_total_blocks(all));
    void *deep = all;
    for (int i = 0; i < 20000; i++)
        deep = talloc_named_const(deep, 8, "deep");
    return 0;
}
"""
# its pool is what a variable points to, and a pool ends with the one in which it was made
CURRENT = r"""
#include <stdio.h>
#include <stdlib.h>
struct arena { char memory[1 << 16]; int used; };
static struct arena *current;
__attribute__((noipa)) struct arena *arena_new(struct arena *outer, const char *name, int a, int b, int c, int d)
{
    if (a + b + c + d != 10)
        abort();
    (void)outer, (void)name;
    return calloc(1, sizeof(struct arena));
}
__attribute__((noipa)) void *get(int size)
{
    current->used += size;
    return current->memory + current->used - size;
}
__attribute__((noipa)) void arena_end(struct arena *a) { free(a); }
int main(int argc, char **argv)
{
    struct arena *outer = arena_new(NULL, "outer", 1, 2, 3, 4), *last = NULL;
    if (argc > 1) {
        puts("ready");
        fflush(stdout);
        getchar();
    }
    for (int i = 0; i < 10; i++) {
        current = last = arena_new(outer, i % 2 ? "odd" : "even", 1, 2, 3, 4);
        for (int k = 0; k < 20; k++)
            get(100);
        current = outer;
        get(7);
    }
    arena_end(outer);
    current = last = arena_new(NULL, "later", 1, 2, 3, 4);
    get(50);
    return !last;
}
"""
CURRENT_FUNCTIONS = [
    f"--pool-fn={each}"
    for each in ("arena_new:make:parent,name,_,_,_,_", "get:alloc:size,pool=current", "arena_end:end", "?none:make")
]


def pools(trace: Trace) -> dict[str, tuple[int, int, int]]:
    """By the function that makes pools: how many blocks they had, of how many bytes, and the bytes at the end."""
    rows = json.loads(steve("sites", "--by", "pool", "--json", trace.path).text)
    return {
        row["site"].removeprefix("pools of ").split(" (")[0]: (row["blocks"], row["bytes"], row["live_bytes_at_end"])
        for row in rows
    }


def is_sound(trace: Trace) -> bool:
    counts = trace.check().counts()
    return counts["badfree"] == 0 and "dropped events 0" in " ".join(steve("summary", trace.path).text.split())


def test_functions_of_the_program(tmp_path: Path) -> None:
    trace = natively(tmp_path / "t.ljt", [POOLED], *OWN)
    assert trace.run.status == 0 and trace.run.text == "session 5000\n"
    found = pools(trace)
    assert found["of_session"] == (60, 6000, 5000)
    assert found["of_request"] == (50 * 21, 50 * (20 * 200 + 30), 0)
    assert found["C heap"][2] < 4096 + 100  # pieces are containers; what is left is of stdio
    assert is_sound(trace)
    assert "pool_get (pooled.c:" in steve("leaks", trace.path).text


def test_many_pools_are_few_heaps(tmp_path: Path) -> None:
    """A heap for each place that makes pools, not for each pool."""
    trace = natively(tmp_path / "t.ljt", [POOLED, "3000"], *OWN)
    assert pools(trace)["of_request"][0] == 3000 * 21
    recording = json.loads(steve("info", "--json", trace.path).text)["recording"]
    assert len([key for key in recording if key.startswith("heap_name.")]) == 2


def test_apr(tmp_path: Path) -> None:
    """Its functions are known, and a pool within a pool ends with it."""
    config = run(["pkg-config", "--cflags", "--libs", "apr-1"])
    if config.status:
        pytest.skip("libapr1-dev is not installed")
    source, program = tmp_path / "p.c", tmp_path / "p"
    source.write_text(APR)
    good(["gcc", "-g", "-O1", "-o", program, source, *config.text.split()])
    trace = natively(tmp_path / "t.ljt", [program], "--pool-fn=apr")
    assert trace.run.status == 0, trace.run.complaint
    found = pools(trace)
    assert found["of_connection"] == (500, 500 * 11, 100 * 11)
    assert found["of_request"] == (50 * 51, 50 * (50 * 200 + 3001), 10 * 3001)
    assert is_sound(trace)


def test_nginx(tmp_path: Path) -> None:
    """Debian's has no symbols but those it exports. Each request and each connection has a pool, which ends with it."""
    if not shutil.which("nginx"):
        pytest.skip("nginx is not installed")
    (server,) = (each for each in SERVERS if each.name == "nginx")
    found = {}
    for connections in (10, 20):
        path = tmp_path / f"{connections}.ljt"
        with tempfile.TemporaryDirectory(prefix="lj-", dir="/tmp") as short:
            place = Place(server, prepare(server, tmp_path / f"{connections}"), Path(short) / "s")
            with started([*native(path, "--pool-fn=nginx"), *place.words(server.argv)], cwd=place.here) as process:
                wait_for(lambda: (place.here / "socket").exists() or process.poll() is not None, "it listens")
                for _ in range(connections):  # with three requests each
                    assert place.client([*HTTP, *["http://x/index.html"] * 3]).text == "hello\n" * 3
                process.send_signal(signal.SIGQUIT)
                assert process.wait() == 0
            wait_for(lambda: not collectors_of(path), "the traces are complete")
        (worker,) = (Trace(each, Done(0, b"", b"")) for each in tmp_path.glob(f"{connections}.*.ljt"))
        found[connections] = pools(worker)
        assert is_sound(worker) and is_sound(Trace(path, Done(0, b"", b"")))
        assert "ngx_palloc" in steve("sites", worker.path).text
    for name, few in found[10].items():
        many = found[20][name]
        if name == "ngx_event_accept":
            assert few[0] >= 10 and many[:2] == (2 * few[0], 2 * few[1]) and few[2] == many[2] == 0
        elif name == "ngx_init_cycle":  # the pool of the configuration
            assert few == many and few[0] > 100 and few[2] == 0
        elif name != "C heap":  # of ngx_http_alloc_request, which is static
            assert few[0] >= 30 and many[:2] == (2 * few[0], 2 * few[1]) and few[2] == many[2] == 0
    assert len(found[10]) == 4, found[10]


def test_talloc(tmp_path: Path) -> None:
    """A block is a pool, too: what is in it ends with it, unless it is moved to another, and stays in it when it is resized."""
    config = run(["pkg-config", "--cflags", "--libs", "talloc"])
    if config.status:
        pytest.skip("libtalloc-dev is not installed")
    source, program = tmp_path / "p.c", tmp_path / "p"
    source.write_text(TALLOC)
    good(["gcc", "-g", "-O1", "-o", program, source, *config.text.split()])
    trace = natively(tmp_path / "t.ljt", [program], "--pool-fn=talloc")
    assert trace.run.status == 0 and not trace.run.complaint.count("--pool-fn"), trace.run.complaint
    assert (
        trace.run.text == "20 219 18\n"
    ), "what talloc says: 219 bytes in 18 blocks remain, and the deep ones come later"
    found = pools(trace)
    of_session = 13 + 10 * 11
    assert found["struct session, pools of open_session"] == (5 * 11 + 5 + 20, 5 * (of_session + 4 * 4), of_session)
    arrays = sum(4 * (20 + 1000 * i) for i in range(100))
    assert found["struct request, pools of serve"] == (20 * 101, 20 * (arrays + 40), 0)
    assert found["int, pools of serve"] == (20 * 2, 20 * (2 + 5), 0)
    kept = next(name for name in found if name.startswith("talloc_new: ") and name.endswith(", pools of kept"))
    assert found[kept] == (5, 5 * 16, 5 * 16), "moved to another pool"
    assert found["all, pools of main"] == (6, 5 * 16 + 8, 16 + 8)
    assert found["deep, pools of main"] == (19999, 8 * 19999, 8 * 19999)
    assert found["pools from before"] == (1, 4, 0), "how it was made is not seen, but its end is"
    assert found["in no pool"] == (21, 0, 0), "those that destructors free have ended"
    assert is_sound(trace)


def test_postgres(tmp_path: Path) -> None:
    """Its contexts have names, and the one of an allocation is in a variable. What Postgres says of them agrees."""
    (server,) = (each for each in SERVERS if each.name == "postgres")
    if not Path(server.argv[0]).exists():
        pytest.skip("postgresql 15 is not installed")
    query = "select name, sum(used_bytes), count(*) from pg_backend_memory_contexts group by name"
    work = "select count(*), max(length(b)) from (select repeat('x', i % 100) b from generate_series(1, 3000) i) t"
    with tempfile.TemporaryDirectory(prefix="lj-", dir="/tmp") as short:
        os.chmod(short, 0o777)
        place = Place(server, prepare(server, Path(short) / "p"), Path(short) / "s")
        path = place.here / "t.ljt"
        argv = [
            *as_user(server),
            *native(path, "--pool-fn=postgres"),
            *place.words(server.argv)[len(as_user(server)) :],
        ]
        with started(argv, cwd=place.here, stderr=subprocess.PIPE) as process:
            wait_for(lambda: place.client(server.ready).status == 0 or process.poll() is not None, "it answers")
            psql = ["psql", "-h", "{here}", "-U", "me", "-Atc", work, "-c", "select pg_backend_pid()", "-c", query]
            answer = place.client([*psql, "postgres"]).text.splitlines()
            process.send_signal(signal.SIGINT)
            _, complaint = process.communicate()
            assert process.returncode == 0 and b"--pool-fn" not in complaint, complaint
        wait_for(lambda: not collectors_of(path), "the traces are complete")
        for each in place.here.glob("t*.ljt"):
            assert is_sound(Trace(each, Done(0, b"", b"")))
        found = pools(Trace(path.with_name(f"t.{answer[1]}.ljt"), Done(0, b"", b"")))
    assert answer[0] == "3000|99"
    used = {name: (int(size), int(count)) for name, size, count in (line.split("|") for line in answer[2:])}
    for name, least in (("WAL record construction", 0.95), ("CacheMemoryContext", 0.5), ("TopMemoryContext", 0.3)):
        (live,) = (row[2] for pool, row in found.items() if pool.startswith(f"{name}, pools of "))
        assert least * used[name][0] < live <= used[name][0], name
    blocks, size, live = found["ExecutorState, pools of CreateExecutorState"]
    assert blocks > 50 and size > 10000 and live == 0, "a query's blocks end with it"
    assert sum(row[0] for pool, row in found.items() if pool.startswith("ExprContext, ")) > 3000


def test_pool_in_a_variable(tmp_path: Path) -> None:
    """Of six arguments each gets to the function."""
    source, program = tmp_path / "p.c", tmp_path / "p"
    source.write_text(CURRENT)
    good(["gcc", "-g", "-O1", "-o", program, source])
    trace = natively(tmp_path / "t.ljt", [program], *CURRENT_FUNCTIONS)
    assert trace.run.status == 0 and "--pool-fn" not in trace.run.complaint, trace.run.complaint
    found = pools(trace)
    expected = {"even": (100, 10000, 0), "odd": (100, 10000, 0), "outer": (10, 70, 0), "later": (1, 50, 50)}
    assert {name: found[f"{name}, pools of main"] for name in expected} == expected
    assert is_sound(trace)
    trace = natively(tmp_path / "u.ljt", [program], "--pool-fn=get:alloc:size,pool=recent")
    assert "--pool-fn: get is not recorded: its object has no such variable" in trace.run.complaint


def test_names_that_are_none(tmp_path: Path) -> None:
    """What cannot be read, or shown, does no harm."""
    source, program = tmp_path / "p.c", tmp_path / "p"
    source.write_text(
        "#include <stdlib.h>\n"
        "__attribute__((noipa)) void *make(const char *name) { (void)name; return malloc(10); }\n"
        "__attribute__((noipa)) void *get(void *p, size_t n) { (void)p; return malloc(n); }\n"
        "int main(void) {\n"
        '    char text[300] = {0}, *names[] = {"\\xff\\x1b[31m|\\n", "", NULL, (char *)8, text, "plain"};\n'
        "    for (int i = 0; i < 299; i++) text[i] = 'x';\n"
        "    for (int i = 0; i < 6; i++) get(make(names[i]), 100);\n"
        "    return 0;\n}\n"
    )
    good(["gcc", "-g", "-O1", "-o", program, source])
    trace = natively(tmp_path / "t.ljt", [program], "--pool-fn=make:make:name", "--pool-fn=get:alloc")
    assert trace.run.status == 0 and is_sound(trace), trace.run.complaint
    found = pools(trace)
    assert found["main"] == (3, 300, 300), "an empty one, none, and one at an address without memory"
    assert found["x" * 80 + ", pools of main"] == found["plain, pools of main"] == (1, 100, 100)
    assert "\x1b" not in steve("sites", "--by", "pool", trace.path).text


def test_attach(tmp_path: Path) -> None:
    """The same while it runs: the first pool is older than the recording."""
    source, program, path = tmp_path / "p.c", tmp_path / "p", tmp_path / "t.ljt"
    source.write_text(CURRENT)
    good(["gcc", "-g", "-O1", "-o", program, source])
    with started([program, "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin and process.stdout and process.stdout.readline() == b"ready\n"
        with started(
            ["ljtrace", "attach", f"--out={path}", *CURRENT_FUNCTIONS, process.pid], stderr=subprocess.PIPE
        ) as recorder:
            wait_for(lambda: path.exists() and path.stat().st_size > 400, "it records")
            process.communicate(b"\n")
            _, complaint = recorder.communicate()
    assert process.returncode == 0 and b"--pool-fn" not in complaint, complaint
    found = pools(Trace(path, Done(0, b"", b"")).check())
    expected = {"even": (100, 10000, 0), "odd": (100, 10000, 0), "later": (1, 50, 50)}
    assert {name: found[f"{name}, pools of main"] for name in expected} == expected
    assert found["pools from before"] == (10, 70, 0)


def test_not_under_valgrind(tmp_path: Path) -> None:
    done = run(["valgrind", "--tool=ljtrace", f"--out={tmp_path / 't.ljt'}", "--pool-fn=apr", "true"])
    assert done.status != 0 and "ljtrace run or ljtrace attach" in done.complaint
    assert not (tmp_path / "t.ljt").exists()


def test_copies_of_the_compiler_are_reported(tmp_path: Path) -> None:
    """Calls of them are not seen."""
    source, program = tmp_path / "p.c", tmp_path / "p"
    source.write_text(
        "#include <stdlib.h>\n"
        "static __attribute__((noinline)) void *get(void *p, unsigned n) { return n > 9 ? malloc(n) : p; }\n"
        "int main(int argc, char **argv) { return !get(argv, 1000) + !get(argv + argc, 1000); }\n"
    )
    good(["gcc", "-O2", "-o", program, source])
    if "get.constprop" not in good(["nm", program]).text:
        pytest.skip("the compiler has made no copy")
    trace = natively(tmp_path / "t.ljt", [program], "--pool-fn=get:alloc")
    assert "--pool-fn: get is not recorded: some callers call a copy of it" in trace.run.complaint


def test_name_of_no_function(tmp_path: Path) -> None:
    trace = natively(tmp_path / "t.ljt", [POOLED], "--pool-fn=pool_knew:make")
    assert "--pool-fn: pool_knew is not recorded: no function of this name" in trace.run.complaint


@pytest.mark.parametrize(
    "value",
    ["", "x", "x:", ":make", "x:makes", "x:alloc:pool", "x:alloc:pool,size,size", "x:end:p", "x:end:_,_,_,_,_,_,pool"]
    + [
        "x:alloc:pool,size,pool=v",
        "x:alloc:pool,size=text,size",
        "x:alloc:size,pool=",
        "x:move:block",
        "x:name:name",
        "?:make",
    ],
)
def test_wrong_values(value: str) -> None:
    done = run(["ljtrace", "run", f"--pool-fn={value}", "true"])
    assert done.status == 125 and "--pool-fn takes apr, nginx, talloc, postgres, or NAME:WHAT" in done.complaint


def test_too_many_functions() -> None:
    done = run(["ljtrace", "run", *(f"--pool-fn=f{i}:make" for i in range(65)), "true"])
    assert done.status == 125 and "too many functions" in done.complaint


def test_not_in_a_sample() -> None:
    done = run(["ljtrace", "run", "--pool-fn=apr", "--sample", "true"])
    assert done.status == 125 and "--pool-fn does not go with --sample" in done.complaint
