// flame.ts - the icicle graph: main on top, callees below their callers, as wide as their share of the metric.
//
// It is a canvas, because tens of thousands of frames are too many elements. The frame that has the focus is described in
// a line below it, which screen readers read, and the arrow keys move from frame to frame.
// SPDX-License-Identifier: GPL-2.0-or-later
import type { Named } from "./data";
import { nameOf } from "./data";
import { byId, colour } from "./dom";
import { exactText, shareText } from "./format";
import type { Found, Sums, Tree } from "./tree";
import { pathOf } from "./tree";

const ROW = 19, LEAST = 0.7, FONT = "12px system-ui, sans-serif";
const COLOURS = ["--x-native", "--x-lua", "--x-inlined", "--x-machine", "--x-kind",
  "--x-same", "--x-grew", "--x-grew-most", "--x-shrank", "--x-shrank-most"];
/** The numbers of colours of changes. */
export const SAME = 5, GREW = 6, SHRANK = 8;
const HATCHED = [1, GREW, GREW + 1], PLAIN = [0, SAME];

interface Box {
  node: number;
  x: number;
  width: number;
  depth: number;
}

/** What nodes show instead of the kind of their code. */
export interface Look {
  /** The number of a colour. */
  colour(node: number): number;
  /** A sign before the name, or "". */
  sign(node: number): string;
  about(node: number): string;
}

export interface FlameInput {
  tree: Tree;
  sums: Sums;
  found: Found | null;
  /** The node at full width. */
  zoom: number;
  unit: (value: number) => string;
  look?: Look;
  /** What the root is called, if that is not "all". */
  root?: string;
}

export interface FlameActions {
  zoom(node: number): void;
  filter?(frame: number): void;
  /** Show the callers and callees of a frame. */
  callers?(frame: number): void;
}

/** The ids of the elements of a graph: the canvas, and the line that describes a frame. */
export interface Places {
  canvas: string;
  about: string;
  /** Is the root the lowest row? */
  upwards?: boolean;
}

/** As much of a name as `fits`: without its place, or else with dots for what is left out at its beginning, since the ends of
 * names tell more. "" if hardly any of it does. */
export function fitting(name: string, fits: (text: string) => boolean): string {
  if (fits(name)) return name;
  const bare = name.replace(/ \([^()]*\)$/, "");
  if (fits(bare)) return bare;
  let low = 0, high = bare.length; // a text of `low` letters fits, one of `high` does not
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (fits(`…${bare.slice(bare.length - middle)}`)) low = middle;
    else high = middle;
  }
  return low < 2 ? "" : `…${bare.slice(bare.length - low)}`;
}

/** A small pattern over the colour, so that the kinds of code differ without colours, too. */
function pattern(context: CanvasRenderingContext2D, code: number): CanvasPattern | null {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 8;
  const drawing = tile.getContext("2d");
  if (!drawing || PLAIN.includes(code)) return null;
  drawing.strokeStyle = drawing.fillStyle = colour("--x-pattern");
  drawing.lineWidth = 1;
  if (HATCHED.includes(code)) {
    for (const shift of [-8, 0, 8]) {
      drawing.moveTo(shift, 8);
      drawing.lineTo(shift + 8, 0);
    }
    drawing.stroke();
  } else if (code === 2) {
    drawing.fillRect(2, 2, 1.5, 1.5);
    drawing.fillRect(6, 6, 1.5, 1.5);
  } else {
    drawing.fillRect(0, 3, 8, 1);
  }
  return context.createPattern(tile, "repeat");
}

export class Flame {
  private readonly canvas: HTMLCanvasElement;
  private readonly about: HTMLElement;
  private boxes: Box[] = [];
  private input: FlameInput | null = null;
  private focus = 0;
  private rows = 0;

  constructor(private readonly data: Named, private readonly actions: FlameActions,
    private readonly places: Places = { canvas: "explore-canvas", about: "explore-about" }) {
    this.canvas = byId<HTMLCanvasElement>(places.canvas);
    this.about = byId(places.about);
    new ResizeObserver(() => this.draw()).observe(this.canvas.parentElement as Element);
    this.canvas.addEventListener("mousemove", event => this.point(event));
    this.canvas.addEventListener("mouseleave", () => this.describe(this.focus));
    this.canvas.addEventListener("click", event => {
      const box = this.at(event);
      if (box) this.zoomTo(box.node);
    });
    this.canvas.addEventListener("keydown", event => this.key(event));
    this.canvas.addEventListener("focus", () => this.focusOn(this.focus));
  }

  show(input: FlameInput): void {
    if (!this.input || this.input.tree !== input.tree) this.focus = input.zoom;
    this.input = input;
    this.draw();
    this.describe(this.focus);
  }

  /** The frames that are wide enough to be seen, and their number of rows. */
  private layout(input: FlameInput, width: number): number {
    const { tree, sums, zoom } = input, line: number[] = [];
    for (let node = zoom; node > 0; node = tree.parent[node] as number) line.push(node);
    this.boxes = [...line, 0].reverse().map((node, depth) => ({ node, x: 0, width, depth }));
    let deepest = line.length;
    const scale = (sums.total[zoom] as number) > 0 ? width / (sums.total[zoom] as number) : 0;
    const open: Box[] = [this.boxes[line.length] as Box];
    for (let box = open.pop(); box; box = open.pop()) {
      let x = box.x;
      for (const node of this.ordered(tree.children[box.node] ?? [], sums)) {
        const wide = (sums.total[node] as number) * scale;
        if (wide < LEAST) continue;
        const child = { node, x, width: wide, depth: box.depth + 1 };
        this.boxes.push(child);
        open.push(child);
        deepest = Math.max(deepest, child.depth);
        x += wide;
      }
    }
    return deepest + 1;
  }

  private ordered(children: number[], sums: Sums): number[] {
    return children.filter(node => (sums.total[node] as number) > 0)
      .sort((a, b) => (sums.total[b] as number) - (sums.total[a] as number));
  }

  private draw(): void {
    const input = this.input, width = (this.canvas.parentElement as Element).clientWidth;
    if (!input || width < 50) return;
    const rows = this.rows = this.layout(input, width), ratio = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(rows * ROW * ratio);
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${rows * ROW}px`;
    const context = this.canvas.getContext("2d");
    if (!context) return;
    context.scale(ratio, ratio);
    context.font = FONT;
    context.textBaseline = "middle";
    const fills = COLOURS.map(colour), patterns = COLOURS.map((_, code) => pattern(context, code));
    const ink = colour("--x-ink"), dim = colour("--x-dim"), hit = colour("--x-hit");
    for (const box of this.boxes) {
      const frame = input.tree.frame[box.node] as number, code = input.look ? input.look.colour(box.node)
        : box.node ? this.data.frames.code[frame] as number : 0;
      const matches = input.found?.frames[frame] === 1 && box.node > 0;
      const y = this.top(box.depth), wide = Math.max(box.width - 0.6, 0.4);
      context.fillStyle = matches ? hit : input.look ? fills[code] as string : box.node === 0 || box.node !== input.zoom && box.width === width &&
        box.depth < this.depthOf(input.zoom) ? dim : fills[code] as string;
      context.fillRect(box.x, y, wide, ROW - 1);
      const over = patterns[code];
      if (over && !matches && box.node && box.width > 4) {
        context.fillStyle = over;
        context.fillRect(box.x, y, wide, ROW - 1);
      }
      if (box.node === this.focus && document.activeElement === this.canvas) {
        context.strokeStyle = ink;
        context.lineWidth = 2;
        context.strokeRect(box.x + 1, y + 1, Math.max(wide - 2, 1), ROW - 3);
      }
      if (box.width > 26) this.label(context, box, ink);
    }
  }

  /** The upper edge of a row. */
  private top(depth: number): number {
    return (this.places.upwards ? this.rows - 1 - depth : depth) * ROW;
  }

  private depthOf(node: number): number {
    let depth = 0;
    for (let at = node; at > 0; at = this.input?.tree.parent[at] ?? 0) depth++;
    return depth;
  }

  private label(context: CanvasRenderingContext2D, box: Box, ink: string): void {
    const room = box.width - 8, sign = this.input?.look?.sign(box.node) ?? "";
    const text = fitting(this.name(box.node), each => context.measureText(sign + each).width <= room);
    if (!text) return;
    context.fillStyle = ink;
    context.fillText(sign + text, box.x + 4, this.top(box.depth) + ROW / 2);
  }

  private name(node: number): string {
    return node === 0 ? this.input?.root ?? "all" : nameOf(this.data, this.input?.tree.frame[node] as number);
  }

  /** The whole name, where that on the graph is shortened. */
  private wholeName(node: number): string {
    return node === 0 ? this.name(0) : this.data.frames.text[this.input?.tree.frame[node] as number] ?? "";
  }

  private at(event: MouseEvent): Box | undefined {
    const { left, top } = this.canvas.getBoundingClientRect();
    const x = event.clientX - left, row = Math.floor((event.clientY - top) / ROW);
    const depth = this.places.upwards ? this.rows - 1 - row : row;
    return this.boxes.find(box => box.depth === depth && x >= box.x && x < box.x + box.width);
  }

  private point(event: MouseEvent): void {
    const box = this.at(event);
    this.canvas.style.cursor = box ? "pointer" : "default";
    this.describe(box ? box.node : this.focus);
    this.canvas.title = box ? this.wholeName(box.node) : "";
  }

  /** The line below the graph. */
  private describe(node: number): void {
    if (!this.input) return;
    const { sums, unit } = this.input, value = sums.total[node] as number, self = sums.self[node] as number;
    const share = shareText(value, sums.total[0] as number);
    const more = self && self !== value ? `; itself ${unit(self)}` : "";
    const look = this.input.look;
    const name = this.wholeName(node);
    this.about.textContent = look ? `${name}: ${look.about(node)}` : `${name}: ${unit(value)} (${exactText(value)}), ${share} of what is shown${more}`;
    this.about.title = pathOf(this.input.tree, this.data, node).join(" → ");
  }

  /** The frame of the node that has the focus; null: that is the root. */
  chosen(): number | null {
    return this.focus > 0 ? this.input?.tree.frame[this.focus] ?? null : null;
  }

  private focusOn(node: number): void {
    this.focus = node;
    this.draw();
    this.describe(node);
  }

  private zoomTo(node: number): void {
    this.focus = node;
    this.actions.zoom(node);
  }

  private key(event: KeyboardEvent): void {
    const input = this.input, next = this.neighbour(event.key);
    if (!input) return;
    if (next !== undefined) this.focusOn(next);
    else if (event.key === "Enter" || event.key === " ") this.zoomTo(this.focus);
    else if (event.key === "Backspace" || event.key === "Escape") this.zoomTo(input.tree.parent[input.zoom] ?? 0);
    else if (event.key === "f" && this.focus > 0) this.actions.filter?.(input.tree.frame[this.focus] as number);
    else if (event.key === "c" && this.focus > 0) this.actions.callers?.(input.tree.frame[this.focus] as number);
    else return;
    event.preventDefault();
  }

  /** The frame to which an arrow key leads. */
  private neighbour(pressed: string): number | undefined {
    if (!this.input) return undefined;
    const turned: Record<string, string> = this.places.upwards ? { ArrowUp: "ArrowDown", ArrowDown: "ArrowUp" } : {};
    const key = turned[pressed] ?? pressed;
    const { tree, sums } = this.input, above = tree.parent[this.focus] as number;
    if (key === "ArrowUp") return this.focus > 0 ? above : 0;
    if (key === "ArrowDown") return this.ordered(tree.children[this.focus] ?? [], sums)[0];
    if (key !== "ArrowLeft" && key !== "ArrowRight") return undefined;
    const beside = this.ordered(tree.children[above] ?? [], sums), at = beside.indexOf(this.focus);
    return at < 0 ? undefined : beside[at + (key === "ArrowLeft" ? -1 : 1)];
  }
}
