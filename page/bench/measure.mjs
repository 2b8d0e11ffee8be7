// Measurements that apply to any page, ours or another program's.

const FRAMES = 120;

/** Presses keys during FRAMES frames. Returns the length of each frame, in milliseconds. */
export async function frames(page, keys) {
    return page.evaluate(
        ({ keys, count }) =>
            new Promise(done => {
                const times = [];
                let [last, i] = [0, 0];
                const next = now => {
                    if (last > 0) times.push(now - last);
                    last = now;
                    if (times.length >= count) return done(times);
                    document.body.dispatchEvent(new KeyboardEvent("keydown", { key: keys[i++ % keys.length], bubbles: true }));
                    requestAnimationFrame(next);
                };
                requestAnimationFrame(next);
            }),
        { keys, count: FRAMES },
    );
}

/** Bytes of the page's heap and of the memory beside it, after a garbage collection. */
export async function memory(page) {
    const session = await page.context().newCDPSession(page);
    await session.send("HeapProfiler.collectGarbage");
    const { usedSize, embedderHeapUsedSize = 0, backingStorageSize = 0 } = await session.send("Runtime.getHeapUsage");
    return usedSize + embedderHeapUsedSize + backingStorageSize;
}

export const quantile = (values, share) =>
    [...values].sort((a, b) => a - b)[Math.min(Math.floor(values.length * share), values.length - 1)];
export const rounded = value => Math.round(value * 10) / 10;
