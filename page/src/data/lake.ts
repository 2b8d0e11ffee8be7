// A lake: the boots of many machines. The parts `lake` and `cells` of a page have the fields of the document
// `bootscope.lake-page/1` (crates/report/src/lake). Times are doubles, in nanoseconds.

import { path, word } from "../lib/shell";
import type { Table } from "./table";

export const LAKE_SCHEMA = "bootscope.lake-page/1";

export interface Kind {
    readonly hardware: string;
    readonly time_base: string;
    readonly boots: number;
    readonly machines: number;
}

export interface LakeBoot {
    readonly boot_id: string;
    readonly day: string;
    readonly machine: string;
    readonly total_ns: number | null;
    readonly self_ns: number | null;
}

export interface Regression {
    readonly name: string;
    readonly hardware: string;
    readonly time_base: string;
    readonly kernel: string;
    readonly since: string;
    readonly before_ns: number;
    readonly after_ns: number;
    readonly slower_ns: number;
    readonly slower_low_ns: number;
    readonly slower_high_ns: number;
    readonly ratio: number | null;
    readonly p: number;
    readonly boots_before: number;
    readonly boots_after: number;
    readonly per_day_ns: number;
    readonly boots: readonly LakeBoot[];
}

export interface SlowRow {
    readonly name: string;
    readonly boots: number;
    readonly boots_with_it: number;
    readonly mean_ns: number;
    /** Null for a single boot. */
    readonly mean_low_ns: number | null;
    readonly mean_high_ns: number | null;
    readonly share: number;
}

export interface Outlier {
    readonly machine: string;
    readonly hardware: string;
    readonly time_base: string;
    readonly name: string;
    readonly mean_ns: number;
    readonly others_ns: number;
    readonly slower_ns: number;
    readonly ratio: number | null;
    readonly p: number;
    readonly boots: number;
    readonly machines: number;
}

export interface Saving {
    readonly id: string;
    readonly title: string;
    readonly boots: number;
    readonly share: number;
    readonly machines: number;
    readonly kinds: number;
    readonly mean_ns: number;
    readonly per_day_ns: number;
    readonly per_day_low_ns: number;
    readonly per_day_high_ns: number;
}

export interface Missing {
    readonly machine: string;
    readonly hardware: string;
    readonly kernel: string;
    readonly last: string;
    readonly boots: number;
    readonly usual_days: number;
    readonly silent_days: number;
    readonly p: number;
}

interface Document {
    readonly schema: string;
    readonly lake: string;
    readonly since: string;
    readonly boots: number;
    readonly machines: number;
    readonly days: readonly string[];
    readonly kernels: readonly string[];
    readonly kinds: readonly Kind[];
    readonly regressions: readonly Regression[];
    readonly slowest_rows: readonly SlowRow[];
    readonly outliers: readonly Outlier[];
    readonly what_pays: readonly Saving[];
    readonly missing: readonly Missing[];
    readonly remarks: Readonly<Record<string, readonly string[]>>;
}

/** The totals of one kind of machine on one day with one kernel. A time of 0 means that no boot ended. */
interface Cell {
    readonly kind: number;
    readonly day: number;
    readonly kernel: number;
    readonly boots: number;
    readonly notEnded: number;
    readonly p50: number;
    readonly p95: number;
}

export interface Lake extends Document {
    readonly cells: Cell[];
    /** The number of days from the first day to each day. */
    readonly at: readonly number[];
}

export function readLake(json: string): Lake {
    const document = JSON.parse(json) as Document;
    if (document.schema !== LAKE_SCHEMA) throw new Error(`data of ${document.schema}, while this page reads ${LAKE_SCHEMA}`);
    return { ...document, cells: [], at: places(document.days) };
}

const DAY_MS = 86_400_000;

/** The distance of each day from the first. If one of them is not a date, or they are not in order, their places in the list. */
function places(days: readonly string[]): number[] {
    const times = days.map(day => Date.parse(`${day}T00:00:00Z`) / DAY_MS);
    const isInOrder = times.every((time, i) => Number.isFinite(time) && (i === 0 || time > times[i - 1]!));
    return times.map((time, i) => (isInOrder ? time - times[0]! : i));
}

export function addCells(lake: Lake, table: Table): void {
    const [kind, day, kernel, boots, notEnded, p50, p95] = ["kind", "day", "kernel", "boots", "not_ended", "p50", "p95"].map(name => {
        const column = table.numbers[name];
        if (!column) throw new Error(`no column ${name}`);
        return column.values;
    });
    for (let i = 0; i < table.rows; i += 1) {
        const cell: Cell = {
            kind: kind![i]!,
            day: day![i]!,
            kernel: kernel![i]!,
            boots: boots![i]!,
            notEnded: notEnded![i]!,
            p50: p50![i]!,
            p95: p95![i]!,
        };
        if (cell.kind >= lake.kinds.length || cell.day >= lake.days.length || cell.kernel >= lake.kernels.length)
            throw new Error(`row ${i} leads nowhere`);
        lake.cells.push(cell);
    }
}

/** The name of a kind of machine. */
export function kindName({ hardware, time_base }: { readonly hardware: string; readonly time_base: string }): string {
    const name = hardware || "kind not known";
    return time_base === "host" || time_base === "" ? name : `${name} (${time_base})`;
}

export type LinesBy = "kernels" | "kinds";
/** `own` is a share of the kind's own median, so that kinds of different speed can be combined. */
export type ScaleOf = "time" | "own";

export interface LineOptions {
    readonly by: LinesBy;
    /** One kind of machine; `undefined` means all. */
    readonly kind: number | undefined;
    readonly scale: ScaleOf;
}

export interface Point {
    /** The place in the days. */
    readonly day: number;
    readonly boots: number;
    readonly notEnded: number;
    /** `undefined` if no boot ended. */
    readonly p50: number | undefined;
    readonly p95: number | undefined;
    /** The number of medians in the mean. With one, the mean is that median. */
    readonly of: number;
}

export interface Line {
    /** The place in the kernels, or in the kinds. */
    readonly id: number;
    readonly name: string;
    /** Its rank among all of the lake by boots, independent of the selected kind. A kernel therefore keeps its colour. */
    readonly rank: number;
    readonly boots: number;
    readonly notEnded: number;
    readonly points: readonly Point[];
    /** The figure over all days, computed like a point's. */
    readonly p50: number | undefined;
    readonly p95: number | undefined;
}

/** A mean of medians, weighted by their boots. It is not the median of all boots, which cannot be computed from medians. */
class Mean {
    boots = 0;
    notEnded = 0;
    of = 0;
    private ended = 0;
    private sum50 = 0;
    private sum95 = 0;

    add({ boots, notEnded, p50, p95 }: Cell, scale: number): void {
        this.boots += boots;
        this.notEnded += Math.min(notEnded, boots);
        const ended = Math.max(boots - notEnded, 0);
        if (ended === 0 || p50 <= 0 || scale <= 0) return;
        this.of += 1;
        this.ended += ended;
        this.sum50 += (ended * p50) / scale;
        this.sum95 += (ended * p95) / scale;
    }

    get p50(): number | undefined {
        return this.ended > 0 ? this.sum50 / this.ended : undefined;
    }

    get p95(): number | undefined {
        return this.ended > 0 ? this.sum95 / this.ended : undefined;
    }
}

/** The mean of each kind's medians, which its own shares are relative to. */
function usual(lake: Lake): number[] {
    const means = lake.kinds.map(() => new Mean());
    for (const cell of lake.cells) means[cell.kind]!.add(cell, 1);
    return means.map(mean => mean.p50 ?? 0);
}

/** The rank of each kernel or kind among all, by boots. */
function ranksOf(lake: Lake, by: LinesBy): number[] {
    const boots = (by === "kernels" ? lake.kernels : lake.kinds).map(() => 0);
    for (const cell of lake.cells) boots[by === "kernels" ? cell.kernel : cell.kind]! += cell.boots;
    const ranks = boots.map(() => 0);
    boots
        .map((_, id) => id)
        .sort((a, b) => boots[b]! - boots[a]! || a - b)
        .forEach((id, rank) => {
            ranks[id] = rank;
        });
    return ranks;
}

/** A line for each kernel or each kind of machine, those with most boots first. */
export function linesOf(lake: Lake, { by, kind, scale }: LineOptions): Line[] {
    const usualTimes = scale === "own" ? usual(lake) : undefined;
    const all = new Map<number, { whole: Mean; days: Map<number, Mean> }>();
    for (const cell of lake.cells) {
        if (kind !== undefined && cell.kind !== kind) continue;
        const id = by === "kernels" ? cell.kernel : cell.kind;
        let line = all.get(id);
        if (!line) all.set(id, (line = { whole: new Mean(), days: new Map() }));
        let day = line.days.get(cell.day);
        if (!day) line.days.set(cell.day, (day = new Mean()));
        const divisor = usualTimes ? usualTimes[cell.kind]! : 1;
        line.whole.add(cell, divisor);
        day.add(cell, divisor);
    }
    const name = (id: number): string => (by === "kernels" ? lake.kernels[id] || "kernel not known" : kindName(lake.kinds[id]!));
    const ranks = ranksOf(lake, by);
    const lines = [...all].map(
        ([id, { whole, days }]): Line => ({
            id,
            name: name(id),
            rank: ranks[id]!,
            boots: whole.boots,
            notEnded: whole.notEnded,
            p50: whole.p50,
            p95: whole.p95,
            points: [...days]
                .sort(([a], [b]) => a - b)
                .map(([day, mean]) => ({ day, boots: mean.boots, notEnded: mean.notEnded, p50: mean.p50, p95: mean.p95, of: mean.of })),
        }),
    );
    return lines.sort((a, b) => b.boots - a.boots || a.id - b.id);
}

/** The meaning of these lines' figures, in words. */
export function meaningOf(lines: readonly Line[], scale: ScaleOf): string {
    const isMean = lines.some(line => line.points.some(point => point.of > 1));
    const ownNote = scale === "own" ? "A kind's times are divided by the mean of its own medians. " : "";
    const mix = scale === "own" ? "" : " It also moves where the mix of kinds does; a share of the kind's own hardly does.";
    return isMean
        ? `${ownNote}Of several kinds or kernels on one day, a point is the mean of their medians (of their 95th percentiles), weighted by boots. A median over all these boots cannot be worked out of that.${mix}`
        : `${ownNote}Each point is the median, or the 95th percentile, of that day's boots.`;
}

/** The first day of a regression, as a place in the days; `undefined` if the lake has no day from then on. */
export function dayOf(lake: Lake, { since }: Regression): number | undefined {
    const day = lake.days.findIndex(day => day >= since);
    return day < 0 ? undefined : day;
}

/** The kind of machine of a regression, as a place in the kinds. */
export function kindOf(lake: Lake, { hardware, time_base }: Regression): number | undefined {
    const kind = lake.kinds.findIndex(one => one.hardware === hardware && one.time_base === time_base);
    return kind < 0 ? undefined : kind;
}

/** The regressions that begin on one day, as places in the list. */
export interface Mark {
    readonly day: number;
    readonly regressions: readonly number[];
}

export function marksOf(lake: Lake, kind: number | undefined): Mark[] {
    const days = new Map<number, number[]>();
    lake.regressions.forEach((one, i) => {
        const day = dayOf(lake, one);
        if (day === undefined || (kind !== undefined && kindOf(lake, one) !== kind)) return;
        days.set(day, [...(days.get(day) ?? []), i]);
    });
    return [...days].sort(([a], [b]) => a - b).map(([day, regressions]) => ({ day, regressions }));
}

/** The same row with the same kernel on one or several kinds of machine. */
export interface Group {
    readonly key: string;
    readonly name: string;
    readonly kernel: string;
    /** Places in the list, the most expensive first. */
    readonly members: readonly number[];
    readonly perDay: number;
    readonly since: string;
    readonly boots_before: number;
    readonly boots_after: number;
    /** The largest p value of the members. */
    readonly p: number;
    /** The members with the smallest and the largest increase. */
    readonly least: Regression;
    readonly most: Regression;
    /** The member with the largest ratio. A new row counts as the largest. */
    readonly mostChanged: Regression;
}

/** The key that the members of a group share. */
export function keyOf({ name, kernel }: Regression): string {
    return JSON.stringify([name, kernel]);
}

export function groupsOf(lake: Lake, isWanted: (one: Regression) => boolean): Group[] {
    const groups = new Map<string, number[]>();
    lake.regressions.forEach((one, i) => {
        const key = keyOf(one);
        if (isWanted(one)) groups.set(key, [...(groups.get(key) ?? []), i]);
    });
    const sum = (members: readonly Regression[], of: (one: Regression) => number): number => members.reduce((sum, one) => sum + of(one), 0);
    const all = [...groups].map(([key, places]): Group => {
        const members = [...places].sort((a, b) => lake.regressions[b]!.per_day_ns - lake.regressions[a]!.per_day_ns || a - b);
        const ones = members.map(i => lake.regressions[i]!);
        const bySlower = [...ones].sort((a, b) => a.slower_ns - b.slower_ns);
        return {
            key,
            name: ones[0]!.name,
            kernel: ones[0]!.kernel,
            members,
            perDay: sum(ones, one => one.per_day_ns),
            since: ones.map(one => one.since).reduce((a, b) => (b < a ? b : a)),
            boots_before: sum(ones, one => one.boots_before),
            boots_after: sum(ones, one => one.boots_after),
            p: ones.reduce((most, one) => Math.max(most, one.p), 0),
            least: bySlower[0]!,
            most: bySlower[bySlower.length - 1]!,
            mostChanged: ones.reduce((most, one) => ((one.ratio ?? Infinity) > (most.ratio ?? Infinity) ? one : most)),
        };
    });
    return all.sort((a, b) => b.perDay - a.perDay);
}

/** The command that lists the boots of this boot's machine; `undefined` if the lake does not know the machine. */
export function commandOf(lake: Lake, { machine }: LakeBoot): string | undefined {
    return machine ? `bootscope lake ask ${path(lake.lake)} boots --where ${word(`machine=${machine}`)}` : undefined;
}
