# _lives.pxd - what other Cython modules may use of steve.kernels._lives.
#
# SPDX-License-Identifier: GPL-2.0-or-later
from libc.stdint cimport uint8_t

from steve.kernels.ckernels cimport life

cdef extern from "steve/kernels/lives/groups.h" nogil:
    enum groups_key:
        GROUPS_BY_STACK, GROUPS_BY_THREAD, GROUPS_BY_FREE_THREAD, GROUPS_BY_TYPE, GROUPS_BY_HEAP, GROUPS_BY_HOW


cdef class TakesLives:
    cdef bint take(self, const life *lives, const uint8_t *keep, size_t n) noexcept nogil
