// Drawing that all charts share: text that fits, spans side by side in one row, an axis of time.
import type { Boot } from "../data/boot";
import type { Surface } from "../lib/save";
import { atStep, marks, type Unit } from "../lib/time";
import { type Palette, toneOf } from "./colours";

export const ROW = 17;
export const FONT = "11px system-ui, sans-serif";
const WIDE_ENOUGH_FOR_TEXT = 24;
/** The fewest characters that are worth reading. */
const MIN_CHARACTERS = 2;
/** The number of characters kept at the end of a track's name. */
const END_CHARACTERS = 5;

/** Maps time to places on a surface. */
export interface Scale {
    readonly from: number;
    readonly to: number;
    readonly left: number;
    readonly right: number;
}

export function x(scale: Scale, at: number): number {
    return scale.left + ((at - scale.from) / (scale.to - scale.from)) * (scale.right - scale.left);
}

export function timeAt(scale: Scale, x: number): number {
    return scale.from + ((x - scale.left) / (scale.right - scale.left)) * (scale.to - scale.from);
}

/** The width of each character of FONT, measured once. Measuring each text would take most of a frame. */
const widths = new Map<string, number>();
let measures: CanvasRenderingContext2D | null | undefined;

function widthOf(character: string): number {
    const cached = widths.get(character);
    if (cached !== undefined) return cached;
    measures ??= document.createElement("canvas").getContext("2d");
    if (measures) measures.font = FONT;
    const width = measures?.measureText(character).width ?? 7;
    widths.set(character, width);
    return width;
}

/** The width of a text in FONT. */
export function textWidth(text: string): number {
    let width = 0;
    for (const character of text) width += widthOf(character);
    return width;
}

/** As much of a text as fits; empty if that is too little to read. */
export function fitting(text: string, width: number): string {
    if (width < WIDE_ENOUGH_FOR_TEXT) return "";
    const room = width - 6;
    let [used, at, cut] = [0, 0, 0];
    for (const character of text) {
        used += widthOf(character);
        if (used > room) return cut < MIN_CHARACTERS ? "" : `${text.slice(0, cut)}…`;
        at += character.length;
        if (used + widthOf("…") <= room) cut = at;
    }
    return text;
}

/** As much of a track's name as fits. Its end is kept, because it distinguishes similar names: `kwor…2:1 [24]`. */
export function fittingName(name: string, width: number): string {
    if (fitting(name, width) === name) return name;
    const end = name.slice(-END_CHARACTERS);
    const endWidth = [...end].reduce((sum, character) => sum + widthOf(character), 0);
    const begin = fitting(name.slice(0, -END_CHARACTERS), width - endWidth);
    return begin.endsWith("…") ? begin + end : fitting(name, width);
}

/** Collects rectangles by colour, so that each colour is set once. */
export class Boxes {
    private readonly byColour = new Map<string, number[]>();

    add(colour: string, x: number, y: number, width: number, height: number): void {
        const rects = this.byColour.get(colour);
        if (rects) rects.push(x, y, width, height);
        else this.byColour.set(colour, [x, y, width, height]);
    }

    paint(on: Surface): void {
        for (const [colour, boxes] of this.byColour) {
            on.fillStyle = colour;
            for (let i = 0; i < boxes.length; i += 4) on.fillRect(boxes[i]!, boxes[i + 1]!, boxes[i + 2]!, boxes[i + 3]!);
        }
    }
}

export class Texts {
    private readonly all: { text: string; x: number; y: number }[] = [];

    add(text: string, x: number, y: number): void {
        if (text) this.all.push({ text, x, y });
    }

    paint(on: Surface, colour: string): void {
        on.fillStyle = colour;
        on.font = FONT;
        on.textBaseline = "middle";
        for (const { text, x, y } of this.all) on.fillText(text, x, y);
    }
}

/** The colour of each label, computed once for a palette. */
export class LabelColours {
    private readonly colours: string[] = [];
    constructor(
        private readonly boot: Boot,
        private readonly palette: Palette,
    ) {}

    of(label: number): string {
        const cached = this.colours[label];
        if (cached !== undefined) return cached;
        const { boot, palette } = this;
        const kind = boot.facts?.kinds[boot.labels[label]?.kind ?? 0] ?? "";
        const colour = (palette.kinds[kind] ?? palette.other)[toneOf(boot.labelText(label))] ?? palette.dense;
        this.colours[label] = colour;
        return colour;
    }
}

/** The labels that a search marks. */
export type MatchedLabels = ReadonlySet<number> | undefined;

/**
 * Draws spans side by side. A span narrower than a pixel is drawn one pixel wide, and other spans within that pixel are skipped.
 * The work is therefore bounded by the pixels, not by the spans.
 */
export function spanRow(
    boot: Boot,
    row: Uint32Array,
    scale: Scale,
    y: number,
    colours: LabelColours,
    palette: Palette,
    found: MatchedLabels,
    boxes: Boxes,
    texts: Texts,
): void {
    const { start, end, label } = boot.spans;
    const perPixel = (scale.to - scale.from) / (scale.right - scale.left);
    for (let i = boot.firstEndingAfter(row, scale.from); i < row.length; ) {
        const span = row[i]!;
        const from = start[span]!;
        if (from >= scale.to) break;
        const [left, right] = [Math.max(x(scale, from), scale.left), Math.min(x(scale, end[span]!), scale.right)];
        if (right - left < 1.5) {
            const isFound = found?.has(label[span]!) === true;
            boxes.add(isFound ? palette.found : colours.of(label[span]!), left, y, 1, ROW - 1);
            const next = boot.firstEndingAfter(row, Math.max(end[span]!, timeAt(scale, Math.floor(left) + 1) - perPixel / 1e6), i + 1);
            i = Math.max(next, i + 1);
            continue;
        }
        const colour = found?.has(label[span]!) ? palette.found : colours.of(label[span]!);
        boxes.add(colour, left, y, right - left - (right - left > 3 ? 0.7 : 0), ROW - 1);
        texts.add(fitting(boot.spanName(span), right - left), left + 3, y + ROW / 2);
        i += 1;
    }
}

/** Draws an axis of time over the width of a scale. */
export function axis(scale: Scale, height: number, unit: Unit, palette: Palette, on: Surface): void {
    const width = scale.right - scale.left;
    on.strokeStyle = palette.line;
    on.lineWidth = 1;
    on.font = FONT;
    on.textBaseline = "middle";
    const at = marks(scale.from, scale.to, width / 110);
    const step = at.length > 1 ? at[1]! - at[0]! : 1;
    for (const time of at) {
        const place = Math.round(x(scale, time)) + 0.5;
        on.beginPath();
        on.moveTo(place, 0);
        on.lineTo(place, height);
        on.stroke();
        on.fillStyle = palette.faint;
        on.fillText(atStep(time, step, unit), place + 3, 9);
    }
}

/**
 * The stretches that a window shows, from stretches side by side in order of time. Only one stretch per pixel is returned, so the
 * work is bounded by the pixels.
 */
export function* seenOf<T>(
    all: readonly T[],
    scale: Scale,
    from: (one: T) => number,
    to: (one: T) => number,
): Generator<{ one: T; left: number; right: number }> {
    const firstEndingAfter = (at: number, low: number): number => {
        let high = all.length;
        while (low < high) {
            const middle = (low + high) >> 1;
            if (to(all[middle]!) > at) high = middle;
            else low = middle + 1;
        }
        return low;
    };
    for (let i = firstEndingAfter(scale.from, 0); i < all.length; ) {
        const one = all[i]!;
        if (from(one) >= scale.to) return;
        const [left, right] = [Math.max(x(scale, from(one)), scale.left), Math.min(x(scale, to(one)), scale.right)];
        yield { one, left, right };
        i = right - left < 0.5 ? Math.max(firstEndingAfter(timeAt(scale, left + 0.5), i + 1), i + 1) : i + 1;
    }
}
