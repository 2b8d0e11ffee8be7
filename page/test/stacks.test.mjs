// The merged stacks of samples: a tree for each event, whose root has the weight of all its samples.
import assert from "node:assert/strict";
import test from "node:test";
import { load } from "./bundle.mjs";

const { errorOf, hasStacks, ofStacks } = await load("data/stacks.ts");

const numbers = values => ({ values: Float64Array.from(values) });
const boot = {
    names: ["main", "read", "write", ""],
    summary: { sampled: { events: [{ name: "cycles" }, { name: "faults" }] } },
    stacks: {
        rows: 5,
        numbers: {
            event: numbers([0, 0, 1, 0, 0]),
            parent: numbers([0, 1, 0, 1, 0]),
            name: numbers([0, 1, 0, 2, 3]),
            weight: numbers([1, 2, 9, 4, 3]),
        },
        texts: {},
    },
};

test("each event has its own tree", () => {
    const tree = ofStacks(boot, 0);
    const texts = tree.key.map(key => tree.texts[key]);
    assert.deepEqual(texts, ["cycles", "main", "read", "write", "(no function known)"]);
    assert.deepEqual(tree.total, [10, 7, 2, 4, 3]);
    assert.deepEqual(tree.self, [0, 1, 2, 4, 3]);
    assert.deepEqual(ofStacks(boot, 1).total, [9, 9]);
    assert.ok(hasStacks(boot) && !hasStacks({}) && ofStacks({}, 0) === undefined);
});

test("the error of a share is that of the program's tables", () => {
    // folded.txt of 36 samples: 22.2 % ±6.9.
    assert.equal((errorOf(8 / 36, 36) * 100).toFixed(1), "6.9");
    assert.equal(errorOf(0.5, 0), 0);
});
