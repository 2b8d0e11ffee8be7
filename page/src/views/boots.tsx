// Boots on one axis of time, aligned at a chosen phase: the phases of each, and the boot paths of the two that are compared.
import { useMemo, useRef, useState } from "preact/hooks";
import { type Palette, phaseColour } from "../charts/colours";
import { axis, FONT, fitting, fittingName, LabelColours, ROW, type Scale, x } from "../charts/draw";
import { type Box, depthOf, hitPathFlame, type PathFlame, paintPathFlame } from "../charts/pathflame";
import type { Boot } from "../data/boot";
import type { Surface } from "../lib/save";
import { short } from "../lib/time";
import { besidePointer, Canvas, placeOf } from "./canvas";

const AXIS = 20;
const BAR = 28;
/** The most width of the names of boots, and their share of a narrow chart. */
const [MAX_GUTTER, GUTTER_SHARE] = [150, 0.26];
/** The most rows of spans of a boot path; the other views have all. */
const MAX_DEPTH = 4;

interface Lane {
    readonly boot: Boot;
    readonly top: number;
    /** The rows of its boot path; 0 if it has none here. */
    readonly rows: number;
}

export function BootsOnOneAxis({
    boots,
    compared,
    palette,
    align = "",
    nameOf = boot => boot.name,
}: {
    boots: readonly Boot[];
    compared: readonly Boot[];
    palette: Palette;
    align?: string;
    nameOf?: (boot: Boot) => string;
}) {
    const [tip, setTip] = useState<{ boot: Boot; box: Box; x: number; y: number } | undefined>();
    const drawn = useRef<readonly (readonly Box[])[]>([]);
    const width = useRef(1000);
    const gutter = (): number => Math.min(MAX_GUTTER, Math.round(width.current * GUTTER_SHARE));
    const versions = boots.map(boot => boot.version).join();
    const colours = useMemo(() => new Map(boots.map(boot => [boot, new LabelColours(boot, palette)])), [versions, palette]);
    const zero = (boot: Boot): number => Number(boot.summary.phases.find(phase => phase.name === align)?.start_ns ?? 0);
    const from = Math.min(...boots.map(boot => boot.extent.from - zero(boot)));
    const to = Math.max(...boots.map(boot => boot.extent.to - zero(boot)));
    let height = AXIS;
    const lanes = boots.map((boot): Lane => {
        const rows = compared.includes(boot) && boot.stays.length > 0 ? 1 + Math.min(depthOf(boot), MAX_DEPTH) : 0;
        const lane = { boot, top: height, rows };
        height += BAR + rows * ROW + (rows > 0 ? 6 : 0);
        return lane;
    });
    const flameOf = ({ boot, rows }: Lane): PathFlame => ({
        boot,
        palette,
        colours: colours.get(boot)!,
        found: undefined,
        callouts: [],
        depth: rows - 1,
        from: from + zero(boot),
        to: to + zero(boot),
        left: gutter(),
        width: width.current,
        selectedSpan: undefined,
        selected: undefined,
    });
    const draw = (on: Surface, up: number): void => {
        const scale: Scale = { from, to, left: gutter(), right: width.current };
        on.fillStyle = palette.background;
        on.fillRect(0, 0, width.current, height);
        drawn.current = lanes.map(lane => (lane.rows > 0 ? paintPathFlame(flameOf(lane), on, lane.top + BAR - 4 + up, false) : []));
        axis(scale, AXIS, boots[0]!.unit, palette, on);
        for (const lane of lanes) phasesOf({ ...lane, top: lane.top + up }, nameOf(lane.boot), scale, zero(lane.boot), palette, on);
    };
    const hit = (px: number, py: number): { boot: Boot; box: Box } | undefined => {
        const at = lanes.filter(lane => py >= lane.top + BAR - 4).length - 1;
        const lane = lanes[at];
        if (!lane || lane.rows === 0) return undefined;
        const box = hitPathFlame(flameOf(lane), drawn.current[at] ?? [], px, py - (lane.top + BAR - 4), false);
        return box && "row" in box ? { boot: lane.boot, box } : undefined;
    };
    return (
        <div class="bars" style={{ height: `min(45vh, ${height}px)` }}>
            <Canvas
                label={`Phases of ${boots.length} boots on one axis, and the paths of the two that are compared; the tables below have their lengths`}
                contentHeight={height}
                draw={(on, w, _height, scroll) => {
                    width.current = w;
                    draw(on, -scroll);
                }}
                onPointer={(kind, event, px, py) => {
                    const scrolled = (event.currentTarget as HTMLElement | null)?.scrollTop ?? 0;
                    if (kind === "leave") setTip(undefined);
                    else if (kind === "move") {
                        const what = hit(px, py + scrolled);
                        setTip(what && { ...what, ...placeOf(event) });
                    }
                }}
            >
                {tip ? (
                    <div class="tip" role="tooltip" style={besidePointer(tip)}>
                        <strong>{tip.box.label}</strong>{" "}
                        {tip.box.span === undefined ? null : short(tip.boot.spanLength(tip.box.span), tip.boot.unit)}
                        <br />
                        {nameOf(tip.boot)}
                    </div>
                ) : null}
            </Canvas>
        </div>
    );
}

/** The name of a boot and its phases. A phase's colour depends on its name, so it is the same in all boots. */
function phasesOf({ boot, top }: Lane, name: string, scale: Scale, zero: number, palette: Palette, on: Surface): void {
    on.font = FONT;
    on.textBaseline = "middle";
    on.fillStyle = palette.text;
    on.fillText(fittingName(name, scale.left - 6), 4, top + BAR / 2);
    for (const phase of boot.summary.phases) {
        const [left, right] = [x(scale, Number(phase.start_ns) - zero), x(scale, Number(phase.end_ns) - zero)];
        on.fillStyle = phaseColour(palette, phase.name);
        on.fillRect(left, top + 2, Math.max(right - left - 0.7, 0.5), BAR - 7);
        on.fillStyle = palette.onFill;
        const text = fitting(phase.name, right - left);
        if (text) on.fillText(text, left + 4, top + BAR / 2 - 1);
    }
}
