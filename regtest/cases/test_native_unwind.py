"""test_native_unwind - whole programs in which stacks of the native unwinder are compared with libgcc's.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Sequence

import pytest
from support import BUILD, good

PRELOAD = BUILD / "ljtrace/test/unwind_preload.so"
PROGRAM = """\
#include <alloca.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int by_value(const void *a, const void *b)
{
    free(malloc(10));
    return *(const int *)a - *(const int *)b;
}

static void on_signal(int number)
{
    free(malloc(number));
}

static int recurse(int depth, int size)
{
    char *space = alloca(size);
    _Alignas(64) volatile char line[64];
    memset(space, 1, size);
    line[0] = space[0];
    free(malloc(size));
    return depth ? recurse(depth - 1, size + 7) + line[0] : space[size - 1];
}

static void *work(void *argument)
{
    int numbers[40];
    for (int i = 0; i < 40; i++)
        numbers[i] = i * 7919 % 101;
    qsort(numbers, 40, sizeof numbers[0], by_value);
    free(strdup("text"));
    raise(SIGUSR1);
    return (void *)(long)recurse(30, 1);
}

int main(void)
{
    pthread_t threads[8];
    char *text;
    size_t size;
    signal(SIGUSR1, on_signal);
    for (int round = 0; round < 20; round++) {
        work(NULL);
        FILE *file = open_memstream(&text, &size);
        for (int i = 0; i < 100; i++)
            fprintf(file, "%d %f\\n", i, i / 3.0);
        fclose(file);
        free(text);
        for (int i = 0; i < 8; i++)
            pthread_create(&threads[i], NULL, work, NULL);
        for (int i = 0; i < 8; i++)
            pthread_join(threads[i], NULL);
    }
    return 0;
}
"""
WAYS = {
    "gcc -O0": ("gcc", "-O0"),
    "gcc -O2": ("gcc", "-O2"),
    "gcc without frame pointer": ("gcc", "-O3", "-fomit-frame-pointer", "-mavx2"),
    "gcc with frame pointer": ("gcc", "-O2", "-fno-omit-frame-pointer"),
    "gcc, sections": ("gcc", "-O2", "-ffunction-sections", "-Wl,--gc-sections", "-static-libgcc"),
    "clang -O0": ("clang", "-O0"),
    "clang -O2": ("clang", "-O2", "-fomit-frame-pointer"),
}
PYTHON = """\
import ast, collections, ctypes, decimal, json, re, sqlite3, threading, xml.dom.minidom, zlib
def work():
    tree = ast.parse(open(json.__file__).read())
    text = json.dumps({str(i): [i, str(i), {'a': i / 3}] for i in range(2000)})
    sorted(json.loads(text).items(), key=lambda pair: re.sub('1+', 'x', pair[0]))
    xml.dom.minidom.parseString('<a>' + '<b c="d">e</b>' * 300 + '</a>').toxml()
    zlib.decompress(zlib.compress(text.encode()))
    db = sqlite3.connect(':memory:')
    db.execute('create table t (a, b)')
    db.executemany('insert into t values (?, ?)', [(i, str(i)) for i in range(500)])
    db.execute('select b, sum(a) from t group by b order by 2').fetchall()
    decimal.Decimal(2).sqrt(decimal.Context(prec=500))
    callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(lambda a, b: len(str(a)) - len(str(b)))
    ctypes.CDLL(None).qsort((ctypes.c_int * 50)(), 50, 4, callback)
threads = [threading.Thread(target=work) for _ in range(4)]
for t in threads: t.start()
for t in threads: t.join()
work()
"""


def expect_same(tmp_path: Path, argv: Sequence[object], every: int, least: int) -> None:
    """Run a program with the library, and compare at least so many stacks. As many are known by their words."""
    report = tmp_path / "report"
    good(argv, env={"LD_PRELOAD": str(PRELOAD), "UNWIND_REPORT": str(report), "UNWIND_EVERY": str(every)})
    line = re.compile(r"(\d+) compared, (\d+) wrong, \d+ frames, (\d+) known")
    sums = [line.match(text) for text in report.read_text().splitlines()]
    assert sums and all(found and found[2] == "0" for found in sums), report.read_text()
    assert max(int(found[1]) for found in sums if found) >= least, report.read_text()
    assert max(int(found[3]) for found in sums if found) >= least, report.read_text()


@pytest.mark.parametrize("way", WAYS)
def test_a_program_built_in_many_ways(tmp_path: Path, way: str) -> None:
    compiler, *options = WAYS[way]
    if not shutil.which(compiler):
        pytest.skip(f"{compiler} is not installed")
    source, program = tmp_path / "program.c", tmp_path / "program"
    source.write_text(PROGRAM)
    subprocess.run([compiler, "-pthread", "-w", "-fno-builtin", source, "-o", program, *options], check=True)
    expect_same(tmp_path, [program], 1, 5000)


def test_python(tmp_path: Path) -> None:
    expect_same(tmp_path, [sys.executable, "-c", PYTHON], 10, 1000)


def test_python_objects_by_malloc(tmp_path: Path) -> None:
    expect_same(tmp_path, ["env", "PYTHONMALLOC=malloc", sys.executable, "-c", PYTHON], 100, 1000)


def test_a_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiler starts others, which have the library, too; where gcc is ccache, also if it has seen the file before."""
    monkeypatch.setenv("CCACHE_DISABLE", "1")
    source = tmp_path / "program.c"
    source.write_text(PROGRAM)
    expect_same(tmp_path, ["gcc", "-O1", "-pthread", "-c", source, "-o", tmp_path / "program.o"], 10, 1000)
