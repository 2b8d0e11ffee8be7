// The stacks of samples, merged. Samples have shares with an error, and a place in no time.
import type { Boot } from "./boot";
import type { SampledEvent } from "./facts";
import { Grower, type Tree } from "./merged";

const NO_FUNCTION = "(no function known)";

/** The events with samples, the one with the most first; weights of two events do not add up. */
export const eventsOf = (boot: Boot): readonly SampledEvent[] => boot.summary.sampled?.events ?? [];

/** True if the page has stacks of samples. */
export const hasStacks = (boot: Boot): boolean => (boot.stacks?.rows ?? 0) > 0;

/** The stacks of an event, callers above callees. The total is the weight of its samples. */
export function ofStacks(boot: Boot, event: number): Tree | undefined {
    const table = boot.stacks;
    if (!table || table.rows === 0) return undefined;
    const column = (name: string): ArrayLike<number> => table.numbers[name]?.values ?? [];
    const [events, parents, names, weights] = ["event", "parent", "name", "weight"].map(column);
    const grower = new Grower(eventsOf(boot)[event]?.name ?? "samples");
    const nodes: number[] = [];
    for (let i = 0; i < table.rows; i += 1) {
        if (events![i] !== event) {
            nodes.push(0);
            continue;
        }
        const above = parents![i]! > 0 ? nodes[parents![i]! - 1]! : 0;
        const node = grower.node(above, grower.keyOf(boot.names[names![i]!] || NO_FUNCTION));
        nodes.push(node);
        grower.self[node]! += weights![i]!;
        grower.count[node]! += 1;
    }
    return grower.tree();
}

/** The standard error of a share of `samples` samples, as crates/timeline/src/sampled.rs has it. */
export const errorOf = (share: number, samples: number): number => (samples > 0 ? Math.sqrt((share * (1 - share)) / samples) : 0);
