#!/bin/sh
# rules.sh - how the drivers are built on this system: rules of make, made from the table of allocators.
#
#     sh drivers/allocators/rules.sh TABLE RULES
#
# Run by configure. TABLE is drivers/allocators/allocators.def, which explains its columns; the sources are beside it.
# A driver that needs a package is compiled and linked once, to see whether that package is there: no check of one
# library has to be written. RULES has, for each driver that can be built, its sources and its options, and three lists
# in comments, for configure:
#
#     # drivers: FILES        which can be built
#     # commands: FILES       a plot_NAME for each row, built or not
#     # missing: PACKAGES     of NEEDED drivers
#
# Environment: CC, CXX, PKG_CONFIG. Run it in the build folder. The compilers' messages go to descriptor 5.
# SPDX-License-Identifier: GPL-2.0-or-later
set -eu
table=$1 rules=$2
folder=$(dirname "$table")
source=$(cd "$folder/../.." && pwd)
: "${CC:=cc}" "${CXX:=c++}" "${PKG_CONFIG:=pkg-config}"
(: >&5) 2>/dev/null || exec 5>/dev/null

# The rows as name|need|package|build. A row may have several lines, and a string several parts, as in C.
rows() {
    awk '/^ALLOCATOR\(/ { row = "" ; inside = 1 }
        inside { sub(/^ +/, ""); row = row (row ? " " : "") $0 }
        inside && /\)$/ {
            gsub(/" +"/, "", row)
            split(row, part, "\"")
            split(part[3], word, /, */)
            print part[2] "|" word[4] "|" part[4] "|" part[8]
            inside = 0
        }' "$table"
}

# The words of `build` as $sources and $options: a package of pkg-config gives its options, a pattern its last file.
read_build() {
    sources='' options=''
    set -f
    # shellcheck disable=SC2086 # a list of words
    set -- $1
    set +f
    for word in "$@"; do
        # shellcheck disable=SC2012,SC2086 # a pattern; its files have plain names
        case $word in
        *.c | *.cc) sources="$sources $word" ;;
        pkg:*) options="$options $($PKG_CONFIG --cflags --libs "${word#pkg:}" 2>&5 || echo "$word")" ;;
        */*\**) options="$options $(ls -d $word 2>/dev/null | tail -n 1 | grep . || echo "$word")" ;;
        *) options="$options $word" ;;
        esac
    done
}

compiler_of() {
    case $1 in
    *.cc) echo "$CXX" ;;
    *) echo "$CC" ;;
    esac
}

# Can this driver be compiled and linked? Its undefined symbols are those of steve-replay and of the C library.
can_be_built() {
    # shellcheck disable=SC2046,SC2086 # lists of words
    set -- $(compiler_of "$sources") -O0 -w -fPIC -shared -I"$source" -I. -o conftest.so \
        $(for file in $sources; do echo "$folder/$file"; done) $options
    echo "rules.sh: $*" >&5
    if "$@" >&5 2>&5; then result=yes; else result=no; fi
    rm -f conftest.so
    [ $result = yes ]
}

drivers='' commands='' missing=''
rows >"$rules.rows"
: >"$rules.new"
while IFS='|' read -r name need package build; do
    commands="$commands drivers/plot_$name"
    read_build "$build"
    if [ -n "$package" ]; then
        printf 'checking for what the driver of %s needs... ' "$name"
        if can_be_built; then
            echo yes
        else
            echo "no: Debian's $package"
            [ "$need" != NEEDED ] || missing="$missing $package"
            continue
        fi
    fi
    drivers="$drivers drivers/$name.so"
    {
        printf 'drivers/%s.so:' "$name"
        for file in $sources; do printf ' drivers/allocators/%s' "$file"; done
        printf '\ndrivers/%s.so: DRIVER_OPTIONS =%s\n' "$name" "$options"
    } >>"$rules.new"
done <"$rules.rows"
{
    echo "# Made by drivers/allocators/rules.sh from allocators.def."
    echo "# drivers:$drivers"
    echo "# commands:$commands"
    echo "# missing:$missing"
    cat "$rules.new"
} >"$rules.whole"
# an unchanged file stays as it is, so that make builds no driver again
cmp -s "$rules.whole" "$rules" || mv "$rules.whole" "$rules"
rm -f "$rules.rows" "$rules.new" "$rules.whole"
