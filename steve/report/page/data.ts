// data.ts - the data of the page, as steve/report/windows.py writes them.
//
// Base64 of zlib of: the length of the JSON text (4 bytes, little-endian), the text, and columns of numbers, one after the
// other, as varints. The columns have one number for each cell: the difference of its group to that of the cell before, the
// bin in which the blocks were made, the number of bins from there to the bin in which something happened, the sums that
// SUMS names, and those of AFTER. SPDX-License-Identifier: GPL-2.0-or-later
import type { Resident } from "./resident_data";

export const SUMS = ["news", "allocated", "frees", "freed", "reads", "writes", "bytesRead", "bytesWritten"] as const;
export type Sum = typeof SUMS[number];

/** What came after the maximum of the bin: made less freed. They have a sign; the number is 2 n, or -2 n - 1 if n < 0. */
export const AFTER = ["afterBytes", "afterBlocks"] as const;
export type After = typeof AFTER[number];

/** The roll-ups that depend on a frame. */
export const FRAME_ROLLUPS = ["function", "line", "file", "object"] as const;
export type FrameRollup = typeof FRAME_ROLLUPS[number];

/** Those that depend on the group of the blocks. */
export const GROUP_ROLLUPS = ["kind", "heap", "thread", "size"] as const;
export type GroupRollup = typeof GROUP_ROLLUPS[number];

/** Of a frame that stands for a kind of blocks, instead of the kind of its code. */
export const KIND = 4;

/** A source file: its row in the roll-up by file, its name, and its text; or why there is none. */
export interface Source {
  file: number;
  path: string;
  text: string;
  missing: string;
  /** Lines, and the bytes that each of them reads and writes in the whole run. */
  work: [line: number, read: number, written: number][];
}

/** What the JSON text has. Columns are parallel arrays. */
interface Head {
  operations: number;
  width: number;
  cells: number;
  sites: number;
  folded: number;
  timeline: { ends: number[]; times: number[]; bytes: number[]; blocks: number[]; allocated: number[] };
  /** By bin, the most live bytes, and the number of operations up to the first such moment. */
  maxima: { bytes: number[]; at: number[] };
  marks: [number, string][];
  /** By bin of the timeline, what garbage collectors ran, in the unit of its times; all 0 if there was none. */
  collected: number[];
  /** Operations, and nanoseconds of the wall clock at their end; empty if the trace has no clock. */
  clock: [number[], number[]];
  /** What was resident, of a trace that has looks at it. */
  resident?: Resident;
  nodes: { parent: number[]; frame: number[]; own: number[]; unread: number[] };
  /** What the times of the timeline count: "instructions", "nanoseconds" or "events". */
  timeUnit: string;
  /** Does the trace have loads and stores? */
  accesses: boolean;
  /** set: of small sites that are summed up, the number of the set of their frames below the node; 0: other sites;
   * -1: the frames are not known. size: the number of bits of the size at the New. own: the frame that made the blocks. */
  groups: { node: number[]; own: number[]; set: number[] } & Record<GroupRollup, number[]>;
  /** By number of a set, its frames. */
  sets: Record<number, number[]>;
  kinds: string[];
  heaps: string[];
  codes: string[];
  frames: { text: string[]; short: Record<number, string>; code: number[]; lineNumber: number[] } & Record<FrameRollup, number[]>;
  rows: Record<FrameRollup, string[]>;
  /** By row, the text that is shown in its place. */
  shortRows: Record<FrameRollup, Record<number, string>>;
  sources: Source[];
  /** Of sites that the page has links to: by the id of the site's stack in the trace, the node of its blocks. */
  links: Record<number, number>;
}

/** What has frames with texts and kinds of code. short: the texts that are shown where there is little room, if others. */
export interface Named {
  frames: { text: string[]; short: Record<number, string>; code: number[] };
}

/** The text of a frame where there is little room. */
export function nameOf(data: Named, frame: number): string {
  return data.frames.short[frame] ?? data.frames.text[frame] ?? "";
}

export interface Cells {
  n: number;
  group: Float64Array;
  made: Float64Array;
  bin: Float64Array;
  sums: Record<Sum | After, Float64Array>;
}

export interface Data extends Head {
  bins: number;
  table: Cells;
}

export async function inflated(base64: string): Promise<Uint8Array> {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Reads columns of varints, one after the other. */
export class Columns {
  private at: number;

  constructor(private readonly bytes: Uint8Array, first: number) {
    this.at = first;
  }

  next(n: number): Float64Array {
    const column = new Float64Array(n);
    for (let i = 0; i < n; i++) {
      let value = 0, scale = 1, byte = 0;
      do {
        byte = this.bytes[this.at++] as number;
        value += (byte & 127) * scale;
        scale *= 128;
      } while (byte > 127);
      column[i] = value;
    }
    return column;
  }
}

/** Frames for the kinds of blocks, after those of the stacks, for trees that show them. */
function addKinds(head: Head): void {
  const { frames, kinds } = head;
  for (const kind of kinds) {
    frames.text.push(kind);
    frames.code.push(KIND);
    frames.lineNumber.push(0);
    for (const by of FRAME_ROLLUPS) frames[by].push(-1);
  }
}

export function parsed(bytes: Uint8Array): Data {
  const length = new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length))) as Head;
  addKinds(head);
  const columns = new Columns(bytes, 4 + length);
  const group = columns.next(head.cells), made = columns.next(head.cells), bin = columns.next(head.cells);
  for (let i = 0; i < head.cells; i++) {
    group[i] += i ? group[i - 1] as number : 0;
    bin[i] += made[i] as number;
  }
  const sums = {} as Record<Sum | After, Float64Array>;
  for (const name of SUMS) sums[name] = columns.next(head.cells);
  for (const name of AFTER) sums[name] = columns.next(head.cells).map(n => n % 2 ? -(n + 1) / 2 : n / 2);
  return { ...head, bins: Math.ceil(head.operations / head.width), table: { n: head.cells, group, made, bin, sums } };
}

export async function load(base64: string): Promise<Data> {
  return parsed(await inflated(base64));
}
