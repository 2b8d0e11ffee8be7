// Queries about a boot that is made here, compared with answers computed by hand.
import assert from "node:assert/strict";
import test from "node:test";
import { load } from "./bundle.mjs";

const { Boot } = await load("data/boot.ts");
const { layOut } = await load("charts/tracks.ts");

const numbers = values => ({ values: Float64Array.from(values) });
const part = (name, rows, columns, texts = {}) => ({
    name,
    rows,
    numbers: Object.fromEntries(Object.entries(columns).map(([n, v]) => [n, numbers(v)])),
    texts,
});

/** init has the path. Its twelve spans are nested: span i is [i, 100 - i). idler has one span, and is not on the path. */
function boot() {
    const depths = Array.from({ length: 12 }, (_, i) => i);
    const made = new Boot();
    const summary = { total_ns: 100, unit: "ns", phases: [], subject: {}, where: [], warnings: [] };
    made.add(part("boot", 1, {}, { json: [JSON.stringify({ schema: "bootscope.page/1", kinds: ["call"], spans: 13, summary })] }));
    made.add(
        part(
            "tracks",
            3,
            { kind: [2, 2, 5], number: [1, 2, 0], created: [0, 0, 0], by: [0, 0, 0], idle: [0, 0, 0], thing: [0, 0, 0] },
            { name: ["init", "idler", "kernel log"] },
        ),
    );
    made.add(part("stays", 1, { length: [100], kind: [0], on: [0], goes_on: [1], frames: [1] }));
    made.add(part("frames", 1, { track: [0], span: [0] }));
    made.add(part("names", 5, {}, { name: ["f", "", "first", "second", "third"] }));
    made.add(part("labels", 1, { name: [0], detail: [1], kind: [0], thing: [1] }));
    made.add(
        part("spans", 13, {
            track: [...depths.map(() => 0), 1],
            start: [...depths, 10],
            length: [...depths.map(i => 100 - 2 * i), 5],
            depth: [...depths, 0],
            label: [...depths.map(() => 0), 0],
        }),
    );
    made.add(part("marks", 1, { at: [50], name: [3], track: [2] }));
    made.add(part("unplaced", 2, { has_later: [1, 0], later: [50, 0], name: [2, 4] }));
    made.add(part("end", 0, {}));
    return made;
}

test("a stretch has the spans that overlap it, by the part inside", () => {
    const made = boot();
    assert.deepEqual(
        made.longestPartsOn(0, 0, 5, 3).map(span => [span, made.partOf(span, 0, 5)]),
        [
            [0, 5],
            [1, 4],
            [2, 3],
        ],
    );
    assert.deepEqual(
        made.longestPartsOn(0, 98, 200, 9).map(span => [span, made.partOf(span, 98, 200)]),
        [
            [0, 2],
            [1, 1],
        ],
    );
});

test("a message without a stamp is where it was logged", () => {
    assert.deepEqual(boot().kernelLog(), [
        { at: undefined, text: "first" },
        { at: 50, text: "second" },
        { at: undefined, text: "third" },
    ]);
});

test("a span that is selected is seen, however deep, and also where its track is not on the path", () => {
    const made = boot();
    const lanes = (only, span) => layOut(made, new Set(), only, span).lanes.map(({ track, rows }) => [track.name, rows]);
    assert.deepEqual(lanes("path"), [["init", 4]]);
    assert.deepEqual(lanes("path", 2), [["init", 4]]);
    assert.deepEqual(lanes("path", 11), [["init", 12]]);
    assert.deepEqual(lanes("path", 12), [
        ["init", 4],
        ["idler", 1],
    ]);
});
