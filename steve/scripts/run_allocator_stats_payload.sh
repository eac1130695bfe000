#!/bin/sh
# run_allocator_stats_payload.sh OPS: write the statistics of the allocator that ALLOCATOR names.
#
# In the first Steve this was the part of run_allocator_stats.sh that ran once for each core. Now one process
# measures all data points, so this is the same as run_allocator_stats.sh with one allocator on one core. It
# exists for scripts that call it.
#
# SPDX-License-Identifier: GPL-2.0-or-later
if [ $# -lt 1 ] || [ -z "$ALLOCATOR" ]; then
    echo "usage: ALLOCATOR=./drivers/plot_NAME run_allocator_stats_payload.sh OPS" >&2
    exit 2
fi
CORES=1
export CORES
exec "$(dirname "$0")/run_allocator_stats.sh" "$@"
