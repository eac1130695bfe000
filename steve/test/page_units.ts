// page_units.ts - unit tests of the report's script, run by test_explore.py with `node --test`.
// SPDX-License-Identifier: GPL-2.0-or-later
import assert from "node:assert";
import test from "node:test";
import type { Changes } from "../report/page/changes_data";
import { compared, movers, othersOf, totalOf, treeOf } from "../report/page/changes_data";
import type { After, Data, Sum } from "../report/page/data";
import { AFTER, Columns, SUMS } from "../report/page/data";
import { collectedIn, interpolated, moved, shareCollected, zoomed } from "../report/page/axis";
import { bothTrees } from "../report/page/callers";
import { fitting } from "../report/page/flame";
import { bytesText, noun, shareText, timeText } from "../report/page/format";
import {liveByRow, masked, maskOf, mayLack, METRICS, sumsByGroup, total, totalsOf} from "../report/page/query";
import { binAt, momentText } from "../report/page/pointer";
import { crowded, largest, nearest } from "../report/page/resident_data";
import { filterText, rowsOf } from "../report/page/rollups";
import { fromFragment, initialState, toFragment } from "../report/page/state";
import { sorted } from "../report/page/table";
import { invertedTree, pathOf, plainTree, search, sumsOf } from "../report/page/tree";

type Row = [group: number, made: number, bin: number, sums: Partial<Record<Sum | After, number>>];

/** main calls f, which calls itself, and g; three groups: f by threads 1 and 2, g by thread 1. */
function example(rows: Row[]): Data {
  const sums = {} as Record<Sum | After, Float64Array>;
  for (const name of [...SUMS, ...AFTER]) sums[name] = Float64Array.from(rows, row => row[3][name] ?? 0);
  return {
    operations: 40, width: 10, bins: 4, cells: rows.length, sites: 2, folded: 0, sets: {},
    timeline: { ends: [40], times: [40], bytes: [1], blocks: [1], allocated: [1] }, marks: [], collected: [0], maxima: { bytes: [100, 110, 117, 77], at: [3, 12, 21, 30] }, clock: [[], []],
    nodes: { parent: [0, 0, 1, 2, 1], frame: [0, 0, 1, 1, 2], own: [0, 0, 1, 1, 2], unread: [0, 0, 0, 0, 0] }, sources: [], links: { 17: 3, 18: 4 },
    groups: { node: [3, 3, 4], own: [1, 1, 2], set: [0, 0, 0], thread: [1, 2, 1], kind: [0, 0, 0], heap: [0, 1, 1], size: [7, 7, 11] }, kinds: ["malloc"], heaps: ["C", "pool"],
    timeUnit: "instructions", accesses: true, codes: [],
    frames: { text: ["main", "f", "g", "malloc"], short: {}, code: [0, 0, 0, 4], lineNumber: [1, 2, 3, 0], function: [0, 1, 2, -1], line: [0, 1, 2, -1],
      file: [0, 0, 0, -1], object: [0, 0, 0, -1] },
    rows: { function: ["main", "f", "g"], line: ["main", "f", "g"], file: ["a.c"], object: ["a"] },
    shortRows: { function: {}, line: {}, file: {}, object: {} },
    table: { n: rows.length, group: Float64Array.from(rows, row => row[0]), made: Float64Array.from(rows, row => row[1]),
      bin: Float64Array.from(rows, row => row[2]), sums },
  };
}

const data = example([
  [0, 0, 0, { news: 2, allocated: 100, reads: 1, bytesRead: 4 }], [0, 0, 2, { frees: 1, freed: 40, reads: 5, bytesRead: 20, afterBytes: -40, afterBlocks: -1 }],
  [1, 1, 1, { news: 1, allocated: 10 }], [1, 1, 3, { frees: 1, freed: 10, afterBytes: -10, afterBlocks: -1 }],
  [2, 2, 2, { news: 1, allocated: 7, writes: 3, bytesWritten: 3 }],
]);

test("windows", () => {
  const sums = (first: number, last: number, metric: "peak" | "live" | "allocated" | "freed" | "growth" | "reads", scope: "all" | "made" = "all") =>
    [...sumsByGroup(data, { first, last }, metric, "bytes", scope)];
  assert.deepEqual(sums(0, 4, "allocated"), [100, 10, 7]);
  assert.deepEqual(sums(1, 3, "allocated"), [0, 10, 7]);
  assert.deepEqual(sums(1, 3, "freed"), [40, 0, 0]);
  assert.deepEqual(sums(1, 3, "freed", "made"), [0, 0, 0]);
  assert.deepEqual(sums(1, 3, "live"), [60, 10, 7]);
  assert.deepEqual(sums(0, 4, "peak"), [100, 10, 7]);
  assert.deepEqual(sums(0, 2, "peak"), [100, 10, 0]);
  assert.deepEqual(sums(3, 4, "peak"), [60, 10, 7]);
  assert.deepEqual(sums(1, 4, "peak", "made"), [0, 10, 7]);
  assert.deepEqual(sums(1, 3, "growth"), [0, 10, 7]);
  assert.deepEqual(sums(1, 4, "growth"), [0, 0, 7]);
  assert.deepEqual(sums(1, 4, "reads"), [20, 0, 0]);
  assert.deepEqual(sums(1, 4, "reads", "made"), [0, 0, 0]);
});

test("totals of all metrics", () => {
    const mask = Uint8Array.of(1, 1, 0);
    for (const first of [0, 1, 2])
        for (const last of [3, 4])
            for (const scope of ["all", "made"] as const)
                for (const age of [0, 1, 2, -1, -2]) {
                    const window = {first, last}, totals = totalsOf(data, window, scope, mask, age);
                    for (const metric of METRICS)
                        for (const unit of ["bytes", "blocks"] as const)
                            assert.equal(totals[metric][unit],
                                         total(masked(sumsByGroup(data, window, metric, unit, scope, age), mask)),
                                         `${metric} ${unit} ${age}`);
                }
});

test("ages", () => {
  const sums = (metric: "peak" | "live" | "freed" | "allocated" | "reads", age: number) =>
    [...sumsByGroup(data, { first: 0, last: 4 }, metric, "bytes", "all", age)];
  assert.deepEqual([sums("peak", 1), sums("peak", 2), sums("peak", 3), sums("peak", -1)], [[100, 10, 0], [100, 0, 0], [0, 0, 0], [0, 0, 7]]);
  assert.deepEqual([sums("live", 2), sums("live", -2)], [[60, 0, 0], [0, 0, 7]]);
  assert.deepEqual([sums("freed", 2), sums("freed", 3), sums("freed", -2)], [[40, 10, 0], [0, 0, 0], [0, 0, 0]]);
  assert.deepEqual([sums("reads", 1), sums("reads", -1), sums("allocated", 1)], [[20, 0, 0], [4, 0, 0], [0, 0, 0]]);
});

test("garbage collection", () => {
  const timeline = { ends: [10, 20, 30, 35], times: [100, 100, 300, 400], bytes: [], blocks: [], allocated: [] };
  const run = { ...data, timeline, collected: [25, 0, 100, 100] };
  assert.deepEqual(shareCollected(run), [0.25, 0, 0.5, 1]);
  assert.deepEqual([collectedIn(run, 0, 35), collectedIn(run, 10, 30), collectedIn(run, 30, 35)], [225, 100, 100]);
});

test("live bytes by row", () => {
  const all = Uint8Array.of(1, 1, 1), rows = (mask: Uint8Array, by: "kind" | "heap" | "thread" | "function", most: number, of = data) =>
    [...liveByRow(of, mask, by, most)].map(([row, live]) => [row, ...live]);
  assert.deepEqual(rows(all, "kind", 6), [[0, 100, 110, 77, 67]]);
  assert.deepEqual(rows(all, "heap", 6), [[0, 100, 100, 60, 60], [1, 0, 10, 17, 7]]);
  assert.deepEqual(rows(all, "heap", 1), [[0, 100, 100, 60, 60], [-1, 0, 10, 17, 7]]);
  assert.deepEqual(rows(Uint8Array.of(0, 1, 0), "thread", 6), [[2, 0, 10, 10, 0]]);
  const [f, g] = [1, 2].map(frame => data.frames.function[frame]);
  assert.deepEqual(rows(all, "function", 6), [[f, 100, 110, 70, 60], [g, 0, 0, 7, 7]]);
  const unnamed = { ...data, frames: { ...data.frames, function: data.frames.function.map((row, frame) => frame === 1 ? -1 : row) } };
  assert.deepEqual(rows(all, "function", 6, unnamed), [[g, 0, 0, 7, 7], [-1, 100, 110, 70, 60]]);
});

test("trees", () => {
  const values = Float64Array.of(100, 10, 7), plain = plainTree(data), inverted = invertedTree(data);
  assert.deepEqual([...sumsOf(plain, values).total], [117, 117, 110, 110, 7]);
  const sums = sumsOf(inverted, values);
  assert.equal(sums.total[0], 117);
  assert.deepEqual(pathOf(inverted, data, inverted.leaves[0] as number), ["f", "f", "main"]);
  const kinds = plainTree(data, true), under = sumsOf(kinds, values);
  assert.deepEqual(pathOf(kinds, data, kinds.leaves[0] as number), ["main", "f", "f", "malloc"]);
  assert.equal(kinds.leaves[0], kinds.leaves[1]);
  assert.deepEqual([under.total[0], under.self[kinds.leaves[0] as number]], [117, 110]);
  const first = invertedTree(data, true);
  assert.deepEqual(pathOf(first, data, first.leaves[2] as number), ["malloc", "g", "main"]);
  assert.equal(search(plain, data, values, "F")?.value, 110);
  assert.equal(search(plain, data, values, ""), null);
});

test("sites that are summed up", () => {
  // group 1 has main and the set of g; of group 2 only main is known
  const folded: Data = { ...data, sets: { 1: [2] }, groups: { ...data.groups, node: [3, 1, 1], own: [1, 2, 0], set: [0, 1, -1] } };
  const tree = plainTree(folded), values = Float64Array.of(100, 10, 7), all = { first: 0, last: 4 };
  const found = (text: string) => { const hit = search(tree, folded, values, text); return [hit?.value, hit?.unknown]; };
  assert.deepEqual(["main", "f", "g"].map(found), [[117, 0], [100, 7], [10, 7]]);
  assert.deepEqual([...maskOf(folded, [{ by: "function", row: 2 }])], [0, 1, 0]);
  assert.equal(mayLack(folded, [{ by: "function", row: 2 }], Uint8Array.of(0, 1, 0)), true);
  assert.equal(mayLack(folded, [{ by: "thread", row: 1 }], Uint8Array.of(0, 1, 0)), false);
  assert.deepEqual(rowsOf(folded, "function", values).map(row => [row.text, row.self, row.inclusive]),
    [["f", 100, 100], ["g", 10, 10], ["main", 7, 117]]);
  assert.equal(total(sumsByGroup(folded, all, "allocated", "bytes", "all")), 117);
});

test("roll-ups", () => {
  const rows = rowsOf(data, "function", Float64Array.of(100, 10, 7));
  assert.deepEqual(rows.map(row => [row.text, row.self, row.inclusive]), [["f", 110, 110], ["g", 7, 7], ["main", 0, 117]]);
  assert.deepEqual(rowsOf(data, "thread", Float64Array.of(100, 10, 7)).map(row => [row.text, row.self]),
    [["thread 1", 107], ["thread 2", 10]]);
  const sizes = rowsOf(data, "size", Float64Array.of(100, 10, 7));
  assert.deepEqual(sizes.map(row => [row.text, row.self]), [["64 B to below 128 B", 110], ["1.00 KiB to below 2.00 KiB", 7]]);
  assert.deepEqual(sorted(sizes, "-name").map(row => row.rank), [11, 7]);
});

test("filters", () => {
  assert.deepEqual([...maskOf(data, [{ by: "function", row: 1 }])], [1, 1, 0]);
  assert.deepEqual([...maskOf(data, [{ by: "function", row: 1 }, { by: "thread", row: 2 }])], [0, 1, 0]);
  assert.deepEqual([...maskOf(data, [])], [1, 1, 1]);
});

test("addresses", () => {
  const state = { ...initialState(data), window: { first: 1, last: 3 }, search: "a&b=#", filters: [{ by: "function" as const, row: 1 }],
    unknown: [{ by: "line" as const, text: "nobody (a.c:9)" }], zoom: ["main", "f"], inverted: true, kinds: true, axis: "instructions" as const, split: "heap" as const,
    shown: { first: 0, last: 3 }, age: -2, order: "-name" as const, callers: "f (a.c:1)" };
  assert.equal(toFragment(data, initialState(data)), "");
  assert.deepEqual(fromFragment(data, toFragment(data, state)), state);
  for (const wrong of ["#explore:from=x&to=-5&metric=none&function=nobody", "#sites", "", "#explore:from=99999"])
    assert.ok(fromFragment(data, wrong).window.last <= 4);
});

test("filters of an address without rows are kept", () => {
  const { filters, unknown } = fromFragment(data, "#explore:function=f&function=nobody&thread=nobody");
  assert.deepEqual(filters, [{ by: "function", row: 1 }]);
  assert.deepEqual(unknown, [{ by: "function", text: "nobody" }, { by: "thread", text: "nobody" }]);
});

test("windows of addresses are whole steps within them", () => {
  const of = (fragment: string) => fromFragment(data, `#explore:${fragment}`).window;
  assert.deepEqual(of("from=15&to=39"), { first: 1, last: 3 });
  assert.deepEqual([of("to=40"), of("to=9"), of("from=40")], [{ first: 0, last: 4 }, { first: 0, last: 1 }, { first: 3, last: 4 }]);
});

test("the axis is zoomed and moved", () => {
  assert.deepEqual(zoomed({ first: 0, last: 100 }, 50, 0.5, 100), { first: 25, last: 75 });
  assert.deepEqual(zoomed({ first: 25, last: 75 }, 25, 0.5, 100), { first: 25, last: 50 });
  assert.deepEqual(zoomed({ first: 25, last: 75 }, 30, 4, 100), { first: 0, last: 100 });
  assert.deepEqual(zoomed({ first: 0, last: 4 }, 2, 0.5, 100), { first: 0, last: 4 });
  assert.deepEqual(zoomed({ first: 0, last: 4 }, 2, 1.1, 100), { first: 0, last: 5 });
  assert.deepEqual([moved({ first: 10, last: 20 }, 5, 100), moved({ first: 10, last: 20 }, -50, 100), moved({ first: 10, last: 20 }, 99, 100)],
    [{ first: 15, last: 25 }, { first: 0, last: 10 }, { first: 90, last: 100 }]);
});

test("what is known of a moment", () => {
  assert.deepEqual([0, 10, 11, 40, 99].map(at => binAt([10, 20, 40], at)), [0, 0, 1, 2, 2]);
  const timeline = { ends: [20, 40], times: [2e9, 4e9], bytes: [2048, 512], blocks: [1, 2], allocated: [3072, 4096] };
  assert.equal(momentText({ ...data, timeline, timeUnit: "nanoseconds" }, 30),
    "operation 30, 3.00 s: 512 B live in 2 blocks; 1.00 KiB allocated around it");
  assert.equal(momentText({ ...data, timeline, clock: [[40], [8e6]] }, 10),
    "operation 10, 1.00 G instructions, wall clock 2.00 ms: 2.00 KiB live in 1 block; 3.00 KiB allocated around it");
});

test("callers and callees", () => {
  const values = Float64Array.of(100, 10, 7), of = (row: number) => {
    const { callers, callees } = bothTrees(data, row);
    return [callers, callees].map(tree => [tree.frame.map(frame => data.frames.text[frame]), [...sumsOf(tree, values).total]]);
  };
  assert.deepEqual(of(1), [[["f", "main"], [110, 110]], [["f", "f"], [110, 110]]]); // f calls itself
  assert.deepEqual(of(0), [[["main"], [117]], [["main", "f", "f", "g"], [117, 110, 110, 7]]]);
  assert.deepEqual(of(2), [[["g", "main"], [7, 7]], [["g"], [7]]]);
  const frames = { ...data.frames, text: ["main", "f", "g", "others"] };
  const folded: Data = { ...data, frames, sets: { 1: [2] }, groups: { ...data.groups, node: [3, 1, 1], own: [1, 2, 0], set: [0, 1, -1] } };
  const { callers, callees, unknown } = bothTrees(folded, 2);
  assert.deepEqual([callers, callees].map(tree => [...sumsOf(tree, values).total]), [[10, 10], [10]]);
  assert.deepEqual([...unknown], [0, 0, 1]);
});

test("names on frames", () => {
  const within = (letters: number) => (text: string) => text.length <= letters;
  const name = "std::vector<int>::push_back (stl_vector.h:120)";
  assert.equal(fitting(name, within(99)), name);
  assert.equal(fitting(name, within(30)), "std::vector<int>::push_back");
  assert.equal(fitting(name, within(10)), "…push_back");
  assert.equal(fitting(name, within(2)), "");
  assert.equal(fitting("operator() (a.cc:1)", within(10)), "operator()");
});

test("orders of tables", () => {
  const row = (text: string, self: number, inclusive: number | null) => ({ row: 0, text, short: text, rank: 0, self, inclusive });
  const rows = [row("b", 3, 3), row("a", 2, 9), row("c", 1, 1)];
  const of = (order: Parameters<typeof sorted>[1]) => sorted(rows, order).map(each => each.text).join("");
  assert.deepEqual([of("self"), of("-self"), of("inclusive"), of("-inclusive"), of("name"), of("-name")],
    ["bac", "cab", "abc", "cba", "abc", "cba"]);
  assert.equal(sorted([row("x", 1, null), row("y", 2, null)], "inclusive")[0]?.text, "y");
});

test("axes", () => {
  const ends = [10, 20, 40], times = [100, 100, 500];
  assert.deepEqual([0, 5, 10, 15, 30, 40, 99].map(x => interpolated(ends, times, x)), [0, 50, 100, 100, 300, 500, 500]);
  assert.deepEqual([50, 100, 300].map(x => interpolated(times, ends, x)), [5, 10, 30]);
});

test("numbers", () => {
  assert.deepEqual([...new Columns(Uint8Array.of(5, 172, 2), 0).next(2)], [5, 300]);
  assert.equal(bytesText(1536), "1.50 KiB");
  assert.equal(bytesText(0), "0 B");
  assert.deepEqual([0, 1, 2].map(n => noun(n, "block")), ["blocks", "block", "blocks"]);
  assert.deepEqual([1, 5].map(n => noun(n, "access", "accesses")), ["access", "accesses"]);
  assert.equal(shareText(1, 3), "33.3%");
  assert.equal(shareText(1, 30000), "<0.1%");
});

test("changes: the largest come first, and the widths are the larger of both", () => {
  const rows = { text: ["same", "less", "more"], a: [[5, 9, 0]], b: [[5, 2, 8]], others: 2, othersA: [3], othersB: [1] };
  assert.deepStrictEqual(movers(rows, 0, 9).map(row => row.text), ["more", "less"]);
  const first = movers(rows, 0, 1);
  assert.deepStrictEqual(first.map(row => row.text), ["more"]);
  assert.deepStrictEqual(othersOf(rows, 0, first), { text: "4 others", a: 17, b: 8 });
  assert.deepStrictEqual(totalOf(rows, 0), { text: "total", a: 17, b: 16 });
  const data = {
    tree: { parent: [0, 0, 1, 1], frame: [0, 1, 2, 3], leaves: [2, 3], a: [[9, 0]], b: [[2, 8]],
      frames: { text: ["all", "main", "less", "more"], code: [0, 0, 0, 0] } },
  } as unknown as Changes;
  const found = compared(data, treeOf(data), 0);
  assert.deepStrictEqual([...found.width.total], [17, 17, 9, 8]);
  assert.deepStrictEqual([...found.a.total], [9, 9, 9, 0]);
  assert.deepStrictEqual([...found.b.total], [10, 10, 2, 8]);
});

test("times", () => {
  assert.deepEqual([0, 999, 1500, 2.5e6, 1.25e9, 6e10].map(timeText), ["0", "999 ns", "1.50 µs", "2.50 ms", "1.25 s", "60.0 s"]);
});

test("looks at the resident memory", () => {
  assert.deepEqual([0, 4, 6, 100].map(to => nearest([1, 5, 9], to)), [0, 1, 1, 2]);
  assert.equal(nearest([], 3), -1);
  assert.equal(largest([1, 5, 9], [10, 30, 20], 0, 9), 1);
  assert.equal(largest([1, 5, 9], [10, 30, 20], 6, 9), 2);
  assert.equal(largest([1, 5, 9], [10, 30, 20], 6, 8), -1);
});

test("a filter by site keeps the blocks of one stack, without what it calls", () => {
  assert.deepEqual([...maskOf(data, [{ by: "site", row: 17 }])], [1, 1, 0]);
  assert.deepEqual([...maskOf(data, [{ by: "site", row: 18 }])], [0, 0, 1]);
  assert.deepEqual([...maskOf(data, [{ by: "site", row: 18 }, { by: "thread", row: 2 }])], [0, 0, 0]);
  assert.equal(mayLack(data, [{ by: "site", row: 17 }], Uint8Array.of(1, 1, 0)), false);
  assert.equal(filterText(data, { by: "site", row: 17 }), "site: f");
  assert.equal(filterText(data, { by: "function", row: 1 }), "function: f, with what it calls");
  assert.equal(filterText(data, { by: "thread", row: 1 }), "thread: thread 1");
  assert.deepEqual([...maskOf(data, [{ by: "own", row: 0 }])], [0, 0, 0]);
  assert.deepEqual([...maskOf(data, [{ by: "own", row: 1 }])], [1, 1, 0]);
  assert.equal(filterText(data, { by: "own", row: 1 }), "line: f itself");
  assert.equal(toFragment(data, fromFragment(data, "#explore:own=f&own=no")), "#explore:own=f&own=no");
  const address = "#explore:from=10&to=40&metric=growth&site=18";
  const state = fromFragment(data, address);
  assert.deepEqual(state.filters, [{ by: "site", row: 18 }]);
  assert.equal(toFragment(data, state), address);
  assert.deepEqual(fromFragment(data, "#explore:site=99").unknown, [{ by: "site", text: "99" }]);
});

test("looks that lie one upon the other", () => {
  assert.equal(crowded([0, 10, 1000, 1001, 1002, 1003], 1003), 4);
  assert.equal(crowded([0, 10, 500, 1000, 1003], 1003), 0);
  assert.equal(crowded([], 0), 0);
  const resident = { looks: 4, why_not: "", number: [1, 2, 3, 4], time: [1, 20, 25, 30], why: [], resident: [1, 1, 1, 1], kinds: [], titles: [], parts: [] };
  const late = { ...data, resident, timeUnit: "nanoseconds", timeline: { ...data.timeline, ends: [40, 40], times: [5, 40] } };
  assert.equal(initialState(late).axis, "instructions");
  assert.equal(initialState({ ...late, timeUnit: "instructions" }).axis, "operations");
  assert.equal(initialState({ ...late, timeline: { ...data.timeline, ends: [40], times: [40] } }).axis, "operations");
});

test("a number that would be rounded to the next unit has that", () => {
  assert.equal(bytesText(1048500), "1.00 MiB");
  assert.equal(bytesText(1023), "1023 B");
  assert.equal(bytesText(1023 * 1024), "1023 KiB");
  assert.equal(timeText(999.7e6), "1.00 s");
});
