// Boots side by side, with known answers.
import assert from "node:assert/strict";
import test from "node:test";
import { load } from "./bundle.mjs";

const { changes, changesOfEarlier, isInBoth, lost, phases, rows } = await load("data/compare.ts");
const { Grower } = await load("data/merged.ts");

const row = (name, self_ns, detail = "") => ({ name, detail, self_ns, total_ns: self_ns, count: 1, tracks: [] });

test("what one boot has no evidence of is not compared", () => {
    const evidence = (is_traced, has_initcalls) => ({ is_traced, has_initcalls });
    const all = evidence(true, true);
    assert.equal(lost(all, all), undefined);
    assert.equal(lost(evidence(false, false), evidence(false, false)), undefined);
    assert.deepEqual(lost(all, evidence(false, false)), { side: "after", what: "trace" });
    assert.deepEqual(lost(evidence(false, true), all), { side: "before", what: "trace" });
    assert.deepEqual(lost(evidence(false, true), evidence(false, false)), { side: "after", what: "initcalls" });
    const both = rows([row("kept", 10), row("initcall a", 5)], [row("kept", 4)], "self_ns").filter(isInBoth);
    assert.deepEqual(
        both.map(row => row.name),
        ["kept"],
    );
});

test("rows by name, the greatest change first; a direct and an indirect call are one", () => {
    const before = [row("a", 10), row("b (indirect call)", 5), row("gone", 7), row("same", 3)];
    const after = [row("a", 4), row("b", 6), row("new", 2), row("same", 3)];
    assert.deepEqual(
        rows(before, after, "self_ns").map(({ name, change, what }) => [name, change, what]),
        [
            ["gone", -7, "vanished"],
            ["a", -6, "changed"],
            ["new", 2, "appeared"],
            ["b", 1, "changed"],
            ["same", 0, "same"],
        ],
    );
});

test("what doubles do not hold is compared whole", () => {
    const [one] = rows([row("a", "9007199254740993")], [row("a", "9007199254740994")], "self_ns");
    assert.equal(one.change, 1n);
});

test("phases in order, what vanished where it was", () => {
    const summary = names => ({ phases: names.map(([name, length], i) => ({ name, start_ns: i, end_ns: i + length })) });
    const found = phases(
        summary([
            ["firmware", 5],
            ["loader", 2],
            ["kernel", 9],
        ]),
        summary([
            ["firmware", 5],
            ["kernel", 11],
            ["user", 1],
        ]),
    );
    assert.deepEqual(
        found.map(({ name, change, what }) => [name, change, what]),
        [
            ["firmware", 0, "same"],
            ["loader", -2, "vanished"],
            ["kernel", 2, "changed"],
            ["user", 1, "appeared"],
        ],
    );
});

test("stacks by their paths", () => {
    const tree = stacks => {
        const grower = new Grower("boot path");
        for (const [path, time] of stacks) {
            const node = path.split(";").reduce((at, name) => grower.node(at, grower.keyOf(name)), 0);
            grower.self[node] += time;
        }
        return grower.tree();
    };
    const [before, after] = [
        tree([
            ["init;f", 10],
            ["init;g", 5],
            ["init;gone", 2],
        ]),
        tree([
            ["init;g", 8],
            ["init;f", 10],
            ["init;h", 1],
        ]),
    ];
    const byName = (tree, changes) => Object.fromEntries([...changes].map((change, node) => [tree.texts[tree.key[node]], change]));
    assert.deepEqual(byName(after, changes(before, after)), { "boot path": 2, init: 2, f: 0, g: 3, h: 1 });
    assert.deepEqual(byName(before, changesOfEarlier(before, after)), { "boot path": 2, init: 2, f: 0, g: 3, gone: -2 });
});
