// A boot while it is being read: columns that grow part by part, and queries about them. This file must not draw.
//
// Times are doubles, for drawing. If one of them is beyond what doubles hold, `exact` columns have all to the nanosecond.

import { type Unit, unitOf, type Whole, whole } from "../lib/time";
import { type Facts, SCHEMA, type Summary } from "./facts";
import { type Instants, instantsOf, type Sample } from "./instants";
import type { Numbers, Table } from "./table";

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
const TRACK_KINDS: readonly TrackKind[] = ["vmm", "firmware", "thread", "cpu", "interrupts", "console"];

export type StayKind = "running" | "runqueue" | "interrupt" | "topic" | "wait";
const STAY_KINDS: readonly StayKind[] = ["running", "runqueue", "interrupt", "topic", "wait"];

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
const WAIT_KINDS: readonly WaitKind[] = ["thread", "interrupt", "holders", "nothing", "halted", "unknown"];

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

/** Spans in columns. Only the first `count` of each column are read so far. */
export class Spans {
    count = 0;
    readonly track: Uint32Array;
    readonly start: Float64Array;
    readonly end: Float64Array;
    readonly depth: Uint32Array;
    readonly label: Uint32Array;
    /** Start and length to the nanosecond, if doubles do not hold one of them. */
    exact: { start: BigInt64Array; length: BigUint64Array } | undefined;

    constructor(readonly all: number) {
        this.track = new Uint32Array(all);
        this.start = new Float64Array(all);
        this.end = new Float64Array(all);
        this.depth = new Uint32Array(all);
        this.label = new Uint32Array(all);
    }

    add(table: Table): void {
        const [track, start, length, depth, label] = ["track", "start", "length", "depth", "label"].map(n => column(table, n));
        const at = this.count;
        if (at + table.rows > this.all) throw new Error("more spans than were announced");
        this.track.set(track!.values, at);
        this.start.set(start!.values, at);
        for (let i = 0; i < table.rows; i += 1) this.end[at + i] = start!.values[i]! + length!.values[i]!;
        this.depth.set(depth!.values, at);
        this.label.set(label!.values, at);
        const isWide = start!.exact !== undefined || length!.exact !== undefined;
        if (isWide && !this.exact) {
            this.exact = { start: new BigInt64Array(this.all), length: new BigUint64Array(this.all) };
            // The earlier spans fit in doubles, so these are exact.
            for (let i = 0; i < at; i += 1) this.setExact(i, BigInt(this.start[i]!), BigInt(this.end[i]! - this.start[i]!));
        }
        if (this.exact) {
            for (let i = 0; i < table.rows; i += 1) {
                this.setExact(at + i, BigInt(start!.exact?.[i] ?? start!.values[i]!), BigInt(length!.exact?.[i] ?? length!.values[i]!));
            }
        }
        this.count += table.rows;
    }

    private setExact(i: number, start: bigint, length: bigint): void {
        this.exact!.start[i] = start;
        this.exact!.length[i] = length;
    }
}

function column(table: Table, name: string): Numbers {
    const numbers = table.numbers[name];
    if (!numbers) throw new Error(`part ${table.name} has no column ${name}`);
    return numbers;
}

function sumOf(values: ArrayLike<number>): number {
    let sum = 0;
    for (let i = 0; i < values.length; i += 1) sum += values[i]!;
    return sum;
}

function texts(table: Table, name: string): string[] {
    const values = table.texts[name];
    if (!values) throw new Error(`part ${table.name} has no column ${name}`);
    return values;
}

function number(table: Table, name: string, row: number): number {
    return column(table, name).values[row] ?? 0;
}

/** A track's spans in rows by depth, each in order of time. */
export interface Rows {
    readonly rows: readonly Uint32Array[];
    /** The number of the boot's spans when these rows were made. */
    readonly asOf: number;
}

const NO_ROWS: Rows = { rows: [], asOf: 0 };

export class Boot {
    facts: Facts | undefined;
    tracks: Track[] = [];
    stays: Stay[] = [];
    spans = new Spans(0);
    names: string[] = [];
    labels: { name: number; detail: number; kind: number; thing: number }[] = [];
    running: Running[] = [];
    waits: Wait[] = [];
    marks: Mark[] = [];
    /** Messages of the kernel's log without a time, in its order, each with the time of the next message that has one. */
    unplaced: { readonly before: number; readonly text: string }[] = [];
    samples: readonly Sample[] = [];
    private instantsAsOf: { version: number; instants: Instants } | undefined;
    console: ConsoleLine[] = [];
    private log: readonly ConsoleLine[] | undefined;
    calls: Table | undefined;
    /** The call of each span, and the time spent in the spans of each call, if the page has them. */
    nodes: Table | undefined;
    inSpans: Table | undefined;
    /** True if the last part was read. */
    isWhole = false;
    /** Grows with each part. A result kept for an older version is out of date. */
    version = 0;

    private stayTable: Table | undefined;
    private firstSpan: Uint32Array = new Uint32Array(1);
    private readonly rowsOf = new Map<number, Rows>();
    private labelTexts: string[] = [];
    private parentOf: Uint32Array | undefined;
    private readonly waitsByTrack = new ByTrack<Wait>();
    private readonly runningByTrack = new ByTrack<Running>();

    /** Takes in a part. Parts must come in order. */
    add(table: Table): void {
        this.version += 1;
        const rows = Array.from(
            { length: ["spans", "frames", "calls", "nodes", "in_spans", "order"].includes(table.name) ? 0 : table.rows },
            (_, i) => i,
        );
        const at = (name: string, row: number): number => number(table, name, row);
        switch (table.name) {
            case "boot": {
                const facts = JSON.parse(texts(table, "json")[0] ?? "") as Facts;
                if (facts.schema !== SCHEMA) throw new Error(`data of ${facts.schema}, while this page reads ${SCHEMA}`);
                this.facts = facts;
                this.spans = new Spans(facts.spans);
                break;
            }
            case "tracks":
                this.tracks = this.readTracks(table);
                this.firstSpan = new Uint32Array(this.tracks.length + 1);
                break;
            case "stays":
                this.stayTable = table;
                break;
            case "frames":
                this.readStays(table);
                break;
            case "names":
                for (const name of texts(table, "name")) this.names.push(name);
                this.nameStays();
                break;
            case "labels":
                for (const i of rows)
                    this.labels.push({ name: at("name", i), detail: at("detail", i), kind: at("kind", i), thing: at("thing", i) });
                break;
            case "spans":
                this.addSpans(table);
                break;
            case "running":
                this.running = rows.map(i => {
                    const from = at("from", i);
                    return { track: at("track", i), cpu: at("cpu", i), from, to: this.ended(from, at("length", i)) };
                });
                break;
            case "waits":
                this.waits = rows.map(i => {
                    const from = at("from", i);
                    return {
                        track: at("track", i),
                        from,
                        woken: from + at("woken", i),
                        until: this.ended(from, at("length", i)),
                        kind: WAIT_KINDS[at("kind", i)] ?? "unknown",
                        on: at("on", i),
                    };
                });
                break;
            case "marks":
                this.marks = rows.map(i => ({ at: at("at", i), name: this.names[at("name", i)] ?? "", track: at("track", i) }));
                break;
            case "unplaced":
                this.unplaced = rows.map(i => ({
                    before: at("has_later", i) ? at("later", i) : Infinity,
                    text: this.names[at("name", i)] ?? "",
                }));
                break;
            case "samples":
                this.samples = rows.map(i => ({
                    at: at("at", i),
                    cpu: at("cpu", i) ? at("cpu", i) - 1 : undefined,
                    thread: this.names[at("thread", i)] ?? "",
                    event: this.names[at("event", i)] ?? "",
                    function: this.names[at("function", i)] ?? "",
                }));
                break;
            case "calls":
                this.calls = table;
                break;
            case "nodes":
                this.nodes = table;
                break;
            case "in_spans":
                this.inSpans = table;
                break;
            case "console":
                this.console = this.console.concat(
                    rows.map(i => ({ at: at("stamped", i) ? at("at", i) : undefined, text: texts(table, "text")[i] ?? "" })),
                );
                break;
            case "end":
                this.isWhole = true;
                break;
            default: // A later version may have more.
        }
    }

    get summary(): Summary {
        if (!this.facts) throw new Error("nothing was read yet");
        return this.facts.summary;
    }

    /** The boot's name beside others. */
    get name(): string {
        const { name } = this.facts ?? {};
        return name || `${this.summary.subject.os} ${this.summary.subject.kernel}`.trim() || "a boot";
    }

    /** Silences, watched values and samples. */
    get instants(): Instants {
        if (this.instantsAsOf?.version !== this.version) this.instantsAsOf = { version: this.version, instants: instantsOf(this) };
        return this.instantsAsOf.instants;
    }

    get unit(): Unit {
        return unitOf(this.summary);
    }

    /** The time from zero to the end mark. */
    get total(): number {
        return Number(this.summary.total_ns);
    }

    /** The earliest and the latest time to show. */
    get extent(): { from: number; to: number } {
        const first = this.summary.phases[0];
        const from = Math.min(0, first ? Number(first.start_ns) : 0);
        const to = Math.max(this.total, from + 1);
        return { from, to };
    }

    track(id: number): Track | undefined {
        return this.tracks[id];
    }

    /** The text of a label: the name, and its detail. */
    labelText(label: number): string {
        const cached = this.labelTexts[label];
        if (cached !== undefined) return cached;
        const { name, detail } = this.labels[label] ?? { name: 0, detail: 0 };
        const [first, second] = [this.names[name] ?? "", this.names[detail] ?? ""];
        const text = (second ? `${first} ${second}` : first) || "(no name)";
        this.labelTexts[label] = text;
        return text;
    }

    spanName(span: number): string {
        return this.labelText(this.spans.label[span] ?? 0);
    }

    spanKind(span: number): string {
        return this.facts?.kinds[this.labels[this.spans.label[span] ?? 0]?.kind ?? 0] ?? "";
    }

    spanLength(span: number): Whole {
        return this.spans.exact ? (this.spans.exact.length[span] ?? 0n) : this.spans.end[span]! - this.spans.start[span]!;
    }

    spanStart(span: number): Whole {
        return this.spans.exact ? (this.spans.exact.start[span] ?? 0n) : this.spans.start[span]!;
    }

    /**
     * The kernel's log by its own stamps, including lines that a quiet guest did not print. A message without a stamp keeps its
     * place.
     */
    kernelLog(): readonly ConsoleLine[] {
        if (!this.isWhole) return [];
        if (this.log) return this.log;
        const placed = this.marks
            .filter(mark => this.tracks[mark.track]?.kind === "console")
            .map(({ at, name }) => ({ at, text: name, place: at }));
        const others = this.unplaced.map(({ before, text }) => ({ at: undefined, text, place: before }));
        // The sort is stable: messages without a stamp stay in order, before the message that follows them.
        this.log = [...others, ...placed]
            .sort((a, b) => (a.place === b.place ? 0 : a.place - b.place))
            .map(({ at, text }) => ({ at, text }));
        return this.log;
    }

    /** The range of a track's spans: the first, and the one after the last. */
    spansOf(track: number): [number, number] {
        return [this.firstSpan[track] ?? 0, this.firstSpan[track + 1] ?? 0];
    }

    /** A track's spans by depth. */
    rows(track: number): Rows {
        const [first, end] = this.spansOf(track);
        const cached = this.rowsOf.get(track) ?? NO_ROWS;
        if (cached.asOf === end) return cached;
        const { depth } = this.spans;
        const counts: number[] = [];
        for (let i = first; i < end; i += 1) {
            const d = depth[i]!;
            while (counts.length <= d) counts.push(0);
            counts[d]! += 1;
        }
        const rows = counts.map(count => new Uint32Array(count));
        const filled = counts.map(() => 0);
        for (let i = first; i < end; i += 1) {
            const d = depth[i]!;
            rows[d]![filled[d]!++] = i;
        }
        const made = { rows, asOf: end };
        this.rowsOf.set(track, made);
        return made;
    }

    /** For each span 1 + its parent; 0 for the outermost. */
    parents(): Uint32Array {
        if (this.parentOf?.length === this.spans.count) return this.parentOf;
        const { count, depth, track } = this.spans;
        const parents = new Uint32Array(count);
        const open: number[] = [];
        for (let i = 0; i < count; i += 1) {
            const d = track[i] === track[i - 1] || i === 0 ? depth[i]! : 0;
            open.length = Math.min(open.length, d);
            parents[i] = d > 0 ? 1 + (open[d - 1] ?? 0) : 0;
            open[d] = i;
        }
        this.parentOf = parents;
        return parents;
    }

    /** The innermost span of a track at an instant. */
    innermost(track: number, at: number): number | undefined {
        let innermost: number | undefined;
        for (const row of this.rows(track).rows) {
            const span = row[this.firstEndingAfter(row, at)];
            if (span === undefined || this.spans.start[span]! > at) break;
            innermost = span;
        }
        return innermost;
    }

    /** The outermost span of a track at an instant. */
    outermost(track: number, at: number): number | undefined {
        const [row] = this.rows(track).rows;
        const span = row?.[this.firstEndingAfter(row, at)];
        return span !== undefined && this.spans.start[span]! <= at ? span : undefined;
    }

    /** The place of the first span that ends after an instant, from `from` on. `row` must be spans side by side in order of time. */
    firstEndingAfter(row: Uint32Array, at: number, from = 0): number {
        const { end } = this.spans;
        let [low, high] = [from, row.length];
        while (low < high) {
            const middle = (low + high) >> 1;
            if (end[row[middle]!]! > at) high = middle;
            else low = middle + 1;
        }
        return low;
    }

    /** The stay at an instant. After the end it is the last one. */
    stayAt(at: number): Stay | undefined {
        let [low, high] = [0, this.stays.length - 1];
        while (low < high) {
            const middle = (low + high) >> 1;
            if (this.stays[middle]!.to > at) high = middle;
            else low = middle + 1;
        }
        return this.stays[low];
    }

    /** A track's waits, in order of time. */
    waitsOf(track: number): readonly Wait[] {
        return this.waitsByTrack.of(this.waits, track);
    }

    /** The stretches in which a track ran, in order of time. */
    runningOf(track: number): readonly Running[] {
        return this.runningByTrack.of(this.running, track);
    }

    /** The longest spans that stand for a thing, at most `most`, longest first, and the number of all of them. */
    spansOfThing(thing: number, most: number): { spans: number[]; count: number } {
        const labels = new Set<number>();
        this.labels.forEach((label, i) => {
            if (label.thing === thing) labels.add(i);
        });
        return this.longest(label => labels.has(label), most);
    }

    /** The longest spans with a wanted label, longest first. */
    longest(isWanted: (label: number) => boolean, most: number): { spans: number[]; count: number } {
        const { count, label } = this.spans;
        const wanted = Uint8Array.from(this.labels, (_, i) => (isWanted(i) ? 1 : 0));
        const longest = new Longest(span => this.partOf(span, -Infinity, Infinity), most);
        for (let i = 0; i < count; i += 1) if (wanted[label[i]!]) longest.add(i);
        return { spans: longest.all(), count: longest.count };
    }

    /** The longest spans that overlap a window. */
    longestWithin(from: number, to: number, most: number): number[] {
        const { count, start, end } = this.spans;
        const longest = new Longest(span => this.partOf(span, -Infinity, Infinity), most);
        for (let i = 0; i < count; i += 1) if (start[i]! < to && end[i]! > from) longest.add(i);
        return longest.all();
    }

    /** The spans of a track with the longest parts in a stretch of time, longest part first; outer ones before inner. */
    longestPartsOn(track: number, from: number, to: number, most: number): number[] {
        const { start } = this.spans;
        const longest = new Longest(span => this.partOf(span, from, to), most);
        for (const row of this.rows(track).rows) {
            for (let i = this.firstEndingAfter(row, from); i < row.length && start[row[i]!]! < to; i += 1) longest.add(row[i]!);
        }
        return longest.all();
    }

    /** The length of a span's part in a stretch of time. */
    partOf(span: number, from: number, to: number): number {
        return Math.max(Math.min(this.spans.end[span]!, to) - Math.max(this.spans.start[span]!, from), 0);
    }

    /** The spans of the same kind and depth before and after one on its track. */
    neighbours(span: number): { before: number | undefined; after: number | undefined } {
        const { depth, track, label } = this.spans;
        const row = this.rows(track[span]!).rows[depth[span]!] ?? new Uint32Array();
        const kindOf = (one: number): number | undefined => this.labels[label[one]!]?.kind;
        const at = row.indexOf(span);
        const towards = (step: 1 | -1): number | undefined => {
            let i = at + step;
            while (i >= 0 && i < row.length && kindOf(row[i]!) !== kindOf(span)) i += step;
            return row[i];
        };
        return { before: towards(-1), after: towards(1) };
    }

    private ended(from: number, length: number): number {
        return length === 0 ? Math.max(this.total, from) : from + length - 1;
    }

    private readTracks(table: Table): Track[] {
        const numbers = column(table, "number");
        return texts(table, "name").map((name, id) => {
            const no = numbers.exact?.[id] ?? numbers.values[id] ?? 0;
            const kind = TRACK_KINDS[number(table, "kind", id)] ?? "thread";
            const shown = BigInt(no) > 0xffff_ffffn ? `0x${no.toString(16)}` : String(no);
            const by = number(table, "by", id);
            return {
                id,
                name,
                kind,
                label: kind === "thread" && name !== shown ? `${name} [${shown}]` : name || "(no name)",
                idle: number(table, "idle", id) !== 0,
                created: number(table, "created", id),
                by: by > 0 ? by - 1 : undefined,
                thing: number(table, "thing", id),
            };
        });
    }

    private readStays(frames: Table): void {
        const table = this.stayTable;
        if (!table) throw new Error("frames of no stays");
        const [track, span] = [column(frames, "track").values, column(frames, "span").values];
        const lengths = column(table, "length");
        // Lengths that doubles hold may have a sum that they do not hold.
        const isWide = lengths.exact !== undefined || sumOf(lengths.values) > Number.MAX_SAFE_INTEGER;
        let [from, frame, exactFrom] = [0, 0, 0n];
        this.stays = Array.from({ length: table.rows }, (_, index) => {
            const length = BigInt(lengths.exact?.[index] ?? lengths.values[index] ?? 0);
            const exact = isWide ? { from: exactFrom, length } : undefined;
            exactFrom += length;
            const to = isWide ? Number(exactFrom) : from + number(table, "length", index);
            const chain = Array.from({ length: number(table, "frames", index) }, () => {
                const one = { track: track[frame] ?? 0, span: span[frame] ? span[frame]! - 1 : undefined };
                frame += 1;
                return one;
            });
            const stay: Stay = {
                index,
                from,
                to,
                chain,
                exact,
                on: "",
                kind: STAY_KINDS[number(table, "kind", index)] ?? "wait",
                goesOn: number(table, "goes_on", index) !== 0,
                owner: chain[chain.length - 1] ?? { track: 0, span: undefined },
            };
            from = to;
            return stay;
        });
    }

    /** Adds names to the stays. They come later, because the first picture needs no names. */
    private nameStays(): void {
        const table = this.stayTable;
        if (!table) return;
        this.stays = this.stays.map(stay => {
            const on = number(table, "on", stay.index);
            return on > 0 && stay.on === "" ? { ...stay, on: this.names[on - 1] ?? "" } : stay;
        });
    }

    private addSpans(table: Table): void {
        const before = this.spans.count;
        this.spans.add(table);
        const { count, track } = this.spans;
        for (let i = before; i < count; i += 1) {
            const t = track[i]!;
            if (i === 0 || track[i - 1] !== t) {
                for (let later = i === 0 ? 0 : track[i - 1]! + 1; later <= t; later += 1) this.firstSpan[later] = i;
            }
        }
        // Tracks after the last one read begin at its end so far.
        const last = count > 0 ? track[count - 1]! : 0;
        this.firstSpan.fill(count, last + 1);
    }
}

/** Keeps the longest of many spans, without sorting all. */
class Longest {
    count = 0;
    private kept: number[] = [];
    /** Shorter spans are no longer among the longest. */
    private least = -1;

    constructor(
        private readonly length: (span: number) => number,
        private readonly most: number,
    ) {}

    add(span: number): void {
        this.count += 1;
        if (this.length(span) <= this.least) return;
        this.kept.push(span);
        if (this.kept.length >= 2 * this.most + 100) this.cut();
    }

    private cut(): void {
        this.kept.sort((a, b) => this.length(b) - this.length(a) || a - b);
        this.kept.length = Math.min(this.kept.length, this.most);
        if (this.kept.length === this.most) this.least = this.length(this.kept[this.most - 1] ?? 0);
    }

    all(): number[] {
        this.cut();
        return this.kept;
    }
}

/** The part of a list for each track, computed once per list. */
class ByTrack<T extends { readonly track: number }> {
    private list: readonly T[] | undefined;
    private parts = new Map<number, T[]>();

    of(list: readonly T[], track: number): readonly T[] {
        if (this.list !== list) {
            this.list = list;
            this.parts = new Map();
            for (const one of list) {
                const part = this.parts.get(one.track);
                if (part) part.push(one);
                else this.parts.set(one.track, [one]);
            }
        }
        return this.parts.get(track) ?? [];
    }
}

/** The end of the boot, to the digit. */
export function totalOf(boot: Boot): Whole {
    return whole(boot.summary.total_ns);
}
