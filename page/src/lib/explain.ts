// Sentences that explain why a step is on the boot path.
import type { Boot, Stay, Wait } from "../data/boot";

const nameOf = (boot: Boot, track: number): string => boot.track(track)?.label ?? "a thread";

/** The activity of a frame, if known. */
function doing(boot: Boot, frame: { track: number; span: number | undefined }): string {
    return frame.span === undefined || frame.span >= boot.spans.count
        ? nameOf(boot, frame.track)
        : `${nameOf(boot, frame.track)} in ${boot.spanName(frame.span)}`;
}

/** One sentence for each link of the chain, and one for how the time passed. */
export function whyStay(boot: Boot, stay: Stay): string[] {
    const owner = nameOf(boot, stay.owner.track);
    const waiters = stay.chain.slice(0, -1);
    const links = waiters.map((waiter, i) => `${doing(boot, waiter)} waited for ${nameOf(boot, stay.chain[i + 1]!.track)}.`);
    switch (stay.kind) {
        case "running":
            return [...links, waiters.length > 0 ? `${owner} ran, so this time is charged to it.` : `${owner} ran, and waited for nobody.`];
        case "runqueue": {
            // The last link is not a wait for a thread: that waiter wants the owner's CPU.
            const ready = waiters[waiters.length - 1];
            return [
                ...links.slice(0, -1),
                `${ready ? doing(boot, ready) : "A thread"} was ready, but ${owner} had the CPU. This time is charged to ${owner}'s turn.`,
            ];
        }
        case "interrupt":
            return [
                ...links,
                `${doing(boot, stay.owner)} waited for ${stay.on || "an interrupt"}: a timer or a device, and no thread ran for it.`,
            ];
        case "topic":
            return [...links, `${doing(boot, stay.owner)} waited for ${stay.on || "a topic"}, and the evidence shows nobody who held it.`];
        case "wait":
            return [...links, `${doing(boot, stay.owner)} waited, and the evidence does not say for whom.`];
    }
}

/** The explanation in half a sentence about the owner, "this thread". */
export function whyIt(boot: Boot, stay: Stay): string {
    const waiters = stay.chain.slice(0, -1);
    const [first] = waiters;
    if (!first || (stay.kind !== "running" && stay.kind !== "runqueue")) return whyStay(boot, stay).join(" ");
    const between = waiters
        .slice(1)
        .map(({ track }) => `${nameOf(boot, track)}, which `)
        .join("waited for ");
    const waited = between === "" ? "" : `waited for ${between}`;
    return `${doing(boot, first)} ${waited}${stay.kind === "running" ? "waited for it" : "was ready, but this thread had the CPU"}`;
}

/** The evidence for what a thread waited for. */
export function whyWait(boot: Boot, wait: Wait): string {
    switch (wait.kind) {
        case "thread":
            return `woken by ${nameOf(boot, wait.on)}`;
        case "interrupt":
            return `woken by an interrupt: ${boot.names[wait.on] ?? ""}`;
        case "holders":
            return `until ${boot.names[wait.on] ?? "a topic"} was released`;
        case "nothing":
            return "could have run, and had no CPU";
        case "halted":
            return "the CPU slept until an interrupt";
        case "unknown":
            return "the evidence does not say for whom";
    }
}

/** A way in which a thread came to have the boot path. Steps with the same waiters, in the same function, and reason are one way. */
export interface Way {
    readonly time: number;
    readonly steps: number;
    /** The longest step in the stretch, and its length there. */
    readonly longest: Stay;
    readonly most: number;
}

/** The owner of a part of the boot path in a stretch, and its time. */
export interface Cause {
    /** The thread that ran, or the one that waited if no thread ran. */
    readonly track: number;
    /** True if it ran and waited for no other thread: it is the boot's own thread. */
    readonly isOwn: boolean;
    readonly time: number;
    /** The ways, the longest first. */
    readonly ways: readonly Way[];
}

/** All causes in a stretch, the longest first. Linear in its steps. */
export function causesOf(boot: Boot, from: number, to: number): Cause[] {
    const causes = new Map<
        string,
        { track: number; isOwn: boolean; time: number; ways: Map<string, { -readonly [part in keyof Way]: Way[part] }> }
    >();
    const first = boot.stayAt(from)?.index ?? boot.stays.length;
    for (let i = first; i < boot.stays.length && boot.stays[i]!.from < to; i += 1) {
        const stay = boot.stays[i]!;
        const time = Math.min(stay.to, to) - Math.max(stay.from, from);
        if (time <= 0) continue;
        const { track } = stay.owner;
        const isOwn = stay.kind === "running" && stay.chain.length === 1;
        const hasRun = stay.kind === "running" || stay.kind === "runqueue";
        const cause = entry(causes, isOwn ? `own ${track}` : hasRun ? `by ${track}` : `${stay.kind} ${stay.on} ${track}`, () => ({
            track,
            isOwn,
            time: 0,
            ways: new Map(),
        }));
        const way = entry(
            cause.ways,
            [stay.kind, stay.on, doing(boot, stay.chain[0]!), ...stay.chain.map(frame => frame.track)].join(" "),
            () => ({ time: 0, steps: 0, longest: stay, most: 0 }),
        );
        cause.time += time;
        way.time += time;
        way.steps += 1;
        if (time > way.most) [way.longest, way.most] = [stay, time];
    }
    const byTime = (a: { time: number }, b: { time: number }): number => b.time - a.time;
    return [...causes.values()].map(cause => ({ ...cause, ways: [...cause.ways.values()].sort(byTime) })).sort(byTime);
}

function entry<T>(map: Map<string, T>, key: string, make: () => T): T {
    const existing = map.get(key);
    if (existing !== undefined) return existing;
    const made = make();
    map.set(key, made);
    return made;
}
