// resident_data.ts - what the data of the page have of the resident memory, and which look is described.
// SPDX-License-Identifier: GPL-2.0-or-later

/** As steve/report/resident.py writes it: columns over the looks that are shown. */
export interface Resident {
  /** Looks of the trace. */
  looks: number;
  /** Why none is shown; "" if some are. */
  why_not: string;
  number: number[];
  time: number[];
  why: string[];
  resident: number[];
  /** Kinds of owners, their titles, and the bytes of each at each look. */
  kinds: string[];
  titles: string[];
  parts: number[][];
}

const CROWD = 3, NEAR = 1 / 100; // values, and the part of the whole in which they are

/** The most of the values that are so near to each other that a picture does not show them apart; 0 if they are few. */
export function crowded(values: number[], whole: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  const most = sorted.reduce((found, value, i) =>
    Math.max(found, sorted.slice(i).filter(other => other - value <= NEAR * whole).length), 0);
  return most >= CROWD ? most : 0;
}

/** The index of the value that is nearest to another one; values: rising. -1 if there is none. */
export function nearest(values: number[], to: number): number {
  let found = values.length ? 0 : -1;
  values.forEach((value, i) => {
    if (Math.abs(value - to) < Math.abs((values[found] as number) - to)) found = i;
  });
  return found;
}

/** The look with the most resident bytes of those from an operation to another; -1 if there is none. */
export function largest(operations: number[], resident: number[], from: number, to: number): number {
  let found = -1;
  operations.forEach((operation, i) => {
    if (operation >= from && operation <= to && (found < 0 || (resident[i] as number) > (resident[found] as number))) found = i;
  });
  return found;
}
