// format.ts - numbers as text, in the way of steve's tables. SPDX-License-Identifier: GPL-2.0-or-later

const BINARY = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
const DECIMAL = ["", "k", "M", "G", "T", "P", "E"];

/** A number with so many decimal places. Of two that are equally near, it is the one with an even digit, as in Python, which
 * writes the numbers of the other parts of the page. */
function fixed(value: number, digits: number): string {
  const scale = 10 ** digits, times = value * scale, below = Math.floor(times);
  return times - below === 0.5 && below % 2 === 0 ? (below / scale).toFixed(digits) : value.toFixed(digits);
}

function scaled(value: number, step: number, units: string[]): string {
  let unit = 0, left = value;
  while (left >= step - 0.5 && unit + 1 < units.length) {
    left /= step;
    unit++;
  }
  const digits = unit === 0 || left >= 100 ? 0 : left >= 10 ? 1 : 2;
  return `${fixed(left, digits)} ${units[unit]}`.trim();
}

export const bytesText = (value: number): string => scaled(value, 1024, BINARY);
export const countText = (value: number): string => scaled(value, 1000, DECIMAL);
export const timeText = (nanoseconds: number): string => nanoseconds === 0 ? "0" : nanoseconds < 999.5e6
  ? scaled(nanoseconds, 1000, ["ns", "µs", "ms"]) : `${(nanoseconds / 1e9).toFixed(nanoseconds < 1e10 ? 2 : 1)} s`;
/** The noun of a number: 1 block, 2 blocks. */
export const noun = (value: number, one: string, many = `${one}s`): string => value === 1 ? one : many;
export const exactText = (value: number): string => Math.round(value).toLocaleString("en-US");

export function shareText(part: number, whole: number): string {
  const share = whole ? 100 * part / whole : 0;
  return share === 0 || share >= 0.1 || part === 0 ? `${share.toFixed(1)}%` : "<0.1%";
}
