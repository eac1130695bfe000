// axis.ts - operations and instructions on the axis of the timeline. SPDX-License-Identifier: GPL-2.0-or-later

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
