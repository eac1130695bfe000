// callers.ts - who calls a function, and what it calls: two icicle graphs, with the function between them.
//
// Each stack with the function counts once, from the outermost call of it on: what a recursive function calls is then itself, and
// both graphs have the same sum. SPDX-License-Identifier: GPL-2.0-or-later
import type { Data } from "./data";
import { byId, make } from "./dom";
import { shareText } from "./format";
import { Flame } from "./flame";
import type { Row } from "./rollups";
import type { Tree } from "./tree";
import { childrenOf, Maker, sumsOf } from "./tree";

const MOST_FUNCTIONS = 300; // that can be chosen from the list; tables and graphs lead to all
const NONE = -1;

/** The trees of the callers and of the callees of a function, which is the root of both. leaves: for each group its node, and
 * `NONE` if its stack has no such function. unknown: by group, 1 if it is not known whether it has. */
export interface Both {
  callers: Tree;
  callees: Tree;
  unknown: Uint8Array;
}

/** The node of the outermost call of a function on the way to a node; 0: there is none. */
function outermost(data: Data, row: number): Int32Array {
  const { parent, frame } = data.nodes, of = data.frames.function, found = new Int32Array(parent.length);
  for (let i = 1; i < found.length; i++) {
    const above = found[parent[i] as number] as number;
    found[i] = above || (of[frame[i] as number] === row ? i : 0);
  }
  return found;
}

/** row: of the roll-up by function. */
export function bothTrees(data: Data, row: number): Both {
  const { parent, frame } = data.nodes, { node, set } = data.groups, of = data.frames.function;
  const calls = outermost(data, row), root = Math.max(of.indexOf(row), 0);
  const up = new Maker([0], [root]), down = new Maker([0], [root]);
  const others = data.frames.text.indexOf("others");
  const callers: number[] = [], callees: number[] = [], unknown = new Uint8Array(node.length);
  const upFrom = (first: number): number => {
    let at = 0;
    for (let each = first; each > 0; each = parent[each] as number) at = up.child(at, frame[each] as number);
    return at;
  };
  const downTo = (last: number, first: number): number => {
    const path: number[] = [];
    for (let each = last; each !== first; each = parent[each] as number) path.push(frame[each] as number);
    return path.reverse().reduce((at, each) => down.child(at, each), 0);
  };
  node.forEach((at, group) => {
    const call = calls[at] as number, number = set[group] as number;
    if (call) {
      callers.push(upFrom(parent[call] as number));
      callees.push(downTo(at, call));
    } else if (number > 0 && data.sets[number]?.some(each => of[each] === row)) { // somewhere below the node of its callers
      callers.push(up.child(0, others));
      callees.push(of[data.groups.own[group] as number] === row ? 0 : down.child(0, others));
    } else {
      callers.push(NONE);
      callees.push(NONE);
      unknown[group] = number < 0 ? 1 : 0;
    }
  });
  const tree = (maker: Maker, leaves: number[]): Tree => ({ parent: maker.parent, frame: maker.frame, leaves, children: childrenOf(maker.parent) });
  return { callers: tree(up, callers), callees: tree(down, callees), unknown };
}

export interface CallersInput {
  /** The functions with a value, the largest first. */
  rows: Row[];
  /** The text of the chosen one; "": the first. */
  chosen: string;
  byGroup: Float64Array;
  unit: (value: number) => string;
}

export class CallersView {
  private readonly list = byId<HTMLSelectElement>("explore-function");
  private readonly graphs: [Flame, Flame];
  private row = NONE;
  private trees: Both | null = null;

  /** choose: show another function; filter: keep only blocks with a frame. */
  constructor(private readonly data: Data, private readonly choose: (function_: string) => void, filter: (frame: number) => void) {
    const actions = (get: () => Tree | undefined): ConstructorParameters<typeof Flame>[1] => ({
      zoom: node => this.goTo(get()?.frame[node] ?? 0), filter, callers: frame => this.goTo(frame),
    });
    this.graphs = [
      new Flame(data, actions(() => this.trees?.callers), { canvas: "explore-callers-canvas", about: "explore-callers-about", upwards: true }),
      new Flame(data, actions(() => this.trees?.callees), { canvas: "explore-callees-canvas", about: "explore-callees-about" }),
    ];
    this.list.addEventListener("change", () => choose(this.list.value));
  }

  private goTo(frame: number): void {
    const row = this.data.frames.function[frame] as number, text = this.data.rows.function[row];
    if (text !== undefined && text !== "others") this.choose(text);
  }

  show(input: CallersInput): void {
    const { rows } = input, ranked = [...rows].sort((a, b) => (b.inclusive ?? 0) - (a.inclusive ?? 0));
    const row = ranked.find(each => each.text === input.chosen) ?? (input.chosen ? undefined : ranked.find(each => each.self > 0));
    const place = byId("explore-callers-found");
    const listed = ranked.slice(0, MOST_FUNCTIONS);
    if (row && !listed.includes(row)) listed.push(row);
    this.list.replaceChildren(...listed.map(each => make("option", { value: each.text }, `${each.short}: ${input.unit(each.inclusive ?? 0)}`)));
    byId("explore-callers-graphs").hidden = !row;
    if (!row) {
      place.textContent = input.chosen ? `${input.chosen} has nothing of what is shown.` : "Nothing in this window.";
      return;
    }
    this.list.value = row.text;
    if (this.row !== row.row || !this.trees) this.trees = bothTrees(this.data, row.row);
    this.row = row.row;
    const { callers, callees, unknown } = this.trees, whole = input.byGroup.reduce((sum, value) => sum + value, 0);
    const lacking = input.byGroup.reduce((sum, value, group) => sum + (unknown[group] ? value : 0), 0);
    [callers, callees].forEach((tree, i) => this.graphs[i]?.show({
      tree, sums: sumsOf(tree, input.byGroup), found: null, zoom: 0, unit: input.unit, root: row.short,
    }));
    const value = sumsOf(callees, input.byGroup).total[0] as number;
    place.textContent = `${lacking ? "at least " : ""}${input.unit(value)}, ${shareText(value, whole)}, in stacks with this function` +
      (lacking ? "; the frames of some small sites are not in this page." : ".");
    place.dataset.v = String(value);
  }
}
