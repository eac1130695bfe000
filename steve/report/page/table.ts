// table.ts - the table of a roll-up: a row filters the page. SPDX-License-Identifier: GPL-2.0-or-later
import { byId, make } from "./dom";
import { exactText, shareText } from "./format";
import type { Rollup } from "./query";
import type { Row } from "./rollups";

const MOST_ROWS = 200;

export interface TableInput {
  by: Rollup;
  rows: Row[];
  whole: number;
  search: string;
  unit: (value: number) => string;
  filter(row: Row): void;
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

export function showTable(input: TableInput): void {
  const wanted = input.search.toLowerCase();
  const found = input.rows.filter(row => row.text.toLowerCase().includes(wanted));
  const inclusive = input.rows.some(row => row.inclusive !== null), columns = inclusive ? 5 : 3;
  const headings = [input.by, "itself", "%", ...(inclusive ? ["with callees", "%"] : [])];
  const rows = found.slice(0, MOST_ROWS).map(row => {
    const name = make("button", { type: "button", class: "x-pick", title: `only blocks of ${row.text}` }, row.text);
    name.addEventListener("click", () => input.filter(row));
    return make("tr", { "data-row": row.text }, make("td", {}, name), ...cell(row.self, input.whole, input.unit),
      ...(row.inclusive === null ? [] : cell(row.inclusive, input.whole, input.unit)));
  });
  const shown = found.slice(0, MOST_ROWS).reduce((sum, row) => sum + row.self, 0);
  const rest = input.rows.length - rows.length;
  const sums = [...(rest ? [sumRow(`${rest} others`, input.whole - shown, input, columns)] : []),
    sumRow("total", input.whole, input, columns)];
  byId("explore-table").replaceChildren(
    make("thead", {}, make("tr", {}, ...headings.map(text => make("th", { scope: "col" }, text)))),
    make("tbody", {}, ...rows, ...sums));
}
