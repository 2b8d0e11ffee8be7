// The console beside time: a line leads to its moment in the charts, and a selection leads to the lines of its time.
import { useMemo } from "preact/hooks";
import type { ConsoleLine } from "../data/boot";
import { atStep, counted } from "../lib/time";
import { expression, type Selection, type Store } from "../state";
import { Choice } from "./choice";
import { type Column, Table } from "./table";

/** The width of the stamps, in em, and the pixels of a row that no character has. */
const STAMP_EM = 9;
const EDGES = STAMP_EM * 13 + 26;
const FONT = "12px ui-monospace, monospace";
const TAB = 8;

let characterWidth: number | undefined;

/** The width of a character of the console, measured once. */
function widthOfCharacter(): number {
    if (characterWidth !== undefined) return characterWidth;
    const context = document.createElement("canvas").getContext("2d");
    if (context) context.font = FONT;
    characterWidth = (context?.measureText("0".repeat(100)).width ?? 720) / 100;
    return characterWidth;
}

/** The lines that a line of the console takes when it is wrapped. */
function linesOf({ text }: Line, width: number): number {
    const columns = Math.max(Math.floor((width - EDGES) / widthOfCharacter()), 8);
    const tabs = text.split("\t").length - 1;
    return Math.ceil((text.length + tabs * (TAB - 1)) / columns);
}

interface Line extends ConsoleLine {
    readonly no: number;
}

export function Console({ store }: { store: Store }) {
    const { boot, state } = store;
    const find = expression(state.find);
    const log = boot.kernelLog();
    const { source, all: lines } = store.lines();
    const isLog = source === "log";
    const all = useMemo((): Line[] => lines.map((line, no) => ({ ...line, no })), [lines]);
    const selected = store.selected();
    const isPicked = (line: Line): boolean =>
        selected !== undefined && line.at !== undefined && line.at >= selected.from && line.at <= selected.to;
    const near = selected ? lastAt(lines, selected.from) : undefined;
    const columns = useMemo(
        (): readonly Column<Line>[] => [
            {
                name: isLog ? "stamp" : "arrived",
                key: line => -(line.at ?? 0),
                show: line => (line.at === undefined ? "" : atStep(line.at, 1e3, boot.unit)),
                isNumber: true,
                width: `${STAMP_EM}em`,
            },
            {
                name: "line",
                key: line => line.no,
                isNumber: false,
                show: line => <span class={find?.test(line.text) ? "line found" : "line"}>{line.text || " "}</span>,
            },
        ],
        [find?.source, boot.unit, isLog],
    );
    store.target = { rows: () => [["at_ns", "line"], ...lines.map(line => [line.at ?? "", line.text])] };
    const more = isLog ? 0 : (boot.facts?.console_lines ?? 0) - lines.length;
    const unstamped = lines.filter(line => line.at === undefined).length;
    const matches = find ? lines.filter(line => find.test(line.text)).length : 0;
    const pick = (line: Line): void => {
        if (line.at === undefined) return;
        store.set({ selection: ofLine(lines, line.no) });
    };
    if (lines.length === 0)
        return <p class="note">{boot.isWhole ? "No console was recorded, and no log of the kernel." : "The console is read last."}</p>;
    return (
        <div class="console-view">
            {log.length > 0 && boot.console.length > 0 ? (
                <div class="tools">
                    <Choice
                        label="lines of"
                        all={
                            [
                                ["console", "console"],
                                ["log", "kernel's log"],
                            ] as const
                        }
                        is={source}
                        pick={lines => store.set({ lines })}
                    />
                </div>
            ) : null}
            <p class="faint note">
                {isLog
                    ? `${boot.console.length === 0 ? "The serial console is empty. " : ""}${counted(lines.length, "line")} of the kernel's log, by its own stamps${unstamped > 0 ? `; ${counted(unstamped, "line")} without a stamp ${unstamped === 1 ? "is" : "are"} where the kernel logged ${unstamped === 1 ? "it" : "them"}` : ""}`
                    : `${counted(lines.length, "line")}, each stamped when its first byte arrived`}
                {more > 0 ? `; ${counted(more, "line")} in the middle are only in the recording` : ""}.
                {find
                    ? ` ${matches === 0 ? "No line matches." : `${counted(matches, "line")} found; Enter goes from one to the next.`}`
                    : ""}{" "}
                {selected ? (
                    <button type="button" class="link" onClick={() => store.set({ view: "tracks" })}>
                        the selection in the tracks
                    </button>
                ) : null}
            </p>
            <Table
                label="Console"
                rows={all}
                columns={columns}
                onPick={pick}
                isPicked={isPicked}
                inSight={near}
                pickedBy={1}
                linesOf={linesOf}
            />
        </div>
    );
}

/** The time from a line to the next line with a later stamp; `undefined` if the line has no stamp. */
export function ofLine(lines: readonly ConsoleLine[], no: number): Selection {
    const from = lines[no]?.at;
    if (from === undefined) return undefined;
    const next = lines.find((other, i) => i > no && other.at !== undefined && other.at > from);
    return { kind: "range", from, to: next?.at ?? from + 1 };
}

/** The last line that had arrived at an instant. */
function lastAt(lines: readonly ConsoleLine[], at: number): number | undefined {
    let last: number | undefined;
    lines.forEach((line, i) => {
        if (line.at !== undefined && line.at <= at) last = i;
    });
    return last;
}
