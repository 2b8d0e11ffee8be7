// The state of the page: view, window of time, selection, search. The address's fragment holds it, so a link opens the same state.
import { useLayoutEffect, useReducer } from "preact/hooks";
import type { FigureOf } from "./charts/lake";
import type { Bench } from "./data/bench";
import { Boot, type ConsoleLine } from "./data/boot";
import type { Lake, LinesBy, ScaleOf } from "./data/lake";
import type { ExportTarget } from "./lib/save";

export const VIEWS = ["overview", "path", "tracks", "merged", "where", "console", "findings", "compare", "whatif", "memory"] as const;
export type View = (typeof VIEWS)[number];

/** The views of a bench. */
export const BENCH_VIEWS = ["spread", "against", "sweep"] as const;
export type BenchView = (typeof BENCH_VIEWS)[number];
export const BENCH_TABLES = ["phases", "rows", "boots"] as const;

/** The views of a lake. */
export const LAKE_VIEWS = ["time", "regressions", "rows", "machines", "pays"] as const;
export type LakeView = (typeof LAKE_VIEWS)[number];
export const MACHINE_TABLES = ["outliers", "missing"] as const;

/** The kind of page. */
export type Subject = "boots" | "bench" | "lake";

export type Selection =
    | { readonly kind: "span"; readonly span: number }
    | { readonly kind: "stay"; readonly stay: number }
    | { readonly kind: "thing"; readonly thing: number; readonly name: string }
    | { readonly kind: "instant"; readonly instant: number }
    | { readonly kind: "range"; readonly from: number; readonly to: number; readonly track?: number; readonly title?: string }
    | undefined;

export type Theme = "system" | "light" | "dark";
export type MergedOf = "path" | "threads" | "calls" | "samples";
export type MergedWay = "down" | "up" | "sandwich";

export interface State {
    view: View;
    /** The window of time; `undefined` means the whole boot. */
    window: { from: number; to: number } | undefined;
    selection: Selection;
    /** A span. Selecting another span then selects the time between the two. */
    anchor: number | undefined;
    /** A regular expression. */
    find: string;
    /** The lines in the view of the console; `undefined` selects the longer list. */
    lines: "console" | "log" | undefined;
    /** The place of the shown match. */
    match: number;
    /** Ranges that the user marked. */
    marked: readonly { from: number; to: number }[];
    theme: Theme;
    merged: { of: MergedOf; way: MergedWay; of_function: string; in_window: boolean };
    table: string;
    filter: string;
    /** Tracks whose folding differs from the default. */
    folded: ReadonlySet<number>;
    help: boolean;
    tables: boolean;
    /** The number of the shown boot. */
    shown: number;
    compare: { before: number; after: number; align: string; table: string };
    /** By row: its saving in per cent. */
    savings: ReadonlyMap<string, number>;
    bench: { view: BenchView; variant: number; table: (typeof BENCH_TABLES)[number]; slice: number; row: string };
    /** Kinds and regressions are places in their lists; -1 means all kinds, or no regression. */
    lake: {
        view: LakeView;
        by: LinesBy;
        kind: number;
        scale: ScaleOf;
        figure: FigureOf;
        regression: number;
        machines: (typeof MACHINE_TABLES)[number];
    };
}

const FIRST: State = {
    view: "overview",
    window: undefined,
    selection: undefined,
    anchor: undefined,
    find: "",
    lines: undefined,
    match: 0,
    marked: [],
    theme: "system",
    merged: { of: "path", way: "down", of_function: "", in_window: false },
    table: "where",
    filter: "",
    folded: new Set(),
    help: false,
    tables: false,
    shown: 0,
    compare: { before: 0, after: 1, align: "", table: "where" },
    savings: new Map(),
    bench: { view: "spread", variant: 0, table: "phases", slice: 0, row: "" },
    lake: { view: "time", by: "kernels", kind: -1, scale: "time", figure: "both", regression: -1, machines: "outliers" },
};

export class Store {
    /** The boots of the page, as far as they are read. */
    readonly boots: Boot[] = [new Boot()];
    /** The bench, if the page has one instead of boots. */
    bench: Bench | undefined;
    /** The lake, if the page has one instead of boots. */
    lake: Lake | undefined;
    state: State = FIRST;
    /** Errors in words; the page shows them. */
    wrong: string[] = [];
    /** The picture or table that the current view can save. */
    target: ExportTarget = {};
    /** The time that was selected before one of its causes was. */
    cameFrom: Selection;
    private found: { find: string; count: number; spans: readonly number[] } | undefined;
    private readonly listeners = new Set<() => void>();
    private isPending = false;

    /** The shown boot. */
    get boot(): Boot {
        return this.boots[this.state.shown] ?? this.boots[0]!;
    }

    get subject(): Subject {
        return this.lake ? "lake" : this.bench ? "bench" : "boots";
    }

    /** True if the whole page is read. */
    get isWhole(): boolean {
        const [first] = this.boots;
        return this.boots.length === (first?.facts?.boots ?? 1) && this.boots.every(boot => boot.isWhole);
    }

    set(change: Partial<State>): void {
        this.state = { ...this.state, ...change };
        this.changed();
    }

    /** Redraws all views, once before the next frame. */
    changed(): void {
        if (this.isPending) return;
        this.isPending = true;
        requestAnimationFrame(() => {
            this.isPending = false;
            for (const listener of this.listeners) listener();
        });
    }

    listen(listener: () => void): () => void {
        this.listeners.add(listener);
        return () => this.listeners.delete(listener);
    }

    /** Spans that match the search, in order of time, computed once per search. */
    matches(): readonly number[] {
        const { find } = this.state;
        if (this.found?.find === find && this.found.count === this.boot.spans.count) return this.found.spans;
        const spans: number[] = [];
        const wanted = expression(find);
        if (wanted) {
            const { count, label, start } = this.boot.spans;
            const isWanted = this.boot.labels.map((_, i) => wanted.test(this.boot.labelText(i)));
            for (let i = 0; i < count; i += 1) if (isWanted[label[i]!]) spans.push(i);
            spans.sort((a, b) => start[a]! - start[b]! || a - b);
        }
        this.found = { find, count: this.boot.spans.count, spans };
        return spans;
    }

    /** The number of matching rows of the boot path. */
    rowsFound(): number {
        const wanted = expression(this.state.find);
        return wanted ? this.boot.summary.where.filter(row => wanted.test(row.name)).length : 0;
    }

    /** The lines of the console's view: the serial console's, or the kernel's log if a quiet guest printed little. */
    lines(): { readonly source: "console" | "log"; readonly all: readonly ConsoleLine[] } {
        const { boot, state } = this;
        const log = boot.kernelLog();
        const source = state.lines ?? (log.length > 2 * boot.console.length ? "log" : "console");
        return { source, all: source === "log" ? log : boot.console };
    }

    get window(): { from: number; to: number } {
        return this.state.window ?? this.boot.extent;
    }

    /** Shows a window of time. It has at least some nanoseconds and stays near the boot. */
    show(from: number, to: number): void {
        const { from: first, to: last } = this.boot.extent;
        const all = last - first;
        const width = Math.min(Math.max(to - from, 10), all * 1.5);
        const middle = Math.min(Math.max((from + to) / 2, first - width / 4), last + width / 4);
        const is_all = width >= all && Math.abs(middle - (first + last) / 2) < all / 100;
        this.set({ window: is_all ? undefined : { from: middle - width / 2, to: middle + width / 2 } });
    }

    zoom(factor: number, at?: number): void {
        const { from, to } = this.window;
        const centre = at ?? (from + to) / 2;
        this.show(centre - (centre - from) * factor, centre + (to - centre) * factor);
    }

    pan(share: number): void {
        const { from, to } = this.window;
        const by = (to - from) * share;
        this.show(from + by, to + by);
    }

    /** The selected time. */
    selected(): { from: number; to: number } | undefined {
        const { selection } = this.state;
        const { boot } = this;
        switch (selection?.kind) {
            case "span":
                return selection.span < boot.spans.count
                    ? { from: boot.spans.start[selection.span]!, to: boot.spans.end[selection.span]! }
                    : undefined;
            case "stay": {
                const stay = boot.stays[selection.stay];
                return stay && { from: stay.from, to: stay.to };
            }
            case "instant":
                return boot.instants.all[selection.instant];
            case "range":
                return { from: selection.from, to: selection.to };
            default:
                return undefined;
        }
    }

    /** Zooms to the selection, with some room around it. */
    zoomToSelected(): void {
        const selected = this.selected();
        if (!selected) return;
        // An instant has no length, so a tenth of the window around it is shown.
        const { from, to } = this.window;
        const room = selected.to > selected.from ? Math.max((selected.to - selected.from) * 0.1, 5) : (to - from) / 20;
        this.show(selected.from - room, selected.to + room);
    }

    /** The time between two spans, if neither contains the other. */
    between(one: number, other: number): Selection {
        const { start, end } = this.boot.spans;
        const [first, second] = start[one]! <= start[other]! ? [one, other] : [other, one];
        return end[first]! <= start[second]!
            ? {
                  kind: "range",
                  from: end[first]!,
                  to: start[second]!,
                  title: `From the end of ${this.boot.spanName(first)} to the start of ${this.boot.spanName(second)}`,
              }
            : undefined;
    }

    /** Selects, and moves the window as little as needed to show the selection. */
    select(selection: Selection): void {
        const { anchor } = this.state;
        const between = anchor !== undefined && selection?.kind === "span" ? this.between(anchor, selection.span) : undefined;
        this.state = { ...this.state, selection: between ?? selection, anchor: undefined };
        const selected = this.selected();
        const { from, to } = this.window;
        // A stretch that only touches the window is out of sight; an instant is not.
        const isOutside =
            selected &&
            (selected.to > selected.from ? selected.to <= from || selected.from >= to : selected.to < from || selected.from > to);
        if (selected && isOutside) {
            const width = Math.max(to - from, (selected.to - selected.from) * 1.2);
            const middle = (selected.from + selected.to) / 2;
            this.show(middle - width / 2, middle + width / 2);
        }
        this.changed();
    }
}

/** The state as the fragment of an address. */
export function toFragment(state: State, subject: Subject = "boots"): string {
    const out = new URLSearchParams();
    out.set("view", subject === "boots" ? state.view : state[subject].view);
    if (subject === "lake") {
        const { by, kind, scale, figure, regression, machines } = state.lake;
        if (by !== FIRST.lake.by) out.set("lines", by);
        if (kind >= 0) out.set("kind", String(kind));
        if (scale !== FIRST.lake.scale) out.set("scale", scale);
        if (figure !== FIRST.lake.figure) out.set("figure", figure);
        if (regression >= 0) out.set("regression", String(regression));
        if (machines !== FIRST.lake.machines) out.set("machines", machines);
        if (state.filter) out.set("filter", state.filter);
        return out.toString();
    }
    if (subject === "bench") {
        const { variant, table, slice, row } = state.bench;
        if (variant > 0) out.set("variant", String(variant));
        if (table !== FIRST.bench.table) out.set("table", table);
        if (slice > 0) out.set("slice", String(slice));
        if (row) out.set("row", row);
        if (state.filter) out.set("filter", state.filter);
        return out.toString();
    }
    if (state.window) {
        out.set("from", String(Math.round(state.window.from)));
        out.set("to", String(Math.round(state.window.to)));
    }
    const { selection } = state;
    if (selection?.kind === "span") out.set("span", String(selection.span));
    if (selection?.kind === "stay") out.set("step", String(selection.stay));
    if (selection?.kind === "instant") out.set("instant", String(selection.instant));
    if (selection?.kind === "thing") {
        out.set("thing", String(selection.thing));
        out.set("name", selection.name);
    }
    if (selection?.kind === "range")
        out.set(
            "range",
            [Math.round(selection.from), Math.round(selection.to), ...(selection.track === undefined ? [] : [selection.track])].join(","),
        );
    if (selection?.kind === "range" && selection.title) out.set("title", selection.title);
    if (state.find) out.set("find", state.find);
    if (state.filter) out.set("filter", state.filter);
    if (state.table !== FIRST.table) out.set("table", state.table);
    if (state.shown > 0) out.set("boot", String(state.shown));
    const { compare } = state;
    if (compare.before !== FIRST.compare.before) out.set("before", String(compare.before));
    if (compare.after !== FIRST.compare.after) out.set("after", String(compare.after));
    if (compare.align) out.set("align", compare.align);
    if (compare.table !== FIRST.compare.table) out.set("compared", compare.table);
    for (const [name, less] of state.savings) out.append("save", `${less},${name}`);
    const { merged } = state;
    if (merged.of !== FIRST.merged.of) out.set("of", merged.of);
    if (merged.way !== FIRST.merged.way) out.set("way", merged.way);
    if (merged.of_function) out.set("function", merged.of_function);
    if (merged.in_window) out.set("window", "merged");
    return out.toString();
}

/**
 * The place for the history. Back leads to the previous place. Moves and zooms, typing and sliders stay in a place, and so do
 * steps along the boot path.
 */
export function placeOf({ view, selection, table, shown, compare, merged, bench, lake }: State, subject: Subject): string {
    if (subject === "bench") return JSON.stringify(bench);
    if (subject === "lake") return JSON.stringify(lake);
    return JSON.stringify([view, selection?.kind === "stay" ? "step" : selection, table, shown, compare, merged]);
}

/** The state in a fragment, without its invalid parts. */
export function ofFragment(fragment: string): Partial<State> {
    const from = new URLSearchParams(fragment.replace(/^#/, ""));
    const count = (name: string): number | undefined => {
        const text = from.get(name);
        const value = text === null ? NaN : Number(text);
        return Number.isFinite(value) ? value : undefined;
    };
    const one = <T extends string>(name: string, of: readonly T[], otherwise: T): T =>
        of.find(known => known === from.get(name)) ?? otherwise;
    const [start, end, span, step, thing, instant] = ["from", "to", "span", "step", "thing", "instant"].map(count);
    const title = from.get("title");
    const range = (from.get("range") ?? "").split(",").map(Number);
    const selection = ((): Selection => {
        if (span !== undefined) return { kind: "span", span };
        if (step !== undefined) return { kind: "stay", stay: step };
        if (instant !== undefined) return { kind: "instant", instant };
        if (thing !== undefined) return { kind: "thing", thing, name: from.get("name") ?? "" };
        if (range.length >= 2 && range.every(Number.isFinite))
            return {
                kind: "range",
                from: range[0]!,
                to: range[1]!,
                ...(range[2] === undefined ? {} : { track: range[2] }),
                ...(title ? { title } : {}),
            };
        return undefined;
    })();
    return {
        view: one("view", VIEWS, "overview"),
        window: start !== undefined && end !== undefined && start < end ? { from: start, to: end } : undefined,
        selection,
        find: from.get("find") ?? "",
        filter: from.get("filter") ?? "",
        table: from.get("table") ?? FIRST.table,
        shown: count("boot") ?? 0,
        compare: {
            before: count("before") ?? FIRST.compare.before,
            after: count("after") ?? FIRST.compare.after,
            align: from.get("align") ?? "",
            table: one("compared", ["where", "functions", "threads", "flame"], "where"),
        },
        savings: new Map(
            from.getAll("save").flatMap((text): [string, number][] => {
                const [, less, name] = /^(\d{1,3}),([\s\S]*)$/.exec(text) ?? [];
                return name && Number(less) > 0 && Number(less) <= 100 ? [[name, Number(less)]] : [];
            }),
        ),
        bench: {
            view: one("view", BENCH_VIEWS, "spread"),
            variant: count("variant") ?? 0,
            table: one("table", BENCH_TABLES, "phases"),
            slice: count("slice") ?? 0,
            row: from.get("row") ?? "",
        },
        lake: {
            view: one("view", LAKE_VIEWS, "time"),
            by: one("lines", ["kernels", "kinds"], "kernels"),
            kind: count("kind") ?? -1,
            scale: one("scale", ["time", "own"], "time"),
            figure: one("figure", ["both", "p50", "p95"], "both"),
            regression: count("regression") ?? -1,
            machines: one("machines", MACHINE_TABLES, "outliers"),
        },
        merged: {
            of: one("of", ["path", "threads", "calls", "samples"], "path"),
            way: one("way", ["down", "up", "sandwich"], "down"),
            of_function: from.get("function") ?? "",
            in_window: from.get("window") === "merged",
        },
    };
}

/** Redraws the component whenever anything changes. */
export function useStore(store: Store): void {
    const [, redraw] = useReducer((n: number) => n + 1, 0);
    // Subscribe before the first picture: later, changes in between would be missed.
    useLayoutEffect(() => store.listen(() => redraw(undefined)), [store]);
}

/** A regular expression as typed; `undefined` if the text is empty or not a regular expression. */
export function expression(text: string): RegExp | undefined {
    if (text === "") return undefined;
    try {
        return new RegExp(text, "i");
    } catch {
        return undefined;
    }
}
