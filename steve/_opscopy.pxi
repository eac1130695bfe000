# _opscopy.pxi - the part of _kernels.pyx that makes an ops file of a trace without decoding its accesses.
#
# Included there, for it is one of the ways of write_ops. Which traces that can be done of is told by the library;
# of those that choose what they deliver it cannot.
#
# SPDX-License-Identifier: GPL-2.0-or-later

def copies(origin):
    """Are the operations of this source copied to a binary file, and not written one by one?"""
    return type(origin) is Trace and ops_can_copy((<Trace>origin).r)


cdef object copy_operations(Trace trace, int fd, object tick, bint resizes):
    """As write_ops, in the binary form without threads and times, of a trace that copies() is true of."""
    cdef mt_error err
    cdef ops_copier *c = ops_copier_new(trace.r, fd, resizes, &err)
    cdef int result = MT_MORE, written
    cdef uint64_t total
    enough(c != NULL)
    try:
        while result == MT_MORE:
            PyErr_CheckSignals()
            with nogil:
                result = ops_copier_next(c)
            if tick is not None:
                tick(*trace.progress())
        if result == MT_ERROR:
            trace.failed()
        total = ops_copier_operations(c)
    finally:
        with nogil:
            written = ops_copier_finish(c, &err)
    if written == MT_ERROR:
        raise WriteError(err.text.decode("utf-8", "backslashreplace"))
    return {"ops": total, "stray": 0}
