// A bench: many boots, their statistics, and their growth. It is the part `bench` of a page, with the fields of `bench --json`
// (docs/json.md) that the page shows. Estimates are doubles; no figure here needs more digits.

import type { Int } from "./facts";

export const BENCH_SCHEMA = "bootscope.bench/1";

export interface Interval {
    readonly estimate: number;
    readonly low: number;
    readonly high: number;
    /** The probability that such an interval contains the true value; 0 if chance plays no part. */
    readonly confidence: number;
}

/** True if it is a 95 % interval. Fewer boots give less confidence, and boots that only repeat have no interval. */
export function isInterval({ confidence }: Interval): boolean {
    return confidence >= 0.95;
}

export interface Description {
    readonly count: number;
    readonly mean: number;
    readonly sd: number | null;
    readonly median: Interval;
    readonly min: number;
    readonly lower_quartile: number;
    readonly upper_quartile: number;
    readonly max: number;
}

export interface RowRuns {
    readonly name: string;
    readonly seen: number;
    readonly mean: number;
    readonly sd: number | null;
    readonly median: Interval;
}

export interface VariantRuns {
    readonly name: string;
    readonly outcomes: Readonly<Record<string, number>>;
    readonly total: Description | null;
    readonly phases: readonly { readonly name: string; readonly start_mean: number; readonly length: Description }[];
    readonly rows: readonly RowRuns[];
}

export interface Comparison {
    readonly difference: Interval;
    readonly ratio: Interval | null;
    readonly p: number | null;
    readonly p_corrected: number | null;
    readonly change: string;
}

export interface Moved {
    readonly name: string;
    readonly by: Comparison;
}

export interface Against {
    readonly variant: number;
    /** Options whose effect a count of instructions cannot show. */
    readonly uncountable?: readonly string[];
    /** What is not compared, because one variant has no trace. */
    readonly not_comparable?: { readonly without_trace: number; readonly phases: number; readonly rows: number };
    readonly total: Comparison | null;
    readonly phases: readonly Moved[];
    readonly rows: readonly Moved[];
}

export interface Predicted {
    readonly size: number;
    readonly time: number;
    readonly band: number | null;
}

export interface Growth {
    readonly name: string;
    readonly law: string;
    readonly base: number;
    readonly slope: number;
    readonly slope_error: number | null;
    /** True if a size of 1 costs nothing. For CPUs, each application processor then costs the slope. */
    readonly from_one: boolean;
    readonly points: readonly { readonly size: number; readonly boots: number; readonly mean: number }[];
    readonly predicted: readonly Predicted[];
}

interface Setting {
    readonly key: string;
    readonly value: string;
}

/** The growth of the boots along one axis of a sweep, with the other axes held. */
export interface Slice {
    readonly key: string;
    readonly unit: string;
    readonly held: readonly Setting[];
    readonly rows: readonly Growth[];
    readonly level: number;
}

export interface BenchBoot {
    readonly number: number;
    /** The round, or null for a warm-up boot, which does not count. */
    readonly round: number | null;
    readonly variant: number;
    readonly outcome: string;
    readonly total_ns: Int | null;
    /** The timed waits in it, if they are known. */
    readonly waited_ns?: Int;
    /** The rows whose growth is drawn, and no others. */
    readonly rows: readonly { readonly name: string; readonly ns: Int }[];
}

export interface Bench {
    readonly schema: string;
    readonly created: string;
    readonly tool_version: string;
    readonly deterministic: boolean;
    readonly variants: readonly {
        readonly name: string;
        readonly settings: readonly Setting[];
        readonly booted: { readonly kernel: string };
    }[];
    readonly sweep: readonly { readonly key: string; readonly values: readonly string[] }[];
    readonly boots: readonly BenchBoot[];
    readonly results: {
        readonly variants: readonly VariantRuns[];
        readonly comparisons: readonly Against[];
        readonly laws: readonly Slice[];
    };
}

export function readBench(json: string): Bench {
    const bench = JSON.parse(json) as Bench;
    if (bench.schema !== BENCH_SCHEMA) throw new Error(`data of ${bench.schema}, while this page reads ${BENCH_SCHEMA}`);
    return bench;
}

/** The model's value at a size, as `ScalingModel::of` in crates/benchmark/src/stats/scaling_model.rs. */
export function at({ law, base, slope }: Pick<Growth, "law" | "base" | "slope">, size: number): number {
    const factor = law === "n" ? size : law === "n log n" ? size * Math.log2(size) : law === "n²" ? size * size : 0;
    return base + slope * factor;
}

export function titleOf(slice: Slice): string {
    const held = slice.held.map(({ key, value }) => `${key}=${value}`).join(", ");
    return held ? `${slice.key} (${held})` : slice.key;
}

/** The counted boots as dots of a row's growth: size, and time of the row. */
export function dots(bench: Bench, slice: Slice, row: Growth): { size: number; time: number }[] {
    const sizes = row.points.map(point => point.size);
    const values = bench.sweep.find(axis => axis.key === slice.key)?.values ?? [];
    // A size is the number in a value, in the unit of the slice. Both lists are sorted, so equal places match.
    const inOrder = [...new Set(values)].map(value => ({ value, number: numberIn(value) })).sort((a, b) => a.number - b.number);
    if (inOrder.length !== sizes.length) return [];
    const sizeOf = new Map(inOrder.map(({ value }, i) => [value, [...sizes].sort((a, b) => a - b)[i]!]));
    const isHeld = (settings: readonly Setting[]): boolean =>
        slice.held.every(({ key, value }) => settings.some(one => one.key === key && one.value === value));
    return bench.boots.flatMap(boot => {
        const settings = bench.variants[boot.variant]?.settings ?? [];
        const size = sizeOf.get(settings.find(one => one.key === slice.key)?.value ?? "");
        if (boot.round === null || boot.total_ns === null || size === undefined || !isHeld(settings)) return [];
        const time = row.name === "total" ? boot.total_ns : (boot.rows.find(one => one.name === row.name)?.ns ?? 0);
        return [{ size, time: Number(time) }];
    });
}

/** The number in the value of an option: `256M`, `messages=200`, `4`. */
function numberIn(value: string): number {
    const [, digits, unit] = /(\d+(?:\.\d+)?)\s*([KMGT]?)(?!.*\d)/i.exec(value) ?? [];
    const power = { K: 1, M: 2, G: 3, T: 4 }[unit?.toUpperCase() ?? ""] ?? 0;
    return Number(digits ?? NaN) * 1024 ** power;
}
