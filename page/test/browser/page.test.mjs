// The page around the views: history, links, pictures, colours, and a page that is cut off or has no scripts.
import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import { browser, folder, fragment, numbers, open, options, PAGE, settled, show, TWO } from "./support.mjs";

test("findings: price and remedy, and evidence leads to its span", options, async () => {
    const page = await open("#view=findings");
    assert.deepEqual(
        await numbers(page, "#app .findings li > p > strong"),
        show.findings.map(finding => String(finding.cost_ns)),
    );
    if (show.findings.length === 0) return;
    const [
        {
            remedy,
            evidence: [first],
            evidence_count,
        },
    ] = show.findings;
    assert.ok((await page.locator("#app .findings li").first().innerText()).includes(remedy));
    // The joint saving is the one that the command prints.
    assert.equal(await page.getAttribute(".remarks", "data-ns"), String(show.found.together_ns));
    assert.match(await page.locator(".remarks").innerText(), /^together: .* \(what they share counts once\)/);
    const evidence = page.locator("#app .findings details").first();
    await evidence.locator("summary").click();
    assert.match(await evidence.locator("li").first().innerText(), new RegExp(`: ${first.purpose}$`));
    // All spans are there, and those left out are counted.
    assert.equal(await evidence.locator("button.pick").count(), 20);
    await evidence.locator("button.link").click();
    assert.ok((await evidence.locator("button.pick").count()) > 20);
    assert.equal(await evidence.locator("button.pick").count(), evidence_count - 5);
    assert.match(await evidence.innerText(), /5 shorter spans that the page does not have/);
    await page.locator("#app .findings .list button").first().click();
    await settled(page);
    assert.equal((await fragment(page)).get("view"), "tracks");
    // The evidence is a span, or a stretch of a thread, which has its end listed too.
    const [length, start] = await numbers(page, ".details .figures dd");
    assert.deepEqual([length, start], [String(first.end_ns - first.start_ns), String(first.start_ns)]);
    page.check();
});

test("Back leads to the view and the selection before, and not past the page", options, async () => {
    const page = await open("#view=overview");
    const at = async () => {
        await settled(page);
        const now = await fragment(page);
        return [now.get("view"), now.get("span")];
    };
    await page.locator("nav button", { hasText: "Timeline" }).click();
    await settled(page);
    await page.evaluate(() => (location.hash = `${location.hash}&span=0`));
    await settled(page);
    // Moves and steps along the path do not make new places in the history.
    for (const key of ["w", "d", "s"]) await page.keyboard.press(key);
    await settled(page);
    await page.locator("nav button", { hasText: "Where" }).click();
    assert.deepEqual(await at(), ["where", "0"]);
    await page.goBack();
    assert.deepEqual(await at(), ["tracks", "0"]);
    await page.goBack();
    assert.deepEqual(await at(), ["tracks", null]);
    await page.goBack();
    assert.deepEqual(await at(), ["overview", null]);
    assert.equal(await page.locator("nav [aria-current]").innerText(), "Overview");
    await page.goForward();
    assert.deepEqual(await at(), ["tracks", null]);
    page.check();
});

test("path: the next step is in sight, whatever the window was", options, async () => {
    const page = await open("#view=path&from=0&to=1000");
    for (let i = 0; i < 12; i += 1) {
        await page.keyboard.press("]");
        await settled(page);
        const [[length, start], now] = [(await numbers(page, ".details .figures dd")).map(Number), await fragment(page)];
        const [from, to] = now.has("from") ? [Number(now.get("from")), Number(now.get("to"))] : [-Infinity, Infinity];
        assert.ok(from <= start + 1 && start + length <= to + 1, `step ${i}: ${start} and ${length} in ${from} to ${to}`);
    }
    page.check();
});

test("path: a step lists what its thread did in it, with the part inside", options, async () => {
    const page = await open("#view=path");
    let partly = 0;
    for (let i = 0; i < 15; i += 1) {
        await page.keyboard.press("]");
        await settled(page);
        const [length] = (await numbers(page, ".details .figures dd")).map(Number);
        const parts = await page.$$eval("#did li", all => all.map(one => [Number(one.dataset.ns), one.textContent]));
        for (const [part] of parts) assert.ok(part > 0 && part <= length, `${part} of ${length}`);
        partly += parts.filter(([, text]) => / of /.test(text)).length;
    }
    assert.ok(partly > 0, "no span goes on outside of its step");
    page.check();
});

test("a link opens the same view", options, async () => {
    const page = await open("#view=path");
    for (const key of ["]", "]", "]", "f"]) await page.keyboard.press(key);
    await settled(page);
    const [address, text] = [await page.evaluate(() => location.hash), await page.locator(".details").innerText()];
    const again = await open(address);
    await settled(again);
    assert.equal(await again.evaluate(() => location.hash), address);
    assert.equal(await again.locator(".details").innerText(), text);
    again.check();
});

test("the address is not written at each frame, and is that of the last", options, async () => {
    const page = await open("#view=tracks");
    const written = await page.evaluate(
        () =>
            new Promise(done => {
                let count = 0;
                const replace = history.replaceState.bind(history);
                history.replaceState = (...args) => {
                    count += 1;
                    replace(...args);
                };
                let left = 60;
                const next = () => {
                    document.body.dispatchEvent(new KeyboardEvent("keydown", { key: left % 2 ? "w" : "d", bubbles: true }));
                    if ((left -= 1) > 0) requestAnimationFrame(next);
                    else done(count);
                };
                next();
            }),
    );
    assert.ok(written <= 10, `${written} times in 60 frames`);
    await settled(page);
    const address = await page.evaluate(() => location.hash);
    await page.keyboard.press("d");
    await settled(page);
    assert.notEqual(await page.evaluate(() => location.hash), address);
    page.check();
});

test("pictures are files of their own, with names as text", options, async () => {
    const page = await open("#view=tracks");
    const file = async format => {
        const [download] = await Promise.all([page.waitForEvent("download"), page.selectOption("#save", format)]);
        return readFile(await download.path());
    };
    const svg = (await file("svg")).toString("utf8");
    const read = await page.evaluate(text => {
        const made = new DOMParser().parseFromString(text, "image/svg+xml");
        return {
            wrong: made.querySelector("parsererror")?.textContent,
            scripts: made.querySelectorAll("script, image, foreignObject").length,
            boxes: made.querySelectorAll("rect").length,
        };
    }, svg);
    assert.deepEqual({ ...read, boxes: read.boxes > 20 }, { wrong: undefined, scripts: 0, boxes: true });
    const png = await file("png");
    assert.equal(png.subarray(1, 4).toString(), "PNG");
    page.check();
});

test("light, dark, and as the system", options, async () => {
    const colour = page => page.evaluate(() => getComputedStyle(document.querySelector("#app")).backgroundColor);
    const page = await open("", { colorScheme: "dark" });
    assert.equal(await colour(page), "rgb(22, 24, 26)");
    await page.selectOption("#theme", "light");
    await settled(page);
    assert.equal(await colour(page), "rgb(255, 255, 255)");
    page.check();
});

test("a page that is cut off says so, and shows what there is", options, async () => {
    const whole = await readFile(PAGE, "utf8");
    const parts = [...whole.matchAll(/<script type="application\/x-bootscope">/g)].map(match => match.index);
    const path = join(folder, "cut.html");
    // Cut in the middle of a part, between two, and before the first.
    for (const [at, says] of [
        [parts[5] + 60, /cut off/],
        [parts[6], /cut off/],
        [parts[0], /^$/],
    ]) {
        await writeFile(path, whole.slice(0, at));
        const page = await open("", { path, whole: false });
        if (at === parts[0]) {
            assert.ok(await page.locator("#tables").isVisible(), "the tables");
            continue;
        }
        await page.waitForSelector(".warning >> text=/cut off|damaged/");
        const alerts = await page.locator("#app [role=alert]").allInnerTexts();
        assert.ok(
            alerts.some(text => says.test(text)),
            alerts.join("; "),
        );
        assert.equal(await page.getAttribute("#total", "data-ns"), String(show.total_ns));
        page.check();
    }
    const [from, to] = [parts[4] + 80, parts[4] + 84];
    await writeFile(path, `${whole.slice(0, from)}AAAA${whole.slice(to)}`);
    const page = await open("", { path, whole: false });
    await page.waitForSelector(".warning >> text=/damaged/");
    page.check();
});

test("without scripts, or without what unpacks, the tables are there", options, async () => {
    const page = await open("", { javaScriptEnabled: false, whole: false });
    const text = await page.locator("#tables").innerText();
    assert.ok(text.includes("Phases") && text.includes("Where the boot path went"), text.slice(0, 200));
    const old = await browser.newPage();
    await old.addInitScript(() => delete window.DecompressionStream);
    await old.goto(pathToFileURL(PAGE).href);
    await old.waitForSelector("#app .warning");
    assert.match(await old.locator("#app .warning").innerText(), /DecompressionStream/);
    assert.ok(await old.locator("#tables table").first().isVisible());
});

test("the header keeps its height while one types", options, async () => {
    const page = await open("#view=tracks");
    const height = async () => (await page.locator("#app header").boundingBox()).height;
    const before = await height();
    for (const text of ["a", "(", "nothing is called so"]) {
        await page.locator("#find").fill(text);
        await settled(page);
        assert.equal(await height(), before, text);
    }
    page.check();
});

test("on a narrow screen what is selected is seen, and rows are as high as the table counts on", options, async () => {
    const viewport = { width: 400, height: 800 };
    const page = await open("#view=where", { viewport });
    await page.locator(".where .table tbody button").first().click();
    await settled(page);
    const box = await page.locator(".details").boundingBox();
    assert.ok(box && box.height > 60 && box.y + box.height <= viewport.height + 1, JSON.stringify(box));
    for (const view of ["tracks", "path"]) {
        const chart = await open(`#view=${view}&span=0`, { viewport });
        const panel = await chart.locator(".details").boundingBox();
        assert.ok(panel && panel.height > 60 && panel.y + panel.height <= viewport.height + 1, `${view}: ${JSON.stringify(panel)}`);
        chart.check();
        await chart.close();
    }
    // Every shown column is fully visible; the saved table has those that are left out.
    for (const [path, fragment, name] of [
        [PAGE, "view=where", "self"],
        [TWO, "view=compare", "change"],
        [PAGE, "view=memory", "amount"],
    ]) {
        if (!path) continue;
        const one = await open(`#${fragment}`, { path, viewport: { width: 390, height: 844 } });
        const columns = await one.$$eval("#app main thead th", all =>
            all.map(th => ({ text: th.textContent.trim(), right: th.getBoundingClientRect().right })),
        );
        assert.ok(
            columns.some(column => column.text.startsWith(name)),
            `${fragment}: ${JSON.stringify(columns)}`,
        );
        if (fragment !== "view=memory")
            for (const column of columns) assert.ok(column.right <= 391, `${fragment}: ${JSON.stringify(column)}`);
        one.check();
        await one.close();
    }
    for (const view of ["where", "console", "whatif"]) {
        await page.evaluate(view => (location.hash = `#view=${view}`), view);
        await settled(page);
        const heights = await page.$$eval(".table tbody tr:not([aria-hidden])", rows => [
            ...new Set(rows.map(row => Math.round(row.getBoundingClientRect().height))),
        ]);
        // A line of the console is wrapped: a row has the height of its lines.
        const known = view === "console" ? heights.map(height => 25 + 18 * Math.round((height - 25) / 18)) : [25];
        assert.deepEqual(heights, known, view);
        assert.ok(heights.length > 0, view);
    }
    page.check();
});

test("on paper the picture stands above the tables, and nothing lies over them", options, async () => {
    const page = await open("#view=overview");
    const shown = selector => page.$eval(selector, one => one.getClientRects().length > 0);
    await page.emulateMedia({ media: "print" });
    const [picture, tables] = await Promise.all(["#app", "#tables"].map(one => page.locator(one).boundingBox()));
    assert.ok(picture.height > 50 && picture.y + picture.height <= tables.y + 1, "the picture is above the tables");
    assert.ok(await shown("#app .pathflame canvas"));
    assert.ok(!(await shown("#app header")) && !(await shown("#app .columns")), "the tables are on paper once");
    await page.evaluate(() => (document.documentElement.dataset.theme = "dark"));
    assert.ok(!(await shown("#app")), "no dark picture");
    assert.ok(await shown("#tables"));
    page.check();
});
