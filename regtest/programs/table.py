"""table - real programs of Debian that the recorders are tried on: what they do, and what the recorders must say.

A row is data: a command that does the same in each run, the package that has it, and what is to be expected beyond the
rule. The rule, which `recorded.py` checks: outputs and exit status are those of the program alone, the traces are
sound, and both recorders have seen the same numbers of allocations, frees and resizes, of the same sizes. A row that
departs from it says why. `servers.py` has the programs that run until they are asked to stop.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from dataclasses import dataclass, field
from typing import Mapping, Sequence

JEMALLOC = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"
TCMALLOC = "/usr/lib/x86_64-linux-gnu/libtcmalloc.so.4"
MIMALLOC = "/usr/lib/x86_64-linux-gnu/libmimalloc.so.2.0"
BEAM = "/usr/lib/erlang/erts-13.1.5/bin"  # the script `erl` executes another program twice
TBBMALLOC = "/usr/lib/x86_64-linux-gnu/libtbbmalloc_proxy.so.2"

# what a recorder says of memory that it does not see as blocks: on standard error, by `steve info`
UNSEEN = "not seen: |may not be recorded"
# why sizes of blocks differ in some programs
SIGNAL_STACK = "a signal's stack has the size that the processor needs, and Valgrind's processor has fewer registers"
OBJECTS = "the dynamic linker's table of objects has room for those of the recorder"
PROCESS_IDS = "texts of process ids have four to seven digits"


@dataclass(frozen=True)
class Near:
    """The numbers of two runs differ, by at most this share of the larger one, and why they do."""

    share: float
    because: str


@dataclass(frozen=True)
class Program:
    """A command and what is expected of it. Paths are relative to a folder of its own, in which it runs."""

    name: str
    argv: Sequence[str]
    package: str  # Debian package that has it
    needs: Sequence[str] = ()  # files or commands without which it cannot run, besides argv[0]
    in_check: bool = False  # `make check` runs it, since its package is installed for other tests
    valgrind: Sequence[str] = ()  # options that Valgrind needs for it
    around: Sequence[str] = ()  # a command that runs the recorder, as it runs the program alone
    env: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)  # texts to write into the folder first
    build: Sequence[Sequence[str]] = ()  # commands that make the program in the folder
    makes: Sequence[str] = ()  # files whose contents must be those of a run without a recorder
    stdin: str = ""
    status: int = 0
    differs: Near | None = None
    sizes_differ: str = ""  # why sizes, not numbers, of blocks differ
    least: int = 100  # allocations that each recorder has seen at least
    unrecorded: Mapping[str, str] = field(default_factory=dict)  # recorder: what it says, as a regular expression, and
    # writes no trace
    unseen: Mapping[str, str] = field(default_factory=dict)  # recorder: what it says about memory that it does not see,
    # on standard error, and `steve info` as well
    remark: str = ""  # what `steve info` says of the pools of its runtime
    without: Mapping[str, str] = field(default_factory=dict)  # recorder: why it is not tried
    silent_stderr: bool = True  # its standard error is the same in each run


ALLOCS = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static void *kept[64];
int main(void)
{
    unsigned long sum = 0;
    for (int i = 0; i < 20000; i++) {
        void **slot = &kept[i * 7 % 64];
        free(*slot);
        *slot = i % 3 == 0 ? calloc(3, (size_t)i % 500 + 1) : malloc((size_t)i % 3000 + 1);
        memset(*slot, i, 3);
        if (i % 5 == 0) *slot = realloc(*slot, (size_t)i % 7000 + 1);
        void *aligned = NULL;
        if (i % 50 == 0 && posix_memalign(&aligned, 64, 640) == 0) free(aligned);
        sum += ((unsigned char *)*slot)[0];
    }
    for (int i = 0; i < 64; i++) free(kept[i]);
    fprintf(stderr, "sum %lu\n", sum);
    return 3;
}
"""


def allocs(name: str, package: str, *link: str, env: Mapping[str, str] | None = None, **more: object) -> Program:
    """A small program that allocates in all usual ways, linked or run with an allocator."""
    build = ("gcc", "-g", "-O1", "-o", "allocs", "allocs.c", *link)
    return Program(
        name,
        ("./allocs",),
        package,
        files={"allocs.c": ALLOCS},
        build=(build,),
        env=env or {},
        status=3,
        least=20000,
        **more,  # type: ignore[arg-type]
    )


BEGINNING = Near(
    0.0005, "the allocator allocates when it begins; under Valgrind, which replaces it, it does so elsewhere or not"
)
ALLOCATORS = [
    allocs("glibc", "gcc", in_check=True),
    allocs("jemalloc linked", "libjemalloc-dev", "-ljemalloc", needs=(JEMALLOC,), in_check=True),
    allocs("jemalloc preloaded", "libjemalloc2", env={"LD_PRELOAD": JEMALLOC}, needs=(JEMALLOC,), in_check=True),
    allocs(
        "jemalloc in the executable",
        "libjemalloc-dev",
        "-l:libjemalloc.a",
        "-lm",
        "-lstdc++",
        "-lpthread",
        "-ldl",
        needs=("/usr/lib/x86_64-linux-gnu/libjemalloc.a",),
        in_check=True,
    ),
    allocs(
        "tcmalloc linked",
        "libgoogle-perftools-dev",
        "-ltcmalloc",
        needs=(TCMALLOC,),
        in_check=True,
        differs=BEGINNING,
    ),
    allocs(
        "tcmalloc preloaded",
        "libgoogle-perftools-dev",
        env={"LD_PRELOAD": TCMALLOC},
        needs=(TCMALLOC,),
        in_check=True,
        differs=BEGINNING,
    ),
    allocs(
        "tcmalloc in the executable",
        "libgoogle-perftools-dev",
        "-l:libtcmalloc_minimal.a",
        "-lm",
        "-lstdc++",
        "-lpthread",
        needs=("/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.a",),
        differs=BEGINNING,
    ),
    allocs("mimalloc linked", "libmimalloc-dev", "-Wl,--no-as-needed", "-lmimalloc", needs=(MIMALLOC,), in_check=True),
    allocs("mimalloc preloaded", "libmimalloc-dev", env={"LD_PRELOAD": MIMALLOC}, needs=(MIMALLOC,), in_check=True),
    allocs(
        "tbbmalloc linked",
        "libtbb-dev",
        "-Wl,--no-as-needed",
        "-ltbbmalloc_proxy",
        needs=(TBBMALLOC,),
        in_check=True,
        differs=BEGINNING,
    ),
    allocs(
        "tbbmalloc preloaded",
        "libtbb-dev",
        env={"LD_PRELOAD": TBBMALLOC},
        needs=(TBBMALLOC,),
        in_check=True,
        differs=BEGINNING,
    ),
]

PYTHON = """
import json, re, collections
words = re.findall("[a-z]+", " ".join(f"w{i % 97} {chr(97 + i % 26) * (i % 9 + 1)}" for i in range(3000)))
table = collections.Counter(words)
text = json.dumps({"words": sorted(table.items()), "squares": [i * i for i in range(2000)]})
assert json.loads(text)["squares"][-1] == 1999 * 1999
print(len(text), table.most_common(3))
"""

PERL = r"""
my %n; $n{$_ % 97} .= "x" x ($_ % 50) for 1 .. 5000;
my @sorted = sort { length $n{$a} <=> length $n{$b} or $a <=> $b } keys %n;
(my $text = join ",", map { "$_=" . length $n{$_} } @sorted) =~ s/(\d+)=/<$1>/g;
print substr($text, 0, 60), "\n"; exit 4;
"""

RUBY = """
table = Hash.new(0)
3000.times { |i| table["word#{i % 89}"] += i }
puts table.sort.first(3).inspect, (1..500).map { |i| "x" * i }.join.size
exit 5
"""

PHP = """
$n = []; for ($i = 0; $i < 3000; $i++) { $n["w" . ($i % 71)][] = str_repeat("x", $i % 60); }
ksort($n); echo count($n), " ", strlen(json_encode($n)), " ", md5(serialize($n)), "\\n"; exit(6);
"""

LUA = """
collectgarbage("stop")
local n = {}
for i = 1, 20000 do n[i % 97] = (n[i % 97] or "") .. string.char(97 + i % 26) end
local sum = 0
for _, s in pairs(n) do sum = sum + #s end
print(sum, ("%s"):rep(3):format(1, 2, 3)) os.exit(2)
"""

GO = "/usr/lib/go-1.19/bin/go"  # Debian's package of this version makes no link in /usr/bin
MONO = """
class W { static int Main() {
  var l = new System.Collections.Generic.List<string>();
  for (int i = 0; i < 2000; i++) l.Add("x" + i);
  System.Console.WriteLine(l.Count);
  return 3;
} }
"""

COMMITS = """
git init -q repository && cd repository
for i in 1 2 3 4 5 6 7 8 9; do
  seq $i 2000 >f$i && git add . && git -c user.name=a -c user.email=a@b commit -qm $i || exit 1
done
"""

SQL = """
create table t (a integer primary key, b text);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 2000) insert into t select i, hex(i) from n;
create index u on t (b); select count(*), max(b) from t where b like '3%'; select a from t order by b desc limit 3;
"""

SOURCE_C = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
struct list { struct list *next; char text[20]; };
int main(void) {
    struct list *all = NULL;
    for (int i = 0; i < 100; i++) {
        struct list *one = malloc(sizeof *one);
        snprintf(one->text, sizeof one->text, "%d", i); one->next = all; all = one;
    }
    for (; all; all = all->next) puts(all->text);
}
"""

SOURCE_CC = r"""
#include <map>
#include <string>
int main() { std::map<std::string, int> m; for (int i = 0; i < 9; i++) m[std::to_string(i)]++; return (int)m.size(); }
"""

LANGUAGES = [
    Program(
        "python3 with malloc alone",
        ("/usr/bin/python3", "-I", "-c", PYTHON),
        "python3",
        env={"PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "0"},
        in_check=True,
        least=5000,
    ),
    Program(
        "python3",
        ("/usr/bin/python3", "-I", "-c", PYTHON),
        "python3",
        in_check=True,
        remark="PYTHONMALLOC=malloc",
    ),
    Program(
        "perl",
        ("/usr/bin/perl", "-e", PERL),
        "perl",
        env={"PERL_HASH_SEED": "0"},
        status=4,
        remark="arenas",
        in_check=True,
    ),
    Program(
        "ruby",
        ("/usr/bin/ruby", "--disable-gems", "-e", RUBY),
        "ruby",
        status=5,
        remark="Ruby",
        sizes_differ=SIGNAL_STACK,
    ),
    Program("php", ("/usr/bin/php", "-n", "-r", PHP), "php-cli", status=6, remark="USE_ZEND_ALLOC"),
    Program(
        "php with malloc alone", ("/usr/bin/php", "-n", "-r", PHP), "php-cli", env={"USE_ZEND_ALLOC": "0"}, status=6
    ),
    Program("php with extensions", ("/usr/bin/php", "-r", PHP), "php-cli", env={"USE_ZEND_ALLOC": "0"}, status=6),
    Program("luajit", ("luajit", "-joff", "-e", LUA), "luajit", status=2, in_check=True),
    Program("lua5.4", ("lua5.4", "-e", LUA), "lua5.4", status=2, remark="no lines of Lua"),
    Program(
        "tcl",
        ("tclsh8.6", "work.tcl"),
        "tcl8.6",
        files={
            "work.tcl": "for {set i 0} {$i < 2000} {incr i} { dict incr d [expr {$i % 77}] $i }\n"
            "puts [dict size $d]\nexit 9\n"
        },
        status=9,
        least=50,
    ),
    Program(
        "guile",
        ("guile", "--no-auto-compile", "-c", "(display (length (iota 5000)))(newline)(exit 3)"),
        "guile-3.0",
        status=3,
        remark="GC_malloc",
    ),
    Program(
        "ocaml",
        ("./work",),
        "ocaml-nox",
        files={"work.ml": "let () = print_int (List.fold_left (+) 0 (List.init 50000 (fun i -> i))); exit 3\n"},
        build=(("ocamlopt", "-g", "-o", "work", "work.ml"),),
        status=3,
        remark="OCaml",
        sizes_differ=SIGNAL_STACK,
        least=5,
    ),
    Program(
        "haskell",
        ("./work",),
        "ghc",
        files={"work.hs": "main = print (length (show (product [1 .. 2000 :: Integer])))\n"},
        build=(("ghc", "-v0", "-o", "work", "work.hs"),),
        least=5,
        unseen={"V": UNSEEN},
        remark="Haskell",
    ),
    Program(
        "rust",
        ("./work",),
        "rustc",
        files={
            "work.rs": """
use std::collections::BTreeMap;
fn main() {
    let mut n: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for i in 0..3000 { n.entry(format!("w{}", i % 83)).or_default().push(i); }
    let sum: u64 = n.values().flatten().map(|&i| i as u64).sum();
    println!("{} {}", n.len(), sum);
    std::process::exit(7);
}
"""
        },
        build=(("rustc", "-g", "-o", "work", "work.rs"),),
        status=7,
    ),
    Program(
        "go without C",
        ("./work",),
        "golang-1.19-go",
        needs=(GO,),
        files={
            "work.go": 'package main\nimport "fmt"\nfunc main() { m := map[int][]byte{}\n'
            "for i := 0; i < 20000; i++ { m[i%97] = make([]byte, i%3000) }\nfmt.Println(len(m)) }\n"
        },
        build=(("env", "GOCACHE=/tmp/ljtrace-go-cache", "CGO_ENABLED=0", GO, "build", "work.go"),),
        unrecorded={"R": "nothing.* recorded.*[Ss]tatic"},
        unseen={"V": UNSEEN},
        least=0,
    ),
    Program(
        "go with C",
        ("./work",),
        "golang-1.19-go",
        needs=(GO, "gcc"),
        files={
            "work.go": 'package main\n// #include <stdlib.h>\nimport "C"\nimport "fmt"\nfunc main() {\n'
            "for i := 0; i < 1000; i++ { p := C.malloc(C.size_t(100 + i)); if i % 2 == 0 { C.free(p) } }\n"
            "m := map[int][]byte{}\nfor i := 0; i < 20000; i++ { m[i%97] = make([]byte, i%3000) }\n"
            "fmt.Println(len(m)) }\n"
        },
        build=(("env", "GOCACHE=/tmp/ljtrace-go-cache", "CGO_ENABLED=1", GO, "build", "work.go"),),
        unseen={"V": UNSEEN},
        remark="Go",
        differs=Near(0.01, "Go starts as many threads as are blocked at one time"),
        sizes_differ="the same",
        least=1000,
    ),
    Program(
        "node",
        (
            "node",
            "-e",
            "const m = new Map(); for (let i = 0; i < 20000; i++) m.set(i % 97, [i, 'x' + i]); "
            "console.log(m.size); process.exit(6)",
        ),
        "nodejs",
        status=6,
        remark="V8",
        differs=Near(0.05, "threads of the compiler and the collector of garbage"),
    ),
    Program(
        "java",
        ("java", "-Xint", "-XX:+UseSerialGC", "-Xshare:off", "-XX:-UsePerfData", "-XX:TieredStopAtLevel=0", "-version"),
        "openjdk-17-jre-headless",
        differs=Near(0.05, "threads of the machine"),
        unseen={"V": UNSEEN},
        remark="Java",
    ),
    Program(
        "erlang",
        (
            f"{BEAM}/beam.smp",
            *("--", "-root", "/usr/lib/erlang", "-bindir", BEAM, "-progname", "erl", "--", "-home", ".", "--"),
            *("-noshell", "-eval", 'io:format("~p~n", [length(lists:seq(1, 5000))]), halt(3).'),
        ),
        "erlang-base",
        status=3,
        valgrind=("--smc-check=all",),  # it maps the code that it makes twice
        env={"BINDIR": BEAM, "ROOTDIR": "/usr/lib/erlang", "EMU": "beam", "PROGNAME": "erl"},
        remark="carriers",
        least=50,
        differs=Near(0.2, "schedulers are threads"),
    ),
    Program(
        "sbcl",
        (
            "sbcl",
            "--noinform",
            "--no-userinit",
            "--no-sysinit",
            "--non-interactive",
            "--eval",
            "(progn (print (length (loop for i below 5000 collect i))) (terpri) (exit :code 3))",
        ),
        "sbcl",
        status=3,
        least=5,
        unseen={"V": UNSEEN},
        remark="SBCL",
        sizes_differ="its heap is not at its usual place under Valgrind, and has a page less",
    ),
    Program(
        "prolog",
        ("swipl", "-q", "-g", "numlist(1,2000,L),sum_list(L,S),write(S),nl,halt(3)"),
        "swi-prolog-nox",
        status=3,
        differs=Near(0.05, "a thread of the collector of garbage"),
    ),
    Program(
        "mono",
        ("mono", "-O=-aot", "work.exe"),  # Valgrind's processor has too few features for the code compiled ahead
        "mono-runtime mono-mcs",
        needs=("mcs",),
        files={"work.cs": MONO},
        build=(("mcs", "work.cs"),),
        status=3,
        remark="Mono",
        differs=Near(0.05, "threads of the machine"),
    ),
    Program(
        "R",
        (
            "/usr/lib/R/bin/exec/R",
            "--vanilla",
            "--slave",
            "-e",
            "x <- sapply(1:500, function(i) paste(rep('x', i), collapse='')); cat(sum(nchar(x)), '\\n'); q(status=3)",
        ),
        "r-base-core",
        sizes_differ=SIGNAL_STACK,
        status=3,
        remark="Rprofmem",
        env={"R_HOME": "/usr/lib/R"},
    ),
]

TOOLS = [
    Program(
        "bash",
        ("bash", "-c", 'for i in {1..300}; do a[i]="x$i"; done; echo ${#a[@]} ${a[*]: -3}; exit 3'),
        "bash",
        status=3,
        in_check=True,
        sizes_differ=PROCESS_IDS,
    ),
    Program(
        "dash",
        ("dash", "-c", 'i=0; while [ $i -lt 300 ]; do i=$((i+1)); eval "v$i=x$i"; done; echo $v300; exit 3'),
        "dash",
        status=3,
        in_check=True,
    ),
    Program(
        "zsh",
        ("zsh", "-f", "-c", 'for i in {1..300}; do a[i]="x$i"; done; echo ${#a} ${a[-1]}; exit 3'),
        "zsh",
        status=3,
        in_check=True,
    ),
    Program(
        "fish",
        ("fish", "--no-config", "-c", "for i in (seq 1 100); set -a a x$i; end; count $a; exit 3"),
        "fish",
        status=3,
        env={"HOME": "."},
        differs=Near(0.05, "threads"),
    ),
    Program(
        "busybox",
        ("busybox", "awk", 'BEGIN { for (i = 0; i < 2000; i++) n[i % 97] = n[i % 97] "x"; print length(n) }'),
        "busybox",
    ),
    Program(
        "static bash",
        ("bash-static", "-c", "for i in {1..300}; do a[i]=x$i; done; echo ${#a[@]}; exit 3"),
        "bash-static",
        status=3,
        unrecorded={"R": "nothing.* recorded.*[Ss]tatic"},
        unseen={"V": UNSEEN},
        least=0,
    ),
    Program(
        "mawk",
        ("mawk", 'BEGIN { for (i = 0; i < 3000; i++) n[i % 97] = n[i % 97] "x"; print length(n[5]); exit 3 }'),
        "mawk",
        status=3,
        in_check=True,
        least=5,
    ),
    Program(
        "gawk",
        ("gawk", 'BEGIN { for (i = 0; i < 3000; i++) n[i % 97] = n[i % 97] "x"; print length(n[5]); exit 3 }'),
        "gawk",
        status=3,
    ),
    Program("sqlite3", ("sqlite3", ":memory:"), "sqlite3", stdin=SQL, in_check=True),
    Program("curl", ("curl", "-sS", "file:///etc/debian_version"), "curl", in_check=True),
    Program("openssl", ("openssl", "dgst", "-sha256", "/etc/debian_version"), "openssl", in_check=True),
    Program(
        "jq", ("jq", "-c", "[.a[] | select(. > 3)] | {n: length, sum: add}"), "jq", stdin='{"a": [1,2,3,4,5,6,7,8,9]}'
    ),
    Program("bc", ("bc", "-q"), "bc", stdin="scale=200; 4*a(1)\n2^500\n", env={"BC_LINE_LENGTH": "0"}),
    Program(
        "make",
        ("make", "-s", "-f", "m"),
        "make",
        files={"m": "A := $(foreach i,$(shell seq 300),x$(i))\nall:\n\t@echo $(words $(A))\n"},
        in_check=True,
    ),
    Program(
        "gdb",
        ("gdb", "-nx", "-batch", "-ex", "print 6*7", "-ex", "info files", "/bin/true"),
        "gdb",
        differs=Near(0.02, "threads that read symbols"),
        remark="PYTHONMALLOC=malloc",
    ),
    Program(
        "git pack-objects",
        ("git", "-C", "repository", "pack-objects", "--all", "--threads=1", "--stdout", "-q"),
        "git",
        build=(("sh", "-c", COMMITS),),
        in_check=True,
    ),
    Program(
        "git gc",
        ("git", "-C", "repository", "gc", "--quiet"),
        "git",
        build=(("sh", "-c", COMMITS),),
    ),
    Program(
        "cc1",
        ("CC1", "-quiet", "-imultiarch", "x86_64-linux-gnu", "-O2", "work.c", "-o", "work.s"),
        "gcc",
        files={"work.c": SOURCE_C},
        makes=("work.s",),
        differs=Near(
            0.0001, "a table of 32 KiB is made or not, by where the kernel puts the heap; also without Valgrind"
        ),
        sizes_differ="the same",
        least=1000,
    ),
    Program(
        "cc1plus",
        ("CC1PLUS", "-quiet", "-imultiarch", "x86_64-linux-gnu", "-O0", "work.cc", "-o", "work.s"),
        "g++",
        files={"work.cc": SOURCE_CC},
        makes=("work.s",),
        differs=Near(0.0001, "as cc1"),
        sizes_differ="the same",
        least=1000,
    ),
    Program("ld", ("ld", "-r", "-o", "work.o", "/usr/lib/x86_64-linux-gnu/libm-2.36.a"), "binutils", makes=("work.o",)),
    Program(
        "clang",
        ("clang-14", "-cc1", "-emit-obj", "-O2", "work.c", "-o", "work.o"),
        "clang-14",
        differs=Near(0.1, "tables are hashed by addresses"),
        files={"work.c": "int f(int a) { return a * 3; }\n"},
        makes=("work.o",),
    ),
    Program(
        "ffmpeg",
        (
            "ffmpeg",
            "-nostdin",
            "-v",
            "error",
            "-threads",
            "1",
            "-filter_threads",
            "1",
            "-f",
            "lavfi",
            "-i",
            "testsrc=duration=1:size=64x64:rate=5",
            "-c:v",
            "mpeg4",
            "-threads",
            "1",
            "-flags",
            "+bitexact",
            "-f",
            "md5",
            "-",
        ),
        "ffmpeg",
        least=1000,
        differs=Near(0.2, "threads"),
        env={"G_SLICE": "always-malloc"},
    ),
    Program(
        "gs",
        ("gs", "-q", "-dNOPAUSE", "-dBATCH", "-sDEVICE=nullpage", "-c", "0 1 500 { pop } for (x) print quit"),
        "ghostscript",
    ),
    Program(
        "graphviz",
        ("dot", "-Tdot"),
        "graphviz",
        env={"G_SLICE": "always-malloc"},
        differs=Near(0.05, "GLib adds to its objects under Valgrind"),
        stdin="digraph { a -> b -> c -> a; b -> d; d -> e; }",
    ),
    Program(
        "imagemagick",
        (
            "convert",
            "-limit",
            "thread",
            "1",
            "gradient:red-blue",
            "-resize",
            "50x50",
            "-depth",
            "8",
            "-define",
            "png:exclude-chunks=all",
            "rgb:-",
        ),
        "imagemagick",
        least=50,
        differs=Near(0.02, "OpenMP"),
        env={"G_SLICE": "always-malloc"},
    ),
    Program(
        "vim",
        (
            "vim",
            "-es",
            "-u",
            "NONE",
            "-i",
            "NONE",
            "-c",
            "for i in range(300) | call append(0, repeat('x', i)) | endfor",
            "-c",
            "w! out",
            "-c",
            "cq 3",
        ),
        "vim",
        status=3,
        makes=("out",),
        sizes_differ=SIGNAL_STACK,
    ),
    Program(
        "nvim",
        (
            "nvim",
            "--headless",
            "-u",
            "NONE",
            "-i",
            "NONE",
            "-c",
            "lua collectgarbage('stop') local t = {} for i = 1, 3000 do t[i % 97] = { i } end print(#t)",
            "-c",
            "cq 3",
        ),
        "neovim",
        status=3,
        in_check=True,
        differs=Near(0.02, "libuv's threads"),
    ),
    Program(
        "emacs",
        (
            "emacs",
            "--batch",
            "-Q",
            "--eval",
            "(progn (princ (length (number-sequence 1 3000))) (terpri) (kill-emacs 3))",
        ),
        "emacs-nox",
        status=3,
        sizes_differ=OBJECTS,
    ),
    Program(
        "gpg",
        ("gpg", "--homedir", "home", "--batch", "--no-autostart", "--list-keys"),
        "gnupg",
        build=(("mkdir", "-m", "700", "home"),),
    ),
    Program(
        "ssh-keygen",
        ("ssh-keygen", "-lf", "key.pub"),
        "openssh-client",
        build=(("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", "key"),),
    ),
    Program("rsync", ("rsync", "-a", "--list-only", "/etc/apt/"), "rsync"),
    Program(
        "tar",
        ("tar", "-cf", "out.tar", "--sort=name", "--mtime=@0", "-C", "/etc", "apt"),
        "tar",
        makes=("out.tar",),
        in_check=True,
    ),
    Program(
        "sort", ("sort", "--parallel=1", "-u", "/usr/share/common-licenses/GPL-3"), "coreutils", in_check=True, least=10
    ),
    Program("xz", ("xz", "-T1", "-c", "/usr/share/common-licenses/GPL-3"), "xz-utils", in_check=True, least=5),
    Program(
        "zstd",
        ("zstd", "-q", "--single-thread", "-c", "/usr/share/common-licenses/GPL-3"),
        "zstd",
        in_check=True,
        least=5,
    ),
    Program(
        "qemu-x86_64",
        ("qemu-x86_64", "/bin/bash-static", "-c", "echo guest; exit 3"),
        "qemu-user",
        needs=("/bin/bash-static",),
        env={"G_SLICE": "always-malloc"},
        status=3,
        differs=Near(0.05, "threads"),
    ),
    Program(
        "zenity",
        ("zenity", "--info", "--timeout=1", "--text=hello"),
        "zenity xvfb xauth",
        needs=("xvfb-run", "xauth"),
        around=("xvfb-run", "-a"),
        env={"G_SLICE": "always-malloc", "NO_AT_BRIDGE": "1", "GTK_THEME": "Adwaita", "HOME": "/nonexistent"},
        status=5,
        differs=Near(0.05, "threads and timers"),
    ),
    Program(
        "chromium",
        (
            "chromium",
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--user-data-dir=profile",
            "--dump-dom",
            "data:text/html,<p>hello</p>",
        ),
        "chromium",
        silent_stderr=False,
        differs=Near(0.3, "processes and threads"),
        without={"V": "it needs minutes and gigabytes under Valgrind"},
        needs=("/usr/lib/chromium/chromium",),
    ),
]

PROGRAMS = [*ALLOCATORS, *LANGUAGES, *TOOLS]
