// The totals of a lake over time: a line for each kernel or kind of machine, the boots of each day beneath, and marks at the days
// on which a row became slower.
import { type Lake, type Line, type Mark, marksOf, type Point, type ScaleOf } from "../data/lake";
import type { Surface } from "../lib/save";
import { atStep, grouped, marks, short } from "../lib/time";
import type { Palette } from "./colours";
import { FONT, fitting } from "./draw";

/** The most lines that are drawn: more would need colours that look alike. */
export const MAX_DRAWN = 8;
/** The figure that is drawn of each line. */
export type FigureOf = "both" | "p50" | "p95";

export interface OverTime {
    readonly lake: Lake;
    /** The lines, those with most boots first. */
    readonly lines: readonly Line[];
    readonly marks: readonly Mark[];
    readonly scale: ScaleOf;
    readonly figure: FigureOf;
    /** The selected regression. */
    readonly selected: number;
    /** The day at the pointer. */
    readonly hovered?: number | undefined;
}

/** The colour of each drawn line: the palette's line of its rank, or the next free one. */
export function coloursOf(lines: readonly Line[], palette: Palette): string[] {
    const taken = new Set<number>();
    return lines.slice(0, MAX_DRAWN).map(({ rank }) => {
        let colour = rank % palette.lines.length;
        while (taken.has(colour)) colour = (colour + 1) % palette.lines.length;
        taken.add(colour);
        return palette.lines[colour]!;
    });
}

const LEFT = 76;
const TOP = 24;
const BELOW = 18;
/** Pixels for the names of lines at their right ends. */
const NAMES = 190;
const NAME_HEIGHT = 13;

/** The places on a surface of this size. */
interface Places {
    readonly right: number;
    readonly bottom: number;
    readonly boots: { readonly top: number; readonly bottom: number };
    readonly perDay: number;
    x(day: number): number;
}

function places(lake: Lake, width: number, height: number): Places {
    const right = width - Math.min(NAMES, width * 0.25);
    const last = lake.at[lake.at.length - 1] ?? 0;
    const bottom = height - BELOW;
    const boots = Math.min(Math.max(height * 0.2, 24), 90);
    const perDay = (right - LEFT) / (last + 1);
    return {
        right,
        bottom: bottom - boots - 10,
        boots: { top: bottom - boots, bottom },
        perDay,
        x: day => LEFT + (lake.at[day]! + 0.5) * perDay,
    };
}

/** The drawn day nearest to a place. */
export function dayAt(lake: Lake, x: number, width: number, height: number): number | undefined {
    const at = places(lake, width, height);
    if (lake.days.length === 0 || x < LEFT || x > at.right) return undefined;
    return lake.days.reduce((best, _, day) => (Math.abs(at.x(day) - x) < Math.abs(at.x(best) - x) ? day : best), 0);
}

/** The largest distance, in pixels, at which a click selects a mark. */
const NEAR = 9;

/** The drawn mark nearest to a place, if it is near enough to be meant. */
export function markAt({ lake, marks }: Pick<OverTime, "lake" | "marks">, x: number, width: number, height: number): Mark | undefined {
    const at = places(lake, width, height);
    const [nearest] = [...marks].sort((a, b) => Math.abs(at.x(a.day) - x) - Math.abs(at.x(b.day) - x));
    return nearest && Math.abs(at.x(nearest.day) - x) <= NEAR ? nearest : undefined;
}

/** The value of a line: a time, or a share of the usual time. */
export function valueText(value: number | undefined, scale: ScaleOf): string {
    if (value === undefined) return "";
    return scale === "own" ? `${(value * 100).toFixed(1)} %` : short(Math.round(value), "ns");
}

/** The axis has whole-numbered steps, so shares of the usual time are counted in millionths. */
const MILLION = 1e6;

export function paintOverTime(chart: OverTime, palette: Palette, on: Surface, width: number, height: number): void {
    const { lake, scale, figure, hovered } = chart;
    on.fillStyle = palette.background;
    on.fillRect(0, 0, width, height);
    on.font = FONT;
    on.textBaseline = "middle";
    on.lineWidth = 1;
    const at = places(lake, width, height);
    const lines = chart.lines.slice(0, MAX_DRAWN);
    const colours = coloursOf(lines, palette);
    const figures = (point: Point): number[] =>
        [...(figure === "p95" ? [] : [point.p50]), ...(figure === "p50" ? [] : [point.p95])].filter(value => value !== undefined);
    const values = lines.flatMap(line => line.points.flatMap(figures));
    if (values.length === 0) {
        on.fillStyle = palette.faint;
        on.fillText(lake.cells.length === 0 ? "no boots" : "no boot ended", LEFT, TOP + 20);
        return;
    }
    const [least, most] = [values.reduce((a, b) => Math.min(a, b)), values.reduce((a, b) => Math.max(a, b))];
    const room = Math.max((most - least) * 0.08, most / 500);
    const [low, high] = [least > most / 3 ? least - room : 0, most + room];
    const y = (value: number): number => at.bottom - ((value - low) / (high - low)) * (at.bottom - TOP);
    axisOfDays(lake, at, palette, on);
    axisOfValues(low, high, scale, y, at, palette, on);
    bootsPerDay(chart, colours, at, palette, on);
    paintMarks(chart, at, palette, on);
    if (hovered !== undefined) {
        on.strokeStyle = palette.faint;
        stroke(
            [
                [at.x(hovered), TOP],
                [at.x(hovered), at.boots.bottom],
            ],
            on,
        );
    }
    // Lines with most boots come last, so that they lie on top.
    [...lines.entries()].reverse().forEach(([i, line]) => {
        on.strokeStyle = on.fillStyle = colours[i]!;
        for (const [value, weight] of [
            ["p95", 1],
            ["p50", 2],
        ] as const) {
            if (figure !== "both" && figure !== value) continue;
            on.lineWidth = weight;
            const points = line.points
                .filter(point => point[value] !== undefined)
                .map((point): [number, number] => [at.x(point.day), y(point[value]!)]);
            stroke(points, on);
            // An isolated day would be invisible, and a few days do not look like a line.
            const isFew = points.length * 12 < at.right - LEFT;
            for (const [px, py] of points) if (isFew) on.fillRect(px - weight, py - weight, 2 * weight, 2 * weight);
        }
    });
    names(lines, colours, at, y, figure, palette, on, width);
    on.fillStyle = palette.faint;
    on.fillText(
        fitting(
            figure === "both" ? "thick: median, thin: 95th percentile" : figure === "p50" ? "median" : "95th percentile",
            at.right - LEFT,
        ),
        LEFT + 2,
        TOP + 8,
    );
}

function stroke(path: readonly (readonly [number, number])[], on: Surface): void {
    on.beginPath();
    for (const [i, [a, b]] of path.entries()) on[i === 0 ? "moveTo" : "lineTo"](a, b);
    on.stroke();
}

/** Draws an axis of days, with as many dates as fit. */
function axisOfDays(lake: Lake, at: Places, palette: Palette, on: Surface): void {
    let taken = 0;
    lake.days.forEach((day, i) => {
        const left = at.x(i) - 30;
        if (left < taken || left + 62 > at.right + 30) return;
        taken = left + 90;
        on.strokeStyle = palette.line;
        stroke(
            [
                [Math.round(at.x(i)) + 0.5, TOP],
                [Math.round(at.x(i)) + 0.5, at.boots.bottom],
            ],
            on,
        );
        on.fillStyle = palette.faint;
        on.fillText(fitting(day, 90), left, at.boots.bottom + BELOW / 2);
    });
}

function axisOfValues(
    low: number,
    high: number,
    scale: ScaleOf,
    y: (value: number) => number,
    at: Places,
    palette: Palette,
    on: Surface,
): void {
    const unit = scale === "own" ? MILLION : 1;
    const steps = marks(low * unit, high * unit, Math.max((at.bottom - TOP) / 45, 2));
    const step = steps.length > 1 ? steps[1]! - steps[0]! : 1;
    for (const value of steps) {
        const top = Math.round(y(value / unit)) + 0.5;
        on.strokeStyle = palette.line;
        stroke(
            [
                [LEFT, top],
                [at.right, top],
            ],
            on,
        );
        on.fillStyle = palette.faint;
        on.fillText(scale === "own" ? `${(value / 1e4).toFixed(step < 1e4 ? 1 : 0)} %` : atStep(value, step, "ns"), 4, top);
    }
}

/** Draws the boots of each day as bars: those of each line in its colour, others grey, and above them those that did not end. */
function bootsPerDay({ lake, lines }: OverTime, colours: readonly string[], at: Places, palette: Palette, on: Surface): void {
    const { top, bottom } = at.boots;
    // Lines that are not drawn share one part of the bar, so the work is bounded by the days, not by the lines.
    const stacks = lake.days.map(() => ({ drawn: [] as [string, number][], others: 0, notEnded: 0, sum: 0 }));
    lines.forEach((line, i) => {
        const colour = colours[i];
        for (const { day, boots, notEnded } of line.points) {
            const stack = stacks[day]!;
            if (colour) stack.drawn.push([colour, boots - notEnded]);
            else stack.others += boots - notEnded;
            stack.notEnded += notEnded;
            stack.sum += boots;
        }
    });
    const most = stacks.reduce((most, { sum }) => Math.max(most, sum), 1);
    const width = Math.max(Math.min(at.perDay - 1, 40), 1);
    stacks.forEach(({ drawn, others, notEnded }, day) => {
        let base = bottom;
        for (const [colour, boots] of [...drawn, [palette.meanings.waiting, others], [palette.path, notEnded]] as const) {
            const height = (boots / most) * (bottom - top);
            on.fillStyle = colour;
            if (boots > 0) on.fillRect(at.x(day) - width / 2, base - height, width, height);
            base -= height;
        }
    });
    on.strokeStyle = palette.line;
    stroke(
        [
            [LEFT, bottom + 0.5],
            [at.right, bottom + 0.5],
        ],
        on,
    );
    on.fillStyle = palette.faint;
    on.fillText(grouped(most), 4, top + 5);
    on.fillText("boots a day", 4, bottom - 6);
}

/** The least distance between two marks that have numbers: closer, a number would cover the next mark. */
const MIN_NUMBER_GAP = 34;

/** Draws a triangle for each day on which rows became slower, with their number. */
function paintMarks({ marks, selected }: OverTime, at: Places, palette: Palette, on: Surface): void {
    for (const [i, { day, regressions }] of marks.entries()) {
        const isSelected = regressions.includes(selected);
        const x = at.x(day);
        on.strokeStyle = on.fillStyle = isSelected ? palette.selected : palette.path;
        on.lineWidth = isSelected ? 1.5 : 0.5;
        stroke(
            [
                [x, TOP - 4],
                [x, at.bottom],
            ],
            on,
        );
        on.beginPath();
        on.moveTo(x - 5, TOP - 13);
        on.lineTo(x + 5, TOP - 13);
        on.lineTo(x, TOP - 4);
        on.fill();
        const next = marks[i + 1];
        if (regressions.length > 1 && (!next || at.x(next.day) - x > MIN_NUMBER_GAP))
            on.fillText(String(regressions.length), x + 7, TOP - 10);
    }
    on.lineWidth = 1;
    if (marks.length > 0) {
        on.fillStyle = palette.path;
        on.fillText("slower", 4, TOP - 10);
    }
}

/** Writes each line's name beside its last point. Names that would cover each other are moved apart. */
function names(
    lines: readonly Line[],
    colours: readonly string[],
    at: Places,
    y: (value: number) => number,
    figure: FigureOf,
    palette: Palette,
    on: Surface,
    width: number,
): void {
    const ends = lines.flatMap((line, i) => {
        const last = [...line.points].reverse().find(point => point.p50 !== undefined);
        const value = figure === "p95" ? last?.p95 : last?.p50;
        return last && value !== undefined ? [{ i, name: line.name, from: at.x(last.day), y: y(value), place: y(value) }] : [];
    });
    ends.sort((a, b) => a.y - b.y);
    for (let i = 1; i < ends.length; i += 1) ends[i]!.place = Math.max(ends[i]!.place, ends[i - 1]!.place + NAME_HEIGHT);
    for (let i = ends.length - 1, most = at.bottom; i >= 0; i -= 1, most -= NAME_HEIGHT) ends[i]!.place = Math.min(ends[i]!.place, most);
    on.lineWidth = 0.5;
    for (const { i, name, from, y, place } of ends) {
        on.strokeStyle = on.fillStyle = colours[i]!;
        // A line that ended long before gets no leader, because the leader would cross other lines.
        if (at.right - from < 2 * at.perDay + 12)
            stroke(
                [
                    [from + 2, y],
                    [Math.max(at.right + 4, from + 2), place],
                    [at.right + 10, place],
                ],
                on,
            );
        on.fillRect(at.right + 10, place - 4, 8, 8);
        on.fillStyle = palette.text;
        on.fillText(fitting(name, width - at.right - 22), at.right + 22, place);
    }
    on.lineWidth = 1;
}

/** The chart of a regression's kind of machine over time, by kernel, with its mark. */
export function ofKind(lake: Lake, kind: number, lines: readonly Line[], selected: number): OverTime {
    return { lake, lines, marks: marksOf(lake, kind), scale: "time", figure: "both", selected };
}
