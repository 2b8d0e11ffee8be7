// Boots side by side: rows by name, phases in order, merged stacks by call path. The sums are the same as in `bootscope diff`.
import { difference, type Whole, whole } from "../lib/time";
import type { Row, Summary } from "./facts";
import type { Tree } from "./merged";

/** A row of either boot. `undefined` means that the boot lacks the row. */
export interface Compared {
    readonly name: string;
    readonly before: Whole | undefined;
    readonly after: Whole | undefined;
    /** The increase of its time. */
    readonly change: Whole;
    readonly what: "same" | "changed" | "appeared" | "vanished" | "not comparable";
}

function sum(a: Whole, b: Whole): Whole {
    return typeof a === "number" && typeof b === "number" ? a + b : BigInt(a) + BigInt(b);
}

/** The name without the mark of an indirect call: another build may call the same function directly. */
const plain = (name: string): string => name.replace(" (indirect call)", "");

/** Rows of one table by name, the greatest change first. Rows with the same name are summed. */
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

/** Phases by name, in the order of the later boot. A phase that it lacks keeps its place. */
export function phases(before: Summary, after: Summary): Compared[] {
    const lengths = (summary: Summary): Map<string, Whole> => {
        const sums = new Map<string, Whole>();
        for (const phase of summary.phases)
            sums.set(phase.name, sum(sums.get(phase.name) ?? 0, difference(whole(phase.end_ns), whole(phase.start_ns))));
        return sums;
    };
    return compared(lengths(before), lengths(after));
}

/** The evidence of a boot that decides what another boot is compared with. */
export interface Evidence {
    readonly is_traced: boolean;
    readonly has_initcalls: boolean;
}

/**
 * The evidence that only one of two boots has: which boot lacks it, and what. Rows and phases that rest on it are not compared: what
 * is not seen is not saved.
 */
export function lost(
    before: Evidence,
    after: Evidence,
): { readonly side: "before" | "after"; readonly what: "trace" | "initcalls" } | undefined {
    if (before.is_traced !== after.is_traced) return { side: before.is_traced ? "after" : "before", what: "trace" };
    if (before.has_initcalls !== after.has_initcalls) return { side: before.has_initcalls ? "after" : "before", what: "initcalls" };
    return undefined;
}

/** A row whose figures say nothing about a change. It keeps them, and has no change. */
export const incomparable = (row: Compared): Compared => ({ ...row, change: 0, what: "not comparable" });

/** True if both boots have a phase or a row. */
export const isInBoth = (row: Compared): boolean => row.before !== undefined && row.after !== undefined;

const magnitude = (change: Whole): number => Math.abs(Number(change));

function compared(before: ReadonlyMap<string, Whole>, after: ReadonlyMap<string, Whole>): Compared[] {
    const names: string[] = [...after.keys()];
    // A vanished row stands after its former predecessor.
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

/**
 * For each node, by how much its total is longer than the same path's total in the other tree. It is the whole total if that lacks
 * the path.
 */
export function changes(before: Tree, after: Tree): Float64Array {
    const out = new Float64Array(after.parent.length);
    const pairs: [number, number | undefined][] = [[0, 0]];
    for (let pair = pairs.pop(); pair; pair = pairs.pop()) {
        const [node, other] = pair;
        out[node] = after.total[node]! - (other === undefined ? 0 : before.total[other]!);
        const others = new Map(
            (other === undefined ? [] : before.children[other]!).map(child => [before.texts[before.key[child]!]!, child]),
        );
        for (const child of after.children[node]!) pairs.push([child, others.get(after.texts[after.key[child]!]!)]);
    }
    return out;
}

/** The same for each node of the earlier boot's tree. A vanished node is shorter by its whole total. */
export function changesOfEarlier(before: Tree, after: Tree): Float64Array {
    return changes(after, before).map(by => -by || 0);
}
