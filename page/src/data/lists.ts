// Lists of many things: the longest of them, and those of each track.

/** Keeps the longest of many spans, without sorting all. */
export class Longest {
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
export class ByTrack<T extends { readonly track: number }> {
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
