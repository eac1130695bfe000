// treeview.ts - the stacks as a tree of rows that are opened one by one; the path of the largest values is open at first.
//
// A function that calls itself again and again is one row with the number of calls.
// SPDX-License-Identifier: GPL-2.0-or-later
import type { Data } from "./data";
import { nameOf } from "./data";
import { byId, make } from "./dom";
import { exactText, shareText } from "./format";
import type { Found, Sums, Tree } from "./tree";

const MOST_CHILDREN = 100;

interface Line {
  /** The node whose children are shown below, and how many calls of the same function in a row it stands for. */
  node: number;
  calls: number;
  children: number[];
}

export class TreeView {
  private readonly body = byId("explore-tree");
  private readonly opened = new Map<number, boolean>();
  private tree: Tree | null = null;
  private sums: Sums | null = null;
  private found: Found | null = null;
  private unit: (value: number) => string = String;

  constructor(private readonly data: Data) {
    this.body.addEventListener("click", event => {
      const row = (event.target as Element).closest<HTMLElement>("[role=treeitem]");
      if (row) this.toggle(row);
    });
    this.body.addEventListener("keydown", event => this.key(event));
  }

  show(tree: Tree, sums: Sums, found: Found | null, unit: (value: number) => string): void {
    if (tree !== this.tree) this.opened.clear();
    Object.assign(this, { tree, sums, found, unit });
    this.draw(null);
  }

  private draw(focus: number | null): void {
    const rows: HTMLElement[] = [];
    for (const node of this.children(0)) this.add(rows, node, 1, true);
    this.body.replaceChildren(...rows);
    const wanted = rows.find(row => row.dataset.node === String(focus));
    const first = wanted ?? rows[0];
    if (first) first.tabIndex = 0;
    if (wanted) wanted.focus();
    if (!rows.length) this.body.append(make("p", { class: "muted" }, "Nothing in this window."));
  }

  private children(node: number): number[] {
    const { tree, sums } = this;
    if (!tree || !sums) return [];
    return (tree.children[node] ?? []).filter(child => sums.total[child])
      .sort((a, b) => (sums.total[b] as number) - (sums.total[a] as number));
  }

  /** A row for a node and for the calls of the same function right below it, as long as there is nothing else. */
  private lineOf(node: number): Line {
    let calls = 1, at = node, children = this.children(node);
    while (children.length === 1 && !this.sums?.self[at] && this.tree?.frame[children[0] as number] === this.tree?.frame[node]) {
      at = children[0] as number;
      children = this.children(at);
      calls++;
    }
    return { node: at, calls, children };
  }

  private add(rows: HTMLElement[], node: number, level: number, first: boolean): void {
    const line = this.lineOf(node);
    const open = line.children.length > 0 && (this.opened.get(line.node) ?? (first && level < 60));
    rows.push(this.row(line, level, open));
    if (!open) return;
    line.children.slice(0, MOST_CHILDREN).forEach((child, i) => this.add(rows, child, level + 1, first && i === 0));
    if (line.children.length > MOST_CHILDREN) rows.push(this.rest(line.children.slice(MOST_CHILDREN), level + 1));
  }

  private row(line: Line, level: number, open: boolean): HTMLElement {
    const frame = this.tree?.frame[line.node] as number;
    const value = this.sums?.total[line.node] as number, whole = this.sums?.total[0] as number;
    const name = nameOf(this.data, frame) + (line.calls > 1 ? ` ×${line.calls}` : "");
    const repeated: Record<string, string> =
      line.calls > 1 ? { title: `${line.calls} calls in a row of this function, one from the other` }
        : this.data.frames.short[frame] === undefined ? {} : { title: this.data.frames.text[frame] ?? "" };
    const state: Record<string, string> = line.children.length ? { "aria-expanded": String(open) } : {};
    const row = make("div", {
      role: "treeitem", tabindex: "-1", "aria-level": String(level), "data-node": String(line.node),
      class: `x-row x-code${this.data.frames.code[frame]}${this.found?.frames[frame] ? " x-found" : ""}`, ...state,
    }, make("span", { class: "x-n", title: exactText(value) }, this.unit(value)),
      make("span", { class: "x-n" }, shareText(value, whole)),
      make("span", { class: "x-name" }, make("span", { class: "x-sign", "aria-hidden": "true" },
        line.children.length ? open ? "▾" : "▸" : "·"), " ", make("span", { class: "x-label", ...repeated }, name)));
    row.style.setProperty("--level", String(Math.min(level - 1, 24)));
    return row;
  }

  private rest(children: number[], level: number): HTMLElement {
    const value = children.reduce((sum, child) => sum + (this.sums?.total[child] as number), 0);
    const row = make("div", { class: "x-row muted" }, make("span", { class: "x-n" }, this.unit(value)),
      make("span", { class: "x-n" }, shareText(value, this.sums?.total[0] as number)),
      make("span", { class: "x-name" }, `${children.length} more`));
    row.style.setProperty("--level", String(level - 1));
    return row;
  }

  private toggle(row: HTMLElement, open?: boolean): void {
    const node = Number(row.dataset.node), now = row.getAttribute("aria-expanded");
    if (now === null) return;
    this.opened.set(node, open ?? now !== "true");
    this.draw(node);
  }

  private key(event: KeyboardEvent): void {
    const row = (event.target as Element).closest<HTMLElement>("[role=treeitem]");
    if (!row) return;
    const rows = [...this.body.querySelectorAll<HTMLElement>("[role=treeitem]")], at = rows.indexOf(row);
    if (event.key === "ArrowDown") this.move(row, rows[at + 1]);
    else if (event.key === "ArrowUp") this.move(row, rows[at - 1]);
    else if (event.key === "Home") this.move(row, rows[0]);
    else if (event.key === "End") this.move(row, rows[rows.length - 1]);
    else if (event.key === "ArrowRight") this.toggle(row, true);
    else if (event.key === "ArrowLeft") this.toggle(row, false);
    else if (event.key === "Enter" || event.key === " ") this.toggle(row);
    else return;
    event.preventDefault();
  }

  private move(from: HTMLElement, to: HTMLElement | undefined): void {
    if (!to) return;
    from.tabIndex = -1;
    to.tabIndex = 0;
    to.focus();
  }
}
