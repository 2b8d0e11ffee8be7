// The tables: rows of the boot path, functions, all threads, initcalls, processes. A regular expression filters them.
import { useMemo } from "preact/hooks";
import type { Initcall, Process, Row } from "../data/facts";
import { counted, FIRST_CALLS, grouped, ofRow, percent, short, type Unit, whole } from "../lib/time";
import { expression, type Store } from "../state";
import { Details } from "./details";
import { Filter } from "./filter";
import { type Column, Table } from "./table";

const TABLES = [
    ["where", "Where the boot path went", "The boot path, each stretch charged once, by what one can fix. The rows sum to the total."],
    ["functions", "Functions on the boot path", "Self is time in which it was innermost, total also what it called."],
    [
        "threads",
        "All threads, summed",
        "What every thread did until the end mark. Threads work and wait side by side, so the rows may sum to more than the boot. Time in which no thread is known to run has rows too.",
    ],
    ["initcalls", "Initcalls", "Each from its call to its return, waits included. They overlap where threads run side by side."],
    ["processes", "User processes", "Each after its parent."],
] as const;

/** The sentence under tables whose figures are not time. */
const UNITS_SAY: Record<Unit, string> = {
    ns: "",
    ticks: "Times are ticks: nobody knows how fast the counter runs.",
    "guest-time":
        "Times are the guest's: an instruction counts as 1 ns, and a timed wait as long as it lasts. The command show has them apart.",
    instructions: "A deterministic boot has no milliseconds: figures are instructions.",
    priced: "Times are prices of a machine model.",
};

interface Charged extends Row {
    readonly text: string;
    readonly thing: number;
    readonly part: number;
}

export function Where({ store }: { store: Store }) {
    const { boot, state } = store;
    const { summary, unit } = boot;
    const there = TABLES.filter(([id]) =>
        id === "initcalls" ? summary.initcalls.length > 0 : id === "processes" ? summary.processes.length > 0 : true,
    );
    const [id, title, about] = there.find(([known]) => known === state.table) ?? TABLES[0];
    const filter = expression(state.filter);
    return (
        <div class="where">
            <div class="tools">
                <span class="choice" role="group" aria-label="table">
                    {there.map(([one, text]) => (
                        <button type="button" key={one} aria-pressed={one === id} onClick={() => store.set({ table: one })}>
                            {text}
                        </button>
                    ))}
                </span>
                <Filter store={store} />
            </div>
            <p class="faint note">{about}</p>
            <div class="split">
                {id === "initcalls" ? (
                    <Initcalls store={store} title={title} filter={filter} />
                ) : id === "processes" ? (
                    <Processes store={store} title={title} filter={filter} />
                ) : (
                    <Rows store={store} id={id} title={title} filter={filter} />
                )}
                <Details store={store} />
            </div>
            <output class="faint note" id="unit">
                {UNITS_SAY[unit]}
            </output>
        </div>
    );
}

function Rows({ store, id, title, filter }: { store: Store; id: string; title: string; filter: RegExp | undefined }) {
    const { boot, state } = store;
    const { unit, facts } = boot;
    const all = useMemo((): Charged[] => {
        const { where, functions, where_all_threads } = boot.summary;
        const rows = id === "where" ? where : id === "functions" ? functions : where_all_threads;
        const things = id === "where" ? facts!.things : id === "threads" ? facts!.things_all_threads : [];
        const sum = rows.reduce((sum, row) => sum + Number(row.self_ns), 0) || 1;
        return rows.map((row, i) => ({
            ...row,
            text: row.detail ? `${row.name} ${row.detail}` : row.name,
            thing: things[i] ?? -1,
            part: Number(row.self_ns) / sum,
        }));
    }, [boot.facts, id]);
    const rows = useMemo(
        () => (filter ? all.filter(row => filter.test(row.text) || row.tracks.some(track => filter.test(track))) : all),
        [all, filter?.source],
    );
    const columns = useMemo(
        (): readonly Column<Charged>[] => [
            { name: "what", key: row => row.text, show: row => row.text },
            {
                name: "self",
                key: row => Number(row.self_ns),
                show: row => (
                    <span data-ns={String(row.self_ns)} title={row.first_calls_only ? FIRST_CALLS : undefined}>
                        {ofRow(whole(row.self_ns), unit, row)}
                    </span>
                ),
                isNumber: true,
                width: "8em",
            },
            {
                name: "share",
                key: row => row.part,
                show: row => (
                    <>
                        <span class="bar" style={{ width: `${Math.min(row.part * 60, 60)}px` }} aria-hidden="true" />
                        {percent(row.part)}
                    </>
                ),
                isNumber: true,
                width: "10em",
                isSpare: true,
            },
            {
                name: "total",
                key: row => Number(row.total_ns),
                show: row => <span data-ns={String(row.total_ns)}>{ofRow(whole(row.total_ns), unit, row)}</span>,
                isNumber: true,
                width: "8em",
            },
            {
                name: "count",
                key: row => Number(row.count),
                show: row => grouped(whole(row.count)),
                isNumber: true,
                width: "8em",
                isSpare: true,
            },
            {
                name: "threads",
                key: row => row.tracks[0] ?? "",
                show: row => row.tracks.slice(0, 3).join(", ") + (row.tracks.length > 3 ? ` and ${row.tracks.length - 3} more` : ""),
                width: "16em",
                isSpare: true,
            },
        ],
        [unit],
    );
    const pick = (row: Charged): void => {
        // A function's name is a label; a row of `where` has the thing that it is about.
        const label = row.thing >= 0 ? -1 : boot.labels.findIndex((_, i) => boot.labelText(i) === row.text);
        const thing = row.thing >= 0 ? row.thing : (boot.labels[label]?.thing ?? 0);
        store.set({ selection: { kind: "thing", thing, name: row.text } });
    };
    store.target = {
        rows: () => [
            ["what", "self_ns", "share", "total_ns", "count", "threads"],
            ...rows.map(row => [row.text, String(row.self_ns), row.part, String(row.total_ns), String(row.count), row.tracks.join(" ")]),
        ],
    };
    const sum = rows.reduce((sum, row) => sum + BigInt(row.self_ns), 0n);
    return (
        <div class="sheet">
            <Table
                label={title}
                rows={rows}
                columns={columns}
                sortedBy={1}
                onPick={pick}
                isPicked={row => state.selection?.kind === "thing" && state.selection.name === row.text}
            />
            <output class="sum" data-ns={String(sum)}>
                {counted(rows.length, "row")}, self {short(sum, unit)}
                {rows.some(row => row.first_calls_only) ? `. ${FIRST_CALLS}` : ""}
            </output>
        </div>
    );
}

function Initcalls({ store, title, filter }: { store: Store; title: string; filter: RegExp | undefined }) {
    const { boot } = store;
    const { unit } = boot;
    const rows = boot.summary.initcalls.filter(row => !filter || filter.test(row.name));
    const columns: readonly Column<Initcall>[] = [
        { name: "function", key: row => row.name, show: row => row.name },
        {
            name: "elapsed",
            key: row => Number(row.elapsed_ns),
            show: row => <span data-ns={String(row.elapsed_ns)}>{short(whole(row.elapsed_ns), unit)}</span>,
            isNumber: true,
            width: "8em",
        },
        {
            name: "boot path",
            key: row => Number(row.path_ns),
            show: row => <span data-ns={String(row.path_ns)}>{short(whole(row.path_ns), unit)}</span>,
            isNumber: true,
            width: "8em",
        },
        { name: "start", key: row => -Number(row.start_ns), show: row => short(whole(row.start_ns), unit), isNumber: true, width: "8em" },
        { name: "thread", key: row => row.track, show: row => row.track, width: "14em", isSpare: true },
    ];
    store.target = {
        rows: () => [
            ["function", "elapsed_ns", "path_ns", "start_ns", "thread"],
            ...rows.map(row => [row.name, String(row.elapsed_ns), String(row.path_ns), String(row.start_ns), row.track]),
        ],
    };
    const pick = (row: Initcall): void => {
        const from = Number(row.start_ns);
        store.set({ view: "tracks" });
        store.select({ kind: "range", from, to: from + Number(row.elapsed_ns) });
        store.zoomToSelected();
    };
    return (
        <div class="sheet">
            <Table label={title} rows={rows} columns={columns} sortedBy={1} onPick={pick} />
        </div>
    );
}

function Processes({ store, title, filter }: { store: Store; title: string; filter: RegExp | undefined }) {
    const { boot } = store;
    const { unit } = boot;
    const rows = boot.summary.processes.filter(row => !filter || filter.test(row.name));
    const length = (row: Process): number => (row.end_ns === null ? boot.total : Number(row.end_ns)) - Number(row.start_ns);
    const columns: readonly Column<Process>[] = [
        {
            name: "process",
            key: row => row.name,
            show: row => <span style={{ paddingLeft: `${Math.min(row.depth, 20)}em` }}>{row.name}</span>,
        },
        { name: "pid", key: row => Number(row.pid), show: row => String(row.pid), isNumber: true, width: "8em", isSpare: true },
        { name: "start", key: row => -Number(row.start_ns), show: row => short(whole(row.start_ns), unit), isNumber: true, width: "8em" },
        {
            name: "length",
            key: length,
            show: row => (row.end_ns === null ? "alive" : short(length(row), unit)),
            isNumber: true,
            width: "8em",
        },
    ];
    store.target = {
        rows: () => [
            ["process", "pid", "start_ns", "end_ns"],
            ...rows.map(row => [row.name, String(row.pid), String(row.start_ns), String(row.end_ns ?? "")]),
        ],
    };
    const pick = (row: Process): void => {
        store.set({ view: "tracks" });
        store.select({ kind: "range", from: Number(row.start_ns), to: Number(row.start_ns) + length(row) });
    };
    return (
        <div class="sheet">
            <Table label={title} rows={rows} columns={columns} onPick={pick} />
        </div>
    );
}
