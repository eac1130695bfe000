"""test_layers - no folder uses one that is above it, as the symbols of the object files show; what runs inside the program
calls only what it may.

Each tree has an order of its folders, the lowest first, which its README.md has, too. A folder may use those before it,
and itself. Use of headers alone (constants, types and inline functions) is not seen.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from support import BUILD, SOURCE

UNDEFINED, DEFINED = "Uv", "TDBRVWCi"


@dataclass(frozen=True)
class Tree:
    root: str
    objects: str  # what automake puts before the names of the objects of its library or program
    # folders that may not use each other stand in one group
    layers: tuple[tuple[str, ...], ...]


TREES = [
    Tree("memtrace", "libmemtrace_a-", (("base",), ("format", "blocks"), ("read", "write"), ("rewrite", "ops"))),
    Tree(
        "ljtrace/luajit",
        "ljtrace_amd64_linux-",
        (("base",), ("core",), ("jit",), ("stack",), ("state",), ("snapshot",), ("heap",)),
    ),
    Tree(
        "ljtrace/valgrind",
        "ljtrace_amd64_linux-",
        (
            ("base",),
            ("ring",),
            ("stacks",),
            ("luajit",),
            ("heaps",),
            ("instrument",),
            ("syscalls",),
            ("session",),
            (".",),
        ),
    ),
    Tree(
        "drivers",
        "(?:libreplay_a|steve_replay)-",
        (("heap",), ("base",), ("plan",), ("run",), ("measure",), ("film",), ("supervisor",), ("commands",), (".",)),
    ),
]
# programs and libraries that share nothing but a protocol and the public headers of the layers named
APART = {
    "ljtrace/frames": (),
    "ljtrace/luajit": (),
    "ljtrace/valgrind": ("ljtrace/frames", "ljtrace/luajit"),
    "ljtrace/calibrate": (),
    "ljtrace/preload": ("ljtrace/calibrate",),
    "ljtrace/native": ("ljtrace/calibrate", "ljtrace/frames", "ljtrace/luajit"),
    "ljtrace/native/unwind": ("ljtrace/frames",),
    "ljtrace/native/launcher": ("ljtrace/native/inside",),
    "ljtrace/symbols": (),
    "ljtrace/collector": ("ljtrace/symbols", "memtrace"),
    "drivers": ("memtrace",),
    "memtrace": (),
}

# What code of the native library may call: it runs at any point of the program, also in signal handlers, and may not
# allocate nor wait for a lock of the program.
PERMITTED = {
    "memory and text": """memchr memcmp memcpy memmem memmove mempcpy memset stpcpy stpncpy strchr strchrnul strcmp strcpy strcspn strlen
        strncmp strncpy strnlen strrchr strstr strtol strtoul strtoull""",
    "of whole numbers and text only": "snprintf",
    "system calls": """clock_gettime close connect fcntl geteuid getpid getsockopt madvise mmap munmap nanosleep open read
        readlink recv recvmsg sched_yield sigaction sigaltstack socket time""",
    "sets of signals": "sigaddset sigdelset sigemptyset sigfillset __libc_current_sigrtmax __libc_current_sigrtmin",
    "the dynamic linker, where the program itself has just called it, or without its lock": """_dl_find_object _r_debug
        dl_iterate_phdr dladdr dlerror dlopen dlsym""",
    "once, when the recording begins": """on_exit pthread_atfork pthread_attr_getstacksize pthread_getattr_default_np
        pthread_key_create pthread_setspecific""",
    "what libc knows": "environ getauxval gnu_get_libc_version __errno_location __libc_single_threaded __libc_stack_end",
    "a decoder of instructions, which has no state": "ZydisDecoderDecodeInstruction ZydisDecoderInit",
    "an end that cannot be": "abort",
    "the compiler and the linker": """_GLOBAL_OFFSET_TABLE_ __ehdr_start etext __divti3 __udivti3 __stack_chk_fail __start_ljtrace_lasting
        __start_ljtrace_tables __stop_ljtrace_lasting __stop_ljtrace_tables""",
}
INSTRUMENTED = re.compile(r"__(gcov|asan|ubsan|tsan|sanitizer|llvm)")
# functions of the program's that the library replaces; it may not call them, although it has some of that name
ALLOCATORS = {"malloc", "calloc", "realloc", "free", "memalign", "aligned_alloc", "posix_memalign", "valloc", "pvalloc"}


def plain(symbol: str) -> str:
    """The name without what a distribution's compiler options and other versions of glibc make of it."""
    return re.sub(r"^__(?:isoc23_)?(\w+?)(?:_chk)?$", r"\1", symbol) if re.match("__isoc|.*_chk$", symbol) else symbol


def refused(files: dict[str, Path]) -> list[str]:
    """Calls of these object files that are not permitted inside the program."""
    table = symbols(files)
    own = {symbol for _, offered in table.values() for symbol in offered} - ALLOCATORS
    may = own | {symbol for names in PERMITTED.values() for symbol in names.split()}
    return [
        f"{name} uses {symbol}"
        for name, (used, _) in table.items()
        for symbol in sorted(used)
        if not {symbol, plain(symbol)} & may and not INSTRUMENTED.match(symbol)
    ]


def objects(root: str, prefix: str) -> dict[str, Path]:
    """The object files of a tree, by the names of their sources: FOLDER/FILE."""
    found = {}
    for path in sorted((BUILD / root).rglob("*.o")):
        name = re.sub(f"^{prefix}", "", path.stem)
        source = path.relative_to(BUILD / root).parent / name
        if name != path.stem and (SOURCE / root / source).with_suffix(".c").exists():
            found[str(source)] = path
    return found


def symbols(files: dict[str, Path]) -> dict[str, tuple[set[str], set[str]]]:
    """The symbols that each object file uses and defines."""
    names = {str(path): name for name, path in files.items()}
    found: dict[str, tuple[set[str], set[str]]] = {name: (set(), set()) for name in files}
    lines = subprocess.run(["nm", "-A", *names], capture_output=True, text=True, check=True).stdout.splitlines()
    for line in lines:
        path, _, rest = line.partition(":")
        kind, symbol = rest.split()[-2:]
        used, offered = found[names[path]]
        if kind in UNDEFINED:
            used.add(symbol)
        elif kind in DEFINED:
            offered.add(symbol)
    return found


@dataclass(frozen=True)
class Use:
    user: str
    used: str
    symbol: str


def uses(files: dict[str, Path]) -> list[Use]:
    """Uses of one file's symbols by another file."""
    table = symbols(files)
    owner = {symbol: name for name, (_, offered) in table.items() for symbol in offered}
    return [
        Use(name, owner[symbol], symbol)
        for name, (used, _) in table.items()
        for symbol in sorted(used)
        if symbol in owner
    ]


def folder(name: str) -> str:
    return str(Path(name).parent)


def upward(tree: Tree, files: dict[str, Path]) -> list[Use]:
    level = {name: i for i, group in enumerate(tree.layers) for name in group}
    unknown = {folder(name) for name in files} - set(level)
    assert not unknown, f"folders of {tree.root} without a layer: {unknown}"
    return [
        use
        for use in uses(files)
        if folder(use.user) != folder(use.used) and level[folder(use.used)] >= level[folder(use.user)]
    ]


@pytest.mark.parametrize("tree", TREES, ids=lambda tree: tree.root)
def test_no_folder_uses_one_above_it(tree: Tree) -> None:
    files = objects(tree.root, tree.objects)
    assert len(files) > 20
    wrong = [f"{use.user} uses {use.symbol} of {use.used}, which is above it" for use in upward(tree, files)]
    assert not wrong, "\n".join(wrong)


def test_what_runs_in_the_program_calls_only_what_it_may() -> None:
    files = objects("ljtrace", "(?:libljtrace_native_so|libnative_lua_a)-")
    assert {"native/inside", "native/unwind"} <= {folder(name) for name in files}
    assert refused(files) == []


def test_a_refused_call_is_found(tmp_path: Path) -> None:
    """Also of a function that the library has itself."""
    source = "#include <stdio.h>\n#include <stdlib.h>\nvoid free(void *p) { puts(p); }\nvoid f(void *p) { free(p); exit(1); }"
    path = tmp_path / "a.o"
    command = ["cc", "-fPIC", "-fno-builtin", "-c", "-x", "c", "-", "-o", path]
    subprocess.run(command, input=source, text=True, check=True)
    other = tmp_path / "b.o"
    subprocess.run([*command[:-1], other], input="void free(void *); void g(void) { free(0); }", text=True, check=True)
    assert refused({"a": path, "b": other}) == ["a uses exit", "a uses puts", "b uses free"]


def included(root: str) -> set[tuple[str, str]]:
    """(file, header) for each header of this project that a source file includes."""
    found = set()
    for path in sorted((SOURCE / root).rglob("*.[ch]")):
        if "/test/" not in str(path) and "/bench/" not in str(path) and "/fuzz/" not in str(path):
            found |= {
                (str(path.relative_to(SOURCE)), header)
                for header in re.findall(r'^#include "([^"]*/[^"]*)"', path.read_text(), re.MULTILINE)
            }
    return found


@pytest.mark.parametrize("root", APART)
def test_parts_meet_only_in_their_protocols(root: str) -> None:
    allowed = (root, "ljtrace/protocol" if root.startswith("ljtrace/") else root, *APART[root])
    public = {f"memtrace/{name}.h" for name in ("memtrace", "reader", "writer", "rewrite", "ops", "stream")}
    wrong = [
        f"{file} includes {header}"
        for file, header in sorted(included(root))
        if header.split("/")[0] in ("memtrace", "ljtrace", "drivers", "steve")
        and header not in public
        and header != "ljtrace/ljtrace.h"
        and not header.startswith(tuple(f"{name}/" for name in allowed))
    ]
    assert not wrong, "\n".join(wrong)


def test_the_reader_of_luajit_is_neutral() -> None:
    """It includes the headers of no recorder, and of the C library only those without functions, and string.h, whose
    memcpy, memmove and memset are there everywhere."""
    allowed = {"stdarg.h", "stdbool.h", "stddef.h", "stdint.h", "string.h"}
    wrong = {
        (path.name, header)
        for path in sorted((SOURCE / "ljtrace/luajit").rglob("*.[ch]"))
        for header in re.findall(r'^#include [<"]([^">]*)[>"]', path.read_text(), re.MULTILINE)
        if "/" not in header and header not in allowed
    }
    assert not wrong
    files = objects("ljtrace/luajit", "libnative_lua_a-")
    assert len(files) > 20
    own = {symbol for _, offered in symbols(files).values() for symbol in offered}
    used = {symbol for needed, _ in symbols(files).values() for symbol in needed} - own
    foreign = {s for s in used if not s.startswith(("host_", "_", "lt_")) and s not in ("memcpy", "memmove", "memset")}
    assert not foreign


def ordered(tree: Tree) -> list[str]:
    return [name for group in tree.layers for name in group if name != "."]


@pytest.mark.parametrize("tree", TREES, ids=lambda tree: tree.root)
def test_readme_has_the_same_order(tree: Tree) -> None:
    above, _, below = tree.root.partition("/")
    prefix = f"{below}/" if below else ""
    rows = re.findall(rf"^\| `{prefix}([a-z/]+)/` \|", (SOURCE / above / "README.md").read_text(), re.MULTILINE)
    assert [row for row in rows if row in ordered(tree)] == ordered(tree)


def test_the_tool_has_the_same_order() -> None:
    head = (SOURCE / "ljtrace/valgrind/main.c").read_text().split("*/")[0]
    listed = re.findall(r"^ \* ([a-z/]+)/ +", head.split("Folders, from the bottom up")[1], re.MULTILINE)
    assert listed == ordered(next(tree for tree in TREES if tree.root == "ljtrace/valgrind"))


def test_a_use_upward_is_found(tmp_path: Path) -> None:
    """Two objects compiled here: base calls a function of ring."""
    sources = {
        "base/a": "void upper(void); void lower(void); void lower(void) { upper(); }",
        "ring/b": "void lower(void); void upper(void); void upper(void) { lower(); }",
    }
    files = {name: tmp_path / f"{folder(name)}.o" for name in sources}
    for name, text in sources.items():
        subprocess.run(["cc", "-c", "-x", "c", "-", "-o", files[name]], input=text, text=True, check=True)
    tree = Tree("made", "", (("base",), ("ring",)))
    assert upward(tree, files) == [Use("base/a", "ring/b", "upper")]
