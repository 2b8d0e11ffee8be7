// The boot path as a flame chart: at each moment the thread that the boot waited for, and below it what that thread was in. The
// largest rows and findings are named above the place where they are.
import type { Boot, Stay } from "../data/boot";
import type { Finding } from "../data/facts";
import type { Surface } from "../lib/save";
import { percent, short, whole } from "../lib/time";
import type { Palette } from "./colours";
import {
    axis,
    Boxes,
    FONT,
    fitting,
    type LabelColours,
    type MatchedLabels,
    ROW,
    type Scale,
    seenOf,
    Texts,
    textWidth,
    timeAt,
    x,
} from "./draw";

/** The most rows of spans below the thread's name. */
const MAX_DEPTH = 12;
/** Height of the axis of time. */
const AXIS = 18;
/** The number of rows and of findings that have a label, and the most lines of labels. */
const LABELLED = 3;
const MAX_LINES = 6;
/** The most characters of a name in a label. */
const MAX_NAME = 48;
/** Pixels between labels in a line. */
const APART = 8;
/** Pixels below which stretches are drawn as one. */
const NEAR = 0.6;

/** A label above the chart, and the time that it is about. */
export interface Callout {
    readonly text: string;
    readonly from: number;
    readonly to: number;
    readonly thing: number;
    readonly name: string;
    readonly isFinding: boolean;
}

/** A box of the drawn chart, for the pointer. */
export interface Box {
    readonly left: number;
    readonly right: number;
    readonly row: number;
    readonly span: number | undefined;
    readonly stay: number;
    readonly label: string;
}

export interface PathFlame {
    readonly boot: Boot;
    readonly palette: Palette;
    readonly colours: LabelColours;
    readonly found: MatchedLabels;
    readonly callouts: readonly Callout[];
    readonly depth: number;
    readonly from: number;
    readonly to: number;
    /** The left edge of the chart; 0 if it has the whole width. */
    readonly left?: number;
    readonly width: number;
    readonly selectedSpan: number | undefined;
    readonly selected: { from: number; to: number } | undefined;
}

const scaleOf = ({ from, to, left = 0, width }: PathFlame): Scale => ({ from, to, left, right: width });

/** The labels of the largest rows, and of the first findings, in this order. */
export function calloutsOf(boot: Boot): Callout[] {
    const rows = boot.summary.where.slice(0, LABELLED).flatMap((row, i): Callout[] => {
        const thing = boot.facts?.things[i] ?? 0;
        const at = placeOf(boot, thing, row.name);
        const text = `${i + 1}  ${cut(row.name)}  ${short(whole(row.self_ns), boot.unit)}, ${percent(row.share ?? 0)}`;
        return at ? [{ text, ...at, thing, name: row.name, isFinding: false }] : [];
    });
    const findings = (boot.facts?.findings?.findings ?? []).slice(0, LABELLED).flatMap((finding: Finding): Callout[] => {
        const [first] = [...finding.evidence].sort((a, b) => lengthOf(b) - lengthOf(a));
        if (!first) return [];
        const text = `!  ${cut(finding.title)}  ${short(whole(finding.cost_ns), boot.unit)}`;
        return [{ text, from: Number(first.start_ns), to: Number(first.end_ns), thing: 0, name: finding.title, isFinding: true }];
    });
    return [...rows, ...findings];
}

/** A name as a label has it. */
const cut = (name: string): string => {
    const characters = [...name];
    return characters.length > MAX_NAME ? `${characters.slice(0, MAX_NAME - 1).join("")}…` : name;
};

const lengthOf = (time: { readonly start_ns: number | string; readonly end_ns: number | string }): number =>
    Number(time.end_ns) - Number(time.start_ns);

/** The largest place of a row: a span, a step that waited for it, or a phase of its name. */
function placeOf(boot: Boot, thing: number, name: string): { from: number; to: number } | undefined {
    if (thing > 0) {
        const [span] = boot.spansOfThing(thing, 1).spans;
        if (span !== undefined) return { from: boot.spans.start[span]!, to: boot.spans.end[span]! };
        let most: Stay | undefined;
        for (const stay of boot.stays) {
            const is = boot.track(stay.owner.track)?.thing === thing;
            if (is && (!most || stay.to - stay.from > most.to - most.from)) most = stay;
        }
        if (most) return { from: most.from, to: most.to };
    }
    // Time that only its phase names: "(early kernel) · wait".
    const [, inside] = /^\((.+)\)/.exec(name) ?? [];
    const phase = boot.summary.phases.find(one => one.name === (inside ?? name));
    if (!phase) return undefined;
    const [from, to] = [Number(phase.start_ns), Number(phase.end_ns)];
    const waits =
        inside !== undefined && name.endsWith("wait")
            ? boot.stays.filter(one => one.kind !== "running" && one.from >= from && one.to <= to)
            : [];
    return waits.length === 0 ? { from, to } : waits.reduce((most, one) => (one.to - one.from > most.to - most.from ? one : most));
}

/** The rows of spans that the boot path has. */
export function depthOf(boot: Boot): number {
    const tracks = new Set(boot.stays.map(stay => stay.owner.track));
    return Math.min(Math.max(0, ...[...tracks].map(track => boot.rows(track).rows.length)), MAX_DEPTH);
}

interface Placed {
    readonly callout: Callout;
    readonly left: number;
    readonly width: number;
    readonly line: number;
    readonly at: number;
}

/** Labels side by side where they fit, else in further lines. */
function place(flame: PathFlame, scale: Scale): Placed[] {
    const ends: number[] = [];
    const all = flame.callouts
        .filter(one => one.to > flame.from && one.from < flame.to)
        .map(callout => ({ callout, at: Math.min(Math.max(x(scale, (callout.from + callout.to) / 2), 1), flame.width - 1) }))
        .sort((a, b) => a.at - b.at);
    return all.map(({ callout, at }) => {
        const width = Math.min(textWidth(callout.text) + 10, flame.width);
        const left = Math.min(Math.max(at - 6, 0), flame.width - width);
        let line = ends.findIndex(end => end + APART <= left);
        if (line < 0) line = Math.min(ends.length, MAX_LINES - 1);
        ends[line] = left + width;
        return { callout, left, width, line, at };
    });
}

/** The height of the labels, and of the whole chart. */
export function heightOf(flame: PathFlame): { labels: number; whole: number } {
    const scale = scaleOf(flame);
    const lines = Math.max(0, ...place(flame, scale).map(one => one.line + 1));
    const labels = lines * (ROW + 2) + (lines > 0 ? 6 : 0);
    return { labels, whole: AXIS + labels + (flame.depth + 1) * ROW + 4 };
}

/** Draws the chart from `top` on, and returns its boxes. Several charts may share an axis, which their caller then draws. */
export function paintPathFlame(flame: PathFlame, on: Surface, top = 0, hasAxis = true): Box[] {
    const { boot, palette, width } = flame;
    const scale = scaleOf(flame);
    const { labels, whole } = heightOf(flame);
    const above = hasAxis ? AXIS : 0;
    const height = whole - AXIS + above;
    on.fillStyle = palette.background;
    on.fillRect(scale.left, top, width - scale.left, height);
    const base = top + above + labels;
    const drawn = stretches(flame, scale);
    const [boxes, texts, names] = [new Boxes(), new Texts(), new Texts()];
    for (const { left, right, row, span, label } of drawn) {
        const y = base + row * ROW;
        const isFound = span !== undefined && flame.found?.has(boot.spans.label[span]!) === true;
        const colour = span === undefined ? palette.gutter : isFound ? palette.found : flame.colours.of(boot.spans.label[span]!);
        boxes.add(colour, left, y, Math.max(right - left - (right - left > 3 ? 0.7 : 0), NEAR), ROW - 1);
        (span === undefined ? names : texts).add(fitting(label, right - left), left + 3, y + ROW / 2);
    }
    boxes.paint(on);
    texts.paint(on, palette.onFill);
    names.paint(on, palette.faint);
    outline(flame, scale, drawn, base, on);
    callouts(flame, scale, top + above, base, on);
    if (top === 0 && hasAxis) axis(scale, AXIS - 1, boot.unit, palette, on);
    return drawn;
}

function outline(flame: PathFlame, scale: Scale, drawn: readonly Box[], base: number, on: Surface): void {
    const { palette, selectedSpan, selected } = flame;
    on.strokeStyle = palette.selected;
    on.lineWidth = 2;
    for (const box of drawn)
        if (selectedSpan !== undefined && box.span === selectedSpan)
            on.strokeRect(box.left, base + box.row * ROW, Math.max(box.right - box.left, 2), ROW - 1);
    if (!selected || selected.to <= flame.from || selected.from >= flame.to) return;
    const [left, right] = [Math.max(x(scale, selected.from), scale.left), Math.min(x(scale, selected.to), flame.width)];
    on.fillStyle = palette.marked;
    on.fillRect(left, base, Math.max(right - left, 1), (flame.depth + 1) * ROW);
}

function callouts(flame: PathFlame, scale: Scale, top: number, base: number, on: Surface): void {
    const { palette } = flame;
    on.font = FONT;
    on.textBaseline = "middle";
    const placed = place(flame, scale);
    on.lineWidth = 1;
    for (const { callout, line, at } of placed) {
        on.strokeStyle = callout.isFinding ? palette.path : palette.text;
        on.beginPath();
        on.moveTo(Math.round(at) + 0.5, top + line * (ROW + 2) + ROW);
        on.lineTo(Math.round(at) + 0.5, base);
        on.stroke();
        on.fillStyle = callout.isFinding ? palette.path : palette.text;
        const [left, right] = [Math.max(x(scale, callout.from), 0), Math.min(x(scale, callout.to), flame.width)];
        on.fillRect(left, base - 3, Math.max(right - left, 2), 2);
    }
    for (const { callout, left, width, line } of placed) {
        const y = top + line * (ROW + 2);
        on.fillStyle = palette.gutter;
        on.fillRect(left, y, width, ROW);
        on.strokeStyle = callout.isFinding ? palette.path : palette.faint;
        on.strokeRect(left + 0.5, y + 0.5, width - 1, ROW - 1);
        on.fillStyle = callout.isFinding ? palette.path : palette.text;
        on.fillText(fitting(callout.text, width), left + 5, y + ROW / 2);
    }
}

/**
 * The boxes of the chart. Stretches of the same span that follow each other are one box, and at most one box is made per pixel and
 * row, so the work is bounded by the pixels.
 */
function stretches(flame: PathFlame, scale: Scale): Box[] {
    const { boot } = flame;
    const { start, end } = boot.spans;
    const done: Box[] = [];
    const open: ({ -readonly [K in keyof Box]: Box[K] } & { track: number; isNew: boolean })[] = [];
    const add = (row: number, left: number, right: number, span: number | undefined, stay: Stay, label: () => string): void => {
        const last = open[row];
        const track = stay.owner.track;
        if (last && last.span === span && last.track === track && left - last.right < NEAR) {
            last.right = Math.max(last.right, right);
            return;
        }
        if (last && right - last.right < NEAR) return;
        const box = { left: Math.max(left, last?.right ?? 0), right, row, span, stay: stay.index, label: label(), track, isNew: true };
        open[row] = box;
        done.push(box);
    };
    for (const { one: stay, left, right } of seenOf(
        boot.stays,
        scale,
        one => one.from,
        one => one.to,
    )) {
        const track = stay.owner.track;
        add(0, left, right, undefined, stay, () => boot.track(track)?.label ?? "");
        const { rows } = boot.rows(track);
        const [from, to] = [Math.max(stay.from, scale.from), Math.min(stay.to, scale.to)];
        for (let depth = 0; depth < Math.min(rows.length, flame.depth); depth += 1) {
            const row = rows[depth]!;
            for (let i = boot.firstEndingAfter(row, from); i < row.length && start[row[i]!]! < to; ) {
                const span = row[i]!;
                const [a, b] = [Math.max(x(scale, start[span]!), left), Math.min(x(scale, end[span]!), right)];
                add(depth + 1, a, b, span, stay, () => boot.spanName(span));
                i = b - a < NEAR ? Math.max(boot.firstEndingAfter(row, timeAt(scale, a + NEAR), i + 1), i + 1) : i + 1;
            }
        }
    }
    return done;
}

/** The box at a place of the chart, or the label of a row or finding. */
export function hitPathFlame(flame: PathFlame, drawn: readonly Box[], px: number, py: number, hasAxis = true): Box | Callout | undefined {
    const scale = scaleOf(flame);
    const above = hasAxis ? AXIS : 0;
    const base = above + heightOf(flame).labels;
    if (py < base) {
        const line = Math.floor((py - above) / (ROW + 2));
        return place(flame, scale).find(one => one.line === line && px >= one.left && px < one.left + one.width)?.callout;
    }
    const row = Math.floor((py - base) / ROW);
    return drawn.find(box => box.row === row && px >= box.left && px < Math.max(box.right, box.left + 1));
}
