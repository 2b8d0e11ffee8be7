// The page in headless Chromium: every view is driven, by keyboard too, and its numbers must equal those of `show --json`.
//
// `BOOTSCOPE_PAGE` names a page and `BOOTSCOPE_SHOW` the `show --json` of the same boot. The boot of
// crates/report/examples/sample.rs contains everything that a guest could do to harm a reader.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const [PAGE, SHOW] = [process.env.BOOTSCOPE_PAGE, process.env.BOOTSCOPE_SHOW];
const PROGRAM = process.env.CHROMIUM ?? "/usr/bin/chromium";
// Two boots on one page, and the figures of the later one; BOOTSCOPE_SHOW has those of the first.
const [TWO, SHOW_TWO] = [process.env.BOOTSCOPE_TWO, process.env.BOOTSCOPE_SHOW_TWO];
const VIEWS = ["overview", "path", "tracks", "merged", "where", "console", "findings", "whatif", "memory"];
/** Timeouts for one answer of the browser, and for a test. A busy host needs many times as long as a quiet one. */
const [PATIENCE_MS, LIMIT_MS] = [120_000, 600_000];
const options = {
    skip: PAGE && SHOW ? false : "BOOTSCOPE_PAGE and BOOTSCOPE_SHOW are not set: tests/exports/check-page sets them",
    timeout: LIMIT_MS,
};

const launch = () => chromium.launch({ executablePath: PROGRAM, args: ["--no-sandbox"], timeout: PATIENCE_MS });

let browser, show, folder;
before(async () => {
    if (options.skip) return;
    browser = await launch();
    show = JSON.parse(await readFile(SHOW, "utf8"));
    folder = await mkdtemp(join(tmpdir(), "bootscope-page-"));
});
after(async () => {
    await browser?.close();
    if (folder) await rm(folder, { recursive: true });
});

/** Opens the page, and fails on anything that goes wrong in it. */
async function open(fragment = "", { path = PAGE, whole = true, expected = [], ...context } = {}) {
    const page = await browser.newPage({ viewport: { width: 1280, height: 800 }, ...context });
    page.setDefaultTimeout(PATIENCE_MS);
    const wrong = [];
    page.on("pageerror", error => wrong.push(error.message));
    page.on("console", message => message.type() === "error" && wrong.push(message.text()));
    page.on("request", request => /^(file|blob|data|about):/.test(request.url()) || wrong.push(`asked for ${request.url()}`));
    await page.goto(pathToFileURL(path).href + fragment);
    if (whole) await page.waitForFunction(() => performance.getEntriesByName("bootscope-whole").length > 0);
    page.check = () =>
        assert.deepEqual(
            wrong.filter(text => !expected.some(known => text.includes(known))),
            [],
        );
    return page;
}

const numbers = (page, selector) => page.$$eval(selector, all => all.map(one => one.dataset.ns));
const fragment = async page => new URLSearchParams((await page.evaluate(() => location.hash)).slice(1));
/** The rows of the table that a view saves. */
async function saved(page) {
    const [download] = await Promise.all([page.waitForEvent("download"), page.selectOption("#save", "csv")]);
    const text = await readFile(await download.path(), "utf8");
    const rows = [];
    for (const [, quoted, plain, end] of text.matchAll(/(?:"((?:[^"]|"")*)"|([^,\r\n]*))(,|\r\n)/g)) {
        const cell = quoted !== undefined ? quoted.replaceAll('""', '"') : plain;
        if (!rows.length || rows.at(-1).done) rows.push({ cells: [], done: false });
        rows.at(-1).cells.push(cell);
        rows.at(-1).done = end !== ",";
    }
    return rows.map(row => row.cells);
}
/**
 * Waits until the page is drawn, the effects of that are done, and its address is written. Effects run after a frame, and draw
 * again.
 */
const settled = async page => {
    const drawn = () =>
        page.evaluate(() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 50)))));
    await drawn();
    await page.waitForFunction(() => document.documentElement.dataset.addressDue === undefined);
    await drawn();
};

test("nothing of the guest's runs, and nothing is loaded", options, async () => {
    for (const view of VIEWS) {
        const page = await open(`#view=${view}`, { expected: ["Content Security Policy"] });
        assert.equal(await page.evaluate(() => typeof ran), "undefined");
        assert.equal(await page.locator("img, iframe, object, embed, link").count(), 0);
        assert.equal(
            await page.evaluate(
                () => [...document.querySelectorAll("*")].filter(e => [...e.attributes].some(a => /^on/i.test(a.name))).length,
            ),
            0,
        );
        // Even if the markup got in, the policy keeps it from running or loading.
        await page.evaluate(() =>
            document.body.insertAdjacentHTML("beforeend", '<img src="https://example.org/x" onerror="window.ran=6">'),
        );
        await page.waitForTimeout(100);
        assert.equal(await page.evaluate(() => typeof ran), "undefined");
        await page.close();
    }
});

test("overview: total, phases and the first rows are those of show", options, async () => {
    const page = await open("#view=overview");
    assert.equal(await page.getAttribute("#total", "data-ns"), String(show.total_ns));
    assert.deepEqual(
        await numbers(page, "#phases tbody tr"),
        show.phases.map(phase => String(phase.end_ns - phase.start_ns)),
    );
    assert.deepEqual(
        await numbers(page, "#top tbody tr"),
        show.where.slice(0, 12).map(row => String(row.self_ns)),
    );
    // The rows that are not listed are summed in one row, and both tables state their sums.
    const rest = show.where.slice(12).reduce((sum, row) => sum + row.self_ns, 0);
    assert.deepEqual(await numbers(page, "#top tfoot tr"), [rest, show.total_ns].map(String));
    assert.deepEqual(await numbers(page, "#phases tfoot tr"), [String(show.phases.at(-1).end_ns - show.phases[0].start_ns)]);
    // A phase leads to its time.
    await page.locator("#phases tbody button").nth(1).click();
    await settled(page);
    const [from, to] = [(await fragment(page)).get("from"), (await fragment(page)).get("to")].map(Number);
    assert.ok(from <= show.phases[1].start_ns + 1 && to >= show.phases[1].end_ns - 1 && to > from, `${from} to ${to}`);
    assert.equal((await fragment(page)).get("view"), "path");
    assert.equal(await page.locator(".details h2").innerText(), show.phases[1].name);
    page.check();
});

test("overview: the boot path is a flame chart, with the largest rows named in it", options, async () => {
    const page = await open("#view=overview");
    const chart = page.locator(".pathflame .canvas");
    const label = await chart.getAttribute("aria-label");
    assert.ok(label.includes(show.where[0].name) && label.includes(show.where[1].name), label);
    assert.equal(await page.locator(".details").count(), 0, "nothing is selected, so nothing has room for it");
    const [download] = await Promise.all([page.waitForEvent("download"), page.selectOption("#save", "svg")]);
    const svg = await readFile(await download.path(), "utf8");
    assert.ok(svg.includes(show.where[0].name) && svg.includes(show.phases[1].name), "the picture has the phases and the largest row");
    assert.ok(svg.length < 100_000, `${svg.length} bytes`);
    // The row of threads leads to a step, and a label to its row.
    const box = await chart.boundingBox();
    const height = await page.evaluate(() => document.querySelector(".pathflame").clientHeight);
    let title = "";
    for (let y = box.y + height - 8; y > box.y && !/^Step/.test(title); y -= 16) {
        await page.mouse.click(box.x + box.width / 2, y);
        await settled(page);
        title = (await page.locator(".details h2").count()) > 0 ? await page.locator(".details h2").innerText() : "";
    }
    assert.match(title, /^Step/);
    page.check();
});

test("where: each row of show, to the nanosecond, and the sum is the total", options, async () => {
    const page = await open("#view=where");
    for (const [table, rows, title] of [
        ["where", show.where, "Where the boot path went"],
        ["functions", show.functions, "Functions on the boot path"],
        ["threads", show.where_all_threads, "All threads, summed"],
    ]) {
        await page.getByRole("button", { name: title }).click();
        await settled(page);
        assert.equal((await fragment(page)).get("table") ?? "where", table);
        const shown = (await saved(page)).slice(1).map(([, self, , total, count]) => [self, total, count]);
        assert.deepEqual(
            shown,
            rows.map(row => [String(row.self_ns), String(row.total_ns), String(row.count)]),
            table,
        );
        const sum = rows.reduce((sum, row) => sum + row.self_ns, 0);
        assert.equal(await page.getAttribute(".sum", "data-ns"), String(sum));
        assert.ok(table === "threads" ? sum >= show.total_ns : sum === show.total_ns, `${table}: ${sum} of ${show.total_ns}`);
    }
    await page.getByRole("button", { name: "Where the boot path went" }).click();
    await settled(page);
    assert.equal(await page.getAttribute(".sum", "data-ns"), String(show.total_ns));
    page.check();
});

test("where: filtered, sorted, and a row leads to its places", options, async () => {
    const page = await open("#view=where");
    await page.fill("#filter", "^initcall acpi_init$");
    await settled(page);
    const wanted = show.where.filter(row => /^initcall acpi_init$/.test(row.name));
    assert.deepEqual(
        (await saved(page)).slice(1).map(([name]) => name),
        wanted.map(row => row.name),
    );
    await page.fill("#filter", "(");
    await settled(page);
    assert.equal(await page.getAttribute("#filter", "aria-invalid"), "true");
    await page.fill("#filter", "");
    await page.getByRole("button", { name: "count" }).click();
    await settled(page);
    assert.equal(await page.locator(".sheet th[aria-sort='descending']").innerText(), "count ▾");
    const counts = await page.$$eval(".sheet tbody td:nth-child(5)", all => all.map(one => Number(one.textContent.replace(/\D/g, ""))));
    assert.deepEqual(
        counts,
        [...counts].sort((a, b) => b - a),
    );
    await page.getByRole("button", { name: "initcall acpi_init", exact: true }).click();
    await settled(page);
    const place = page.locator(".details .table tbody button").first();
    assert.equal(await place.innerText(), "initcall acpi_init");
    await place.click();
    await settled(page);
    const initcall = show.initcalls.find(one => one.name === "acpi_init");
    assert.deepEqual(await numbers(page, ".details .figures dd"), [String(initcall.elapsed_ns), String(initcall.start_ns)]);
    page.check();
});

test("where: a row of which only its phase is known leads to that phase", options, async () => {
    const row = show.where.find(({ name }) => /^\([\w ]+\)$/.test(name));
    const phase = show.phases.find(({ name }) => `(${name})` === row.name);
    const page = await open(`#view=where&filter=${encodeURIComponent(`^\\(${phase.name}\\)$`)}`);
    await page.locator(".where .table tbody button").first().click();
    await settled(page);
    await page.locator(".details").getByRole("button", { name: phase.name, exact: true }).click();
    await settled(page);
    const at = await fragment(page);
    assert.deepEqual([at.get("view"), at.get("range")], ["tracks", `${phase.start_ns},${phase.end_ns}`]);
    page.check();
});

test("path: the keyboard goes along it, and its steps sum to the boot", options, async () => {
    const page = await open("#view=path");
    await page.keyboard.press("]");
    await settled(page);
    const count = Number(/of (\d+)/.exec(await page.locator(".details h2").innerText())[1]);
    const steps = [];
    for (let i = 0; i < Math.min(count, 60); i += 1) {
        await settled(page);
        assert.equal((await fragment(page)).get("step"), String(i));
        const [length, start] = await numbers(page, ".details .figures dd");
        const why = await page.locator(".why").innerText();
        assert.ok(why.length > 10 && !/undefined|NaN/.test(why), why);
        steps.push({ start: Number(start), length: Number(length) });
        await page.keyboard.press("]");
    }
    let at = 0;
    for (const step of steps) {
        assert.equal(step.start, at);
        at += step.length;
    }
    if (count <= 60)
        assert.equal(
            steps.reduce((sum, step) => sum + step.length, 0),
            show.total_ns,
        );
    await page.keyboard.press("[");
    await settled(page);
    assert.equal((await fragment(page)).get("step"), String(Math.min(count, 60) - 2 + (count > 60 ? 1 : 0)));
    page.check();
});

test("tracks: keys move the window, search finds and steps", options, async () => {
    const page = await open("#view=tracks");
    const window = async () => {
        await settled(page);
        const now = await fragment(page);
        return now.has("from") ? [Number(now.get("from")), Number(now.get("to"))] : undefined;
    };
    assert.equal(await window(), undefined);
    await page.keyboard.press("w");
    const [from, to] = await window();
    assert.ok(from > 0 && to < show.total_ns && Math.abs((to - from) / show.total_ns - 0.7) < 0.05, `${from} to ${to}`);
    await page.keyboard.press("d");
    assert.ok((await window())[0] > from);
    await page.keyboard.press("a");
    assert.ok(Math.abs((await window())[0] - from) < 3);
    await page.keyboard.press("0");
    assert.equal(await window(), undefined);
    await page.keyboard.press("/");
    await page.keyboard.type("^initcall (?!level )");
    await settled(page);
    assert.equal(await page.locator("#found").innerText(), `${show.initcalls.length} spans`);
    await page.keyboard.press("Enter");
    await settled(page);
    assert.ok((await fragment(page)).has("span"));
    const first = [...show.initcalls].sort((a, b) => a.start_ns - b.start_ns)[0];
    assert.equal((await numbers(page, ".details .figures dd"))[0], String(first.elapsed_ns));
    await page.keyboard.press("Escape");
    await page.keyboard.press("f");
    const [left, right] = await window();
    assert.ok(left <= first.start_ns && right >= first.start_ns + first.elapsed_ns && right - left < show.total_ns);
    await page.keyboard.press("m");
    await page.keyboard.press("t");
    await settled(page);
    assert.ok(await page.getByRole("table", { name: "The longest spans that are seen" }).isVisible());
    await page.keyboard.press("?");
    await settled(page);
    assert.ok(await page.getByRole("dialog").isVisible());
    await page.keyboard.press("Escape");
    await settled(page);
    assert.equal(await page.getByRole("dialog").count(), 0);
    page.check();
});

test("tracks: whom the boot waited for in a time sums to that time, and leads to the step", options, async () => {
    const [from, to] = [0, Number(show.total_ns)];
    const page = await open(`#view=tracks&range=${from},${to}`);
    const times = (await numbers(page, ".causes [data-ns]")).map(Number);
    assert.ok(times.length > 1);
    assert.equal(
        times.reduce((sum, time) => sum + time, 0),
        to - from,
    );
    const causes = (await numbers(page, ".causes > li:not(.own) > button[data-ns]")).map(Number);
    assert.ok(causes.length > 0);
    assert.deepEqual(
        causes,
        [...causes].sort((a, b) => b - a),
    );
    await page.locator(".causes button").first().click();
    await settled(page);
    assert.ok((await fragment(page)).has("step"));
    await page.getByRole("button", { name: "back to the time selected before" }).click();
    await settled(page);
    assert.equal((await fragment(page)).get("range"), `${from},${to}`);
    // Dragging on the time axis selects the time from the beginning to the end of the drag, although details open.
    await page.keyboard.press("Escape");
    const [begin, end] = [to * 0.1, to * 0.9].map(Math.round);
    await page.evaluate(([begin, end]) => (location.hash = `#view=tracks&from=${begin}&to=${end}`), [begin, end]);
    await settled(page);
    const box = await page.locator(".chart .canvas").boundingBox();
    assert.equal(await page.locator(".details").count(), 0);
    const gutter = Math.min(190, Math.round(box.width * 0.26));
    const timeAt = x => begin + ((x - gutter) / (box.width - gutter)) * (end - begin);
    await page.mouse.move(box.x + 300, box.y + 8);
    await page.mouse.down();
    await page.mouse.move(box.x + 500, box.y + 8, { steps: 4 });
    await page.mouse.up();
    await settled(page);
    const [left, right] = (await fragment(page)).get("range").split(",").map(Number);
    assert.equal((await page.locator(".chart .canvas").boundingBox()).width, box.width, "the chart keeps its width");
    const pixel = (end - begin) / (box.width - gutter);
    assert.ok(
        Math.abs(left - timeAt(300)) < 2 * pixel && Math.abs(right - timeAt(500)) < 2 * pixel,
        `${left} to ${right}, dragged ${timeAt(300)} to ${timeAt(500)}`,
    );
    const shorter = (await numbers(page, ".causes [data-ns]")).map(Number);
    assert.ok(Math.abs(shorter.reduce((sum, time) => sum + time, 0) - (right - left)) < 2);
    page.check();
});

test("search: the results are a list to walk through, and the chart keeps its colours", options, async () => {
    const page = await open("#view=tracks&find=^initcall%20");
    const rows = page.locator(".results tbody tr:not([aria-hidden])");
    const found = Number(/^([\d\s\u202f\u00a0]+)/.exec(await page.locator("#found").innerText())[1].replace(/\D/g, ""));
    assert.match(await page.locator(".results .note").innerText(), /found; n and N go through them/);
    assert.ok(found > 2 && (await rows.count()) > 2, `${found} found`);
    await page.keyboard.press("n");
    await settled(page);
    assert.equal(await page.locator(".results tr.picked").count(), 1);
    const picked = await page.locator(".results tr.picked button").innerText();
    assert.equal(await page.locator(".details h2").innerText(), picked);
    await rows.nth(2).locator("button").click();
    await settled(page);
    assert.equal(await page.locator(".details h2").innerText(), await rows.nth(2).locator("button").innerText());
    assert.match(await page.locator(".results .note").innerText(), /^3 of /);
    page.check();
});

test("tracks: who types a whole name finds that span first", options, async () => {
    const page = await open("#view=tracks");
    const names = show.initcalls.map(row => row.name);
    const within = names.find(name => /^\w+$/.test(name) && names.some(other => other !== name && other.includes(name)));
    assert.ok(within, `no initcall's name is in another's: ${names}`);
    await page.fill("#find", within);
    await page.keyboard.press("Enter");
    await settled(page);
    assert.equal((await page.locator(".details h2").innerText()).split(" ").at(-1), within);
    page.check();
});

test("tracks: a span says what came before and after it, and whom the boot waited for between the two", options, async () => {
    const page = await open("#view=tracks&find=initcall");
    const seen = new Map();
    // Every initcall by its place: its neighbours are other initcalls of its thread.
    for (let i = 0; i < 40; i += 1) {
        await page.keyboard.press("n");
        await settled(page);
        const span = (await fragment(page)).get("span");
        if (span === null || seen.has(span)) break;
        const [length, start] = (await numbers(page, ".details .figures dd")).map(Number);
        const sides = await page.$$eval("#neighbours li", all =>
            all.map(one => ({ side: one.textContent.split(":")[0], between: one.querySelector("[data-ns]")?.dataset.ns })),
        );
        seen.set(span, { name: await page.locator(".details h2").innerText(), start, end: start + length, sides });
    }
    const gaps = [...seen.values()].flatMap(one =>
        one.sides
            .filter(side => side.side === "after" && side.between !== undefined)
            .map(side => ({ end: one.end, between: Number(side.between) })),
    );
    assert.ok(gaps.length > 0, `${seen.size} initcalls, no gap between two`);
    const starts = [...seen.values()].map(one => one.start);
    for (const { end, between } of gaps) assert.ok(starts.includes(end + between), `nothing begins ${between} after ${end}`);
    // By name: from one to another, by the button and a search.
    const names = [...seen.values()].map(one => one.name);
    const once = [...seen].filter(([, one]) => one.name.startsWith("initcall ") && names.filter(name => name === one.name).length === 1);
    const [one, first] = once[0];
    const [, second] = once.find(([, other]) => other.start > first.end) ?? assert.fail(`nothing comes after ${first.name}`);
    await page.evaluate(span => (location.hash = `#view=tracks&span=${span}`), one);
    await settled(page);
    await page.getByRole("button", { name: "the time between this and another span" }).click();
    await page.fill("#find", second.name.split(" ").at(-1));
    await page.keyboard.press("Enter");
    await settled(page);
    assert.equal((await fragment(page)).get("range"), `${first.end},${second.start}`);
    // The time between leads to its causes, which sum to it.
    const from = gaps[0].end;
    for (const [span, one] of seen) if (one.end === from) await page.evaluate(span => (location.hash = `#view=tracks&span=${span}`), span);
    await settled(page);
    await page.locator("#neighbours li", { hasText: "after:" }).locator("[data-ns]").click();
    await settled(page);
    assert.equal((await fragment(page)).get("range"), `${from},${from + gaps[0].between}`);
    const times = (await numbers(page, ".causes [data-ns]")).map(Number);
    assert.equal(
        times.reduce((sum, time) => sum + time, 0),
        gaps[0].between,
    );
    page.check();
});

test("tracks: a click selects what lies there, the wheel zooms and moves", options, async () => {
    const page = await open("#view=tracks");
    const chart = page.locator(".chart .canvas");
    const box = await chart.boundingBox();
    // The longest span of the first lanes is somewhere under the pointer. The test looks for it as a user would.
    let [found, at] = [false, { x: 0, y: 0 }];
    for (let y = 30; y < box.height && !found; y += 8) {
        for (let x = 200; x < box.width && !found; x += 60) {
            await page.mouse.move(box.x + x, box.y + y);
            found = (await page.locator(".tip").count()) > 0;
            at = { x: box.x + x, y: box.y + y };
        }
    }
    assert.ok(found, "a tooltip somewhere");
    // The pointer moved at most once since the tip was drawn.
    const place = await page.locator(".tip").boundingBox();
    const [across, down] = [
        Math.max(place.x - at.x, at.x - place.x - place.width),
        Math.max(place.y - at.y, at.y - place.y - place.height),
    ];
    assert.ok(across < 90 && down < 40, `the tip is ${across} and ${down} pixels from the pointer`);
    const tip = await page.locator(".tip strong").innerText();
    await page.mouse.down();
    await page.mouse.up();
    await settled(page);
    if (!/^(boot path|waited)/.test(tip)) assert.equal(await page.locator(".details h2").innerText(), tip);
    const before = await fragment(page);
    await page.keyboard.down("Control");
    await page.mouse.wheel(0, -200);
    await page.keyboard.up("Control");
    await settled(page);
    assert.ok((await fragment(page)).has("from") && !before.has("from"));
    page.check();
});

test("merged: the path's stacks sum to the boot, upside down too", options, async () => {
    const page = await open("#view=merged");
    assert.equal(await page.getAttribute(".merged output", "data-total"), String(show.total_ns));
    const rows = (await saved(page)).slice(1);
    assert.equal(
        rows.reduce((sum, [, self]) => sum + Number(self), 0),
        show.total_ns,
    );
    for (const row of show.functions.filter(row => row.name === "initcall" && /^[a-z_0-9]+$/.test(row.detail)).slice(0, 20)) {
        const found = rows.find(([name]) => name === `${row.name} ${row.detail}`);
        assert.equal(Number(found[2]), row.total_ns, `${row.detail}: total`);
    }
    await page.getByRole("button", { name: "bottom-up" }).click();
    await settled(page);
    assert.ok(await page.locator(".flame canvas").isVisible());
    await page.locator(".merged .table tbody button").first().click();
    await settled(page);
    assert.equal((await fragment(page)).get("way"), "sandwich");
    assert.equal(await page.locator(".flame canvas").count(), 2);
    page.check();
});

test("merged: all threads sum to their table, and to their waits", options, async () => {
    const page = await open("#view=merged&of=threads");
    const [total, waits] = await Promise.all(["data-total", "data-waits"].map(name => page.getAttribute(".merged output", name)));
    assert.equal(
        Number(total) - Number(waits),
        show.where_all_threads.reduce((sum, row) => sum + row.self_ns, 0),
    );
    page.check();
});

test("a search leads from line to line of the console, and to rows that have no span", options, async () => {
    const page = await open("#view=console");
    const stamps = (await saved(page))
        .slice(1)
        .filter(([, text]) => text.includes("Linux version"))
        .map(([at]) => at);
    await page.fill("#find", "Linux version");
    await settled(page);
    assert.match(await page.locator(".console-view .note").innerText(), new RegExp(`${stamps.length} lines found`));
    for (const [key, wanted] of [
        ["Enter", 0],
        ["Enter", 1],
        ["Enter", 2],
        ["Shift+Enter", 1],
        ["Shift+Enter", 0],
        ["Shift+Enter", stamps.length - 1],
        ["Enter", 0],
    ]) {
        await page.keyboard.press(key);
        await settled(page);
        const at = await fragment(page);
        assert.deepEqual([at.get("view"), at.get("range")?.split(",")[0]], ["console", stamps[wanted]], `${key} to ${wanted}`);
    }
    // A row of the path whose name no span has.
    await page.evaluate(() => (location.hash = "#view=overview"));
    await settled(page);
    let row;
    for (const { name } of show.where.filter(({ name }) => /^[ -~]+$/.test(name))) {
        await page.fill("#find", name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
        await settled(page);
        if (/^no span, /.test(await page.locator("#found").innerText())) row = name;
        if (row) break;
    }
    assert.ok(row, "a row without a span");
    await page.keyboard.press("Enter");
    await settled(page);
    assert.equal((await fragment(page)).get("view"), "where");
    assert.ok((await page.locator("main.view").innerText()).includes(row));
    page.check();
});

test("console: every line, as text, and a line leads to its time", options, async () => {
    const page = await open("#view=console");
    const lines = (await saved(page)).slice(1);
    assert.ok(lines.length > 0);
    assert.ok(
        lines.every(([, text]) => !/[\u0000-\u0008\u000a-\u001f\u007f\u202e]/.test(text)),
        "control characters are escaped",
    );
    await page.locator(".console-view tbody button").nth(1).click();
    await settled(page);
    assert.equal((await fragment(page)).get("range")?.split(",")[0], lines[1][0]);
    assert.ok((await page.locator("tr.picked").count()) >= 1);
    page.check();
});

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

const two = {
    skip: TWO && SHOW_TWO ? false : "BOOTSCOPE_TWO and BOOTSCOPE_SHOW_TWO are not set: tests/exports/check-page sets them",
    timeout: LIMIT_MS,
};

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
    const table = page.getByRole("region", { name: "Silences, watched values and samples that are seen" });
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

const ODD = process.env.BOOTSCOPE_ODD;
const odd = { skip: ODD ? false : "BOOTSCOPE_ODD is not set: tests/exports/check-page sets it", timeout: LIMIT_MS };

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

test("what-if: a file answers, and says the command", options, async () => {
    const page = await open("#view=whatif");
    const slider = page.locator(".whatif .slider input").first();
    await slider.focus();
    await page.keyboard.press("End");
    await settled(page);
    const [first] = show.where;
    assert.match(await page.locator("#command").innerText(), /^bootscope what-if sample --save=/);
    assert.deepEqual(await page.evaluate(() => new URLSearchParams(location.hash.slice(1)).getAll("save")), [`100,${first.name}`]);
    await page.waitForSelector("#steps li");
    const saved = Number(await page.getAttribute("#steps strong", "data-ns"));
    assert.ok(saved > 0 && saved <= first.self_ns, `${saved} of ${first.self_ns}`);
    assert.equal(await page.getAttribute("#then", "data-ns"), String(show.total_ns - saved));
    await page.locator("#filter").fill("(");
    await settled(page);
    assert.match(await page.locator(".whatif .bad").innerText(), /not a regular expression/);
    page.check();
});

test("what-if: a file that was built without what runs a boot again, or is cut off, says so", options, async () => {
    const text = await readFile(PAGE, "utf8");
    const path = join(folder, "no-what-if.html");
    await writeFile(path, text.replace(" 'wasm-unsafe-eval'", ""));
    const [{ name }] = show.where;
    const saved = `#view=whatif&save=${encodeURIComponent(`100,${name}`)}`;
    const without = await open(saved, { path });
    await settled(without);
    assert.match(await without.locator(".whatif .note").innerText(), /needs bootscope view/);
    assert.equal(await without.getAttribute("#then", "data-ns"), "");
    assert.match(await without.locator("#command").innerText(), /^bootscope what-if sample --save=/);
    without.check();
    await writeFile(path, text.slice(0, text.indexOf('<script type="application/x-bootscope-what-if">')));
    const cut = await open(saved, { path });
    await cut.waitForSelector(".whatif .warning");
    assert.match(await cut.locator(".whatif .warning").innerText(), /this page is cut off/);
    cut.check();
});

// The program, and a recording that it serves, for questions about savings.
const [PROGRAM_ITSELF, RECORDING] = [process.env.BOOTSCOPE, process.env.BOOTSCOPE_RECORDING];
const served = {
    skip: PROGRAM_ITSELF && RECORDING ? false : "BOOTSCOPE and BOOTSCOPE_RECORDING are not set: tests/exports/check-page sets them",
    timeout: LIMIT_MS,
};

test("what-if: sliders of a served page bring what the command says, to the nanosecond", served, async () => {
    const separate = await launch();
    const server = spawn(PROGRAM_ITSELF, ["view", RECORDING, "--no-browser"], { stdio: ["ignore", "pipe", "inherit"] });
    try {
        const [address] = await once(createInterface({ input: server.stdout }), "line", { signal: AbortSignal.timeout(PATIENCE_MS) });
        const page = await separate.newPage({ viewport: { width: 1280, height: 800 } });
        const wrong = [];
        page.on("pageerror", error => wrong.push(error.message));
        page.on("console", message => message.type() === "error" && wrong.push(message.text()));
        await page.goto(`${address}#view=whatif`);
        await page.waitForFunction(() => performance.getEntriesByName("bootscope-whole").length > 0);
        const { where } = JSON.parse(execFileSync(PROGRAM_ITSELF, ["show", RECORDING, "--json"], { maxBuffer: 1 << 30 }));
        // All of the first row, part of the second, by keyboard: a step is five per cent.
        await page.getByRole("slider", { name: `less by per cent: ${where[0].name}`, exact: true }).focus();
        await page.keyboard.press("End");
        await page.waitForSelector("#steps li");
        await page.getByRole("slider", { name: `less by per cent: ${where[1].name}`, exact: true }).focus();
        for (let i = 0; i < 7; i += 1) await page.keyboard.press("ArrowRight");
        await settled(page);
        await page.waitForFunction(
            () => document.querySelectorAll("#steps li").length === 2 && !document.querySelector("#then").textContent.includes("…"),
        );
        const savings = ["--save", `${where[0].name}=-100%`, "--save", `${where[1].name}=-35%`];
        const expected = JSON.parse(execFileSync(PROGRAM_ITSELF, ["what-if", RECORDING, "--json", ...savings], { maxBuffer: 1 << 30 }));
        assert.equal(await page.getAttribute("#then", "data-ns"), String(expected.steps[1].total_ns));
        assert.deepEqual(
            await numbers(page, "#steps strong"),
            expected.steps.map(step => String(step.saved_ns)),
        );
        // While a question is open, no answer is shown, not even the one before it.
        let release;
        await page.route("**/what-if", async route => {
            await new Promise(resolve => (release = resolve));
            await route.continue().catch(() => {});
        });
        await page.keyboard.press("ArrowRight");
        await page.waitForFunction(() => document.querySelector("#then").textContent.trim() === "…");
        assert.equal(await page.getAttribute("#then", "data-ns"), "");
        assert.equal(await page.locator("#steps li").count(), 0);
        for (let waited = 0; !release && waited < PATIENCE_MS; waited += 20) await page.waitForTimeout(20);
        release();
        await page.waitForFunction(() => document.querySelectorAll("#steps li").length === 2);
        const more = JSON.parse(
            execFileSync(
                PROGRAM_ITSELF,
                ["what-if", RECORDING, "--json", "--save", `${where[0].name}=-100%`, "--save", `${where[1].name}=-40%`],
                { maxBuffer: 1 << 30 },
            ),
        );
        assert.equal(await page.getAttribute("#then", "data-ns"), String(more.steps[1].total_ns));
        assert.deepEqual(wrong, []);
    } finally {
        server.kill();
        await separate.close();
    }
});

const KEPT = process.env.BOOTSCOPE_KEPT;
const kept = {
    skip: PROGRAM_ITSELF && KEPT ? false : "BOOTSCOPE and BOOTSCOPE_KEPT are not set: tests/exports/check-page sets them",
    timeout: LIMIT_MS,
};

test("what-if: in a file each kept recording brings what the command says, to the nanosecond", kept, async () => {
    const separate = await launch();
    const pages = await mkdtemp(join(tmpdir(), "bootscope-what-if-"));
    const json = (...args) =>
        JSON.parse(execFileSync(PROGRAM_ITSELF, [...args, "--json"], { maxBuffer: 1 << 30, stdio: ["ignore", "pipe", "ignore"] }));
    let [answers, refused] = [0, 0];
    try {
        for (const recording of (await readdir(KEPT)).filter(name => name.endsWith(".zst")).map(name => join(KEPT, name))) {
            const path = join(pages, "page.html");
            execFileSync(PROGRAM_ITSELF, ["report", recording, "--force", "-o", path], { stdio: "ignore" });
            // A name with characters that cannot be shown has another text in the page.
            const rows = json("show", recording)
                .where.filter(({ name }) => /^[ -~·“”…]*$/.test(name))
                .slice(0, 3);
            const savings = rows.map(({ name }, i) => [name, [100, 35, 70][i]]);
            const page = await separate.newPage();
            const wrong = [];
            page.on("pageerror", error => wrong.push(error.message));
            page.on("console", message => message.type() === "error" && wrong.push(message.text()));
            await page.goto(
                `${pathToFileURL(path).href}#view=whatif&${savings.map(([name, less]) => `save=${encodeURIComponent(`${less},${name}`)}`).join("&")}`,
            );
            await page.waitForSelector("#steps li, .whatif .warning", { timeout: PATIENCE_MS });
            let expected;
            try {
                expected = json("what-if", recording, ...savings.flatMap(([name, less]) => ["--save", `${name}=-${less}%`]));
            } catch {
                refused += 1;
            }
            if (expected) {
                assert.equal(await page.getAttribute("#then", "data-ns"), String(expected.steps.at(-1).total_ns), recording);
                assert.deepEqual(
                    await page.$$eval("#steps strong", all => all.map(one => one.dataset.ns)),
                    expected.steps.map(step => String(step.saved_ns)),
                    recording,
                );
                answers += 1;
            } else assert.match(await page.locator(".whatif .warning").innerText(), /It cannot be worked out/);
            assert.deepEqual(wrong, [], recording);
            await page.close();
        }
        assert.ok(answers >= 10, `${answers} answers, ${refused} refused`);
    } finally {
        await separate.close();
        await rm(pages, { recursive: true });
    }
});

test("console: a guest that printed little is shown with its kernel's log, which leads to its time", kept, async () => {
    const pages = await mkdtemp(join(tmpdir(), "bootscope-log-"));
    try {
        const lines = async recording => {
            const path = join(pages, "page.html");
            execFileSync(PROGRAM_ITSELF, ["report", recording, "--force", "-o", path], { stdio: "ignore" });
            const page = await open("#view=console", { path });
            return { page, lines: (await saved(page)).slice(1) };
        };
        const log = join(pages, "one-damaged-stamp.log");
        const messages = Array.from({ length: 12 }, (_, i) => `[    0.${100_000 + 1000 * i}] pci 0000:00:${i + 10}.0: message ${i}`);
        await writeFile(
            log,
            [
                "[    0.00x000] Linux version 6.1.0 (gcc (GCC) 12.2.0, GNU ld (GNU Binutils) 2.40) #1 SMP PREEMPT_DYNAMIC",
                "[    0.000000] Command line: quiet",
                ...messages,
                "[    0.900000] Run /init as init process",
                "",
            ].join("\n"),
        );
        const imported = await lines(log);
        // A message without a stamp keeps its place in the log, and the diagnostic counted it.
        const { diagnostics } = JSON.parse(
            execFileSync(PROGRAM_ITSELF, ["show", log, "--json"], { maxBuffer: 1 << 30, stdio: ["ignore", "pipe", "ignore"] }),
        );
        const { count } = diagnostics.find(({ code }) => code === "messages-without-stamp");
        assert.equal(imported.lines.filter(([at]) => at === "").length, count);
        assert.ok(imported.lines.length > 10 && imported.lines.every(([at]) => /^(-?\d+)?$/.test(at)));
        assert.match(await imported.page.locator(".console-view .note").innerText(), new RegExp(`${count} lines? without a stamp`));
        assert.match(await imported.page.locator(".console-view .note").innerText(), /kernel's log, by its own stamps/);
        const stamped = imported.lines.findIndex(([at]) => at !== "");
        await imported.page.locator(".console-view tbody button").nth(stamped).click();
        await settled(imported.page);
        assert.equal((await fragment(imported.page)).get("range")?.split(",")[0], imported.lines[stamped][0]);
        imported.page.check();
        // A line is read whole, with or without a stamp, however narrow the page is.
        await imported.page.setViewportSize({ width: 390, height: 800 });
        await settled(imported.page);
        const first = imported.page.locator(".console-view tbody button").first();
        assert.equal(await first.innerText(), imported.lines[0][1]);
        const [line, row] = [await first.boundingBox(), await imported.page.locator(".console-view tbody tr").first().boundingBox()];
        assert.ok(line.height > 30 && line.y + line.height <= row.y + row.height + 1, `${JSON.stringify(line)} in ${JSON.stringify(row)}`);
        const short = await imported.page.locator(".console-view tbody tr").nth(2).boundingBox();
        assert.ok(Math.abs(short.height - 25) < 1, `a short line has one row: ${JSON.stringify(short)}`);
        const quiet = await lines(join(KEPT, "linux-calls-cut.tar.zst"));
        assert.ok(quiet.lines.length > 100);
        await quiet.page.getByRole("button", { name: "console", exact: true }).click();
        await settled(quiet.page);
        assert.ok((await saved(quiet.page)).length < 10, "what it printed");
        quiet.page.check();
    } finally {
        await rm(pages, { recursive: true });
    }
});

test("merged: where the page cannot tell short calls from their callers it says so", kept, async () => {
    const pages = await mkdtemp(join(tmpdir(), "bootscope-merged-"));
    try {
        const path = join(pages, "page.html");
        execFileSync(PROGRAM_ITSELF, ["report", join(KEPT, "linux-calls-cut.tar.zst"), "-o", path], { stdio: "ignore" });
        const page = await open("#view=merged", { path });
        await page.waitForSelector(".merged .note >> text=/too short to be drawn/");
        page.check();
    } finally {
        await rm(pages, { recursive: true });
    }
});

test("what-if: of several boots in a file each answers for itself", kept, async () => {
    const separate = await launch();
    const pages = await mkdtemp(join(tmpdir(), "bootscope-what-if-"));
    const recordings = ["lab-two-cpus.tar.zst", "lab-deterministic.tar.zst"].map(name => join(KEPT, name));
    const json = (...args) =>
        JSON.parse(execFileSync(PROGRAM_ITSELF, [...args, "--json"], { maxBuffer: 1 << 30, stdio: ["ignore", "pipe", "ignore"] }));
    try {
        const path = join(pages, "two.html");
        execFileSync(PROGRAM_ITSELF, ["report", ...recordings, "-o", path], { stdio: "ignore" });
        for (const [boot, recording] of recordings.entries()) {
            const [{ name }] = json("show", recording).where;
            const page = await separate.newPage();
            await page.goto(`${pathToFileURL(path).href}#view=whatif&boot=${boot}&save=${encodeURIComponent(`45,${name}`)}`);
            await page.waitForSelector("#steps li");
            const expected = json("what-if", recording, "--save", `${name}=-45%`);
            assert.equal(await page.getAttribute("#then", "data-ns"), String(expected.steps[0].total_ns), recording);
            await page.close();
        }
    } finally {
        await separate.close();
        await rm(pages, { recursive: true });
    }
});

const [BENCH, BENCH_JSON] = [process.env.BOOTSCOPE_BENCH, process.env.BOOTSCOPE_BENCH_JSON];
const ofBench = {
    skip: BENCH && BENCH_JSON ? false : "BOOTSCOPE_BENCH and BOOTSCOPE_BENCH_JSON are not set: tests/exports/check-page sets them",
    timeout: LIMIT_MS,
};
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

test("bench: axe finds nothing serious, light and dark, wide and narrow", ofBench, async () => {
    const axe = await readFile(new URL("../node_modules/axe-core/axe.min.js", import.meta.url), "utf8");
    for (const [colorScheme, width] of [
        ["light", 1280],
        ["dark", 1280],
        ["light", 400],
    ]) {
        for (const view of ["spread", "against", "sweep"]) {
            const page = await open(`#view=${view}`, { path: BENCH, colorScheme, viewport: { width, height: 800 } });
            await settled(page);
            await page.evaluate(axe);
            const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
            const found = violations
                .filter(one => ["serious", "critical"].includes(one.impact))
                .map(
                    one =>
                        `${one.id}: ${one.nodes
                            .slice(0, 3)
                            .map(node => `${node.target} ${node.failureSummary}`)
                            .join("; ")}`,
                );
            assert.deepEqual(found, [], `${view}, ${colorScheme}, ${width}`);
            await page.close();
        }
    }
});

const [LAKE, LAKE_JSON] = [process.env.BOOTSCOPE_LAKE, process.env.BOOTSCOPE_LAKE_JSON];
const ofLake = {
    skip: LAKE && LAKE_JSON ? false : "BOOTSCOPE_LAKE and BOOTSCOPE_LAKE_JSON are not set: tests/exports/check-page sets them",
    timeout: LIMIT_MS,
};
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

test("lake: axe finds nothing serious, light and dark, wide and narrow", ofLake, async () => {
    const axe = await readFile(new URL("../node_modules/axe-core/axe.min.js", import.meta.url), "utf8");
    for (const [colorScheme, width] of [
        ["light", 1280],
        ["dark", 1280],
        ["light", 400],
    ]) {
        for (const view of ["time&regression=1", "regressions&regression=1", "rows", "machines", "pays"]) {
            const page = await open(`#view=${view}`, { path: LAKE, colorScheme, viewport: { width, height: 800 } });
            await settled(page);
            await page.evaluate(axe);
            const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
            const found = violations
                .filter(one => ["serious", "critical"].includes(one.impact))
                .map(
                    one =>
                        `${one.id}: ${one.nodes
                            .slice(0, 3)
                            .map(node => `${node.target} ${node.failureSummary}`)
                            .join("; ")}`,
                );
            assert.deepEqual(found, [], `${view}, ${colorScheme}, ${width}`);
            await page.close();
        }
    }
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

test("axe finds nothing serious in any view, light and dark, wide and narrow", options, async () => {
    const axe = await readFile(new URL("../node_modules/axe-core/axe.min.js", import.meta.url), "utf8");
    for (const [colorScheme, viewport] of [
        ["light", { width: 1280, height: 800 }],
        ["dark", { width: 1280, height: 800 }],
        ["light", { width: 400, height: 800 }],
    ]) {
        for (const view of TWO ? [...VIEWS, "compare"] : VIEWS) {
            const page = await open(`#view=${view}`, { colorScheme, viewport, path: view === "compare" ? TWO : PAGE });
            await page.keyboard.press("t");
            if (view === "path") await page.keyboard.press("]");
            await settled(page);
            await page.evaluate(axe);
            const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
            const found = violations
                .filter(one => ["serious", "critical"].includes(one.impact))
                .map(
                    one =>
                        `${one.id}: ${one.nodes
                            .slice(0, 3)
                            .map(node => `${node.target} ${node.failureSummary}`)
                            .join("; ")}`,
                );
            assert.deepEqual(found, [], `${view}, ${colorScheme}, ${viewport.width}`);
            await page.close();
        }
    }
});
