"""test_native_memory - memory of the recorder in the program, blocks of opened objects and of C++, limits, units.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import re
import shutil
from collections import Counter
from pathlib import Path

import pytest

from support import BUILD, SECONDS, Done, Trace, good, record, run, started, steve, wait_for

MOST_WRITABLE = 24 << 10  # bytes of the writable segments of a library inside the program
MOST_LEFT = 1 << 20  # bytes that stay in the program after a detach
LIBRARIES = ("libljtrace-native.so", "libljtrace-lua.so", "vgpreload_ljtrace-amd64-linux.so")


def natively(path: Path, argv: list[object]) -> Trace:
    return Trace(path, good(["ljtrace", "run", f"--out={path}", *argv])).check()


@pytest.mark.parametrize("library", LIBRARIES)
def test_writable_segments_are_small(library: str) -> None:
    """A collector that looks for pointers in all of them searches nothing of the recorder's tables."""
    segments = good(["readelf", "-lW", BUILD / "ljtrace" / library]).text
    sizes = [int(m[1], 16) for m in re.finditer(r"^ *LOAD(?: +0x\S+){4} +(0x\S+) +RW", segments, re.MULTILINE)]
    assert sizes and sum(sizes) < MOST_WRITABLE


def test_a_conservative_collector_works_as_without(tmp_path: Path) -> None:
    """Boehm's takes the writable segments of all objects for roots."""
    source = tmp_path / "trees.c"
    source.write_text(
        """
        #include <gc.h>
        #include <stdio.h>
        struct node { struct node *child[2]; long value; };
        static struct node *tree(int levels)
        {
            struct node *n = GC_MALLOC(sizeof *n);
            for (int i = 0; levels && i < 2; i++) n->child[i] = tree(levels - 1);
            return n;
        }
        int main(void)
        {
            GC_INIT();
            struct node *kept = tree(11);
            for (int i = 0; i < 150; i++) tree(9);
            printf("%lu collections, kept %d\\n", (unsigned long)GC_get_gc_no(), kept->child[0] != 0);
            return 0;
        }"""
    )
    if run(["gcc", "-O1", "-o", tmp_path / "trees", source, "-lgc"]).status:
        pytest.skip("Boehm's collector is not installed: apt-get install libgc-dev")
    alone = good([tmp_path / "trees"]).text
    assert int(alone.split()[0]) > 10
    assert natively(tmp_path / "n.ljt", [tmp_path / "trees"]).run.text == alone
    assert record(tmp_path / "v.ljt", [tmp_path / "trees"]).run.text == alone


def test_mappings_of_the_recorder_are_not_the_programs(tmp_path: Path) -> None:
    """Under Valgrind the library maps its tables when it meets a LuaJIT."""
    trace = record(tmp_path / "t.ljt", ["luajit", "-e", "local t = {{}}"], "--heap=mmap")
    assert "tables_map" not in steve("sites", "--json", "--keep-alloc-fns", "--by", "function", trace.path).text


# -- limits ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def greedy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that prints how many megabytes it gets."""
    folder = tmp_path_factory.mktemp("greedy")
    (folder / "greedy.c").write_text(
        """
        #include <stdio.h>
        #include <stdlib.h>
        int main(void)
        {
            int n = 0;
            free(calloc(1, 1ull << 50)); /* refused with any limit */
            while (n < 2000 && malloc(1 << 20)) n++;
            printf("%d\\n", n);
            return 0;
        }"""
    )
    good(["gcc", "-w", "-o", folder / "greedy", folder / "greedy.c"])
    return folder / "greedy"


@pytest.mark.parametrize("limit", ["v", "d"])
def test_a_limit_of_memory(limit: str, greedy: Path, tmp_path: Path) -> None:
    """The program gets what it gets without the recorder, which gives way, except its code and little else."""
    limited = f"ulimit -{limit} 150000; exec"
    alone = int(good(["sh", "-c", f"{limited} {greedy}"]).text)
    done = good(["sh", "-c", f"{limited} ljtrace run --out={tmp_path}/t.ljt {greedy}"])
    assert alone - 8 <= int(done.text) <= alone
    assert "the recording ended early: the program reached its limit of memory" in done.complaint
    trace = Trace(tmp_path / "t.ljt", done).check()
    assert trace.ending() == "detached" and trace.counts()["new"] > 50
    assert "the recording ended early" in steve("info", trace.path).text


def test_no_room_for_the_recorder(greedy: Path, tmp_path: Path) -> None:
    limited = "ulimit -v 40000; exec"
    alone = int(good(["sh", "-c", f"{limited} {greedy}"]).text)
    done = good(["sh", "-c", f"{limited} ljtrace run --out={tmp_path}/t.ljt {greedy}"])
    assert alone - 8 <= int(done.text) <= alone
    assert "nothing was recorded, and no file was written: the limit of memory" in done.complaint


def test_room_for_the_recorder_alone(tmp_path: Path) -> None:
    """A limit that has room for the recorder's tables, or for the program, but not for both."""
    limited = f"ulimit -d 30000; exec ljtrace run --out={tmp_path}/t.ljt"
    done = good(["sh", "-c", f"{limited} luajit -e 'local t = {{}} for i = 1, 1000 do t[i] = {{}} end print(#t)'"])
    assert done.text == "1000\n" and "nothing was recorded, and no file was written" in done.complaint


def test_memory_without_a_limit(greedy: Path, tmp_path: Path) -> None:
    """What is refused for its size alone does not end the recording."""
    trace = natively(tmp_path / "t.ljt", [greedy])
    assert trace.run.text == "2000\n" and trace.counts()["new"] >= 2000 and trace.ending() == "exit"


# -- after a detach --------------------------------------------------------------------------------------------

FUNCTIONS = """
local f, ticks = {}, io.open(arg[1], "w")
ticks:setvbuf("no")
for i = 1, 1500 do
  f[i] = assert(loadstring(("local f, n = ... if n > 0 then return (f[1 + %d * n % 1500](f, n - 1)), 1 end return {}")
    :gsub("%%d", i * 7)))
end
repeat
  for i = 1, 1500 do f[i](f, i % 8) end
  collectgarbage()
  ticks:write("x")
until io.open(arg[2])
"""


def own_bytes(pid: int) -> int:
    """Memory of the process that is neither in files nor shared."""
    return 1024 * int(re.findall(r"^RssAnon:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)[0])


def test_little_memory_stays_after_a_detach(tmp_path: Path) -> None:
    """The program has some thousand stacks, each of which took a page or more."""
    script, ticks, stop, path = (tmp_path / name for name in ("f.lua", "ticks", "stop", "t.ljt"))
    script.write_text(FUNCTIONS)

    def rounds(n: int) -> None:
        end = ticks.stat().st_size + n
        wait_for(lambda: ticks.stat().st_size >= end, f"{n} rounds")

    with started(["luajit", "-joff", script, ticks, stop]) as process:
        wait_for(ticks.exists, "the script runs")
        rounds(5)
        before = own_bytes(process.pid)
        with started(["ljtrace", "attach", f"--out={path}", process.pid]) as recorder:
            wait_for(lambda: path.exists() and path.stat().st_size > 500, "events are written")
            rounds(3)
            during = own_bytes(process.pid)
            good(["ljtrace", "detach", process.pid])
            assert recorder.wait(SECONDS) == 0
        rounds(3)
        after = own_bytes(process.pid)
        stop.touch()
        assert process.wait(SECONDS) == 0
    assert Trace(path, Done(0, b"", b"")).check().counts()["new"] > 5000
    assert during - before > 2 * MOST_LEFT > 2 * (after - before)


# -- what is recorded ------------------------------------------------------------------------------------------


def events(trace: Trace) -> Counter[tuple[str, str, str]]:
    """How many events of each kind, size and function there are."""
    return Counter((e[0], e[3], e[5]) for e in trace.events() if e[0] in ("new", "free", "resize", "badfree"))


HOST = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static void use(const char *path, int mode, int closes)
{
    void *object = dlopen(path, mode);
    if (!object) exit(3);
    void *(*make)(int) = (void *(*)(int))dlsym(object, "make");
    void (*end)(void *) = (void (*)(void *))dlsym(object, "end");
    end(make(1001)); /* before any other call of this program */
    for (int i = 0; i < 20; i++) { end(make(1002)); free(make(1003)); void *p = malloc(1004); end(p); }
    if (closes) dlclose(object);
}
int main(int n, char **words)
{
    const int mode = (strcmp(words[1], "lazy") == 0 ? RTLD_LAZY : RTLD_NOW) | (n > 2 ? RTLD_DEEPBIND : 0);
    for (int i = 0; i < 3; i++) { use("PLAIN", mode, 1); use("CXX", mode, 1); }
    use("PLAIN", mode, 0); use("CXX", mode, 0);
    return 0;
}
"""
NEEDED_C = """
#include <stdlib.h>
static void *s_kept;
__attribute__((constructor)) static void begin(void) { s_kept = malloc(2001); }
void *needed(int n) { return calloc(1, n); }
void gone(void *p) { free(s_kept); s_kept = NULL; free(p); }
"""
PLAIN_C = """
void *needed(int n);
void gone(void *p);
void *make(int n) { return needed(n); }
void end(void *p) { gone(p); }
"""
PLUGIN_CC = """
#include <cstdlib>
#include <string>
#include <vector>
static std::string s_kept(3001, 'x');
extern "C" void *make(int n) { delete new std::vector<char>(n); return std::malloc(n); }
extern "C" void end(void *p) { std::free(p); }
"""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program in C that opens two objects: one that needs a library of its own, and one in C++."""
    folder = tmp_path_factory.mktemp("host")
    (folder / "needed.c").write_text(NEEDED_C)
    (folder / "plain.c").write_text(PLAIN_C)
    (folder / "plugin.cc").write_text(PLUGIN_CC)
    plain, cxx = folder / "plain.so", folder / "plugin.so"
    (folder / "host.c").write_text(HOST.replace("PLAIN", str(plain)).replace("CXX", str(cxx)))
    flags = ("-O0", "-w", "-shared", "-fPIC")
    good(["gcc", *flags, "-o", folder / "libneeded.so", folder / "needed.c"])
    good(["gcc", *flags, "-o", plain, folder / "plain.c", f"-L{folder}", "-lneeded", f"-Wl,-rpath,{folder}"])
    good(["g++", *flags, "-Wl,-z,now", "-o", cxx, folder / "plugin.cc"])
    good(["gcc", "-O0", "-w", "-o", folder / "host", folder / "host.c"])
    return folder / "host"


@pytest.mark.parametrize("words", [["now"], ["now", "deep"], ["lazy", "deep"]], ids=" ".join)
def test_objects_that_are_opened(words: list[str], host: Path, tmp_path: Path) -> None:
    """Those opened with RTLD_DEEPBIND, as PHP's modules are, look for malloc in their own libraries first. Their
    constructors allocate, and a program in C has no operators of C++ but those of the plugin."""
    ours, theirs = natively(tmp_path / "n.ljt", [host, *words]), record(tmp_path / "v.ljt", [host, *words])
    found, expected = ({k: n for k, n in events(t).items() if int(k[1]) > 1000} for t in (ours, theirs))
    assert found == expected and found["new", "2001", "malloc"] == 4
    assert ours.counts()["new"] == theirs.counts()["new"] and ours.counts()["badfree"] == 0


ALIGNED_CC = """
#include <cstdlib>
#include <new>
#include <vector>
#ifdef POOLS
#include <memory_resource>
#endif
struct alignas(64) wide { char c[100]; wide() : c{} {} };
struct alignas(32) ended { int i; ended() : i(1) {} ~ended() { i = 0; } };
static void raw(std::size_t size, std::size_t align)
{
    std::align_val_t a{align};
    ::operator delete(::operator new(size, a), a);
    ::operator delete[](::operator new[](size, a, std::nothrow), size, a);
}
int main()
{
    for (std::size_t size : {0, 1, 63, 64, 65, 1016}) for (std::size_t align : {16, 64, 1024, 4096}) raw(size, align);
    delete new wide; delete[] new wide[3]; delete[] new ended[5]; delete new (std::nothrow) ended;
    ::operator delete(::operator new(0)); ::operator delete[](::operator new[](0));
    std::free(std::aligned_alloc(64, 128));
    std::vector<wide> v(7); v.resize(9);
#ifdef POOLS
    std::pmr::unsynchronized_pool_resource pool;
    std::pmr::vector<int> numbers(&pool);
    for (int i = 0; i < 3000; i++) numbers.push_back(i);
    for (int i = 1; i < 200; i++) (void)pool.allocate(i, 128);
#endif
}
"""


COMPILERS = {"libstdc++": ["g++", "-DPOOLS"], "libc++": ["clang++-14", "-stdlib=libc++"]}


@pytest.mark.parametrize("compiler", COMPILERS.values(), ids=COMPILERS)
def test_sizes_of_aligned_blocks(compiler: list[str], tmp_path: Path) -> None:
    """They are what the program asked for, and not what the C++ library makes of it."""
    source, program = tmp_path / "aligned.cc", tmp_path / "aligned"
    source.write_text(ALIGNED_CC)
    if run([*compiler, "-std=c++17", "-O0", "-w", "-o", program, source]).status:
        assert compiler[0] != "g++"
        pytest.skip("libc++ is not installed: apt-get install clang-14 libc++-14-dev libc++abi-14-dev")
    ours, theirs = natively(tmp_path / "n.ljt", [program]), record(tmp_path / "v.ljt", [program])
    assert events(ours) == events(theirs) and ("new", "1016", "new") in events(ours)


def test_mismatched_frees_are_not_unmatched(tmp_path: Path) -> None:
    source, program = tmp_path / "mixed.cc", tmp_path / "mixed"
    source.write_text(
        "#include <cstdlib>\n"
        "int main() { std::free(new int); delete static_cast<int *>(std::malloc(9)); delete new int[3]; }\n"
    )
    good(["g++", "-O0", "-w", "-o", program, source])
    for trace in (natively(tmp_path / "n.ljt", [program]), record(tmp_path / "v.ljt", [program])):
        summary = steve("summary", trace.path).text
        assert re.search(r"unmatched frees +0\n", summary) and re.search(r"mismatched frees +3\n", summary)
        assert '"mismatched_frees": 3' in steve("summary", "--json", trace.path).text
        assert "Mismatched frees: 3" in steve("findings", "--rules", "errors", trace.path).text


def test_the_unit_of_times_is_named(tmp_path: Path) -> None:
    """The clock of the native recorder counts nanoseconds."""
    program = shutil.which("true")
    ours, theirs = natively(tmp_path / "n.ljt", [program]), record(tmp_path / "v.ljt", [program])
    for trace, name, dhat, massif in ((ours, "nanoseconds", '"ns"', "ms"), (theirs, "instructions", '"instrs"', "i")):
        assert f"lifetimes in {name}" in steve("lifetimes", "--unit", "instructions", trace.path).text
        assert f'"tu": {dhat}' in steve("export", "--format=dhat", "-o", "-", trace.path).text
        assert f"time_unit: {massif}\n" in steve("export", "--format=massif", "-o", "-", trace.path).text
        assert re.search(rf"^{name} ", steve("summary", trace.path).text, re.MULTILINE)
