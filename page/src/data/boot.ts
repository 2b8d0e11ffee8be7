// A boot while it is being read: columns that grow part by part, and queries about them. This file must not draw.
//
// Times are doubles, for drawing. If one of them is beyond what doubles hold, `exact` columns have all to the nanosecond.

import { type Unit, unitOf, type Whole, whole } from "../lib/time";
import { type Facts, SCHEMA, type Summary } from "./facts";
import { type Instants, instantsOf, type Sample } from "./instants";
import { ByTrack, Longest } from "./lists";
import {
    type ConsoleLine,
    labelsOf,
    type Mark,
    type Running,
    STAY_KINDS,
    type Stay,
    TRACK_KINDS,
    type Track,
    WAIT_KINDS,
    type Wait,
} from "./model";
import { column, number, Spans, sumOf, texts } from "./spans";
import type { Table } from "./table";

export type { ConsoleLine, Frame, Mark, Running, Stay, StayKind, Track, TrackKind, Wait, WaitKind } from "./model";

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
    /** The merged stacks of samples. */
    stacks: Table | undefined;
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
    private onPathOf: { readonly stays: readonly Stay[]; readonly tracks: ReadonlySet<number> } | undefined;
    private parentOf: Uint32Array | undefined;
    private readonly waitsByTrack = new ByTrack<Wait>();
    private readonly runningByTrack = new ByTrack<Running>();

    /** Takes in a part. Parts must come in order. */
    add(table: Table): void {
        this.version += 1;
        const rows = Array.from(
            { length: ["spans", "frames", "stacks", "calls", "nodes", "in_spans", "order"].includes(table.name) ? 0 : table.rows },
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
            case "stacks":
                this.stacks = table;
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

    /** True if a track has more than marks: spans, time on a CPU, or a part in the boot path. */
    hasLane(track: number): boolean {
        const [from, to] = this.spansOf(track);
        return to > from || this.runningOf(track).length > 0 || this.onPath.has(track);
    }

    /** The tracks of the boot path: its owners, and those that waited for them. */
    get onPath(): ReadonlySet<number> {
        if (this.onPathOf?.stays !== this.stays)
            this.onPathOf = { stays: this.stays, tracks: new Set(this.stays.flatMap(({ chain }) => chain.map(({ track }) => track))) };
        return this.onPathOf.tracks;
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
        const kinds = Array.from({ length: table.rows }, (_, id) => TRACK_KINDS[number(table, "kind", id)] ?? "thread");
        const names = texts(table, "name");
        const labels = labelsOf(
            names,
            kinds,
            names.map((_, id) => BigInt(numbers.exact?.[id] ?? numbers.values[id] ?? 0)),
        );
        return names.map((name, id) => {
            const by = number(table, "by", id);
            return {
                id,
                name,
                kind: kinds[id]!,
                label: labels[id]!,
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

/** The end of the boot, to the digit. */
export function totalOf(boot: Boot): Whole {
    return whole(boot.summary.total_ns);
}
