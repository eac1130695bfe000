# cython: language_level=3
"""Rows of tables that are written without a Python object for each value: into a database, by prepared statements of
SQLite's C library, or as CSV.

Columns are lists of (numbers, words, unknown) of equal length. numbers: an array of int64. words: the texts that these are
the numbers of, or None. unknown: the number that means that a value is not known, or an array of such numbers, or None.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport calloc, free, malloc

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

cdef extern from "steve/kernels/base/text_writer.h" nogil:
    struct textout:
        pass
    void textout_init(textout *t, int fd)
    int textout_finish(textout *t)
    void textout_reserve(textout *t)
    void textout_put_char(textout *t, char c)
    void textout_put_number(textout *t, uint64_t value)
    void textout_bytes(textout *t, const char *s, size_t n)

cdef struct column:
    const int64_t *numbers
    const int64_t *unknown  # a number equal to that of this column is not known; NULL: all are known
    int64_t no_number       # the same, if `unknown` is NULL and has_no_number
    bint has_no_number
    const char **words      # NULL: the column has numbers; else texts, by number
    const int *lengths


cdef class Columns:
    """Columns as C sees them."""
    cdef column *columns
    cdef int width
    cdef size_t n      # rows
    cdef list kept     # what the columns refer to

    def __cinit__(self, list columns):
        self.width, self.kept = <int>len(columns), []
        self.n = len(columns[0][0])
        self.columns = <column *>calloc(len(columns), sizeof(column))
        if self.columns == NULL:
            raise MemoryError
        for i, (numbers, words, unknown) in enumerate(columns):
            self.kept.append(fill(&self.columns[i], numbers, words, unknown))

    def __dealloc__(self):
        for i in range(self.width if self.columns != NULL else 0):
            free(self.columns[i].words)
            free(<void *>self.columns[i].lengths)
        free(self.columns)


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
        """Insert rows, given as columns."""
        cdef Columns of = Columns(columns)
        cdef sqlite3_stmt *statement = self.prepared(name, of.width)
        cdef sqlite3_stmt *many = NULL
        cdef size_t grouped = of.n - of.n % TOGETHER
        try:
            if grouped:
                many = self.prepared(name, of.width, TOGETHER)
                self.need(insert_rows(many, of.columns, of.width, 0, grouped, TOGETHER))
            self.need(insert_rows(statement, of.columns, of.width, grouped, of.n, 1))
        finally:
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


cdef bint is_unknown(const column *c, size_t i) noexcept nogil:
    return c.unknown != NULL and c.unknown[i] == c.numbers[i] or c.has_no_number and c.no_number == c.numbers[i]


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
                elif is_unknown(c, i):
                    status = sqlite3_bind_null(statement, number)
                else:
                    status = sqlite3_bind_int64(statement, number, value)
                if status != SQLITE_OK:
                    return False
        if sqlite3_step(statement) != SQLITE_DONE or sqlite3_reset(statement) != SQLITE_OK:
            return False
        first += together
    return True


def write_csv(int fd, list columns):
    """Write columns as lines of CSV: words as they are, nothing for what is not known. The errno of the first error, or
    0."""
    cdef Columns of = Columns(columns)
    cdef int error
    cdef textout *out = <textout *>malloc(sizeof(textout))
    if out == NULL:
        raise MemoryError
    with nogil:
        textout_init(out, fd)
        put_lines(out, of.columns, of.width, of.n)
        error = textout_finish(out)
    free(out)
    return error


cdef void put_lines(textout *out, const column *columns, int width, size_t n) noexcept nogil:
    cdef size_t i
    cdef int k
    cdef const column *c
    cdef int64_t value
    for i in range(n):
        for k in range(width):
            c = &columns[k]
            value = c.numbers[i]
            textout_reserve(out)
            if c.words != NULL:
                textout_bytes(out, c.words[value], c.lengths[value])
            elif not is_unknown(c, i):
                put_number(out, value)
            textout_reserve(out)
            textout_put_char(out, b"," if k < width - 1 else b"\n")


cdef void put_number(textout *out, int64_t value) noexcept nogil:
    if value < 0:
        textout_put_char(out, b"-")
    textout_put_number(out, <uint64_t>value if value >= 0 else -<uint64_t>value)
