// Pictures of a bench: the spread of each variant's boots, and the growth of a row with a size.
import { at, type Bench, type Growth, isInterval } from "../data/bench";
import type { Surface } from "../lib/save";
import { atStep, marks, short, type Unit } from "../lib/time";
import type { Palette } from "./colours";
import { axis, FONT, fitting, type Scale, x } from "./draw";

export const LINE = 34;
const NAMES = 220;
const TOP = 22;

export function heightOfSpread(bench: Bench): number {
    return TOP + bench.results.variants.length * LINE + 6;
}

/** A computed time as text, rounded to a whole number first. */
export const text = (time: number, unit: Unit): string => short(Math.round(time), unit);

/**
 * Draws a line for each variant. Every boot is a dot, the box holds the middle half of them, the bar is the median, and the line
 * above the bar is the median's interval. The axis begins at the fastest boot if all boots lie close together.
 */
export function paintSpread(bench: Bench, unit: Unit, picked: number, palette: Palette, on: Surface, width: number): void {
    const height = heightOfSpread(bench);
    on.fillStyle = palette.background;
    on.fillRect(0, 0, width, height);
    const boots = bench.boots.filter(boot => boot.round !== null && boot.total_ns !== null);
    const times = boots.map(boot => Number(boot.total_ns));
    if (times.length === 0) return;
    const [least, most] = [times.reduce((a, b) => Math.min(a, b)), times.reduce((a, b) => Math.max(a, b))];
    const room = Math.max((most - least) * 0.06, most / 1000, 1);
    const scale: Scale = {
        from: least > most / 2 ? least - room : 0,
        to: most + room,
        left: Math.min(NAMES, width * 0.35),
        right: width - 8,
    };
    axis(scale, height, unit, palette, on);
    bench.results.variants.forEach((variant, i) => {
        const top = TOP + i * LINE;
        const middle = top + LINE / 2 + 3;
        if (i === picked) {
            on.fillStyle = palette.marked;
            on.fillRect(0, top, width, LINE);
        }
        on.fillStyle = palette.text;
        on.font = FONT;
        on.textBaseline = "middle";
        on.fillText(fitting(variant.name, scale.left - 10), 6, middle);
        const { total } = variant;
        if (!total) return;
        const [low, high] = [x(scale, total.lower_quartile), x(scale, total.upper_quartile)];
        on.fillStyle = palette.phases[0]!;
        on.fillRect(low, middle - 7, Math.max(high - low, 1), 14);
        on.fillStyle = palette.text;
        for (const boot of boots) if (boot.variant === i) on.fillRect(x(scale, Number(boot.total_ns)) - 1.5, middle - 1.5, 3, 3);
        on.fillStyle = palette.path;
        on.fillRect(x(scale, total.median.estimate) - 1.5, middle - 10, 3, 20);
        const [from, to] = [x(scale, total.median.low), x(scale, total.median.high)];
        if (isInterval(total.median)) on.fillRect(from, middle - 12, Math.max(to - from, 1), 2);
    });
}

const LEFT = 86;
const BELOW = 26;

/**
 * Draws a row's points, their model and its predictions. Beyond the measured sizes the model is dashed and the ground is shaded. A
 * prediction is a hollow square with its band.
 */
export function paintGrowth(
    row: Growth,
    dots: readonly { size: number; time: number }[],
    sizeUnit: string,
    unit: Unit,
    palette: Palette,
    on: Surface,
    width: number,
    height: number,
): void {
    on.fillStyle = palette.background;
    on.fillRect(0, 0, width, height);
    const sizes = row.points.map(point => point.size);
    const predicted = row.predicted.filter(one => Number.isFinite(one.time));
    const [least, most] = [Math.min(...sizes), Math.max(...sizes)];
    const from = Math.min(least, ...predicted.map(one => one.size));
    const to = Math.max(most, ...predicted.map(one => one.size));
    const highest = Math.max(
        1,
        at(row, to),
        ...row.points.map(point => point.mean),
        ...dots.map(dot => dot.time),
        ...predicted.map(one => one.time + (one.band ?? 0)),
    );
    if (!(to > from) || !Number.isFinite(highest)) return;
    const gap = (to - from) * 0.04;
    const across: Scale = { from: from - gap, to: to + gap, left: LEFT, right: width - 12 };
    const bottom = height - BELOW;
    const up = (time: number): number => bottom - (time / (highest * 1.06)) * (bottom - 12);
    const line = (path: readonly (readonly [number, number])[]): void => {
        on.beginPath();
        for (const [i, [a, b]] of path.entries()) on[i === 0 ? "moveTo" : "lineTo"](a, b);
        on.stroke();
    };
    // The ground beyond the measured sizes.
    on.fillStyle = palette.gutter;
    for (const [a, b] of [
        [across.from, least],
        [most, across.to],
    ] as const)
        if (predicted.some(one => one.size < least || one.size > most)) on.fillRect(x(across, a), 0, x(across, b) - x(across, a), bottom);
    on.font = FONT;
    on.textBaseline = "middle";
    on.lineWidth = 1;
    const steps = marks(0, highest, 5);
    for (const time of steps) {
        on.strokeStyle = palette.line;
        line([
            [LEFT, Math.round(up(time)) + 0.5],
            [width - 12, Math.round(up(time)) + 0.5],
        ]);
        on.fillStyle = palette.faint;
        on.fillText(atStep(time, steps[1] ?? 1, unit), 4, up(time));
    }
    let taken = 0;
    for (const size of [...new Set([...sizes, ...predicted.map(one => one.size)])].sort((a, b) => a - b)) {
        const label = `${+size.toPrecision(4)}${sizeUnit ? ` ${sizeUnit}` : ""}`;
        const room = label.length * 6.5;
        const left = Math.min(x(across, size) - room / 2, width - room);
        if (left < taken) continue;
        taken = left + room + 4;
        on.fillStyle = palette.faint;
        on.fillText(label, left, height - BELOW / 2);
    }
    if (predicted.some(one => one.size > most)) on.fillText("not measured", Math.min(x(across, most) + 6, width - 90), 10);
    // The model: solid between points, dashed beyond them.
    on.strokeStyle = palette.selected;
    on.lineWidth = 2;
    const PARTS = 160;
    for (let i = 0; i < PARTS; i += 1) {
        const [a, b] = [i, i + 1].map(part => from + ((to - from) * part) / PARTS);
        const isMeasured = a! >= least - gap / 100 && b! <= most + gap / 100;
        if (isMeasured || i % 4 < 2)
            line([
                [x(across, a!), up(Math.max(at(row, a!), 0))],
                [x(across, b!), up(Math.max(at(row, b!), 0))],
            ]);
    }
    on.fillStyle = palette.dense;
    for (const { size, time } of dots) on.fillRect(x(across, size) - 1.5, up(time) - 1.5, 3, 3);
    on.fillStyle = palette.path;
    for (const { size, mean } of row.points) on.fillRect(x(across, size) - 5, up(mean) - 1.5, 10, 3);
    on.strokeStyle = palette.text;
    on.lineWidth = 1.5;
    for (const { size, time, band } of predicted) {
        const [px, py] = [x(across, size), up(Math.max(time, 0))];
        if (band !== null) {
            const [high, low] = [up(time + band), up(Math.max(time - band, 0))];
            line([
                [px, high],
                [px, low],
            ]);
            for (const end of [high, low])
                line([
                    [px - 5, end],
                    [px + 5, end],
                ]);
        }
        on.strokeRect(px - 4, py - 4, 8, 8);
    }
}
