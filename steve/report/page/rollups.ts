// rollups.ts - the sums of a selection by function, line, file, object, kind, heap, thread and size.
// SPDX-License-Identifier: GPL-2.0-or-later
import type { Data } from "./data";
import { nameOf } from "./data";
import { bytesText } from "./format";
import type { Filter, Rollup } from "./query";
import { isOfGroups } from "./query";
import {sumsOf} from "./tree";

/** short: the text where there is little room. rank: what the order of names begins with. self: what the row's own
 * code allocated; all sum up to 100%. inclusive: with what it called; null where there are no callers. */
export interface Row {
  row: number;
  text: string;
  short: string;
  rank: number;
  self: number;
  inclusive: number | null;
}

const topNodes = new WeakMap<number[], Uint8Array>(); // by rows: what topsOf() found

/** By node: is it the first one of its row on the way from the root? That is the same for all windows. */
function topsOf(data: Data, rows: number[]): Uint8Array
{
    const {parent, frame} = data.nodes, tops = topNodes.get(rows) ?? new Uint8Array(parent.length);
    if (topNodes.has(rows))
        return tops;
    for (let i = 1; i < parent.length; i++) {
        const row = rows[frame[i] as number] as number;
        let above = parent[i] as number;
        while (above > 0 && rows[frame[above] as number] !== row)
            above = parent[above] as number;
        tops[i] = above === 0 ? 1 : 0;
    }
    topNodes.set(rows, tops);
    return tops;
}

/** Each stack counts once for each row that is anywhere in it. rows: by frame. totals: of the tree of the data. */
export function inclusiveOf(data: Data, rows: number[], totals: Float64Array): Map<number, number>
{
    const {frame} = data.nodes, tops = topsOf(data, rows);
    const found = new Map<number, number>();
    for (let i = 1; i < tops.length; i++)
        if (tops[i])
            add(found, rows[frame[i] as number] as number, totals[i] as number);
    return found;
}

/** Adds to the rows what sites that are summed up below a node have in frames that are not in the path to that node. */
function addSets(data: Data, rows: number[], byGroup: Float64Array, to: Map<number, number>): void {
  const { node, set } = data.groups, { parent, frame } = data.nodes;
  byGroup.forEach((value, group) => {
    const found = data.sets[set[group] as number];
    if (!value || !found) return;
    const above = new Set<number>();
    for (let at = node[group] as number; at > 0; at = parent[at] as number) above.add(rows[frame[at] as number] as number);
    for (const row of new Set(found.map(each => rows[each] as number))) if (!above.has(row)) add(to, row, value);
  });
}

function add(to: Map<number, number>, row: number, value: number): void {
  if (value) to.set(row, (to.get(row) ?? 0) + value);
}

/** The sizes with a number of bits. */
export function sizeText(bits: number): string {
  return bits < 2 ? bytesText(bits) : `${bytesText(2 ** (bits - 1))} to below ${bytesText(2 ** bits)}`;
}

export function rowText(data: Data, by: Rollup, row: number): string {
  if (by === "thread") return `thread ${row}`;
  if (by === "size") return sizeText(row);
  return (by === "kind" ? data.kinds : by === "heap" ? data.heaps : data.rows[by])[row] ?? "";
}

/** The blocks that a filter keeps, where there is little room. */
export function filterText(data: Data, { by, row }: Filter): string {
  if (by === "own") return `line: ${shortText(data, "line", row)} itself`;
  if (by !== "site") return `${by}: ${shortText(data, by, row)}${by === "function" || by === "line" ? ", with what it calls" : ""}`;
  const node = data.links[row] ?? 0, own = data.nodes.own[node] as number, inner = data.nodes.frame[node] as number;
  return `site: ${nameOf(data, own)}${own === inner ? "" : ` by ${nameOf(data, inner)}`}`;
}

/** The same where there is little room. */
function shortText(data: Data, by: Rollup, row: number): string {
  return (isOfGroups(by) ? undefined : data.shortRows[by][row]) ?? rowText(data, by, row);
}

/** The rows with a value, the largest first. */
export function rowsOf(data: Data, by: Rollup, byGroup: Float64Array): Row[] {
  const { node } = data.groups, self = new Map<number, number>();
  let inclusive: Map<number, number> | null = null;
  if (isOfGroups(by)) {
    byGroup.forEach((value, i) => add(self, data.groups[by][i] as number, value));
  } else {
    const rows = data.frames[by], own = data.groups.own;
    byGroup.forEach((value, i) => add(self, rows[own[i] as number] as number, value));
    inclusive = inclusiveOf(data, data.frames[by],
                            sumsOf({parent : data.nodes.parent, leaves : node}, byGroup).total);
    addSets(data, rows, byGroup, inclusive);
  }
  const numbers = new Set([...self.keys(), ...(inclusive?.keys() ?? [])]);
  const found = [...numbers].map(row => ({
    row, text: rowText(data, by, row), short: shortText(data, by, row), rank: by === "size" ? row : 0, self: self.get(row) ?? 0,
    inclusive: inclusive && Math.max(inclusive.get(row) ?? 0, self.get(row) ?? 0),
  }));
  return found.sort((a, b) => b.self - a.self || (b.inclusive ?? 0) - (a.inclusive ?? 0) || a.text.localeCompare(b.text));
}
