// Measures the speed of pages in headless Chromium: node bench/figures.mjs PAGE… prints a JSON document for each, one per line.
//
// Drawing is by software (no GPU), so a desktop is faster. `first_picture_ms` and `whole_ms` count from the start of navigation.
// The frames are those of a zoom into the boot and a pan along it by the keyboard; a frame's length is the time between two
// pictures.
import { stat } from "node:fs/promises";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";
import { frames, memory, quantile, rounded } from "./measure.mjs";

const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--enable-precise-memory-info"],
});

for (const path of process.argv.slice(2)) {
    const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
    page.on("pageerror", error => {
        throw error;
    });
    await page.goto(`${pathToFileURL(path).href}#view=tracks`, { timeout: 120_000 });
    await page.waitForFunction(() => performance.getEntriesByName("bootscope-whole").length > 0, null, { timeout: 120_000 });
    const at = name => page.evaluate(name => performance.getEntriesByName(name)[0]?.startTime ?? null, name);
    const [firstPicture, whole] = [await at("bootscope-first-picture"), await at("bootscope-whole")];
    const zoomed = await frames(page, ["w", "w", "w", "s", "s", "s"]);
    const panned = await frames(page, ["w", "d", "d", "a", "a", "s"]);
    // From the key press to the picture with the hits in it.
    const search = await page.evaluate(
        () =>
            new Promise(done => {
                const field = document.querySelector("#find");
                const begun = performance.now();
                field.value = "init.*e$";
                field.dispatchEvent(new Event("input", { bubbles: true }));
                requestAnimationFrame(() =>
                    requestAnimationFrame(() =>
                        done({ ms: performance.now() - begun, found: document.querySelector("#found").textContent }),
                    ),
                );
            }),
    );
    console.log(
        JSON.stringify({
            page: path,
            bytes: (await stat(path)).size,
            first_picture_ms: rounded(firstPicture),
            whole_ms: rounded(whole),
            zoom_p95_ms: rounded(quantile(zoomed, 0.95)),
            zoom_median_ms: rounded(quantile(zoomed, 0.5)),
            pan_p95_ms: rounded(quantile(panned, 0.95)),
            pan_median_ms: rounded(quantile(panned, 0.5)),
            search_ms: rounded(search.ms),
            found: search.found,
            memory_bytes: await memory(page),
        }),
    );
    await page.close();
}
await browser.close();
