// changes.ts - the page of `steve report A B`: totals, two timelines, and what changed, as a flame graph and as tables.
// SPDX-License-Identifier: GPL-2.0-or-later
import type { Change, Changes, Compared } from "./changes_data";
import { change, compared, load, movers, othersOf, totalOf, treeOf } from "./changes_data";
import { TwoTimelines } from "./changes_time";
import { byId, make } from "./dom";
import type { Look } from "./flame";
import { Flame, GREW, SAME, SHRANK } from "./flame";
import { bytesText, countText, exactText } from "./format";
import type { Tree } from "./tree";
import { pathOf, searchNodes } from "./tree";

const MARK = "#changes:";

interface State {
  measure: string;
  view: string;
  search: string;
  aligned: boolean;
  /** The frames from the root to the node to which the flame graph is zoomed. */
  zoom: string[];
}

export function signedText(value: number, unit: (value: number) => string): string {
  return value === 0 ? unit(0) : `${value > 0 ? "+" : "−"}${unit(Math.abs(value))}`;
}

/** The change in percent of A. */
export function percentText({ a, b }: { a: number; b: number }): string {
  if (a === b) return "0.0%";
  if (a === 0) return "new";
  const percent = 100 * (b - a) / a;
  return `${percent > 0 ? "+" : "−"}${Math.abs(percent).toFixed(1)}%`;
}

/** The colour of a change. */
export function colourOf(a: number, b: number): number {
  if (a === b) return SAME;
  const most = Math.abs(b - a) >= a / 2 ? 1 : 0;
  return (b > a ? GREW : SHRANK) + most;
}

class Page {
  private state: State;
  private readonly begin: State;
  private readonly tree: Tree;
  private readonly views: string[];
  private readonly flame: Flame;
  private readonly times: TwoTimelines;
  private typing = false; // the last change was of the search

  constructor(private readonly data: Changes) {
    this.tree = treeOf(data);
    this.views = ["flame", ...Object.keys(data.rows)];
    this.begin = { measure: data.measure, view: "flame", search: "", aligned: data.anchors.length > 0, zoom: [] };
    this.state = this.restored(location.hash);
    this.flame = new Flame(data.tree, {
      zoom: node => this.choose({ zoom: pathOf(this.tree, this.data.tree, node) }),
    });
    this.times = new TwoTimelines(data);
    this.listen();
  }

  private listen(): void {
    const measure = byId<HTMLSelectElement>("explore-metric"), box = byId<HTMLInputElement>("explore-search");
    const aligned = byId<HTMLInputElement>("changes-aligned");
    measure.addEventListener("change", () => this.choose({ measure: measure.value }));
    box.addEventListener("input", () => this.choose({ search: box.value }, true));
    aligned.addEventListener("change", () => this.choose({ aligned: aligned.checked }));
    byId("explore-reset").addEventListener("click", () => this.choose(this.begin));
    for (const view of this.views) byId(`explore-tab-${view}`).addEventListener("click", () => this.choose({ view }));
    byId("explore-tabs").addEventListener("keydown", event => this.tabKey(event));
    document.addEventListener("keydown", event => this.key(event));
    document.addEventListener("click", event => this.link(event));
    addEventListener("popstate", () => {
      this.state = this.restored(location.hash);
      this.typing = false;
      this.show();
    });
  }

  /** A link of the page to one of its views. */
  private link(event: MouseEvent): void {
    const link = (event.target as Element).closest<HTMLAnchorElement>("a[href^='#changes:']");
    if (!link || event.button || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    this.choose(this.restored(link.getAttribute("href") ?? ""));
    byId("changes").scrollIntoView();
  }

  private restored(fragment: string): State {
    const state = { ...this.begin };
    if (!fragment.startsWith(MARK)) return state;
    const fields = new URLSearchParams(fragment.slice(MARK.length));
    state.measure = this.data.measures.find(each => each[0] === fields.get("measure"))?.[0] ?? state.measure;
    state.view = this.views.find(view => view === fields.get("view")) ?? state.view;
    state.search = fields.get("search") ?? "";
    state.aligned = state.aligned && fields.get("aligned") !== "0";
    state.zoom = fields.getAll("zoom");
    return state;
  }

  /** Each change is a step of the history, which the browser's Back undoes; the letters of a search are one. */
  private remember(typing: boolean): void {
    const fields = new URLSearchParams();
    for (const key of ["measure", "view", "search"] as const)
      if (this.state[key] !== this.begin[key]) fields.set(key, this.state[key]);
    if (this.state.aligned !== this.begin.aligned) fields.set("aligned", "0");
    for (const frame of this.state.zoom) fields.append("zoom", frame);
    const text = fields.toString();
    const again = this.typing && typing;
    this.typing = typing;
    if ((text && MARK + text) === (location.hash.startsWith(MARK) ? location.hash : "")) return;
    const address = text ? MARK + text : location.pathname + location.search;
    if (again) history.replaceState(null, "", address);
    else history.pushState(null, "", address);
  }

  private choose(some: Partial<State>, typing = false): void {
    this.state = { ...this.state, ...some };
    this.show();
    this.remember(typing);
  }

  private measure(): number {
    return this.data.measures.findIndex(each => each[0] === this.state.measure);
  }

  private readonly unit = (value: number): string =>
    this.state.measure.endsWith("bytes") ? bytesText(value) : countText(value);

  show(): void {
    const { state } = this, isFlame = state.view === "flame";
    byId<HTMLSelectElement>("explore-metric").value = state.measure;
    const box = byId<HTMLInputElement>("explore-search");
    if (box.value !== state.search) box.value = state.search;
    byId<HTMLInputElement>("changes-aligned").checked = state.aligned;
    for (const view of this.views) {
      const tab = byId(`explore-tab-${view}`), chosen = view === state.view;
      tab.setAttribute("aria-selected", String(chosen));
      tab.tabIndex = chosen ? 0 : -1;
    }
    byId("explore-panel").setAttribute("aria-labelledby", `explore-tab-${state.view}`);
    byId("explore-flame").hidden = !isFlame;
    byId("explore-rows").hidden = isFlame;
    this.showTotals();
    this.showTime();
    if (isFlame) this.showFlame();
    else this.showRows();
  }

  private showTotals(): void {
    const missing = this.data.accesses;
    const without = make("div", { class: "x-total" }, make("dt", {}, "accesses to blocks"), make("dd", {}, "–"),
      make("dd", { class: "muted" }, missing));
    byId("explore-totals").replaceChildren(...this.data.measures.map(([key, text], i) => {
      const total = totalOf(this.data.rows.stack as Changes["rows"][string], i);
      const unit = key.endsWith("bytes") ? bytesText : countText;
      const value = make("dd", { title: `${exactText(total.a)} to ${exactText(total.b)}`, "data-total": key,
        "data-a": String(total.a), "data-b": String(total.b) }, signedText(change(total), unit));
      const tile = make("div", { class: `x-total${key === this.state.measure ? " x-chosen" : ""}` }, make("dt", {}, text), value,
        make("dd", { class: "x-pair" }, `${percentText(total)}: ${unit(total.a)} to ${unit(total.b)}`));
      tile.addEventListener("click", () => this.choose({ measure: key }));
      return tile;
    }), ...(missing ? [without] : []));
  }

  private showTime(): void {
    const { anchors, sides } = this.data;
    byId("changes-align").hidden = !anchors.length;
    this.times.show(this.state.aligned);
    byId("changes-about-time").textContent = this.state.aligned
      ? `${anchors.length === 1 ? "The mark" : `Each of the ${exactText(anchors.length)} marks`} that both traces have is at one place; beside it both are stretched.`
      : `A has ${exactText(sides[0].operations)} operations, B ${exactText(sides[1].operations)}.`;
  }

  private showFlame(): void {
    const found = compared(this.data, this.tree, this.measure());
    const hits = searchNodes(this.tree, found.width, this.data.tree, this.state.search);
    byId("explore-found").textContent = hits ? `${exactText(hits.frames.reduce((sum, hit) => sum + hit, 0))} frames` : "";
    this.flame.show({
      tree: this.tree, sums: found.width, found: hits, zoom: this.nodeAt(this.state.zoom), unit: this.unit, look: this.look(found),
    });
  }

  private look({ a, b }: Compared): Look {
    const both = (node: number): { a: number; b: number } => ({ a: a.total[node] as number, b: b.total[node] as number });
    return {
      colour: node => colourOf(both(node).a, both(node).b),
      sign: node => ["", "+ ", "− "][both(node).a === both(node).b ? 0 : both(node).b > both(node).a ? 1 : 2] ?? "",
      about: node => {
        const values = both(node), by = values.b - values.a;
        return `${signedText(by, this.unit)} (${signedText(by, exactText)}), ${percentText(values)}: ` +
          `${this.unit(values.a)} to ${this.unit(values.b)}`;
      },
    };
  }

  private nodeAt(path: string[]): number {
    let node = 0;
    for (const text of path) {
      const next = this.tree.children[node]?.find(child => this.data.tree.frames.text[this.tree.frame[child] as number] === text);
      if (next === undefined) break;
      node = next;
    }
    return node;
  }

  private cells(row: Change): HTMLElement[] {
    const by = change(row), sign = by > 0 ? "x-up" : by < 0 ? "x-down" : "";
    const cell = (value: number): HTMLElement => make("td", { class: "n x-more", title: exactText(value) }, this.unit(value));
    return [make("td", { class: `n ${sign}`, title: signedText(by, exactText) }, signedText(by, this.unit)),
      make("td", { class: "n" }, percentText(row)), cell(row.a), cell(row.b)];
  }

  private showRows(): void {
    const columns = this.data.rows[this.state.view] as Changes["rows"][string], measure = this.measure();
    const wanted = this.state.search.toLowerCase(), rows = movers(columns, measure, this.data.mostRows);
    const found = rows.filter(row => row.text.toLowerCase().includes(wanted));
    byId("explore-found").textContent = wanted ? `${exactText(found.length)} rows` : "";
    const isAll = found.length === columns.text.length + columns.others;
    const sums = [...(isAll ? [] : [othersOf(columns, measure, found)]), totalOf(columns, measure)];
    byId("explore-table").replaceChildren(
      make("thead", {}, make("tr", {}, ...[this.state.view, "change", "%", "A", "B"].map((text, i) =>
        make("th", { scope: "col", class: i > 2 ? "x-more" : "" }, text)))),
      make("tbody", {},
        ...found.map(row => make("tr", { "data-row": row.text, "data-a": String(row.a), "data-b": String(row.b) },
          make("td", {}, row.text), ...this.cells(row))),
        ...(found.length ? [] : [make("tr", {}, make("td", { colspan: "5" }, "Nothing changed."))]),
        ...sums.map(row => make("tr", { class: "x-sum" }, make("td", {}, row.text), ...this.cells(row)))));
  }

  private tabKey(event: KeyboardEvent): void {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    const view = this.views[(this.views.indexOf(this.state.view) + step + this.views.length) % this.views.length];
    if (!step || !view) return;
    this.choose({ view });
    byId(`explore-tab-${view}`).focus();
    event.preventDefault();
  }

  /** Keys that work everywhere but in fields of text. */
  private key(event: KeyboardEvent): void {
    const target = event.target as HTMLElement;
    if (event.ctrlKey || event.metaKey || event.altKey || target.matches("input[type=search], select")) return;
    const view = this.views[Number(event.key) - 1], { measures } = this.data;
    if (event.key === "/") byId("explore-search").focus();
    else if (event.key === "m") this.choose({ measure: measures[(this.measure() + 1) % measures.length]?.[0] ?? "bytes" });
    else if (view) this.choose({ view });
    else return;
    event.preventDefault();
  }
}

async function begin(): Promise<void> {
  const data = await load((byId("explore-data").textContent ?? "").trim());
  byId("explore").hidden = false;
  new Page(data).show();
  if (location.hash.startsWith(MARK)) byId("changes").scrollIntoView();
  document.documentElement.dataset.explore = "ready";
}

begin().catch((error: unknown) => {
  const place = byId("explore-failed");
  place.hidden = false;
  place.textContent = `This browser cannot show the changes: ${String(error)}`;
});
