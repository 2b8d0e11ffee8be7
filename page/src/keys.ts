// The keyboard: keys as in Perfetto, and keys that step along the boot path.

import { expression, LAKE_VIEWS, type Store, VIEWS } from "./state";
import { viewsOf } from "./views/bench";
import { ofLine } from "./views/console";

export const KEYS: readonly (readonly [string, string])[] = [
    ["w / s", "zoom in, zoom out"],
    ["a / d", "move to the left, to the right"],
    ["f", "zoom to what is selected"],
    ["0", "the whole boot"],
    ["] / [", "forwards and back along the boot path"],
    [". / ,", "next and previous span, or instant, on the same track"],
    ["/", "search by a regular expression"],
    ["n / N", "next and previous match: a span, or in Console a line"],
    ["m", "mark what is selected, or take the mark away"],
    ["t", "the table of what a chart shows"],
    ["1 to 9", "overview, the path only, all tracks, merged, where, console, findings, compare (of several boots), what-if"],
    ["M", "memory"],
    ["Escape", "clear the selection"],
    ["?", "this list"],
];

export const BENCH_KEYS: readonly (readonly [string, string])[] = [
    ["1 to 3", "spread, compare, sweep"],
    ["/", "filter by a regular expression"],
    ["?", "this list"],
];

export const LAKE_KEYS: readonly (readonly [string, string])[] = [
    ["1 to 5", "over time, regressions, where, machines, what pays"],
    ["/", "filter by a regular expression"],
    ["Escape", "clear the selection"],
    ["?", "this list"],
];

/** Acts on a key press. Returns true if the key has a meaning. */
export function press(store: Store, event: KeyboardEvent): boolean {
    const { target } = event;
    if (event.ctrlKey || event.metaKey || event.altKey) return false;
    // Checkboxes and sliders leave letters and digits to the page.
    const types = target instanceof HTMLElement && target.matches("input:not([type=checkbox], [type=range]), textarea, select");
    if (types) {
        if (event.key !== "Escape") return false;
        target.blur();
        return true;
    }
    const { state } = store;
    if (store.bench) return pressOfBench(store, event.key);
    if (store.lake) return pressOfLake(store, event.key);
    if (!store.boot.facts) return false;
    const view = VIEWS[Number(event.key) - 1];
    if (view && /^[1-9]$/.test(event.key) && (view !== "compare" || store.boots.length > 1)) {
        store.set({ view });
        return true;
    }
    const does: Record<string, () => void> = {
        w: () => store.zoom(0.7),
        s: () => store.zoom(1 / 0.7),
        a: () => store.pan(-0.15),
        d: () => store.pan(0.15),
        f: () => store.zoomToSelected(),
        "0": () => store.set({ window: undefined }),
        "]": () => step(store, 1),
        "[": () => step(store, -1),
        ".": () => beside(store, 1),
        ",": () => beside(store, -1),
        "/": () => document.querySelector<HTMLInputElement>("#find")?.focus(),
        n: () => nextMatch(store, 1),
        N: () => nextMatch(store, -1),
        m: () => mark(store),
        M: () => store.set({ view: "memory" }),
        t: () => store.set({ tables: !state.tables }),
        "?": () => store.set({ help: !state.help }),
        Escape: () => store.set(state.help ? { help: false } : { selection: undefined, anchor: undefined }),
    };
    const action = does[event.key];
    action?.();
    return action !== undefined;
}

/** Handles a key on a bench's page. A bench has no time to move in, so its keys only select views. */
function pressOfBench(store: Store, key: string): boolean {
    const { state, bench } = store;
    const [view] = (bench && viewsOf(bench)[Number(key) - 1]) ?? [];
    if (view) store.set({ bench: { ...state.bench, view } });
    else if (key === "/") document.querySelector<HTMLInputElement>("#filter")?.focus();
    else if (key === "?") store.set({ help: !state.help });
    else if (key === "Escape" && state.help) store.set({ help: false });
    else return false;
    return true;
}

/** Handles a key on a lake's page, which likewise only selects views. */
function pressOfLake(store: Store, key: string): boolean {
    const { state } = store;
    const view = LAKE_VIEWS[Number(key) - 1];
    if (view) store.set({ lake: { ...state.lake, view } });
    else if (key === "/") document.querySelector<HTMLInputElement>("#filter")?.focus();
    else if (key === "?") store.set({ help: !state.help });
    else if (key === "Escape") store.set(state.help ? { help: false } : { lake: { ...state.lake, regression: -1 } });
    else return false;
    return true;
}

/** Goes along the boot path from the selected step, or else from the step that contains the selection. */
export function step(store: Store, by: 1 | -1): void {
    const { boot, state } = store;
    if (boot.stays.length === 0) return;
    const here =
        state.selection?.kind === "stay"
            ? state.selection.stay + by
            : (boot.stayAt(store.selected()?.from ?? store.window.from)?.index ?? 0);
    const stay = Math.min(Math.max(here, 0), boot.stays.length - 1);
    if (state.view !== "tracks") store.set({ view: "path" });
    store.select({ kind: "stay", stay });
    // A very short step is zoomed to, and so is a step that is partly out of sight.
    const one = boot.stays[stay]!;
    const { from, to } = store.window;
    if (one.to - one.from < (to - from) / 400)
        store.show((one.from + one.to) / 2 - (one.to - one.from) * 20, (one.from + one.to) / 2 + (one.to - one.from) * 20);
    else if (one.from < from || one.to > to) store.zoomToSelected();
}

function beside(store: Store, by: 1 | -1): void {
    const { boot, state } = store;
    if (state.selection?.kind === "instant") {
        const { all, lanes } = boot.instants;
        const next = all[state.selection.instant + by];
        if (next && lanes[next.lane] === lanes[all[state.selection.instant]?.lane ?? -1])
            store.select({ kind: "instant", instant: next.index });
        return;
    }
    if (state.selection?.kind !== "span") return;
    const { span } = state.selection;
    const row = boot.rows(boot.spans.track[span]!).rows[boot.spans.depth[span]!];
    const next = row?.[row.indexOf(span) + by];
    if (next !== undefined) store.select({ kind: "span", span: next });
}

function mark(store: Store): void {
    const selected = store.selected();
    if (!selected) return;
    const { marked } = store.state;
    const others = marked.filter(({ from, to }) => from !== selected.from || to !== selected.to);
    store.set({ marked: others.length < marked.length ? others : [...marked, selected] });
}

/** True if a span's name equals the search text, with or without its kind before it. */
function isCalled({ boot, state: { find } }: Store, span: number): boolean {
    const [name, wanted] = [boot.spanName(span).toLowerCase(), find.toLowerCase()];
    return name === wanted || name.endsWith(` ${wanted}`);
}

/** Selects the next span, in order of time, that matches the search. */
export function nextMatch(store: Store, by: 1 | -1): void {
    if (store.state.view === "console") return nextLine(store, by);
    const all = store.matches();
    // A match without a span may have a row, such as a thread.
    if (all.length === 0)
        return store.rowsFound() > 0
            ? store.set({ view: "where", table: "where", filter: store.state.find, selection: undefined })
            : undefined;
    const { selection, anchor } = store.state;
    // While a stretch has one end, the search looks for a span other than that end, at any place in the list.
    const at = selection?.kind === "span" && selection.span !== anchor ? all.indexOf(selection.span) : -1;
    // A span whose whole name was typed comes before spans that only contain the text.
    const exact = all.findIndex(span => isCalled(store, span));
    const next = at < 0 && exact >= 0 ? exact : at < 0 ? (by > 0 ? 0 : all.length - 1) : (at + by + all.length) % all.length;
    if (store.state.view !== "path" && store.state.view !== "tracks") store.set({ view: "tracks" });
    store.select({ kind: "span", span: all[next]! });
    store.set({ match: next });
}

/** Selects the next matching line after the selected one. */
function nextLine(store: Store, by: 1 | -1): void {
    const find = expression(store.state.find);
    const { all } = store.lines();
    const matches = all.flatMap((line, no) => (find?.test(line.text) && line.at !== undefined ? [no] : []));
    if (matches.length === 0) return;
    const selected = store.selected();
    const is = selected ? matches.findIndex(no => all[no]!.at! >= selected.from) : -1;
    const isHere = is >= 0 && all[matches[is]!]!.at === selected!.from;
    const next = is < 0 ? (by > 0 ? 0 : matches.length - 1) : by > 0 ? (isHere ? is + 1 : is) : is - 1;
    store.select(ofLine(all, matches[(next + matches.length) % matches.length]!));
    store.set({ match: (next + matches.length) % matches.length });
}
