// Merged stacks: top-down, bottom-up, or one function between its callers and callees.
import { useMemo } from "preact/hooks";
import type { Palette } from "../charts/colours";
import { functions, ofCalls, ofPath, ofThreads, sandwich, type Tree, upsideDown } from "../data/merged";
import { hasStacks } from "../data/stacks";
import { grouped, short } from "../lib/time";
import type { MergedOf, MergedWay, Store } from "../state";
import { Choice } from "./choice";
import { Graph } from "./graph";
import { Samples } from "./samples";
import { type Column, Table } from "./table";

const OF: readonly [MergedOf, string][] = [
    ["path", "boot path"],
    ["threads", "all threads, with their waits"],
    ["calls", "every counted call"],
    ["samples", "samples"],
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
    const choices = OF.filter(
        ([of]) =>
            (of !== "calls" || (boot.calls?.rows ?? 0) > 0) &&
            (of !== "path" || boot.stays.length > 0) &&
            (of !== "samples" || hasStacks(boot)),
    );
    // A profile without times has samples alone.
    if (hasStacks(boot) && (merged.of === "samples" || (boot.stays.length === 0 && boot.spans.count === 0)))
        return (
            <>
                {boot.stays.length + boot.spans.count > 0 ? (
                    <div class="tools">
                        <Choice label="of" all={choices} is="samples" pick={of => set({ of })} />
                    </div>
                ) : null}
                <Samples store={store} palette={palette} />
            </>
        );

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
                <Choice label="of" all={choices} is={merged.of} pick={of => set({ of })} />
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
