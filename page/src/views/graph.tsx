// A flame graph with its pointer: a click zooms, and the text beside the pointer has the figures.
import { useRef, useState } from "preact/hooks";
import { isDark, type Palette } from "../charts/colours";
import { ROW } from "../charts/draw";
import { boxes, depthOf, type Flame, hit, paint } from "../charts/flame";
import type { Tree } from "../data/merged";
import { grouped, percent, short } from "../lib/time";
import { expression, type Store } from "../state";
import { besidePointer, Canvas, placeOf } from "./canvas";

interface OfGraph {
    readonly store: Store;
    readonly palette: Palette;
    readonly tree: Tree;
    readonly label: string;
    /** A weight as text; without it, `self` and `total` are times or counts. */
    readonly text?: (weight: number) => string;
}

export function Graph({ store, palette, tree, label, text: given }: OfGraph) {
    const [zoomed, setZoomed] = useState(0);
    const [tip, setTip] = useState<{ node: number; x: number; y: number } | undefined>();
    const size = useRef({ width: 800, height: 300, scroll: 0 });
    const at = zoomed < tree.parent.length ? zoomed : 0;
    const flame = (width: number, height: number, scroll: number): Flame => ({
        tree,
        zoomed: at,
        width,
        height,
        scroll,
        palette,
        isDark: isDark(store.state.theme),
        find: expression(store.state.find),
    });
    const now = (): Flame => flame(size.current.width, size.current.height, size.current.scroll);
    const whole = tree.total[0]! || 1;
    const height = depthOf(boxes(flame(size.current.width, 0, 0))) * ROW;
    store.target = {
        ...store.target,
        draw: { width: size.current.width, height, on: surface => paint(flame(size.current.width, height, 0), surface) },
    };
    const text = given ?? ((time: number): string => (store.state.merged.of === "calls" ? grouped(time) : short(time, store.boot.unit)));
    return (
        <Canvas
            label={`${label}. The table of functions beside it has the same figures.`}
            contentHeight={height}
            class="flame"
            draw={(on, width, high, scroll) => {
                size.current = { width, height: high, scroll };
                paint(flame(width, high, scroll), on);
            }}
            onPointer={(kind, event, x, y) => {
                if (kind === "leave") return setTip(undefined);
                const node = hit(now(), x, y);
                if (kind === "move") setTip(node === undefined ? undefined : { node, ...placeOf(event) });
                if (kind === "up") setZoomed(node ?? 0);
            }}
        >
            {tip && tip.node < tree.parent.length ? (
                <div class="tip" role="tooltip" style={besidePointer(tip)}>
                    <strong>{tree.texts[tree.key[tip.node]!]}</strong>
                    <br />
                    total {text(tree.total[tip.node]!)}
                    {given ? ", sampled" : ` (${percent(tree.total[tip.node]! / whole)})`}, self {text(tree.self[tip.node]!)}
                </div>
            ) : null}
        </Canvas>
    );
}
