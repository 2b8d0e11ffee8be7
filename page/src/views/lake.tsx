// A lake: the length of boots of many machines over time, the rows that became slower and the boots that show it, and where to look
// next.
import { useMemo, useRef, useState } from "preact/hooks";
import type { Palette } from "../charts/colours";
import { coloursOf, dayAt, MAX_DRAWN, markAt, type OverTime, ofKind, paintOverTime, valueText } from "../charts/lake";
import {
    commandOf,
    type Group,
    groupsOf,
    keyOf,
    kindName,
    kindOf,
    type Lake,
    type LakeBoot,
    type Line,
    linesOf,
    type Missing,
    marksOf,
    meaningOf,
    type Outlier,
    type Regression,
    type Saving,
    type ScaleOf,
    type SlowRow,
} from "../data/lake";
import { counted, grouped, percent, short } from "../lib/time";
import { expression, type Store } from "../state";
import { besidePointer, Canvas, placeOf } from "./canvas";
import { Choice } from "./choice";
import { Filter } from "./filter";
import { type Column, Table } from "./table";

interface Props {
    readonly store: Store;
    readonly lake: Lake;
    readonly palette: Palette;
}

/** True if the shown view has a picture. */
export function canDraw({ state }: Store, lake: Lake): boolean {
    return state.lake.view === "time" || (state.lake.view === "regressions" && lake.regressions[state.lake.regression] !== undefined);
}

export function LakeViews(props: Props) {
    switch (props.store.state.lake.view) {
        case "regressions":
            return <Regressions {...props} />;
        case "rows":
            return <SlowRows {...props} />;
        case "machines":
            return props.store.state.lake.machines === "missing" ? (
                <Machines {...props} of="missing" key="missing" />
            ) : (
                <Machines {...props} of="outliers" key="outliers" />
            );
        case "pays":
            return <Pays {...props} />;
        default:
            return <Totals {...props} />;
    }
}

const time = (ns: number): string => short(Math.round(ns), "ns");
const figure = (ns: number) => <span data-ns={ns}>{time(ns)}</span>;

/** An interval such as `450 to 550 ms` or `900 µs to 1.10 ms`; one value if both ends look the same. */
function range(low: number, high: number): string {
    const [from, to] = [time(low), time(high)];
    const [value, unit] = from.split(" ");
    return from === to ? from : `${unit === to.split(" ")[1] ? value : from} to ${to}`;
}

/** A change such as `+5.0 %`, or `new` for a row that did not exist before. */
function change(ratio: number | null): string {
    return ratio === null ? "new" : `${ratio >= 1 ? "+" : "−"}${Math.abs((ratio - 1) * 100).toFixed(1)} %`;
}

const chance = (p: number): string => (p >= 0.001 ? p.toFixed(3) : p.toExponential(0));

function Remarks({ lake, of }: { lake: Lake; of: string }) {
    const all = lake.remarks[of] ?? [];
    return all.length > 0 ? (
        <div class="remarks">
            {all.map((remark, i) => (
                <p class="note faint" key={i}>
                    {remark.replace(/\.$/, "")}.
                </p>
            ))}
        </div>
    ) : null;
}

function useSet(store: Store): (change: Partial<Store["state"]["lake"]>) => void {
    return change => store.set({ lake: { ...store.state.lake, ...change } });
}

function Totals({ store, lake, palette }: Props) {
    const { state } = store;
    const { by, scale, figure: drawn } = state.lake;
    const set = useSet(store);
    const size = useRef({ width: 900, height: 400 });
    const kind = lake.kinds[state.lake.kind] ? state.lake.kind : undefined;
    const filter = expression(state.filter);
    const cells = lake.cells.length;
    const all = useMemo(() => linesOf(lake, { by, kind, scale }), [lake, cells, by, kind, scale]);
    const lines = useMemo(() => (filter ? all.filter(line => filter.test(line.name)) : all), [all, filter?.source]);
    const colours = useMemo(() => coloursOf(lines, palette), [lines, palette]);
    const marks = useMemo(() => marksOf(lake, kind), [lake, kind]);
    const chart: OverTime = { lake, lines, marks, scale, figure: drawn, selected: state.lake.regression };
    const columns = useMemo(
        (): readonly Column<Line>[] => [
            {
                name: by === "kernels" ? "kernel" : "kind of machine",
                key: line => line.name,
                show: line => (
                    <>
                        <span class="swatch" aria-hidden="true" style={{ background: colours[lines.indexOf(line)] ?? "transparent" }} />
                        {line.name}
                    </>
                ),
            },
            { name: "boots", key: line => line.boots, show: line => grouped(line.boots), isNumber: true, width: "8em" },
            {
                name: "not ended",
                key: line => line.notEnded,
                show: line => grouped(line.notEnded),
                isNumber: true,
                width: "8em",
                isSpare: true,
            },
            {
                name: "days",
                key: line => line.points.length,
                show: line => String(line.points.length),
                isNumber: true,
                width: "5em",
                isSpare: true,
            },
            {
                name: "median",
                key: line => line.p50 ?? 0,
                show: line => <Value value={line.p50} scale={scale} />,
                isNumber: true,
                width: "8em",
            },
            {
                name: "95 %",
                key: line => line.p95 ?? 0,
                show: line => <Value value={line.p95} scale={scale} />,
                isNumber: true,
                width: "8em",
            },
            {
                name: "first day",
                key: line => line.points[0]?.p50 ?? 0,
                show: line => valueText(line.points[0]?.p50, scale),
                isNumber: true,
                width: "8em",
                isSpare: true,
            },
            {
                name: "last day",
                key: line => line.points.at(-1)?.p50 ?? 0,
                show: line => valueText(line.points.at(-1)?.p50, scale),
                isNumber: true,
                width: "8em",
                isSpare: true,
            },
        ],
        [by, scale, lines, colours],
    );
    store.target = {
        draw: { ...size.current, on: surface => paintOverTime(chart, palette, surface, size.current.width, size.current.height) },
        rows: () => [
            [
                by === "kernels" ? "kernel" : "hardware",
                "day",
                "boots",
                "not_ended",
                scale === "own" ? "p50_share" : "p50_ns",
                scale === "own" ? "p95_share" : "p95_ns",
                "mean_of",
            ],
            ...lines.flatMap(line =>
                line.points.map(point => [
                    line.name,
                    lake.days[point.day]!,
                    point.boots,
                    point.notEnded,
                    point.p50 ?? "",
                    point.p95 ?? "",
                    point.of,
                ]),
            ),
        ],
    };
    const picked = lake.regressions[state.lake.regression];
    return (
        <div class="lake">
            <div class="tools">
                <Choice
                    label="lines"
                    all={
                        [
                            ["kernels", "By kernel"],
                            ["kinds", "By kind of machine"],
                        ] as const
                    }
                    is={by}
                    pick={by => set({ by })}
                />
                <label>
                    of{" "}
                    <select id="kind" value={kind ?? -1} onChange={event => set({ kind: Number(event.currentTarget.value) })}>
                        <option value={-1}>all kinds of machine</option>
                        {lake.kinds.map((one, i) => (
                            <option key={i} value={i}>
                                {kindName(one)}
                            </option>
                        ))}
                    </select>
                </label>
                <Choice
                    label="figure"
                    all={
                        [
                            ["both", "Both"],
                            ["p50", "Median"],
                            ["p95", "95 %"],
                        ] as const
                    }
                    is={drawn}
                    pick={figure => set({ figure })}
                />
                <Choice
                    label="scale"
                    all={
                        [
                            ["time", "Time"],
                            ["own", "Share of the kind's own"],
                        ] as const
                    }
                    is={scale}
                    pick={scale => set({ scale })}
                />
                <Filter store={store} />
            </div>
            <div class="overtime">
                <Chart chart={chart} palette={palette} size={size} onPick={regression => set({ regression })} />
            </div>
            <p class="note faint" id="meaning">
                {meaningOf(lines, scale)}
                {lines.length > MAX_DRAWN
                    ? ` Drawn are the ${MAX_DRAWN} of most boots, and the bars of others are grey. The filter chooses others.`
                    : ""}
            </p>
            {picked && (kind === undefined || kindOf(lake, picked) === kind) ? (
                <p class="note" id="picked">
                    {sentence(picked)}{" "}
                    <button type="button" class="link" onClick={() => set({ view: "regressions" })}>
                        the boots behind it
                    </button>
                </p>
            ) : null}
            <div class="sheet">
                <Table
                    label="Lines"
                    rows={lines}
                    columns={columns}
                    key={by}
                    {...(by === "kinds" ? { onPick: (line: Line) => set({ kind: line.id, by: "kernels" }) } : {})}
                />
                <output class="sum">{counted(lines.length, by === "kernels" ? "kernel" : "kind")}</output>
            </div>
            <Remarks lake={lake} of="totals" />
        </div>
    );
}

interface ChartProps {
    readonly chart: OverTime;
    readonly palette: Palette;
    /** The size of the drawing. A saved picture has the same size. */
    readonly size: { current: { width: number; height: number } };
    readonly onPick: (regression: number) => void;
}

/** The chart, which alone is redrawn while the pointer moves. */
function Chart({ chart, palette, size, onPick }: ChartProps) {
    const { lake, lines, marks, scale, selected } = chart;
    const [hovered, setHovered] = useState<{ day: number; x: number; y: number } | undefined>();
    const pick = (x: number): void => {
        const mark = markAt(chart, x, size.current.width, size.current.height);
        // Another click takes the next regression of that day.
        if (mark) onPick(mark.regressions[(mark.regressions.indexOf(selected) + 1) % mark.regressions.length]!);
    };
    return (
        <>
            <Canvas
                label={`Totals over time: ${counted(Math.min(lines.length, MAX_DRAWN), "line")}, and the boots of each day. Triangles mark ${counted(marks.length, "day")} on which something became slower. The tables have the figures.`}
                contentHeight={0}
                draw={(on, width, height) => {
                    size.current = { width, height };
                    paintOverTime({ ...chart, hovered: hovered?.day }, palette, on, width, height);
                }}
                onPointer={(event, pointer, x) => {
                    if (event === "up") pick(x);
                    const day = event === "leave" ? undefined : dayAt(lake, x, size.current.width, size.current.height);
                    setHovered(day === undefined ? undefined : { day, ...placeOf(pointer) });
                }}
            />
            {hovered ? (
                <DayTip
                    lake={lake}
                    lines={lines}
                    day={hovered.day}
                    scale={scale}
                    at={hovered}
                    marks={marks.find(mark => mark.day === hovered.day)?.regressions ?? []}
                />
            ) : null}
        </>
    );
}

function Value({ value, scale }: { value: number | undefined; scale: ScaleOf }) {
    return value === undefined ? null : <span data-ns={value}>{valueText(value, scale)}</span>;
}

/** The values of the lines on one day. */
function DayTip({
    lake,
    lines,
    day,
    scale,
    at,
    marks,
}: {
    lake: Lake;
    lines: readonly Line[];
    day: number;
    scale: ScaleOf;
    at: { x: number; y: number };
    marks: readonly number[];
}) {
    const drawn = lines.slice(0, MAX_DRAWN).flatMap(line => {
        const point = line.points.find(one => one.day === day);
        return point ? [{ line, point }] : [];
    });
    return (
        <div class="tip" style={besidePointer(at)}>
            <strong>{lake.days[day]}</strong>
            {drawn.map(({ line, point }) => (
                <div key={line.id}>
                    {line.name}:{" "}
                    {point.p50 === undefined ? "none ended" : `${valueText(point.p50, scale)}, 95 % ${valueText(point.p95, scale)}`},{" "}
                    {counted(point.boots, "boot")}
                    {point.notEnded > 0 ? `, ${grouped(point.notEnded)} not ended` : ""}
                </div>
            ))}
            {marks.length > 0 ? (
                <div>
                    ▼ slower since:{" "}
                    {marks
                        .slice(0, 3)
                        .map(i => lake.regressions[i]!.name)
                        .join(", ")}
                    {marks.length > 3 ? `, ${marks.length - 3} more` : ""}
                </div>
            ) : null}
        </div>
    );
}

/** A regression's figures as a sentence. */
function sentence(one: Regression): string {
    const by = `${time(one.slower_ns)} more (${range(one.slower_low_ns, one.slower_high_ns)}${one.ratio === null ? "" : `; ${change(one.ratio)}`})`;
    const before = one.ratio === null ? "it was not there" : `it took ${time(one.before_ns)}`;
    return `${one.name} takes ${time(one.after_ns)} of a boot since ${one.since}, with ${one.kernel || "a kernel not known"} on ${kindName(one)}. Before, ${before}: ${by}.`;
}

/** A line of the table: a group of regressions, or one of them. */
interface Shown {
    readonly group: Group;
    /** `undefined` means the whole group. */
    readonly place: number | undefined;
    readonly one: Regression | undefined;
}

function Regressions({ store, lake, palette }: Props) {
    const { state } = store;
    const set = useSet(store);
    const { regression } = state.lake;
    const picked = lake.regressions[regression];
    const filter = expression(state.filter);
    // A link to a regression opens its group.
    const [open, setOpen] = useState<ReadonlySet<string>>(() => new Set(picked ? [keyOf(picked)] : []));
    const groups = useMemo(
        () => groupsOf(lake, one => !filter || [one.name, kindName(one), one.kernel].some(text => filter.test(text))),
        [lake, filter?.source],
    );
    const isOpen = (group: Group): boolean => open.has(group.key);
    const rows = groups.flatMap((group): Shown[] => {
        const member = (place: number): Shown => ({ group, place, one: lake.regressions[place]! });
        if (group.members.length === 1) return [member(group.members[0]!)];
        return [{ group, place: undefined, one: undefined }, ...(isOpen(group) ? group.members.map(member) : [])];
    });
    const columns = useMemo((): readonly Column<Shown>[] => columnsOfRegressions(open), [open]);
    const shown = groups.flatMap(group => group.members);
    store.target = {
        rows: () => [
            [
                "row",
                "hardware",
                "time_base",
                "kernel",
                "since",
                "before_ns",
                "after_ns",
                "slower_ns",
                "slower_low_ns",
                "slower_high_ns",
                "ratio",
                "p",
                "boots_before",
                "boots_after",
                "per_day_ns",
            ],
            ...shown
                .map(i => lake.regressions[i]!)
                .map(one => [
                    one.name,
                    one.hardware,
                    one.time_base,
                    one.kernel,
                    one.since,
                    one.before_ns,
                    one.after_ns,
                    one.slower_ns,
                    one.slower_low_ns,
                    one.slower_high_ns,
                    one.ratio ?? "",
                    one.p,
                    one.boots_before,
                    one.boots_after,
                    one.per_day_ns,
                ]),
        ],
    };
    const onPick = ({ group, place }: Shown): void => {
        if (place !== undefined) return set({ regression: place });
        const next = new Set(open);
        if (!next.delete(group.key)) next.add(group.key);
        setOpen(next);
        // An opened group selects its most expensive member.
        if (next.has(group.key) && !group.members.includes(regression)) set({ regression: group.members[0]! });
    };
    return (
        <div class="lake">
            <div class="tools">
                <Filter store={store} />
                <output id="regressions">
                    {counted(shown.length, "regression")}
                    {groups.length < shown.length ? "; the same row and kernel on several kinds of machine is one line" : ""}
                </output>
                {picked ? (
                    <button type="button" onClick={() => set({ regression: -1 })}>
                        close what is selected
                    </button>
                ) : null}
            </div>
            <div class="sheet">
                {lake.regressions.length === 0 ? (
                    <p class="note">Nothing became slower that these boots are enough to see.</p>
                ) : (
                    <Table
                        label="Regressions"
                        rows={rows}
                        columns={columns}
                        onPick={onPick}
                        isPicked={row => row.place !== undefined && row.place === regression}
                    />
                )}
            </div>
            {picked ? <Picked store={store} lake={lake} palette={palette} picked={picked} key={regression} /> : null}
            <Remarks lake={lake} of="regressions" />
        </div>
    );
}

/** The columns. A group is sorted by its own figures. Its members have the same keys, so they stay below it. */
function columnsOfRegressions(open: ReadonlySet<string>): readonly Column<Shown>[] {
    const kinds = ({ group }: Shown): string => (group.members.length === 1 ? kindName(group.most) : `on ${group.members.length} kinds`);
    return [
        {
            name: "row",
            key: row => row.group.name,
            show: ({ group, one }) =>
                one === undefined ? (
                    <>
                        <span aria-hidden="true">{open.has(group.key) ? "▾ " : "▸ "}</span>
                        {group.name}
                    </>
                ) : (
                    <span class={group.members.length > 1 ? "member" : ""}>{one.name}</span>
                ),
        },
        { name: "hardware", key: kinds, show: row => (row.one === undefined ? kinds(row) : kindName(row.one)), width: "12em" },
        { name: "kernel", key: row => row.group.kernel, show: row => row.group.kernel, width: "13em" },
        { name: "since", key: row => row.group.since, show: row => row.one?.since ?? row.group.since, width: "8em" },
        {
            name: "before",
            key: row => row.group.most.before_ns,
            show: row => (row.one ? figure(row.one.before_ns) : ""),
            isNumber: true,
            width: "8em",
            isSpare: true,
        },
        {
            name: "after",
            key: row => row.group.most.after_ns,
            show: row => (row.one ? figure(row.one.after_ns) : ""),
            isNumber: true,
            width: "8em",
            isSpare: true,
        },
        {
            name: "slower by",
            key: row => row.group.most.slower_ns,
            show: ({ one, group }) => (one ? figure(one.slower_ns) : range(group.least.slower_ns, group.most.slower_ns)),
            isNumber: true,
            width: "10.5em",
        },
        {
            name: "interval",
            key: row => row.group.most.slower_high_ns - row.group.most.slower_low_ns,
            show: ({ one }) => (one ? range(one.slower_low_ns, one.slower_high_ns) : ""),
            isNumber: true,
            width: "10em",
            isSpare: true,
        },
        {
            name: "change",
            key: row => row.group.mostChanged.ratio ?? Infinity,
            show: ({ one, group }) => (one ? change(one.ratio) : `≤ ${change(group.mostChanged.ratio)}`),
            isNumber: true,
            width: "8em",
        },
        {
            name: "p",
            key: row => -row.group.p,
            show: ({ one, group }) => (one ? chance(one.p) : `≤ ${chance(group.p)}`),
            isNumber: true,
            width: "5.5em",
        },
        {
            name: "boots before",
            key: row => row.group.boots_before,
            show: row => grouped((row.one ?? row.group).boots_before),
            isNumber: true,
            width: "8em",
            isSpare: true,
        },
        {
            name: "after it",
            key: row => row.group.boots_after,
            show: row => grouped((row.one ?? row.group).boots_after),
            isNumber: true,
            width: "8em",
            isSpare: true,
        },
        {
            name: "costs a day",
            key: row => row.group.perDay,
            show: row => figure(row.one?.per_day_ns ?? row.group.perDay),
            isNumber: true,
            width: "8em",
        },
    ];
}

/** The selected regression: its numbers, its kind over time, and the boots behind it. */
function Picked({ store, lake, palette, picked }: Props & { picked: Regression }) {
    const set = useSet(store);
    const size = useRef({ width: 500, height: 240 });
    const kind = kindOf(lake, picked);
    const lines = useMemo(
        () => (kind === undefined ? [] : linesOf(lake, { by: "kernels", kind, scale: "time" })),
        [lake, kind, lake.cells.length],
    );
    const chart = kind === undefined ? undefined : ofKind(lake, kind, lines, store.state.lake.regression);
    const [place, setPlace] = useState(0);
    const boot = picked.boots[place] ?? picked.boots[0];
    const command = boot && commandOf(lake, boot);
    if (chart)
        store.target.draw = {
            ...size.current,
            on: surface => paintOverTime(chart, palette, surface, size.current.width, size.current.height),
        };
    const columns = useMemo(
        (): readonly Column<LakeBoot>[] => [
            { name: "boot", key: one => one.boot_id, show: one => <code>{one.boot_id}</code> },
            { name: "day", key: one => one.day, show: one => one.day, width: "8em" },
            { name: "machine", key: one => one.machine, show: one => one.machine || "not known", width: "11em", isSpare: true },
            {
                name: "total",
                key: one => one.total_ns ?? -1,
                show: one => (one.total_ns === null ? "" : figure(one.total_ns)),
                isNumber: true,
                width: "8em",
            },
            {
                name: "the row",
                key: one => one.self_ns ?? -1,
                show: one => (one.self_ns === null ? "" : figure(one.self_ns)),
                isNumber: true,
                width: "8em",
            },
        ],
        [picked],
    );
    return (
        <section class="picked-regression" aria-label={`Regression of ${picked.name}`}>
            <p class="note" id="sentence">
                {sentence(picked)} That is {time(picked.per_day_ns)} a day over all boots of such machines. It rests on{" "}
                {counted(picked.boots_before, "boot")} before and {grouped(picked.boots_after)} since. Without a change, a difference of
                this size appears somewhere in the lake with p = {chance(picked.p)}.
            </p>
            <div class="split">
                <div class="sheet">
                    {chart ? (
                        <Canvas
                            label={`Totals of ${kindName(picked)} over time, by kernel, and where the regression begins.`}
                            contentHeight={0}
                            draw={(on, width, height) => {
                                size.current = { width, height };
                                paintOverTime(chart, palette, on, width, height);
                            }}
                        />
                    ) : (
                        <p class="note">The page has no totals of {kindName(picked)}.</p>
                    )}
                    {kind === undefined ? null : (
                        <output class="sum">
                            <button type="button" class="link" onClick={() => set({ view: "time", kind, by: "kernels" })}>
                                this kind over time
                            </button>
                        </output>
                    )}
                </div>
                <div class="sheet">
                    {picked.boots.length === 0 ? (
                        <p class="note">No boot of it is listed.</p>
                    ) : (
                        <Table
                            label="Boots behind it"
                            rows={picked.boots}
                            columns={columns}
                            onPick={one => setPlace(picked.boots.indexOf(one))}
                            isPicked={one => one === boot}
                        />
                    )}
                    {boot ? (
                        <div class="tools copies">
                            <Copy text={boot.boot_id} what="the boot's id" />
                            {command ? (
                                <>
                                    <Copy text={command} what="the command for its machine" />
                                    <code id="command">{command}</code>
                                </>
                            ) : (
                                <span class="faint">The lake does not know its machine.</span>
                            )}
                        </div>
                    ) : null}
                </div>
            </div>
        </section>
    );
}

function Copy({ text, what }: { text: string; what: string }) {
    const [copied, setCopied] = useState("");
    const copy = (): void =>
        void navigator.clipboard?.writeText(text).then(
            () => setCopied(text),
            () => setCopied(""),
        );
    return (
        <button type="button" title={text} onClick={copy}>
            {copied === text ? "copied: " : "copy "}
            {what}
        </button>
    );
}

/** A table of a view that has nothing else. */
function List<T>({
    store,
    lake,
    rows,
    columns,
    label,
    thing,
    remarks,
    empty,
    texts,
    head,
    cells,
    children,
}: {
    store: Store;
    lake: Lake;
    rows: readonly T[];
    columns: readonly Column<T>[];
    label: string;
    thing: string;
    remarks: string;
    empty: string;
    texts: (row: T) => readonly string[];
    head: readonly string[];
    cells: (row: T) => readonly (string | number)[];
    children?: preact.ComponentChildren;
}) {
    const filter = expression(store.state.filter);
    const wanted = useMemo(() => (filter ? rows.filter(row => texts(row).some(text => filter.test(text))) : rows), [rows, filter?.source]);
    store.target = { rows: () => [head, ...wanted.map(cells)] };
    return (
        <div class="lake">
            <div class="tools">
                {children}
                <Filter store={store} />
            </div>
            <div class="sheet">
                {rows.length === 0 ? <p class="note">{empty}</p> : <Table label={label} rows={wanted} columns={columns} />}
                <output class="sum">{counted(wanted.length, thing)}</output>
            </div>
            <Remarks lake={lake} of={remarks} />
        </div>
    );
}

const SLOW_ROWS: readonly Column<SlowRow>[] = [
    { name: "row", key: row => row.name, show: row => row.name },
    {
        name: "share",
        key: row => row.share,
        show: row => (
            <>
                <span class="bar" style={{ width: `${Math.max(Math.min(row.share, 1), 0) * 6}em` }} />
                {percent(row.share)}
            </>
        ),
        isNumber: true,
        width: "12em",
    },
    { name: "a boot", key: row => row.mean_ns, show: row => figure(row.mean_ns), isNumber: true, width: "8em" },
    {
        name: "interval",
        key: row => (row.mean_high_ns ?? 0) - (row.mean_low_ns ?? 0),
        show: row => (row.mean_low_ns === null || row.mean_high_ns === null ? "–" : range(row.mean_low_ns, row.mean_high_ns)),
        isNumber: true,
        width: "13em",
        isSpare: true,
    },
    { name: "boots with it", key: row => row.boots_with_it, show: row => grouped(row.boots_with_it), isNumber: true, width: "8em" },
    { name: "of boots", key: row => row.boots, show: row => grouped(row.boots), isNumber: true, width: "8em", isSpare: true },
];

function SlowRows({ store, lake }: Props) {
    return (
        <List
            store={store}
            lake={lake}
            rows={lake.slowest_rows}
            columns={SLOW_ROWS}
            label="Where the time goes"
            thing="row"
            remarks="slowest_rows"
            empty="The lake has no rows."
            texts={row => [row.name]}
            head={["row", "mean_ns", "mean_low_ns", "mean_high_ns", "share", "boots_with_it", "boots"]}
            cells={row => [row.name, row.mean_ns, row.mean_low_ns ?? "", row.mean_high_ns ?? "", row.share, row.boots_with_it, row.boots]}
        />
    );
}

const OUTLIERS: readonly Column<Outlier>[] = [
    { name: "machine", key: row => row.machine, show: row => row.machine || "not known" },
    { name: "hardware", key: kindName, show: kindName, width: "15em" },
    { name: "row", key: row => row.name, show: row => row.name, width: "14em" },
    { name: "its mean", key: row => row.mean_ns, show: row => figure(row.mean_ns), isNumber: true, width: "8em" },
    { name: "the others'", key: row => row.others_ns, show: row => figure(row.others_ns), isNumber: true, width: "8em" },
    { name: "slower by", key: row => row.slower_ns, show: row => figure(row.slower_ns), isNumber: true, width: "8em" },
    { name: "change", key: row => row.ratio ?? Infinity, show: row => change(row.ratio), isNumber: true, width: "8em" },
    { name: "p", key: row => -row.p, show: row => chance(row.p), isNumber: true, width: "5em" },
    { name: "boots", key: row => row.boots, show: row => grouped(row.boots), isNumber: true, width: "5em", isSpare: true },
    { name: "machines like it", key: row => row.machines, show: row => grouped(row.machines), isNumber: true, width: "9em", isSpare: true },
];

const MISSING: readonly Column<Missing>[] = [
    { name: "machine", key: row => row.machine, show: row => row.machine || "not known" },
    { name: "hardware", key: row => row.hardware, show: row => row.hardware || "kind not known", width: "15em" },
    { name: "kernel", key: row => row.kernel, show: row => row.kernel, width: "12em", isSpare: true },
    { name: "last boot", key: row => row.last, show: row => row.last, width: "8em" },
    { name: "days silent", key: row => row.silent_days, show: row => row.silent_days.toFixed(1), isNumber: true, width: "8em" },
    { name: "usual days", key: row => row.usual_days, show: row => row.usual_days.toFixed(1), isNumber: true, width: "8em" },
    { name: "p", key: row => -row.p, show: row => chance(row.p), isNumber: true, width: "8em" },
    { name: "boots", key: row => row.boots, show: row => grouped(row.boots), isNumber: true, width: "8em", isSpare: true },
];

function Machines({ store, lake, of }: Props & { of: "outliers" | "missing" }) {
    const set = useSet(store);
    const choice = (
        <Choice
            label="machines"
            is={of}
            pick={machines => set({ machines })}
            all={
                [
                    ["outliers", `Slower than their kind (${grouped(lake.outliers.length)})`],
                    ["missing", `Not reporting (${grouped(lake.missing.length)})`],
                ] as const
            }
        />
    );
    return of === "missing" ? (
        <List
            store={store}
            lake={lake}
            rows={lake.missing}
            columns={MISSING}
            label="Machines that do not report"
            thing="machine"
            remarks="missing"
            empty="All machines report as usual."
            texts={row => [row.machine, row.hardware, row.kernel]}
            head={["machine", "hardware", "kernel", "last", "silent_days", "usual_days", "p", "boots"]}
            cells={row => [row.machine, row.hardware, row.kernel, row.last, row.silent_days, row.usual_days, row.p, row.boots]}
        >
            {choice}
        </List>
    ) : (
        <List
            store={store}
            lake={lake}
            rows={lake.outliers}
            columns={OUTLIERS}
            label="Machines slower than their kind"
            thing="row"
            remarks="outliers"
            empty="No machine is slower than its kind, as far as these boots show."
            texts={row => [row.machine, kindName(row), row.name]}
            head={["machine", "hardware", "time_base", "row", "mean_ns", "others_ns", "slower_ns", "ratio", "p", "boots", "machines"]}
            cells={row => [
                row.machine,
                row.hardware,
                row.time_base,
                row.name,
                row.mean_ns,
                row.others_ns,
                row.slower_ns,
                row.ratio ?? "",
                row.p,
                row.boots,
                row.machines,
            ]}
        >
            {choice}
        </List>
    );
}

const SAVINGS: readonly Column<Saving>[] = [
    { name: "what", key: row => row.title || row.id, show: row => row.title || row.id },
    { name: "id", key: row => row.id, show: row => row.id, width: "13em", isSpare: true },
    { name: "saves a day", key: row => row.per_day_ns, show: row => figure(row.per_day_ns), isNumber: true, width: "8em" },
    {
        name: "interval",
        key: row => row.per_day_high_ns - row.per_day_low_ns,
        show: row => range(row.per_day_low_ns, row.per_day_high_ns),
        isNumber: true,
        width: "13em",
    },
    { name: "a boot", key: row => row.mean_ns, show: row => figure(row.mean_ns), isNumber: true, width: "8em" },
    { name: "boots", key: row => row.boots, show: row => grouped(row.boots), isNumber: true, width: "8em" },
    { name: "share", key: row => row.share, show: row => percent(row.share), isNumber: true, width: "8em", isSpare: true },
    { name: "machines", key: row => row.machines, show: row => grouped(row.machines), isNumber: true, width: "8em" },
    { name: "kinds", key: row => row.kinds, show: row => grouped(row.kinds), isNumber: true, width: "5em", isSpare: true },
];

function Pays({ store, lake }: Props) {
    return (
        <List
            store={store}
            lake={lake}
            rows={lake.what_pays}
            columns={SAVINGS}
            label="What pays"
            thing="finding"
            remarks="what_pays"
            empty="The lake has no findings: none were looked for, or none were found."
            texts={row => [row.title, row.id]}
            head={["id", "title", "mean_ns", "per_day_ns", "per_day_low_ns", "per_day_high_ns", "boots", "share", "machines", "kinds"]}
            cells={row => [
                row.id,
                row.title,
                row.mean_ns,
                row.per_day_ns,
                row.per_day_low_ns,
                row.per_day_high_ns,
                row.boots,
                row.share,
                row.machines,
                row.kinds,
            ]}
        />
    );
}
