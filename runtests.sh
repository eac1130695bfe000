#!/bin/sh
# runtests.sh - all tests, from a bare Debian: bootstrap.sh, then `make check`.
#
#     sh runtests.sh [NAME]       only the tests whose path contains NAME
#
# What fails by chance beside other tests is repeated alone (regtest/run --again), and said. The last line is
# `N passed, N failed, N skipped`; exit status 0 if none failed. It does not install ljtrace.
# SPDX-License-Identifier: GPL-2.0-or-later
set -eu
# what this file's first lines say
manual() { sed -n '2,/SPDX/{/SPDX/d;s/^# \{0,1\}//p;}' "$0"; }
case ${1-} in -h | --help) manual; exit ;; esac
cd "$(dirname "$0")"
sh ./bootstrap.sh

log=$(mktemp)
trap 'rm -f "$log"' EXIT
trap 'exit 130' INT TERM

check() {
    make -C build --no-print-directory -s -j2 check-programs
    make -C build --no-print-directory check ONLY="--again $1"
}

# make's own complaint would follow the runner's last line, so the sum is said again at the end
status=0
{ check "${1-}" 2>&1 || echo failed >"$log.status"; } | tee "$log"
if [ -e "$log.status" ]; then
    rm -f "$log.status"
    status=1
fi
sum=$(grep -E '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' "$log" | tail -n 1)
if [ -z "$sum" ]; then
    echo "runtests: the tests could not be built or did not end"
    status=1
    sum="0 passed, 1 failed, 0 skipped"
fi
echo "$sum"
exit $status
