// The moments of a recording beside spans: silences of the console, values of a watched variable, samples, messages. Each kind is a
// list in order of time, which the chart draws as a lane.
import type { Boot } from "./boot";
import type { Int } from "./facts";
import { messageLanes } from "./messages";

export interface Instant {
    /** Its place among all instants of the boot. */
    readonly index: number;
    /** The list that it is in. */
    readonly lane: number;
    readonly from: number;
    /** Equal to `from` if the instant has no length. */
    readonly to: number;
    readonly text: string;
    /** Further facts, a line each, such as functions, innermost first. */
    readonly more: readonly string[];
}

export interface Instants {
    readonly lanes: readonly { readonly name: string; readonly isOfMessages: boolean; readonly all: readonly Instant[] }[];
    readonly all: readonly Instant[];
    /** The instants that the lanes leave out, and the reasons. */
    readonly notes: readonly string[];
}

/** The fields of `show --json` that are shown here. */
export interface Silences {
    readonly silences: readonly {
        readonly start_ns: Int;
        readonly end_ns: Int;
        readonly where: readonly {
            readonly cpus: readonly Int[];
            readonly moments: readonly { readonly at_ns: Int; readonly stack: readonly string[] }[];
        }[];
    }[];
}

export interface Watched {
    readonly variable: string;
    readonly readings: readonly { readonly at_ns: Int; readonly value: Int | null; readonly function: string }[];
}

/** A sample of the part `samples`. */
export interface Sample {
    readonly at: number;
    readonly cpu: number | undefined;
    readonly thread: string;
    readonly event: string;
    readonly function: string;
}

type Drawn = Omit<Instant, "index" | "lane">;

export function instantsOf(boot: Boot): Instants {
    const lists = new Map<string, Drawn[]>();
    const notes: string[] = [];
    const add = (name: string, one: Drawn): void => {
        const list = lists.get(name);
        if (list) list.push(one);
        else lists.set(name, [one]);
    };
    const { silences, watched, sampled, time_base } = boot.summary;
    // Silences and watched values have times of the host's clock. A boot on another clock has no place for them.
    const isHosts = time_base === "host";
    const elsewhere = (what: string): void =>
        void notes.push(`${what} by the host's clock, and this boot's times are another clock's: they have no place here.`);
    if (silences && silences.silences.length > 0 && !isHosts) elsewhere("Silences were looked at");
    else {
        for (const silence of silences?.silences ?? []) {
            add("silences of the console", { from: Number(silence.start_ns), to: Number(silence.end_ns), text: "silence", more: [] });
            for (const { cpus, moments } of silence.where) {
                for (const { at_ns, stack } of moments)
                    add(`CPU ${cpus[0]} when stopped`, { ...at(at_ns), text: stack[0] ?? "no kernel's function", more: stack.slice(1) });
            }
        }
    }
    if (watched && watched.readings.length > 0 && !isHosts) elsewhere(`${watched.variable || "The variable"} was read`);
    else {
        for (const { at_ns, value, function: where } of watched?.readings ?? []) {
            add(`value of ${watched!.variable || "the variable"}`, {
                ...at(at_ns),
                text: value === null ? "unmapped" : String(value),
                more: [where],
            });
        }
    }
    for (const one of boot.samples) {
        add(one.cpu === undefined ? "samples" : `samples of CPU ${one.cpu}`, {
            from: one.at,
            to: one.at,
            text: one.function,
            more: [`thread ${one.thread}`, `event ${one.event}`],
        });
    }
    if (sampled && boot.isWhole && boot.samples.length === 0)
        notes.push("Samples have a clock of their own, which nothing joins to the boot's: they have no place here.");
    // Messages come last, so that the numbers of the other moments, and links to them, do not depend on messages.
    const messages = messageLanes(boot, track => boot.hasLane(track));
    const all: Instant[] = [];
    const lanes = [...lists, ...messages.map(({ name, all }): [string, Drawn[]] => [name, [...all]])].map(([name, drawn], lane) => {
        drawn.sort((a, b) => a.from - b.from);
        const list = drawn.map((one, i): Instant => ({ ...one, index: all.length + i, lane }));
        for (const one of list) all.push(one);
        return { name, isOfMessages: lane >= lists.size, all: list };
    });
    return { lanes, all, notes };
}

function at(time: Int): { from: number; to: number } {
    return { from: Number(time), to: Number(time) };
}
