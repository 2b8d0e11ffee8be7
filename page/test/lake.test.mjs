// A lake's data: the value of a point, the regressions that form a group, their first days. Known answers.
import assert from "node:assert/strict";
import test from "node:test";
import { load } from "./bundle.mjs";

const { addCells, commandOf, dayOf, groupsOf, kindName, kindOf, linesOf, marksOf, meaningOf, readLake } = await load("data/lake.ts");
const { coloursOf, paintOverTime, markAt, dayAt, MAX_DRAWN } = await load("charts/lake.ts");
const { Svg } = await load("lib/save.ts");
const { LIGHT } = await load("charts/colours.ts");
const { ofFragment, toFragment, Store } = await load("state.ts");

const regression = (name, kind, kernel, since, slower, more = {}) => ({
    name,
    hardware: `kind-${kind}`,
    time_base: "host",
    kernel,
    since,
    before_ns: 10e6,
    after_ns: 10e6 + slower,
    slower_ns: slower,
    slower_low_ns: slower * 0.9,
    slower_high_ns: slower * 1.1,
    ratio: 1 + slower / 10e6,
    p: 1e-6,
    boots_before: 100,
    boots_after: 50,
    per_day_ns: slower * 10,
    boots: [],
    ...more,
});
const EMPTY = {
    schema: "bootscope.lake-page/1",
    lake: "lake",
    since: "",
    boots: 0,
    machines: 0,
    days: [],
    kernels: [],
    kinds: [],
    regressions: [],
    slowest_rows: [],
    outliers: [],
    what_pays: [],
    missing: [],
    remarks: {},
};
const kind = (hardware, time_base = "host") => ({ hardware, time_base, boots: 1, machines: 1 });
/** Cells as `[kind, day, kernel, boots, not_ended, p50, p95]`. */
function lakeOf(document, cells) {
    const lake = readLake(JSON.stringify({ ...EMPTY, ...document }));
    const column = i => ({ values: Float64Array.from(cells, cell => cell[i]) });
    const numbers = Object.fromEntries(["kind", "day", "kernel", "boots", "not_ended", "p50", "p95"].map((name, i) => [name, column(i)]));
    addCells(lake, { name: "cells", rows: cells.length, numbers, texts: {} });
    return lake;
}
const DAYS = ["2026-01-01", "2026-01-02", "2026-01-05"];
const two = () =>
    lakeOf({ days: DAYS, kernels: ["6.1", "6.12"], kinds: [kind("kind-0"), kind("kind-1", "guest-virtual")] }, [
        [0, 0, 0, 30, 0, 1000, 1200],
        [1, 0, 0, 10, 0, 3000, 3600],
        [0, 1, 0, 20, 10, 1000, 1300],
        [0, 1, 1, 10, 0, 1300, 1600],
        [1, 2, 1, 4, 4, 0, 0],
    ]);

test("of one kind and kernel a point is the median itself", () => {
    const [first, second] = linesOf(two(), { by: "kernels", kind: 0, scale: "time" });
    assert.deepEqual([first.name, first.boots, first.notEnded], ["6.1", 50, 10]);
    assert.deepEqual(first.points, [
        { day: 0, boots: 30, notEnded: 0, p50: 1000, p95: 1200, of: 1 },
        { day: 1, boots: 20, notEnded: 10, p50: 1000, p95: 1300, of: 1 },
    ]);
    assert.deepEqual([second.name, second.points.length, second.p50], ["6.12", 1, 1300]);
    assert.match(meaningOf([first, second], "time"), /^Each point is the median/);
});

test("of several it is their mean by boots that ended, and is said to be", () => {
    const lines = linesOf(two(), { by: "kernels", kind: undefined, scale: "time" });
    assert.deepEqual(lines[0].points[0], { day: 0, boots: 40, notEnded: 0, p50: 1500, p95: 1800, of: 2 });
    assert.match(meaningOf(lines, "time"), /mean of their medians .* weighted by boots\. A median over all these boots cannot/);
    const [ofKind] = linesOf(two(), { by: "kinds", kind: undefined, scale: "time" });
    // Ten boots of each kernel ended that day.
    assert.deepEqual(ofKind.points[1], { day: 1, boots: 30, notEnded: 10, p50: 1150, p95: 1450, of: 2 });
});

test("where no boot ended there is no point but its boots", () => {
    const line = linesOf(two(), { by: "kinds", kind: 1, scale: "time" })[0];
    assert.deepEqual(line.points[1], { day: 2, boots: 4, notEnded: 4, p50: undefined, p95: undefined, of: 0 });
    assert.equal(line.name, "kind-1 (guest-virtual)");
    assert.equal(kindName({ hardware: "", time_base: "host" }), "kind not known");
});

test("as a share of its own, a kind of machine that boots more moves nothing", () => {
    const days = ["2026-01-01", "2026-01-02"];
    const lake = lakeOf({ days, kernels: ["6.1"], kinds: [kind("quick"), kind("slow")] }, [
        [0, 0, 0, 90, 0, 1000, 1100],
        [1, 0, 0, 10, 0, 9000, 9900],
        [0, 1, 0, 10, 0, 1000, 1100],
        [1, 1, 0, 90, 0, 9000, 9900],
    ]);
    const points = scale => linesOf(lake, { by: "kernels", kind: undefined, scale })[0].points.map(point => point.p50);
    assert.deepEqual(points("time"), [1800, 8200]);
    assert.deepEqual(points("own"), [1, 1]);
    assert.match(meaningOf(linesOf(lake, { by: "kernels", kind: undefined, scale: "time" }), "time"), /where the mix of kinds does/);
});

test("a kernel has the same colour for every kind, and no two lines have the same", () => {
    const lake = lakeOf({ days: DAYS, kernels: ["6.1", "6.12"], kinds: [kind("kind-0"), kind("kind-1")] }, [
        [0, 0, 0, 90, 0, 1, 1],
        [0, 1, 1, 20, 0, 1, 1],
        [1, 0, 0, 1, 0, 1, 1],
        [1, 1, 1, 9, 0, 1, 1],
    ]);
    const [ofAll, ofOne] = [undefined, 1].map(kind => linesOf(lake, { by: "kernels", kind, scale: "time" }));
    assert.deepEqual(
        [ofAll, ofOne].map(lines => lines.map(line => line.name)),
        [
            ["6.1", "6.12"],
            ["6.12", "6.1"],
        ],
    );
    assert.deepEqual(coloursOf(ofOne, LIGHT), coloursOf(ofAll, LIGHT).reverse());
    const alike = [0, 8, 16, 1, 2].map(rank => ({ ...ofAll[0], rank }));
    assert.equal(new Set(coloursOf(alike, LIGHT)).size, 5);
});

test("days that are missing leave room, and what is no date is counted", () => {
    assert.deepEqual(two().at, [0, 1, 4]);
    assert.deepEqual(readLake(JSON.stringify({ ...EMPTY, days: ["today", "2026-01-02"] })).at, [0, 1]);
    assert.deepEqual(readLake(JSON.stringify({ ...EMPTY, days: ["2026-01-03", "2026-01-02"] })).at, [0, 1]);
});

test("another document, and cells that lead nowhere, are refused", () => {
    assert.throws(() => readLake(JSON.stringify({ ...EMPTY, schema: "bootscope.lake-page/2" })), /lake-page\/2/);
    assert.throws(() => lakeOf({ days: DAYS, kernels: ["6.1"], kinds: [kind("kind-0")] }, [[0, 3, 0, 1, 0, 1, 1]]), /row 0 leads nowhere/);
    assert.throws(() => addCells(readLake(JSON.stringify(EMPTY)), { name: "cells", rows: 0, numbers: {}, texts: {} }), /no column kind/);
});

test("regressions of one row with one kernel are one, by what they cost", () => {
    const lake = lakeOf(
        {
            days: DAYS,
            kernels: ["6.1", "6.12"],
            kinds: [kind("kind-0"), kind("kind-1")],
            regressions: [
                regression("a", 0, "6.12", "2026-01-05", 1e6),
                regression("b", 0, "6.12", "2026-01-02", 1.5e6),
                regression("a", 1, "6.12", "2026-01-02", 2e6, { p: 1e-3 }),
                regression("a", 1, "6.1", "2026-01-03", 1e5, { ratio: null }),
            ],
        },
        [],
    );
    const groups = groupsOf(lake, () => true);
    assert.deepEqual(
        groups.map(({ name, kernel, members, since, p }) => [name, kernel, members, since, p]),
        [
            ["a", "6.12", [2, 0], "2026-01-02", 1e-3],
            ["b", "6.12", [1], "2026-01-02", 1e-6],
            ["a", "6.1", [3], "2026-01-03", 1e-6],
        ],
    );
    assert.deepEqual(
        [groups[0].perDay, groups[0].least.slower_ns, groups[0].most.slower_ns, groups[0].boots_before],
        [30e6, 1e6, 2e6, 200],
    );
    assert.equal(groups[2].mostChanged.ratio, null);
    assert.deepEqual(
        groupsOf(lake, one => one.name === "b").map(group => group.members),
        [[1]],
    );
    // A regression that began on a day without boots is marked on the next day.
    assert.deepEqual(marksOf(lake, undefined), [
        { day: 1, regressions: [1, 2] },
        { day: 2, regressions: [0, 3] },
    ]);
    assert.deepEqual(marksOf(lake, 0), [
        { day: 1, regressions: [1] },
        { day: 2, regressions: [0] },
    ]);
    assert.equal(kindOf(lake, lake.regressions[2]), 1);
    assert.equal(kindOf(lake, { ...lake.regressions[2], time_base: "evidence" }), undefined);
    assert.equal(dayOf(lake, { ...lake.regressions[0], since: "2027-01-01" }), undefined);
});

test("a command has a machine's name as one word", () => {
    const boot = machine => ({ boot_id: "1", day: "", machine, total_ns: null, self_ns: null });
    const lake = two();
    assert.equal(commandOf(lake, boot("ffee")), "bootscope lake ask lake boots --where machine=ffee");
    assert.equal(
        commandOf({ ...lake, lake: "my lake" }, boot("it's $(evil)")),
        `bootscope lake ask 'my lake' boots --where 'machine=it'\\''s $(evil)'`,
    );
    assert.equal(commandOf(lake, boot("")), undefined);
});

test("the picture has every line and mark, and hostile names as text", () => {
    const evil = `</text><script>ran=1</script>`;
    globalThis.document = { createElement: () => ({ getContext: () => null }) };
    const many = Array.from({ length: MAX_DRAWN + 3 }, (_, i) => i);
    const lake = lakeOf(
        {
            days: DAYS,
            kernels: many.map(i => (i === 0 ? evil : `6.${i}`)),
            kinds: [kind("kind-0")],
            regressions: [regression("a", 0, "6.1", "2026-01-02", 1e6)],
        },
        many.flatMap(i => [
            [0, 0, i, 100 - i, 0, 1e9 + i * 1e7, 1.2e9],
            [0, 2, i, 100 - i, 1, 1e9 + i * 1e7, 1.2e9],
        ]),
    );
    const chart = {
        lake,
        lines: linesOf(lake, { by: "kernels", kind: undefined, scale: "time" }),
        marks: marksOf(lake, undefined),
        scale: "time",
        figure: "both",
        selected: 0,
    };
    const svg = new Svg(1200, 400);
    paintOverTime(chart, LIGHT, svg, 1200, 400);
    const text = svg.text();
    assert.ok(!text.includes("<script") && text.includes("&#60;/text&#62;"), text.slice(0, 3000));
    for (const colour of LIGHT.lines) assert.ok(text.includes(`stroke="${colour}"`), colour);
    assert.ok(text.includes(">6.7<") && !text.includes(">6.8<"), "the lines of most boots are named");
    for (const day of ["2026-01-01", "2026-01-05"]) assert.ok(text.includes(`>${day}<`));
    const mark = Array.from({ length: 1200 }, (_, x) => x).filter(x => markAt(chart, x, 1200, 400));
    assert.ok(mark.length > 10 && mark.length < 25, `${mark.length}`);
    assert.equal(dayAt(lake, mark[Math.floor(mark.length / 2)], 1200, 400), 1);
    assert.equal(dayAt(lake, 3, 1200, 400), undefined);
});

test("a lake without boots, or whose boots did not end, is drawn", () => {
    globalThis.document = { createElement: () => ({ getContext: () => null }) };
    for (const [lake, says] of [
        [readLake(JSON.stringify(EMPTY)), "no boots"],
        [lakeOf({ days: DAYS, kernels: ["6.1"], kinds: [kind("kind-0")] }, [[0, 0, 0, 3, 3, 0, 0]]), "no boot ended"],
    ]) {
        const svg = new Svg(600, 300);
        paintOverTime(
            {
                lake,
                lines: linesOf(lake, { by: "kernels", kind: undefined, scale: "own" }),
                marks: [],
                scale: "own",
                figure: "both",
                selected: -1,
            },
            LIGHT,
            svg,
            600,
            300,
        );
        assert.ok(svg.text().includes(`>${says}<`));
    }
});

test("an address opens the same view of a lake again", () => {
    const { state } = new Store();
    const shown = { view: "machines", by: "kinds", kind: 3, scale: "own", figure: "p95", regression: 7, machines: "missing" };
    const fragment = toFragment({ ...state, lake: shown, filter: "a b" }, "lake");
    assert.deepEqual([ofFragment(fragment).lake, ofFragment(fragment).filter], [shown, "a b"]);
    assert.equal(toFragment(state, "lake"), "view=time");
    assert.deepEqual(ofFragment("view=boots&kind=x&scale=no").lake, state.lake);
});
