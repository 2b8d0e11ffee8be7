// What-if: sliders on rows, and the resulting length of the boot as the command `what-if` computes it. If nothing can compute it,
// the command is shown.
import { useEffect, useMemo, useState } from "preact/hooks";
import type { Row } from "../data/facts";
import { path, word } from "../lib/shell";
import { counted, ofRow, percent, short, type Whole, whole } from "../lib/time";
import { type Answer, canCompute, computeSavings, type Savings, saveOptions } from "../lib/whatif-client";
import { expression, type Store } from "../state";
import { Filter } from "./filter";
import { type Column, Table } from "./table";

/** The time that a slider must rest before a question is sent. */
const RESTS_MS = 150;

/** The command in words of a shell. */
export function command(recording: string, savings: readonly string[]): string {
    return ["bootscope what-if", path(recording), ...savings.map(one => `--save=${word(one)}`)].join(" ");
}

export function WhatIf({ store }: { store: Store }) {
    const { boot, state } = store;
    const { unit, summary } = boot;
    const { savings } = state;
    const typed = useMemo(() => saveOptions(savings), [savings]);
    const answer = useAnswer(state.shown, savings);
    const filter = expression(state.filter);
    const rows = useMemo(() => summary.where.filter(row => !filter || filter.test(row.name)), [boot.facts, filter?.source]);
    const set = (name: string, less: number): void => {
        const changed = new Map(store.state.savings);
        if (less > 0) changed.set(name, less);
        else changed.delete(name);
        store.set({ savings: changed });
    };
    const left = useMemo(() => new Map("ledger" in answer ? answer.ledger.where.map(row => [row.name, row.self_ns]) : []), [answer]);
    const columns = useMemo(
        (): readonly Column<Row>[] => [
            { name: "what", key: row => row.name, show: row => row.name },
            {
                name: "self",
                key: row => Number(row.self_ns),
                show: row => ofRow(whole(row.self_ns), unit, row),
                isNumber: true,
                width: "8em",
                isSpare: true,
            },
            // Sorted by a value that no slider changes: a row must not jump while its slider moves.
            {
                name: "then",
                key: row => Number(row.self_ns),
                show: row =>
                    savings.size === 0 || !("ledger" in answer) ? (
                        ""
                    ) : (
                        <span data-ns={String(left.get(row.name) ?? 0)}>{short(whole(left.get(row.name) ?? 0), unit)}</span>
                    ),
                isNumber: true,
                width: "8em",
            },
            {
                name: "less by",
                key: () => 0,
                width: "11em",
                show: row => (
                    <span class="slider">
                        <input
                            type="range"
                            min="0"
                            max="100"
                            step="5"
                            value={savings.get(row.name) ?? 0}
                            aria-label={`less by per cent: ${row.name}`}
                            onInput={event => set(row.name, Number(event.currentTarget.value))}
                        />
                        <output>{savings.get(row.name) ?? 0} %</output>
                    </span>
                ),
            },
        ],
        [unit, savings, left, answer],
    );
    const total = whole(summary.total_ns);
    const steps = "ledger" in answer ? answer.ledger.steps : [];
    const then = steps[steps.length - 1];
    store.target = {
        rows: () => [
            ["saving", "before_ns", "saved_ns", "total_ns"],
            ...steps.map(step => [step.name, String(step.before_ns), String(step.saved_ns), String(step.total_ns)]),
        ],
    };
    const words = command(boot.name, typed);
    return (
        <div class="whatif">
            <div class="tools">
                <Filter store={store} />
                <button type="button" disabled={savings.size === 0} onClick={() => store.set({ savings: new Map() })}>
                    reset
                </button>
                <output id="then" data-ns={then ? String(then.total_ns) : ""} aria-live="polite">
                    {then
                        ? `${short(total, unit)} before, ${short(whole(then.total_ns), unit)} then: ${percent(1 - Number(then.total_ns) / Number(total))} less`
                        : savings.size > 0 && canCompute() && !("wrong" in answer && answer.wrong)
                          ? "…"
                          : ""}
                </output>
            </div>
            {canCompute() ? null : (
                <p class="note">
                    The bootscope that wrote this file was built without what runs a boot again. What-if needs <code>bootscope view</code>.
                    The command below prints the answer too.
                </p>
            )}
            {"wrong" in answer && answer.wrong ? (
                <p class="warning" role="alert">
                    {answer.wrong}
                </p>
            ) : null}
            <div class="split">
                <div class="sheet">
                    <Table label="What takes less" rows={rows} columns={columns} isPicked={row => savings.has(row.name)} />
                    <output class="sum">{counted(rows.length, "row")}; a slider makes its row shorter on every thread</output>
                </div>
                <aside class="details" aria-label="What the savings bring">
                    <h2>One after the other</h2>
                    {savings.size === 0 ? (
                        <p>
                            Move a slider. Nothing is subtracted: the boot is run again with that work made shorter, and it counts only
                            until the boot waits for something else.
                        </p>
                    ) : null}
                    <ol class="list" id="steps">
                        {steps.map((step, i) => (
                            <Step
                                key={i}
                                name={step.name}
                                saved={whole(step.saved_ns)}
                                after={whole(step.total_ns)}
                                range={
                                    step.saved_at_worst_ns === null || step.saved_at_best_ns === null
                                        ? undefined
                                        : [whole(step.saved_at_worst_ns), whole(step.saved_at_best_ns)]
                                }
                                unit={unit}
                            />
                        ))}
                    </ol>
                    {savings.size > 0 ? (
                        <>
                            <h3>The command that says the same</h3>
                            <p>
                                <code id="command">{words}</code>
                            </p>
                        </>
                    ) : null}
                </aside>
            </div>
        </div>
    );
}

function Step({
    name,
    saved,
    after,
    range,
    unit,
}: {
    name: string;
    saved: Whole;
    after: Whole;
    range: readonly [Whole, Whole] | undefined;
    unit: Parameters<typeof short>[1];
}) {
    return (
        <li>
            {name}: saves <strong data-ns={String(saved)}>{short(saved, unit)}</strong>
            {range ? ` (${short(range[0], unit)} to ${short(range[1], unit)}, by what the log leaves open)` : ""}, then {short(after, unit)}
        </li>
    );
}

const NOTHING: Answer = { wrong: "" };

/** The effect of these savings, or nothing while it is computed. An answer to an earlier question is never shown. */
function useAnswer(boot: number, savings: Savings): Answer {
    const question = JSON.stringify([boot, ...savings]);
    const [said, setSaid] = useState({ question: "", answer: NOTHING });
    useEffect(() => {
        if (savings.size === 0 || !canCompute()) return;
        const older = new AbortController();
        const timer = setTimeout(async () => {
            const answer = await computeSavings(boot, savings, older.signal);
            if (!older.signal.aborted) setSaid({ question, answer });
        }, RESTS_MS);
        return () => {
            clearTimeout(timer);
            older.abort();
        };
    }, [question]);
    return said.question === question && savings.size > 0 ? said.answer : NOTHING;
}
