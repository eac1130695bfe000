// changes_time.ts - the live bytes of two traces over each other.
//
// Without alignment the axis counts operations of both. Aligned, each common mark is at one place, halfway between its two
// operations, and what is between two marks is stretched. SPDX-License-Identifier: GPL-2.0-or-later
import { scaleLinear } from "d3-scale";
import { interpolated } from "./axis";
import type { Changes, Side } from "./changes_data";
import { byId, shape } from "./dom";
import { bytesText, countText } from "./format";
import { LETTER, steps, withoutCollisions } from "./timeline";

const LEFT = 62, RIGHT = 12, TOP = 18, CURVE = 130, AXIS = 22, HEIGHT = TOP + CURVE + AXIS;
const LEAST_GAP = 12; // between the lines of marks; else only those with a name have one

/** Where the operations of a side are on the axis: the ends of segments, in operations and on the axis. */
interface Aligned {
  from: number[];
  to: number[];
}

export function alignedBy(data: Changes, which: 0 | 1): Aligned {
  const inner = data.anchors.filter(anchor => anchor[0] > 0 || anchor[1] > 0);
  const points: [number, number][] = [...inner.map(([a, b]): [number, number] => [a, b]),
    [data.sides[0].operations, data.sides[1].operations]];
  return { from: points.map(point => point[which]), to: points.map(([a, b]) => (a + b) / 2) };
}

export class TwoTimelines {
  private readonly svg = byId<SVGSVGElement>("changes-time");
  private aligned = false;

  constructor(private readonly data: Changes) {
    new ResizeObserver(() => this.draw()).observe(this.svg.parentElement as Element);
  }

  show(aligned: boolean): void {
    this.aligned = aligned;
    this.draw();
  }

  private place(which: 0 | 1): (operation: number) => number {
    if (!this.aligned) return operation => operation;
    const { from, to } = alignedBy(this.data, which);
    return operation => interpolated(from, to, operation);
  }

  private draw(): void {
    const width = (this.svg.parentElement as Element).clientWidth, { sides, anchors } = this.data;
    if (width < 50) return;
    this.svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    this.svg.setAttribute("width", String(width));
    this.svg.setAttribute("height", String(HEIGHT));
    const places = [this.place(0), this.place(1)] as const;
    const last = Math.max(places[0](sides[0].operations), places[1](sides[1].operations), 1);
    const x = scaleLinear().domain([0, last]).range([LEFT, width - RIGHT]);
    const most = Math.max(...sides.flatMap((side: Side) => side.timeline.bytes), 1);
    const y = scaleLinear().domain([0, most]).range([TOP + CURVE, TOP]);
    const curves = sides.map((side, i) => shape("path", {
      class: i ? "x-b" : "x-live", d: steps(side.timeline.ends, side.timeline.bytes, at => x((places[i] ?? places[0])(at)), y, i === 0),
    }));
    const marks = (this.aligned ? anchors : []).map(([a, , name]): [number, string] => [x(places[0](a)), name]);
    const at = ([pixel, name]: [number, string]): number =>
      Math.min(Math.max(pixel, LEFT + name.length * LETTER / 2), width - RIGHT - name.length * LETTER / 2);
    const named = withoutCollisions(marks, at, mark => mark[1]);
    const lines = ((width - LEFT) / marks.length < LEAST_GAP ? named : marks)
      .map(([pixel]) => shape("line", { class: "x-mark", x1: pixel, x2: pixel, y1: TOP, y2: TOP + CURVE }));
    const names = named.map(mark => shape("text", { x: at(mark), y: TOP + CURVE + 15, "text-anchor": "middle" }, mark[1]));
    const name = "operations", ticks = this.aligned ? [] : x.ticks(Math.max(2, Math.floor(width / 110)))
      .filter(tick => x(tick) < width - RIGHT - name.length * LETTER - 24)
      .map(tick => shape("text", { x: x(tick), y: TOP + CURVE + 15, "text-anchor": "middle" }, countText(tick)));
    this.svg.replaceChildren(
      shape("text", { x: LEFT - 6, y: TOP + 9, "text-anchor": "end" }, bytesText(most)),
      shape("text", { x: LEFT - 6, y: TOP + CURVE, "text-anchor": "end" }, "0 B"),
      shape("text", { x: LEFT, y: TOP - 5 }, "live bytes"), ...curves, ...lines, ...names, ...ticks,
      ...(this.aligned ? [] : [shape("text", { x: width - RIGHT, y: TOP + CURVE + 15, "text-anchor": "end" }, name)]),
      shape("line", { class: "x-axis", x1: LEFT, x2: width - RIGHT, y1: TOP + CURVE, y2: TOP + CURVE }));
  }
}
