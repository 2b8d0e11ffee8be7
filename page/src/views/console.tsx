// The console beside time: a line leads to its moment in the charts, and what is selected to the lines of its time.
import { useMemo, useState } from "preact/hooks";
import type { ConsoleLine } from "../data/boot";
import { atStep } from "../charts/draw";
import { counted } from "../lib/time";
import { expression, type Store } from "../state";
import { Choice } from "./choice";
import { Table, type Column } from "./table";

type Source = "console" | "log";

interface Line extends ConsoleLine {
    readonly no: number;
}

export function Console({ store }: { store: Store }) {
    const { boot, state } = store;
    const find = expression(state.find);
    const [picked, setPicked] = useState<Source | undefined>();
    const log = boot.kernelLog();
    // A quiet guest prints a line or two, and its kernel keeps hundreds.
    const isLog = (picked ?? (log.length > 2 * boot.console.length ? "log" : "console")) === "log";
    const lines = isLog ? log : boot.console;
    const all = useMemo((): Line[] => lines.map((line, no) => ({ ...line, no })), [lines]);
    const selected = store.selected();
    const isPicked = (line: Line): boolean => selected !== undefined && line.at !== undefined && line.at >= selected.from && line.at <= selected.to;
    const near = selected ? lastAt(lines, selected.from) : undefined;
    const columns = useMemo((): readonly Column<Line>[] => [
        {
            name: "line", key: line => line.no, isNumber: false,
            show: line => <span class={find?.test(line.text) ? "line found" : "line"}>{line.text || " "}</span>,
        },
        { name: isLog ? "stamp" : "arrived", key: line => -(line.at ?? 0), show: line => (line.at === undefined ? "" : atStep(line.at, 1e3, boot.unit)), isNumber: true, width: "9em" },
    ], [find?.source, boot.unit, isLog]);
    store.target = { rows: () => [["at_ns", "line"], ...lines.map(line => [line.at ?? "", line.text])] };
    const more = isLog ? 0 : (boot.facts?.console_lines ?? 0) - lines.length;
    const matches = find ? lines.filter(line => find.test(line.text)).length : 0;
    const pick = (line: Line): void => {
        if (line.at === undefined) return;
        const next = lines.find((other, i) => i > line.no && other.at !== undefined && other.at > line.at!);
        store.set({ selection: { kind: "range", from: line.at, to: next?.at ?? line.at + 1 } });
    };
    if (lines.length === 0) return <p class="note">{boot.isWhole ? "No console was recorded, and no log of the kernel." : "The console is read last."}</p>;
    return (
        <div class="console-view">
            {log.length > 0 && boot.console.length > 0 ? (
                <div class="tools"><Choice label="lines of" all={[["console", "console"], ["log", "kernel's log"]] as const} is={isLog ? "log" : "console"} pick={setPicked} /></div>
            ) : null}
            <p class="faint note">
                {isLog ? `${boot.console.length === 0 ? "No console was recorded, or nothing was printed on it. " : ""}${counted(lines.length, "line")} of the kernel's log, by its own stamps` : `${counted(lines.length, "line")}, each stamped when its first byte arrived`}{more > 0 ? `; ${counted(more, "line")} in the middle are only in the recording` : ""}.
                {find ? ` ${matches} match.` : ""} {selected ? <><button type="button" class="link" onClick={() => store.set({ view: "tracks" })}>the selection in the tracks</button></> : null}
            </p>
            <Table label="Console" rows={all} columns={columns} onPick={pick} isPicked={isPicked} inSight={near} />
        </div>
    );
}

/** The last line that had arrived at an instant. */
function lastAt(lines: readonly ConsoleLine[], at: number): number | undefined {
    let last: number | undefined;
    lines.forEach((line, i) => {
        if (line.at !== undefined && line.at <= at) last = i;
    });
    return last;
}
