#!/bin/sh
# quickstart.sh - the whole way on one example: record, translate, lock, replay, draw, film, report.
#
#     sh quickstart.sh [--scale N] [--in-place BUILD | --installed] [FOLDER]
#
# Begins with bootstrap.sh; as root it also installs, so that plain `valgrind --tool=ljtrace` works from then
# on; else it runs from the build folder. Results go to FOLDER (default quickstart.out), made anew. --scale is
# the share of the example's requests that is served (default 1); --in-place uses a finished build and neither
# bootstraps nor installs; --installed uses the commands that are installed, and writes to ./quickstart.out. The results
# take about 400 MB.
# SPDX-License-Identifier: GPL-2.0-or-later
set -eu
# what this file's first lines say
manual() { sed -n '2,/SPDX/{/SPDX/d;s/^# \{0,1\}//p;}' "$0"; }
case ${1-} in -h | --help) manual; exit ;; esac
here=$(cd "$(dirname "$0")" && pwd)
scale=1
build=
installed=
folder=
started=$(date +%s)

fail() { printf 'quickstart: %s\n' "$*" >&2; exit 1; }
usage() { printf 'usage: sh quickstart.sh [--scale N] [--in-place BUILD | --installed] [FOLDER] (--help says more)\n' >&2; exit 2; }

while [ $# -gt 0 ]; do
    case $1 in
    --scale) [ $# -gt 1 ] || usage; scale=$2; shift ;;
    --in-place) [ $# -gt 1 ] || usage; build=$2; shift ;;
    --installed) installed=yes ;;
    -*) usage ;;
    *) [ -z "$folder" ] || usage; folder=$1 ;;
    esac
    shift
done
if [ -n "$installed" ]; then folder=${folder:-quickstart.out}; fi
folder=${folder:-$here/quickstart.out}

if [ -n "$installed" ]; then
    in_place=
    for command in luajit ljtrace steve steve-replay ffmpeg; do
        command -v "$command" >/dev/null || fail "$command is not installed; README.md (Install) lists the packages"
    done
elif [ -n "$build" ]; then
    [ -x "$build/in-place" ] || fail "$build: no finished build (no in-place script there)"
    in_place="$(cd "$build" && pwd)/in-place"
else
    sh "$here/bootstrap.sh" --no-tests
    in_place="$here/build/in-place"
    if [ "$(id -u)" -eq 0 ]; then
        echo "quickstart: installing"
        make -C "$here/build" --no-print-directory install >/dev/null || fail "make install failed"
        in_place=
        # what was installed is what runs, also where PATH has something else or not this folder
        bin=$(make -C "$here/build" --no-print-directory -s print-bindir)
        case :$PATH: in
        *":$bin:"*) ;;
        *) echo "quickstart: $bin is not in PATH; add it there to call steve by its name" ;;
        esac
        PATH=$bin:$PATH
        export PATH
    fi
fi

if ! mkdir -p "$folder" 2>/dev/null || [ ! -w "$folder" ]; then
    fail "$folder: not a folder that can be written to"
fi
folder=$(cd "$folder" && pwd)
rm -f "$folder"/app*
cd "$folder"

steps=$(grep -c '^step "' "$here/$(basename "$0")") number=0
# step WHAT COMMAND...: say what is done and when, do it, stop at the first failure
step() {
    seconds=$(($(date +%s) - started)) number=$((number + 1))
    printf '\n== %d of %d, %d:%02d: %s\n' "$number" "$steps" $((seconds / 60)) $((seconds % 60)) "$1"
    shift
    printf '   %s\n' "$*"
    if [ -n "$in_place" ]; then
        "$in_place" "$@" || fail "this step failed: $*"
    else
        "$@" || fail "this step failed: $*"
    fi
}

step "record examples/app.lua" \
    valgrind --tool=ljtrace --out=app.ljt luajit "$here/examples/app.lua" "$scale"
step "what is in the trace" steve summary app.ljt
step "the trace's rules hold" steve check app.ljt
step "memtrace to ops" steve ops app.ljt -o app-ops
step "coarse locks" steve lockops --simple app-ops -o app-lockops
step "fine-grained locks" steve lockops --full app-ops -o app-lockopsfull
step "lifetimes of blocks" steve histogram --parts lifetime,statistics,plots -q app-ops
# without --allocator all that are here
step "replay on some allocators" steve allocstats app-ops --points 300 \
    --allocator "${ALLOCATOR:-optimal,firstfit,jeff-coalesce,glibc,jemalloc,mimalloc,luajit}"
# of these a picture shows the real ones, and Jeff, which moves blocks
shown=
for name in glibc jemalloc mimalloc tcmalloc luajit jeff-coalesce; do
    [ ! -s "app-ops-$name-kill0-allocstats" ] || shown="$shown app-ops-$name-kill0-allocstats"
done
# shellcheck disable=SC2086 # a list of names without spaces
step "draw what the allocators did" steve graphs app $shown --format png,svg
step "film of the heap" steve animate app.ljt -o app-animation.avi
# shellcheck disable=SC2086
step "report" steve report app.ljt -o app.html --allocstats $shown --film app-animation.avi

# tell TEXT NAME...: these files must be there; say what they show
tell() {
    text=$1
    shift
    for name in "$@"; do
        [ -s "$name" ] || fail "$folder/$name was not made"
        printf '  %s\n' "$folder/$name"
    done
    printf '      %s\n' "$text"
}

printf '\nAll done. The results:\n'
tell "the memtrace: every allocation, load, store and modify of the run" app.ljt
tell "the ops: the same by handle; steve ops app-ops -o - shows them" app-ops
tell "the ops with locks: coarse (by lifetime) and fine-grained (by access)" app-lockops app-lockopsfull
tell "how long blocks live, in operations: most die young" \
    app-macro-histogram-*.png app-statistics app-lifetime
tell "memory and time of these allocators along the run; without --allocator, steve allocstats replays on all" \
    app-ops-*-allocstats
tell "the allocators compared: time of an operation, and the largest block that can still be allocated" app.png
tell "film of the heap: where blocks come, stay and go" app-animation.avi
tell "the report: open it in a browser" app.html
