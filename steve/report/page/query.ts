// query.ts - the sums of a window, by group: all numbers of the page come from here.
// SPDX-License-Identifier: GPL-2.0-or-later
import type { After, Data, FrameRollup, GroupRollup, Sum } from "./data";
import { GROUP_ROLLUPS } from "./data";
import { nodesBelow, setsWith } from "./tree";

export const METRICS = ["peak", "live", "allocated", "freed", "growth", "reads", "writes"] as const;
export type Metric = typeof METRICS[number];
export type Unit = "bytes" | "blocks";
export type Scope = "all" | "made";
export type Rollup = FrameRollup | GroupRollup;

/** Which ages of blocks count, in bins from the one in which a block was made: n or more; less than -n; 0: all. The
 * age is that at the moment of which a metric is, which may be a read or the block's end. */
export type Age = number;

function isOfAge(old: number, age: Age): boolean {
  return age >= 0 ? old >= age : old < -age;
}

export function isOfGroups(by: Rollup): by is GroupRollup {
  return (GROUP_ROLLUPS as readonly string[]).includes(by);
}

/** The bins from first to before last. */
export interface Window {
  first: number;
  last: number;
}

/** Only blocks of a row of a roll-up; of a frame's roll-up, those with such a frame anywhere in their stack; "own":
 * those that a line itself makes, by its row; "site": those of one site, by the id of its stack in the trace. */
export interface Filter {
  by: Rollup | "own" | "site";
  row: number;
}

/** The bin of a window with its peak: the most live bytes, the first of several. */
export function peakBin(data: Data, window: Window): number {
  const { bytes } = data.maxima;
  let found = window.first;
  for (let bin = window.first; bin < window.last; bin++)
    if ((bytes[bin] as number) > (bytes[found] as number)) found = bin;
  return found;
}

/** What is summed up: columns that are added and subtracted; of the bin of the peak, another one is subtracted. */
const COLUMNS: Record<Metric, Record<Unit, [Sum, Sum?, After?]>> = {
  peak: { bytes: ["allocated", "freed", "afterBytes"], blocks: ["news", "frees", "afterBlocks"] },
  live: { bytes: ["allocated", "freed"], blocks: ["news", "frees"] },
  allocated: { bytes: ["allocated"], blocks: ["news"] },
  freed: { bytes: ["freed"], blocks: ["frees"] },
  growth: { bytes: ["allocated", "freed"], blocks: ["news", "frees"] },
  reads: { bytes: ["bytesRead"], blocks: ["reads"] },
  writes: { bytes: ["bytesWritten"], blocks: ["writes"] },
};

/** The sums of a metric in a window, by group. Live bytes are those at the peak or at the end of the window, so they count
 * all that was before. Growth is what was made in the window and lives at its end. With the scope "made", only blocks
 * that were made in the window count, as with `steve --from --to`. */
export function sumsByGroup(data: Data, window: Window, metric: Metric, unit: Unit, scope: Scope, age: Age = 0): Float64Array {
  const { n, group, made, bin, sums } = data.table;
  const [plus, minus, later] = COLUMNS[metric][unit];
  const added = sums[plus], taken = minus && sums[minus], after = later && sums[later];
  const last = metric === "peak" ? peakBin(data, window) : window.last - 1;
  const since = metric === "growth" || scope === "made" ? window.first : 0;
  const from = metric === "live" || metric === "peak" ? 0 : window.first;
  const isState = metric === "peak" || metric === "live" || metric === "growth"; // of the last bin
  const found = new Float64Array(data.groups.node.length);
  for (let i = 0; i < n; i++) {
    const at = bin[i] as number, born = made[i] as number;
    if (at > last || at < from || born < since || !isOfAge((isState ? last : at) - born, age)) continue;
    found[group[i] as number] += (added[i] as number) - (taken ? taken[i] as number : 0)
      - (after && at === last ? after[i] as number : 0);
  }
  return found;
}

/** The sums of all metrics in a window, of the groups that a mask chooses; as sumsByGroup, but in one pass. */
export function totalsOf(data: Data, window: Window, scope: Scope, mask: Uint8Array,
                         age: Age = 0): Record<Metric, Record<Unit, number>>
{
    const {n, group, made, bin, sums} = data.table, {first, last} = window;
    const {news, allocated, frees, freed, reads, writes, bytesRead, bytesWritten, afterBytes, afterBlocks} = sums;
    const peak = peakBin(data, window);
    const found = Object.fromEntries(METRICS.map(metric => [metric, {bytes : 0, blocks : 0}])) as
                  Record<Metric, Record<Unit, number>>;
    for (let i = 0; i < n; i++) {
        const at = bin[i] as number, born = made[i] as number, inside = born >= first;
        if (at >= last || !mask[group[i] as number] || (scope === "made" && !inside))
            continue;
        const bytes = (allocated[i] as number) - (freed[i] as number),
              blocks = (news[i] as number) - (frees[i] as number);
        if (at <= peak && isOfAge(peak - born, age)) {
            found.peak.bytes += bytes - (at === peak ? afterBytes[i] as number : 0);
            found.peak.blocks += blocks - (at === peak ? afterBlocks[i] as number : 0);
        }
        if (isOfAge(last - 1 - born, age)) {
            found.live.bytes += bytes;
            found.live.blocks += blocks;
            if (at >= first && inside) {
                found.growth.bytes += bytes;
                found.growth.blocks += blocks;
            }
        }
        if (at < first || !isOfAge(at - born, age))
            continue;
        found.allocated.bytes += allocated[i] as number;
        found.allocated.blocks += news[i] as number;
        found.freed.bytes += freed[i] as number;
        found.freed.blocks += frees[i] as number;
        found.reads.bytes += bytesRead[i] as number;
        found.reads.blocks += reads[i] as number;
        found.writes.bytes += bytesWritten[i] as number;
        found.writes.blocks += writes[i] as number;
    }
    return found;
}

/** Live bytes at the end of each bin, and bytes allocated in it, of the groups that a mask chooses. */
export function overTime(data: Data, mask: Uint8Array): { live: Float64Array; allocated: Float64Array } {
  const { n, group, bin, sums } = data.table;
  const live = new Float64Array(data.bins), allocated = new Float64Array(data.bins);
  for (let i = 0; i < n; i++) {
    if (!mask[group[i] as number]) continue;
    const at = bin[i] as number;
    allocated[at] += sums.allocated[i] as number;
    live[at] += (sums.allocated[i] as number) - (sums.freed[i] as number);
  }
  for (let i = 1; i < data.bins; i++) live[i] += live[i - 1] as number;
  return { live, allocated };
}

/** By group, its row in a roll-up, for code that of the frame that made the blocks; -1 if that is not known. */
function rowsOfGroups(data: Data, by: Rollup): ArrayLike<number> {
  if (isOfGroups(by)) return data.groups[by];
  const rows = data.frames[by];
  return data.groups.own.map(frame => rows[frame] ?? -1);
}

/** Live bytes at the end of each bin, by row of a roll-up, of the groups that a mask chooses. The rows that ever have most
 * come first, at most so many; the others, and what has no row, are one row, -1. */
export function liveByRow(data: Data, mask: Uint8Array, by: Rollup, most: number): Map<number, Float64Array> {
  const { n, group, bin, sums } = data.table, of = rowsOfGroups(data, by), found = new Map<number, Float64Array>();
  for (let i = 0; i < n; i++) {
    const at = group[i] as number;
    if (!mask[at]) continue;
    const row = of[at] as number, live = found.get(row) ?? new Float64Array(data.bins);
    live[bin[i] as number] += (sums.allocated[i] as number) - (sums.freed[i] as number);
    found.set(row, live);
  }
  for (const live of found.values()) for (let i = 1; i < data.bins; i++) live[i] += live[i - 1] as number;
  const ranked = [...found].map(([row, live]) => ({ row, live, peak: live.reduce((a, b) => Math.max(a, b), 0) }))
    .filter(({ peak }) => peak > 0).sort((a, b) => b.peak - a.peak || a.row - b.row);
  const named = ranked.filter(({ row }) => row >= 0).slice(0, most), rest = ranked.filter(one => !named.includes(one));
  const kept = new Map(named.map(({ row, live }) => [row, live]));
  if (rest.length)
    kept.set(-1, Float64Array.from({ length: data.bins }, (_, i) => rest.reduce((sum, { live }) => sum + (live[i] as number), 0)));
  return kept;
}

/** By group: is it chosen by all filters? Groups of sites that are summed up and whose frames are not known are not. */
export function maskOf(data: Data, filters: Filter[]): Uint8Array {
  const { node, own, set } = data.groups;
  const mask = new Uint8Array(node.length).fill(1);
  for (const { by, row } of filters) {
    if (by === "site") {
      node.forEach((at, group) => { if (at !== data.links[row] || set[group] !== 0) mask[group] = 0; });
      continue;
    }
    if (by === "own") {
      own.forEach((frame, group) => { if (data.frames.line[frame] !== row) mask[group] = 0; });
      continue;
    }
    if (isOfGroups(by)) {
      data.groups[by].forEach((each, group) => { if (each !== row) mask[group] = 0; });
      continue;
    }
    const frames = Uint8Array.from(data.frames[by], each => each === row ? 1 : 0);
    const within = nodesBelow(data.nodes, frames), sets = setsWith(data, frames);
    node.forEach((at, group) => {
      if (!within[at] && !frames[own[group] as number] && !sets.has(set[group] as number)) mask[group] = 0;
    });
  }
  return mask;
}

/** Do filters leave out sites whose frames are not known? */
export function mayLack(data: Data, filters: Filter[], mask: Uint8Array): boolean {
  return filters.some(({ by }) => by !== "site" && by !== "own" && !isOfGroups(by)) && data.groups.set.some((set, group) => set < 0 && !mask[group]);
}

export function masked(values: Float64Array, mask: Uint8Array): Float64Array {
  return values.map((value, i) => mask[i] ? value : 0);
}

export function total(values: Float64Array): number {
  return values.reduce((sum, value) => sum + value, 0);
}
