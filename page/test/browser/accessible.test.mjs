// axe finds nothing serious in any view, light and dark, wide and narrow.
import { test } from "node:test";
import { assertAccessible, BENCH, LAKE, ofBench, ofLake, open, options, PAGE, settled, TWO, VIEWS } from "./support.mjs";

test("bench: axe finds nothing serious, light and dark, wide and narrow", ofBench, async () => {
    for (const [colorScheme, width] of [
        ["light", 1280],
        ["dark", 1280],
        ["light", 400],
    ]) {
        for (const view of ["spread", "against", "sweep"]) {
            const page = await open(`#view=${view}`, { path: BENCH, colorScheme, viewport: { width, height: 800 } });
            await settled(page);
            await assertAccessible(page, `${view}, ${colorScheme}, ${width}`);
            await page.close();
        }
    }
});

test("lake: axe finds nothing serious, light and dark, wide and narrow", ofLake, async () => {
    for (const [colorScheme, width] of [
        ["light", 1280],
        ["dark", 1280],
        ["light", 400],
    ]) {
        for (const view of ["time&regression=1", "regressions&regression=1", "rows", "machines", "pays"]) {
            const page = await open(`#view=${view}`, { path: LAKE, colorScheme, viewport: { width, height: 800 } });
            await settled(page);
            await assertAccessible(page, `${view}, ${colorScheme}, ${width}`);
            await page.close();
        }
    }
});

test("axe finds nothing serious in any view, light and dark, wide and narrow", options, async () => {
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
            await assertAccessible(page, `${view}, ${colorScheme}, ${viewport.width}`);
            await page.close();
        }
    }
});
