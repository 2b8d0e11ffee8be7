// Reads the parts of the data from the page as they arrive, in order, with a worker.
//
// A part is a script element that no browser runs. It is complete once another element follows it, or once the document is read to
// its end. The worker is made of text in the application, because there is no other file.

import { readBench } from "./data/bench";
import { Boot } from "./data/boot";
import { addCells, readLake } from "./data/lake";
import type { Answer } from "./data/worker";
import type { Store } from "./state";

declare const WORKER: string;

const PARTS = 'script[type="application/x-bootscope"]';

export function load(store: Store): void {
    const worker = new Worker(URL.createObjectURL(new Blob([WORKER], { type: "text/javascript" })));
    let [sent, read, isOver, isStopped] = [0, 0, false, false];
    const isViewRequested = new URLSearchParams(location.hash.slice(1)).has("view");

    const fail = (why: string): void => {
        if (isStopped) return;
        isStopped = true;
        store.wrong.push(why);
        store.changed();
        worker.terminate();
    };
    const finished = (): void => {
        if (!isOver || read < sent || isStopped) return;
        if (!store.isWhole)
            fail(
                sent === 0
                    ? "This page has no data: its file is damaged."
                    : "This page is cut off: its file ends before the data does. What was read is shown.",
            );
        worker.terminate();
    };
    const send = (): void => {
        const all = document.querySelectorAll(PARTS);
        const last = all[all.length - 1];
        for (; sent < all.length; sent += 1) {
            const part = all[sent]!;
            if (part === last && !isOver && part.nextSibling === null) break;
            worker.postMessage((part.textContent ?? "").trim());
        }
        if (isOver) finished();
    };

    worker.onmessage = (event: MessageEvent<Answer>) => {
        if (isStopped) return;
        read += 1;
        if ("wrong" in event.data)
            return fail(`The data is damaged or cut off in part ${read}: ${event.data.wrong}. What was read before is shown.`);
        try {
            const { table } = event.data;
            const last = store.boots[store.boots.length - 1]!;
            if (table.name === "bench") store.bench = readBench(table.texts.json?.[0] ?? "");
            else if (table.name === "lake") store.lake = readLake(table.texts.json?.[0] ?? "");
            else if (table.name === "cells" && store.lake) addCells(store.lake, table);
            else if (table.name === "boot" && last.facts) store.boots.push(new Boot());
            store.boots[store.boots.length - 1]!.add(table);
            // A page of several boots opens with their comparison.
            if (table.name === "boot" && store.boots.length === 2 && !isViewRequested && store.state.view === "overview")
                store.state = { ...store.state, view: "compare" };
        } catch (error) {
            return fail(`The data is damaged in part ${read}: ${String(error)}`);
        }
        store.changed();
        finished();
    };
    worker.onerror = event =>
        fail(`The data cannot be read: ${event.message || "no worker could be started"}. The tables of the page are all there is.`);

    new MutationObserver(send).observe(document.body, { childList: true });
    send();
    const over = (): void => {
        isOver = true;
        send();
    };
    if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", over);
    else over();
}
