// Other boots than the sample: two on one page, and boots of odd shapes.
import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { fragment, numbers, ODD, odd, open, options, SHOW_TWO, saved, settled, show, TWO, two, VIEWS } from "./support.mjs";

test("compare: each row before and after, and the changes sum to the difference", two, async () => {
    const later = JSON.parse(await readFile(SHOW_TWO, "utf8"));
    const page = await open("#view=compare", { path: TWO });
    assert.equal(await page.getAttribute("#change", "data-ns"), String(later.total_ns - show.total_ns));
    assert.equal(await page.getAttribute(".phases .sum", "data-ns"), String(later.total_ns - show.total_ns));
    const rows = (await saved(page)).slice(1);
    const [before, after] = [show, later].map(
        one =>
            new Map(
                one.where.filter(row => /^[ -~·]*$/.test(row.name)).map(row => [row.name.replace(" (indirect call)", ""), row.self_ns]),
            ),
    );
    for (const name of new Set([...before.keys(), ...after.keys()])) {
        const [was, is] = [before.get(name), after.get(name)];
        const what = was === undefined ? "appeared" : is === undefined ? "vanished" : was === is ? "same" : "changed";
        assert.deepEqual(
            rows.find(row => row[0] === name),
            [name, String(was ?? ""), String(is ?? ""), String((is ?? 0) - (was ?? 0)), what],
        );
    }
    assert.equal(
        rows.reduce((sum, row) => sum + Number(row[3]), 0),
        later.total_ns - show.total_ns,
    );
    assert.ok(rows.some(row => row[4] === "appeared") && rows.some(row => row[4] === "vanished"));
    await page.getByRole("button", { name: "Stacks" }).click();
    await settled(page);
    assert.ok(await page.locator(".sheet .flame canvas").isVisible());
    assert.equal((await fragment(page)).get("compared"), "flame");
    // The earlier boot's stacks are another picture: they have the vanished rows.
    const picture = async () => {
        const [download] = await Promise.all([page.waitForEvent("download"), page.selectOption("#save", "svg")]);
        return await readFile(await download.path(), "utf8");
    };
    const later_picture = await picture();
    await page.getByRole("button", { name: "the earlier boot" }).click();
    await settled(page);
    assert.notEqual(await picture(), later_picture);
    page.check();
});

test("compare: what a page of two boots opens with, unless another view is asked for", two, async () => {
    for (const [asked, shown] of [
        ["", "compare"],
        ["#view=overview", "overview"],
    ]) {
        const page = await open(asked, { path: TWO });
        await settled(page);
        assert.equal((await fragment(page)).get("view") ?? "overview", shown);
        page.check();
    }
});

test("memory: of two boots each has a column under its name, to the byte", two, async () => {
    const page = await open("#view=memory", { path: TWO });
    const heads = await page.$$eval("#memory thead th.n", all => all.map(th => th.textContent));
    assert.deepEqual(heads, await page.$$eval("#boot option", all => all.map(option => option.textContent)));
    const later = JSON.parse(await readFile(SHOW_TWO, "utf8"));
    const first = await page.$$eval("#memory tbody tr:first-child td.n span[data-bytes]", all => all.map(one => one.dataset.bytes));
    assert.deepEqual(
        first,
        [show, later].map(one => String(one.subject.memory_bytes)),
    );
    page.check();
});

test("compare: the other boot is a whole boot", two, async () => {
    const later = JSON.parse(await readFile(SHOW_TWO, "utf8"));
    const page = await open("#view=overview&boot=1", { path: TWO });
    assert.equal(await page.getAttribute("#total", "data-ns"), String(later.total_ns));
    assert.deepEqual(
        await numbers(page, "#phases tbody tr"),
        later.phases.map(phase => String(phase.end_ns - phase.start_ns)),
    );
    await page.selectOption("#boot", "0");
    await settled(page);
    assert.equal(await page.getAttribute("#total", "data-ns"), String(show.total_ns));
    page.check();
});

// Pages of boots of unusual shapes, each with its figures.
test("tracks: silences and watched values are instants, to be picked, stepped along and saved", options, async () => {
    const page = await open("#view=tracks");
    const {
        silences: [silence],
    } = show.silences;
    const moments = silence.where.map(({ moments }) => moments);
    const wanted = [
        ["silence", "silences of the console", silence.start_ns, silence.end_ns - silence.start_ns],
        ...silence.where.flatMap(({ cpus: [cpu] }, i) =>
            moments[i].map(({ at_ns, stack }) => [stack[0], `CPU ${cpu} when stopped`, at_ns, 0]),
        ),
        ...show.watched.readings.map(({ at_ns, value }) => [
            value === null ? "unmapped" : String(value),
            `value of ${show.watched.variable}`,
            at_ns,
            0,
        ]),
    ];
    const shown = (await saved(page)).filter(([, lane]) => /^(silences|CPU \d+ when|value of)/.test(lane));
    // The page has all text harmless, and JSON rounds what doubles do not hold.
    const plain = rows =>
        rows.map(([text, lane, ...times]) => [
            /^\d{17,}$/.test(text) ? "large" : text.replace(/[^ -~].*|\\.*/s, ""),
            lane.replace(/[^ -~].*|\\.*/s, ""),
            ...times.map(String),
        ]);
    assert.deepEqual(plain(shown), plain(wanted));
    await page.keyboard.press("t");
    const table = page.getByRole("region", { name: "Moments that are seen" });
    await table.getByRole("button", { name: "7", exact: true }).click();
    await settled(page);
    const first = show.watched.readings[0];
    assert.deepEqual(await numbers(page, ".details .figures dd"), [String(first.at_ns)]);
    assert.match(await page.locator(".details").innerText(), new RegExp(first.function));
    await page.keyboard.press(".");
    await settled(page);
    assert.equal(await page.locator(".details h2").innerText(), "unmapped");
    await page.keyboard.press("f");
    await settled(page);
    const at = await fragment(page);
    const { at_ns } = show.watched.readings[1];
    assert.ok(Number(at.get("from")) < at_ns && at_ns < Number(at.get("to")) && at.get("to") - at.get("from") < show.total_ns / 5);
    await page.keyboard.press(",");
    await page.keyboard.press(",");
    await settled(page);
    assert.deepEqual(await numbers(page, ".details .figures dd"), [String(first.at_ns)], "the first of its lane");
    // With the pointer: the silence lies in the first lane.
    await page.evaluate(() => (location.hash = "#view=tracks"));
    await settled(page);
    const box = await page.locator(".chart .canvas canvas").boundingBox();
    const gutter = Math.min(190, Math.round(box.width * 0.26));
    const first_ns = Math.min(0, show.phases[0].start_ns);
    const place =
        box.x + gutter + (((silence.start_ns + silence.end_ns) / 2 - first_ns) / (show.total_ns - first_ns)) * (box.width - gutter);
    await page.mouse.move(place, box.y + 28);
    assert.match(await page.locator(".tip").innerText(), /^silence 80.0 ms/);
    await page.mouse.click(place, box.y + 28);
    await settled(page);
    assert.deepEqual(await numbers(page, ".details .figures dd"), ["80000000", String(silence.start_ns)]);
    page.check();
});

test("memory: what was measured, to the byte, and its share of the machine's", options, async () => {
    const page = await open();
    await page.keyboard.press("M");
    await settled(page);
    assert.equal((await fragment(page)).get("view"), "memory");
    const { subject, metrics } = show;
    const wanted = [
        subject.memory_bytes,
        metrics.vmm_max_rss_bytes,
        metrics.guest_total_bytes,
        metrics.guest_available_bytes,
        metrics.guest_total_bytes - metrics.guest_available_bytes,
    ];
    assert.deepEqual(await page.$$eval("#memory tbody tr", rows => rows.map(row => Number(row.dataset.bytes))), wanted);
    assert.deepEqual(
        (await saved(page)).slice(1).map(([, , bytes]) => Number(bytes)),
        wanted,
    );
    const used = page.locator("#memory tbody tr").last();
    assert.match(await used.innerText(), /^used in the guest\s+at the end mark\s+63.9 MiB\s+67\u202f000\u202f000\s+12.48 %/);
    page.check();
});

test("boots of odd shapes are shown in every view", odd, async () => {
    for (const file of (await readdir(ODD)).filter(name => name.endsWith(".html"))) {
        // Not JSON.parse, because it rounds numbers beyond doubles.
        const total = /"total_ns": (\d+)/.exec(await readFile(join(ODD, file.replace(".html", ".json")), "utf8"))[1];
        for (const view of VIEWS) {
            const page = await open(`#view=${view}`, { path: join(ODD, file) });
            await page.keyboard.press("t");
            await page.keyboard.press("]");
            await page.keyboard.press("w");
            await settled(page);
            assert.equal(await page.getAttribute("#total", "data-ns"), total, `${file}, ${view}`);
            page.check();
            await page.close();
        }
    }
});

test("tracks: where samples are all there is, each is an instant of its CPU", odd, async () => {
    const page = await open("#view=tracks", { path: join(ODD, "samples.html") });
    const rows = (await saved(page)).slice(1);
    assert.equal(rows.length, 200);
    for (const cpu of [0, 1]) {
        const times = rows.filter(([, lane]) => lane === `samples of CPU ${cpu}`).map(([, , at]) => Number(at));
        assert.deepEqual(
            times,
            Array.from({ length: 100 }, (_, i) => (2 * i + cpu) * 1_000_000),
        );
    }
    assert.equal(rows.filter(([function_]) => function_ === "memcpy").length, 133);
    page.check();
});

test("memory: a recording that says nothing of it says so", odd, async () => {
    const page = await open("#view=memory", { path: join(ODD, "one-span.html") });
    assert.match(await page.locator(".memory-view").innerText(), /says nothing of memory/);
    assert.equal(await page.locator("#memory").count(), 0);
    page.check();
});

test("times beyond what doubles hold are exact", odd, async () => {
    const far = 2n ** 54n + 3n;
    const page = await open("#view=tracks&span=0", { path: join(ODD, "far.html") });
    assert.deepEqual(await numbers(page, ".details .figures dd"), [String(far - 1n), "1"]);
    await page.keyboard.press(".");
    await settled(page);
    assert.deepEqual(await numbers(page, ".details .figures dd"), ["8", String(far)]);
    await page.evaluate(() => (location.hash = "#view=path&step=0"));
    await settled(page);
    assert.deepEqual(await numbers(page, ".details .figures dd"), [String(far + 9n), "0"]);
    page.check();
});
