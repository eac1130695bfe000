// table.ts - the table of a roll-up: a row filters the page, and a heading sorts. SPDX-License-Identifier: GPL-2.0-or-later
import { byId, make } from "./dom";
import { exactText, shareText } from "./format";
import type { Rollup } from "./query";
import type { Row } from "./rollups";

const MOST_ROWS = 200;

/** What a table is sorted by: the name of a column, with a minus sign if the smallest comes first. */
export const ORDERS = ["self", "-self", "inclusive", "-inclusive", "name", "-name"] as const;
export type Order = typeof ORDERS[number];

export interface TableInput {
  by: Rollup;
  rows: Row[];
  whole: number;
  search: string;
  order: Order;
  unit: (value: number) => string;
  filter(row: Row): void;
  sort(order: Order): void;
  /** Show the callers and callees of a function; null: the rows are none. */
  callers: ((row: Row) => void) | null;
}

/** The rows in an order; those that it does not tell apart stay as they are. */
export function sorted(rows: Row[], order: Order): Row[] {
  const key = order.replace("-", ""), sign = order.startsWith("-") ? -1 : 1;
  if (key === "name") return [...rows].sort((a, b) => sign * (a.rank - b.rank || a.text.localeCompare(b.text)));
  const value = (row: Row): number => key === "self" ? row.self : row.inclusive ?? row.self;
  return [...rows].sort((a, b) => sign * (value(b) - value(a)));
}

function cell(value: number, whole: number, unit: (value: number) => string): HTMLElement[] {
  return [make("td", { class: "n", "data-v": String(value), title: exactText(value) }, unit(value)),
    make("td", { class: "n" }, shareText(value, whole))];
}

/** The last rows: what is not shown, and the whole. */
function sumRow(text: string, value: number, input: TableInput, columns: number): HTMLElement {
  return make("tr", { class: "x-sum" }, make("td", {}, text), ...cell(value, input.whole, input.unit),
    ...Array.from({ length: columns - 3 }, () => make("td", {})));
}

/** A heading that sorts by its column: first the largest, or the names from A on; pressed again, the other way round. */
function heading(text: string, key: "name" | "self" | "inclusive", input: TableInput): HTMLElement {
  const button = make("button", { type: "button" }, text), isOrder = input.order.endsWith(key);
  button.addEventListener("click", () => {
    input.sort(input.order === key ? `-${key}` : key);
    byId("explore-table").querySelector<HTMLElement>(`[data-key=${key}] button`)?.focus();
  });
  const descending = (key === "name") === input.order.startsWith("-");
  return make("th", { scope: "col", "data-key": key, ...(isOrder ? { "aria-sort": descending ? "descending" : "ascending" } : {}) }, button);
}

function rowOf(row: Row, input: TableInput): HTMLElement {
  const name = make("button", { type: "button", class: "x-pick", title: `only blocks of ${row.text}` }, row.short);
  name.addEventListener("click", () => input.filter(row));
  const first = make("td", {}, name), { callers } = input;
  if (callers) {
    const more = make("button", { type: "button", class: "x-callers", "aria-label": `callers and callees of ${row.text}` }, "callers");
    more.addEventListener("click", () => callers(row));
    first.append(" ", more);
  }
  return make("tr", { "data-row": row.text }, first, ...cell(row.self, input.whole, input.unit),
    ...(row.inclusive === null ? [] : cell(row.inclusive, input.whole, input.unit)));
}

export function showTable(input: TableInput): void {
  const wanted = input.search.toLowerCase();
  const found = sorted(input.rows.filter(row => row.text.toLowerCase().includes(wanted)), input.order);
  const inclusive = input.rows.some(row => row.inclusive !== null), columns = inclusive ? 5 : 3;
  const percent = (): HTMLElement => make("th", { scope: "col" }, "%");
  const headings = [heading(input.by, "name", input), heading("itself", "self", input), percent(),
    ...(inclusive ? [heading("with callees", "inclusive", input), percent()] : [])];
  const rows = found.slice(0, MOST_ROWS).map(row => rowOf(row, input));
  const shown = found.slice(0, MOST_ROWS).reduce((sum, row) => sum + row.self, 0);
  const rest = input.rows.length - rows.length;
  const sums = [...(rest ? [sumRow(`${rest} others`, input.whole - shown, input, columns)] : []),
    sumRow("total", input.whole, input, columns)];
  byId("explore-table").replaceChildren(
    make("thead", {}, make("tr", {}, ...headings)),
    make("tbody", {}, ...rows, ...sums));
}
