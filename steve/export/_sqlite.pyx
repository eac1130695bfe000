# cython: language_level=3
"""A database that is written by prepared statements of SQLite's C library, without an object for each value.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from libc.stddef cimport size_t
from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free

from steve.system.errors import SteveError

cdef extern from "sqlite3.h" nogil:
    enum: SQLITE_OK, SQLITE_DONE, SQLITE_OPEN_READWRITE, SQLITE_OPEN_CREATE, SQLITE_OPEN_NOMUTEX
    struct sqlite3:
        pass
    struct sqlite3_stmt:
        pass
    ctypedef void (*sqlite3_destructor_type)(void *)
    const sqlite3_destructor_type SQLITE_STATIC, SQLITE_TRANSIENT
    int sqlite3_open_v2(const char *path, sqlite3 **db, int flags, const char *vfs)
    int sqlite3_close(sqlite3 *db)
    int sqlite3_exec(sqlite3 *db, const char *sql, void *callback, void *argument, char **error)
    const char *sqlite3_errmsg(sqlite3 *db)
    int sqlite3_prepare_v2(sqlite3 *db, const char *sql, int size, sqlite3_stmt **statement, const char **rest)
    int sqlite3_bind_int64(sqlite3_stmt *statement, int number, int64_t value)
    int sqlite3_bind_double(sqlite3_stmt *statement, int number, double value)
    int sqlite3_bind_text(sqlite3_stmt *statement, int number, const char *text, int size, sqlite3_destructor_type free)
    int sqlite3_bind_null(sqlite3_stmt *statement, int number)
    int sqlite3_step(sqlite3_stmt *statement)
    int sqlite3_reset(sqlite3_stmt *statement)
    int sqlite3_finalize(sqlite3_stmt *statement)

# Rows that a statement inserts: to begin and to end a statement takes two fifths of the time of a row. 32 rows of 30
# values are fewer than the 999 that any SQLite allows.
cdef enum:
    TOGETHER = 32

cdef struct column:
    const int64_t *numbers
    const int64_t *unknown  # a number equal to that of this column is not known; NULL: all are known
    int64_t no_number       # the same, if `unknown` is NULL and has_no_number
    bint has_no_number
    const char **words      # NULL: the column has numbers; else texts, by number
    const int *lengths


cdef class Connection:
    """A database in a file that is empty. SteveError if it cannot be written."""
    cdef sqlite3 *db

    def __cinit__(self, str path):
        if sqlite3_open_v2(path.encode("utf-8", "surrogateescape"), &self.db,
                           SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK:
            self.fail()

    def __dealloc__(self):
        self.close()

    def close(self):
        sqlite3_close(self.db)
        self.db = NULL

    cdef int fail(self) except -1:
        raise SteveError("cannot write the database: " + sqlite3_errmsg(self.db).decode("utf-8", "replace"))

    cdef int need(self, bint done) except -1:
        return 0 if done else self.fail()

    def execute(self, str script):
        """Execute statements."""
        self.need(sqlite3_exec(self.db, script.encode(), NULL, NULL, NULL) == SQLITE_OK)

    def insert(self, str name, int width, rows):
        """Insert rows into a table with `width` columns. A value is an int, a float, a str or None."""
        cdef sqlite3_stmt *statement = self.prepared(name, width)
        try:
            for row in rows:
                for number, value in enumerate(row, 1):
                    self.bind(statement, number, value)
                self.need(sqlite3_step(statement) == SQLITE_DONE and sqlite3_reset(statement) == SQLITE_OK)
        finally:
            sqlite3_finalize(statement)

    def insert_columns(self, str name, list columns):
        """Insert rows, given as columns of equal length: (numbers, words, unknown). numbers: an array of int64. words:
        the texts that these stand for, or None. unknown: the number that is written as NULL, or an array of such
        numbers, or None."""
        cdef int width = <int>len(columns)
        cdef sqlite3_stmt *statement = self.prepared(name, width)
        cdef sqlite3_stmt *many = NULL
        cdef column *known = NULL
        cdef size_t i, n, grouped
        cdef list kept = []  # what the columns refer to
        try:
            known = <column *>calloc(len(columns), sizeof(column))
            if known == NULL:
                raise MemoryError
            for i in range(len(columns)):
                numbers, words, unknown = columns[i]
                kept.append(fill(&known[i], numbers, words, unknown))
            n = len(columns[0][0])
            grouped = n - n % TOGETHER
            if grouped:
                many = self.prepared(name, width, TOGETHER)
                self.need(insert_rows(many, known, width, 0, grouped, TOGETHER))
            self.need(insert_rows(statement, known, width, grouped, n, 1))
        finally:
            for i in range(len(columns) if known != NULL else 0):
                free(known[i].words)
                free(<void *>known[i].lengths)
            free(known)
            sqlite3_finalize(statement)
            sqlite3_finalize(many)

    cdef sqlite3_stmt *prepared(self, str name, int width, int rows=1) except NULL:
        """The statement that inserts so many rows."""
        cdef sqlite3_stmt *statement = NULL
        row = f"({', '.join('?' * width)})"
        cdef bytes sql = f"INSERT INTO {name} VALUES {', '.join([row] * rows)}".encode()
        self.need(sqlite3_prepare_v2(self.db, sql, -1, &statement, NULL) == SQLITE_OK)
        return statement

    cdef int bind(self, sqlite3_stmt *statement, int number, value) except -1:
        cdef bytes text
        if value is None:
            return self.need(sqlite3_bind_null(statement, number) == SQLITE_OK)
        if isinstance(value, str):
            text = value.encode("utf-8", "replace")
            return self.need(sqlite3_bind_text(statement, number, text, len(text), SQLITE_TRANSIENT) == SQLITE_OK)
        if isinstance(value, float):
            return self.need(sqlite3_bind_double(statement, number, value) == SQLITE_OK)
        return self.need(sqlite3_bind_int64(statement, number, value) == SQLITE_OK)


cdef object fill(column *c, const int64_t[::1] numbers, words, unknown):
    """Describe a column to the loop below. Returns what has to exist as long as the column."""
    cdef const int64_t[::1] others
    cdef list texts
    cdef int *lengths
    if len(numbers):
        c.numbers = &numbers[0]
    if unknown is not None and isinstance(unknown, int):
        c.has_no_number, c.no_number = True, unknown
    elif unknown is not None and len(numbers):
        others = unknown
        c.unknown = &others[0]
    if words is None:
        return numbers, unknown
    texts = [word.encode() for word in words]
    c.words = <const char **>calloc(len(texts), sizeof(char *))
    c.lengths = lengths = <int *>calloc(len(texts), sizeof(int))
    if c.words == NULL or lengths == NULL:
        raise MemoryError
    for i, text in enumerate(texts):
        c.words[i], lengths[i] = <bytes>text, len(text)
    return numbers, unknown, texts


cdef bint insert_rows(sqlite3_stmt *statement, const column *columns, int width, size_t begin, size_t end,
                      int together) noexcept nogil:
    """Insert the rows from begin to end (without it), so many in one step as the statement inserts."""
    cdef size_t i, first = begin
    cdef int k, number, status
    cdef int64_t value
    cdef const column *c
    while first < end:
        number = 0
        for i in range(first, first + together):
            for k in range(width):
                c = &columns[k]
                value = c.numbers[i]
                number += 1
                if c.words != NULL:
                    status = sqlite3_bind_text(statement, number, c.words[value], c.lengths[value], SQLITE_STATIC)
                elif c.unknown != NULL and c.unknown[i] == value or c.has_no_number and c.no_number == value:
                    status = sqlite3_bind_null(statement, number)
                else:
                    status = sqlite3_bind_int64(statement, number, value)
                if status != SQLITE_OK:
                    return False
        if sqlite3_step(statement) != SQLITE_DONE or sqlite3_reset(statement) != SQLITE_OK:
            return False
        first += together
    return True
