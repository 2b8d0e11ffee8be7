// The things of a boot: tracks, steps of the boot path, waits, stretches on CPUs, marks, lines of the console.

export interface Track {
    readonly id: number;
    readonly name: string;
    /** The name, with the track's number if two tracks may share a name. */
    readonly label: string;
    readonly kind: TrackKind;
    readonly idle: boolean;
    readonly created: number;
    readonly by: number | undefined;
    /** The thing that it stands for if another track waited for it. */
    readonly thing: number;
}

export type TrackKind = "vmm" | "firmware" | "thread" | "cpu" | "interrupts" | "console";
export const TRACK_KINDS: readonly TrackKind[] = ["vmm", "firmware", "thread", "cpu", "interrupts", "console"];

export type StayKind = "running" | "runqueue" | "interrupt" | "topic" | "wait";
export const STAY_KINDS: readonly StayKind[] = ["running", "runqueue", "interrupt", "topic", "wait"];

/** A frame of a chain: a track, and the span that was open on it. */
export interface Frame {
    readonly track: number;
    readonly span: number | undefined;
}

/** A part of the boot path that is charged to one track. */
export interface Stay {
    readonly index: number;
    readonly from: number;
    readonly to: number;
    readonly kind: StayKind;
    /** The name of what was waited for, if it has one. */
    readonly on: string;
    /** True if the owner goes on from span to span. */
    readonly goesOn: boolean;
    /** The chain of waiters; the owner comes last. */
    readonly chain: readonly Frame[];
    readonly owner: Frame;
    /** Start and length to the nanosecond, if doubles do not hold them. */
    readonly exact: { readonly from: bigint; readonly length: bigint } | undefined;
}

export type WaitKind = "thread" | "interrupt" | "holders" | "nothing" | "halted" | "unknown";
export const WAIT_KINDS: readonly WaitKind[] = ["thread", "interrupt", "holders", "nothing", "halted", "unknown"];

export interface Wait {
    readonly track: number;
    readonly from: number;
    readonly woken: number;
    readonly until: number;
    readonly kind: WaitKind;
    /** A track, or a name. */
    readonly on: number;
}

/** A stretch in which a CPU ran a track. */
export interface Running {
    readonly track: number;
    readonly cpu: number;
    readonly from: number;
    readonly to: number;
}

export interface Mark {
    readonly at: number;
    readonly name: string;
    readonly track: number;
}

export interface ConsoleLine {
    readonly at: number | undefined;
    readonly text: string;
}

/** Numbers from the first on are no thread's or address, but made up to tell units and stacks apart; addresses begin at the second. */
const [MADE_UP, ADDRESSES] = [1n << 32n, 1n << 63n];

/** The names of tracks, each different: with the thread's number, or its place among tracks of its kind and name. */
export function labelsOf(names: readonly string[], kinds: readonly TrackKind[], numbers: readonly bigint[]): string[] {
    const alike = new Map<string, number>();
    const places = names.map((name, id) => {
        const key = `${kinds[id]} ${name}`;
        const place = (alike.get(key) ?? 0) + 1;
        alike.set(key, place);
        return place;
    });
    return names.map((name, id) => {
        const same = alike.get(`${kinds[id]} ${name}`)!;
        const isMadeUp = numbers[id]! >= MADE_UP && numbers[id]! < ADDRESSES;
        if (kinds[id] === "thread" && !isMadeUp) {
            const shown = numbers[id]! >= MADE_UP ? `0x${numbers[id]!.toString(16)}` : String(numbers[id]);
            return name === shown ? name : `${name} [${shown}]`;
        }
        return same > 1 ? `${name || "(no name)"} (${places[id]} of ${same})` : name || "(no name)";
    });
}
