#!/bin/sh
# run_allocator_stats.sh OPS: replay an ops file on allocators and write their statistics.
#
# This is the first Steve's name for `steve allocstats`. It uses the environment variables ALLOCATOR
# (./drivers/plot_NAME, NAME, several separated by commas, or all), CORES and KILLPERCENT. Results are
# <OPS>-<driver>-kill<K>-allocstats. A single result is also copied to <OPS>.allocstats, its name in the documents
# of the first Steve.
#
# SPDX-License-Identifier: GPL-2.0-or-later
PATH=$(dirname "$0"):$PATH
export PATH
if [ $# -lt 1 ]; then
    echo "usage: ALLOCATOR=... CORES=... KILLPERCENT=... run_allocator_stats.sh OPS" >&2
    exit 2
fi
ops=$1
steve allocstats "$@" || exit
case ${ALLOCATOR:-all} in
all | *,*) exit 0 ;;
esac
driver=$(basename "$ALLOCATOR" .so)
killed=${KILLPERCENT:-0}
[ "$killed" != 100000 ] || killed=0
result=$ops-${driver#plot_}-kill$killed-allocstats
# with -o or other options of steve, the result may be in another place
[ ! -f "$result" ] || cp -- "$result" "$ops.allocstats"
