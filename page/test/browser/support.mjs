// Headless Chromium for the tests of a file: the pages that they open, and what they read from them.
//
// tests/exports/check-page sets the variables. `BOOTSCOPE_PAGE` names a page and `BOOTSCOPE_SHOW` the `show --json` of the same boot.
// The boot of crates/report/examples/sample.rs contains everything that a guest could do to harm a reader.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, afterEach, before } from "node:test";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

export const [PAGE, SHOW] = [process.env.BOOTSCOPE_PAGE, process.env.BOOTSCOPE_SHOW];
/** Chromium without its windows takes a third of the CPU time. */
const PROGRAM = process.env.CHROMIUM ?? ["/usr/bin/chromium-headless-shell", "/usr/bin/chromium"].find(path => existsSync(path));
// Two boots on one page, and the figures of the later one; BOOTSCOPE_SHOW has those of the first.
export const [TWO, SHOW_TWO] = [process.env.BOOTSCOPE_TWO, process.env.BOOTSCOPE_SHOW_TWO];
export const [BENCH, BENCH_JSON] = [process.env.BOOTSCOPE_BENCH, process.env.BOOTSCOPE_BENCH_JSON];
export const [LAKE, LAKE_JSON] = [process.env.BOOTSCOPE_LAKE, process.env.BOOTSCOPE_LAKE_JSON];
export const ODD = process.env.BOOTSCOPE_ODD;
// The program, a recording that it serves, and the folder of kept recordings.
export const [PROGRAM_ITSELF, RECORDING, KEPT] = [process.env.BOOTSCOPE, process.env.BOOTSCOPE_RECORDING, process.env.BOOTSCOPE_KEPT];
export const VIEWS = ["overview", "path", "tracks", "merged", "where", "console", "findings", "whatif", "memory"];
/** Timeouts for one answer of the browser, and for a test. A busy host needs many times as long as a quiet one. */
export const [PATIENCE_MS, LIMIT_MS] = [120_000, 600_000];

/** The options of a test that needs these variables. */
const needs = names => {
    const missing = names.filter(name => !process.env[name]);
    return { skip: missing.length ? `tests/exports/check-page sets ${missing.join(" and ")}` : false, timeout: LIMIT_MS };
};
export const options = needs(["BOOTSCOPE_PAGE", "BOOTSCOPE_SHOW"]);
export const two = needs(["BOOTSCOPE_TWO", "BOOTSCOPE_SHOW_TWO"]);
export const odd = needs(["BOOTSCOPE_ODD"]);
export const served = needs(["BOOTSCOPE", "BOOTSCOPE_RECORDING"]);
export const kept = needs(["BOOTSCOPE", "BOOTSCOPE_KEPT"]);
export const ofBench = needs(["BOOTSCOPE_BENCH", "BOOTSCOPE_BENCH_JSON"]);
export const ofLake = needs(["BOOTSCOPE_LAKE", "BOOTSCOPE_LAKE_JSON"]);

export const launch = () => chromium.launch({ executablePath: PROGRAM, args: ["--no-sandbox"], timeout: PATIENCE_MS });

/** The browser, the figures of BOOTSCOPE_SHOW, and a folder for the files of tests. */
export let browser, show, folder;
before(async () => {
    if (options.skip) return;
    browser = await launch();
    show = JSON.parse(await readFile(SHOW, "utf8"));
    folder = await mkdtemp(join(tmpdir(), "bootscope-page-"));
});
// An open page goes on drawing.
afterEach(async () => {
    await Promise.all((browser?.contexts() ?? []).map(context => context.close()));
});
after(async () => {
    await browser?.close();
    if (folder) await rm(folder, { recursive: true });
});

/** Opens the page, and fails on anything that goes wrong in it. */
export async function open(fragment = "", { path = PAGE, whole = true, expected = [], ...context } = {}) {
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

export const numbers = (page, selector) => page.$$eval(selector, all => all.map(one => one.dataset.ns));
export const fragment = async page => new URLSearchParams((await page.evaluate(() => location.hash)).slice(1));
/** The rows of the table that a view saves. */
export async function saved(page) {
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
export const settled = async page => {
    const drawn = () =>
        page.evaluate(() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 50)))));
    await drawn();
    await page.waitForFunction(() => document.documentElement.dataset.addressDue === undefined);
    await drawn();
};

/** Asserts that axe finds nothing serious in a page. */
export async function assertAccessible(page, what) {
    await page.evaluate(await readFile(new URL("../../node_modules/axe-core/axe.min.js", import.meta.url), "utf8"));
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
    assert.deepEqual(found, [], what);
}
