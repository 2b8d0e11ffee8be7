// Unpacks and reads the parts of a page, in order, away from the thread that draws.
import { unpacked } from "./unpack";
import { readTable, type Table } from "./table";

/** What a worker answers: a part, or why it is none. */
export type Answer = { readonly table: Table } | { readonly wrong: string };

/** The memory of a table's numbers, which goes over whole instead of being copied. */
function memory(table: Table): Transferable[] {
    const of = ({ values, exact }: { values: ArrayBufferView; exact?: ArrayBufferView }): Transferable[] =>
        exact ? [values.buffer as ArrayBuffer, exact.buffer as ArrayBuffer] : [values.buffer as ArrayBuffer];
    return Object.values(table.numbers).flatMap(of);
}

let before: Promise<void> = Promise.resolve();

self.onmessage = (event: MessageEvent<string>) => {
    before = before.then(async () => {
        try {
            const table = readTable(await unpacked(event.data));
            self.postMessage({ table } satisfies Answer, { transfer: memory(table) });
        } catch (error) {
            self.postMessage({ wrong: String(error) } satisfies Answer);
        }
    });
};
