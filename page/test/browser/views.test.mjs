// The views of one boot, driven by mouse and keyboard: their numbers equal those of `show --json`.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { fragment, numbers, open, options, saved, settled, show, VIEWS } from "./support.mjs";

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
