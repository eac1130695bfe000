"""The rules by which blocks deserve a look: of `steve findings` and of the report.

A finding is a statement about the trace, not advice: a block that is never read may be padding that is meant to be.
Each rule has its words and thresholds here. RULES judge a block by its own life: steve/kernels/lives/findings.c says
which lives a rule finds, and counts them. SITE_RULES judge what a site does in the whole run:
steve/analysis/site_rules.py. LEAKED, KEPT and CHURN are judged by sums of lives. Blocks that were
there when the trace began (a forked child's inherited ones, or those of a recording that kept its last part) are found by none:
they may have been used before.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from typing import Dict, Mapping, NamedTuple

MOST = 2**64 - 1
# of temporaries in the heap of a garbage collector, in peaks of live bytes: what is requested before such an object is freed,
# and by the whole program at least
PEAKS_HELD, PEAKS_REQUESTED = 2, 8


class Rule(NamedTuple):
    """key; title; the rule in words, with thresholds in braces; what usually helps; does it need accesses?"""

    key: str
    title: str
    words: str
    help: str
    of_accesses: bool = True
    of_all: bool = True
    """Does it need every block, so that it cannot be judged in a sample?"""

    def text(self, thresholds: Mapping[str, float]) -> str:
        """The rule in words, with its thresholds."""
        return self.words.format(**thresholds)


# in the order of enum findings_rule
RULES = (
    Rule(
        "never_touched",
        "Never accessed",
        "no access from New to Free or the end",
        "allocate the block where it is first needed, or not at all",
    ),
    Rule(
        "never_read",
        "Written, never read",
        "stores but no load and no modification",
        "do not compute and store what nobody reads, or store it only on request",
    ),
    Rule(
        "never_written",
        "Read, never written",
        "loads but no store and no modification; what it holds came from the allocator or the system",
        "initialise the block if it was not calloc or the system that filled it; share one constant block of zeros",
    ),
    Rule(
        "written_once",
        "Written once, then idle",
        "never read, no more bytes written than it has, all in the first {early:g}% of a life of at least "
        "{min_life} operations",
        "make the data when it is asked for, and free it after its last use",
    ),
    Rule(
        "short_lived",
        "Short-lived",
        "freed at most {short} operations after its New",
        "use a variable on the stack, or keep one block and use it again",
        False,
    ),
    Rule(
        "low_utilisation",
        "Low utilisation",
        "{min_size} bytes or more, accessed, but less than {utilisation:g}% of them (in parts of 1/64)",
        "allocate what is used: smaller buffers, or rarely used fields in a block of their own",
    ),
    Rule(
        "late_first_use",
        "Late first use",
        "first access after {late:g}% of a life of at least {min_life} operations",
        "allocate the block just before its first use",
    ),
    Rule(
        "idle_tail",
        "Long idle before the end",
        "accessed, but not in the last {idle:g}% of a life of at least {min_life} operations",
        "free the block after its last use; in Lua, set the last reference to nil",
    ),
    Rule(
        "resize_chain",
        "Resized again and again",
        "one block, resized {chain} times or more",
        "reserve the final size at once, or let the size grow by a factor instead of by a constant",
        False,
    ),
    Rule(
        "never_freed",
        "Never freed",
        "live when the trace ended; at a normal exit much of this is meant, and objects of a garbage collector may only "
        "wait for it",
        "free the blocks whose number depends on the input; `steve leaks` lists them, and after a recording under Valgrind says "
        "which are still reachable",
        False,
        False,
    ),
)
SITE_RULES = (
    Rule(
        "growth",
        "Growing",
        "the bytes alive grow in each of {parts} equal parts of the run up to its last New, or of the second half of that, by a "
        "quarter of the mean of these parts or more, in all by {growth} or more and by a quarter of what is alive at last; in "
        "the heap of a garbage collector only if it has freed objects in {parts} parts of the run, or twice with a pause "
        "between, and if what is alive is more than its garbage can be; times in which the program hardly allocates do not "
        "count if they are less than a third of the run",
        "remove what is no longer needed from the list, table or cache that holds the blocks, or bound its size",
        False,
    ),
    Rule(
        "temporary_line",
        "Hot line of temporaries",
        "{hot:g}% of all blocks or more, at least {least_hot}, of which {brief:g}% are freed before the next New or within "
        "{short} operations; in the heap of a garbage collector, of which {brief:g}% are freed, before "
        f"{PEAKS_HELD} times the peak of live bytes is requested, and only if the program requested {PEAKS_REQUESTED} times "
        "this peak or more in all",
        "move the block out of the loop and use it again, or use the stack; in Lua, reuse one table",
        False,
    ),
    Rule(
        "capacity",
        "Unused capacity",
        "{spare:g}% of all bytes or more, at least {least_spare}, are the unused rest of blocks of at least {min_size} bytes "
        "of which no more than the first {capacity:g}% was ever accessed",
        "reserve what is needed, let the size grow by a smaller factor, or shrink the container when it is complete",
    ),
)
# of the blocks that live at the end, and of those that died
LEAKED = Rule(
    "leaked",
    "Leaked",
    "not freed, and no pointer led to it when the program ended, or only pointers in such blocks",
    "free the block before the last pointer to it is overwritten or goes out of scope; `steve leaks` has the others that live",
    False,
)
CHURN = Rule(
    "churn",
    "Churn",
    "{churn:g}% of all bytes that die or more, at least {least_churn}, and {turns} times as many or more as are live of them at "
    "the peak of the heap",
    "request less often: keep blocks and use them again, pass buffers in, build a text once from its parts instead of "
    "step by step",
    False,
)
# of what lives at the marks of the program (steve/analysis/between_marks.py)
KEPT = Rule(
    "kept",
    "Kept until the last mark",
    "made after the first mark, or since the beginning if there is only one, and alive at the last one; {growth} bytes of a site "
    "or more",
    "remove what is no longer needed from the list, table or cache that holds the blocks; `steve leaks --from MARK --to MARK` "
    "shows any two marks",
    False,
)
# only judged if the operations are replayed
PINNED_PAGES = Rule(
    "pinned_pages",
    "Pinned pages",
    "when most is lost in a replay on the chosen allocator, the blocks keep pages of 4 KiB in use that have at least "
    "{pinned} times their bytes, and {least_pinned} bytes more",
    "allocate blocks that live long before or apart from those that do not: an arena, a pool, or at the start",
    False,
)
# in the order in which findings are shown
ALL = (LEAKED, KEPT, PINNED_PAGES, *SITE_RULES, CHURN, *RULES)
# said of growth in a trace that has_snapshots()
UNIVERSE_SHOWS = (
    "`steve universe` shows what holds the objects of Lua in the snapshots of this trace, and, if there are two, what grew "
    "between them"
)
# shares in percent; lifetimes in operations, sizes in bytes
DEFAULTS = {
    "early": 10,
    "late": 50,
    "idle": 90,
    "utilisation": 50,
    "short": 100,
    "chain": 8,
    "min_life": 1000,
    "min_size": 64,
    "parts": 5,
    "growth": 64 << 10,
    "hot": 10,
    "least_hot": 1000,
    "brief": 90,
    "churn": 5,
    "turns": 4,
    "least_churn": 256 << 10,
    "capacity": 25,
    "spare": 5,
    "least_spare": 64 << 10,
    "pinned": 8,
    "least_pinned": 64 << 10,
}


def has_snapshots(info: Mapping[str, str]) -> bool:
    """Were snapshots of Lua states taken each time their heaps had grown? info: of steve.trace._memtrace.Trace."""
    return info.get("universe") == "growing"


def help_of(rule: Rule, snapshots: bool) -> str:
    """What usually helps. snapshots: of has_snapshots()."""
    return f"{rule.help}; {UNIVERSE_SHOWS}" if snapshots and rule.key == "growth" else rule.help


def limits(thresholds: Mapping[str, float]) -> Dict[str, float]:
    """Thresholds as the kernel has them (struct findings_limits); no lifetime, size or number of Resizes is above 64
    bits."""
    shares = {name: thresholds[name] / 100 for name in ("early", "late", "idle", "utilisation")}
    numbers = {
        "short_life": thresholds["short"],
        "min_life": thresholds["min_life"],
        "chain": thresholds["chain"],
        "min_size": thresholds["min_size"],
    }
    return {**shares, **{name: min(number, MOST) for name, number in numbers.items()}}


def site_limits(thresholds: Mapping[str, float]) -> Dict[str, float]:
    """Thresholds as the kernel of the rules about sites has them (struct site_rules_limits)."""
    return {
        "capacity": thresholds["capacity"] / 100,
        "short_life": min(thresholds["short"], MOST),
        "min_size": min(thresholds["min_size"], MOST),
    }
