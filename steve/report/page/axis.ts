// axis.ts - operations, instructions and time on the axis of the timeline, and the garbage collection over it.
// SPDX-License-Identifier: GPL-2.0-or-later
import type { Data } from "./data";
import type { Window } from "./query";

const LEAST_SHOWN = 4; // bins that the axis shows at least

/** A part of the axis made longer or shorter by a factor, so that a moment of it stays where it is. at: in bins. */
export function zoomed(shown: Window, at: number, factor: number, bins: number): Window {
  const before = shown.last - shown.first;
  let length = Math.round(before * factor);
  if (length === before) length += factor > 1 ? 1 : -1;
  length = Math.min(Math.max(length, Math.min(LEAST_SHOWN, bins)), bins);
  const first = Math.round(at - (at - shown.first) * length / before);
  return moved({ first, last: first + length }, 0, bins);
}

/** A part of the axis moved by some bins, as far as there are any. */
export function moved(shown: Window, by: number, bins: number): Window {
  const length = shown.last - shown.first, first = Math.min(Math.max(shown.first + Math.round(by), 0), bins - length);
  return { first, last: first + length };
}

/** The value of a curve of straight lines through (0, 0) and the points (xs[i], ys[i]). */
export function interpolated(xs: number[], ys: number[], x: number): number {
  let low = 0, high = xs.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((xs[middle] as number) < x) low = middle + 1;
    else high = middle;
  }
  const x0 = low ? xs[low - 1] as number : 0, y0 = low ? ys[low - 1] as number : 0;
  const x1 = xs[low] as number, y1 = ys[low] as number;
  return x1 > x0 ? y0 + (y1 - y0) * Math.min(Math.max((x - x0) / (x1 - x0), 0), 1) : y1;
}

/** The share of the time of each bin of the timeline that garbage collectors ran. */
export function shareCollected(data: Data): number[] {
  const { times } = data.timeline;
  return data.collected.map((value, i) => {
    const passed = (times[i] as number) - (i ? times[i - 1] as number : 0);
    return passed > 0 ? Math.min(value / passed, 1) : 0;
  });
}

/** What garbage collectors ran within the bins of the timeline from an operation to another. */
export function collectedIn(data: Data, from: number, to: number): number {
  const { ends } = data.timeline;
  return data.collected.reduce((sum, value, i) => sum + ((ends[i] as number) > from && (ends[i] as number) <= to ? value : 0), 0);
}
