// main.ts - the explorable part of the report: reads the data, and shows the same selection in all views.
// SPDX-License-Identifier: GPL-2.0-or-later
import type { Data } from "./data";
import { load } from "./data";
import { collectedIn, interpolated } from "./axis";
import { byId, make } from "./dom";
import { CallersView } from "./callers";
import { Flame } from "./flame";
import { bytesText, countText, exactText, noun, shareText, timeText } from "./format";
import type {Filter, Metric, Rollup} from "./query";
import {maskOf, masked, mayLack, METRICS, sumsByGroup, total, totalsOf} from "./query";
import { filterText, rowsOf } from "./rollups";
import { showSource } from "./source";
import type { State } from "./state";
import { AXES, fromFragment, hasAxis, initialState, isFragment, toFragment, VIEWS } from "./state";
import { showTable } from "./table";
import type { Choice } from "./timeline";
import { Timeline, timesName } from "./timeline";
import type { Sums, Tree } from "./tree";
import { invertedTree, pathOf, plainTree, search, sumsOf } from "./tree";
import { TreeView } from "./treeview";

const METRIC_TEXTS: Record<Metric, string> = {
  peak: "live at its peak, the moment with the most live bytes",
  live: "live at its end", allocated: "allocated in it; a resize allocates its new size", freed: "freed in it; a resize frees its old size",
  growth: "growth: made in it, alive at its end", reads: "read in it", writes: "written in it",
};
const SHORT_TEXTS: Record<Metric, string> = {
  peak: "live at the peak", live: "live at the end", allocated: "allocated", freed: "freed", growth: "growth", reads: "read", writes: "written",
};

class Page {
  private state: State;
  private readonly trees = new Map<string, Tree>();
  private readonly timeline: Timeline;
  private readonly flame: Flame;
  private readonly treeView: TreeView;
  private readonly callersView: CallersView;
  private waiting = false;
  private sliding = false; // the last change was of a control that moves on, so that one step back undoes all of its steps

  constructor(private readonly data: Data) {
    this.state = fromFragment(data, location.hash);
    this.timeline = new Timeline(data, (window, choice) => this.choose({ window }, choice),
      shown => this.choose({ shown }, "sliding"));
    const filter = (frame: number): void => this.addFilter(this.filterOf(frame));
    const callers = (text: string): void => this.choose({ view: "callers", callers: text });
    this.flame = new Flame(data, {
      zoom: node => this.choose({ zoom: pathOf(this.tree(), this.data, node) }), filter,
      callers: frame => callers(this.functionOf(frame)),
    });
    this.callersView = new CallersView(data, callers, filter);
    for (const [name, action] of [["callers", (frame: number) => callers(this.functionOf(frame))], ["only", filter]] as const)
      byId(`explore-${name}`).addEventListener("click", () => {
        const frame = this.flame.chosen();
        if (frame !== null) action(frame);
      });
    this.treeView = new TreeView(data);
    const times = byId<HTMLSelectElement>("explore-axis").options[1];
    if (times) times.text = timesName(data);
    for (const option of byId<HTMLSelectElement>("explore-axis").options)
      option.hidden = option.disabled = !AXES.some(axis => axis === option.value && hasAxis(data, axis));
    for (const option of byId<HTMLSelectElement>("explore-metric").options)
      option.disabled = !data.accesses && (option.value === "reads" || option.value === "writes");
    this.listen();
  }

  /** The tree of stacks in the form that is chosen; each form is made once. */
  private tree(): Tree {
    const { inverted, kinds } = this.state, key = `${inverted} ${kinds}`;
    const tree = this.trees.get(key) ?? (inverted ? invertedTree : plainTree)(this.data, kinds);
    this.trees.set(key, tree);
    return tree;
  }

  private listen(): void {
    for (const key of ["metric", "unit", "scope", "axis", "split"] as const) {
      const control = byId<HTMLSelectElement>(`explore-${key}`);
      control.addEventListener("change", () => this.choose({ [key]: control.value } as Partial<State>));
    }
    const box = byId<HTMLInputElement>("explore-search");
    box.addEventListener("input", () => this.choose({ search: box.value }, "sliding"));
    const age = byId<HTMLSelectElement>("explore-age");
    age.addEventListener("change", () => this.choose({ age: Number(age.value) }));
    const file = byId<HTMLSelectElement>("explore-file");
    file.addEventListener("change", () => this.choose({ file: file.value }));
    for (const key of ["inverted", "kinds"] as const) {
      const box = byId<HTMLInputElement>(`explore-${key}`);
      box.addEventListener("change", () => this.choose({ [key]: box.checked, zoom: [] }));
    }
    for (const view of VIEWS)
      byId(`explore-tab-${view}`).addEventListener("click", () => this.choose({ view }));
    byId("explore-tabs").addEventListener("keydown", event => this.tabKey(event));
    byId("explore-reset").addEventListener("click", () => this.choose(initialState(this.data)));
    document.addEventListener("keydown", event => this.key(event));
    document.addEventListener("click", event => this.link(event));
    addEventListener("popstate", () => {
      if (isFragment(location.hash) || !location.hash) this.restore();
    });
  }

  /** A link of the page to one of its views. */
  private link(event: MouseEvent): void {
    const link = (event.target as Element).closest<HTMLAnchorElement>("a[href^='#explore:']");
    if (!link || event.button || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    this.choose(fromFragment(this.data, link.getAttribute("href") ?? ""));
    byId("explore").scrollIntoView();
  }

  private restore(): void {
    this.state = fromFragment(this.data, location.hash);
    this.sliding = false;
    this.show(false);
  }

  private choose(change: Partial<State>, choice: Choice = "chosen"): void {
    this.state = { ...this.state, ...change };
    if (choice === "dragging") {
      if (this.waiting) return;
      this.waiting = true;
      requestAnimationFrame(() => {
        this.waiting = false;
        this.show(true);
      });
      return;
    }
    this.show(false);
    this.remember(choice === "sliding");
  }

  /** The address is the state, and each change is a step of the history, which the browser's Back undoes. */
  private remember(sliding: boolean): void {
    const fragment = toFragment(this.data, this.state), again = this.sliding && sliding;
    this.sliding = sliding;
    if (fragment === (isFragment(location.hash) ? location.hash : "")) return;
    const address = fragment || location.pathname + location.search;
    if (again) history.replaceState(null, "", address);
    else history.pushState(null, "", address);
  }

  private filterOf(frame: number): Filter {
    const { frames, kinds } = this.data, kind = frame - (frames.text.length - kinds.length);
    return kind < 0 ? { by: "function", row: frames.function[frame] as number } : { by: "kind", row: kind };
  }

  /** The function of a frame, as the table of functions names it. */
  private functionOf(frame: number): string {
    return this.data.rows.function[this.data.frames.function[frame] as number] ?? "";
  }

  private addFilter(filter: Filter): void {
    if (this.state.filters.some(each => each.by === filter.by && each.row === filter.row)) return;
    this.choose({ filters: [...this.state.filters, filter], zoom: [] });
  }

  private readonly unitText = (value: number): string => this.state.unit === "bytes" ? bytesText(value) : countText(value);

  /** Show the state in all views. */
  show(dragging: boolean): void {
    const begun = performance.now(), { data, state } = this, tree = this.tree();
    const mask = maskOf(data, state.filters);
    const byGroup = masked(sumsByGroup(data, state.window, state.metric, state.unit, state.scope, state.age), mask);
    const sums = sumsOf(tree, byGroup), found = search(tree, data, byGroup, state.search);
    this.showControls();
    this.showWindow();
    this.showTotals(mask);
    this.showFilters(mask);
    this.showFound(found, sums.total[0] as number);
    if (!dragging) this.timeline.show(state, mask);
    this.showView(tree, sums, byGroup, found, mask);
    document.documentElement.dataset.exploreMs = (performance.now() - begun).toFixed(1);
  }

  /** What a search finds. If sites are summed up, it may be more: these have no names. */
  private showFound(found: ReturnType<typeof search>, whole: number): void {
    const place = byId("explore-found");
    place.textContent = found ? `${found.unknown ? "at least " : ""}${this.unitText(found.value)}, ${shareText(found.value, whole)}` : "";
    place.title = found?.unknown ? `at most ${this.unitText(found.value + found.unknown)}, ` +
      `${shareText(found.value + found.unknown, whole)}: the frames of some small sites are not in this page` : "";
  }

  private showView(tree: Tree, sums: Sums, byGroup: Float64Array, found: ReturnType<typeof search>, mask: Uint8Array): void {
    const { view } = this.state;
    const parts = ["flame", "tree", "source", "callers"];
    for (const part of [...parts, "rows"]) byId(`explore-${part === "callers" ? "callers-view" : part}`).hidden = part !== (parts.includes(view) ? view : "rows");
    byId("explore-direction").hidden = view !== "flame" && view !== "tree";
    if (view === "flame")
      this.flame.show({ tree, sums, found, zoom: this.nodeAt(tree, this.state.zoom), unit: this.unitText });
    else if (view === "tree") this.treeView.show(tree, sums, found, this.unitText);
    else if (view === "source") showSource(this.data, this.state, mask);
    else if (view === "callers")
      this.callersView.show({ rows: rowsOf(this.data, "function", byGroup), chosen: this.state.callers, byGroup, unit: this.unitText });
    else this.showRollup(view, byGroup);
  }

  private showRollup(by: Rollup, byGroup: Float64Array): void {
    showTable({
      by, rows: rowsOf(this.data, by, byGroup), whole: total(byGroup), search: this.state.search, unit: this.unitText,
      filter: row => this.addFilter({ by, row: row.row }),
      order: this.state.order, sort: order => this.choose({ order }),
      callers: by === "function" ? row => this.choose({ view: "callers", callers: row.text }) : null,
    });
  }

  /** The node that a path of texts leads to, as far as it leads. */
  private nodeAt(tree: Tree, path: string[]): number {
    let node = 0;
    for (const text of path) {
      const next = tree.children[node]?.find(child => this.data.frames.text[tree.frame[child] as number] === text);
      if (next === undefined) break;
      node = next;
    }
    return node;
  }

  private showControls(): void {
    const { state } = this;
    for (const key of ["metric", "unit", "scope", "axis", "split"] as const) byId<HTMLSelectElement>(`explore-${key}`).value = state[key];
    const accesses = state.metric === "reads" || state.metric === "writes";
    const counted = byId<HTMLSelectElement>("explore-unit").options[1];
    if (counted) counted.text = accesses ? "accesses" : "blocks";
    byId<HTMLSelectElement>("explore-scope").disabled = state.metric === "growth";
    this.showAges();
    for (const key of ["inverted", "kinds"] as const) byId<HTMLInputElement>(`explore-${key}`).checked = state[key];
    const box = byId<HTMLInputElement>("explore-search");
    if (box.value !== state.search) box.value = state.search;
    for (const view of VIEWS) {
      const tab = byId(`explore-tab-${view}`), chosen = view === state.view;
      tab.setAttribute("aria-selected", String(chosen));
      tab.tabIndex = chosen ? 0 : -1;
    }
    byId("explore-panel").setAttribute("aria-labelledby", `explore-tab-${state.view}`);
  }

  /** The ages that can be chosen: powers of two of steps, and that of the address. */
  private showAges(): void {
    const { data, state: { age } } = this, steps = [0];
    for (let n = 1; n < data.bins; n *= 2) steps.push(n, -n);
    if (!steps.includes(age)) steps.push(age);
    const text = (n: number): string => n === 0 ? "any age"
      : `${n > 0 ? "at least" : "less than"} ${exactText(Math.abs(n) * data.width)} operations`;
    const list = byId<HTMLSelectElement>("explore-age");
    list.replaceChildren(...steps.sort((a, b) => Number(a < 0) - Number(b < 0) || Math.abs(a) - Math.abs(b))
      .map(n => make("option", { value: String(n) }, text(n))));
    list.value = String(age);
  }

  private showWindow(): void {
    const { data, state: { window } } = this;
    const from = window.first * data.width, to = Math.min(window.last * data.width, data.operations);
    const whole = window.first === 0 && window.last === data.bins;
    byId("explore-window").textContent = `${whole ? "The whole run: operations" : "Operations"} ${exactText(from)} to ` +
      `${exactText(to)} of ${exactText(data.operations)}${this.timeOf(from, to)}; steps of ${exactText(data.width)}.`;
    this.showCollected(from, to);
  }

  /** When a part of the run was, if the trace knows it. */
  private timeOf(from: number, to: number): string {
    const { data } = this, { ends, times } = data.timeline, isTime = data.timeUnit === "nanoseconds";
    if (!isTime && !data.clock[0].length) return "";
    const points = isTime ? [ends, times] as const : data.clock;
    const [begin, end] = [from, to].map(operation => timeText(interpolated(points[0], points[1], operation)));
    return `, ${begin} to ${end}`;
  }

  /** What garbage collectors ran in the window. */
  private showCollected(from: number, to: number): void {
    const { data } = this, value = collectedIn(data, from, to), { ends, times } = data.timeline;
    const text = byId("explore-collected");
    text.hidden = !data.collected.some(each => each > 0);
    const passed = interpolated(ends, times, to) - interpolated(ends, times, from), name = timesName(data);
    text.dataset.v = String(value);
    text.title = `${exactText(value)} ${name === "time" ? "ns" : name}`;
    text.textContent = `Garbage collection: ${shareText(value, passed)} of the ${name}.`;
  }

  /** All metrics of the window, in both units. A click shows one, as the control does, which the keyboard reaches. */
  private showTotals(mask: Uint8Array): void {
    const { data, state } = this;
    const totals = totalsOf(data, state.window, state.scope, mask, state.age);
    byId("explore-totals").replaceChildren(...METRICS.map(metric => {
        const {bytes, blocks} = totals[metric];
        const isAccess = metric === "reads" || metric === "writes",
              counted = isAccess ? noun(blocks, "access", "accesses") : noun(blocks, "block");
        if (isAccess && !data.accesses)
            return make("div", {class : "x-total"}, make("dt", {}, SHORT_TEXTS[metric]), make("dd", {}, "–"),
                        make("dd", {class : "muted"}, "not recorded"));
        const tile = make("div", {class : metric === state.metric ? "x-total x-chosen" : "x-total"},
                    make("dt", {title : METRIC_TEXTS[metric]}, SHORT_TEXTS[metric]),
                    make("dd", {
                        "data-total" : `${metric}.bytes`,
                        "data-v" : String(bytes),
                        title : `${exactText(bytes)} bytes`
                    },
                         bytesText(bytes)),
                    make("dd", {
                        "data-total" : `${metric}.blocks`,
                        "data-v" : String(blocks),
                        class : "muted",
                        title : exactText(blocks)
                    },
                         `${countText(blocks)} ${counted}`));
        tile.addEventListener("click", () => this.choose({ metric }));
        return tile;
    }));
  }

  private showFilters(mask: Uint8Array): void {
    const { data, state } = this;
    const lacks = mayLack(data, state.filters, mask);
    const note = make("span", { class: "muted" }, lacks ? "All sums are at least so much: the frames of some small sites are not in this page." : "");
    const chip = (text: string, remove: Partial<State>): HTMLElement => {
      const button = make("button", { type: "button", class: "x-chip", "aria-label": `remove the filter ${text}` }, `${text} ×`);
      button.addEventListener("click", () => this.choose({ ...remove, zoom: [] }));
      return button;
    };
    const chips = state.filters.map(filter => chip(filterText(data, filter),
      { filters: state.filters.filter(each => each !== filter) }));
    const unknown = state.unknown.map(filter => chip(`${filter.by}: ${filter.text} is not in this page, so it leaves nothing out`,
      { unknown: state.unknown.filter(each => each !== filter) }));
    byId("explore-filters").replaceChildren(...chips, ...unknown, note);
    const from = initialState(data);
    byId<HTMLButtonElement>("explore-reset").disabled = toFragment(data, state) === toFragment(data, from);
  }

  private tabKey(event: KeyboardEvent): void {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (!step) return;
    const view = VIEWS[(VIEWS.indexOf(this.state.view) + step + VIEWS.length) % VIEWS.length];
    if (view) {
      this.choose({ view });
      byId(`explore-tab-${view}`).focus();
    }
    event.preventDefault();
  }

  /** Keys that work everywhere but in fields of text. */
  private key(event: KeyboardEvent): void {
    const target = event.target as HTMLElement;
    if (event.ctrlKey || event.metaKey || event.altKey || target.matches("input[type=search], select")) return;
    const view = VIEWS[Number(event.key) - 1];
    if (event.key === "/") byId("explore-search").focus();
    else if (event.key === "i") this.choose({ inverted: !this.state.inverted, zoom: [] });
    else if (event.key === "k") this.choose({ kinds: !this.state.kinds, zoom: [] });
    else if (event.key === "m") this.choose({ metric: METRICS[(METRICS.indexOf(this.state.metric) + 1) % METRICS.length] ?? "peak" });
    else if (event.key === "0") this.choose({ window: { first: 0, last: this.data.bins } });
    else if (event.key === "+") this.timeline.zoom(2 / 3);
    else if (event.key === "-") this.timeline.zoom(3 / 2);
    else if (event.key === "[") this.timeline.pan(-1 / 4);
    else if (event.key === "]") this.timeline.pan(1 / 4);
    else if (event.key === "z") this.timeline.fit();
    else if (event.key === "p") this.timeline.toPeak();
    else if (event.key === "n" || event.key === "N") this.timeline.toMark(event.key === "n");
    else if (view) this.choose({ view });
    else return;
    event.preventDefault();
  }
}

async function begin(): Promise<void> {
  const source = document.getElementById("explore-data");
  if (!source) return;
  const data = await load((source.textContent ?? "").trim());
  byId("explore").hidden = false;
  const page = new Page(data);
  page.show(false);
  if (data.folded)
    byId("explore-folded").textContent = `${exactText(data.folded)} of ${exactText(data.sites)} sites are too small to be ` +
      "shown one by one; they are summed up as “others” below their callers.";
  if (isFragment(location.hash)) byId("explore").scrollIntoView();
  document.documentElement.dataset.explore = "ready";
}

begin().catch((error: unknown) => {
  const place = document.getElementById("explore-failed");
  if (place) {
    place.hidden = false;
    place.textContent = `This browser cannot show the explorable part of the report: ${String(error)}`;
  }
});
