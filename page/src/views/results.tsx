// The results of a search, in order of time, as a list to walk through.
import { useMemo } from "preact/hooks";
import { grouped, short } from "../lib/time";
import { expression, type Store } from "../state";
import { type Column, Table } from "./table";

/** The most results in the list; the keys go through all. */
const MOST = 5_000;

interface Result {
    readonly span: number;
    readonly no: number;
}

export function Results({ store }: { store: Store }) {
    const { boot, state } = store;
    const matches = expression(state.find) ? store.matches() : [];
    const rows = useMemo((): Result[] => matches.slice(0, MOST).map((span, no) => ({ span, no })), [matches]);
    const columns = useMemo(
        (): readonly Column<Result>[] => [
            { name: "result", key: one => boot.spanName(one.span), show: one => boot.spanName(one.span) },
            {
                name: "start",
                key: one => -boot.spans.start[one.span]!,
                show: one => short(boot.spanStart(one.span), boot.unit),
                isNumber: true,
                width: "7em",
            },
            {
                name: "length",
                key: one => Number(boot.spanLength(one.span)),
                show: one => short(boot.spanLength(one.span), boot.unit),
                isNumber: true,
                width: "7em",
            },
        ],
        [boot],
    );
    if (rows.length === 0) return null;
    const selected = state.selection?.kind === "span" ? state.selection.span : undefined;
    const at = selected === undefined ? -1 : matches.indexOf(selected);
    return (
        <aside class="results" aria-label="Results of the search">
            <p class="faint note">
                {at >= 0 ? `${grouped(at + 1)} of ` : ""}
                {grouped(matches.length)} found; <kbd>n</kbd> and <kbd>N</kbd> go through them
                {matches.length > MOST ? `, the first ${grouped(MOST)} are listed` : ""}.
            </p>
            <Table
                label="Results of the search"
                rows={rows}
                columns={columns}
                onPick={one => {
                    store.select({ kind: "span", span: one.span });
                    store.set({ match: one.no });
                }}
                isPicked={one => one.span === selected}
                inSight={at >= 0 && at < MOST ? at : undefined}
            />
        </aside>
    );
}
