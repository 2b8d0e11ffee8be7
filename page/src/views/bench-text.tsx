// Shared by the views of a bench: its unit, the filter, and figures and intervals as text.
import { text } from "../charts/bench";
import { type Bench, type Interval, isInterval } from "../data/bench";
import type { Unit } from "../lib/time";
import { expression, type Store } from "../state";
import { Filter } from "./filter";

/** The most rows that the program writes of a table (crates/report/src/page/bench.rs). */
export const MAX_ROWS = 1_000;

export function unitOf(bench: Bench): Unit {
    if (!bench.deterministic) return "ns";
    return bench.boots.every(boot => boot.total_ns === null || boot.waited_ns === 0) ? "instructions" : "guest-time";
}

export function useFilter(store: Store): { filter: RegExp | undefined; input: preact.ComponentChild } {
    return { filter: expression(store.state.filter), input: <Filter store={store} /> };
}

/** An interval such as `1.20 s to 1.31 s`, or the reason why there is no interval. Empty if boots only repeat. */
export function range(interval: Interval, unit: Unit): string {
    if (!isInterval(interval)) return interval.confidence > 0 ? "too few boots" : "";
    return `${text(interval.low, unit)} to ${text(interval.high, unit)}`;
}

export const figure = (value: number | null, unit: Unit) => (value === null ? "" : <span data-ns={value}>{text(value, unit)}</span>);
