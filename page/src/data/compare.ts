// Boots side by side: rows by their name, phases in order, merged stacks by their path. The same sums as `bootscope diff`.
import { difference, whole, type Whole } from "../lib/time";
import type { Row, Summary } from "./facts";
import type { Tree } from "./merged";

/** A row of either boot; undefined: that boot has none. */
export interface Compared {
    readonly name: string;
    readonly before: Whole | undefined;
    readonly after: Whole | undefined;
    /** By how much it became longer. */
    readonly change: Whole;
    readonly what: "same" | "changed" | "appeared" | "vanished";
}

function sum(a: Whole, b: Whole): Whole {
    return typeof a === "number" && typeof b === "number" ? a + b : BigInt(a) + BigInt(b);
}

/** A call that went through a pointer may be direct in another build: it is the same function. */
const plain = (name: string): string => name.replace(" (indirect call)", "");

/** Rows of one table by their names, the greatest change first. Rows of one name are summed. */
export function rows(before: readonly Row[], after: readonly Row[], of: "self_ns" | "total_ns"): Compared[] {
    const byName = (rows: readonly Row[]): Map<string, Whole> => {
        const sums = new Map<string, Whole>();
        for (const row of rows) {
            const name = plain(row.detail ? `${row.name} ${row.detail}` : row.name);
            sums.set(name, sum(sums.get(name) ?? 0, whole(row[of])));
        }
        return sums;
    };
    return compared(byName(before), byName(after)).sort((a, b) => magnitude(b.change) - magnitude(a.change));
}

/** Phases by their names, in the order of the later boot; those that it lacks where they were. */
export function phases(before: Summary, after: Summary): Compared[] {
    const lengths = (summary: Summary): Map<string, Whole> => {
        const sums = new Map<string, Whole>();
        for (const phase of summary.phases) sums.set(phase.name, sum(sums.get(phase.name) ?? 0, difference(whole(phase.end_ns), whole(phase.start_ns))));
        return sums;
    };
    return compared(lengths(before), lengths(after));
}

const magnitude = (change: Whole): number => Math.abs(Number(change));

function compared(before: ReadonlyMap<string, Whole>, after: ReadonlyMap<string, Whole>): Compared[] {
    const names: string[] = [...after.keys()];
    // What vanished stands after what it stood after.
    let last = -1;
    for (const name of before.keys()) {
        const at = names.indexOf(name);
        if (at >= 0) last = at;
        else names.splice((last += 1), 0, name);
    }
    return names.map(name => {
        const [was, is] = [before.get(name), after.get(name)];
        const change = difference(is ?? 0, was ?? 0);
        const what = was === undefined ? "appeared" : is === undefined ? "vanished" : Number(change) === 0 ? "same" : "changed";
        return { name, before: was, after: is, change, what };
    });
}

/** Of each node of a tree: by how much its total is longer than that of the same path in another; the whole of it where that has none. */
export function changes(before: Tree, after: Tree): Float64Array {
    const out = new Float64Array(after.parent.length);
    const pairs: [number, number | undefined][] = [[0, 0]];
    for (let pair = pairs.pop(); pair; pair = pairs.pop()) {
        const [node, other] = pair;
        out[node] = after.total[node]! - (other === undefined ? 0 : before.total[other]!);
        const others = new Map((other === undefined ? [] : before.children[other]!).map(child => [before.texts[before.key[child]!]!, child]));
        for (const child of after.children[node]!) pairs.push([child, others.get(after.texts[after.key[child]!]!)]);
    }
    return out;
}

/** The same of each node of the earlier boot's tree: what vanished is shorter by all of it. */
export function changesOfEarlier(before: Tree, after: Tree): Float64Array {
    return changes(after, before).map(by => -by || 0);
}
