// changes_data.ts - the data of the page of changes, as steve/report/changes.py writes them: base64 of zlib of JSON.
// SPDX-License-Identifier: GPL-2.0-or-later
import type { Named } from "./data";
import { inflated } from "./data";
import { exactText } from "./format";
import type { Sums, Tree } from "./tree";
import { childrenOf, sumsOf } from "./tree";

export interface Side {
  name: string;
  command: string;
  operations: number;
  timeline: { ends: number[]; times: number[]; bytes: number[]; blocks: number[]; allocated: number[] };
  marks: [number, string][];
}

/** Columns by measure, of both traces. */
interface Columns {
  a: number[][];
  b: number[][];
}

export interface RowColumns extends Columns {
  text: string[];
  others: number;
  othersA: number[];
  othersB: number[];
}

export interface Changes {
  sides: [Side, Side];
  /** Marks of both: the operation in A and in B, and the name. */
  anchors: [number, number, string][];
  /** Key and text. */
  measures: [string, string][];
  /** Which trace has no accesses; "": both have them, and they are a measure. */
  accesses: string;
  /** How many rows a table shows; `rows` has the movers by every measure. */
  mostRows: number;
  /** The measure that is shown first. */
  measure: string;
  tree: { parent: number[]; frame: number[]; leaves: number[] } & Columns & Named;
  rows: Record<string, RowColumns>;
}

/** A row of a table. */
export interface Change {
  text: string;
  a: number;
  b: number;
}

export const change = (row: Change): number => row.b - row.a;

/** The rows whose measure differs, the largest change first; at most so many. */
export function movers(rows: RowColumns, measure: number, most: number): Change[] {
  const a = rows.a[measure] ?? [], b = rows.b[measure] ?? [];
  return rows.text.map((text, i) => ({ text, a: a[i] as number, b: b[i] as number })).filter(change)
    .sort((x, y) => Math.abs(change(y)) - Math.abs(change(x)) || x.text.localeCompare(y.text)).slice(0, most);
}

/** The sums of all rows but some. */
export function othersOf(rows: RowColumns, measure: number, shown: Change[]): Change {
  const total = totalOf(rows, measure), n = rows.text.length + rows.others - shown.length;
  return shown.reduce((left, row) => ({ text: left.text, a: left.a - row.a, b: left.b - row.b }),
    { text: `${exactText(n)} others`, a: total.a, b: total.b });
}

/** The sums of all rows. */
export function totalOf(rows: RowColumns, measure: number): Change {
  const sum = (values: number[][], others: number[]): number =>
    (values[measure] ?? []).reduce((total, value) => total + value, others[measure] as number);
  return { text: "total", a: sum(rows.a, rows.othersA), b: sum(rows.b, rows.othersB) };
}

/** The tree with the sums of a measure: of both traces, and the widths, which are the larger of the two at each leaf. */
export interface Compared {
  tree: Tree;
  a: Sums;
  b: Sums;
  width: Sums;
}

export function treeOf(data: Changes): Tree {
  const { parent, frame, leaves } = data.tree;
  return { parent, frame, leaves, children: childrenOf(parent) };
}

export function compared(data: Changes, tree: Tree, measure: number): Compared {
  const a = Float64Array.from(data.tree.a[measure] ?? []), b = Float64Array.from(data.tree.b[measure] ?? []);
  return { tree, a: sumsOf(tree, a), b: sumsOf(tree, b), width: sumsOf(tree, a.map((value, i) => Math.max(value, b[i] as number))) };
}

export async function load(base64: string): Promise<Changes> {
  return JSON.parse(new TextDecoder().decode(await inflated(base64))) as Changes;
}
