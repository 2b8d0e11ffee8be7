// Requests the effect of savings. The server answers, or in a file, the page itself, which has the program that runs a boot again.

import type { Int } from "../data/facts";
import type { Begin, Question } from "../data/whatif-worker";

declare const WHAT_IF_WORKER: string;

/** The fields of `what-if --json` that are shown. */
export interface Ledger {
    readonly steps: readonly {
        readonly name: string;
        readonly before_ns: Int;
        readonly saved_ns: Int;
        readonly saved_at_worst_ns: Int | null;
        readonly saved_at_best_ns: Int | null;
        readonly total_ns: Int;
    }[];
    readonly where: readonly { readonly name: string; readonly self_ns: Int }[];
}

export type Answer = { readonly ledger: Ledger } | { readonly wrong: string };

export type Savings = ReadonlyMap<string, number>;

/**
 * The savings as options of `--save`. A whole row is also written as a share, so that a name's own `=20ms` or `[done]` stays part
 * of the name.
 */
export function saveOptions(savings: Savings): string[] {
    return [...savings].map(([name, less]) => `${name}=-${less}%`);
}

function allows(what: string): boolean {
    return document.querySelector('meta[http-equiv="Content-Security-Policy"]')?.getAttribute("content")?.includes(what) === true;
}

/** True if the effect of savings can be computed: the page's content policy allows a server or WebAssembly. */
export function canCompute(): boolean {
    return allows("connect-src 'self'") || allows("'wasm-unsafe-eval'");
}

export async function computeSavings(boot: number, savings: Savings, signal: AbortSignal): Promise<Answer> {
    return allows("connect-src 'self'") ? queryServer(boot, savings, signal) : queryWorker(boot, savings, signal);
}

const unknown = (why: string): Answer => ({ wrong: `It cannot be worked out: ${why.trim()}.` });

async function queryServer(boot: number, savings: Savings, signal: AbortSignal): Promise<Answer> {
    try {
        const body = JSON.stringify({ boot, save: saveOptions(savings) });
        const response = await fetch(`${location.pathname}what-if`, { method: "POST", body, signal });
        return response.ok ? { ledger: (await response.json()) as Ledger } : unknown(await response.text());
    } catch {
        return { wrong: "The program that served this page does not answer any more." };
    }
}

/** A boot's worker, and the last question to it. Questions are answered one after the other. */
interface BootWorker {
    readonly worker: Worker;
    last: Promise<unknown>;
}

const workers = new Map<number, BootWorker>();

async function queryWorker(boot: number, savings: Savings, signal: AbortSignal): Promise<Answer> {
    if (document.readyState === "loading") await new Promise(done => document.addEventListener("DOMContentLoaded", done, { once: true }));
    const bootWorker = workers.get(boot) ?? begin(boot);
    if (!bootWorker) return unknown("this page is cut off, and what runs a boot again stands at its end");
    const before = bootWorker.last;
    const answer = before.then(() => (signal.aborted ? unknown("it was asked anew") : answered(bootWorker.worker, savings)));
    bootWorker.last = answer;
    return answer;
}

function answered(worker: Worker, savings: Savings): Promise<Answer> {
    return new Promise(done => {
        worker.onmessage = ({ data }: MessageEvent<Ledger | { wrong: string }>) =>
            done("wrong" in data ? unknown(data.wrong) : { ledger: data });
        worker.onerror = event => done(unknown(event.message || "no worker could be started"));
        worker.postMessage({ savings: [...savings].map(([row, less]) => [row, less / 100]) } satisfies Question);
    });
}

function begin(boot: number): BootWorker | undefined {
    const text = (type: string): string[] =>
        [...document.querySelectorAll(`script[type="${type}"]`)].map(part => (part.textContent ?? "").trim());
    const [program] = text("application/x-bootscope-what-if");
    if (!program) return undefined;
    const worker = new Worker(URL.createObjectURL(new Blob([WHAT_IF_WORKER], { type: "text/javascript" })));
    worker.postMessage({ program, parts: text("application/x-bootscope"), boot } satisfies Begin);
    const bootWorker = { worker, last: Promise.resolve() };
    workers.set(boot, bootWorker);
    return bootWorker;
}
