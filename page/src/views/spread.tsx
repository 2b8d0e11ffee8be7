// The spread of a bench's boots: a dot for each, the median boots of the variants, and the phases and rows with their intervals.
import { useMemo, useRef } from "preact/hooks";
import { heightOfSpread, LINE, paintSpread } from "../charts/bench";
import type { Palette } from "../charts/colours";
import type { Bench, BenchBoot, Interval, RowRuns } from "../data/bench";
import type { Boot } from "../data/boot";
import { counted } from "../lib/time";
import type { Store } from "../state";
import { figure, MAX_ROWS, range, unitOf, useFilter } from "./bench-text";
import { BootsOnOneAxis } from "./boots";
import { Canvas } from "./canvas";
import { Choice } from "./choice";
import { type Column, Table } from "./table";

interface Spreading {
    readonly name: string;
    readonly seen: number;
    readonly median: Interval;
    readonly mean: number;
    readonly sd: number | null;
    readonly least: number | null;
    readonly most: number | null;
}

export function Spread({ store, bench, palette }: { store: Store; bench: Bench; palette: Palette }) {
    const { state } = store;
    const unit = unitOf(bench);
    const width = useRef(800);
    const { variants } = bench.results;
    const picked = Math.min(Math.max(state.bench.variant, 0), variants.length - 1);
    const variant = variants[picked];
    const { filter, input } = useFilter(store);
    const { table } = state.bench;
    const set = (change: Partial<typeof state.bench>): void => store.set({ bench: { ...store.state.bench, ...change } });
    const spread = useMemo((): Spreading[] => {
        if (!variant) return [];
        if (table === "rows") return variant.rows.map((row: RowRuns) => ({ ...row, least: null, most: null }));
        const whole = variant.total ? [{ name: "total", length: variant.total }] : [];
        return [...variant.phases, ...whole].map(({ name, length }) => ({
            name,
            seen: length.count,
            median: length.median,
            mean: length.mean,
            sd: length.sd,
            least: length.min,
            most: length.max,
        }));
    }, [variant, table]);
    const rows = useMemo(() => (filter ? spread.filter(row => filter.test(row.name)) : spread), [spread, filter?.source]);
    const boots = useMemo(() => bench.boots.filter(boot => boot.variant === picked), [bench, picked]);
    const columns = useMemo(
        (): readonly Column<Spreading>[] => [
            { name: table === "rows" ? "row" : "phase", key: row => row.name, show: row => row.name },
            {
                name: "median",
                key: row => row.median.estimate,
                show: row => figure(row.median.estimate, unit),
                isNumber: true,
                width: "8em",
            },
            {
                name: "interval",
                key: row => row.median.high - row.median.low,
                show: row => range(row.median, unit),
                isNumber: true,
                width: "13em",
            },
            { name: "mean", key: row => row.mean, show: row => figure(row.mean, unit), isNumber: true, width: "8em" },
            { name: "sd", key: row => row.sd ?? -1, show: row => figure(row.sd, unit), isNumber: true, width: "8em" },
            ...(table === "rows"
                ? []
                : [
                      {
                          name: "least",
                          key: (row: Spreading) => row.least ?? 0,
                          show: (row: Spreading) => figure(row.least, unit),
                          isNumber: true,
                          width: "8em",
                      },
                      {
                          name: "most",
                          key: (row: Spreading) => row.most ?? 0,
                          show: (row: Spreading) => figure(row.most, unit),
                          isNumber: true,
                          width: "8em",
                      },
                  ]),
            { name: "boots", key: row => row.seen, show: row => String(row.seen), isNumber: true, width: "5em" },
        ],
        [table, unit],
    );
    const ofBoots = useMemo(
        (): readonly Column<BenchBoot>[] => [
            { name: "boot", key: boot => -boot.number, show: boot => String(boot.number) },
            {
                name: "round",
                key: boot => boot.round ?? -1,
                show: boot => (boot.round === null ? "to warm up" : String(boot.round)),
                width: "8em",
            },
            { name: "ended", key: boot => boot.outcome, show: boot => boot.outcome, width: "10em" },
            {
                name: "total",
                key: boot => Number(boot.total_ns ?? -1),
                show: boot => (boot.total_ns === null ? "" : figure(Number(boot.total_ns), unit)),
                isNumber: true,
                width: "9em",
            },
        ],
        [unit],
    );
    const draw = {
        width: width.current,
        height: heightOfSpread(bench),
        on: (surface: Parameters<typeof paintSpread>[4]) => paintSpread(bench, unit, picked, palette, surface, width.current),
    };
    store.target = {
        draw,
        rows: () =>
            table === "boots"
                ? [
                      ["boot", "round", "outcome", "total_ns"],
                      ...boots.map(boot => [boot.number, boot.round ?? "", boot.outcome, String(boot.total_ns ?? "")]),
                  ]
                : [
                      ["name", "median_ns", "low_ns", "high_ns", "mean_ns", "sd_ns", "boots"],
                      ...rows.map(row => [
                          row.name,
                          row.median.estimate,
                          row.median.low,
                          row.median.high,
                          row.mean,
                          row.sd ?? "",
                          row.seen,
                      ]),
                  ],
    };
    return (
        <div class="bench">
            <div class="dots" style={{ height: `min(45%, ${heightOfSpread(bench)}px)` }}>
                <Canvas
                    label={`Every boot of ${counted(variants.length, "variant")}: a dot each, the middle half in a box, the median a bar with its interval. The table below has the figures.`}
                    contentHeight={heightOfSpread(bench)}
                    draw={(on, w, _h, scroll) => {
                        width.current = w;
                        paintScrolled(on, scroll, surface => paintSpread(bench, unit, picked, palette, surface, w));
                    }}
                    onPointer={(kind, event, _x, y) => {
                        const scroll = (event.currentTarget as HTMLElement | null)?.scrollTop ?? 0;
                        const line = Math.floor((y + scroll - 22) / LINE);
                        if (kind === "up" && line >= 0 && line < variants.length) set({ variant: line });
                    }}
                />
            </div>
            <Medians store={store} bench={bench} palette={palette} />
            <div class="tools">
                <label>
                    variant{" "}
                    <select id="variant" value={picked} onChange={event => set({ variant: Number(event.currentTarget.value) })}>
                        {variants.map((one, i) => (
                            <option key={i} value={i}>
                                {one.name}
                            </option>
                        ))}
                    </select>
                </label>
                <Choice
                    label="table"
                    all={
                        [
                            ["phases", "Phases"],
                            ["rows", "Rows"],
                            ["boots", "Boots"],
                        ] as const
                    }
                    is={table}
                    pick={one => set({ table: one })}
                />
                {table === "boots" ? null : input}
                <output id="ended">
                    {Object.entries(variant?.outcomes ?? {})
                        .map(([how, count]) => `${counted(count, "boot")} ${how}`)
                        .join(", ")}
                </output>
            </div>
            <div class="sheet">
                {table === "boots" ? (
                    <Table label="Boots" rows={boots} columns={ofBoots} key="boots" />
                ) : (
                    <Table label={`Spread of ${table}`} rows={rows} columns={columns} key={table} />
                )}
                <output class="sum">
                    {table === "boots" ? counted(boots.length, "boot") : counted(rows.length, "row")}
                    {table === "rows" && (variant?.rows.length ?? 0) >= MAX_ROWS ? `: the largest ${MAX_ROWS}` : ""}
                </output>
            </div>
        </div>
    );
}

/** The median boots of the variants on one axis, if the bench kept their recordings. */
function Medians({ store, bench, palette }: { store: Store; bench: Bench; palette: Palette }) {
    const medians = store.boots.filter(boot => boot.facts && boot.stays.length > 0);
    if (medians.length === 0) return null;
    const nameOf = (boot: Boot): string => {
        const number = Number(boot.facts!.name);
        const of = bench.boots.find(one => one.number === number)?.variant ?? -1;
        return `median: ${bench.results.variants[of]?.name ?? ""} [${number}]`;
    };
    return (
        <div class="medians" data-medians={medians.length}>
            <BootsOnOneAxis boots={medians} compared={medians} palette={palette} nameOf={nameOf} />
        </div>
    );
}

/** Draws a picture that is higher than its place. The canvas is moved by the scrolled distance. */
function paintScrolled(
    on: Parameters<typeof paintSpread>[4],
    scroll: number,
    paint: (on: Parameters<typeof paintSpread>[4]) => void,
): void {
    if (scroll === 0 || !("translate" in on)) return paint(on);
    const context = on as unknown as CanvasRenderingContext2D;
    context.save();
    context.translate(0, -scroll);
    paint(on);
    context.restore();
}
