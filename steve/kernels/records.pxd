# records.pxd - C records as numpy arrays, and failures of kernels as exceptions, for the Cython modules here.
#
# SPDX-License-Identifier: GPL-2.0-or-later
from cpython.buffer cimport PyBUF_READ
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport uintptr_t


cdef inline int enough(bint ok) except -1:
    """Turn a kernel's `false` into MemoryError."""
    if not ok:
        raise MemoryError
    return 0


cdef inline object view_of(const void *data, size_t n, object dtype):
    """A numpy array of n records where they are: good until the kernel changes them."""
    import numpy as np
    if n == 0:
        return np.empty(0, dtype)
    return np.frombuffer(PyMemoryView_FromMemory(<char *>data, n * <size_t>dtype.itemsize, PyBUF_READ), dtype)


cdef inline object array_of(const void *data, size_t n, object dtype):
    """A copy of n records."""
    return view_of(data, n, dtype).copy()


cdef inline void *data_of(array) except? NULL:
    """The address of the elements of a numpy array, which must be contiguous."""
    return <void *><uintptr_t>array.ctypes.data


cdef inline size_t distance(const void *record, const void *field):
    """The offset of a field of a record."""
    return <const char *>field - <const char *>record
