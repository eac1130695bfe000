#!/bin/sh
# bootstrap.sh - from a bare Debian to a finished build in ./build: packages, autoreconf, configure, make.
#
#     sh bootstrap.sh [--no-tests] [CONFIGURE-OPTION...]
#
# --no-tests leaves out the packages that only tests and further allocators need, which are half of all. A later run
# without it installs them, and configures again. Installs only the packages that are missing (with sudo when not root),
# so that a second run is quick and works without a network. It does not install ljtrace itself: that is `make -C build
# install`.
# SPDX-License-Identifier: GPL-2.0-or-later
set -eu
# what this file's first lines say
manual() { sed -n '2,/SPDX/{/SPDX/d;s/^# \{0,1\}//p;}' "$0"; }
case ${1-} in -h | --help) manual; exit ;; esac
cd "$(dirname "$0")"

packages="build-essential autoconf automake pkg-config valgrind luajit libluajit-5.1-dev libzstd-dev zlib1g-dev
    libxxhash-dev libsqlite3-dev libdw-dev libiberty-dev libzydis-dev libcairo2-dev cython3 python3 python3-dev
    python3-numpy python3-rich python3-jinja2 zstd esbuild node-d3 node-typescript"
# for pictures and films: with all that they depend on half of what is installed, which takes as long as the build. The
# build does not need them, so they are installed while it runs
of_pictures="python3-matplotlib ffmpeg"
of_tests="libcmocka-dev python3-pytest python3-hypothesis shellcheck"
# programs for tests, which are left out where there is no such package
optional="libgc-dev clang-14 libc++-14-dev
    libc++abi-14-dev black flake8 python3-distributed libglib2.0-dev lua5.4 musl-tools neovim
    chromium-driver python3-clang-14 python3-selenium sqlite3 tmux heaptrack zsh libapr1-dev libtalloc-dev"

# of_allocators NEEDED|OPTIONAL: the packages of these allocators
of_allocators() {
    sed -n "s/^ALLOCATOR([^,]*, [A-Z]*, [A-Z]*, $1, \"\([a-z0-9.+-]*\)\",.*/\1/p" drivers/allocators/allocators.def
}
packages="$packages $(of_allocators NEEDED)"
optional="$optional $(of_allocators OPTIONAL)"
if [ "${1-}" = --no-tests ]; then
    shift
    optional=
else
    packages="$packages $of_tests"
fi
installed= # were packages installed?
later_pid= # of apt-get, if it runs beside the build; it is never interrupted
later_log=$(mktemp)
trap '[ -z "$later_pid" ] || wait "$later_pid" || :; rm -f "$later_log"' EXIT
trap 'exit 130' INT TERM

started=$(date +%s)
# say TEXT: with the minutes and seconds since the start
say() {
    seconds=$(($(date +%s) - started))
    printf 'bootstrap: %d:%02d %s\n' $((seconds / 60)) $((seconds % 60)) "$*"
}
fail() { printf 'bootstrap: %s\n' "$*" >&2; exit 1; }

# loud_on_failure WHAT COMMAND...: run it quietly; if it fails, show all it said
loud_on_failure() {
    what=$1
    shift
    log=$(mktemp)
    if "$@" >"$log" 2>&1 </dev/null; then
        rm -f "$log"
    else
        cat "$log" >&2
        rm -f "$log"
        fail "$what failed; the lines above say why"
    fi
}

# count_steps STEPS LOG: keep what make says, and say how many steps are done: on a terminal each, else each hundredth.
# Succeeds if the last line is "finished".
count_steps() {
    step=0 last=
    while IFS= read -r line; do
        printf '%s\n' "$line" >>"$2"
        last=$line
        case $line in
        "  "[A-Z]*) step=$((step + 1)) ;;
        *) continue ;;
        esac
        if [ -t 1 ]; then
            printf '\rbootstrap: building %d of %d' "$step" "$1"
        elif [ $((step % 100)) -eq 0 ]; then
            say "building $step of $1"
        fi
    done
    [ ! -t 1 ] || [ "$step" -eq 0 ] || echo
    [ "$last" = finished ]
}

# run_make: loud_on_failure for make, which says how far it is. A step is what make announces: "  CC  FILE".
run_make() {
    steps=$(make -n V=0 2>/dev/null </dev/null | grep -c '^ *echo "  [A-Z]' || :)
    say "building (steps: $steps)"
    log=$(mktemp)
    if { make -j"$(nproc)" V=0 2>&1 </dev/null && echo finished; } | count_steps "$steps" "$log"; then
        rm -f "$log"
    else
        cat "$log" >&2
        rm -f "$log"
        fail "make failed; the lines above say why"
    fi
}

# missing_packages PACKAGE...: those that are not installed
missing_packages() {
    for package in "$@"; do
        case $(dpkg-query -W -f '${Status}' "$package" 2>/dev/null || :) in
        *" installed") ;;
        *) printf '%s ' "$package" ;;
        esac
    done
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        env DEBIAN_FRONTEND=noninteractive "$@"
    elif command -v sudo >/dev/null; then
        sudo env DEBIAN_FRONTEND=noninteractive "$@"
    else
        fail "not root and no sudo; as root: apt-get install $missing"
    fi
}

can_install() {
    [ "$(id -u)" -eq 0 ] || command -v sudo >/dev/null
}

install_packages() {
    command -v dpkg-query >/dev/null || fail "this is not Debian; install what configure asks for by hand"
    # shellcheck disable=SC2086 # lists of words
    missing=$(missing_packages $packages) wanted=$(missing_packages $optional) later=$(missing_packages $of_pictures)
    [ -n "$missing$wanted$later" ] || return 0
    if [ -n "$missing$later" ]; then
        loud_on_failure "apt-get update" as_root apt-get -q update
    elif ! can_install || ! as_root apt-get -q update >/dev/null 2>&1; then
        say "cannot be installed, left out: $wanted"
        return 0
    fi
    for package in $wanted; do
        if apt-cache show "$package" >/dev/null 2>&1; then missing="$missing$package "; fi
    done
    if [ -n "$missing" ]; then
        say "installing: $missing"
        # shellcheck disable=SC2086 # a list of words
        loud_on_failure "apt-get install" as_root apt-get -q -y --no-install-recommends install $missing
        installed=yes
    fi
    [ -n "$later" ] || return 0
    say "installing meanwhile: $later"
    # shellcheck disable=SC2086 # a list of words
    as_root apt-get -q -y --no-install-recommends install $later >"$later_log" 2>&1 </dev/null &
    later_pid=$!
}

# wait_for_pictures: until what is installed meanwhile is complete
wait_for_pictures() {
    if [ -n "$later_pid" ] && ! wait "$later_pid"; then
        later_pid=
        cat "$later_log" >&2
        fail "apt-get install failed; the lines above say why"
    fi
    later_pid=
}

# Is there no ./configure, or is it older than something it was made from?
stale_configure() {
    [ -x configure ] && [ -f Makefile.in ] || return 0
    [ -n "$(find configure.ac Makefile.am ./*/part.am -newer Makefile.in 2>/dev/null)" ]
}

build() {
    if stale_configure; then
        say "making ./configure"
        loud_on_failure autoreconf autoreconf -fi
    fi
    mkdir -p build
    cd build
    if [ ! -f Makefile ] || [ $# -gt 0 ]; then # a newer ../configure is make's own business
        say "configuring in ./build"
        loud_on_failure configure ../configure "$@"
    elif [ -n "$installed" ]; then
        say "configuring in ./build, for what was installed"
        loud_on_failure configure sh -c './config.status --recheck && ./config.status'
    fi
    run_make
}

install_packages
build "$@"
wait_for_pictures
say "ready: ./build/in-place COMMAND runs it from here; make -C build install installs it"
