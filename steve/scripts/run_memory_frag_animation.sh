#!/bin/sh
# run_memory_frag_animation.sh OPS: make a film of the heap, <OPS>-animation.avi.
#
# This is the first Steve's name for `steve animate`. It uses the environment variable ALLOCATOR
# (./drivers/plot_NAME or NAME).
#
# SPDX-License-Identifier: GPL-2.0-or-later
PATH=$(dirname "$0"):$PATH
export PATH
[ $# -ge 1 ] || { echo "usage: ALLOCATOR=./drivers/plot_NAME run_memory_frag_animation.sh OPS" >&2; exit 2; }
exec steve animate "$@"
