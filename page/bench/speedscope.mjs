// Measures how fast speedscope opens a file from `bootscope export --to speedscope`, in the same Chromium as figures.mjs: node
// bench/speedscope.mjs RELEASE FILE prints a JSON document. RELEASE is speedscope's unpacked release, which opens from disk.
//
// A script hands the file over, as speedscope's own command does. The script is written beside the file, and writing it is not
// counted. `opened_ms` lasts from the start of navigation to the frame after the title is the profile's name.
import { readFile, stat, writeFile } from "node:fs/promises";
import { basename, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";
import { frames, memory, quantile, rounded } from "./measure.mjs";

const [release, file] = process.argv.slice(2).map(path => resolve(path));
const script = `${file}.js`;
await writeFile(script, `speedscope.loadFileFromBase64(${JSON.stringify(basename(file))}, "${(await readFile(file)).toString("base64")}")`);
const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--enable-precise-memory-info", "--enable-unsafe-swiftshader"],
});
const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
await page.goto(`${pathToFileURL(`${release}/index.html`).href}#localProfilePath=${script.slice(1)}`, { timeout: 120_000 });
await page.waitForFunction(() => document.title.includes("boot of"), null, { timeout: 120_000, polling: "raf" });
const opened = await page.evaluate(
    () => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now())))),
);
const zoomed = await frames(page, ["=", "=", "=", "-", "-", "-"]);
console.log(
    JSON.stringify({
        bytes: (await stat(file)).size,
        opened_ms: rounded(opened),
        zoom_p95_ms: rounded(quantile(zoomed, 0.95)),
        zoom_median_ms: rounded(quantile(zoomed, 0.5)),
        memory_bytes: await memory(page),
    }),
);
await browser.close();
