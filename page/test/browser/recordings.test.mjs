// Pages of kept recordings, written or served by the program: What-if answers as the command does.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import {
    folder,
    fragment,
    KEPT,
    kept,
    launch,
    numbers,
    open,
    options,
    PAGE,
    PATIENCE_MS,
    PROGRAM_ITSELF,
    RECORDING,
    saved,
    served,
    settled,
    show,
} from "./support.mjs";

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
