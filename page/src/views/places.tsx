// Places in time as tables: the spans of a row, those that are seen in a chart.
import type { Store } from "../state";
import { short } from "../lib/time";
import { Table, type Column } from "./table";

export function SpanTable({ store, label, spans }: { store: Store; label: string; spans: readonly number[] }) {
    const { boot, state } = store;
    const columns: readonly Column<number>[] = [
        { name: "span", key: span => boot.spanName(span), show: span => boot.spanName(span) },
        { name: "length", key: span => Number(boot.spanLength(span)), show: span => short(boot.spanLength(span), boot.unit), isNumber: true, width: "7em" },
        { name: "start", key: span => -Number(boot.spanStart(span)), show: span => short(boot.spanStart(span), boot.unit), isNumber: true, width: "7em" },
        { name: "thread", key: span => boot.track(boot.spans.track[span]!)?.label ?? "", show: span => boot.track(boot.spans.track[span]!)?.label ?? "", width: "14em" },
    ];
    return (
        <Table
            label={label} rows={spans} columns={columns} onPick={span => store.select({ kind: "span", span })}
            isPicked={span => state.selection?.kind === "span" && state.selection.span === span}
        />
    );
}
