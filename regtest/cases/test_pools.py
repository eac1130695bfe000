"""test_pools - `ljtrace run --pool-fn` records the blocks of pools, which end with their pools.

`steve sites --by pool` has their sums.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
import shutil
import signal
import sys
import tempfile
from pathlib import Path

import pytest

from support import NATIVE, SOURCE, Done, Trace, collectors_of, good, native, natively, run, started, steve, wait_for

sys.path.insert(0, str(SOURCE / "regtest/programs"))
from servers import HTTP, SERVERS  # noqa: E402
from serving import Place, prepare  # noqa: E402

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
    assert len([key for key in recording if key.startswith("heap_name.")]) == 3  # with that of pools from before


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
    ["", "x", "x:", ":make", "x:makes", "x:alloc:pool", "x:alloc:pool,size,size", "x:end:p", "x:end:_,_,_,_,pool"],
)
def test_wrong_values(value: str) -> None:
    done = run(["ljtrace", "run", f"--pool-fn={value}", "true"])
    assert done.status == 125 and "--pool-fn takes apr, nginx, or NAME:WHAT" in done.complaint


def test_too_many_functions() -> None:
    done = run(["ljtrace", "run", *(f"--pool-fn=f{i}:make" for i in range(33)), "true"])
    assert done.status == 125 and "too many functions" in done.complaint


def test_not_in_a_sample() -> None:
    done = run(["ljtrace", "run", "--pool-fn=apr", "--sample", "true"])
    assert done.status == 125 and "--pool-fn does not go with --sample" in done.complaint
