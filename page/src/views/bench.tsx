// A bench: the spread of its boots, the differences between its variants, and the growth of a swept boot.
import { useMemo, useRef } from "preact/hooks";
import { paintGrowth, text } from "../charts/bench";
import type { Palette } from "../charts/colours";
import { type Against, at, type Bench, type Comparison, dots, type Growth, type Slice, titleOf } from "../data/bench";
import { counted, percent, type Unit } from "../lib/time";
import type { BenchView, Store } from "../state";
import { figure, range, unitOf, useFilter } from "./bench-text";
import { Canvas } from "./canvas";
import { Spread } from "./spread";
import { type Column, Table } from "./table";

/** The views of a bench. A single variant has no comparison, and a bench without a swept number has no growth. */
export function viewsOf(bench: Bench): readonly [BenchView, string][] {
    const { comparisons, laws } = bench.results;
    const all: [BenchView, string][] = [["spread", "Spread"]];
    if (comparisons.length > 0) all.push(["against", "Compare"]);
    if (laws.length > 0) all.push(["sweep", "Sweep"]);
    return all;
}

export function BenchViews({ store, bench, palette }: { store: Store; bench: Bench; palette: Palette }) {
    const view = viewsOf(bench).find(([id]) => id === store.state.bench.view)?.[0] ?? "spread";
    if (view === "sweep") return <Sweep store={store} bench={bench} palette={palette} />;
    return view === "against" ? <Compared store={store} bench={bench} /> : <Spread store={store} bench={bench} palette={palette} />;
}

/** The words of a comparison's verdict, so that it never depends on colour alone. */
const CHANGES: Readonly<Record<string, string>> = {
    less: "▼ less",
    more: "▲ more",
    "no-difference": "no difference",
    "too-noisy": "too noisy to tell",
    "too-few": "too few boots",
};

/** The verdict on a comparison of totals, and why there is none. */
function verdictOf(against: Against): string {
    if (against.uncountable?.length)
        return `no verdict: ${against.uncountable.join(" ")} changes what an instruction costs, and these boots count instructions`;
    const { change, p_corrected, ratio } = against.total!;
    const matters = change === "no-difference" && p_corrected !== null && p_corrected <= 0.05;
    return matters
        ? `no difference that matters (${signedPercent((ratio?.estimate ?? 1) - 1)}, p = ${p_corrected.toPrecision(2)})`
        : (CHANGES[change] ?? change);
}

const signedPercent = (share: number): string => `${share < 0 ? "−" : "+"}${percent(Math.abs(share))}`;

interface Difference {
    readonly kind: string;
    readonly name: string;
    readonly by: Comparison;
}

function Compared({ store, bench }: { store: Store; bench: Bench }) {
    const { state } = store;
    const unit = unitOf(bench);
    const { comparisons, variants } = bench.results;
    const against = comparisons.find((one: Against) => one.variant === state.bench.variant) ?? comparisons[0]!;
    const lost = against.not_comparable;
    const set = (change: Partial<typeof state.bench>): void => store.set({ bench: { ...store.state.bench, ...change } });
    const { filter, input } = useFilter(store);
    const all = useMemo(
        (): Difference[] => [
            ...(against.total ? [{ kind: "total", name: "total", by: against.total }] : []),
            ...against.phases.map(one => ({ kind: "phase", ...one })),
            ...against.rows.map(one => ({ kind: "row", ...one })),
        ],
        [against],
    );
    const rows = useMemo(() => (filter ? all.filter(row => filter.test(row.name)) : all), [all, filter?.source]);
    const columns = useMemo(
        (): readonly Column<Difference>[] => [
            { name: "what", key: row => row.name, show: row => row.name },
            { name: "kind", key: row => row.kind, show: row => row.kind, width: "5em" },
            {
                name: "difference",
                key: row => Math.abs(row.by.difference.estimate),
                show: row => figure(row.by.difference.estimate, unit),
                isNumber: true,
                width: "8em",
            },
            {
                name: "interval",
                key: row => row.by.difference.high - row.by.difference.low,
                show: row => range(row.by.difference, unit),
                isNumber: true,
                width: "14em",
                isSpare: true,
            },
            {
                name: "ratio",
                key: row => row.by.ratio?.estimate ?? 0,
                show: row => row.by.ratio?.estimate.toFixed(4) ?? "",
                isNumber: true,
                width: "8em",
            },
            {
                name: "p, corrected",
                key: row => -(row.by.p_corrected ?? 2),
                show: row => (row.by.p_corrected === null ? "" : row.by.p_corrected.toPrecision(2)),
                isNumber: true,
                width: "8em",
            },
            { name: "verdict", key: row => row.by.change, show: row => CHANGES[row.by.change] ?? row.by.change, width: "10em" },
        ],
        [unit],
    );
    store.target = {
        rows: () => [
            ["kind", "name", "difference_ns", "low_ns", "high_ns", "ratio", "p_corrected", "change"],
            ...rows.map(({ kind, name, by }) => [
                kind,
                name,
                by.difference.estimate,
                by.difference.low,
                by.difference.high,
                by.ratio?.estimate ?? "",
                by.p_corrected ?? "",
                by.change,
            ]),
        ],
    };
    return (
        <div class="bench">
            <div class="tools">
                <label>
                    variant{" "}
                    <select id="variant" value={against.variant} onChange={event => set({ variant: Number(event.currentTarget.value) })}>
                        {comparisons.map(one => (
                            <option key={one.variant} value={one.variant}>
                                {variants[one.variant]?.name}
                            </option>
                        ))}
                    </select>
                </label>
                <span>against {variants[0]?.name}</span>
                {input}
                <output id="change" data-ns={against.total?.difference.estimate ?? ""}>
                    {against.total
                        ? `${text(against.total.difference.estimate, unit)}: ${verdictOf(against)}`
                        : "no round has a boot of both that reached its end mark"}
                </output>
            </div>
            <div class="sheet">
                <Table label="Differences" rows={rows} columns={columns} />
                <output class="sum">
                    {counted(rows.length, "row")}
                    {lost
                        ? `; not comparable: ${variants[lost.without_trace]?.name} has no trace (${counted(lost.phases, "phase")}, ${counted(lost.rows, "row")})`
                        : ""}
                </output>
            </div>
        </div>
    );
}

/**
 * The model in words, as in crates/report/src/bench/scaling.rs: `41.0 ms per AP`, `1.20 s + 35.0 ms per CPU`; the factor's
 * interval follows.
 */
function lawOf(row: Growth, slice: Slice, unit: Unit): string {
    if (row.law === "constant") return `${text(row.base, unit)}, not seen to grow`;
    const ofAps = row.from_one && slice.unit === "CPU" && row.law === "n";
    const per = ofAps ? " per AP" : row.law === "n" ? (slice.unit ? ` per ${slice.unit}` : " · n") : ` · ${row.law}`;
    const error = row.slope_error === null ? "" : ` (±${text(row.slope_error, unit)})`;
    const step = `${text(Math.abs(row.slope), unit)}${per}${error}`;
    return ofAps && row.slope >= 0 ? step : `${text(row.base, unit)} ${row.slope < 0 ? "−" : "+"} ${step}`;
}

function Sweep({ store, bench, palette }: { store: Store; bench: Bench; palette: Palette }) {
    const { state } = store;
    const unit = unitOf(bench);
    const { laws } = bench.results;
    const slice = laws[state.bench.slice] ?? laws[0]!;
    const row = slice.rows.find(one => one.name === state.bench.row) ?? slice.rows[0];
    const size = useRef({ width: 800, height: 300 });
    const { filter, input } = useFilter(store);
    const set = (change: Partial<typeof state.bench>): void => store.set({ bench: { ...store.state.bench, ...change } });
    const rows = useMemo(() => (filter ? slice.rows.filter(one => filter.test(one.name)) : slice.rows), [slice, filter?.source]);
    const measured = useMemo(() => (row ? dots(bench, slice, row) : []), [bench, slice, row]);
    const columns = useMemo(
        (): readonly Column<Growth>[] => [
            { name: "row", key: one => one.name, show: one => one.name },
            { name: "grows as", key: one => one.slope, show: one => lawOf(one, slice, unit), isNumber: true, width: "26em" },
            ...(slice.rows[0]?.predicted ?? []).map(
                (predicted, i): Column<Growth> => ({
                    name: `at ${predicted.size}${slice.unit ? ` ${slice.unit}` : ""}`,
                    isNumber: true,
                    width: "13em",
                    key: one => one.predicted[i]?.time ?? 0,
                    show: one => {
                        const there = one.predicted[i];
                        return there ? (
                            <span data-ns={there.time}>
                                {text(there.time, unit)}
                                {there.band === null ? "" : ` ±${text(there.band, unit)}`}
                            </span>
                        ) : (
                            ""
                        );
                    },
                }),
            ),
        ],
        [slice, unit],
    );
    const paint = (on: Parameters<typeof paintGrowth>[5], width: number, height: number): void => {
        if (row) paintGrowth(row, measured, slice.unit, unit, palette, on, width, height);
    };
    store.target = {
        draw: { ...size.current, on: surface => paint(surface, size.current.width, size.current.height) },
        rows: () => [
            ["row", "law", "base_ns", "slope_ns", "slope_error_ns", "size", "kind", "time_ns", "band_ns"],
            ...rows.flatMap(one => [
                ...one.points.map(point => [
                    one.name,
                    one.law,
                    one.base,
                    one.slope,
                    one.slope_error ?? "",
                    point.size,
                    "measured",
                    point.mean,
                    "",
                ]),
                ...one.predicted.map(point => [
                    one.name,
                    one.law,
                    one.base,
                    one.slope,
                    one.slope_error ?? "",
                    point.size,
                    "predicted",
                    point.time,
                    point.band ?? "",
                ]),
            ]),
        ],
    };
    if (!row) return <p class="note">Nothing was measured along {titleOf(slice)}.</p>;
    return (
        <div class="bench">
            <div class="tools">
                <label>
                    growing with{" "}
                    <select id="slice" value={laws.indexOf(slice)} onChange={event => set({ slice: Number(event.currentTarget.value) })}>
                        {laws.map((one, i) => (
                            <option key={i} value={i}>
                                {titleOf(one)}
                            </option>
                        ))}
                    </select>
                </label>
                {input}
                <output id="law" data-row={row.name}>
                    {row.name}: {lawOf(row, slice, unit)}
                </output>
            </div>
            <div class="growth">
                <Canvas
                    label={`${row.name} by ${titleOf(slice)}: each boot a dot, each size's mean a bar, the model a line; dashes and squares are predictions. The table below has the figures.`}
                    contentHeight={0}
                    draw={(on, width, height) => {
                        size.current = { width, height };
                        paint(on, width, height);
                    }}
                />
                <div class="points" tabIndex={0} role="region" aria-label={`Points of ${row.name}`}>
                    <table class="plain" id="points">
                        <caption class="unseen">Points of {row.name}</caption>
                        <thead>
                            <tr>
                                <th scope="col">size</th>
                                <th scope="col" class="n">
                                    mean
                                </th>
                                <th scope="col" class="n">
                                    model
                                </th>
                                <th scope="col" class="n">
                                    boots
                                </th>
                            </tr>
                        </thead>
                        <tbody>
                            {row.points.map(point => (
                                <tr key={point.size}>
                                    <th scope="row">
                                        {point.size} {slice.unit}
                                    </th>
                                    <td class="n">{figure(point.mean, unit)}</td>
                                    <td class="n">{figure(at(row, point.size), unit)}</td>
                                    <td class="n">{point.boots}</td>
                                </tr>
                            ))}
                            {row.predicted.map(one => (
                                <tr key={`p${one.size}`}>
                                    <th scope="row">
                                        {one.size} {slice.unit} (predicted)
                                    </th>
                                    <td class="n">–</td>
                                    <td class="n">
                                        {text(one.time, unit)}
                                        {one.band === null ? "" : ` ±${text(one.band, unit)}`}
                                    </td>
                                    <td class="n">0</td>
                                </tr>
                            ))}
                        </tbody>
                    </table>
                </div>
            </div>
            <div class="sheet">
                <Table
                    label="How rows grow"
                    rows={rows}
                    columns={columns}
                    onPick={one => set({ row: one.name })}
                    isPicked={one => one === row}
                />
                <output class="sum">
                    {counted(rows.length, "row")}; {slice.level} more are not seen to grow
                </output>
            </div>
        </div>
    );
}
