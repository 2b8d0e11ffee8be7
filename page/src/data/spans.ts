// Spans in columns, and the reading of a part's columns.
import type { Numbers, Table } from "./table";

/** Spans in columns. Only the first `count` of each column are read so far. */
export class Spans {
    count = 0;
    readonly track: Uint32Array;
    readonly start: Float64Array;
    readonly end: Float64Array;
    readonly depth: Uint32Array;
    readonly label: Uint32Array;
    /** Start and length to the nanosecond, if doubles do not hold one of them. */
    exact: { start: BigInt64Array; length: BigUint64Array } | undefined;

    constructor(readonly all: number) {
        this.track = new Uint32Array(all);
        this.start = new Float64Array(all);
        this.end = new Float64Array(all);
        this.depth = new Uint32Array(all);
        this.label = new Uint32Array(all);
    }

    add(table: Table): void {
        const [track, start, length, depth, label] = ["track", "start", "length", "depth", "label"].map(n => column(table, n));
        const at = this.count;
        if (at + table.rows > this.all) throw new Error("more spans than were announced");
        this.track.set(track!.values, at);
        this.start.set(start!.values, at);
        for (let i = 0; i < table.rows; i += 1) this.end[at + i] = start!.values[i]! + length!.values[i]!;
        this.depth.set(depth!.values, at);
        this.label.set(label!.values, at);
        const isWide = start!.exact !== undefined || length!.exact !== undefined;
        if (isWide && !this.exact) {
            this.exact = { start: new BigInt64Array(this.all), length: new BigUint64Array(this.all) };
            // The earlier spans fit in doubles, so these are exact.
            for (let i = 0; i < at; i += 1) this.setExact(i, BigInt(this.start[i]!), BigInt(this.end[i]! - this.start[i]!));
        }
        if (this.exact) {
            for (let i = 0; i < table.rows; i += 1) {
                this.setExact(at + i, BigInt(start!.exact?.[i] ?? start!.values[i]!), BigInt(length!.exact?.[i] ?? length!.values[i]!));
            }
        }
        this.count += table.rows;
    }

    private setExact(i: number, start: bigint, length: bigint): void {
        this.exact!.start[i] = start;
        this.exact!.length[i] = length;
    }
}

export function column(table: Table, name: string): Numbers {
    const numbers = table.numbers[name];
    if (!numbers) throw new Error(`part ${table.name} has no column ${name}`);
    return numbers;
}

export function sumOf(values: ArrayLike<number>): number {
    let sum = 0;
    for (let i = 0; i < values.length; i += 1) sum += values[i]!;
    return sum;
}

export function texts(table: Table, name: string): string[] {
    const values = table.texts[name];
    if (!values) throw new Error(`part ${table.name} has no column ${name}`);
    return values;
}

export function number(table: Table, name: string, row: number): number {
    return column(table, name).values[row] ?? 0;
}
