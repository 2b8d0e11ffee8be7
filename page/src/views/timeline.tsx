// Tracks in order of time, with the boot path across them. The view of the path has only the tracks that it touches.
import { useMemo, useRef, useState } from "preact/hooks";
import type { Palette } from "../charts/colours";
import { LabelColours, ROW, timeAt } from "../charts/draw";
import { AXIS, gutterOf, type Hit, hit, layOut, type Picture, paint, scaleOf, topOf } from "../charts/tracks";
import { whyWait } from "../lib/explain";
import { counted, short } from "../lib/time";
import { expression, type Store } from "../state";
import { besidePointer, Canvas, placeOf } from "./canvas";
import { Legend } from "./legend";
import { InstantTable, SpanTable } from "./places";

interface Time {
    readonly from: number;
    readonly to: number;
}

export function Timeline({ store, palette, only }: { store: Store; palette: Palette; only: "path" | "all" }) {
    const { boot, state } = store;
    const selectedSpan = state.selection?.kind === "span" && state.selection.span < boot.spans.count ? state.selection.span : undefined;
    const layout = useMemo(() => layOut(boot, state.folded, only, selectedSpan), [boot.version, state.folded, only, selectedSpan]);
    const colours = useMemo(() => new LabelColours(boot, palette), [boot.version, palette]);
    const found = useMemo(() => foundLabels(store), [boot.version, state.find]);
    const [hovered, setHovered] = useState<{ hit: Hit; x: number; y: number } | undefined>();
    const size = useRef({ width: 800, height: 400, scroll: 0 });
    // The time that is being dragged over. It is selected at the end of the drag, because opening the details earlier would move
    // the chart.
    const [chosen, setChosen] = useState<Time | undefined>();
    const drag = useRef<{ x: number; from: number; to: number; isRange: boolean; moved: boolean; chosen?: Time } | undefined>(undefined);

    const picture = (width: number, height: number, scroll: number): Picture => ({
        boot,
        layout,
        width,
        height,
        scroll,
        ...store.window,
        palette,
        colours,
        found,
        selected: chosen ?? store.selected(),
        selectedSpan,
        selectedInstant: state.selection?.kind === "instant" ? state.selection.instant : undefined,
        step: state.selection?.kind === "stay" ? boot.stays[state.selection.stay] : undefined,
        marked: state.marked,
        isPathShown: boot.stays.length > 0,
    });
    const now = (): Picture => picture(size.current.width, size.current.height, size.current.scroll);

    const selectedTrack =
        state.selection?.kind === "span"
            ? boot.spans.track[state.selection.span]
            : state.selection?.kind === "stay"
              ? boot.stays[state.selection.stay]?.owner.track
              : state.selection?.kind === "range"
                ? state.selection.track
                : undefined;
    const lane = selectedTrack === undefined ? undefined : layout.lanes.find(one => one.track.id === selectedTrack);
    const instantLane =
        state.selection?.kind === "instant" ? layout.instants[boot.instants.all[state.selection.instant]?.lane ?? -1] : undefined;
    const at = (x: number, y: number): Hit => hit(now(), x, y);

    const pointer = (kind: "down" | "move" | "up" | "leave" | "double", event: PointerEvent | MouseEvent, x: number, y: number): void => {
        if (kind === "leave") return setHovered(undefined);
        if (kind === "double") return store.zoomToSelected();
        if (kind === "down" && event.button === 0 && x >= gutterOf(size.current.width)) {
            // Dragging on the axis selects a time; dragging on the tracks moves them.
            drag.current = { x, ...store.window, isRange: event.shiftKey || y < AXIS, moved: false };
            if (event instanceof PointerEvent && event.pointerType !== "touch")
                (event.currentTarget as Element).setPointerCapture(event.pointerId);
        }
        const dragged = drag.current;
        if (kind === "move" && dragged) {
            if (Math.abs(x - dragged.x) < 4 && !dragged.moved) return;
            dragged.moved = true;
            const scale = { ...scaleOf(now()), from: dragged.from, to: dragged.to };
            const [before, after] = [timeAt(scale, dragged.x), timeAt(scale, x)];
            if (dragged.isRange) setChosen((dragged.chosen = { from: Math.min(before, after), to: Math.max(before, after) }));
            else store.show(dragged.from + before - after, dragged.to + before - after);
            setHovered(undefined);
        } else if (kind === "move") {
            setHovered({ hit: at(x, y), ...placeOf(event) });
        }
        if (kind === "up") {
            drag.current = undefined;
            setChosen(undefined);
            if (dragged?.chosen) store.set({ selection: { kind: "range", ...dragged.chosen } });
            if (dragged?.moved) return;
            const what = at(x, y);
            if (what.isGutter && what.lane) {
                const folded = new Set(state.folded);
                if (!folded.delete(what.lane.track.id)) folded.add(what.lane.track.id);
                store.set({ folded });
            } else if (what.instant) store.select({ kind: "instant", instant: what.instant.index });
            else if (what.span !== undefined)
                store.select(
                    (event.shiftKey && state.selection?.kind === "span" ? store.between(state.selection.span, what.span) : undefined) ?? {
                        kind: "span",
                        span: what.span,
                    },
                );
            else if (what.stay) store.select({ kind: "stay", stay: what.stay.index });
            else if (what.wait) store.select({ kind: "range", from: what.wait.from, to: what.wait.until });
            else if (!what.isGutter) store.set({ selection: undefined });
        }
    };

    const instants = only === "all" ? boot.instants.all.filter(one => one.from <= store.window.to && one.to >= store.window.from) : [];
    store.target = {
        draw: {
            width: size.current.width,
            height: Math.min(layout.height, 4000),
            on: surface => paint(picture(size.current.width, Math.min(layout.height, 4000), 0), surface),
        },
        rows: () => [
            ["span", "thread", "start_ns", "length_ns"],
            ...boot
                .longestWithin(store.window.from, store.window.to, 10_000)
                .map(span => [
                    boot.spanName(span),
                    boot.track(boot.spans.track[span]!)?.label ?? "",
                    boot.spanStart(span),
                    boot.spanLength(span),
                ]),
            ...instants.slice(0, 10_000).map(one => [one.text, boot.instants.lanes[one.lane]?.name ?? "", one.from, one.to - one.from]),
        ],
    };

    const label = only === "path" ? "The boot path across the tracks that it touches, in order of time" : "All tracks in order of time";
    return (
        <>
            <div class="tools above">
                {boot.stays.length > 0 ? (
                    <label>
                        <input
                            type="checkbox"
                            checked={only === "path"}
                            onChange={event => store.set({ view: event.currentTarget.checked ? "path" : "tracks" })}
                        />{" "}
                        path only
                    </label>
                ) : null}
                <Legend store={store} palette={palette} />
            </div>
            <Canvas
                label={`${label}. ${layout.lanes.length} tracks. The table below lists the longest spans that are seen.`}
                contentHeight={layout.height}
                draw={(on, width, height, scroll) => {
                    size.current = { width, height, scroll };
                    paint(picture(width, height, scroll), on);
                }}
                onPointer={pointer}
                onWheel={(event, x) => {
                    if (event.ctrlKey || event.metaKey)
                        store.zoom(Math.exp(Math.max(-60, Math.min(60, event.deltaY)) / 100), timeAt(scaleOf(now()), x));
                    else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY))
                        store.pan((event.deltaX || event.deltaY) / 1000);
                    else return false;
                    return true;
                }}
                onPinch={(factor, x, moved) => {
                    store.zoom(factor, timeAt(scaleOf(now()), x));
                    store.pan(-moved / size.current.width / 2);
                }}
                scrollTo={
                    lane && selectedSpan !== undefined
                        ? { top: topOf(lane, boot.spans.depth[selectedSpan]!), height: ROW }
                        : lane
                          ? { top: lane.y, height: Math.min(lane.height, 60) }
                          : instantLane && { top: instantLane.y, height: 20 }
                }
            >
                {hovered ? <Tip store={store} {...hovered} /> : null}
            </Canvas>
            {layout.empty > 0 ? (
                <p class="faint note">
                    {counted(layout.empty, "track")} with nothing but a name {layout.empty === 1 ? "is" : "are"} not shown.
                </p>
            ) : null}
            {boot.stays.length === 0 ? (
                <p class="note">There is no boot path: no evidence says which thread reached the end mark.</p>
            ) : null}
            {only === "all"
                ? boot.instants.notes.map((text, i) => (
                      <p class="faint note" key={i}>
                          {text}
                      </p>
                  ))
                : null}
            {state.tables ? (
                <SpanTable
                    store={store}
                    label="The longest spans that are seen"
                    spans={boot.longestWithin(store.window.from, store.window.to, 500)}
                />
            ) : null}
            {state.tables && instants.length > 0 ? <InstantTable store={store} label="Moments that are seen" instants={instants} /> : null}
        </>
    );
}

function Tip({ store, hit, x, y }: { store: Store; hit: Hit; x: number; y: number }) {
    const { boot } = store;
    const { instant } = hit;
    if (instant) {
        return (
            <div class="tip" role="tooltip" style={besidePointer({ x, y })}>
                <strong>{instant.text}</strong>{" "}
                {instant.to > instant.from ? short(instant.to - instant.from, boot.unit) : `at ${short(instant.from, boot.unit)}`}
                <br />
                {boot.instants.lanes[instant.lane]?.name}
                {instant.more.slice(0, 4).map((text, i) => (
                    <div key={i}>{text}</div>
                ))}
            </div>
        );
    }
    if (hit.wait) {
        return (
            <div class="tip" role="tooltip" style={besidePointer({ x, y })}>
                <strong>waited</strong> {short(hit.wait.until - hit.wait.from, boot.unit)}: {whyWait(boot, hit.wait)}
                <br />
                {hit.lane?.track.label}
            </div>
        );
    }
    if (hit.span === undefined && !hit.stay) return null;
    const text = hit.span !== undefined ? boot.spanName(hit.span) : `boot path: ${hit.stay!.kind}`;
    const length = hit.span !== undefined ? boot.spanLength(hit.span) : hit.stay!.to - hit.stay!.from;
    return (
        <div class="tip" role="tooltip" style={besidePointer({ x, y })}>
            <strong>{text}</strong> {short(length, boot.unit)}
            <br />
            {hit.lane?.track.label}
        </div>
    );
}

/** Labels that match the search; `undefined` without a search. */
export function foundLabels(store: Store): ReadonlySet<number> | undefined {
    const wanted = expression(store.state.find);
    if (!wanted) return undefined;
    const matching = new Set<number>();
    store.boot.labels.forEach((_, label) => {
        if (wanted.test(store.boot.labelText(label))) matching.add(label);
    });
    return matching;
}
