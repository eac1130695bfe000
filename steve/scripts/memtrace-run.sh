#!/bin/sh
# memtrace-run.sh APP ARGUMENT...: trace a program under Valgrind, then translate the trace.
#
# Writes result.<app> (the memtrace), result.<app>-ops and result.<app>-lockops to the current folder. The exit
# status is that of the program, or 1 if tracing or translating fails.
#
# SPDX-License-Identifier: GPL-2.0-or-later
PATH=$(dirname "$0"):$PATH
export PATH
[ $# -ge 1 ] || { echo "usage: memtrace-run.sh APP ARGUMENT..." >&2; exit 2; }
result=result.$(basename "$1")
# an old result must not be mistaken for that of this run
rm -f -- "$result"
valgrind --tool=ljtrace --out="$result" "$@"
status=$?
if [ ! -s "$result" ]; then
    echo "memtrace-run.sh: no trace was written; see valgrind's message above" >&2
    exit 1
fi
translate-memtrace-to-ops.py "$result" || exit 1
exit $status
