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
