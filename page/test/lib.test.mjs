// Texts of times, saved files, merged stacks: known answers.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFile } from "node:fs/promises";
import test from "node:test";
import { load } from "./bundle.mjs";

const { atStep, ofRow, short, grouped, marks, percent, unitOf, whole } = await load("lib/time.ts");
const { Svg, csv } = await load("lib/save.ts");
const { path, word } = await load("lib/shell.ts");
const { DARK, LIGHT } = await load("charts/colours.ts");

test("three significant digits and a unit, as crates/timeline/src/time.rs", () => {
    const cases = [
        [0, "0 ns"],
        [999, "999 ns"],
        [1_000, "1.00 µs"],
        [9_765_000, "9.77 ms"],
        [1_005, "1.01 µs"],
        [9_994_999, "9.99 ms"],
        [9_995_000, "10.0 ms"],
        [99_949_999_999, "99.9 s"],
        [99_950_000_000, "100 s"],
        [76_540_000, "76.5 ms"],
        [999_499, "999 µs"],
        [999_500, "1.00 ms"],
        [999_499_999, "999 ms"],
        [999_500_000, "1.00 s"],
        [1_800_000_000_000, "1800 s"],
        [-1_500, "-1.50 µs"],
        [-(2n ** 63n), "-9223372037 s"],
    ];
    for (const [time, text] of cases) assert.equal(short(time, "ns"), text);
    assert.equal(short(14_119_002_000, "ticks"), "14.1 Gticks");
    assert.deepEqual(
        [12, 877_000_000, -1_500].map(count => short(count, "instructions")),
        ["12 instr", "877 M instr", "-1.50 k instr"],
    );
});

test("a deterministic boot counts instructions, unless its lengths have timed waits in them", () => {
    const unit = (unit, time_base, waited_ns) => unitOf({ unit, time_base, waited_ns });
    assert.deepEqual([unit("ns", "host"), unit("ns", "evidence"), unit("ticks", "evidence")], ["ns", "ns", "ticks"]);
    assert.deepEqual([unit("instructions", "guest-virtual"), unit("instructions", "guest-virtual", 0)], ["instructions", "instructions"]);
    // The second is of a document of a version that called guest time nanoseconds.
    const withWaits = [unit("instructions", "guest-virtual", 5), unit("ns", "guest-virtual"), unit("guest-time", "guest-virtual")];
    assert.deepEqual(withWaits, ["guest-time", "guest-time", "guest-time"]);
});

test("a row of first calls alone takes at least its time", () => {
    assert.equal(ofRow(212_000_000, "ns", { first_calls_only: true }), "≥ 212 ms");
    assert.equal(ofRow(212_000_000, "instructions", {}), "212 M instr");
});

test("marks of an axis differ in any unit", () => {
    const texts = unit => [1_500_000, 1_501_000, 1_502_000].map(at => atStep(at, 1_000, unit));
    assert.deepEqual(texts("ns"), ["1.500 ms", "1.501 ms", "1.502 ms"]);
    assert.deepEqual(texts("instructions"), ["1.500 M instr", "1.501 M instr", "1.502 M instr"]);
});

test("numbers beyond doubles stay whole", () => {
    assert.equal(whole("9223372036854775807"), 2n ** 63n - 1n);
    assert.equal(grouped(whole("9007199254740993")), "9\u202f007\u202f199\u202f254\u202f740\u202f993");
});

test("shares", () => {
    assert.deepEqual([percent(0), percent(0.00001), percent(0.24468), percent(1)], ["0.00 %", "<0.01 %", "24.47 %", "100.00 %"]);
});

test("an axis has round marks", () => {
    assert.deepEqual(marks(0, 1_000, 5), [0, 200, 400, 600, 800, 1_000]);
    assert.ok(marks(-5, 3e18, 10).length <= 1_000);
});

test("hostile names are text in every file", () => {
    const name = `</text><script>ran=1</script>"'&`;
    const svg = new Svg(10, 10);
    svg.fillStyle = `red"/><script>`;
    svg.fillText(name, 1, 2);
    assert.ok(!/<script|<\/text><|'&/.test(svg.text().replace("</text>\n", "")), svg.text());
    assert.equal(csv([["a,b", 'q"', "=1+1", -3, 2n ** 60n]]), `"a,b","q""",'=1+1,-3,1152921504606846976\r\n`);
});

test("a shell reads a name as one word, and a path never as an option", () => {
    for (const name of ["plain", "it's", "$(id) `id` !x", "a;id", "two\nlines", "", "*", "~root", "-rf", "{a,b}", "#x", "é"])
        assert.equal(execFileSync("sh", ["-c", `printf '%s|' ${word(name)}`], { encoding: "utf8" }), `${name}|`);
    assert.deepEqual([path("-rf"), path("a b"), path("boots/a")], ["./-rf", "'a b'", "boots/a"]);
});

/** Relative luminance, by WCAG 2. */
function luminance(colour) {
    const [r, g, b] = [1, 3, 5]
        .map(i => Number.parseInt(colour.slice(i, i + 2), 16) / 255)
        .map(v => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
const contrast = (a, b) => {
    const [light, dark] = [luminance(a), luminance(b)].sort((x, y) => y - x);
    return (light + 0.05) / (dark + 0.05);
};

test("text on colours can be read in both themes", () => {
    for (const palette of [LIGHT, DARK]) {
        const fills = [...Object.values(palette.kinds).flat(), ...palette.other, ...palette.phases, palette.unexplained];
        for (const fill of fills)
            assert.ok(contrast(fill, palette.onFill) >= 4.5, `${palette.onFill} on ${fill}: ${contrast(fill, palette.onFill)}`);
        for (const text of [palette.text, palette.faint])
            assert.ok(contrast(text, palette.background) >= 4.5 && contrast(text, palette.gutter) >= 4.5, text);
        for (const line of [palette.path, palette.meanings.computing, palette.meanings.disk, palette.selected, ...palette.lines])
            assert.ok(contrast(line, palette.background) >= 3, line);
    }
});

test("what is built into the page is under a licence that is allowed, and its notice is in the script", async () => {
    const { packages } = JSON.parse(await readFile(new URL("../package-lock.json", import.meta.url), "utf8"));
    // esbuild builds the page, but is not part of it.
    const shipped = Object.entries(packages).filter(
        ([path, { dev, optional }]) => !["", "node_modules/esbuild"].includes(path) && !dev && !optional,
    );
    assert.deepEqual(
        shipped.map(([path, { license }]) => [path, license]),
        [["node_modules/preact", "MIT"]],
    );
    assert.match(await readFile(new URL("../build.mjs", import.meta.url), "utf8"), /node_modules\/preact\/LICENSE/);
});
