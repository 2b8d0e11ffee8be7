// The page of a lake: its numbers are those of the document.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { fragment, LAKE, LAKE_JSON, ofLake, open, saved, settled } from "./support.mjs";

const lakeDocument = async () => JSON.parse(await readFile(LAKE_JSON, "utf8"));

test("lake: totals over time are those of the document, and a mark leads to a regression", ofLake, async () => {
    const { kinds, days, kernels, boots } = await lakeDocument();
    const page = await open("", { path: LAKE });
    assert.equal(await page.getAttribute("#boots", "data-boots"), String(boots));
    await page.selectOption("#kind", "1");
    await settled(page);
    const points = (await saved(page)).slice(1);
    const wanted = kinds[1].cells.map(cell =>
        [kernels[cell.kernel], days[cell.day], cell.boots, cell.not_ended, cell.p50_ns, cell.p95_ns, 1].map(String),
    );
    const inOrder = rows => rows.map(row => row.join()).sort();
    assert.deepEqual(inOrder(points), inOrder(wanted));
    assert.match(await page.textContent("#meaning"), /^Each point is the median/);
    // All kinds: the mean of their medians, weighted by boots that ended.
    await page.selectOption("#kind", "-1");
    await settled(page);
    assert.match(await page.textContent("#meaning"), /mean of their medians/);
    const [, first] = await saved(page);
    const cells = kinds.map(kind => kind.cells.find(cell => days[cell.day] === first[1]));
    const ended = cells.map(cell => cell.boots - cell.not_ended);
    const mean = cells.reduce((sum, cell, i) => sum + ended[i] * cell.p50_ns, 0) / ended.reduce((a, b) => a + b);
    assert.ok(Math.abs(Number(first[4]) - mean) < 1 && first[6] === "3", `${first} ${mean}`);
    // The marks of day ten: each click takes the next regression of that day.
    const box = await page.locator(".overtime canvas").boundingBox();
    const right = box.width - Math.min(190, box.width * 0.25);
    const x = 76 + (10.5 * (right - 76)) / 30;
    for (const regression of ["0", "1", "2", "0"]) {
        await page.mouse.click(box.x + x, box.y + 12);
        await settled(page);
        assert.equal((await fragment(page)).get("regression"), regression);
    }
    assert.match(await page.textContent("#picked"), /initcall acpi_init takes 60\.0 ms of a boot since 2026-03-11, with 6\.12 on kind-0\./);
    await page.getByRole("button", { name: "the boots behind it" }).click();
    await settled(page);
    assert.equal((await fragment(page)).get("view"), "regressions");
    const [download] = await Promise.all([page.waitForEvent("download"), page.selectOption("#save", "svg")]);
    assert.ok((await readFile(await download.path(), "utf8")).includes(">6.12<"));
    assert.equal(await page.evaluate(() => typeof ran), "undefined");
    page.check();
});

test("lake: one row with one kernel is one line, which opens to its kinds, and leads to boots", ofLake, async () => {
    const { regressions } = await lakeDocument();
    const page = await open("#view=regressions", { path: LAKE });
    const rows = async () =>
        page.$$eval('[aria-label="Regressions"] tbody tr:not([aria-hidden])', all => all.map(row => row.children[1].textContent));
    assert.deepEqual((await rows()).length, 2);
    assert.equal((await rows())[0], "on 2 kinds");
    await page.getByRole("button", { name: "initcall acpi_init" }).click();
    await settled(page);
    assert.deepEqual((await rows()).slice(0, 3), ["on 2 kinds", "kind-0", "kind-1"]);
    // An opened group shows its most expensive member; its members lead to theirs.
    assert.equal((await fragment(page)).get("regression"), "0");
    await page.getByRole("button", { name: "initcall acpi_init" }).nth(2).click();
    await settled(page);
    assert.equal((await fragment(page)).get("regression"), "1");
    const boots = await page.$$eval('[aria-label="Boots behind it"] tbody tr:not([aria-hidden])', all =>
        all.map(row => row.children[0].textContent),
    );
    assert.deepEqual(
        boots,
        regressions[1].boots.map(boot => boot.boot_id),
    );
    assert.equal(await page.textContent("#command"), `bootscope lake ask 'a lake' boots --where 'machine=it'\\''s <b>one</b>'`);
    await page.getByRole("button", { name: boots[2] }).click();
    await settled(page);
    assert.equal(
        await page.textContent("#command"),
        `bootscope lake ask 'a lake' boots --where machine=${regressions[1].boots[2].machine}`,
    );
    // The saved table has all members, whether groups are open or not.
    const all = (await saved(page)).slice(1);
    assert.deepEqual(
        all.map(row => [Number(row[7]), Number(row[8]), Number(row[9]), Number(row[11])]),
        regressions.map(one => [one.slower_ns, one.slower_low_ns, one.slower_high_ns, one.p]),
    );
    await page.fill("#filter", "kind-1");
    await settled(page);
    assert.deepEqual(await rows(), ["kind-1"]);
    // The same by a link and by a click: its kind over time.
    const again = await open(await page.evaluate(() => location.hash), { path: LAKE });
    assert.match(await again.textContent("#sentence"), /on kind-1\./);
    await again.getByRole("button", { name: "this kind over time" }).click();
    await settled(again);
    assert.equal(await again.inputValue("#kind"), "1");
    page.check();
    again.check();
});

test("lake: keys lead to every view, which has what the document has", ofLake, async () => {
    const document = await lakeDocument();
    const page = await open("", { path: LAKE });
    for (const [key, view, list, column, field] of [
        ["3", "rows", "slowest_rows", 1, "mean_ns"],
        ["4", "machines", "outliers", 6, "slower_ns"],
        ["5", "pays", "what_pays", 3, "per_day_ns"],
        ["2", "regressions", "regressions", 7, "slower_ns"],
    ]) {
        await page.keyboard.press(key);
        await settled(page);
        assert.equal((await fragment(page)).get("view"), view);
        assert.deepEqual(
            (await saved(page)).slice(1).map(row => Number(row[column])),
            document[list].map(one => one[field]),
        );
    }
    await page.keyboard.press("4");
    await page.getByRole("button", { name: /^Not reporting/ }).click();
    await settled(page);
    assert.deepEqual(
        (await saved(page)).slice(1).map(row => Number(row[4])),
        document.missing.map(one => one.silent_days),
    );
    assert.equal(await page.evaluate(() => typeof ran), "undefined");
    assert.equal(await page.locator("img, iframe, object, embed, link").count(), 0);
    page.check();
});
