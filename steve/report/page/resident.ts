// resident.ts - what was resident over the run, and whose: a picture above the timeline, and its key.
//
// The values are known at the looks of the recorder only. Each look is a bar; what is between two looks is drawn paler, with
// straight lines. The key has the values of one look: that which the mouse is nearest to, else the largest of the window.
// SPDX-License-Identifier: GPL-2.0-or-later
import { scaleLinear } from "d3-scale";
import { interpolated } from "./axis";
import type { Data } from "./data";
import { byId, make, shape } from "./dom";
import { bytesText, exactText, noun, timeText } from "./format";
import type { Resident } from "./resident_data";
import { largest, nearest } from "./resident_data";

const HEIGHT = 64, BELOW = 20; // of the picture, and of the caption of what follows
const BAR = 3;

export class ResidentPicture {
  readonly height = HEIGHT + BELOW;
  /** By look, the operations until then; between two operations, a part of one. */
  private readonly operations: number[];
  private shown = -1; // the look of the key while the mouse is elsewhere

  constructor(private readonly found: Resident, data: Data) {
    const { ends, times } = data.timeline;
    this.operations = found.time.map(time => interpolated(times, ends, time));
    byId("explore-owners").replaceChildren(...found.kinds.map((kind, i) => make("div", { "data-owner": kind },
      make("dt", {}, make("i", { class: `x-owner-${kind}` }), found.titles[i] as string), make("dd", {}))));
    const some = found.number.length, left = some < found.looks ? ` ${exactText(some)} of ${exactText(found.looks)} looks are shown.` : "";
    byId("explore-looks").textContent = `Known at the ${exactText(some)} ${noun(some, "look")} only (the bars); between them the ` +
      `picture has straight lines.${left}`;
  }

  /** Show the values of the largest look from an operation to another. */
  choose(from: number, to: number): void {
    this.shown = largest(this.operations, this.found.resident, from, to);
    this.showLook(this.shown);
  }

  /** Show the values of the look that is nearest to an operation; null: the mouse is elsewhere. */
  point(operation: number | null): void {
    this.showLook(operation === null ? this.shown : nearest(this.operations, operation));
  }

  private showLook(look: number): void {
    const { found } = this, place = byId("explore-look"), isKnown = look >= 0;
    place.dataset.look = isKnown ? String(found.number[look]) : "";
    place.textContent = isKnown
      ? `${bytesText(found.resident[look] as number)} resident at look ${found.number[look]} of ${exactText(found.looks)} ` +
        `(${timeText(found.time[look] as number)}, ${found.why[look]}); steve resident --at ${found.number[look]} says more.`
      : "No look at the resident memory is in this window.";
    for (const [i, values] of found.parts.entries()) {
      const cell = document.querySelector<HTMLElement>(`[data-owner="${found.kinds[i]}"] dd`) as HTMLElement;
      const value = values[look] as number;
      cell.dataset.v = isKnown ? String(value) : "";
      cell.textContent = isKnown ? (value < 0 ? "−" : "") + bytesText(Math.abs(value)) : "–";
      cell.title = isKnown ? `${exactText(value)} bytes` : "";
    }
  }

  /** The most resident bytes at looks from an operation to another, and at those next to them; at least 1. */
  private most(from: number, to: number): number {
    const { operations, found: { resident } } = this;
    return resident.reduce((most, value, i) =>
      (operations[i + 1] ?? Infinity) >= from && (operations[i - 1] ?? -Infinity) <= to ? Math.max(most, value) : most, 1);
  }

  /** The bands, one upon the other, for a part of the axis. top: where the picture begins. */
  drawn(x: (operation: number) => number, top: number, from: number, to: number): SVGElement[] {
    const { found, operations } = this, y = scaleLinear().domain([0, this.most(from, to)]).range([top + HEIGHT, top]);
    const at = operations.map(x), below = operations.map(() => 0), areas: SVGElement[] = [], bars: SVGElement[] = [];
    for (const [i, values] of found.parts.entries()) {
      const lower = below.map(value => y(value).toFixed(1));
      values.forEach((value, k) => { below[k] += Math.max(value, 0); });
      const upper = below.map(value => y(value).toFixed(1));
      const points = [...upper.map((value, k) => `${(at[k] as number).toFixed(1)},${value}`),
        ...lower.map((value, k) => `${(at[k] as number).toFixed(1)},${value}`).reverse()];
      const look = { class: `x-owner-${found.kinds[i]}`, "data-area": found.kinds[i] as string };
      areas.push(shape("path", { ...look, "fill-opacity": 0.55, d: `M${points.join("L")}Z` }));
      const of = at.map((pixel, k) => `M${(pixel - BAR / 2).toFixed(1)},${upper[k]}h${BAR}V${lower[k]}h${-BAR}Z`);
      bars.push(shape("path", { class: look.class, d: of.join("") }));
    }
    const line = at.map((pixel, k) => `${pixel.toFixed(1)},${y(found.resident[k] as number).toFixed(1)}`);
    return [...areas, ...bars, shape("path", { class: "x-resident", d: `M${line.join("L")}` })];
  }

  /** What is written beside and above the picture. */
  captions(left: number, top: number, from: number, to: number): SVGElement[] {
    const beside = { x: left - 6, "text-anchor": "end" };
    return [shape("text", { ...beside, y: top + 9 }, bytesText(this.most(from, to))), shape("text", { ...beside, y: top + HEIGHT }, "0 B"),
      shape("text", { x: left, y: top - 9 }, "resident")];
  }
}

/** The picture, if the trace has one. Says so if it has looks and none is shown. */
export function residentPicture(data: Data): ResidentPicture | null {
  const found = data.resident;
  if (!found) return null;
  byId("explore-resident").hidden = false;
  if (!found.why_not) {
    byId("explore").classList.add("x-tall");
    return new ResidentPicture(found, data);
  }
  byId("explore-look").textContent = `The trace has ${exactText(found.looks)} ${noun(found.looks, "look")} at the resident memory, ` +
    `which this page does not show: ${found.why_not}.`;
  return null;
}
