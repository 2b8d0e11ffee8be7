// Times as text. Only this file knows units: three significant digits as the program prints them, or all digits.

/** A whole number of nanoseconds (or ticks), as a double if that is exact. */
export type Whole = number | bigint;

/** The unit of times. */
export type Unit = "ns" | "ticks" | "guest-time" | "instructions" | "priced";

const UNITS: Record<Unit, readonly [string, string, string, string]> = {
    ns: ["ns", "µs", "ms", "s"],
    ticks: ["ticks", "kticks", "Mticks", "Gticks"],
    "guest-time": ["ns", "µs", "ms", "s"],
    instructions: ["instr", "k instr", "M instr", "G instr"],
    priced: ["ns", "µs", "ms", "s"],
};

/** The unit of a document's lengths. Those of a deterministic boot are instructions only if it has no timed waits. */
export function unitOf(document: { readonly unit: string; readonly time_base: string; readonly waited_ns?: number | string }): Unit {
    if (document.unit === "ticks" || document.unit === "priced") return document.unit;
    if (document.unit === "instructions" && !Number(document.waited_ns ?? 0)) return "instructions";
    return document.time_base === "guest-virtual" ? "guest-time" : "ns";
}

/** A number from JSON, which is a text if doubles do not hold it. */
export function whole(value: number | string): Whole {
    return typeof value === "string" ? BigInt(value) : value;
}

/** The difference of two times, to the nanosecond. */
export function difference(to: Whole, from: Whole): Whole {
    return typeof to === "number" && typeof from === "number" ? to - from : BigInt(to) - BigInt(from);
}

/** A time such as `9.77 ms`, with the same digits as crates/timeline/src/time.rs. */
export function short(length: Whole, unit: Unit): string {
    const negative = length < 0;
    const count = BigInt(typeof length === "number" ? Math.round(length) : length) * (negative ? -1n : 1n);
    const sign = negative && count !== 0n ? "-" : "";
    const units = UNITS[unit];
    const [size, name] =
        count < 1_000n
            ? [1n, units[0]]
            : count < 999_500n
              ? [1_000n, units[1]]
              : count < 999_500_000n
                ? [1_000_000n, units[2]]
                : [1_000_000_000n, units[3]];
    if (size === 1n) return `${sign}${count} ${name}`.trimEnd();
    const digits = count < (size / 1_000n) * 9_995n ? 2 : count < (size / 100n) * 9_995n ? 1 : 0;
    const decimal = 10n ** BigInt(digits);
    const rounded = (count * decimal + size / 2n) / size;
    const fraction = digits > 0 ? `.${String(rounded % decimal).padStart(digits, "0")}` : "";
    return `${sign}${rounded / decimal}${fraction} ${name}`;
}

/** A time with as many digits as neighbouring marks, a step apart, need to differ. */
export function atStep(time: number, step: number, unit: Unit): string {
    if (unit === "ticks" || time === 0) return time === 0 ? "0" : short(time, unit);
    const power = Math.abs(time) >= 1e9 ? 3 : Math.abs(time) >= 1e6 ? 2 : Math.abs(time) >= 1e3 ? 1 : 0;
    const size = 1e3 ** power;
    const digits = Math.max(0, Math.min(9, Math.ceil(Math.log10(size / step) - 1e-9)));
    return `${(time / size).toFixed(digits)} ${UNITS[unit][power]}`;
}

/** The time of a row, with a sign if only first calls have it. */
export function ofRow(length: Whole, unit: Unit, row: { readonly first_calls_only?: boolean }): string {
    return `${row.first_calls_only ? "≥ " : ""}${short(length, unit)}`;
}

/** The explanation of that sign. */
export const FIRST_CALLS =
    "≥: first calls only; later calls count in the rows of their callers. Record with --trace calls to see every call.";

/** A time such as `12 345 678 ns`, not rounded. */
export function exact(length: Whole, unit: Unit): string {
    return `${grouped(length)} ${UNITS[unit][0]}`;
}

/** A number such as `12 345`, with narrow no-break spaces between thousands. */
export function grouped(count: Whole): string {
    return String(typeof count === "number" ? Math.round(count) : count).replace(/\B(?=(\d{3})+$)/g, "\u202f");
}

/** A share such as `3.14 %`. A positive share that rounds to zero is `<0.01 %`. */
export function percent(share: number): string {
    const value = share * 100;
    return value > 0 && value < 0.005 ? "<0.01 %" : `${value.toFixed(2)} %`;
}

/** A number of things: `2 rows`, `1 row`. */
export function counted(count: number, thing: string): string {
    return `${grouped(count)} ${thing}${count === 1 ? "" : "s"}`;
}

/** The marks of an axis over `from..to`, about `wanted` of them, at multiples of 1, 2 or 5 times a power of ten. */
export function marks(from: number, to: number, wanted: number): number[] {
    const rough = Math.max((to - from) / Math.max(wanted, 1), 1);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map(n => n * power).find(size => size >= rough) ?? rough;
    const marks = [];
    for (let at = Math.ceil(from / step) * step; at <= to && marks.length < 1_000; at += step) marks.push(at);
    return marks;
}
