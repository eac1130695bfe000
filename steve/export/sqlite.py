"""A trace as a database for sqlite3, DB Browser for SQLite, pandas, DuckDB: the tables of steve.export.tables, with
indices, and views for usual questions.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

from collections.abc import Iterable, Sequence

from steve.export._rows import Connection
from steve.export.tables import Column, Table

SETTINGS = """\
PRAGMA page_size = 16384;
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
PRAGMA locking_mode = EXCLUSIVE;
PRAGMA cache_size = -16384;
"""
# an index of all blocks by site would take as long as writing them, and queries that read whole rows by it are not faster
INDICES = """\
CREATE INDEX block_left ON block (site, size) WHERE state <> 'freed';
"""
VIEWS = """\
CREATE VIEW blocks AS
 SELECT block.*, died - born AS lifetime, died_time - born_time AS time, heap.kind AS heap_kind, site.text AS site_text,
  site.file, line.line
 FROM block JOIN heap ON heap.id = block.heap JOIN site ON site.id = block.site LEFT JOIN line ON line.id = site.line_id;
CREATE VIEW sites AS
 SELECT site.id, count(*) AS blocks, sum(requested) AS bytes, sum(state <> 'freed') AS blocks_left,
  sum(CASE WHEN state <> 'freed' THEN size ELSE 0 END) AS bytes_left, avg(died - born) AS mean_lifetime,
  sum(reads) AS reads, sum(writes) AS writes, site.text
 FROM block JOIN site ON site.id = block.site GROUP BY site.id ORDER BY bytes DESC;
CREATE VIEW leaks AS
 SELECT site.id, count(*) AS blocks, sum(size) AS bytes, state, site.text
 FROM block JOIN site ON site.id = block.site WHERE state <> 'freed' GROUP BY site.id, state ORDER BY bytes DESC;
CREATE VIEW at_peak AS
 SELECT site.id, count(*) AS blocks, sum(size) AS bytes, site.text
 FROM block JOIN site ON site.id = block.site
 WHERE born <= (SELECT CAST(value AS INTEGER) FROM fact WHERE key = 'peak_operation')
  AND (died > (SELECT CAST(value AS INTEGER) FROM fact WHERE key = 'peak_operation') OR state <> 'freed')
  AND container = 0
 GROUP BY site.id ORDER BY bytes DESC;
CREATE VIEW never_read AS
 SELECT site.id, count(*) AS blocks, sum(size) AS bytes, sum(bytes_written) AS bytes_written, site.text
 FROM block JOIN site ON site.id = block.site
 WHERE reads = 0 AND (SELECT value FROM fact WHERE key = 'has_accesses') = 'yes' GROUP BY site.id ORDER BY bytes DESC;
CREATE VIEW sizes AS
 SELECT size, count(*) AS blocks, sum(size) AS bytes, avg(died - born) AS mean_lifetime
 FROM block GROUP BY size ORDER BY blocks DESC;
CREATE VIEW lifetimes AS
 WITH RECURSIVE class(least, most) AS (SELECT 0, 1 UNION ALL SELECT most, most * 2 FROM class WHERE most < 1 << 61)
 SELECT least, most, count(*) AS blocks, sum(size) AS bytes
 FROM class JOIN block ON died - born >= least AND died - born < most AND state = 'freed' GROUP BY least;
CREATE VIEW timeline AS
 SELECT id, time_end, operations_end, live_bytes_end, live_bytes_most, news, frees, reads, writes,
  allocated_end - lag(allocated_end, 1, 0) OVER (ORDER BY id) AS allocated FROM bin;
CREATE VIEW stack_frames AS
 WITH RECURSIVE up(stack, depth, at) AS
  (SELECT id, 0, id FROM stack WHERE id > 0
   UNION ALL SELECT up.stack, depth + 1, caller FROM up JOIN stack ON stack.id = at WHERE caller > 0)
 SELECT up.stack, depth, frame.function, frame.file, frame.line, frame.object
 FROM up JOIN stack ON stack.id = at JOIN frame ON frame.id = stack.frame;
"""


def declared(table: Table) -> str:
    """The statement that makes a table."""
    return f"CREATE TABLE {table.name} ({', '.join(f'{name} {kind}' for name, kind in table.columns)})"


class Database:
    """Writes a database into an empty file. `with` closes it; its indices and views are made by finish()."""

    def __init__(self, path: str) -> None:
        self.db = Connection(path)
        self.db.execute(SETTINGS + "BEGIN")

    def __enter__(self) -> Database:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.db.close()

    def make(self, table: Table) -> None:
        self.db.execute(declared(table))

    def rows(self, table: Table, rows: Iterable[Sequence]) -> None:
        self.db.insert(table.name, len(table.columns), rows)

    def columns(self, table: Table, columns: list[Column]) -> None:
        self.db.insert_columns(table.name, columns)

    def finish(self) -> None:
        """Make the indices and views, and end the transaction."""
        self.db.execute("COMMIT")
        self.db.execute(INDICES + VIEWS + "PRAGMA analysis_limit = 1000;\nANALYZE;\n")
