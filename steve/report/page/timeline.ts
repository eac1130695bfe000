// timeline.ts - the heap over the run, always in view, with the brush that chooses the window.
//
// The brush moves in steps of bins, because the sums of the page are known by bin. There is no brush while the window is
// the whole run, so that dragging anywhere makes one. A click on the peak or on a mark chooses a window, too. The two
// sliders below do the same for the keyboard. The wheel with Ctrl makes the axis longer or shorter, with Shift it moves it; the
// buttons do the same. SPDX-License-Identifier: GPL-2.0-or-later
import { brushX } from "d3-brush";
import { scaleLinear } from "d3-scale";
import type { Linear } from "d3-scale";
import { event, select } from "d3-selection";
import type { BrushEvent } from "d3-selection";
import type { Data } from "./data";
import { interpolated, moved, shareCollected, zoomed } from "./axis";
import { byId, make, shape } from "./dom";
import { bytesText, countText, exactText, timeText } from "./format";
import { Pointer } from "./pointer";
import type { Window } from "./query";
import { liveByRow, overTime, peakBin } from "./query";
import type { ResidentPicture } from "./resident";
import { residentPicture } from "./resident";
import { rowText } from "./rollups";
import type { Axis, Split, State } from "./state";

const LEFT = 62, RIGHT = 12, TOP = 20, CURVE = 84, RATE = 30, GAP = 8, AXIS = 20;
const STRIP = 12; // of the garbage collection
const NARROW = 500, LINE = 15; // pixels below which the name of the axis has a line of its own
export const LETTER = 7.2;
const ZOOM = 1.5, STEP = 0.25; // of one step of the wheel or press of a button: the factor, and the part of the axis
const BANDS = 6; // with a colour each; the others are one band

/** What the second axis is called. */
export function timesName(data: Data): string {
  return data.timeUnit === "nanoseconds" ? "time" : data.timeUnit;
}

/** The path of a curve in steps, as an area or as a line. */
export function steps(ends: ArrayLike<number>, values: ArrayLike<number>, x: (value: number) => number, y: Linear,
  area = true): string {
  const begin = area ? 0 : values[0] ?? 0;
  let path = `M${x(0).toFixed(1)},${y(begin).toFixed(1)}`, before = 0;
  for (let i = 0; i < ends.length; i++) {
    const at = y(values[i] as number).toFixed(1), end = ends[i] as number;
    path += `L${x(before).toFixed(1)},${at}L${x(end).toFixed(1)},${at}`;
    before = end;
  }
  return area ? `${path}L${x(before).toFixed(1)},${y(0).toFixed(1)}Z` : path;
}

/** How a window was chosen: while the mouse drags the brush, by a slider that may still move, or else. */
export type Choice = "dragging" | "sliding" | "chosen";

/** Labels from left to right that leave a gap to the one before. */
export function withoutCollisions<T>(labels: T[], at: (label: T) => number, text: (label: T) => string): T[] {
  let end = -Infinity;
  return labels.filter(label => {
    const half = text(label).length * LETTER / 2;
    if (at(label) - half < end + 8) return false;
    end = at(label) + half;
    return true;
  });
}

export class Timeline {
  private readonly svg = byId<SVGSVGElement>("explore-timeline");
  private readonly from = byId<HTMLInputElement>("explore-from");
  private readonly to = byId<HTMLInputElement>("explore-to");
  private readonly pointer: Pointer;
  private window: Window;
  private shown: Window;
  private mask: Uint8Array;
  private axisName: Axis = "operations";
  private split: Split = "none";
  private bands = new Map<number, Float64Array>();
  private scale = scaleLinear();
  private drawing = false;
  private readonly ends: number[];
  private readonly collects: boolean;
  private readonly resident: ResidentPicture | null;
  private readonly top: number; // of the live bytes
  private height = 0;

  /** chosen: a window was chosen; moved: another part of the axis. */
  constructor(private readonly data: Data, private readonly chosen: (window: Window, choice: Choice) => void,
    private readonly moved: (shown: Window) => void) {
    this.window = { first: 0, last: data.bins };
    this.shown = this.window;
    this.mask = new Uint8Array(data.groups.node.length).fill(1);
    this.ends = Array.from({ length: data.bins }, (_, i) => Math.min((i + 1) * data.width, data.operations));
    this.collects = data.collected.some(value => value > 0);
    this.resident = residentPicture(data);
    this.top = TOP + (this.resident?.height ?? 0);
    for (const slider of [this.from, this.to]) slider.max = String(data.bins);
    this.from.addEventListener("input", () => {
      const first = Math.min(Number(this.from.value), data.bins - 1);
      this.choose({ first, last: Math.max(this.window.last, first + 1) }, "sliding");
    });
    this.to.addEventListener("input", () => {
      const last = Math.max(Number(this.to.value), 1);
      this.choose({ first: Math.min(this.window.first, last - 1), last }, "sliding");
    });
    this.pointer = new Pointer(data, this.svg, pixel => this.isWithin(pixel) ? Math.min(this.operationAt(pixel), data.operations) : null,
      operation => this.resident?.point(operation));
    this.svg.addEventListener("wheel", event => this.wheel(event), { passive: false });
    for (const [name, move] of [["in", () => this.zoom(1 / ZOOM)], ["out", () => this.zoom(ZOOM)], ["left", () => this.pan(-STEP)],
      ["right", () => this.pan(STEP)], ["fit", () => this.fit()]] as const)
      byId(`explore-zoom-${name}`).addEventListener("click", move);
    new ResizeObserver(() => this.draw()).observe(this.svg.parentElement as Element);
  }

  private isWithin(pixel: number): boolean {
    return pixel >= LEFT && pixel <= (this.svg.parentElement as Element).clientWidth - RIGHT;
  }

  private move(shown: Window): void {
    if (shown.first !== this.shown.first || shown.last !== this.shown.last) this.moved(shown);
  }

  /** Make the axis show a factor as much; a moment stays where it is: by default the middle of the window, if it is in view. */
  zoom(factor: number, at?: number): void {
    const { window, shown } = this, middle = (window.first + window.last) / 2;
    const fixed = at ?? (!this.isWhole() && middle > shown.first && middle < shown.last ? middle : (shown.first + shown.last) / 2);
    this.move(zoomed(shown, fixed, factor, this.data.bins));
  }

  /** Move the axis by a part of what it shows. */
  pan(part: number): void {
    const length = this.shown.last - this.shown.first;
    this.move(moved(this.shown, Math.sign(part) * Math.max(Math.abs(part) * length, 1), this.data.bins));
  }

  /** Show the window with as much before and after it; if that is in view already, the whole run. */
  fit(): void {
    const { window: { first, last }, data: { bins } } = this, around = Math.max(last - first, 2) / 2;
    const wanted = { first: Math.max(Math.floor(first - around), 0), last: Math.min(Math.ceil(last + around), bins) };
    const isShown = wanted.first === this.shown.first && wanted.last === this.shown.last;
    this.move(isShown || this.isWhole() ? { first: 0, last: bins } : wanted);
  }

  private wheel(event: WheelEvent): void {
    const turned = event.deltaY || event.deltaX;
    if (!turned || !(event.ctrlKey || event.shiftKey)) return;
    event.preventDefault();
    const pixel = event.clientX - this.svg.getBoundingClientRect().left;
    if (event.ctrlKey) this.zoom(turned > 0 ? ZOOM : 1 / ZOOM, this.operationAt(pixel) / this.data.width);
    else this.pan(turned > 0 ? STEP : -STEP);
  }

  /** Operations, and what the axis has at their end; null: the axis has the operations themselves. */
  private points(): [number[], number[]] | null {
    const { timeline: { ends, times }, clock } = this.data;
    return this.axisName === "operations" ? null : this.axisName === "clock" ? clock : [ends, times];
  }

  /** The pixel of an operation. */
  private readonly x = (operation: number): number => {
    const points = this.points();
    return this.scale(points ? interpolated(points[0], points[1], operation) : operation);
  };

  /** The operations before a bin. */
  private operationOf(bin: number): number {
    return Math.min(bin * this.data.width, this.data.operations);
  }

  /** Is an operation in the part of the axis that is shown? */
  private isShown(operation: number): boolean {
    return operation >= this.operationOf(this.shown.first) && operation <= this.operationOf(this.shown.last);
  }

  /** The largest value of those whose interval, which ends at the same index of ends, is shown; at least 1. */
  private most(ends: ArrayLike<number>, values: ArrayLike<number>): number {
    const from = this.operationOf(this.shown.first), to = this.operationOf(this.shown.last);
    let found = 1;
    for (let i = 0; i < ends.length; i++)
      if ((ends[i] as number) > from && (i ? ends[i - 1] as number : 0) < to) found = Math.max(found, values[i] as number);
    return found;
  }

  private operationAt(pixel: number): number {
    const points = this.points(), value = this.scale.invert(pixel);
    return points ? interpolated(points[1], points[0], value) : value;
  }

  /** Show a window, and what the filters leave of the heap. */
  show(state: State, mask: Uint8Array): void {
    this.axisName = state.axis;
    this.split = state.split;
    this.window = state.window;
    this.shown = state.shown;
    this.mask = mask;
    this.bands = this.split === "none" ? new Map<number, Float64Array>() : liveByRow(this.data, mask, this.split, BANDS);
    this.showKey();
    this.resident?.choose(this.operationOf(this.window.first), this.operationOf(this.window.last));
    this.draw();
  }

  private choose(window: Window, choice: Choice): void {
    if (window.first !== this.window.first || window.last !== this.window.last) this.chosen(window, choice);
  }

  private isWhole(): boolean {
    return this.window.first === 0 && this.window.last === this.data.bins;
  }

  private draw(): void {
    const width = (this.svg.parentElement as Element).clientWidth;
    if (width < 50) return;
    this.height = this.top + CURVE + GAP + RATE + (this.collects ? GAP / 2 + STRIP : 0) + AXIS;
    const whole = this.height + (width < NARROW ? LINE : 0);
    this.svg.setAttribute("viewBox", `0 0 ${width} ${whole}`);
    this.svg.setAttribute("width", String(width));
    this.svg.setAttribute("height", String(whole));
    const points = this.points(), [from, to] = [this.shown.first, this.shown.last].map(bin => this.operationOf(bin)) as [number, number];
    const begin = points ? interpolated(points[0], points[1], from) : from, end = points ? interpolated(points[0], points[1], to) : to;
    this.scale = scaleLinear().domain([begin, Math.max(end, begin + 1e-9)]).range([LEFT, width - RIGHT]);
    const inner = width - LEFT - RIGHT; // what is drawn in this part is cut at its borders
    const area = shape("svg", { x: LEFT, y: 0, width: inner, height: this.height, viewBox: `${LEFT} 0 ${inner} ${this.height}` });
    area.append(...this.resident?.drawn(this.x, TOP, from, to) ?? [], ...this.curves(), ...this.rates(), ...this.collections(), ...this.marks());
    this.svg.replaceChildren(area, ...this.captions(), ...this.resident?.captions(LEFT, TOP, from, to) ?? [], ...this.axis(width), this.brush(width), ...this.markSigns(), ...this.peak(), ...this.markLabels(width),
      this.pointer.drawn(TOP, this.height - AXIS));
    for (const name of ["out", "left", "right"])
      byId<HTMLButtonElement>(`explore-zoom-${name}`).disabled = this.shown.last - this.shown.first === this.data.bins;
    this.from.value = String(this.window.first);
    this.to.value = String(this.window.last);
    this.from.setAttribute("aria-valuetext", `from operation ${this.operationOf(this.window.first)}`);
    this.to.setAttribute("aria-valuetext", `to operation ${this.operationOf(this.window.last)}`);
  }

  private bandName(row: number): string {
    return row < 0 || this.split === "none" ? "others" : rowText(this.data, this.split, row);
  }

  /** The bands with their colours, and what is live in each at the end of the window. */
  private showKey(): void {
    const last = this.window.last - 1;
    byId("explore-bands").replaceChildren(...[...this.bands].map(([row, live], i) => {
      const value = live[last] as number;
      return make("span", { "data-band": this.bandName(row), "data-v": String(value), title: `${exactText(value)} bytes` },
        make("i", { class: `x-band${i}` }), `${this.bandName(row)} ${bytesText(value)}`);
    }));
  }

  /** What is live, one band upon the other. */
  private stacked(y: Linear): SVGElement[] {
    const below = new Float64Array(this.data.bins), found: SVGElement[] = [];
    for (const [i, [row, live]] of [...this.bands].entries()) {
      for (let bin = 0; bin < below.length; bin++) below[bin] += live[bin] as number;
      const band = shape("path", { class: `x-band${i}`, d: steps(this.ends, below, this.x, y) });
      band.append(shape("title", {}, this.bandName(row)));
      found.unshift(band); // the lower ones are drawn over the higher ones
    }
    return found;
  }

  private curves(): SVGElement[] {
    const { ends, bytes } = this.data.timeline, y = this.y();
    const found = [...this.stacked(y),
      shape("path", { class: this.bands.size ? "x-outline" : "x-live", d: steps(ends, bytes, this.x, y) })];
    if (this.mask.includes(0) && !this.bands.size)
      found.push(shape("path", { class: "x-part", d: steps(this.ends, overTime(this.data, this.mask).live, this.x, y) }));
    return found;
  }

  /** The scale of the live bytes. */
  private y(): Linear {
    const { ends, bytes } = this.data.timeline;
    return scaleLinear().domain([0, this.most(ends, bytes)]).range([this.top + CURVE, this.top]);
  }

  private captions(): SVGElement[] {
    const { ends, bytes } = this.data.timeline, beside = { x: LEFT - 6, "text-anchor": "end" };
    const found = [shape("text", { ...beside, y: this.top + 9 }, bytesText(this.most(ends, bytes))),
      shape("text", { ...beside, y: this.top + CURVE }, "0 B"), shape("text", { x: LEFT, y: this.top - 9 }, "live bytes"),
      shape("text", { ...beside, y: this.top + CURVE + GAP + RATE / 2 + 4 }, "allocated")];
    return this.collects ? [...found, shape("text", { ...beside, y: this.topOfStrip() + STRIP - 2 }, "GC")] : found;
  }

  private rates(): SVGElement[] {
    const { allocated } = overTime(this.data, this.mask), base = this.top + CURVE + GAP + RATE;
    const y = scaleLinear().domain([0, this.most(this.ends, allocated)]).range([base, base - RATE]);
    return [shape("path", { class: "x-rate", d: steps(this.ends, allocated, this.x, y) })];
  }

  private topOfStrip(): number {
    return this.top + CURVE + GAP + RATE + GAP / 2;
  }

  /** A strip that is the darker, the larger the share of the garbage collection is. */
  private collections(): SVGElement[] {
    if (!this.collects) return [];
    const { ends } = this.data.timeline, top = this.topOfStrip(), found: SVGElement[] = [];
    for (const [i, share] of shareCollected(this.data).entries()) {
      if (!share) continue;
      const begin = this.x(i ? ends[i - 1] as number : 0), width = Math.max(this.x(ends[i] as number) - begin, 0.5);
      found.push(shape("rect", { class: "x-gc", x: begin, y: top, width, height: STRIP, "fill-opacity": (0.15 + 0.85 * share).toFixed(2) }));
    }
    return found;
  }

  /** The moment of the window with the most live bytes. A click on it chooses its step. */
  private peak(): SVGElement[] {
    const { maxima, operations } = this.data, bin = peakBin(this.data, this.window);
    const bytes = maxima.bytes[bin] as number, at = maxima.at[bin] as number;
    if (!this.isShown(Math.min(at, operations))) return [];
    const dot = shape("circle", { class: "x-peak", cx: this.x(Math.min(at, operations)), cy: this.y()(bytes), r: 4.5 });
    dot.append(shape("title", {}, `peak: ${bytesText(bytes)} after operation ${exactText(at)}; click for this step alone`));
    dot.addEventListener("click", () => this.toPeak());
    return [dot];
  }

  /** Choose the step with the peak of the window. */
  toPeak(): void {
    const bin = peakBin(this.data, this.window);
    this.choose({ first: bin, last: Math.min(bin + 1, this.data.bins) }, "chosen");
  }

  /** Choose the window from the next mark, or the one before, to the mark that follows it. Of the whole run, the first
   * or the last. */
  toMark(forward: boolean): void {
    const windows = this.data.marks.map(mark => this.windowFrom(mark)), { first } = this.window;
    const found = forward ? windows.find(window => this.isWhole() || window.first > first)
      : windows.filter(window => this.isWhole() || window.first < first).slice(-1)[0];
    if (found) this.choose(found, "chosen");
  }

  private windowFrom([operation]: [number, string]): Window {
    const next = this.data.marks.find(([other]) => other > operation);
    return this.windowOf(operation, next ? next[0] : this.data.operations);
  }

  private marks(): SVGElement[] {
    return this.data.marks.map(([operation, name]) => {
      const line = shape("line", { class: "x-mark", x1: this.x(operation), x2: this.x(operation), y1: TOP, y2: this.height - AXIS });
      line.append(shape("title", {}, `mark ${name}`));
      return line;
    });
  }

  /** What a click on a mark chooses: the window from there to the next mark. */
  private leadsOn(element: SVGElement, [operation, name]: [number, string]): SVGElement {
    const next = this.data.marks.find(([other]) => other > operation);
    element.append(shape("title", {}, `${name}: click for the window from ${name} to ${next ? next[1] : "the end"}`));
    element.addEventListener("click", () => this.choose(this.windowFrom([operation, name]), "chosen"));
    return element;
  }

  /** A sign at the top of the line of each mark, for those whose names have no room. */
  private markSigns(): SVGElement[] {
    return this.data.marks.filter(([operation]) => this.isShown(operation)).map(mark => {
      const x = this.x(mark[0]);
      return this.leadsOn(shape("path", { class: "x-flag", d: `M${x - 4},${TOP - 6}h8l-4,7z`, "data-mark": mark[1] }), mark);
    });
  }

  /** The names of the marks. */
  private markLabels(width: number): SVGElement[] {
    const marks = this.data.marks.filter(([operation]) => this.isShown(operation));
    const at = (mark: [number, string]): number => Math.min(Math.max(this.x(mark[0]), LEFT + mark[1].length * LETTER / 2),
      width - RIGHT - mark[1].length * LETTER / 2);
    const beside = marks.filter(mark => this.x(mark[0]) - mark[1].length * LETTER / 2 > LEFT + 80);
    return withoutCollisions(beside, at, mark => mark[1])
      .map(mark => this.leadsOn(shape("text", { class: "x-label", x: at(mark), y: TOP - 9, "text-anchor": "middle" }, mark[1]), mark));
  }

  /** The whole bins that are nearest to a range of operations. */
  private windowOf(from: number, to: number): Window {
    const { width, bins } = this.data;
    const first = Math.min(Math.max(Math.round(from / width), 0), bins - 1);
    return { first, last: Math.min(Math.max(Math.round(to / width), first + 1), bins) };
  }

  private axis(width: number): SVGElement[] {
    const y = this.height - AXIS;
    const name = this.axisName === "operations" ? this.axisName : this.axisName === "clock" ? "wall clock" : timesName(this.data);
    const text = name === "time" || name === "wall clock" ? timeText : countText;
    const isNarrow = width < NARROW, end = width - RIGHT - (isNarrow ? -8 : name.length * LETTER);
    const ticks = this.scale.ticks(Math.max(2, Math.floor(width / (isNarrow ? 90 : 110)))).filter(tick => this.scale(tick) < end - 24);
    return [shape("line", { class: "x-axis", x1: LEFT, x2: width - RIGHT, y1: y, y2: y }),
      ...ticks.map(tick => shape("text", { x: this.scale(tick), y: y + 14, "text-anchor": "middle" }, text(tick))),
      shape("text", { x: width - RIGHT, y: y + 14 + (isNarrow ? LINE : 0), "text-anchor": "end" }, name)];
  }

  private brush(width: number): SVGElement {
    const group = shape("g", { class: "x-brush", "aria-hidden": "true" });
    const { window, shown } = this, inside = (bin: number): number => Math.min(Math.max(bin, shown.first), shown.last);
    const pixel = (bin: number): number => this.x(this.operationOf(inside(bin)));
    const covers = window.first <= shown.first && window.last >= shown.last, isSeen = window.first < shown.last && window.last > shown.first;
    const brush = brushX().extent([[LEFT, TOP], [width - RIGHT, this.height - AXIS]]).handleSize(10)
      .on("brush end", () => { if (event.sourceEvent && !this.drawing) this.brushed(event); });
    this.drawing = true; // moving the brush is an event, too
    select(group).call(brush);
    if (!covers && isSeen) select(group).call(brush.move, [pixel(window.first), pixel(window.last)]);
    this.drawing = false;
    return group;
  }

  /** A window of whole bins. The caller draws the brush anew only when the mouse is let go. */
  private brushed(event: BrushEvent): void {
    const ended = event.type === "end";
    if (!event.selection) {
      if (ended) this.chosen({ first: 0, last: this.data.bins }, "chosen");
      return;
    }
    const [from, to] = event.selection.map(pixel => this.operationAt(pixel)) as [number, number];
    this.chosen(this.windowOf(from, to), ended ? "chosen" : "dragging");
  }
}
