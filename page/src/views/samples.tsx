// A profile by samples: merged stacks as a flame graph, and the functions. Each share has its error beside it.
import { useMemo, useState } from "preact/hooks";
import type { Palette } from "../charts/colours";
import type { SampledFunction } from "../data/facts";
import { errorOf, eventsOf, ofStacks } from "../data/stacks";
import { grouped, whole } from "../lib/time";
import { expression, type Store } from "../state";
import { Choice } from "./choice";
import { Graph } from "./graph";
import { type Column, Table } from "./table";

/** A share such as `22.2 % ±6.9`. */
const sampled = (share: number, error: number): string => `${(share * 100).toFixed(1)} % ±${(error * 100).toFixed(1)}`;

const COLUMNS: readonly Column<SampledFunction>[] = [
    { name: "function", key: one => one.name, show: one => one.name },
    {
        name: "self, sampled",
        key: one => one.self_share,
        show: one => <span data-share={one.self_share}>{sampled(one.self_share, one.self_error)}</span>,
        isNumber: true,
        width: "9em",
    },
    {
        name: "total, sampled",
        key: one => one.total_share,
        show: one => <span data-share={one.total_share}>{sampled(one.total_share, one.total_error)}</span>,
        isNumber: true,
        width: "9em",
    },
];

export function Samples({ store, palette }: { store: Store; palette: Palette }) {
    const { boot, state } = store;
    const [number, setNumber] = useState(0);
    const events = eventsOf(boot);
    const event = events[number] ?? events[0];
    const tree = useMemo(() => ofStacks(boot, events.indexOf(event!)), [boot.version, event]);
    const filter = expression(state.find);
    const functions = useMemo(() => (event?.functions ?? []).filter(one => filter?.test(one.name) !== false), [event, filter?.source]);
    if (!event) return null;
    const all = tree?.total[0] || 1;
    store.target = {
        ...store.target,
        rows: () => [
            ["function", "self_share", "self_error", "total_share", "total_error"],
            ...functions.map(one => [one.name, one.self_share, one.self_error, one.total_share, one.total_error]),
        ],
    };
    return (
        <div class="merged samples">
            <div class="tools">
                {events.length > 1 ? (
                    <Choice
                        label="event"
                        all={events.map((one, i) => [String(i), one.name] as const)}
                        is={String(events.indexOf(event))}
                        pick={one => setNumber(Number(one))}
                    />
                ) : null}
                <output data-samples={String(event.samples)}>
                    {grouped(whole(event.samples))} samples{event.by_period ? `, each with the weight of its period of ${event.name}` : ""}
                </output>
            </div>
            <div class="split">
                <div class="flames">
                    {tree ? (
                        <Graph
                            store={store}
                            palette={palette}
                            tree={tree}
                            label="Flame graph of the samples, callers above callees"
                            text={weight => sampled(weight / all, errorOf(weight / all, event.effective_samples))}
                            key={event.name}
                        />
                    ) : (
                        <p class="note">{boot.isWhole ? "These samples have no stacks." : "Stacks are there when all is read."}</p>
                    )}
                </div>
                <Table label={`Functions, sampled by ${event.name}`} rows={functions} columns={COLUMNS} sortedBy={2} />
            </div>
        </div>
    );
}
