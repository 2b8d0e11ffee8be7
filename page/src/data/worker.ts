// Unpacks and reads the parts of a page, in order, outside of the thread that draws.

import { readTable, type Table } from "./table";
import { unpacked } from "./unpack";

/** A worker's answer: a part, or the reason why the bytes are not a part. */
export type Answer = { readonly table: Table } | { readonly wrong: string };

/** The memory of a table's numbers, which is transferred instead of copied. */
function memory(table: Table): Transferable[] {
    const buffers = ({ values, exact }: { values: ArrayBufferView; exact?: ArrayBufferView }): Transferable[] =>
        exact ? [values.buffer as ArrayBuffer, exact.buffer as ArrayBuffer] : [values.buffer as ArrayBuffer];
    return Object.values(table.numbers).flatMap(buffers);
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
