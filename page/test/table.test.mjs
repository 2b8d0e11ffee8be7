// The reader of columns, tested with the same bytes as the writer in Rust (crates/page-data/src/table.rs).
import assert from "node:assert/strict";
import test from "node:test";
import { load } from "./bundle.mjs";

const { readTable } = await load("data/table.ts");

/** The bytes of the test `the_bytes_are_these`. */
const BYTES =
    "01740305" +
    "046b696e6400030700ff" +
    "066c656e6774680104007fac02" +
    "0261740203010c00" +
    "03666172821cffffffffffffffffff01ffffffffffffffffff018080808080808020" +
    "046e616d650308020003c3a93c623e";
const bytes = hex => Uint8Array.from(hex.match(/../g), byte => Number.parseInt(byte, 16));

test("columns are read as the program writes them", () => {
    const table = readTable(bytes(BYTES));
    assert.equal(table.name, "t");
    assert.equal(table.rows, 3);
    assert.deepEqual([...table.numbers.kind.values], [7, 0, 255]);
    assert.deepEqual([...table.numbers.length.values], [0, 127, 300]);
    assert.deepEqual([...table.numbers.at.values], [-1, 5, 5]);
    assert.deepEqual([...table.numbers.far.exact], [-(2n ** 63n), 0n, 2n ** 53n]);
    assert.deepEqual(table.texts.name, ["é", "", "<b>"]);
});

test("every cut is an error", () => {
    const all = bytes(BYTES);
    for (let end = 0; end < all.length; end += 1) assert.throws(() => readTable(all.subarray(0, end)), undefined, `${end} bytes`);
    assert.throws(() => readTable(bytes(`${BYTES}00`)), /left over/);
});

test("a table of more rows than bytes allocates nothing", () => {
    assert.throws(() => readTable(bytes("0174ffffffff0f01016300010")), /cut off/);
});

/** Encodes a varint as the writer does. */
function varint(value) {
    const out = [];
    for (; value >= 128n; value >>= 7n) out.push(Number(value & 127n) | 128);
    return [...out, Number(value)];
}

test("differences are exact up to where the format calls them wide", () => {
    const largest = 2n ** 52n - 1n;
    for (const values of [
        [largest, 0n, -largest],
        [1n, -1n, largest - 5n],
        [0n, 0n, 0n],
    ]) {
        let before = 0n;
        const data = values.flatMap(value => {
            const delta = value - before;
            before = value;
            return varint(delta >= 0n ? delta * 2n : -delta * 2n - 1n);
        });
        if (
            values.some((value, i) => {
                const d = value - (values[i - 1] ?? 0n);
                return d > largest || d < -largest;
            })
        )
            continue;
        const table = readTable(Uint8Array.from([0, 3, 1, 1, 99, 2, data.length, ...data]));
        assert.deepEqual([...table.numbers.c.values].map(BigInt), values);
    }
});
