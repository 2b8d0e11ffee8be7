// Runs a boot again, outside of the thread that draws. The program is the WebAssembly of crates/page-what-if, and the boot is the
// parts of the page. The first message has the program and the parts; every later one is a question.
import { unpacked } from "./unpack";

/** The first message: the program and all parts of the page, and the number of the boot. */
export interface Begin {
    readonly program: string;
    readonly parts: readonly string[];
    readonly boot: number;
}

export interface Question {
    /** Rows, and the share that each takes less, from 0 to 1. */
    readonly savings: readonly (readonly [string, number])[];
}

/** The functions of crates/page-what-if. */
interface Program {
    readonly memory: WebAssembly.Memory;
    readonly room: (bytes: number) => number;
    readonly part: (at: number, bytes: number) => number;
    readonly question: (at: number, bytes: number) => number;
    readonly answered: () => number;
}

/** Tables that are only shown. */
const NOT_NEEDED = new Set(["boot", "stays", "frames", "console", "samples", "end"]);

let given: Begin | undefined;
let program: Promise<Program> | undefined;

/** The name of a table, which is its first field. */
function nameOf(table: Uint8Array): string {
    return new TextDecoder().decode(table.subarray(1, 1 + (table[0] ?? 0)));
}

function handOver(to: Program, bytes: Uint8Array): [number, number] {
    const at = to.room(bytes.length) >>> 0;
    // The memory may have grown, which detaches the buffer that it had before.
    new Uint8Array(to.memory.buffer).set(bytes, at);
    return [at, bytes.length];
}

async function begun({ program, parts, boot }: Begin): Promise<Program> {
    const { instance } = await WebAssembly.instantiate(await unpacked(program), {});
    const made = instance.exports as unknown as Program;
    let at = -1;
    for (const part of parts) {
        const table = await unpacked(part);
        const name = nameOf(table);
        if (name === "boot") at += 1;
        if (at > boot) break;
        if (at === boot && !NOT_NEEDED.has(name) && !made.part(...handOver(made, table))) throw new Error(`the part ${name} is damaged`);
    }
    return made;
}

function worded({ savings }: Question): Uint8Array {
    const rows = savings.map(([row, by]) => ({ by, name: new TextEncoder().encode(row) }));
    const bytes = new Uint8Array(rows.reduce((sum, { name }) => sum + 12 + name.length, 0));
    const view = new DataView(bytes.buffer);
    let at = 0;
    for (const { by, name } of rows) {
        view.setFloat64(at, by, true);
        view.setUint32(at + 8, name.length, true);
        bytes.set(name, at + 12);
        at += 12 + name.length;
    }
    return bytes;
}

self.onmessage = async (event: MessageEvent<Begin | Question>) => {
    if ("program" in event.data) {
        given = event.data;
        return;
    }
    try {
        const running = await (program ??= begun(given!));
        const length = running.question(...handOver(running, worded(event.data))) >>> 0;
        self.postMessage(JSON.parse(new TextDecoder().decode(new Uint8Array(running.memory.buffer, running.answered() >>> 0, length))));
    } catch (error) {
        // The program may have stopped halfway, so the next question starts it again.
        program = undefined;
        self.postMessage({ wrong: `this boot cannot be run again here: ${String(error)}` });
    }
};
