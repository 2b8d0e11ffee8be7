// The messages of logs as lanes of moments: one for each speaker of a log, one for units that only became active, and the gaps
// between messages. A log without a trace has little else on the timeline.
import { short } from "../lib/time";
import type { Boot } from "./boot";
import type { Mark } from "./model";

/** A lane before its moments have numbers. */
export interface MessageLane {
    readonly name: string;
    readonly all: readonly { readonly from: number; readonly to: number; readonly text: string; readonly more: readonly string[] }[];
}

/** The most lanes of speakers of a log, and the fewest messages of a speaker with a lane. */
const MAX_SPEAKERS = 10;
const MIN_MESSAGES = 2;
/** The least share of the boot that a gap takes, and the most gaps. */
const MIN_GAP = 0.01;
const MAX_GAPS = 200;

/** `systemd[1]: …`, `ata3 (slot 4): …`, `cron: …`; then `pci 0000:00:01.0: …`, of which the driver speaks. */
const NAMED = /^([A-Za-z_][\w./@+-]{0,30})(?:\[\d+\])?(?: ?\([^)]{0,40}\))? ?:(?: |$)/;
const OF_DEVICE = /^([A-Za-z_][\w./@+-]{0,30}) [\w.-]*[\d:][\w:.-]*: /;
const UNIT = /\.(automount|device|mount|path|scope|service|slice|socket|swap|target|timer)$/;

/** The program, driver or part of a kernel that wrote a message; `undefined` if the message does not begin with its name. */
export function speakerOf(text: string): string | undefined {
    return (NAMED.exec(text) ?? OF_DEVICE.exec(text))?.[1];
}

/** True if nothing shows which thread ran when: then the messages are most of what there is to see. */
export const isLog = (boot: Boot): boolean => boot.running.length === 0 && (boot.calls?.rows ?? 0) === 0;

/** The lanes of all messages. `isShown` is true of a track that has a lane of its own, with its marks on it. */
export function messageLanes(boot: Boot, isShown: (track: number) => boolean): MessageLane[] {
    const ofTrack = new Map<number, Mark[]>();
    const others: Mark[] = [];
    for (const mark of boot.marks) {
        if (boot.track(mark.track)?.kind !== "console") {
            if (!isShown(mark.track)) others.push(mark);
            continue;
        }
        const list = ofTrack.get(mark.track);
        if (list) list.push(mark);
        else ofTrack.set(mark.track, [mark]);
    }
    const lanes: MessageLane[] = [];
    // A lane whose moments all lie after the end mark would be empty.
    const isSeen = ({ at }: Mark): boolean => at >= boot.extent.from && at <= boot.extent.to;
    const add = (name: string, marks: readonly Mark[]): void => {
        if (marks.some(isSeen)) lanes.push({ name, all: marks.map(({ at, name: text }) => ({ from: at, to: at, text, more: [] })) });
    };
    if (isLog(boot)) {
        const gaps = gapsOf(boot, [...ofTrack.values()].flat());
        if (gaps.all.length > 0) lanes.push(gaps);
    }
    const units = others.filter(({ track }) => UNIT.test(boot.track(track)?.name ?? ""));
    const ofUnits = new Set(units);
    add("units that became active", units);
    add(
        "other moments",
        others.filter(mark => !ofUnits.has(mark)),
    );
    for (const [track, marks] of ofTrack) {
        const name = boot.track(track)?.label ?? "";
        const speakers = isLog(boot) ? bySpeaker(marks) : [];
        const among = new Set(speakers.flatMap(([, list]) => list));
        for (const [speaker, list] of speakers) add(speaker, list);
        add(speakers.length > 0 ? `${name}, others` : name, among.size > 0 ? marks.filter(mark => !among.has(mark)) : marks);
    }
    return lanes;
}

/** The speakers with most messages, in the order of their first ones. */
function bySpeaker(marks: readonly Mark[]): [string, Mark[]][] {
    const speakers = new Map<string, Mark[]>();
    for (const mark of marks) {
        const speaker = speakerOf(mark.name);
        if (speaker === undefined) continue;
        const list = speakers.get(speaker);
        if (list) list.push(mark);
        else speakers.set(speaker, [mark]);
    }
    return [...speakers]
        .filter(([, list]) => list.length >= MIN_MESSAGES)
        .sort(([, a], [, b]) => b.length - a.length)
        .slice(0, MAX_SPEAKERS)
        .sort(([, [a]], [, [b]]) => a!.at - b!.at);
}

/** The longest gaps between messages that follow each other, of whichever log. */
function gapsOf(boot: Boot, marks: readonly Mark[]): MessageLane {
    const sorted = marks.filter(({ at }) => at <= boot.extent.to).sort((a, b) => a.at - b.at);
    const gaps = sorted
        .slice(1)
        .map((after, i) => ({ before: sorted[i]!, after, length: after.at - sorted[i]!.at }))
        .filter(({ length }) => length > 0 && length >= boot.total * MIN_GAP)
        .sort((a, b) => b.length - a.length)
        .slice(0, MAX_GAPS);
    return {
        name: "gaps between messages",
        all: gaps.map(({ before, after, length }) => ({
            from: before.at,
            to: after.at,
            text: `${short(Math.round(length), boot.unit)} until “${after.name}”`,
            more: [`after “${before.name}”`],
        })),
    };
}
