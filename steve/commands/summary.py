"""steve summary: totals of a memtrace, and the sites that allocate most.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import argparse
import json
import sys
from functools import partial
from typing import Any

from steve.analysis import blocks, several
from steve.parallel import processes
from steve.terminal import arguments
from steve.terminal import listing
from steve.system import messages, samples
from steve.system.samples import Sample
from steve.trace import cut_stacks, missing, rollups, runtimes
from steve.terminal.listing import count
from steve.system.output import Output

NAME = "summary"
HELP = "show totals, peaks and the sites that allocate most"
READS_SAMPLES = True
KEYS = (
    (
        "events",
        "numbers of events: new, free, resize, load, store, modify; null, as bytes read and written and unmatched "
        "accesses, if loads and stores were not recorded",
    ),
    (
        "bytes",
        "bytes that the program requested: allocated and freed (a resize counts its new size as allocated and "
        "its old one as freed), peak_live, live_at_end; read and written by accesses, a modify counts in both",
    ),
    ("blocks", "numbers of blocks: total (all made; a resize makes none), peak_live, live_at_end"),
    ("unmatched", "events in the file that match no block: free, access"),
    (
        "mismatched_frees",
        "frees of blocks that functions of another family made, such as free of a block of new; they are free events",
    ),
    ("older_frees", "frees and resizes of blocks from before ljtrace attach; they are not among the events"),
    (
        "older_resized",
        "the most bytes to which a block from before ljtrace attach was resized, which is in no table; only if one was",
    ),
    (
        "existing",
        "with ljtrace attach --existing-blocks: blocks and bytes from before the attach; problem: why they are not (all) "
        "known, empty if they are",
    ),
    ("instructions", "instructions executed by the program; with --from or --to, between the marks"),
    (
        "time_unit",
        "what `instructions` and the times of events count: instructions; nanoseconds in a trace of ljtrace run; events "
        "in an imported one without times",
    ),
    ("seconds", "the same in wall-clock time of the recording; interpolated at marks"),
    ("threads", "number of threads with events"),
    ("states", "number of Lua states"),
    ("complete", "true if the trace has a proper end and no events are missing"),
    (
        "program",
        "how the program ended: ended (exit, signal, exec, killed, detached, unknown), exit status, name of the signal",
    ),
    ("dropped", "number of missing events"),
    (
        "lost",
        "of these, the events that ljtrace run dropped (--when-full=drop): allocations, frees, resizes, others, "
        "in_handlers; absent if there are none",
    ),
    ("not_recorded", "sentences on what was not recorded, such as an allocator's functions; absent if there are none"),
    (
        "not_seen",
        "runtimes of languages that the program seems to have and whose own memory the trace does not show: runtime, "
        "hidden, remedy and, of a native recording, bytes_at_most: by how many bytes the memory that the program used at most "
        "exceeds its live blocks at their peak, stacks and what allocators keep included; absent if there are none",
    ),
    (
        "peak_reserve",
        "of bytes.peak_live of the whole trace, those of blocks that another allocator divided into pieces later; absent "
        "if there are none, and if the list of these blocks was read ahead, because then they do not count",
    ),
    (
        "divided",
        "blocks that other allocators, such as pools, divided into blocks of their own, and that were not freed: blocks, bytes. "
        "They are not among the live ones, since the blocks inside count; absent if there are none, between marks, of selected "
        "blocks, and of a sample",
    ),
    (
        "resident",
        "the most bytes that were resident (RSS), with the recorder's, also between looks; absent if it was recorded "
        "without --pages, and between two marks. `steve resident` says whose they are",
    ),
    (
        "resident_recorder",
        "bytes of the recorder, which are not there without it, at the look with the most resident; absent likewise",
    ),
    ("dropped_at_least", "true if more may be missing: accesses after --max-size was reached were not counted"),
    (
        "estimated",
        "true if the trace is a sample of the blocks, else absent, like the next two; then numbers of "
        "events, blocks and bytes are estimates",
    ),
    ("sample_mean", "bytes of which one on average was chosen, with its block; or"),
    ("sample_every", "blocks of which one on average was recorded"),
    (
        "standard_errors",
        f"those of events, bytes and blocks; a peak is {samples.PEAK}, which the table calls `too high`",
    ),
    ("files", "of several files only, as the next: their number"),
    (
        "processes",
        "a list with such an object for each file, and its name as `process`; the other keys are sums, of peaks as well, "
        "though each process was at its own peak; seconds are the most, and a program ended as all did, or as `several`",
    ),
    (
        "exact",
        "what all blocks did, as valgrind --tool=ljtrace --sample-blocks counted it: new_events, free_events, "
        "resize_events, bytes_allocated, bytes_freed; absent if the trace does not have it",
    ),
)
TABLE = (
    ("bytes", "bytes that News and Resizes at the site requested"),
    ("blocks", "blocks made at the site"),
    ("resizes", "resizes at the site, of any block"),
    ("at peak", "bytes live when the whole heap was largest, in blocks that the site made or resized last"),
    ("live bytes", "bytes of such blocks that are live at the end"),
    ("live blocks", "number of these blocks"),
)
EXAMPLES = f"""\
A site is an allocation stack without functions that only allocate. A table shows as many frames as it takes to tell
its rows apart. In these tables, which show where memory was requested, a resized block belongs to the site that
resized it last. (In `steve sites`, which shows what became of blocks, it always belongs to the site of its New.)
{chr(10).join(listing.entry(*column) for column in TABLE)}
With --where, all counts and the peak are those of the selected blocks. --json prints one object, --csv lines
key,value such as bytes.peak_live,4096:
{chr(10).join(listing.entry(*key) for key in KEYS)}

{blocks.WHERE_HELP}
examples:
  steve summary ljtrace.out.77.ljt
  steve summary --json ljtrace.out.77.ljt | jq .bytes.peak_live
  steve summary server.ljt --from 'request 100' --to 'request 101'
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    blocks.add_arguments(parser, several=True)
    arguments.add_output(parser, "the default")
    arguments.add_facts(parser)
    processes.add_arguments(parser)
    parser.add_argument(
        "--top", metavar="N", type=count, default=10, help="number of sites in each table (default: 10)"
    )
    parser.set_defaults(apart=False)


class Totals:
    """The totals of all files, and sums by site."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.sites = several.Joined(args, "stack")
        self.objects: list[dict] = []  # of the files
        self.remarks: dict[str, None] = {}
        self._args = args

    def add(self, chosen: blocks.Blocks) -> None:
        """Add the totals of a file."""
        from steve.analysis import totals
        from steve.kernels import _totals
        from steve.trace.policy import Policy
        from steve.trace.stacks import Sites, by_site

        summary = chosen.over_trace(_totals.Summary)
        trace = chosen.trace
        figures = totals.summary_object(trace, summary, chosen.is_whole())
        several_files = len(self._args.files) > 1
        self.objects.append({"process": rollups.process_text(trace), **figures} if several_files else figures)
        self.remarks.update(dict.fromkeys(remarks_of(chosen, figures)))
        if not several_files and (children := missing.children(trace)):
            self.remarks[f"{trace.name}: {children}"] = None
        if not (self._args.json or self._args.csv):
            rollup = rollups.Rollup("stack", chosen.places, sites=Sites(trace, Policy(short=True)))
            self.sites.add(rollup, rollups.Sums(*by_site(rollup.sites, *summary.used_stacks())))

    def join(self, other: Totals) -> None:
        """Add the totals of other files."""
        if hasattr(other.sites, "sums"):
            self.sites.join(other.sites)
        self.objects += other.objects
        self.remarks.update(other.remarks)

    def figures(self) -> dict:
        """The object of --json."""
        from steve.analysis import totals

        return self.objects[0] if len(self.objects) == 1 else totals.sum_of(self.objects)


def run(args: argparse.Namespace) -> int:
    files = several.Files(NAME, args)
    found = files.collect(partial(Totals, args), Totals.add)
    figures = found.figures()
    with Output(args.output or "-") as out:
        if args.json:
            out.write(json.dumps(figures, indent=2) + "\n")
        elif args.csv:
            out.write(listing.facts_csv(figures))
        else:
            out.write(text(files, found, figures, args))
    for remark in found.remarks:
        messages.note(NAME, remark, args.quiet)
    return files.verdict()


def remarks_of(chosen: blocks.Blocks, figures: dict) -> list[str]:
    """What to know of a file beside its totals. figures: the object of --json."""
    trace = chosen.trace
    not_recorded = figures.get("not_recorded", [])
    found = [f"{trace.name}: {sentence}" for sentence in not_recorded]
    if chosen.is_whole() and (remark := of_large_blocks(figures)):
        found.append(remark)
    found += [remark for remark in missing.remarks(trace) if remark not in not_recorded]
    found += runtimes.remarks(figures)
    if cut := cut_stacks.counts(trace):
        found.append(cut_stacks.text(cut))
    return found


def of_large_blocks(figures: dict) -> str | None:
    """What to know if the estimated bytes of a sample are far from the exact number, for what the sample says of them and of
    accesses. They are so most often because it has none of a few large blocks."""
    exact = figures.get("exact", {}).get("bytes_allocated", 0)
    if not exact:
        return None
    difference, error = figures["bytes"]["allocated"] - exact, figures["standard_errors"]["bytes"]["allocated"]
    if abs(difference) <= max(2 * error, 0.01 * exact):
        return None
    why = ": most likely, a few large blocks are not in the sample" if difference < 0 else ""
    return (
        f"the estimate of bytes allocated is {100 * abs(difference) / exact:.0f}% {'below' if difference < 0 else 'above'} "
        f"the exact number, more than 2 standard errors{why}. Then the standard errors are too small, and the numbers of "
        "loads, stores and bytes read and written may be as far off or farther, because few blocks often have most "
        "accesses. --sample-blocks with a larger part misses fewer blocks; `ljtrace run --sample`, which selects by bytes "
        "and records no accesses, misses no large one"
    )


def text(files: several.Files, found: Totals, figures: dict, args: argparse.Namespace) -> str:
    """Totals, a table of the processes if there are several files, and the three tables of sites."""
    from steve.analysis.blocks import imported_remark
    from steve.terminal.tables import render

    if len(files) > 1:
        title = files.title("totals")
    else:
        trace = files.chosen.trace
        title = trace.name + trace.sample.remark + imported_remark(trace.info()) + missing.remark(trace)
    parts = [totals_table(title, figures, files.sample)]
    parts += [process_table(figures["processes"])] if len(files) > 1 else []
    parts += site_tables(found.sites, args.top)
    return render(parts, sys.stdout.isatty() and args.output in (None, "-"))


def process_table(objects: list[dict]) -> Any:
    """The table of processes, that with most live bytes at its end first."""
    from steve.analysis.totals import program_end_text
    from steve.terminal.tables import columns, number

    ranked = sorted(objects, key=lambda found: -found["bytes"]["live_at_end"])
    rows = [
        [
            *(number(found["bytes"][name]) for name in ("allocated", "peak_live", "live_at_end")),
            *(number(found["blocks"][name]) for name in ("total", "live_at_end")),
            program_end_text(found["program"]),
            found["process"],
        ]
        for found in ranked
    ]
    heads = ("bytes allocated", "live at peak", "live at end", "blocks", "live blocks", "ended", "process")
    return columns("Processes", heads, rows, left=("ended", "process"))


def totals_table(title: str, figures: dict, sample: Sample) -> Any:
    """The table of totals. figures: the object of --json; sample: that of the files."""
    from steve.terminal.tables import facts, number, size

    events, amounts, blocks = figures["events"], figures["bytes"], figures["blocks"]
    errors = figures.get("standard_errors", {})

    def shown(group: str, name: str) -> str:
        text = recorded(figures[group][name], errors.get(group, {}).get(name))
        return sample.of_peak(text) if name == "peak_live" else text

    rows = [(f"{name} events", shown("events", name)) for name in events]
    rows += [
        (f"bytes {words(name)}", shown("bytes", name), *([] if value is None else [size(value)]))
        for name, value in amounts.items()
    ]
    if "resident" in figures:
        rows.append(("bytes resident at most", number(figures["resident"]), size(figures["resident"])))
        rows.append(
            ("bytes resident of the recorder", number(figures["resident_recorder"]), size(figures["resident_recorder"]))
        )
    rows += [(f"blocks {words(name)}", shown("blocks", name)) for name in blocks]
    rows += [(words(f"exact {name}"), number(value)) for name, value in figures.get("exact", {}).items()]
    return facts(title, rows + other_rows(figures), values="right")


def recorded(value: int | None, error: float | None = None) -> str:
    """A number as text. error: its standard error, if it is an estimate."""
    return "not recorded" if value is None else listing.estimate(value, error)


def words(name: str) -> str:
    """A key of the object with blanks between its words."""
    return name.replace("_", " ")


def other_rows(figures: dict) -> list:
    """The rows that count neither events nor bytes nor blocks."""
    from steve.terminal.tables import number, size
    from steve.analysis.totals import dropped_text, program_end_text

    reserve = figures.get("peak_reserve", 0)
    older_resized = figures.get("older_resized", 0)
    existing, divided = figures.get("existing", {}), figures.get("divided", {})
    return [
        ("unmatched frees", number(figures["unmatched"]["free"])),
        ("unmatched accesses", recorded(figures["unmatched"]["access"])),
        *([("mismatched frees", number(figures["mismatched_frees"]))] if figures["mismatched_frees"] else []),
        *([("frees of older blocks", number(figures["older_frees"]))] if figures["older_frees"] else []),
        *([("resized from before", "in no table, up to", size(older_resized))] if older_resized else []),
        *([("blocks from before", number(existing["blocks"]), size(existing["bytes"]))] if existing else []),
        *([("blocks divided, not freed", number(divided["blocks"]), size(divided["bytes"]))] if divided else []),
        *([("others from before", f"not known: {existing['problem']}")] if existing.get("problem") else []),
        (figures["time_unit"], number(figures["instructions"])),
        ("seconds", f"{figures['seconds']:.3f}"),
        ("threads", number(figures["threads"])),
        ("Lua states", number(figures["states"])),
        ("program ended", program_end_text(figures["program"])),
        ("complete", "yes" if figures["complete"] else "no"),
        ("dropped events", dropped_text(figures["dropped"], figures["dropped_at_least"])),
        *([("peak not divided yet", number(reserve), size(reserve))] if reserve else []),
        *[(f"dropped {words(kind)}", number(n)) for kind, n in figures.get("lost", {}).items() if n],
    ]


def site_tables(sites: several.Joined, top: int) -> list:
    """Three tables: the sites that allocated most bytes, and those with most live bytes at the peak and at the end."""
    tables = (
        site_table(sites, "bytes", "Most bytes allocated", top),
        site_table(sites, "peak_bytes", "Most bytes live at the peak", top),
        site_table(sites, "live_bytes", "Most bytes live at the end", top),
    )
    return [table for table in tables if table is not None]


def site_table(sites: several.Joined, key: str, title: str, top: int) -> Any:
    """The table of the `top` sites by a column, or None if it is 0 for all sites."""
    import numpy as np
    from steve.terminal.tables import columns, number

    numbers, sums = sites.sums
    ranked = [i for i in np.argsort(-sums[key].astype("i8"), kind="stable")[:top].tolist() if sums[key][i]]
    if not ranked:
        return None
    shown = ("bytes", "news", "resizes", "peak_bytes", "live_bytes", "live_blocks")
    rows = [[number(int(sums[name][i])) for name in shown] + [sites.row_text(int(numbers[i]))] for i in ranked]
    return columns(title, (*(head for head, _ in TABLE), "site"), rows, left=("site",))
