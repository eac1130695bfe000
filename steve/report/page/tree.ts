// tree.ts - the tree of stacks, from main to the allocating function or inverted, with the sums of a selection.
// SPDX-License-Identifier: GPL-2.0-or-later
import type { Data, Named } from "./data";

/** A tree whose parents have smaller numbers than their children; node 0 is the root. leaves: for each group of the data,
 * the node to which its values belong, with all nodes above it. */
export interface Tree {
  parent: number[];
  frame: number[];
  leaves: number[];
  children: number[][];
}

/** The values of a selection by node. */
export interface Sums {
  self: Float64Array;
  total: Float64Array;
}

export function childrenOf(parent: number[]): number[][] {
  const children: number[][] = parent.map(() => []);
  for (let i = 1; i < parent.length; i++) children[parent[i] as number]?.push(i);
  return children;
}

/** Makes nodes by parent and frame. */
export class Maker {
  private readonly known = new Map<string, number>();

  constructor(readonly parent: number[], readonly frame: number[]) {}

  child(parent: number, frame: number): number {
    const key = `${parent} ${frame}`, known = this.known.get(key);
    if (known !== undefined) return known;
    this.known.set(key, this.parent.length);
    this.parent.push(parent);
    this.frame.push(frame);
    return this.parent.length - 1;
  }
}

/** The number of the frame that stands for a kind of blocks; these come after the frames of stacks. */
function frameOfKind(data: Data, group: number): number {
  return data.frames.text.length - data.kinds.length + (data.groups.kind[group] as number);
}

/** From main to the allocating functions. kinds: with the kind of the blocks as the last frame. */
export function plainTree(data: Data, kinds = false): Tree {
  const { node } = data.groups, maker = new Maker(data.nodes.parent.slice(), data.nodes.frame.slice());
  const { parent, frame } = maker;
  const leaves = kinds ? node.map((at, group) => maker.child(at, frameOfKind(data, group))) : node;
  return { parent, frame, leaves, children: childrenOf(parent) };
}

/** From the allocating functions to main. kinds: with the kind of the blocks as the first frame. */
export function invertedTree(data: Data, kinds = false): Tree {
  const maker = new Maker([0], [0]), { parent, frame } = maker;
  const leaves = data.groups.node.map((leaf, group) => {
    let at = kinds ? maker.child(0, frameOfKind(data, group)) : 0;
    for (let node = leaf; node > 0; node = data.nodes.parent[node] as number)
      at = maker.child(at, data.nodes.frame[node] as number);
    return at;
  });
  return { parent, frame, leaves, children: childrenOf(parent) };
}

export function sumsOf(tree: Pick<Tree, "parent"|"leaves">, byGroup: Float64Array): Sums
{
    const self = new Float64Array(tree.parent.length);
    byGroup.forEach((value, i) => {
      const leaf = tree.leaves[i] as number; // -1: the tree does not have it
      if (leaf >= 0) self[leaf] += value;
    });
    const total = self.slice();
    for (let i = total.length - 1; i > 0; i--)
        total[tree.parent[i] as number] += total[i] as number;
    return {self, total};
}

/** What a search finds: by frame, whether it matches, and the values of all stacks with such a frame. unknown: the values
 * of sites that are summed up, of which it is not known whether they have such a frame. */
export interface Found {
  frames: Uint8Array;
  value: number;
  unknown: number;
}

/** By frame: does its text have a text in it, whatever the case? */
function matching(data: Named, text: string): Uint8Array {
  const wanted = text.toLowerCase();
  return Uint8Array.from(data.frames.text, name => name.toLowerCase().includes(wanted) ? 1 : 0);
}

/** By node: is it, or a node above it, of a frame that a mask chooses? */
export function nodesBelow(tree: Pick<Tree, "parent" | "frame">, frames: Uint8Array): Uint8Array {
  const within = new Uint8Array(tree.parent.length);
  for (let i = 1; i < within.length; i++)
    within[i] = (frames[tree.frame[i] as number] as number) | (within[tree.parent[i] as number] as number);
  return within;
}

/** By set of the data: does it have a frame that a mask chooses? */
export function setsWith(data: Data, frames: Uint8Array): Set<number> {
  return new Set(Object.entries(data.sets).filter(([, found]) => found.some(frame => frames[frame])).map(([number]) => Number(number)));
}

export function search(tree: Tree, data: Data, byGroup: Float64Array, text: string): Found | null {
  if (!text) return null;
  const frames = matching(data, text), within = nodesBelow(tree, frames), sets = setsWith(data, frames);
  let value = 0, unknown = 0;
  byGroup.forEach((each, group) => {
    const set = data.groups.set[group] as number;
    if (within[tree.leaves[group] as number] || sets.has(set)) value += each;
    else if (set < 0) unknown += each;
  });
  return { frames, value, unknown };
}

/** The same of a tree without groups: the values are those of its nodes. */
export function searchNodes(tree: Tree, sums: Sums, data: Named, text: string): Found | null {
  if (!text) return null;
  const frames = matching(data, text), within = nodesBelow(tree, frames);
  return { frames, value: sums.self.reduce((sum, self, node) => within[node] ? sum + self : sum, 0), unknown: 0 };
}

/** The texts of the frames from the root to a node. */
export function pathOf(tree: Tree, data: Named, node: number): string[] {
  const path: string[] = [];
  for (let at = node; at > 0; at = tree.parent[at] as number) path.push(data.frames.text[tree.frame[at] as number] ?? "");
  return path.reverse();
}
