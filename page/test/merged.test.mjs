// Merged stacks of a small boot that is made here, compared with sums computed by hand.
import assert from "node:assert/strict";
import test from "node:test";
import { load } from "./bundle.mjs";

const { Boot } = await load("data/boot.ts");
const { ofPath, ofThreads, upsideDown, sandwich, functions, pieces } = await load("data/merged.ts");

const numbers = values => ({ values: Float64Array.from(values) });
const part = (name, rows, columns, texts = {}) => ({
    name,
    rows,
    numbers: Object.fromEntries(Object.entries(columns).map(([n, v]) => [n, numbers(v)])),
    texts,
});

/** init: f [0, 40) with g [10, 20) and f again [20, 30) in it. Then it waits for worker, which runs g [40, 90). */
function boot() {
    const made = new Boot();
    const facts = {
        schema: "bootscope.page/1",
        kinds: ["call"],
        spans: 4,
        summary: { total_ns: 100, unit: "ns", phases: [], subject: {}, where: [], warnings: [] },
    };
    made.add(part("boot", 1, {}, { json: [JSON.stringify(facts)] }));
    made.add(
        part(
            "tracks",
            2,
            { kind: [2, 2], number: [1, 2], created: [0, 0], by: [0, 0], idle: [0, 0], thing: [0, 0] },
            { name: ["init", "worker"] },
        ),
    );
    made.add(part("stays", 3, { length: [40, 50, 10], kind: [0, 0, 4], on: [0, 0, 0], goes_on: [1, 1, 0], frames: [1, 2, 1] }));
    made.add(part("frames", 4, { track: [0, 0, 1, 0], span: [1, 0, 4, 0] }));
    made.add(part("names", 3, {}, { name: ["f", "", "g"] }));
    made.add(part("labels", 2, { name: [0, 2], detail: [1, 1], kind: [0, 0], thing: [1, 2] }));
    made.add(
        part("spans", 4, {
            track: [0, 0, 0, 1],
            start: [0, 10, 20, 40],
            length: [40, 10, 10, 50],
            depth: [0, 1, 1, 0],
            label: [0, 1, 0, 1],
        }),
    );
    made.add(part("end", 0, {}));
    return made;
}

const stack = (tree, node) => {
    const out = [];
    for (let at = node; at > 0; at = tree.parent[at]) out.unshift(tree.texts[tree.key[at]]);
    return out.join(";");
};
const folded = tree => Object.fromEntries(tree.self.map((self, node) => [stack(tree, node), self]).filter(([, self]) => self !== 0));

test("the path has the stacks of who waited, and sums to the boot", () => {
    const tree = ofPath(boot());
    assert.deepEqual(folded(tree), { "init;f": 20, "init;f;g": 10, "init;f;f": 10, "init;worker;g": 50, "init;wait": 10 });
    assert.equal(tree.total[0], 100);
    assert.equal(ofPath(boot(), { from: 15, to: 45 }).total[0], 30);
});

test("calls too short to be spans have their share, and who had the CPU stands below runqueue", () => {
    const made = new Boot();
    const facts = {
        schema: "bootscope.page/1",
        kinds: ["call"],
        spans: 2,
        summary: { total_ns: 100, unit: "ns", phases: [], subject: {}, where: [], warnings: [] },
    };
    made.add(part("boot", 1, {}, { json: [JSON.stringify(facts)] }));
    made.add(
        part(
            "tracks",
            2,
            { kind: [2, 2], number: [1, 2], created: [0, 0], by: [0, 0], idle: [0, 0], thing: [0, 0] },
            { name: ["init", "worker"] },
        ),
    );
    // init runs f for 40 and g for 20. It is ready for 30 while worker has the CPU. After that, worker's time belongs to its bottom
    // frame.
    made.add(part("stays", 3, { length: [60, 30, 10], kind: [0, 1, 0], on: [0, 0, 0], goes_on: [1, 1, 1], frames: [1, 2, 1] }));
    made.add(part("frames", 4, { track: [0, 0, 1, 1], span: [1, 2, 0, 0] }));
    made.add(part("names", 5, {}, { name: ["f", "", "g", "init", "h"] }));
    made.add(part("labels", 2, { name: [0, 2], detail: [1, 1], kind: [0, 0], thing: [1, 2] }));
    made.add(part("spans", 2, { track: [0, 0], start: [0, 40], length: [40, 20], depth: [0, 0], label: [0, 1] }));
    // f has 80 in spans, 10 of them interrupts. h has 14 of the 70 counted. The interrupts are h's, called from the bottom.
    made.add(
        part("calls", 5, {
            parent: [0, 1, 2, 1, 1],
            name: [3, 0, 4, 2, 4],
            kind: [0, 0, 0, 0, 0],
            calls: [1, 2, 7, 1, 3],
            self: [0, 56, 14, 20, 10],
        }),
    );
    made.add(part("nodes", 2, { node: [2, 4] }));
    made.add(part("in_spans", 5, { spent: [0, 80, 0, 20, 0] }));
    made.add(part("end", 0, {}));
    const tree = ofPath(made);
    assert.deepEqual(folded(tree), { "init;f": 28, "init;f;h": 7, "init;h": 5, "init;g": 20, "init;g;runqueue;worker": 30, worker: 10 });
    assert.equal(tree.total[0], 100);
});

test("all threads are by their spans, and what none of them did has a frame", () => {
    const nobody = "(no thread known to run)";
    assert.deepEqual(folded(ofThreads(boot())), { "init;f": 20, "init;f;g": 10, "init;f;f": 10, "worker;g": 50, [nobody]: 10 });
    assert.deepEqual(folded(ofThreads(boot(), { from: 15, to: 45 })), { "init;f": 10, "init;f;g": 5, "init;f;f": 10, "worker;g": 5 });
});

test("all threads by a scheduler's trace: outside of spans too, and waits apart", () => {
    const made = boot();
    made.facts.is_traced = true;
    // init is traced from 15 on and sleeps from 18 to 25. worker runs before and after its span.
    made.running = [
        [0, 15, 18],
        [0, 25, 40],
        [1, 40, 95],
    ].map(([track, from, to]) => ({ track, cpu: 0, from, to }));
    const tree = ofThreads(made);
    assert.deepEqual(folded(tree), {
        "init;f": 20,
        "init;f;g": 8,
        "init;f;g;wait": 2,
        "init;f;f": 5,
        "init;f;f;wait": 5,
        "worker;g": 50,
        "worker;(no function known)": 5,
        "(no thread known to run)": 5 + 7,
    });
});

test("upside down nothing is lost", () => {
    const tree = upsideDown(ofPath(boot()));
    assert.equal(tree.total[0], 100);
    assert.deepEqual(folded(tree), { "f;init": 20, "g;f;init": 10, "f;f;init": 10, "g;worker;init": 50, "wait;init": 10 });
});

test("a function that calls itself counts once", () => {
    const tree = ofPath(boot());
    const row = functions(tree).find(({ text }) => text === "f");
    assert.deepEqual([row.self, row.total], [30, 40]);
    const { callees, callers } = sandwich(tree, "f");
    assert.deepEqual([callees.total[0], callers.total[0]], [40, 40]);
    assert.deepEqual(folded(callers), { init: 40 });
});

test("pieces of a track cover it without gap", () => {
    const cut = [];
    pieces(boot(), 0, 5, 60, (span, time) => cut.push([span, time]));
    assert.deepEqual(cut, [
        [0, 5],
        [1, 10],
        [2, 10],
        [0, 10],
        [undefined, 20],
    ]);
});
