# _livesparts.pxi - the part of _lives.pyx that joins the parts of a trace; steve.liveparts asks for it.
#
# SPDX-License-Identifier: GPL-2.0-or-later

cdef class WholeLives:
    """The lives of a trace that was read in parts: pieces of Lives.piece() added in the order of the parts.

    After each add(), batches() tells the blocks that crossed a border and ended in that part; finish() those that
    live at the end."""
    cdef lives l
    cdef object threads
    cdef WholeLines lines

    def __cinit__(self):
        lives_init(&self.l, NULL, 0)
        self.threads = np.zeros(0, ACCESSES)

    def count_lines(self, WholeLines lines not None):
        """Count what lines make there; before the first add()."""
        self.lines = lines
        self.l.lines = &lines.work

    def __dealloc__(self):
        lives_free(&self.l)

    def add(self, piece):
        """The number of the last peak of the heap if it is in this part, else 0."""
        cdef const uint8_t[::1] pieces, totals, began
        cdef uint64_t peak = self.l.totals.peak
        cdef const lives_piece *first = NULL
        cdef size_t n
        pieces, totals, began = (np.frombuffer(data, "u1") for data in piece)
        n = len(pieces) // sizeof(lives_piece)
        if n:
            first = <const lives_piece *>&pieces[0]
        if not livesparts_add(&self.l, first, n, <const lives_totals *>&totals[0],
                              <const lives_totals *>&began[0]):
            raise MemoryError
        return self.l.totals.peak if self.l.totals.peak != peak else 0

    def batches(self):
        """As of Lives."""
        if self.l.n_out:
            yield view_of(self.l.out, self.l.n_out, LIFE)
        self.l.n_out = 0

    def finish(self, uint64_t end):
        """Batches of the blocks that live at the end, whose time, see end_of(), is 0 between marks."""
        lives_end(&self.l, end)
        while True:
            if not lives_finish(&self.l):
                raise MemoryError
            if self.l.n_out == 0:
                return
            yield from self.batches()

    def totals(self):
        return dict(self.l.totals)

    def add_threads(self, rows):
        """Add what Lives.thread_accesses() tells of a part."""
        if len(rows) > len(self.threads):
            self.threads, rows = rows.copy(), self.threads
        for name in ACCESSES.names:
            self.threads[name][:len(rows)] += rows[name]

    def add_lines(self, piece):
        """Add what line_piece() tells of the part whose piece was added last."""
        self.lines.add(piece)

    def line_work(self):
        """As of Lives, when all lives were told."""
        return self.lines.line_work()

    def thread_accesses(self):
        """As of Lives, of what was added."""
        return self.threads
