// A flame graph: merged stacks, as wide as their time. Roots are on top, with callees below (or, upside down, callers).
import type { Tree } from "../data/merged";
import type { Surface } from "../lib/save";
import { hsl, type Palette, toneOf } from "./colours";
import { Boxes, fitting, ROW, Texts } from "./draw";

export interface Flame {
    readonly tree: Tree;
    /** The node that fills the width. */
    readonly zoomed: number;
    readonly width: number;
    readonly height: number;
    readonly scroll: number;
    readonly palette: Palette;
    readonly isDark: boolean;
    readonly find: RegExp | undefined;
    /** The increase of each node's time. If given, it decides a node's colour, and an arrow before its name. */
    readonly changes?: Float64Array;
}

interface Box {
    readonly node: number;
    readonly left: number;
    readonly width: number;
    readonly depth: number;
}

/** Boxes at least half a pixel wide: the ancestors of the zoomed one first, then it, then its descendants. */
export function boxes({ tree, zoomed, width }: Pick<Flame, "tree" | "zoomed" | "width">): Box[] {
    const above: number[] = [];
    for (let at = zoomed; at > 0; at = tree.parent[at]!) above.unshift(tree.parent[at]!);
    const out: Box[] = above.map((node, depth) => ({ node, left: 0, width, depth }));
    const perPixel = tree.total[zoomed]! / width || 1;
    const stack: Box[] = [{ node: zoomed, left: 0, width, depth: above.length }];
    for (let box = stack.pop(); box; box = stack.pop()) {
        out.push(box);
        let { left } = box;
        for (const node of tree.children[box.node]!) {
            const wide = tree.total[node]! / perPixel;
            // The remaining children are not longer.
            if (wide < 0.5) break;
            stack.push({ node, left, width: wide, depth: box.depth + 1 });
            left += wide;
        }
    }
    return out;
}

/** The number of rows of the boxes. */
export function depthOf(all: readonly Box[]): number {
    return all.reduce((most, box) => Math.max(most, box.depth + 1), 1);
}

function colour(text: string, isDark: boolean): string {
    const tone = toneOf(text);
    return isDark ? hsl(28 + tone * 5, 45, 24 + tone * 3) : hsl(34 + tone * 5, 85, 68 + tone * 4);
}

/** Orange is longer, blue is shorter. The larger the change relative to the whole, the stronger the colour. */
function changeColour(share: number, isDark: boolean): string {
    const strength = Math.min(Math.sqrt(Math.abs(share)) * 2, 1);
    const hue = share > 0 ? 24 : 205;
    return isDark ? hsl(hue, 10 + 55 * strength, 22 + 8 * strength) : hsl(hue, 10 + 80 * strength, 88 - 18 * strength);
}

/** The smallest visible change: a thousandth of the whole. */
const MIN_CHANGE = 0.001;

export function paint(flame: Flame, on: Surface): void {
    const { palette, tree, scroll, height } = flame;
    on.fillStyle = palette.background;
    on.fillRect(0, 0, flame.width, height);
    const [rects, texts] = [new Boxes(), new Texts()];
    const whole = tree.total[0]! || 1;
    for (const { node, left, width, depth } of boxes(flame)) {
        const y = depth * ROW - scroll;
        if (y < -ROW || y > height) continue;
        const name = tree.texts[tree.key[node]!]!;
        const share = (flame.changes?.[node] ?? 0) / whole;
        const text = Math.abs(share) < MIN_CHANGE ? name : `${share > 0 ? "▲" : "▼"} ${name}`;
        const isFound = flame.find?.test(name) === true;
        const fill = flame.changes ? changeColour(share, flame.isDark) : colour(name, flame.isDark);
        rects.add(isFound ? palette.found : fill, left, y, Math.max(width - 0.7, 0.5), ROW - 1);
        texts.add(fitting(text, width), left + 3, y + ROW / 2);
    }
    rects.paint(on);
    texts.paint(on, palette.onFill);
}

export function hit(flame: Flame, px: number, py: number): number | undefined {
    const depth = Math.floor((py + flame.scroll) / ROW);
    return boxes(flame).find(box => box.depth === depth && px >= box.left && px < box.left + Math.max(box.width, 1))?.node;
}
