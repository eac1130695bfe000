// source.ts - a source file with the numbers of the window beside each line.
//
// Reads and writes are both those of the blocks that the line made, in the window, and those that the line itself does, in
// the whole run. SPDX-License-Identifier: GPL-2.0-or-later
import type { Data, Source } from "./data";
import { byId, make } from "./dom";
import { bytesText, countText, exactText } from "./format";
import type { State } from "./state";
import { masked, sumsByGroup } from "./query";
import { inclusiveOf } from "./rollups";
import {sumsOf} from "./tree";

const NEAR = 12;          // lines shown around a line with numbers
const ALL_LINES = 1500;   // a file of so many lines is shown whole

/** What a column shows of the window. */
interface Column {
  name: string;
  title: string;
  text: (value: number) => string;
  byLine: Map<number, number>;
}

/** By frame: its line, if it is in the file; else 0. */
function linesOf(data: Data, file: number): number[] {
  return data.frames.lineNumber.map((line, frame) => data.frames.file[frame] === file ? line : 0);
}

/** Sums by line. own: of each value, the frame whose own code made it. */
function ownSums(lines: number[], own: number[], values: ArrayLike<number>): Map<number, number> {
  const found = new Map<number, number>();
  for (const [i, frame] of own.entries()) {
    const line = lines[frame] as number;
    if (line && values[i]) found.set(line, (found.get(line) ?? 0) + (values[i] as number));
  }
  return found;
}

/** What the lines themselves read (1) or write (2). */
function workOf(source: Source, which: 1 | 2): Map<number, number> {
  return new Map(source.work.filter(row => row[which]).map(row => [row[0], row[which]]));
}

function column(name: string, title: string, byLine: Map<number, number>, text = bytesText): Column {
  return { name, title, text, byLine };
}

function columnsOf(data: Data, state: State, mask: Uint8Array, lines: number[], source: Source): Column[] {
    const tree = {parent : data.nodes.parent, leaves : data.groups.node};
    const sums = (metric: State["metric"], unit: State["unit"]) =>
        masked(sumsByGroup(data, state.window, metric, unit, state.scope, state.age), mask);
    const own = (metric: State["metric"], unit: State["unit"]) =>
        ownSums(lines, data.groups.own, sums(metric, unit));
    const whole = inclusiveOf(data, lines, sumsOf(tree, sums("allocated", "bytes")).total);
    whole.delete(0);
    const columns = [
        column("blocks", "blocks made by the line in the window", own("allocated", "blocks"), countText),
        column("bytes", "bytes allocated by the line in the window", own("allocated", "bytes")),
        column("with callees", "bytes allocated by the line and what it calls in the window", whole),
        column("at peak", "bytes live at the peak of the window", own("peak", "bytes")),
        column("live", "bytes live at the end of the window", own("live", "bytes")),
        column("blocks read", "bytes read in the window from blocks that the line made", own("reads", "bytes")),
        column("blocks written", "bytes written in the window to blocks that the line made", own("writes", "bytes")),
        column("never read", "bytes of the line's blocks that were never read in the whole run",
               ownSums(lines, data.nodes.own, data.nodes.unread)),
        column("reads", "bytes that the line reads in the whole run, from any block", workOf(source, 1)),
        column("writes", "bytes that the line writes in the whole run, to any block", workOf(source, 2)),
    ];
    return columns.filter(({byLine}, i) => i < 2 || byLine.size);
}

/** The lines of a long file that are near one with numbers. */
function shownLines(n: number, columns: Column[]): Set<number> {
  const shown = new Set<number>();
  if (n <= ALL_LINES) for (let line = 1; line <= n; line++) shown.add(line);
  for (const { byLine } of columns)
    for (const line of byLine.keys())
      for (let near = Math.max(line - NEAR, 1); near <= Math.min(line + NEAR, n); near++) shown.add(near);
  return shown;
}

/** The class of columns that are left out where the page is narrow. */
function narrow(column: Column): string {
  return column.name === "bytes" ? "" : " x-more";
}

function lineRow(number: number, text: string, columns: Column[], heat: number): HTMLElement {
  const cells = columns.map(column => {
    const value = column.byLine.get(number), name = `n${narrow(column)}`;
    return make("td", value ? { class: name, title: exactText(value), "data-v": String(value) } : { class: name },
      value ? column.text(value) : "");
  });
  const strip = make("td", { class: "x-heat" });
  if (heat) strip.style.setProperty("--heat", (0.15 + 0.85 * Math.sqrt(heat)).toFixed(2));
  return make("tr", { "data-line": String(number) }, ...cells, strip, make("td", { class: "x-line" }, String(number)),
    make("td", { class: "x-text" }, text));
}

/** A frame of what the filters keep, whose line is of interest; -1: there is none. */
function filtered(data: Data, { filters }: State): number {
  const { frames, links, nodes } = data;
  for (const { by, row } of filters) {
    if (by === "site") return nodes.own[links[row] as number] ?? -1;
    if (by === "own" || by === "line" || by === "function" || by === "file") {
      const found = frames[by === "own" ? "line" : by].indexOf(row);
      if (found >= 0) return found;
    }
  }
  return -1;
}

/** The file of the state; else that of the filters; else the first that is there, one that is no part of the system if
 * possible. */
function chosen(data: Data, state: State, of: number): Source | undefined {
  const there = data.sources.filter(source => !source.missing);
  return data.sources.find(source => source.path === state.file) ??
    data.sources.find(source => of >= 0 && source.file === data.frames.file[of]) ?? there.find(source => !source.path.startsWith("/usr/")) ??
    there[0] ?? data.sources[0];
}

let shownPlace = "";

/** Show a line; if it is 0, that with the most bytes, or else the first with numbers; unless that was shown before. */
function scrollTo(path: string, wanted: number, columns: Column[], table: HTMLElement): void {
  if (`${path}:${wanted}` === shownPlace) return;
  shownPlace = `${path}:${wanted}`;
  const byLine = columns.map(column => column.byLine).find((_, i) => columns[i]?.name === "bytes" && columns[i]?.byLine.size)
    ?? columns.find(column => column.byLine.size)?.byLine;
  const line = wanted || [...byLine ?? []].reduce((most, each) => each[1] > most[1] ? each : most, [0, 0])[0];
  const row = table.querySelector<HTMLElement>(`tr[data-line="${line}"]`), region = table.parentElement;
  if (row && region) region.scrollTop = row.offsetTop - region.clientHeight / 3;
}

export function showSource(data: Data, state: State, mask: Uint8Array): void {
  const of = filtered(data, state), source = chosen(data, state, of), select = byId<HTMLSelectElement>("explore-file");
  const options = [...data.sources].sort((a, b) => Number(!!a.missing) - Number(!!b.missing));
  select.replaceChildren(...options.map(each => make("option", { value: each.path }, each.path + (each.missing ? " (not shown)" : ""))));
  const about = byId("explore-missing"), table = byId("explore-code");
  table.replaceChildren();
  const elsewhere = of >= 0 && !state.file && source?.file !== data.frames.file[of]
    ? `${data.rows.file[data.frames.file[of] as number] ?? "The file of the filter"} is not in this page. ` : "";
  about.textContent = elsewhere + (source ? source.missing && `${source.path}: ${source.missing}.` : "The report has no source files.");
  if (!source) return;
  select.value = source.path;
  if (source.missing) return;
  const lines = linesOf(data, source.file), columns = columnsOf(data, state, mask, lines, source);
  const texts = source.text.split("\n"), shown = shownLines(texts.length, columns), bytes = columns[1]?.byLine;
  const most = Math.max(1, ...bytes?.values() ?? []), rows: HTMLElement[] = [];
  let before = 0;
  for (const number of [...shown].sort((a, b) => a - b)) {
    if (number !== before + 1) rows.push(make("tr", { class: "muted" }, make("td", { colspan: String(columns.length + 3) }, "⋯")));
    rows.push(lineRow(number, texts[number - 1] ?? "", columns, (bytes?.get(number) ?? 0) / most));
    before = number;
  }
  const heads = columns.map(column =>
    make("th", { scope: "col", title: column.title, class: narrow(column) }, column.name));
  table.replaceChildren(make("thead", {}, make("tr", {}, ...heads, make("th", {}), make("th", {}, "line"), make("th", {}, source.path))),
    make("tbody", {}, ...rows));
  scrollTo(source.path, of >= 0 && source.file === data.frames.file[of] ? data.frames.lineNumber[of] ?? 0 : 0, columns, table);
}
