// The boot at a glance: its phases over the whole width, where dragging selects a window; below them the boot path as a flame
// chart, and the tables.
import { useMemo, useRef, useState } from "preact/hooks";
import { type Palette, phaseColour } from "../charts/colours";
import { FONT, fitting, LabelColours, type Scale, timeAt, x } from "../charts/draw";
import { colourOf, HEIGHTS, meaningOf } from "../charts/meaning";
import { type Box, type Callout, calloutsOf, depthOf, heightOf, hitPathFlame, type PathFlame, paintPathFlame } from "../charts/pathflame";
import type { Boot } from "../data/boot";
import type { Surface } from "../lib/save";
import { difference, FIRST_CALLS, ofRow, percent, short, type Whole, whole } from "../lib/time";
import type { Store } from "../state";
import { besidePointer, Canvas, placeOf } from "./canvas";
import { Legend } from "./legend";
import { Samples } from "./samples";
import { foundLabels } from "./timeline";

const PHASES = 26;
const PATH = 12;
export const STRIP = PHASES + PATH + 2;

export function paintStrip(
    boot: Boot,
    palette: Palette,
    window: { from: number; to: number } | undefined,
    on: Surface,
    width: number,
): void {
    const { from, to } = boot.extent;
    const scale: Scale = { from, to, left: 0, right: width };
    on.fillStyle = palette.background;
    on.fillRect(0, 0, width, STRIP);
    on.font = FONT;
    on.textBaseline = "middle";
    boot.summary.phases.forEach(phase => {
        const [left, right] = [x(scale, Number(phase.start_ns)), x(scale, Number(phase.end_ns))];
        on.fillStyle = phaseColour(palette, phase.name);
        on.fillRect(left, 0, Math.max(right - left - 0.7, 0.5), PHASES);
        on.fillStyle = palette.onFill;
        const text = fitting(phase.name, right - left);
        if (text) on.fillText(text, left + 4, PHASES / 2);
    });
    pathStrip(boot, palette, scale, on);
    if (window) {
        const [left, right] = [x(scale, window.from), x(scale, window.to)];
        on.fillStyle = palette.marked;
        on.fillRect(0, 0, Math.max(left, 0), STRIP);
        on.fillRect(right, 0, Math.max(width - right, 0), STRIP);
        on.strokeStyle = palette.selected;
        on.lineWidth = 2;
        on.strokeRect(left, 1, Math.max(right - left, 2), STRIP - 2);
    }
}

/**
 * Draws the state of the boot path: a thread ran, was ready without a CPU, or no thread ran. It looks like the strips of the
 * tracks.
 */
function pathStrip(boot: Boot, palette: Palette, scale: Scale, on: Surface): void {
    let right = -1;
    for (const stay of boot.stays) {
        const [left, end] = [x(scale, stay.from), x(scale, stay.to)];
        if (end - right < 0.3 && end - left < 0.3) continue;
        right = end;
        const meaning = meaningOf(boot, stay);
        const height = Math.max((PATH - 2) * HEIGHTS[meaning], 1);
        on.fillStyle = colourOf(palette, meaning);
        on.fillRect(left, PHASES + 1 + (PATH - height) / 2, Math.max(end - left, 0.5), height);
    }
}

/** The strip above every chart. */
export function Strip({ store, palette }: { store: Store; palette: Palette }) {
    const begun = useRef<number | undefined>(undefined);
    const { boot } = store;
    const scale = (width: number): Scale => ({ ...boot.extent, left: 0, right: width });
    const width = useRef(1);
    return (
        <Canvas
            label={`Phases of the boot. ${boot.summary.phases.map(phase => phase.name).join(", ")}`}
            contentHeight={STRIP}
            class="strip"
            draw={(on, w) => {
                width.current = w;
                paintStrip(boot, palette, store.state.window, on, w);
            }}
            onPointer={(kind, event, px) => {
                const at = timeAt(scale(width.current), px);
                if (kind === "down") {
                    begun.current = at;
                    if (event instanceof PointerEvent) (event.currentTarget as Element).setPointerCapture(event.pointerId);
                } else if (kind === "move" && begun.current !== undefined && Math.abs(at - begun.current) > boot.total / 500) {
                    store.show(Math.min(at, begun.current), Math.max(at, begun.current));
                } else if (kind === "up") begun.current = undefined;
                else if (kind === "double") store.set({ window: undefined });
            }}
        />
    );
}

function sumOf(times: readonly Whole[]): Whole {
    const sum = times.reduce<bigint>((sum, time) => sum + BigInt(time), 0n);
    return sum <= Number.MAX_SAFE_INTEGER ? Number(sum) : sum;
}

/** A last row with the sum of the rows above. */
function Sum({ store: { boot }, label, time, start = false }: { store: Store; label: string; time: Whole; start?: boolean }) {
    return (
        <tr data-ns={String(time)}>
            <th scope="row">{label}</th>
            {start ? <td class="n" /> : null}
            <td class="n">{short(time, boot.unit)}</td>
            <td class="n">{percent(boot.total > 0 ? Number(time) / boot.total : 0)}</td>
        </tr>
    );
}

/** The boot path as a flame chart, with the largest rows and findings named in it. */
function Flame({ store, palette }: { store: Store; palette: Palette }) {
    const { boot, state } = store;
    const colours = useMemo(() => new LabelColours(boot, palette), [boot.version, palette]);
    const found = useMemo(() => foundLabels(store), [boot.version, state.find]);
    const callouts = useMemo(() => calloutsOf(boot), [boot.version]);
    const depth = useMemo(() => depthOf(boot), [boot.version]);
    const [width, setWidth] = useState(1000);
    const [tip, setTip] = useState<{ what: Box | Callout; x: number; y: number } | undefined>();
    const drawn = useRef<readonly Box[]>([]);
    const scroll = useRef(0);
    const flame: PathFlame = {
        boot,
        palette,
        colours,
        found,
        callouts,
        depth,
        ...store.window,
        width,
        selectedSpan: state.selection?.kind === "span" ? state.selection.span : undefined,
        selected: state.selection?.kind === "span" ? undefined : store.selected(),
    };
    const { whole: height } = heightOf(flame);
    store.target = {
        draw: {
            width,
            height: STRIP + height,
            on: surface => {
                paintPathFlame(flame, surface, STRIP);
                paintStrip(boot, palette, state.window, surface, width);
            },
        },
    };
    if (boot.stays.length === 0) return <p class="note">There is no boot path: no evidence says which thread reached the end mark.</p>;
    const at = (px: number, py: number): Box | Callout | undefined => hitPathFlame(flame, drawn.current, px, py + scroll.current);
    const pick = (what: Box | Callout | undefined): void => {
        if (!what) store.set({ selection: undefined });
        else if ("row" in what)
            store.select(what.span === undefined ? { kind: "stay", stay: what.stay } : { kind: "span", span: what.span });
        else if (what.isFinding) store.set({ view: "findings" });
        else if (what.thing > 0) store.set({ selection: { kind: "thing", thing: what.thing, name: what.name } });
        else store.select({ kind: "range", from: what.from, to: what.to, title: what.name });
    };
    return (
        <div class="pathflame" style={{ height: `${height}px` }}>
            <Canvas
                label={`The boot path as a flame chart. ${callouts.map(one => one.text).join(". ")}. The tables below have its figures.`}
                contentHeight={height}
                onSize={setWidth}
                draw={(on, _width, _height, top) => {
                    scroll.current = top;
                    on.fillStyle = palette.background;
                    on.fillRect(0, 0, _width, _height);
                    drawn.current = paintPathFlame({ ...flame, width: _width }, on, -top);
                }}
                onPointer={(kind, event, px, py) => {
                    if (kind === "leave") setTip(undefined);
                    else if (kind === "double") store.zoomToSelected();
                    else if (kind === "up") pick(at(px, py));
                    else if (kind === "move") {
                        const what = at(px, py);
                        setTip(what && { what, ...placeOf(event) });
                    }
                }}
                onWheel={(event, px) => {
                    if (event.ctrlKey || event.metaKey)
                        store.zoom(
                            Math.exp(Math.max(-60, Math.min(60, event.deltaY)) / 100),
                            timeAt({ ...store.window, left: 0, right: width }, px),
                        );
                    else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY))
                        store.pan((event.deltaX || event.deltaY) / 1000);
                    else return false;
                    return true;
                }}
            >
                {tip ? (
                    <div class="tip" role="tooltip" style={besidePointer(tip)}>
                        {"row" in tip.what ? (
                            <>
                                <strong>{tip.what.label}</strong>{" "}
                                {tip.what.span === undefined ? null : short(boot.spanLength(tip.what.span), boot.unit)}
                            </>
                        ) : (
                            tip.what.text
                        )}
                    </div>
                ) : null}
            </Canvas>
        </div>
    );
}

export function Overview({ store, palette }: { store: Store; palette: Palette }) {
    const { boot } = store;
    const { summary, unit, total } = boot;
    const { subject } = summary;
    const facts: [string, string][] = [
        ["kernel", `${subject.os} ${subject.kernel}`.trim()],
        ["machine", subject.machine],
        ["accelerator", subject.accelerator],
        ["CPUs", Number(subject.cpus) > 0 ? String(subject.cpus) : ""],
        ["memory", Number(subject.memory_bytes) > 0 ? `${Math.round(Number(subject.memory_bytes) / 2 ** 20)} MiB` : ""],
        ...boot.facts!.measured.map(([label, text]): [string, string] => [label, text]),
        [
            "end mark",
            summary.end
                ? `${summary.end.evidence} (±${short(whole(summary.end.error_ns), unit)})`
                : "none: the total ends with the last evidence",
        ],
        ["noise", boot.facts!.noise ?? ""],
        ["explained", `${percent(summary.explained)} of the total is charged to what one can name`],
        ["time base", summary.time_base],
        ...summary.clocks.map(({ name, residual_ns, rate_from }): [string, string] => [
            `clock ${name}`,
            `${rate_from}, within ${short(whole(residual_ns), unit)}`,
        ]),
        ...boot.facts!.how.map(([label, text]): [string, string] => [label, text]),
    ];
    const inShort = ["machine", "accelerator", "CPUs", "memory", "noise"].flatMap(name => {
        const text = facts.find(([label]) => label === name)?.[1];
        return !text ? [] : name === "CPUs" ? [text === "1" ? "1 CPU" : `${text} CPUs`] : name === "noise" ? [`noise ${text}`] : [text];
    });
    const top = summary.where.slice(0, 12);
    const first = boot.facts!.findings?.findings[0];
    return (
        <div class="overview scroll" tabIndex={0} role="region" aria-label="Overview">
            <details class="run">
                <summary>
                    {inShort.join(" · ")} <span class="faint">how it was run</span>
                </summary>
                <dl class="facts">
                    {facts
                        .filter(([, text]) => text !== "")
                        .map(([label, text], i) => (
                            <div key={i}>
                                <dt>{label}</dt>
                                <dd>{text}</dd>
                            </div>
                        ))}
                </dl>
            </details>
            {boot.stays.length === 0 && summary.sampled ? (
                <Samples store={store} palette={palette} />
            ) : (
                <>
                    <Legend store={store} palette={palette} />
                    <Flame store={store} palette={palette} />
                </>
            )}
            <div class="columns">
                <section hidden={summary.phases.length === 0}>
                    <h2>Phases</h2>
                    <table class="plain" id="phases">
                        <thead>
                            <tr>
                                <th scope="col">phase</th>
                                <th scope="col" class="n">
                                    start
                                </th>
                                <th scope="col" class="n">
                                    length
                                </th>
                                <th scope="col" class="n">
                                    share
                                </th>
                            </tr>
                        </thead>
                        <tbody>
                            {summary.phases.map((phase, i) => {
                                const [start, end] = [whole(phase.start_ns), whole(phase.end_ns)];
                                const length = difference(end, start);
                                return (
                                    <tr key={i} data-ns={String(length)}>
                                        <th scope="row">
                                            <button
                                                type="button"
                                                class="pick"
                                                title={phase.evidence}
                                                onClick={() => {
                                                    store.show(Number(start), Number(end));
                                                    store.set({
                                                        view: "path",
                                                        selection: {
                                                            kind: "range",
                                                            from: Number(start),
                                                            to: Number(end),
                                                            title: phase.name,
                                                        },
                                                    });
                                                }}
                                            >
                                                {phase.name}
                                            </button>
                                        </th>
                                        <td class="n">{short(start, unit)}</td>
                                        <td class="n">{short(length, unit)}</td>
                                        <td class="n">{percent(total > 0 ? Number(length) / total : 0)}</td>
                                    </tr>
                                );
                            })}
                        </tbody>
                        <tfoot>
                            <Sum
                                store={store}
                                label="total"
                                start
                                time={sumOf(summary.phases.map(phase => difference(whole(phase.end_ns), whole(phase.start_ns))))}
                            />
                        </tfoot>
                    </table>
                </section>
                <section hidden={summary.where.length === 0}>
                    <h2>Where the boot path went</h2>
                    {first ? (
                        <p>
                            What to do first:{" "}
                            <button type="button" class="link" onClick={() => store.set({ view: "findings" })}>
                                {first.title}
                            </button>{" "}
                            ({short(whole(first.cost_ns), unit)})
                        </p>
                    ) : null}
                    <table class="plain" id="top">
                        <thead>
                            <tr>
                                <th scope="col">what</th>
                                <th scope="col" class="n">
                                    self
                                </th>
                                <th scope="col" class="n">
                                    share
                                </th>
                            </tr>
                        </thead>
                        <tbody>
                            {top.map((row, i) => (
                                <tr key={i} data-ns={String(row.self_ns)}>
                                    <th scope="row">
                                        <button
                                            type="button"
                                            class="pick"
                                            onClick={() =>
                                                store.set({
                                                    view: "where",
                                                    table: "where",
                                                    selection: { kind: "thing", thing: boot.facts!.things[i] ?? 0, name: row.name },
                                                })
                                            }
                                        >
                                            {row.name}
                                        </button>
                                    </th>
                                    <td class="n" title={row.first_calls_only ? FIRST_CALLS : undefined}>
                                        {ofRow(whole(row.self_ns), unit, row)}
                                    </td>
                                    <td class="n">
                                        <span
                                            class="bar"
                                            style={{ width: `${Math.min((row.share ?? 0) * 100, 100)}px` }}
                                            aria-hidden="true"
                                        />
                                        {percent(row.share ?? 0)}
                                    </td>
                                </tr>
                            ))}
                        </tbody>
                        <tfoot>
                            {summary.where.length > top.length ? (
                                <Sum
                                    store={store}
                                    label="everything else"
                                    time={difference(whole(summary.total_ns), sumOf(top.map(row => whole(row.self_ns))))}
                                />
                            ) : null}
                            {top.length > 0 ? <Sum store={store} label="total" time={whole(summary.total_ns)} /> : null}
                        </tfoot>
                    </table>
                    {summary.where.length > top.length ? (
                        <p class="faint">
                            <button type="button" class="link" onClick={() => store.set({ view: "where", table: "where" })}>
                                all {summary.where.length} rows
                            </button>
                        </p>
                    ) : null}
                </section>
                {summary.diagnostics.length + summary.notes.length > 0 ? (
                    <section>
                        <h2>How sure this is</h2>
                        <ul class="list">
                            {summary.diagnostics.map(({ severity, text }, i) => (
                                <li key={i}>
                                    {text} <span class="faint">({severity})</span>
                                </li>
                            ))}
                            {summary.notes.map((text, i) => (
                                <li key={`note ${i}`}>{text}</li>
                            ))}
                        </ul>
                    </section>
                ) : null}
            </div>
        </div>
    );
}
