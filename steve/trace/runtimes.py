"""Language runtimes with memory pools of their own: what a trace of such a program does not show, and how to see it.

A recorder sees the calls of malloc and its relatives. Many runtimes take large pieces of memory from the system or from
malloc, and hand out small blocks of them themselves. A trace does not have these blocks, and its totals look complete
nevertheless. So a runtime is recognized by the names of the object files, and by names of functions in the stacks; and
views say what is not seen.

How much that is, is not recorded. But the native recorder notes how much memory the program used at most; what is in no
block then is in pools, in stacks, and in what allocators keep.

Some pools are switched off by a variable of the environment. The recorders note which of these are set
(ljtrace/protocol/pool_settings.h).

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Callable, Iterable, NamedTuple

if TYPE_CHECKING:
    from steve.trace._memtrace import Trace

SETTING = "setting "  # what begins the names of facts on variables of the environment
PEAK = "anonymous_peak"  # the fact with the most memory that the program used, without files
OTHER_LUA = "other_lua"  # the fact that names the object file of a Lua that is not LuaJIT
NEVER = r"(?!)"
# How much is not seen: the key of an object of --json, and what is in it, too.
AMOUNTS = {
    "bytes_at_most": "with stacks and what allocators keep",
    "resident_at_most": "which are resident: what it has mapped itself, and private memory of unknown owner",
}


class Runtime(NamedTuple):
    """How a runtime is recognized and what is to be said of it.

    objects: a regular expression that fits the beginning of the name of an object file or of the executable, without
    folders; functions: one that fits the whole name of a function. hidden: what the trace does not show; remedy: how to
    see it. variable: of the environment; off: a regular expression for values with which there are no pools. natively:
    under Valgrind it has no pools, since it looks for that. in_blocks: its pools are blocks of malloc, so that all of their
    bytes are in the trace."""

    name: str
    objects: str
    functions: str
    hidden: str
    remedy: str
    variable: str = ""
    off: str = NEVER
    natively: bool = False
    in_blocks: bool = False


COLLECTED = "objects are in the heap of its garbage collector, and are not blocks of the trace"
RUNTIMES = (
    Runtime(
        "Python",
        r"python[\d.]*[dmt]?$|libpython[\d.]+[dmt]*\.so",
        r"Py_BytesMain|Py_RunMain|_PyEval_EvalFrameDefault",
        "objects of up to 512 bytes are in Python's own pools (pymalloc), and are not blocks of the trace",
        "PYTHONMALLOC=malloc switches the pools off",
        "PYTHONMALLOC",
        r"malloc(_debug)?",
    ),
    Runtime("PyPy", r"pypy|libpypy", NEVER, COLLECTED, "PYPYLOG=gc:FILE shows what the collector does"),
    Runtime(
        "Ruby",
        r"ruby[\d.]*$|libruby",
        r"ruby_run_node|rb_vm_exec",
        "objects are slots in pages of Ruby's garbage collector; only what does not fit into a slot is a block",
        "ObjectSpace.dump_all shows the objects",
    ),
    Runtime(
        "PHP",
        r"php(-fpm|-cgi|dbg)?[\d.]*$|libphp",
        r"php_execute_script|zend_execute_scripts",
        "memory of scripts is in pools of the Zend engine, taken from the system in pieces of 2 MB",
        "USE_ZEND_ALLOC=0 switches the pools off",
        "USE_ZEND_ALLOC",
        r"\s*[+-]?0*(\D.*)?",
    ),
    Runtime(
        "Perl",
        r"perl[\d.]*$|libperl",
        r"perl_run|Perl_runops_standard",
        "heads and bodies of values are in arenas of some 4 KB, each of which is one block",
        "a perl that was built with -DPURIFY has no arenas",
        in_blocks=True,
    ),
    Runtime(
        "GLib",
        NEVER,
        r"g_slice_(alloc0?|copy)",
        "before GLib 2.76, blocks of g_slice_alloc are in slices, many of which are one block of the trace",
        "G_SLICE=always-malloc switches the slices off",
        "G_SLICE",
        r".*always-malloc.*|all",
        natively=True,
        in_blocks=True,
    ),
    Runtime(
        "The Boehm collector",
        r"libgc\.so|libgc-",
        r"GC_malloc(_\w+)?|GC_init",
        "what GC_malloc and its relatives hand out is in a heap of its own",
        "`valgrind --tool=ljtrace --observe-alloc=GC_malloc=malloc` records the calls of one",
    ),
    Runtime(
        "Go",
        r"go$",
        r"_?x_cgo_\w+|crosscall2|runtime\.(goexit|mstart)(\.abi0)?",
        "memory of Go code is in the heap of Go's runtime; only what C code allocates is in the trace",
        "profiles of runtime/pprof show the rest",
    ),
    Runtime(
        "The Java virtual machine",
        r"java$|libjvm\.so",
        NEVER,
        COLLECTED,
        "`jcmd PID GC.class_histogram` shows the objects",
    ),
    Runtime(
        "V8",
        r"node(js)?$|libnode\.so|libv8",
        r"v8::Isolate::New\(.*\)",
        "objects of JavaScript are in V8's heap, and are not blocks of the trace",
        "`node --heap-prof` shows them",
    ),
    Runtime(
        "Mono or .NET",
        r"mono(-sgen)?$|libmono|libcoreclr\.so",
        r"mono_main",
        COLLECTED,
        "`mono --profile=log` or `dotnet-gcdump` shows the objects",
    ),
    Runtime(
        "OCaml",
        r"ocaml(run|c|opt)?(\.opt|\.byte)?$",
        r"caml_(main|startup|start_program)",
        COLLECTED,
        "OCaml's Gc.Memprof samples them",
        in_blocks=True,
    ),
    Runtime(
        "Haskell",
        r"ghc(-[\d.]+)?$|libHSrts",
        r"hs_main|hs_init_ghc",
        COLLECTED,
        "the option +RTS -hT of the program shows them",
    ),
    Runtime(
        "Erlang",
        r"beam(\.smp)?$",
        NEVER,
        "memory of processes is in carriers, taken from the system in large pieces",
        "`erl +Mea min` uses malloc",
    ),
    Runtime("SBCL", r"sbcl$", NEVER, COLLECTED, "(room) shows the objects"),
    Runtime(
        "R",
        r"libR\.so",
        NEVER,
        "vectors of up to 128 bytes, and nodes, are in pages, each of which is one block",
        "Rprofmem() shows the vectors",
        in_blocks=True,
    ),
)
LUA = Runtime(
    "A Lua that is not LuaJIT",
    r"lua(tex|hbtex)?[\d.]*$|liblua-?5\.?\d(-c\+\+)?\.so",
    r"luaV_execute|luaH_resize",
    "its blocks have no lines of Lua and no types",
    "LuaJIT has both",
    in_blocks=True,
)


def found(trace: Trace) -> list[Runtime]:
    """The runtimes that the program seems to have, with pools that are not switched off. trace: one that was read."""
    facts = trace.info()
    files = {os.path.basename(module.object) for module in trace.modules()}
    files.add(os.path.basename(facts.get("executable", "")))
    names = {trace.string(number) for number in range(1, trace.counts()["strings"])}
    seen = [each for each in RUNTIMES if _is_here(each, files, names) and not _is_off(each, facts)]
    return seen + ([LUA] if OTHER_LUA in facts or _is_here(LUA, files, names) else [])


def _is_here(runtime: Runtime, files: set[str], names: set[str]) -> bool:
    is_file, is_function = re.compile(runtime.objects).match, re.compile(runtime.functions).fullmatch
    return any(map(is_file, files)) or any(map(is_function, names))


def _is_off(runtime: Runtime, facts: dict[str, str]) -> bool:
    if runtime.natively and "valgrind" in facts:
        return True
    value = facts.get(SETTING + runtime.variable) if runtime.variable else None
    return value is not None and re.fullmatch(runtime.off, value) is not None


def has_object(runtime: Runtime, names: Iterable[str]) -> bool:
    """Is one of these object files the runtime's?"""
    return any(re.match(runtime.objects, os.path.basename(name)) for name in names)


def outside_of_blocks(trace: Trace, peak_live: int) -> int | None:
    """How many bytes the program used at most beyond its live blocks at their peak; None: not recorded. peak_live: of the whole
    trace."""
    used = trace.info().get(PEAK, "")
    return max(0, int(used) - peak_live) if used.isdecimal() else None


def facts(trace: Trace, peak_live: int | None = None) -> dict:
    """The key of an object of --json that has this; {} if there is nothing to say. peak_live: bytes that the whole trace had at
    its peak; None: those of a part, so that nothing is said of how much is not seen."""
    outside = None if peak_live is None else outside_of_blocks(trace, peak_live)
    return facts_of(trace, "bytes_at_most", lambda runtime: outside)


def facts_of(trace: Trace, key: str, amount: Callable[[Runtime], int | None]) -> dict:
    """The same with other bytes, by the runtime; None: not known. key: their name, one of AMOUNTS."""
    seen = []
    for each in found(trace):
        size = None if each.in_blocks else amount(each)
        texts = {"runtime": each.name, "hidden": each.hidden, "remedy": each.remedy}
        seen.append({**texts, **({key: size} if size is not None else {})})
    return {"not_seen": seen} if seen else {}


def remarks(figures: dict) -> list[str]:
    """The texts for an object of --json that has the key, one for each runtime."""
    return [
        f"{each['runtime']}: {each['hidden']}{_amount(each)}; {each['remedy']}" for each in figures.get("not_seen", [])
    ]


def _amount(seen: dict) -> str:
    """How much is not seen, as text; "" if that is not known."""
    return next((f" (at most {seen[key]:,} bytes, {what})" for key, what in AMOUNTS.items() if key in seen), "")
