// The page of a bench: its numbers are those of the document.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { BENCH, BENCH_JSON, numbers, ofBench, open, saved, settled } from "./support.mjs";

const benchDocument = async () => JSON.parse(await readFile(BENCH_JSON, "utf8"));

test("bench: the spread of each phase and row is that of the document", ofBench, async () => {
    const { results, boots } = await benchDocument();
    const page = await open("", { path: BENCH });
    assert.equal(await page.getAttribute("#boots", "data-boots"), String(boots.length));
    for (const [i, variant] of results.variants.entries()) {
        await page.selectOption("#variant", String(i));
        await settled(page);
        const phases = (await saved(page)).slice(1);
        const wanted = [...variant.phases.map(({ name, length }) => [name, length]), ["total", variant.total]];
        assert.deepEqual(
            phases.map(([name, median, low, high, mean, sd]) => [name, ...[median, low, high, mean, sd].map(Number)]),
            wanted.map(([name, l]) => [name, l.median.estimate, l.median.low, l.median.high, l.mean, l.sd]),
        );
        await page.getByRole("button", { name: "Rows", exact: true }).click();
        await settled(page);
        const rows = (await saved(page)).slice(1);
        assert.deepEqual(
            rows.map(row => Number(row[4])),
            variant.rows.map(row => row.mean),
        );
        await page.getByRole("button", { name: "Boots", exact: true }).click();
        await settled(page);
        const listed = (await saved(page)).slice(1);
        assert.deepEqual(
            listed.map(row => row[3]),
            boots.filter(boot => boot.variant === i).map(boot => String(boot.total_ns ?? "")),
        );
        await page.getByRole("button", { name: "Phases", exact: true }).click();
    }
    assert.equal(await page.evaluate(() => typeof ran), "undefined");
    page.check();
});

test("bench: what differs, with its interval and verdict", ofBench, async () => {
    const { results } = await benchDocument();
    const page = await open("#view=against&variant=3", { path: BENCH });
    const against = results.comparisons.find(one => one.variant === 3);
    assert.equal(await page.getAttribute("#change", "data-ns"), String(against.total.difference.estimate));
    const rows = (await saved(page)).slice(1);
    const wanted = [against.total, ...[...against.phases, ...against.rows].map(one => one.by)];
    assert.deepEqual(
        rows.map(row => [Number(row[2]), Number(row[3]), Number(row[4]), row[7]]),
        wanted.map(by => [by.difference.estimate, by.difference.low, by.difference.high, by.change]),
    );
    await page.fill("#filter", "^start");
    await settled(page);
    assert.ok((await saved(page)).slice(1).every(row => row[1].startsWith("start")));
    page.check();
});

test("sweep: points, models and predictions are those of the document, and a link opens the same row", ofBench, async () => {
    const { results } = await benchDocument();
    const page = await open("", { path: BENCH });
    await page.keyboard.press("3");
    await settled(page);
    for (const [i, slice] of results.laws.entries()) {
        await page.selectOption("#slice", String(i));
        await settled(page);
        const rows = (await saved(page)).slice(1);
        const wanted = slice.rows.flatMap(row => [
            ...row.points.map(point => [point.size, "measured", point.mean]),
            ...row.predicted.map(point => [point.size, "predicted", point.time]),
        ]);
        assert.deepEqual(
            rows.map(row => [Number(row[5]), row[6], Number(row[7])]),
            wanted,
        );
    }
    await page.selectOption("#slice", "0");
    await page.getByRole("button", { name: "start_aps" }).click();
    await settled(page);
    assert.equal(await page.getAttribute("#law", "data-row"), "start_aps");
    // The model's value at each point, as the program computes it: base + slope · n.
    const row = results.laws[0].rows.find(one => one.name === "start_aps");
    const models = await numbers(page, "#points tbody td:nth-child(3) span");
    assert.deepEqual(
        models.map(Number),
        row.points.map(point => row.base + row.slope * point.size),
    );
    const again = await open(await page.evaluate(() => location.hash), { path: BENCH });
    await settled(again);
    assert.equal(await again.getAttribute("#law", "data-row"), "start_aps");
    const [download] = await Promise.all([again.waitForEvent("download"), again.selectOption("#save", "svg")]);
    const svg = await readFile(await download.path(), "utf8");
    // A dot for each boot with that memory: four sizes in eight rounds. One of them may have hung.
    assert.ok((svg.match(/<rect/g) ?? []).length > 31 && svg.includes("not measured"), svg.slice(0, 500));
    page.check();
    again.check();
});
