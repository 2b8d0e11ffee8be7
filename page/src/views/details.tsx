// The details of the selection: its figures to the nanosecond, the reason why it is on the boot path, and links to related things.
import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import type { Boot } from "../data/boot";
import { type Cause, causesOf, whyIt, whyStay, whyWait } from "../lib/explain";
import { counted, difference, exact, short, type Whole, whole } from "../lib/time";
import type { Store } from "../state";
import { SpanTable } from "./places";

/** The most causes listed for a stretch of the boot path; the rest is counted. */
const MAX_CAUSES = 6;
/** The most ways listed for a cause, and the least share of its time that a listed way has. */
const MAX_WAYS = 3;
const MIN_PART = 0.01;
/** The most functions named for a way. */
const MAX_NAMES = 3;
/** The most places listed for a row; the rest is counted. */
const MAX_PLACES = 1_000;

/** The details of the selection; nothing without one. */
export function Details({ store }: { store: Store }) {
    const { boot, state } = store;
    const { selection } = state;
    if (!selection) return null;
    const inner = ((): ComponentChildren => {
        switch (selection.kind) {
            case "span":
                return selection.span < boot.spans.count ? <SpanDetails store={store} span={selection.span} /> : <p>Not read yet.</p>;
            case "stay":
                return <StayDetails store={store} stay={selection.stay} />;
            case "thing":
                return <ThingDetails store={store} thing={selection.thing} name={selection.name} />;
            case "instant":
                return <InstantDetails store={store} instant={selection.instant} />;
            case "range":
                return (
                    <>
                        <h2>{selection.title ?? "Range"}</h2>
                        <Figures
                            boot={boot}
                            of={[
                                ["length", Math.round(selection.to - selection.from)],
                                ["from", Math.round(selection.from)],
                                ["to", Math.round(selection.to)],
                            ]}
                        />
                        <Causes store={store} from={selection.from} to={selection.to} />
                    </>
                );
        }
    })();
    return (
        <aside class="details" aria-label="Selection">
            <button type="button" class="close" aria-label="clear the selection" onClick={() => store.set({ selection: undefined })}>
                ×
            </button>
            {inner}
        </aside>
    );
}

function Figures({ boot, of }: { boot: Boot; of: readonly (readonly [string, Whole])[] }) {
    return (
        <dl class="figures">
            {of.map(([label, time]) => (
                <div key={label}>
                    <dt>{label}</dt>
                    <dd data-ns={String(time)} title={exact(time, boot.unit)}>
                        {short(time, boot.unit)} <span class="faint">{exact(time, boot.unit)}</span>
                    </dd>
                </div>
            ))}
        </dl>
    );
}

function SpanDetails({ store, span }: { store: Store; span: number }) {
    const { boot } = store;
    const track = boot.track(boot.spans.track[span]!);
    const [start, length] = [boot.spanStart(span), boot.spanLength(span)];
    const around: number[] = [];
    const parents = boot.parents();
    for (let at = parents[span]!; at > 0 && around.length < 200; at = parents[at - 1]!) around.push(at - 1);
    const [from, to] = [boot.spans.start[span]!, boot.spans.end[span]!];
    const waits = boot
        .waitsOf(track?.id ?? -1)
        .filter(wait => wait.from >= from && wait.from < to)
        .sort((a, b) => b.until - b.from - (a.until - a.from));
    const label = boot.spans.label[span]!;
    const thing = boot.labels[label]?.thing ?? 0;
    return (
        <>
            <h2>{boot.spanName(span)}</h2>
            <p class="faint">
                {boot.spanKind(span)} on {track?.label}
            </p>
            <Figures
                boot={boot}
                of={[
                    ["length", length],
                    ["start", start],
                ]}
            />
            <p class="actions">
                <button type="button" onClick={() => store.zoomToSelected()}>
                    zoom to it (f)
                </button>
                {store.state.view === "tracks" ? null : (
                    <button
                        type="button"
                        onClick={() => {
                            store.set({ view: "tracks" });
                            store.zoomToSelected();
                        }}
                    >
                        in the tracks
                    </button>
                )}
                <button type="button" onClick={() => store.set({ view: "console" })}>
                    the console then
                </button>
                <button type="button" onClick={() => goToStep(store, from, to)}>
                    the boot path here
                </button>
                <button
                    type="button"
                    onClick={() =>
                        store.set({ view: "merged", merged: { ...store.state.merged, way: "sandwich", of_function: boot.spanName(span) } })
                    }
                >
                    callers and callees
                </button>
                {thing > 0 ? (
                    <button type="button" onClick={() => store.set({ selection: { kind: "thing", thing, name: boot.spanName(span) } })}>
                        all of its kind
                    </button>
                ) : null}
            </p>
            <p>
                {store.state.anchor === span ? (
                    <>
                        Now search the other span, or click on it: the time between the two is selected.{" "}
                        <button type="button" onClick={() => store.set({ anchor: undefined })}>
                            cancel
                        </button>
                    </>
                ) : (
                    <button
                        type="button"
                        onClick={() => {
                            store.set({ anchor: span });
                            document.querySelector<HTMLInputElement>("#find")?.select();
                        }}
                    >
                        the time between this and another span…
                    </button>
                )}
            </p>
            <Causes store={store} from={from} to={to} />
            <Neighbours store={store} span={span} />
            {around.length > 0 ? (
                <>
                    <h3>Inside of</h3>
                    <ul class="list">
                        {around.map(outer => (
                            <li key={outer}>
                                <button type="button" class="pick" onClick={() => store.select({ kind: "span", span: outer })}>
                                    {boot.spanName(outer)}
                                </button>{" "}
                                {short(boot.spanLength(outer), boot.unit)}
                            </li>
                        ))}
                    </ul>
                </>
            ) : null}
            {waits.length > 0 ? (
                <>
                    <h3>Waits that began in it, the longest first</h3>
                    <ul class="list">
                        {waits.slice(0, 50).map((wait, i) => (
                            <li key={i}>
                                <button
                                    type="button"
                                    class="pick"
                                    onClick={() => store.select({ kind: "range", from: wait.from, to: wait.until })}
                                >
                                    {short(wait.until - wait.from, boot.unit)}
                                </button>{" "}
                                {whyWait(boot, wait)}
                            </li>
                        ))}
                        {waits.length > 50 ? <li>and {waits.length - 50} more</li> : null}
                    </ul>
                </>
            ) : null}
        </>
    );
}

/** The spans before and after a span on its thread, and the time between. The neighbours of an initcall are initcalls. */
function Neighbours({ store, span }: { store: Store; span: number }) {
    const { boot } = store;
    const { start, end } = boot.spans;
    const neighbours = useMemo(() => boot.neighbours(span), [boot, boot.version, span]);
    const sides = [
        { other: neighbours.before, side: "before", from: (other: number) => end[other]!, to: () => start[span]! },
        { other: neighbours.after, side: "after", from: () => end[span]!, to: (other: number) => start[other]! },
    ];
    const gaps = sides.flatMap(({ other, side, from, to }) =>
        other === undefined ? [] : [{ other, side, from: from(other), to: to(other) }],
    );
    if (gaps.length === 0) return null;
    return (
        <>
            <h3>Before and after it on this thread</h3>
            <ul class="list" id="neighbours">
                {gaps.map(({ other, side, from, to }) => (
                    <li key={side}>
                        {side}:{" "}
                        <button type="button" class="pick" onClick={() => store.select({ kind: "span", span: other })}>
                            {boot.spanName(other)}
                        </button>
                        {to > from ? (
                            <>
                                , and between the two{" "}
                                <button
                                    type="button"
                                    class="pick"
                                    data-ns={to - from}
                                    onClick={() => store.select(store.between(span, other))}
                                >
                                    {short(to - from, boot.unit)}
                                </button>
                            </>
                        ) : null}
                    </li>
                ))}
            </ul>
        </>
    );
}

function InstantDetails({ store, instant: index }: { store: Store; instant: number }) {
    const { boot } = store;
    const one = boot.instants.all[index];
    if (!one) return <p>Not read yet.</p>;
    const length: [string, Whole][] = one.to > one.from ? [["length", one.to - one.from]] : [];
    return (
        <>
            <h2>{one.text}</h2>
            <p class="faint">{boot.instants.lanes[one.lane]?.name}</p>
            <Figures boot={boot} of={[...length, ["start", one.from]]} />
            <p class="actions">
                <button type="button" onClick={() => store.zoomToSelected()}>
                    zoom to it (f)
                </button>
                <button type="button" onClick={() => store.set({ view: "console" })}>
                    the console then
                </button>
                <button type="button" onClick={() => goToStep(store, one.from)}>
                    the boot path here
                </button>
            </p>
            {one.more.length > 0 ? (
                <ul class="list">
                    {one.more.map((text, i) => (
                        <li key={i}>{text}</li>
                    ))}
                </ul>
            ) : null}
        </>
    );
}

/** The threads that the boot waited for in a stretch, and their times. It explains the time between two initcalls. */
function Causes({ store, from, to }: { store: Store; from: number; to: number }) {
    const { boot } = store;
    const causes = useMemo(() => causesOf(boot, from, to), [boot, boot.version, from, to]);
    if (causes.length === 0) return null;
    const others = causes.filter(cause => !cause.isOwn);
    const rest = others.slice(MAX_CAUSES);
    const shown = causes.filter(cause => cause.isOwn || !rest.includes(cause));
    const restTime = rest.reduce((sum, cause) => sum + cause.time, 0);
    const ways = ({ ways, time }: Cause): ComponentChildren => {
        const texts = ways
            .slice(0, MAX_WAYS)
            .filter(way => way.time >= time * MIN_PART)
            .map(
                way =>
                    `${whyIt(boot, way.longest)}${way.steps > 1 ? ` (${counted(way.steps, "step")}, the longest ${short(way.most, boot.unit)})` : ""}`,
            );
        return texts.length === 1 ? (
            texts[0]
        ) : (
            <ul>
                {texts.map((text, i) => (
                    <li key={i}>
                        {short(ways[i]!.time, boot.unit)} {text}
                    </li>
                ))}
                {ways.length > texts.length ? <li>and {ways.length - texts.length} more</li> : null}
            </ul>
        );
    };
    const time = (cause: Cause): ComponentChildren => (
        <button type="button" class="pick" data-ns={cause.time} onClick={() => goToStep(store, cause.ways[0]!.longest.from)}>
            {short(cause.time, boot.unit)}
        </button>
    );
    return (
        <>
            <h3>Whom the boot waited for meanwhile</h3>
            <ul class="list causes">
                {shown.map((cause, i) =>
                    cause.isOwn ? (
                        <li key={i} class="own">
                            {others.length > 0 ? "" : "nobody: "}
                            {time(cause)} {boot.track(cause.track)?.label} ran itself.
                        </li>
                    ) : (
                        <li key={i}>
                            {time(cause)} <strong>{boot.track(cause.track)?.label}</strong>
                            {workOf(boot, cause, from, to)}: {ways(cause)}
                        </li>
                    ),
                )}
                {rest.length > 0 ? (
                    <li>
                        and {counted(rest.length, "cause")} more, in all <span data-ns={restTime}>{short(restTime, boot.unit)}</span>
                    </li>
                ) : null}
            </ul>
        </>
    );
}

/** The work of a thread in its longest step: the work item, or else its functions from the outside inwards. */
function workOf(boot: Boot, { ways: [way] }: Cause, from: number, to: number): string {
    if (!way || (way.longest.kind !== "running" && way.longest.kind !== "runqueue")) return "";
    const { longest } = way;
    const { track } = longest.owner;
    const [begin, end] = [Math.max(longest.from, from), Math.min(longest.to, to)];
    const around = boot.outermost(track, (begin + end) / 2);
    const names = around === undefined ? boot.longestPartsOn(track, begin, end, MAX_NAMES) : [around];
    return names.length > 0 ? `, longest in ${[...new Set(names.map(span => boot.spanName(span)))].join(", ")}` : "";
}

/** Selects a step in the view of the boot path: the one at an instant, or the longest up to another instant. */
export function goToStep(store: Store, at: number, until = at): void {
    const stay = causesOf(store.boot, at, until)[0]?.ways[0]?.longest ?? store.boot.stayAt(at);
    if (!stay) return;
    const { selection } = store.state;
    store.cameFrom = selection?.kind === "span" || selection?.kind === "range" ? selection : undefined;
    store.set({ view: store.state.view === "tracks" ? "tracks" : "path" });
    store.select({ kind: "stay", stay: stay.index });
}

function StayDetails({ store, stay: index }: { store: Store; stay: number }) {
    const { boot } = store;
    const stay = boot.stays[index];
    const inIt = useMemo(() => (stay ? boot.longestPartsOn(stay.owner.track, stay.from, stay.to, 12) : []), [boot, boot.version, index]);
    if (!stay) return <p>Not read yet.</p>;
    return (
        <>
            <h2>
                Step {index + 1} of {boot.stays.length}
            </h2>
            <p class="actions">
                <button type="button" disabled={index === 0} onClick={() => store.select({ kind: "stay", stay: index - 1 })}>
                    ◂ back ([)
                </button>
                <button
                    type="button"
                    disabled={index + 1 >= boot.stays.length}
                    onClick={() => store.select({ kind: "stay", stay: index + 1 })}
                >
                    forwards (]) ▸
                </button>
                <button type="button" onClick={() => store.zoomToSelected()}>
                    zoom to it (f)
                </button>
                {store.cameFrom ? (
                    <button type="button" onClick={() => store.select(store.cameFrom)}>
                        back to the time selected before
                    </button>
                ) : null}
            </p>
            <Figures
                boot={boot}
                of={[
                    ["length", stay.exact?.length ?? stay.to - stay.from],
                    ["start", stay.exact?.from ?? stay.from],
                ]}
            />
            <h3>Why the time is here</h3>
            <ul class="list why" aria-live="polite">
                {whyStay(boot, stay).map((text, i) => (
                    <li key={i}>{text}</li>
                ))}
            </ul>
            {inIt.length > 0 ? (
                <>
                    <h3>What {boot.track(stay.owner.track)?.label} did in it</h3>
                    <ul class="list" id="did">
                        {inIt.map(span => (
                            <Part key={span} store={store} span={span} part={boot.partOf(span, stay.from, stay.to)} />
                        ))}
                    </ul>
                </>
            ) : null}
        </>
    );
}

/** A span with its part in a step. If it goes on outside of the step, its whole length is shown too. */
function Part({ store, span, part }: { store: Store; span: number; part: number }) {
    const { boot } = store;
    const whole = boot.spanLength(span);
    return (
        <li data-ns={part}>
            <button type="button" class="pick" onClick={() => store.select({ kind: "span", span })}>
                {boot.spanName(span)}
            </button>{" "}
            {short(part, boot.unit)}
            {Number(whole) > part ? <span class="faint"> of {short(whole, boot.unit)}</span> : null}
        </li>
    );
}

/** A row that the evidence ties only to a phase. The phase is its place in time. */
function OnlyPhase({ store, name }: { store: Store; name: string }) {
    const { boot } = store;
    const phases = boot.summary.phases.filter(phase => `(${phase.name})` === name);
    const show = (from: number, to: number): void => {
        store.set({ view: "tracks", selection: { kind: "range", from, to } });
        store.zoomToSelected();
    };
    return (
        <>
            <p>No span and no thread stands for it: no evidence says more of this time than its phase.</p>
            <ul class="list">
                {phases.map((phase, i) => (
                    <li key={i}>
                        <button type="button" class="pick" onClick={() => show(Number(phase.start_ns), Number(phase.end_ns))}>
                            {phase.name}
                        </button>{" "}
                        {short(difference(whole(phase.end_ns), whole(phase.start_ns)), boot.unit)}
                    </li>
                ))}
            </ul>
        </>
    );
}

function ThingDetails({ store, thing, name }: { store: Store; thing: number; name: string }) {
    const { boot } = store;
    const { spans, count } = useMemo(() => boot.spansOfThing(thing, MAX_PLACES), [boot, boot.version, thing]);
    const stays = useMemo(
        () =>
            thing > 0
                ? boot.stays
                      .filter(stay => stay.chain.length > 1 && boot.track(stay.owner.track)?.thing === thing)
                      .sort((a, b) => b.to - b.from - (a.to - a.from))
                : [],
        [boot, boot.version, thing],
    );
    return (
        <>
            <h2>{name}</h2>
            {count > 0 ? (
                <>
                    <p class="faint">
                        {counted(count, "place")}
                        {count > spans.length ? `; the longest ${spans.length}` : ""}
                    </p>
                    <SpanTable store={store} label={`Places of ${name}`} spans={spans} />
                </>
            ) : null}
            {stays.length > 0 ? (
                <>
                    <h3>Steps of the boot path that waited for it, the longest first</h3>
                    <ul class="list">
                        {stays.slice(0, 200).map(stay => (
                            <li key={stay.index}>
                                <button
                                    type="button"
                                    class="pick"
                                    onClick={() => {
                                        store.set({ view: "path" });
                                        store.select({ kind: "stay", stay: stay.index });
                                    }}
                                >
                                    {short(stay.to - stay.from, boot.unit)} at {short(stay.from, boot.unit)}
                                </button>
                            </li>
                        ))}
                        {stays.length > 200 ? <li>and {stays.length - 200} more</li> : null}
                    </ul>
                </>
            ) : null}
            {count === 0 && stays.length === 0 ? <OnlyPhase store={store} name={name} /> : null}
        </>
    );
}
