// Merged stacks: time by call path, of the boot path, of all threads, or of every call in the call profile.
import type { Boot } from "./boot";
import { Spread } from "./spread";

/**
 * A tree of merged stacks. The key of a node is a label, a track, a name, or a kind of waiting; siblings with equal keys are
 * merged.
 */
export interface Tree {
    readonly texts: readonly string[];
    /** By node: its parent. The root, 0, is its own parent. */
    readonly parent: readonly number[];
    /** By node: its place in `texts`. */
    readonly key: readonly number[];
    readonly self: readonly number[];
    readonly total: readonly number[];
    /** The number of times that it was entered. */
    readonly count: readonly number[];
    /** By node: its children, those with the most time first. */
    readonly children: readonly (readonly number[])[];
    /** The unit of times. */
    readonly unit: "time" | "instructions";
}

export class Grower {
    readonly texts: string[] = [];
    private readonly keys = new Map<string, number>();
    private readonly nodes = new Map<number, number>();
    readonly parent: number[] = [0];
    readonly key: number[] = [0];
    readonly self: number[] = [0];
    readonly count: number[] = [0];

    constructor(root: string) {
        this.keyOf(root);
    }

    keyOf(text: string): number {
        const existing = this.keys.get(text);
        if (existing !== undefined) return existing;
        this.texts.push(text);
        this.keys.set(text, this.texts.length - 1);
        return this.texts.length - 1;
    }

    /** The node for a key below another. */
    node(parent: number, key: number): number {
        // A browser's memory holds fewer than 2^26 of each, so the product is exact.
        const place = parent * 0x400_0000 + key;
        const existing = this.nodes.get(place);
        if (existing !== undefined) return existing;
        const node = this.parent.length;
        this.nodes.set(place, node);
        this.parent.push(parent);
        this.key.push(key);
        this.self.push(0);
        this.count.push(0);
        return node;
    }

    tree(unit: "time" | "instructions" = "time"): Tree {
        const total = [...this.self];
        const children: number[][] = total.map(() => []);
        for (let i = total.length - 1; i > 0; i -= 1) {
            total[this.parent[i]!]! += total[i]!;
            children[this.parent[i]!]!.push(i);
        }
        for (const one of children) one.sort((a, b) => total[b]! - total[a]! || a - b);
        const { texts, parent, key, self, count } = this;
        return { texts, parent, key, self, total, count, children, unit };
    }
}

const RUNQUEUE = "runqueue";
/** Frames for time outside of spans, in the words of the tables. */
const NO_FUNCTION = "(no function known)";
const NO_THREAD = "(no thread known to run)";

/**
 * The boot path: the chain of waits, down to the owner of the time, including calls that are too short to be spans. A thread that
 * waited for a CPU stands above `runqueue`, and the owner of that CPU below it. The total is that of the boot, or of its part in
 * `window`.
 */
export function ofPath(boot: Boot, window?: { from: number; to: number }): Tree {
    const grower = new Grower("boot path");
    const labels: number[] = [];
    const label = (no: number): number => (labels[no] ??= grower.keyOf(boot.labelText(no)));
    const parents = boot.parents();
    // For each span, its last node and that node's parent. Nearly every span is in one stretch of one chain.
    const [nodeOf, belowOf] = [new Int32Array(boot.spans.count), new Int32Array(boot.spans.count).fill(-1)];
    /** Goes down from a node through the ancestors of a span, and the span. */
    const through = (below: number, span: number | undefined): number => {
        const around: number[] = [];
        let at = span;
        while (at !== undefined && belowOf[at] !== below) {
            around.push(at);
            at = parents[at]! > 0 ? parents[at]! - 1 : undefined;
        }
        let node = at === undefined ? below : nodeOf[at]!;
        for (let i = around.length - 1; i >= 0; i -= 1) {
            const inner = around[i]!;
            node = grower.node(node, label(boot.spans.label[inner]!));
            nodeOf[inner] = node;
            belowOf[inner] = below;
        }
        return node;
    };
    const spread = Spread.of(boot);
    // The time to share out for each node and call path, and the interrupts of each thread's node.
    const toShare = new Map<number, { node: number; thread: number; path: number; time: number }>();
    const share = (node: number, thread: number, path: number, time: number): void => {
        // As in `Grower.node`.
        const key = node * 0x400_0000 + path;
        const existing = toShare.get(key);
        if (existing) existing.time += time;
        else toShare.set(key, { node, thread, path, time });
    };
    for (const stay of boot.stays) {
        const [from, to] = window ? [Math.max(stay.from, window.from), Math.min(stay.to, window.to)] : [stay.from, stay.to];
        if (from >= to) continue;
        let [node, thread] = [0, 0];
        stay.chain.forEach((frame, i) => {
            const isOwner = i === stay.chain.length - 1;
            if (isOwner && stay.kind === "runqueue") node = grower.node(node, grower.keyOf(RUNQUEUE));
            node = thread = grower.node(node, grower.keyOf(boot.track(frame.track)?.name ?? ""));
            if (!isOwner || !stay.goesOn) node = through(node, frame.span);
        });
        const ran = stay.kind === "running" || stay.kind === "runqueue";
        const wait = ran ? undefined : stay.kind === "wait" ? "wait" : `wait for ${stay.on}`;
        const spend = (at: number, span: number | undefined, time: number): void => {
            const path = ran ? spread?.path(boot, stay.owner.track, span) : undefined;
            if (path !== undefined) {
                grower.count[at]! += 1;
                return share(at, thread, path, time);
            }
            const leaf = wait === undefined ? at : grower.node(at, grower.keyOf(wait));
            grower.self[leaf]! += time;
            grower.count[leaf]! += 1;
        };
        if (!stay.goesOn) spend(node, stay.owner.span, to - from);
        else pieces(boot, stay.owner.track, from, to, (span, time) => spend(through(node, span), span, time));
    }
    if (spread) {
        const called = (from: number, name: number): number => grower.node(from, grower.keyOf(boot.names[name] ?? ""));
        const addSelf = (at: number, time: number): void => {
            grower.self[at]! += time;
        };
        for (const { node, thread, path, time } of toShare.values()) {
            const elsewhere = spread.interrupts(path, time);
            spread.share(path, node, time - elsewhere, called, addSelf);
            if (elsewhere > 0) spread.share(spread.bottomOf(path), thread, elsewhere, called, addSelf);
        }
        inWholes(grower.self);
    }
    return grower.tree();
}

/** Rounds numbers in a way that their sum stays the rounded sum. */
function inWholes(numbers: number[]): void {
    let [sum, given] = [0, 0];
    numbers.forEach((one, i) => {
        sum += one;
        numbers[i] = Math.round(sum) - given;
        given += numbers[i]!;
    });
}

/** Cuts a stretch of a track where it enters or leaves a span. `each` gets the innermost span and the length. */
export function pieces(boot: Boot, track: number, from: number, to: number, each: (span: number | undefined, time: number) => void): void {
    const { start, end } = boot.spans;
    const [, last] = boot.spansOf(track);
    const parents = boot.parents();
    let span = boot.innermost(track, from);
    let next = firstStartingAfter(boot, track, from);
    for (let at = from; at < to; ) {
        const ends = span === undefined ? Infinity : end[span]!;
        const begins = next < last ? start[next]! : Infinity;
        if (begins < ends && begins < to) {
            if (begins > at) each(span, begins - at);
            at = Math.max(at, begins);
            if (end[next]! > begins) span = next;
            next += 1;
        } else if (ends < to) {
            if (ends > at) each(span, ends - at);
            at = Math.max(at, ends);
            const around = parents[span!]!;
            span = around > 0 ? around - 1 : undefined;
        } else {
            each(span, to - at);
            at = to;
        }
    }
}

/** The first span of a track that starts later than an instant. */
function firstStartingAfter(boot: Boot, track: number, at: number): number {
    let [low, high] = boot.spansOf(track);
    while (low < high) {
        const middle = (low + high) >> 1;
        if (boot.spans.start[middle]! > at) high = middle;
        else low = middle + 1;
    }
    return low;
}

type Time = readonly [from: number, to: number];

/**
 * The work of every thread up to the end mark, or in a window of it, by the rule of `show --all-threads`. The sum is that of its
 * table plus the time below "wait", which the table leaves out. Threads work side by side, so the sum is not the length of the
 * boot.
 */
export function ofThreads(boot: Boot, window?: { from: number; to: number }): Tree {
    const grower = new Grower("all threads");
    const { start, end, depth, label } = boot.spans;
    const labels: number[] = [];
    const [from, to] = [Math.max(window?.from ?? 0, 0), Math.min(window?.to ?? boot.total, boot.total)];
    const covered: Time[] = [];
    const traced = boot.facts?.is_traced ? boot.running : [];
    const tracedFrom = traced.reduce((first, run) => Math.min(first, run.from), Infinity);
    for (const track of boot.tracks) {
        if (track.kind === "console" || track.idle) continue;
        const thread = (): number => grower.node(0, grower.keyOf(track.name));
        const [first, last] = boot.spansOf(track.id);
        const nodes = new Int32Array(last - first);
        const open: number[] = [];
        for (let i = first; i < last; i += 1) {
            if (start[i]! >= to || end[i]! < from) continue;
            const d = depth[i]!;
            const node = grower.node(d > 0 ? open[d - 1]! : thread(), (labels[label[i]!] ??= grower.keyOf(boot.labelText(label[i]!))));
            grower.count[node]! += 1;
            nodes[i - first] = open[d] = node;
        }
        const spend = ([begin, until]: Time, nodeOf: (span: number | undefined) => number): void => {
            pieces(boot, track.id, begin, until, (span, time) => {
                grower.self[nodeOf(span)]! += time;
            });
        };
        const ran = (span: number | undefined): number =>
            span === undefined ? grower.node(thread(), grower.keyOf(NO_FUNCTION)) : nodes[span - first]!;
        const waited = (span: number | undefined): number => grower.node(ran(span), grower.keyOf("wait"));
        const isScheduled = traced.length > 0 && boot.runningOf(track.id).length > 0;
        const runs = isScheduled ? boot.runningOf(track.id).flatMap(run => cut(run.from, run.to, from, to)) : [];
        // Before the scheduler's trace, a thread's spans show its work. During the trace they include its waits.
        let at = isScheduled ? Math.min(Math.max(tracedFrom, from), to) : to;
        for (const time of inSpans(boot, track.id, from, at)) {
            covered.push(time);
            spend(time, ran);
        }
        for (const run of runs) {
            for (const time of inSpans(boot, track.id, at, run[0])) spend(time, waited);
            covered.push(run);
            spend(run, ran);
            at = run[1];
        }
        for (const time of inSpans(boot, track.id, at, to)) spend(time, waited);
    }
    covered.sort((a, b) => a[0] - b[0]);
    let at = from;
    for (const [begin, until] of [...covered, [to, to]] as const) {
        if (begin > at) grower.self[grower.node(0, grower.keyOf(NO_THREAD))]! += begin - at;
        at = Math.max(at, until);
    }
    return grower.tree();
}

/** The part of a stretch of time within another. */
function cut(from: number, to: number, first: number, last: number): Time[] {
    const time: Time = [Math.max(from, first), Math.min(to, last)];
    return time[0] < time[1] ? [time] : [];
}

/** The parts of a stretch of time in which a track has any span. */
function inSpans(boot: Boot, track: number, from: number, to: number): Time[] {
    const { start, end } = boot.spans;
    const [row] = boot.rows(track).rows;
    const parts: Time[] = [];
    if (!row) return parts;
    for (let i = boot.firstEndingAfter(row, from); i < row.length && start[row[i]!]! < to; i += 1)
        parts.push(...cut(start[row[i]!]!, end[row[i]!]!, from, to));
    return parts;
}

/** Every call of the call profile, including calls that are too short to be spans. */
export function ofCalls(boot: Boot): Tree | undefined {
    const table = boot.calls;
    if (!table || table.rows === 0) return undefined;
    const grower = new Grower("counted calls");
    const column = (name: string): ArrayLike<number> => table.numbers[name]?.values ?? [];
    const [parent, name, calls, self] = ["parent", "name", "calls", "self"].map(column);
    const nodes: number[] = [];
    for (let i = 0; i < table.rows; i += 1) {
        const above = parent![i]! > 0 ? nodes[parent![i]! - 1]! : 0;
        const node = grower.node(above, grower.keyOf(boot.names[name![i]!] ?? ""));
        nodes.push(node);
        grower.self[node]! += self![i]!;
        grower.count[node]! += calls![i]!;
    }
    return grower.tree();
}

/** The tree upside down: each function, and its callers below it. */
export function upsideDown(tree: Tree): Tree {
    const grower = new Grower(tree.texts[0] ?? "");
    const keys = tree.texts.map(text => grower.keyOf(text));
    for (let i = 1; i < tree.self.length; i += 1) {
        if (tree.self[i] === 0) continue;
        let node = 0;
        for (let at = i; at > 0; at = tree.parent[at]!) node = grower.node(node, keys[tree.key[at]!]!);
        grower.self[node]! += tree.self[i]!;
        grower.count[node]! += tree.count[i]!;
    }
    return grower.tree(tree.unit);
}

/** True if a node lies in another of the same key. */
function isWithinItself(tree: Tree, node: number): boolean {
    for (let at = tree.parent[node]!; at > 0; at = tree.parent[at]!) if (tree.key[at] === tree.key[node]) return true;
    return false;
}

/** The callees and the callers of one function, with the time that was spent in it. */
export function sandwich(tree: Tree, text: string): { callees: Tree; callers: Tree } {
    const key = tree.texts.indexOf(text);
    const [down, up] = [new Grower(text), new Grower(text)];
    const copy = (from: number, to: number): void => {
        const stack: [number, number][] = [[from, to]];
        for (let next = stack.pop(); next; next = stack.pop()) {
            const [node, at] = next;
            down.self[at]! += tree.self[node]!;
            down.count[at]! += tree.count[node]!;
            for (const child of tree.children[node]!) stack.push([child, down.node(at, down.keyOf(tree.texts[tree.key[child]!]!))]);
        }
    };
    for (let i = 1; i < tree.self.length; i += 1) {
        if (tree.key[i] !== key || isWithinItself(tree, i)) continue;
        copy(i, 0);
        let node = 0;
        for (let at = tree.parent[i]!; at > 0; at = tree.parent[at]!) node = up.node(node, up.keyOf(tree.texts[tree.key[at]!]!));
        up.self[node]! += tree.total[i]!;
        up.count[node]! += tree.count[i]!;
    }
    return { callees: down.tree(tree.unit), callers: up.tree(tree.unit) };
}

/** Functions over all their places: self, total (recursion counted once), and number of calls. */
export function functions(tree: Tree): { text: string; self: number; total: number; count: number }[] {
    const rows = tree.texts.map(text => ({ text, self: 0, total: 0, count: 0 }));
    for (let i = 1; i < tree.self.length; i += 1) {
        const row = rows[tree.key[i]!]!;
        row.self += tree.self[i]!;
        row.count += tree.count[i]!;
        if (!isWithinItself(tree, i)) row.total += tree.total[i]!;
    }
    return rows.filter(row => row.total > 0 || row.self > 0).sort((a, b) => b.self - a.self || b.total - a.total);
}
