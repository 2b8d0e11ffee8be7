// Places in time as tables: the spans of a row, or those visible in a chart.

import type { Instant } from "../data/instants";
import { short } from "../lib/time";
import type { Store } from "../state";
import { type Column, Table } from "./table";

export function SpanTable({ store, label, spans }: { store: Store; label: string; spans: readonly number[] }) {
    const { boot, state } = store;
    const columns: readonly Column<number>[] = [
        { name: "span", key: span => boot.spanName(span), show: span => boot.spanName(span) },
        {
            name: "length",
            key: span => Number(boot.spanLength(span)),
            show: span => short(boot.spanLength(span), boot.unit),
            isNumber: true,
            width: "8em",
        },
        {
            name: "start",
            key: span => -Number(boot.spanStart(span)),
            show: span => short(boot.spanStart(span), boot.unit),
            isNumber: true,
            width: "8em",
        },
        {
            name: "thread",
            key: span => boot.track(boot.spans.track[span]!)?.label ?? "",
            show: span => boot.track(boot.spans.track[span]!)?.label ?? "",
            width: "14em",
            isSpare: true,
        },
    ];
    return (
        <Table
            label={label}
            rows={spans}
            columns={columns}
            onPick={span => store.select({ kind: "span", span })}
            isPicked={span => state.selection?.kind === "span" && state.selection.span === span}
        />
    );
}

export function InstantTable({ store, label, instants }: { store: Store; label: string; instants: readonly Instant[] }) {
    const { boot, state } = store;
    const lane = (one: Instant): string => boot.instants.lanes[one.lane]?.name ?? "";
    const columns: readonly Column<Instant>[] = [
        { name: "instant", key: one => one.text, show: one => one.text },
        { name: "at", key: one => -one.from, show: one => short(one.from, boot.unit), isNumber: true, width: "8em" },
        {
            name: "length",
            key: one => one.to - one.from,
            show: one => (one.to > one.from ? short(one.to - one.from, boot.unit) : ""),
            isNumber: true,
            width: "8em",
        },
        { name: "what", key: lane, show: lane, width: "14em" },
    ];
    return (
        <Table
            label={label}
            rows={instants}
            columns={columns}
            onPick={one => store.select({ kind: "instant", instant: one.index })}
            isPicked={one => state.selection?.kind === "instant" && state.selection.instant === one.index}
        />
    );
}
