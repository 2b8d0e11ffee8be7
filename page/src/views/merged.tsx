// Merged stacks: top-down, bottom-up, or one function between its callers and callees.
import { useMemo, useRef, useState } from "preact/hooks";
import { isDark, type Palette } from "../charts/colours";
import { ROW } from "../charts/draw";
import { boxes, depthOf, type Flame, hit, paint } from "../charts/flame";
import { functions, ofCalls, ofPath, ofThreads, sandwich, type Tree, upsideDown } from "../data/merged";
import { grouped, percent, short } from "../lib/time";
import { expression, type MergedOf, type MergedWay, type Store } from "../state";
import { besidePointer, Canvas, placeOf } from "./canvas";
import { Choice } from "./choice";
import { type Column, Table } from "./table";

const OF: readonly [MergedOf, string][] = [
    ["path", "boot path"],
    ["threads", "all threads, with their waits"],
    ["calls", "every counted call"],
];
const WAYS: readonly [MergedWay, string][] = [
    ["down", "top-down"],
    ["up", "bottom-up"],
    ["sandwich", "one function"],
];

export function Merged({ store, palette }: { store: Store; palette: Palette }) {
    const { boot, state } = store;
    const { merged } = state;
    const window = merged.in_window ? state.window : undefined;
    const tree = useMemo((): Tree | undefined => {
        if (!boot.isWhole) return undefined;
        if (merged.of === "calls") return ofCalls(boot);
        return merged.of === "path" ? ofPath(boot, window) : ofThreads(boot, window);
    }, [boot.isWhole, merged.of, window?.from, window?.to]);
    const rows = useMemo(() => (tree ? functions(tree) : []), [tree]);
    const up = useMemo(() => (tree && merged.way === "up" ? upsideDown(tree) : undefined), [tree, merged.way]);
    const both = useMemo(
        () => (tree && merged.way === "sandwich" && merged.of_function ? sandwich(tree, merged.of_function) : undefined),
        [tree, merged.way, merged.of_function],
    );
    const set = (change: Partial<typeof merged>): void => store.set({ merged: { ...store.state.merged, ...change } });
    if (!boot.isWhole) return <p class="note">Merged stacks are there when all is read.</p>;

    // The table of all threads has no waits, so a reader who compares the two needs their sum.
    const waits = merged.of === "threads" ? (rows.find(row => row.text === "wait")?.self ?? 0) : 0;
    const text = (time: number): string => (merged.of === "calls" ? grouped(time) : short(time, boot.unit));
    const width = merged.of === "calls" ? "10em" : "7em";
    const columns: readonly Column<(typeof rows)[number]>[] = [
        { name: "function", key: row => row.text, show: row => row.text },
        { name: "self", key: row => row.self, show: row => <span data-ns={row.self}>{text(row.self)}</span>, isNumber: true, width },
        { name: "total", key: row => row.total, show: row => <span data-ns={row.total}>{text(row.total)}</span>, isNumber: true, width },
    ];
    store.target = {
        ...store.target,
        rows: () => [["function", "self", "total", "count"], ...rows.map(row => [row.text, row.self, row.total, row.count])],
    };
    return (
        <div class="merged">
            <div class="tools">
                <Choice
                    label="of"
                    all={OF.filter(([of]) => of !== "calls" || (boot.calls?.rows ?? 0) > 0)}
                    is={merged.of}
                    pick={of => set({ of })}
                />
                <Choice label="as" all={WAYS} is={merged.way} pick={way => set({ way })} />
                <label>
                    <input
                        type="checkbox"
                        checked={merged.in_window}
                        disabled={merged.of === "calls"}
                        onChange={event => set({ in_window: event.currentTarget.checked })}
                    />{" "}
                    only the window
                </label>
                <output data-total={tree?.total[0] ?? 0} data-waits={waits}>
                    {tree
                        ? `${tree.total[0]! > Number.MAX_SAFE_INTEGER ? "about " : ""}${text(tree.total[0]!)} in all${waits > 0 ? `, ${text(waits)} of it waits` : ""}`
                        : "no call was counted"}
                </output>
            </div>
            {merged.of !== "calls" && (boot.calls?.rows ?? 0) > 0 && (merged.of === "threads" || !boot.nodes) ? (
                <p class="faint note">
                    Calls too short to be drawn are in the time of who called them here; <em>Where</em> and <em>every counted call</em> tell
                    them apart.
                </p>
            ) : null}
            <div class="split">
                <div class="flames">
                    {merged.way === "down" && tree ? (
                        <Graph store={store} palette={palette} tree={tree} label="Flame graph, callers above callees" key={merged.of} />
                    ) : null}
                    {up ? (
                        <Graph
                            store={store}
                            palette={palette}
                            tree={up}
                            label="Flame graph, callees above callers"
                            key={`${merged.of} up`}
                        />
                    ) : null}
                    {both ? (
                        <>
                            <h3>Who called {merged.of_function}</h3>
                            <Graph
                                store={store}
                                palette={palette}
                                tree={both.callers}
                                label={`Callers of ${merged.of_function}`}
                                key={`${merged.of_function} callers`}
                            />
                            <h3>What {merged.of_function} called</h3>
                            <Graph
                                store={store}
                                palette={palette}
                                tree={both.callees}
                                label={`Callees of ${merged.of_function}`}
                                key={`${merged.of_function} callees`}
                            />
                        </>
                    ) : null}
                    {merged.way === "sandwich" && !merged.of_function ? <p class="note">Pick a function from the table.</p> : null}
                </div>
                <Table
                    label="Functions"
                    rows={rows}
                    columns={columns}
                    sortedBy={1}
                    isPicked={row => row.text === merged.of_function}
                    onPick={row => set({ way: "sandwich", of_function: row.text })}
                />
            </div>
        </div>
    );
}

function Graph({ store, palette, tree, label }: { store: Store; palette: Palette; tree: Tree; label: string }) {
    const [zoomed, setZoomed] = useState(0);
    const [tip, setTip] = useState<{ node: number; x: number; y: number } | undefined>();
    const size = useRef({ width: 800, height: 300, scroll: 0 });
    const at = zoomed < tree.parent.length ? zoomed : 0;
    const flame = (width: number, height: number, scroll: number): Flame => ({
        tree,
        zoomed: at,
        width,
        height,
        scroll,
        palette,
        isDark: isDark(store.state.theme),
        find: expression(store.state.find),
    });
    const now = (): Flame => flame(size.current.width, size.current.height, size.current.scroll);
    const whole = tree.total[0]! || 1;
    const height = depthOf(boxes(flame(size.current.width, 0, 0))) * ROW;
    store.target = {
        ...store.target,
        draw: { width: size.current.width, height, on: surface => paint(flame(size.current.width, height, 0), surface) },
    };
    const text = (time: number): string => (store.state.merged.of === "calls" ? grouped(time) : short(time, store.boot.unit));
    return (
        <Canvas
            label={`${label}. The table of functions beside it has the same figures.`}
            contentHeight={height}
            class="flame"
            draw={(on, width, high, scroll) => {
                size.current = { width, height: high, scroll };
                paint(flame(width, high, scroll), on);
            }}
            onPointer={(kind, event, x, y) => {
                if (kind === "leave") return setTip(undefined);
                const node = hit(now(), x, y);
                if (kind === "move") setTip(node === undefined ? undefined : { node, ...placeOf(event) });
                if (kind === "up") setZoomed(node ?? 0);
            }}
        >
            {tip && tip.node < tree.parent.length ? (
                <div class="tip" role="tooltip" style={besidePointer(tip)}>
                    <strong>{tree.texts[tree.key[tip.node]!]}</strong>
                    <br />
                    total {text(tree.total[tip.node]!)} ({percent(tree.total[tip.node]! / whole)}), self {text(tree.self[tip.node]!)}
                </div>
            ) : null}
        </Canvas>
    );
}
