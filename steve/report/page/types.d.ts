// types.d.ts - what the page uses of d3 and of browsers that Debian's compiler has no declarations for.
// SPDX-License-Identifier: GPL-2.0-or-later

declare class DecompressionStream {
  constructor(format: "deflate");
  readonly readable: ReadableStream<Uint8Array>;
  readonly writable: WritableStream<Uint8Array>;
}

declare module "d3-scale" {
  export interface Linear {
    (value: number): number;
    domain(values: [number, number]): Linear;
    range(values: [number, number]): Linear;
    ticks(count: number): number[];
    invert(pixel: number): number;
  }
  export function scaleLinear(): Linear;
}

declare module "d3-selection" {
  export interface Selection {
    call(what: unknown, ...more: unknown[]): Selection;
  }
  export function select(element: Element): Selection;
  export interface BrushEvent {
    type: string;
    selection: [number, number] | null;
    sourceEvent: Event | null;
  }
  /** The event of the listener that runs. */
  export const event: BrushEvent;
}

declare module "d3-brush" {
  export interface Brush {
    extent(corners: [[number, number], [number, number]]): Brush;
    handleSize(pixels: number): Brush;
    keyModifiers(used: boolean): Brush;
    on(what: string, listener: () => void): Brush;
    move: unknown;
  }
  export function brushX(): Brush;
}
