// Reads a table of columns. The writer describes the format: crates/page-data/src/table.rs.

/** Numbers of a column. `exact` is present if a double does not hold one of them, or a difference of two. */
export interface Numbers {
    readonly values: Float64Array | Uint32Array | Uint8Array;
    readonly exact?: BigInt64Array | BigUint64Array;
}

export interface Table {
    readonly name: string;
    readonly rows: number;
    readonly numbers: Record<string, Numbers>;
    readonly texts: Record<string, string[]>;
}

/** The error for bytes that break the format. */
export class Malformed extends Error {}

const WIDE = 0x80;
const LARGEST_UINT32 = 0xffff_ffff;

/** The bytes that are not read yet. */
class Input {
    at = 0;
    constructor(readonly bytes: Uint8Array) {}

    byte(): number {
        const byte = this.bytes[this.at];
        if (byte === undefined) throw new Malformed("cut off");
        this.at += 1;
        return byte;
    }

    take(count: number): Uint8Array {
        if (count > this.bytes.length - this.at) throw new Malformed("cut off");
        this.at += count;
        return this.bytes.subarray(this.at - count, this.at);
    }

    /** Reads a number that a double holds. A larger number breaks the format here. */
    varint(): number {
        let value = 0;
        for (let unit = 1; ; unit *= 128) {
            const byte = this.byte();
            value += (byte & 0x7f) * unit;
            if (value > Number.MAX_SAFE_INTEGER) throw new Malformed("a number is too large");
            if (byte < 0x80) return value;
        }
    }

    bigVarint(): bigint {
        let value = 0n;
        for (let shift = 0n; shift < 70n; shift += 7n) {
            const byte = this.byte();
            value |= BigInt(byte & 0x7f) << shift;
            if (byte < 0x80) return value;
        }
        throw new Malformed("a number is too large");
    }

    text(): string {
        return utf8(this.take(this.varint()));
    }

    end(): void {
        if (this.at !== this.bytes.length) throw new Malformed("bytes are left over");
    }
}

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

function utf8(bytes: Uint8Array): string {
    try {
        return decoder.decode(bytes);
    } catch {
        throw new Malformed("a text is not UTF-8");
    }
}

/** Reads one unpacked table. */
export function readTable(bytes: Uint8Array): Table {
    const input = new Input(bytes);
    const name = input.text();
    const rows = input.varint();
    const table: Table = { name, rows, numbers: {}, texts: {} };
    for (let columns = input.varint(); columns > 0; columns -= 1) {
        const column = input.text();
        const encoding = input.byte();
        const data = new Input(input.take(input.varint()));
        // A row takes at least one byte, so the data bounds what is allocated for the rows.
        if (rows > data.bytes.length) throw new Malformed("cut off");
        if (encoding === 3) table.texts[column] = texts(data, rows);
        else table.numbers[column] = numbers(encoding, data, rows);
        data.end();
    }
    input.end();
    return table;
}

function texts(data: Input, rows: number): string[] {
    const lengths = Array.from({ length: rows }, () => data.varint());
    return lengths.map(length => utf8(data.take(length)));
}

function numbers(encoding: number, data: Input, rows: number): Numbers {
    switch (encoding) {
        case 0:
            return { values: data.take(rows).slice() };
        case 1:
            return narrow(counts(data, rows));
        case 2:
            return narrow(deltas(data, rows));
        case 1 | WIDE: {
            const exact = new BigUint64Array(rows);
            for (let i = 0; i < rows; i += 1) exact[i] = data.bigVarint();
            return { values: Float64Array.from(exact, Number), exact };
        }
        case 2 | WIDE: {
            const exact = new BigInt64Array(rows);
            let value = 0n;
            for (let i = 0; i < rows; i += 1) {
                const zigzag = data.bigVarint();
                value = BigInt.asIntN(64, value + ((zigzag >> 1n) ^ -(zigzag & 1n)));
                exact[i] = value;
            }
            return { values: Float64Array.from(exact, Number), exact };
        }
        default:
            throw new Malformed(`unknown encoding ${encoding}`);
    }
}

function counts(data: Input, rows: number): Float64Array {
    const values = new Float64Array(rows);
    const { bytes } = data;
    let at = data.at;
    for (let i = 0; i < rows; i += 1) {
        // Most numbers have one byte.
        const first = bytes[at];
        if (first !== undefined && first < 0x80) {
            values[i] = first;
            at += 1;
            continue;
        }
        data.at = at;
        values[i] = data.varint();
        at = data.at;
    }
    data.at = at;
    return values;
}

function deltas(data: Input, rows: number): Float64Array {
    const values = new Float64Array(rows);
    const { bytes } = data;
    let at = data.at;
    let value = 0;
    for (let i = 0; i < rows; i += 1) {
        let zigzag = bytes[at];
        if (zigzag !== undefined && zigzag < 0x80) {
            at += 1;
        } else {
            data.at = at;
            zigzag = data.varint();
            at = data.at;
        }
        value += zigzag % 2 === 0 ? zigzag / 2 : -(zigzag + 1) / 2;
        values[i] = value;
    }
    data.at = at;
    return values;
}

/** The values in half the memory, if 32 bits hold them. */
function narrow(values: Float64Array): Numbers {
    for (const value of values) {
        if (value < 0 || value > LARGEST_UINT32) return { values };
    }
    return { values: Uint32Array.from(values) };
}
