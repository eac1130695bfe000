// state.ts - what the reader of the page has chosen, and its form in the fragment of the address.
//
// #explore:from=3&to=9&metric=growth ...: only what differs from the beginning. Nodes and rows are named by their texts, so
// that an address fits the same trace reported again. SPDX-License-Identifier: GPL-2.0-or-later
import { interpolated } from "./axis";
import type { Data } from "./data";
import { FRAME_ROLLUPS, GROUP_ROLLUPS } from "./data";
import type { Age, Filter, Metric, Rollup, Scope, Unit, Window } from "./query";
import { isOfGroups, METRICS } from "./query";
import { crowded } from "./resident_data";
import { rowText } from "./rollups";
import type { Order } from "./table";
import { ORDERS } from "./table";

export const ROLLUPS: Rollup[] = [...FRAME_ROLLUPS, ...GROUP_ROLLUPS];
export const VIEWS = ["flame", "tree", "source", "function", "callers", "line", "file", "object", "kind", "heap", "thread", "size"] as const;
export type View = typeof VIEWS[number];

/** What the timeline is drawn over. */
export const AXES = ["operations", "instructions", "clock"] as const;
export type Axis = typeof AXES[number];

/** Does the trace have what an axis shows? */
export function hasAxis(data: Data, axis: Axis): boolean {
  return axis !== "clock" || data.clock[0].length > 0;
}

/** What the live bytes of the timeline are divided by. */
export const SPLITS = ["none", ...FRAME_ROLLUPS, ...GROUP_ROLLUPS] as const;
export type Split = typeof SPLITS[number];

export interface UnknownFilter {
  by: Filter["by"];
  text: string;
}

export interface State {
  window: Window;
  /** The part of the run that the axis of the timeline shows. */
  shown: Window;
  metric: Metric;
  unit: Unit;
  scope: Scope;
  view: View;
  inverted: boolean;
  /** Is the kind of blocks a frame of the flame graph and the tree? */
  kinds: boolean;
  axis: Axis;
  split: Split;
  search: string;
  age: Age;
  /** What tables are sorted by. */
  order: Order;
  /** The function whose callers and callees are shown; "": the first. */
  callers: string;
  /** The name of the source file that is shown; "": the first. */
  file: string;
  filters: Filter[];
  /** Filters of the address whose rows the page does not have. They leave nothing out, and the page says so. */
  unknown: UnknownFilter[];
  /** The frames from the root to the node to which the flame graph is zoomed. */
  zoom: string[];
}

/** Operations, but times of nanoseconds if the looks at the resident memory would lie one upon the other without them. */
function firstAxis({ resident, timeline: { ends, times }, timeUnit, operations }: Data): Axis {
  if (!resident || timeUnit !== "nanoseconds") return "operations";
  const crowd = crowded(resident.time.map(time => interpolated(times, ends, time)), operations);
  return crowd > crowded(resident.time, times[times.length - 1] ?? 0) ? "instructions" : "operations";
}

export function initialState(data: Data): State {
  return {
    window: { first: 0, last: data.bins }, shown: { first: 0, last: data.bins }, metric: "peak", unit: "bytes", scope: "all", view: "flame",
    inverted: false, kinds: false, axis: firstAxis(data), split: "none", search: "", age: 0, order: "self", callers: "", file: "", filters: [], unknown: [], zoom: [],
  };
}

const MARK = "#explore:";
const UNITS: Unit[] = ["bytes", "blocks"];
const SCOPES: Scope[] = ["all", "made"];

function one<T extends string>(values: readonly T[], text: string | null, otherwise: T): T {
  return values.find(value => value === text) ?? otherwise;
}

export function toFragment(data: Data, state: State): string {
  const begin = initialState(data), fields = new URLSearchParams();
  if (state.window.first !== 0 || state.window.last !== data.bins) {
    fields.set("from", String(state.window.first * data.width));
    fields.set("to", String(state.window.last * data.width));
  }
  if (state.shown.first !== 0 || state.shown.last !== data.bins)
    fields.set("axis-of", [state.shown.first, state.shown.last].map(bin => bin * data.width).join("-"));
  for (const key of ["metric", "unit", "scope", "view", "axis", "split", "search", "order", "callers"] as const)
    if (state[key] !== begin[key]) fields.set(key, state[key]);
  if (state.age) fields.set("age", String(state.age * data.width));
  if (state.file) fields.set("name", state.file); // "file" is a filter
  for (const key of ["inverted", "kinds"] as const) if (state[key]) fields.set(key, "1");
  for (const { by, row } of state.filters) fields.append(by, by === "site" ? String(row) : rowText(data, by === "own" ? "line" : by, row));
  for (const { by, text } of state.unknown) fields.append(by, text);
  for (const frame of state.zoom) fields.append("zoom", frame);
  const text = fields.toString();
  return text && MARK + text;
}

export function isFragment(fragment: string): boolean {
  return fragment.startsWith(MARK);
}

/** A limited number of whole bins before an operation. */
function binOf(data: Data, text: string | null | undefined, least: number, otherwise: number): number {
  if (Number(text) >= data.operations) return data.bins;
  const bin = text === null || text === undefined ? otherwise : Math.floor(Number(text) / data.width);
  return Number.isFinite(bin) ? Math.min(Math.max(bin, least), data.bins) : otherwise;
}

function filtersOf(data: Data, fields: URLSearchParams): Pick<State, "filters" | "unknown"> {
  const filters: Filter[] = [], unknown: UnknownFilter[] = [];
  for (const by of ROLLUPS) {
    const rows = isOfGroups(by) ? [...new Set(data.groups[by])] : data.rows[by].map((_, i) => i);
    for (const text of fields.getAll(by)) {
      const row = rows.find(each => rowText(data, by, each) === text);
      if (row !== undefined) filters.push({ by, row });
      else unknown.push({ by, text });
    }
  }
  for (const text of fields.getAll("own")) {
    const row = data.rows.line.indexOf(text);
    if (row >= 0) filters.push({ by: "own", row });
    else unknown.push({ by: "own", text });
  }
  for (const text of fields.getAll("site"))
    if (data.links[Number(text)] !== undefined) filters.push({ by: "site", row: Number(text) });
    else unknown.push({ by: "site", text });
  return { filters, unknown };
}

export function fromFragment(data: Data, fragment: string): State {
  const begin = initialState(data);
  if (!isFragment(fragment)) return begin;
  const fields = new URLSearchParams(fragment.slice(MARK.length));
  const axis = one(AXES, fields.get("axis"), begin.axis);
  const rangeOf = (from: string | null | undefined, to: string | null | undefined): Window => {
    const first = Math.min(binOf(data, from, 0, 0), data.bins - 1);
    return { first, last: binOf(data, to, first + 1, data.bins) };
  };
  return {
    window: rangeOf(fields.get("from"), fields.get("to")),
    shown: rangeOf(...(fields.get("axis-of")?.split("-") ?? []) as [string?, string?]),
    metric: one(METRICS, fields.get("metric"), begin.metric),
    unit: one(UNITS, fields.get("unit"), begin.unit),
    scope: one(SCOPES, fields.get("scope"), begin.scope),
    view: one(VIEWS, fields.get("view"), begin.view),
    inverted: fields.get("inverted") === "1",
    kinds: fields.get("kinds") === "1",
    axis: hasAxis(data, axis) ? axis : begin.axis,
    split: one(SPLITS, fields.get("split"), begin.split),
    search: fields.get("search") ?? "",
    age: Math.trunc((Number(fields.get("age")) || 0) / data.width),
    order: one(ORDERS, fields.get("order"), begin.order),
    callers: fields.get("callers") ?? "",
    file: fields.get("name") ?? "",
    ...filtersOf(data, fields),
    zoom: fields.getAll("zoom"),
  };
}
