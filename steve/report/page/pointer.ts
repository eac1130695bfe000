// pointer.ts - the moment of the run that the mouse points at: a line over the timeline, and its numbers below it.
// SPDX-License-Identifier: GPL-2.0-or-later
import type { Data } from "./data";
import { interpolated } from "./axis";
import { byId, shape } from "./dom";
import { bytesText, countText, exactText, noun, timeText } from "./format";

/** The index of the bin of the timeline with an operation. */
export function binAt(ends: number[], operation: number): number {
  let low = 0, high = ends.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((ends[middle] as number) < operation) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** What is known of a moment, as text: where it is on each axis, what is live, and what is allocated around it. */
export function momentText(data: Data, operation: number): string {
  const { ends, times, bytes, blocks, allocated } = data.timeline, bin = binAt(ends, operation);
  const time = interpolated(ends, times, operation), isTime = data.timeUnit === "nanoseconds";
  const places = [`operation ${exactText(operation)}`];
  if (isTime) places.push(timeText(time));
  else if (data.timeUnit === "instructions") places.push(`${countText(time)} instructions`);
  if (data.clock[0].length) places.push(`wall clock ${timeText(interpolated(data.clock[0], data.clock[1], operation))}`);
  const made = (allocated[bin] as number) - (bin ? allocated[bin - 1] as number : 0), live = blocks[bin] as number;
  return `${places.join(", ")}: ${bytesText(bytes[bin] as number)} live in ${exactText(live)} ${noun(live, "block")}; ` +
    `${bytesText(made)} allocated around it`;
}

export class Pointer {
  private readonly text = byId("explore-pointer");
  private readonly line = shape("line", { class: "x-pointer", visibility: "hidden" });

  /** pointed: is called with the operation, null if the mouse is elsewhere. */
  constructor(private readonly data: Data, svg: SVGSVGElement, operationAt: (pixel: number) => number | null,
    private readonly pointed: (operation: number | null) => void) {
    svg.addEventListener("pointermove", event => {
      const pixel = event.clientX - svg.getBoundingClientRect().left, operation = operationAt(pixel);
      if (operation === null) this.hide();
      else this.show(pixel, operation);
    });
    svg.addEventListener("pointerleave", () => this.hide());
  }

  /** The line, which belongs into the drawing of the timeline. */
  drawn(top: number, bottom: number): SVGElement {
    this.line.setAttribute("y1", String(top));
    this.line.setAttribute("y2", String(bottom));
    return this.line;
  }

  private show(pixel: number, operation: number): void {
    for (const name of ["x1", "x2"]) this.line.setAttribute(name, pixel.toFixed(1));
    this.line.setAttribute("visibility", "visible");
    this.text.textContent = momentText(this.data, operation);
    this.pointed(operation);
  }

  private hide(): void {
    this.line.setAttribute("visibility", "hidden");
    this.text.textContent = "";
    this.pointed(null);
  }
}
