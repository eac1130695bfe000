# _lives.pxd - what other Cython modules may use of steve.kernels._lives.
#
# SPDX-License-Identifier: GPL-2.0-or-later
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t

cdef extern from "steve/kernels/base/life.h" nogil:
    struct life:
        uint64_t handle, size, bytes, resizes, first_size, most, moves, copied, born_allocated, died_allocated
        uint64_t born, died, born_time, died_time, first_use, last_use, loads, stores, modifies
        uint64_t bytes_read, bytes_written, used, extent, news, peak, peak_bytes
        double weight
        uint32_t stack, heap, last_stack
        uint16_t thread, free_thread
        uint8_t how, freed, shared, type, inherited, reach, container
    uint64_t life_scaled(const life *l, uint64_t x)
    double life_variance(const life *l, uint64_t x)

cdef extern from "steve/kernels/lives/groups.h" nogil:
    enum groups_key:
        GROUPS_BY_STACK, GROUPS_BY_THREAD, GROUPS_BY_FREE_THREAD, GROUPS_BY_TYPE


cdef class TakesLives:
    cdef bint take(self, const life *lives, const uint8_t *keep, size_t n) noexcept nogil
