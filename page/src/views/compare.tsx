// Two to eight boots side by side: phases on one axis, each row before and after, and stacks coloured by their change.
import { useMemo, useRef, useState } from "preact/hooks";
import { isDark, type Palette } from "../charts/colours";
import { ROW } from "../charts/draw";
import { boxes, depthOf, type Flame, hit, paint } from "../charts/flame";
import type { Boot } from "../data/boot";
import { type Compared, changes, changesOfEarlier, incomparable, isInBoth, lost as lostOf, phases, rows } from "../data/compare";
import { ofPath } from "../data/merged";
import { counted, short, type Unit, type Whole } from "../lib/time";
import { expression, type Store } from "../state";
import { BootsOnOneAxis } from "./boots";
import { besidePointer, Canvas, placeOf } from "./canvas";
import { Choice } from "./choice";
import { type Column, Table } from "./table";

const TABLES = [
    ["where", "Where"],
    ["functions", "Functions"],
    ["threads", "All threads"],
] as const;
type Of = (typeof TABLES)[number][0];
const COMMAND_LINE = "command line";
/** Facts that differ between any two boots. */
const OF_EACH_RUN = ["recorded", "host load"];
/** What boots of each unit count. */
const NAMES: Record<Unit, string> = {
    ns: "time",
    ticks: "ticks of a counter of unknown rate",
    "guest-time": "the guest's time",
    instructions: "instructions",
    priced: "time on the machine of a model",
};
/** The clock of a unit: instructions count on the guest's. */
const clockOf = (unit: Unit): Unit => (unit === "instructions" ? "guest-time" : unit);
/** The number of differences that are shown at first. */
const FEW = 6;

export function Compare({ store, palette }: { store: Store; palette: Palette }) {
    const { boots, state } = store;
    const ready = boots.filter(boot => boot.facts);
    const [before, after] = [ready[state.compare.before] ?? ready[0]!, ready[state.compare.after] ?? ready[ready.length - 1]!];
    const set = (change: Partial<typeof state.compare>): void => store.set({ compare: { ...store.state.compare, ...change } });
    const table = TABLES.find(([id]) => id === state.compare.table)?.[0] ?? "where";
    const filter = expression(state.find);
    const every = useMemo(() => rows(tableOf(before, table), tableOf(after, table), "self_ns"), [before, after, table]);
    const lost = useMemo(() => lostOf(evidenceOf(before), evidenceOf(after)), [before, after]);
    const all = useMemo(() => (lost ? every.map(incomparable) : every), [lost, every]);
    const shown = useMemo(() => (filter ? all.filter(row => filter.test(row.name)) : all), [all, filter?.source]);
    const everyPhase = useMemo(() => phases(before.summary, after.summary), [before, after]);
    const byPhase = useMemo(() => everyPhase.map(row => (lost && !isInBoth(row) ? incomparable(row) : row)), [lost, everyPhase]);
    const noise = noiseOf(before, after);
    const columns = useMemo(() => columnsOf(after, noise), [after, noise]);
    if (clockOf(before.unit) !== clockOf(after.unit))
        return (
            <p class="note">
                One boot counts {NAMES[before.unit]}, the other {NAMES[after.unit]}: they cannot be compared.
            </p>
        );
    store.target = {
        rows: () => [
            ["what", "before_ns", "after_ns", "change_ns", "kind"],
            ...shown.map(row => [row.name, row.before ?? "", row.after ?? "", isGrey(row) ? "" : row.change, row.what]),
        ],
    };
    const total = byPhase.reduce((sum, row) => sum + Number(row.change), 0);
    return (
        <div class="compare">
            <div class="tools">
                <Pick label="before" boots={ready} is={ready.indexOf(before)} pick={before => set({ before })} />
                <Pick label="after" boots={ready} is={ready.indexOf(after)} pick={after => set({ after })} />
                <output id="change" data-ns={String(Number(after.summary.total_ns) - Number(before.summary.total_ns))}>
                    {short(Number(before.summary.total_ns), before.unit)} before, {short(Number(after.summary.total_ns), after.unit)} after:{" "}
                    {signed(Number(after.summary.total_ns) - Number(before.summary.total_ns), after)}
                </output>
                <label>
                    aligned on{" "}
                    <select value={state.compare.align} onChange={event => set({ align: event.currentTarget.value })}>
                        <option value="">time zero</option>
                        {after.summary.phases.map((phase, i) => (
                            <option key={i} value={phase.name}>
                                {phase.name}
                            </option>
                        ))}
                    </select>
                </label>
            </div>
            <BootsOnOneAxis boots={ready} compared={[before, after]} palette={palette} align={state.compare.align} />
            <HowRun before={before} after={after} />
            {lost ? (
                <p class="note" id="lost">
                    Not comparable, and grey: {lost.side} has no {lost.what} ({counted(byPhase.filter(isGrey).length, "phase")},{" "}
                    {counted(every.length, "row")}).
                </p>
            ) : null}
            <div class="split">
                <div class="sheet phases">
                    <Table
                        label="Phases, before and after"
                        rows={byPhase}
                        columns={columns}
                        isFaint={isGrey}
                        onPick={row => showPhase(store, longerIn(row, before, after), row.name)}
                    />
                    <output class="sum" data-ns={total}>
                        {counted(byPhase.filter(row => !isGrey(row)).length, "phase")}, {signed(total, after)}
                        {noise > 0
                            ? `; the total may change by ${short(noise, after.unit)} by noise of clocks or memory layout, and rows that do are faint`
                            : ""}
                    </output>
                </div>
                <div class="sheet">
                    <div class="tools">
                        <Choice
                            label="table"
                            all={[...TABLES, ["flame", "Stacks"]] as const}
                            is={state.compare.table as Of | "flame"}
                            pick={table => set({ table })}
                        />
                    </div>
                    {state.compare.table === "flame" && !lost ? (
                        <Stacks store={store} palette={palette} before={before} after={after} />
                    ) : (
                        <>
                            <Table
                                label="Rows, before and after"
                                rows={shown}
                                columns={columns}
                                isFaint={isGrey}
                                key={table}
                                onPick={row =>
                                    store.set({
                                        view: "where",
                                        table,
                                        shown: boots.indexOf(longerIn(row, before, after)),
                                        filter: literally(row.name),
                                        selection: undefined,
                                    })
                                }
                            />
                            <output class="sum" data-ns={shown.reduce((sum, row) => sum + Number(row.change), 0)}>
                                {counted(shown.length, "row")}:{" "}
                                {["changed", "appeared", "vanished", "same", "not comparable"]
                                    .filter(what => what !== "not comparable" || lost)
                                    .map(
                                        what =>
                                            `${shown.filter(row => row.what === what).length} ${what}${what === "changed" && noise > 0 ? ` (${shown.filter(row => row.what === what && !isNoise(row, noise)).length} by more than noise)` : ""}`,
                                    )
                                    .join(", ")}
                            </output>
                        </>
                    )}
                </div>
            </div>
        </div>
    );
}

/** Shows a phase of a boot in its tracks. */
function showPhase(store: Store, boot: Boot, name: string): void {
    const phase = boot.summary.phases.find(phase => phase.name === name);
    if (!phase) return;
    const [from, to] = [Number(phase.start_ns), Number(phase.end_ns)];
    store.set({ view: "tracks", shown: store.boots.indexOf(boot), folded: new Set(), selection: { kind: "range", from, to } });
    store.zoomToSelected();
}

/** True for a row that rests on evidence which one of the boots lacks. */
const isGrey = (row: Compared): boolean => row.what === "not comparable";

const evidenceOf = (boot: Boot) => ({ is_traced: boot.facts?.is_traced ?? false, has_initcalls: boot.summary.initcalls.length > 0 });

function tableOf(boot: Boot, of: Of): typeof boot.summary.where {
    const { where, functions, where_all_threads } = boot.summary;
    return of === "where" ? where : of === "functions" ? functions : where_all_threads;
}

/** A regular expression that matches exactly this text. */
const literally = (text: string): string => `^${text.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&")}`;

/** The differences in how the boots were run and in their measured values: often the cause of the other differences. */
function HowRun({ before, after }: { before: Boot; after: Boot }) {
    const inputs = differing(before.facts!.how, after.facts!.how);
    const measured = differing(before.facts!.measured, after.facts!.measured);
    if (inputs.length + measured.length === 0) return <p class="note">Both boots were run alike, as far as their recordings say.</p>;
    const row = ({ label, was, is }: Differing) => (
        <tr key={label}>
            <th scope="row">{label}</th>
            <td>{was}</td>
            <td>{is}</td>
        </tr>
    );
    return (
        <details class="run" open={inputs.length > 0 && inputs.length <= FEW}>
            <summary>
                {inputs.length > 0 ? `how they were run: ${counted(inputs.length, "difference")}` : "they were run alike"}
                {measured.length > 0
                    ? `; ${counted(measured.length, "measured figure")} ${measured.length === 1 ? "differs" : "differ"}`
                    : ""}
            </summary>
            <table>
                <thead>
                    <tr>
                        <th scope="col">what</th>
                        <th scope="col">before</th>
                        <th scope="col">after</th>
                    </tr>
                </thead>
                <tbody>
                    {inputs.map(row)}
                    {measured.map(row)}
                </tbody>
            </table>
        </details>
    );
}

interface Differing {
    readonly label: string;
    readonly was: string;
    readonly is: string;
}

/**
 * The differences between two lists of facts. A command line shows only the words that the other one lacks, and comes last: most
 * of it is the same, and it repeats what other facts say.
 */
function differing(before: readonly (readonly [string, string])[], after: readonly (readonly [string, string])[]): Differing[] {
    const [was, is] = [new Map(before), new Map(after)];
    const words = (text: string | undefined): string[] =>
        (text ?? "")
            .split(" ")
            .map(word => (word.includes(".so,") ? word.replace(/,zero=\d+/, "") : word).replace(/^\/proc\/self\/fd\/\d+$/, "(a file)"));
    const only = (text: string | undefined, other: string | undefined): string => {
        const others = new Set(words(other));
        return words(text)
            .filter(word => !others.has(word))
            .join(" ");
    };
    const differences: Differing[] = [];
    for (const label of new Set([...was.keys(), ...is.keys()])) {
        if (OF_EACH_RUN.includes(label) || was.get(label) === is.get(label)) continue;
        if (label !== COMMAND_LINE) differences.push({ label, was: was.get(label) ?? "none", is: is.get(label) ?? "none" });
    }
    const [mine, theirs] = [only(was.get(COMMAND_LINE), is.get(COMMAND_LINE)), only(is.get(COMMAND_LINE), was.get(COMMAND_LINE))];
    if (mine || theirs) differences.push({ label: `${COMMAND_LINE}, what differs`, was: mine, is: theirs });
    return differences;
}

/** The largest difference between two boots without a change, according to either; 0 if neither has one. */
function noiseOf(before: Boot, after: Boot): number {
    return Math.max(...[before, after].map(boot => Number(boot.facts?.findings?.found.noise_ns ?? 0)));
}

/** True if a change is within the noise. A row that only one boot has is never noise, even if it is short. */
const isNoise = (row: Compared, noise: number): boolean =>
    (row.what === "changed" || row.what === "same") && Math.abs(Number(row.change)) < noise;

/** The boot in which a row took longer, where it is easier to see. */
const longerIn = (row: Compared, before: Boot, after: Boot): Boot => (Number(row.before ?? -1) > Number(row.after ?? -1) ? before : after);

/** The change with its sign and an arrow, so that it never depends on colour alone. */
function signed(change: Whole, boot: Boot): string {
    return Number(change) > 0
        ? `▲ +${short(change, boot.unit)}`
        : Number(change) < 0
          ? `▼ ${short(change, boot.unit).replace("-", "−")}`
          : "no change";
}

function columnsOf(boot: Boot, noise: number): readonly Column<Compared>[] {
    const tone = (row: Compared): string =>
        isNoise(row, noise) ? "faint" : Number(row.change) > 0 ? "more" : Number(row.change) < 0 ? "less" : "";
    const time = (value: Whole | undefined): string => (value === undefined ? "" : short(value, boot.unit));
    return [
        { name: "what", key: row => row.name, show: row => row.name },
        {
            name: "before",
            key: row => Number(row.before ?? -1),
            show: row => time(row.before),
            isNumber: true,
            width: "8em",
            isSpare: true,
        },
        { name: "after", key: row => Number(row.after ?? -1), show: row => time(row.after), isNumber: true, width: "8em" },
        {
            name: "change",
            key: row => Math.abs(Number(row.change)),
            show: row => (
                <span class={tone(row)} data-ns={String(row.change)}>
                    {row.what === "same" || isGrey(row) ? "" : signed(row.change, boot)}
                </span>
            ),
            isNumber: true,
            width: "8em",
        },
        {
            name: "kind",
            key: row => row.what,
            show: row => (row.what === "same" ? "" : isNoise(row, noise) ? "changed?" : row.what),
            width: "10em",
            isSpare: true,
        },
    ];
}

function Pick({ label, boots, is, pick }: { label: string; boots: readonly Boot[]; is: number; pick: (boot: number) => void }) {
    return (
        <label>
            {label}{" "}
            <select value={is} onChange={event => pick(Number(event.currentTarget.value))}>
                {boots.map((boot, i) => (
                    <option key={i} value={i}>
                        {boot.name}
                    </option>
                ))}
            </select>
        </label>
    );
}

/** The stacks of one boot, coloured by their change: of the later boot, or of the earlier one, which has the vanished rows. */
function Stacks({ store, palette, before, after }: { store: Store; palette: Palette; before: Boot; after: Boot }) {
    const [of, setOf] = useState<"later" | "earlier">("later");
    const [zoomed, setZoomed] = useState(0);
    const [tip, setTip] = useState<{ node: number; x: number; y: number } | undefined>();
    const size = useRef({ width: 600, height: 300, scroll: 0 });
    const isReady = before.isWhole && after.isWhole;
    const shown = of === "later" ? after : before;
    const tree = useMemo(() => (isReady ? ofPath(shown) : undefined), [shown, isReady]);
    const changed = useMemo(
        () => tree && (of === "later" ? changes(ofPath(before), tree) : changesOfEarlier(tree, ofPath(after))),
        [before, after, tree],
    );
    if (!tree || !changed) return <p class="note">Stacks are there when all is read.</p>;
    const flame = (width: number, height: number, scroll: number): Flame => ({
        tree,
        zoomed,
        width,
        height,
        scroll,
        palette,
        isDark: isDark(store.state.theme),
        find: expression(store.state.find),
        changes: changed,
    });
    const height = depthOf(boxes(flame(size.current.width, 0, 0))) * ROW;
    store.target = { draw: { width: size.current.width, height, on: surface => paint(flame(size.current.width, height, 0), surface) } };
    return (
        <>
            <div class="tools">
                <Choice
                    label="stacks of"
                    all={
                        [
                            ["later", "the later boot"],
                            ["earlier", "the earlier boot: has what vanished"],
                        ] as const
                    }
                    is={of}
                    pick={pick => {
                        setOf(pick);
                        setZoomed(0);
                    }}
                />
            </div>
            <Canvas
                label={`Stacks of the ${of} boot, marked by what became longer and shorter; the tables have the same figures`}
                contentHeight={height}
                class="flame"
                draw={(on, width, high, scroll) => {
                    size.current = { width, height: high, scroll };
                    paint(flame(width, high, scroll), on);
                }}
                onPointer={(kind, event, px, py) => {
                    if (kind === "leave") return setTip(undefined);
                    const node = hit(flame(size.current.width, size.current.height, size.current.scroll), px, py);
                    if (kind === "move") setTip(node === undefined ? undefined : { node, ...placeOf(event) });
                    if (kind === "up") setZoomed(node ?? 0);
                }}
            >
                {tip ? (
                    <div class="tip" role="tooltip" style={besidePointer(tip)}>
                        <strong>{tree.texts[tree.key[tip.node]!]}</strong>
                        <br />
                        {short(tree.total[tip.node]!, shown.unit)}, {signed(changed[tip.node]!, shown)}
                    </div>
                ) : null}
            </Canvas>
        </>
    );
}
