// The findings: cause, price, remedy, and the spans that show it, each a place in the charts.
import { useState } from "preact/hooks";
import type { Evidence, Finding } from "../data/facts";
import { counted, short, whole } from "../lib/time";
import type { Store } from "../state";

/** The number of spans shown at first. */
const FEW = 5;
/** The number of spans shown before the user opens all. */
const MOST = 20;

export function Findings({ store }: { store: Store }) {
    const { boot } = store;
    const list = boot.facts?.findings;
    if (!list) return <p class="note">Nobody looked for findings when this page was written.</p>;
    if (list.findings.length === 0)
        return (
            <>
                {list.remarks.map((text, i) => (
                    <p class="note" key={i}>
                        {text}
                    </p>
                ))}
            </>
        );
    store.target = {
        rows: () => [["id", "title", "cost_ns", "remedy"], ...list.findings.map(f => [f.id, f.title, String(f.cost_ns), f.remedy])],
    };
    return (
        <div class="scroll" tabIndex={0} role="region" aria-label="Findings">
            <ol class="findings">
                {list.findings.map((finding, i) => (
                    <One key={i} store={store} finding={finding} isOpen={i === 0 && finding.evidence.length <= FEW} />
                ))}
            </ol>
            <div class="remarks" data-ns={String(list.found.together_ns)}>
                {list.remarks.map((text, i) => (
                    <p key={i}>{text}</p>
                ))}
            </div>
        </div>
    );
}

function One({ store, finding, isOpen }: { store: Store; finding: Finding; isOpen: boolean }) {
    const { unit } = store.boot;
    const [isAll, setAll] = useState(false);
    const shown = isAll ? finding.evidence : finding.evidence.slice(0, MOST);
    const [rest, elsewhere] = [finding.evidence.length - shown.length, finding.evidence_count - finding.evidence.length];
    const [low, high] = [whole(finding.cost_low_ns), whole(finding.cost_high_ns)];
    return (
        <li>
            <h2>{finding.title}</h2>
            <p>
                <strong data-ns={String(finding.cost_ns)}>{short(whole(finding.cost_ns), unit)}</strong> on the boot path
                {low !== high ? ` (${short(low, unit)} to ${short(high, unit)})` : ""}, confidence {finding.confidence}
            </p>
            <p>Remedy: {finding.remedy}.</p>
            {finding.to_try.map((change, i) => (
                <p key={i}>
                    To try: <code>{change}</code>
                </p>
            ))}
            {finding.outcome ? <p>Tried: {finding.outcome}.</p> : null}
            <p class="faint">
                rule {finding.id}: {finding.seed}
            </p>
            <details open={isOpen}>
                <summary>evidence: {counted(finding.evidence_count, "span")}</summary>
                <ul class="list">
                    {shown.map((evidence, i) => (
                        <li key={i}>
                            <button type="button" class="pick" onClick={() => show(store, evidence)}>
                                {evidence.name}
                            </button>{" "}
                            {short(Number(evidence.end_ns) - Number(evidence.start_ns), unit)} on {evidence.track}, at{" "}
                            {short(Number(evidence.start_ns), unit)}
                            {evidence.purpose ? `: ${evidence.purpose}` : ""}
                        </li>
                    ))}
                    {rest > 0 ? (
                        <li>
                            <button type="button" class="link" onClick={() => setAll(true)}>
                                and {rest} more
                            </button>
                        </li>
                    ) : null}
                    {elsewhere > 0 && rest === 0 ? <li>and {counted(elsewhere, "shorter span")} that the page does not have</li> : null}
                </ul>
            </details>
        </li>
    );
}

/** Shows the span that an evidence names, or its time. */
function show(store: Store, evidence: Evidence): void {
    const [from, to] = [Number(evidence.start_ns), Number(evidence.end_ns)];
    store.set({ view: "tracks" });
    const span = findSpan(store, evidence.track, from, to);
    store.select(span === undefined ? { kind: "range", from, to, ...ranMost(store, evidence.track, from, to) } : { kind: "span", span });
    store.zoomToSelected();
}

/** The track of this name that ran most in a time. */
function ranMost({ boot }: Store, name: string, from: number, to: number): { track?: number } {
    let [track, most] = [-1, 0];
    for (const one of boot.tracks) {
        if (one.name !== name) continue;
        const ran = boot.runningOf(one.id).reduce((sum, run) => sum + Math.max(Math.min(run.to, to) - Math.max(run.from, from), 0), 0);
        if (ran > most) [track, most] = [one.id, ran];
    }
    return track < 0 ? {} : { track };
}

function findSpan(store: Store, track: string, from: number, to: number): number | undefined {
    const { boot } = store;
    for (const one of boot.tracks) {
        if (one.name !== track) continue;
        const [first, last] = boot.spansOf(one.id);
        for (let i = first; i < last && boot.spans.start[i]! <= from; i += 1)
            if (boot.spans.start[i] === from && boot.spans.end[i] === to) return i;
    }
    return undefined;
}
