// Splits the time of an innermost span between the span and the calls in it that are too short to be spans. The rules are those of
// crates/analysis/src/spread.rs, whose header justifies them.
import type { Boot } from "./boot";

/** The smallest share: a thousandth of a nanosecond is not split further. */
const MIN_SHARE = 1e-3;

/** Every call by path, ready to share out time. */
export class Spread {
    private constructor(
        private readonly nameOf: ArrayLike<number>,
        /** The time that was spent while a span of the path was the innermost. */
        private readonly inSpans: ArrayLike<number>,
        /** For each span, 1 + its path. */
        private readonly ofSpan: ArrayLike<number>,
        /** The time spent in a path and below it, outside of spans below it. */
        private readonly pool: Float64Array,
        private readonly bottom: Uint32Array,
        private readonly children: readonly (readonly number[])[],
        private readonly ofTrack: ReadonlyMap<string, number>,
    ) {}

    /** Linear in the paths. Returns undefined without a call trace, or if the page does not map spans to calls. */
    static of(boot: Boot): Spread | undefined {
        const { calls, nodes, inSpans } = boot;
        if (!calls || calls.rows === 0 || !nodes || !inSpans) return undefined;
        const column = (table: typeof calls, name: string): ArrayLike<number> => table.numbers[name]?.values ?? [];
        const [parent, nameOf, own, held] = [
            column(calls, "parent"),
            column(calls, "name"),
            column(calls, "self"),
            column(inSpans, "spent"),
        ];
        const pool = Float64Array.from(own);
        const bottom = new Uint32Array(calls.rows);
        const children: number[][] = Array.from({ length: calls.rows }, () => []);
        const ofTrack = new Map<string, number>();
        for (let i = 0; i < calls.rows; i += 1) {
            const above = parent[i]! - 1;
            bottom[i] = above < 0 ? i : bottom[above]!;
            if (above < 0) ofTrack.set(boot.names[nameOf[i]!] ?? "", i);
            else children[above]!.push(i);
        }
        for (let i = calls.rows - 1; i >= 0; i -= 1) {
            if (parent[i]! > 0) pool[parent[i]! - 1]! += Math.max(pool[i]! - (held[i] ?? 0), 0);
        }
        return new Spread(nameOf, held, column(nodes, "node"), pool, bottom, children, ofTrack);
    }

    /** The call path of a thread while a span is its innermost. */
    path(boot: Boot, track: number, span: number | undefined): number | undefined {
        const parents = boot.parents();
        for (let at = span; at !== undefined; at = parents[at]! > 0 ? parents[at]! - 1 : undefined) {
            if ((this.ofSpan[at] ?? 0) > 0) return this.ofSpan[at]! - 1;
        }
        return this.ofTrack.get(boot.track(track)?.name ?? "");
    }

    /** The part of time in a path's spans that went to interrupts. These are counted at the bottom of the thread's stack. */
    interrupts(path: number, length: number): number {
        const [held, counted, bottom] = [this.inSpans[path] ?? 0, this.pool[path]!, this.bottom[path]!];
        return held <= counted || bottom === path || this.pool[bottom] === 0 ? 0 : (length * (held - counted)) / held;
    }

    bottomOf(path: number): number {
        return this.bottom[path]!;
    }

    /**
     * Shares out the time of a path. `called` gets a caller's place and a name, and returns the callee's place. `own` gets a place
     * and its self time. Parts shorter than MIN_SHARE stay with the caller.
     */
    share<Place>(
        path: number,
        place: Place,
        length: number,
        called: (from: Place, name: number) => Place,
        own: (place: Place, length: number) => void,
    ): void {
        const stack: [number, Place, number][] = [[path, place, length]];
        for (let next = stack.pop(); next; next = stack.pop()) {
            const [at, from, time] = next;
            const whole = this.pool[at]!;
            let [summed, given] = [0, 0];
            for (const child of this.children[at]!) {
                if (whole === 0) break;
                summed = Math.min(summed + Math.max(this.pool[child]! - (this.inSpans[child] ?? 0), 0), whole);
                const until = Math.min((time * summed) / whole, time);
                if (until - given > MIN_SHARE) {
                    stack.push([child, called(from, this.nameOf[child]!), until - given]);
                    given = until;
                }
            }
            if (time > given) own(from, time - given);
        }
    }
}
