// The page's application. Its data follows it in the file, and arrives part by part while the application already runs.
import { render } from "preact";
import { useEffect } from "preact/hooks";
import "./style.css";
import { DARK, isDark, LIGHT, type Palette } from "./charts/colours";
import { type Boot, totalOf } from "./data/boot";
import { nextMatch, press } from "./keys";
import { counted, exact, grouped, short } from "./lib/time";
import { load } from "./load";
import { expression, LAKE_VIEWS, type LakeView, ofFragment, placeOf, Store, toFragment, useStore, VIEWS, type View } from "./state";
import { BenchViews, viewsOf } from "./views/bench";
import { Compare } from "./views/compare";
import { Console } from "./views/console";
import { Details } from "./views/details";
import { Findings } from "./views/findings";
import { Help } from "./views/help";
import { canDraw, LakeViews } from "./views/lake";
import { Memory } from "./views/memory";
import { Merged } from "./views/merged";
import { Overview, Strip } from "./views/overview";
import { Results } from "./views/results";
import { Timeline } from "./views/timeline";
import { Tools } from "./views/tools";
import { WhatIf } from "./views/whatif";
import { Where } from "./views/where";

const NAMES: Record<View, string> = {
    overview: "Overview",
    path: "Timeline",
    tracks: "Timeline",
    merged: "Merged",
    where: "Where",
    console: "Console",
    findings: "Findings",
    compare: "Compare",
    whatif: "What-if",
    memory: "Memory",
};

/** The views with the strip of phases above them. */
const WITH_STRIP: ReadonlySet<View> = new Set(["merged", "overview", "path", "tracks", "console"]);

/** True if a boot has something to show in a view. A part that is not read yet may bring it. */
function hasView(boot: Boot, view: View): boolean {
    const isUnread = !boot.isWhole;
    switch (view) {
        case "path":
            return false; // a switch of the timeline
        case "compare":
            return (boot.facts?.boots ?? 1) > 1;
        case "tracks":
            return isUnread || boot.instants.all.length > 0 || boot.tracks.some(track => boot.hasLane(track.id));
        case "where":
        case "whatif":
            return boot.summary.where.length > 0;
        case "console":
            return isUnread || boot.console.length + boot.kernelLog().length > 0;
        case "memory":
            return Number(boot.summary.subject.memory_bytes) > 0 || (boot.facts?.memory ?? []).length > 0 || boot.summary.watched !== null;
        default:
            return true;
    }
}

const LAKE_NAMES: Record<LakeView, string> = {
    time: "Over time",
    regressions: "Regressions",
    rows: "Where",
    machines: "Machines",
    pays: "What pays",
};

/** Browsers refuse frequent changes of the address: Safari refuses after a hundred in half a minute. */
const ADDRESS_EVERY_MS = 400;

/**
 * Writes fragments into the address: the first at once, and of those that follow soon after, only the last. A move to another
 * place gets an entry in the history, so that Back leads to the place before.
 */
function addressWriter(): (fragment: string, place: string | undefined) => void {
    let [latest, written, timer] = ["", -Infinity, 0];
    let [at, isElsewhere] = [undefined as string | undefined, false];
    const write = (): void => {
        [written, timer] = [performance.now(), 0];
        delete document.documentElement.dataset.addressDue;
        if (location.hash.slice(1) !== latest) history[isElsewhere ? "pushState" : "replaceState"](null, "", `#${latest}`);
        isElsewhere = false;
    };
    return (fragment, place) => {
        // Back, Forward and links bring their own history entry.
        const isThere = location.hash.slice(1) === fragment;
        isElsewhere = !isThere && (isElsewhere || (at !== undefined && place !== undefined && place !== at));
        [latest, at] = [fragment, place];
        if (timer !== 0) return;
        const wait = written + ADDRESS_EVERY_MS - performance.now();
        if (wait <= 0) write();
        else {
            timer = window.setTimeout(write, wait);
            document.documentElement.dataset.addressDue = "";
        }
    };
}

const showAddress = addressWriter();

function App({ store }: { store: Store }) {
    useStore(store);
    const { boot, state } = store;
    const dark = isDark(state.theme);
    const palette = dark ? DARK : LIGHT;
    useEffect(() => {
        document.documentElement.dataset.theme = dark ? "dark" : "light";
    }, [dark]);
    const { subject } = store;
    const isThere = boot.facts !== undefined || subject !== "boots";
    const fragment = toFragment(state, subject);
    // While a page is being read, its first view may still change.
    const place = store.isWhole || store.wrong.length > 0 ? placeOf(state, subject) : undefined;
    useEffect(() => {
        if (isThere) showAddress(fragment, place);
    }, [fragment, place, isThere]);
    useEffect(() => {
        if (boot.stays.length > 0 || subject !== "boots") performance.mark("bootscope-first-picture");
    }, [boot.stays.length > 0, subject]);
    useEffect(() => {
        if (store.isWhole) performance.mark("bootscope-whole");
    }, [store.isWhole]);
    useEffect(() => {
        // Without data the page has only its tables, so these are shown.
        const isAlone = !isThere && store.wrong.length > 0;
        document.body.classList.toggle("no-data", isAlone);
        document.querySelector("style")?.setAttribute("media", isAlone ? "all" : "print");
    }, [isThere, store.wrong.length]);
    if (store.lake) return <LakeApp store={store} palette={palette} />;
    if (store.bench) return <BenchApp store={store} palette={palette} />;
    if (!boot.facts) return store.wrong.length > 0 ? <Wrong store={store} /> : <p class="note">Reading…</p>;
    store.target = {};
    return (
        <>
            <Header store={store} />
            <Wrong store={store} />
            {WITH_STRIP.has(state.view) && boot.summary.phases.length + boot.stays.length > 0 ? (
                <Strip store={store} palette={palette} />
            ) : null}
            <main class={`view ${state.view}`} key={state.shown}>
                {state.view === "overview" ? (
                    <Beside store={store}>
                        <Overview store={store} palette={palette} />
                    </Beside>
                ) : null}
                {state.view === "path" ? (
                    <Beside store={store}>
                        <Timeline store={store} palette={palette} only="path" key="path" />
                    </Beside>
                ) : null}
                {state.view === "tracks" ? (
                    <Beside store={store}>
                        <Timeline store={store} palette={palette} only="all" key="tracks" />
                    </Beside>
                ) : null}
                {state.view === "merged" ? <Merged store={store} palette={palette} /> : null}
                {state.view === "where" ? <Where store={store} /> : null}
                {state.view === "console" ? <Console store={store} /> : null}
                {state.view === "findings" ? <Findings store={store} /> : null}
                {state.view === "whatif" ? <WhatIf store={store} /> : null}
                {state.view === "memory" ? <Memory store={store} /> : null}
                {state.view === "compare" ? (
                    store.boots.length > 1 ? (
                        <Compare store={store} palette={palette} />
                    ) : (
                        <p class="note">
                            This page has one boot. <code>bootscope report boots/a boots/b -o ab.html</code> compares two to eight.
                        </p>
                    )
                ) : null}
            </main>
            {state.help ? <Help store={store} /> : null}
        </>
    );
}

/** A page of a bench: other views in the same frame. */
function BenchApp({ store, palette }: { store: Store; palette: Palette }) {
    const { state } = store;
    const bench = store.bench!;
    const views = viewsOf(bench);
    const view = views.find(([id]) => id === state.bench.view)?.[0] ?? "spread";
    const kernel = bench.variants[0]?.booted.kernel;
    const name = kernel ? `Bench of ${kernel}` : "Bench";
    const counting = bench.boots.filter(one => one.round !== null).length;
    store.target = {};
    return (
        <>
            <header>
                <h1 title={name}>{name}</h1>
                <strong id="boots" data-boots={counting}>
                    {counted(counting, "boot")}
                </strong>
                <nav aria-label="views">
                    {views.map(([id, text], i) => (
                        <button
                            type="button"
                            key={id}
                            aria-current={id === view ? "page" : undefined}
                            title={`key ${i + 1}`}
                            onClick={() => store.set({ bench: { ...store.state.bench, view: id } })}
                        >
                            {text}
                        </button>
                    ))}
                </nav>
                <Tools store={store} name={name} view={view} canDraw={view !== "against"} canList />
            </header>
            <Wrong store={store} />
            <main class={`view ${view}`}>
                <BenchViews store={store} bench={bench} palette={palette} />
            </main>
            {state.help ? <Help store={store} /> : null}
        </>
    );
}

/** A page of a lake: other views in the same frame. */
function LakeApp({ store, palette }: { store: Store; palette: Palette }) {
    const { state } = store;
    const lake = store.lake!;
    const { view } = state.lake;
    const name = lake.lake ? `Lake ${lake.lake}` : "Lake";
    const { days } = lake;
    store.target = {};
    return (
        <>
            <header>
                <h1 title={name}>{name}</h1>
                <strong id="boots" data-boots={lake.boots}>
                    {counted(lake.boots, "boot")}
                </strong>
                <span>
                    {counted(lake.machines, "machine")}
                    {days.length > 0 ? `, ${days[0]} to ${days[days.length - 1]}` : ""}
                </span>
                <nav aria-label="views">
                    {LAKE_VIEWS.map((id, i) => (
                        <button
                            type="button"
                            key={id}
                            aria-current={id === view ? "page" : undefined}
                            title={`key ${i + 1}`}
                            onClick={() => store.set({ lake: { ...store.state.lake, view: id } })}
                        >
                            {LAKE_NAMES[id]}
                            {id === "regressions" ? ` (${grouped(lake.regressions.length)})` : ""}
                        </button>
                    ))}
                </nav>
                <Tools store={store} name={name} view={view} canDraw={canDraw(store, lake)} canList />
            </header>
            <Wrong store={store} />
            <main class={`view ${view}`}>
                <LakeViews store={store} lake={lake} palette={palette} />
            </main>
            {state.help ? <Help store={store} /> : null}
        </>
    );
}

function Beside({ store, children }: { store: Store; children: preact.ComponentChildren }) {
    return (
        <div class="beside">
            <div class="chart">{children}</div>
            <div class="below">
                {store.state.find === "" ? null : <Results store={store} />}
                <Details store={store} />
            </div>
        </div>
    );
}

function Wrong({ store }: { store: Store }) {
    const warnings = store.boot.facts?.summary.warnings ?? [];
    return (
        <>
            {[...store.wrong, ...warnings.map(text => `Warning: ${text}.`)].map((text, i) => (
                <p class="warning" role="alert" key={i}>
                    {text}
                </p>
            ))}
        </>
    );
}

function Header({ store }: { store: Store }) {
    const { boot, state } = store;
    const { summary, unit } = boot;
    const name = `${summary.subject.os} ${summary.subject.kernel}`.trim() || (totalOf(boot) > 0 ? "A boot" : "A profile");
    const isBroken = state.find !== "" && !expression(state.find);
    const matches = state.find && !isBroken ? store.matches() : [];
    const rows = matches.length === 0 && !isBroken ? store.rowsFound() : 0;
    const total = totalOf(boot);
    const [sampled] = summary.sampled?.events ?? [];
    const read = boot.spans.count;
    const isFlame = state.view === "compare" && state.compare.table === "flame";
    const canDraw = ["overview", "path", "tracks", "merged"].includes(state.view) || isFlame;
    const canList = state.view !== "overview" && !isFlame;
    return (
        <header>
            <h1 title={name}>{name}</h1>
            {store.boots.length > 1 ? (
                <>
                    <label class="unseen" for="boot">
                        which boot
                    </label>
                    <select
                        id="boot"
                        value={state.shown}
                        onChange={event =>
                            store.set({
                                shown: Number(event.currentTarget.value),
                                selection: undefined,
                                window: undefined,
                                folded: new Set(),
                                savings: new Map(),
                            })
                        }
                    >
                        {store.boots.map((one, i) => (
                            <option key={i} value={i}>
                                {one.facts ? one.name : "…"}
                            </option>
                        ))}
                    </select>
                </>
            ) : null}
            <strong id="total" data-ns={String(total)} title={exact(total, unit)}>
                {total > 0 || !sampled ? short(total, unit) : counted(Number(sampled.samples), "sample")}
            </strong>
            <span class={`outcome ${summary.outcome === "reached" ? "good" : summary.outcome === "imported" ? "" : "bad"}`}>
                {summary.outcome || "outcome unknown"}
            </span>
            <nav aria-label="views">
                {VIEWS.filter(view => hasView(boot, view)).map(view => (
                    <button
                        type="button"
                        key={view}
                        aria-current={state.view === view || (view === "tracks" && state.view === "path") ? "page" : undefined}
                        title={`key ${view === "memory" ? "M" : VIEWS.indexOf(view) + 1}`}
                        onClick={() => store.set({ view })}
                    >
                        {NAMES[view]}
                    </button>
                ))}
            </nav>
            <span class="search">
                <label class="unseen" for="find">
                    search spans and console
                </label>
                <input
                    id="find"
                    type="search"
                    placeholder="search /"
                    value={state.find}
                    aria-invalid={isBroken}
                    onInput={event => store.set({ find: event.currentTarget.value })}
                    onKeyDown={event => {
                        if (event.key === "Enter") nextMatch(store, event.shiftKey ? -1 : 1);
                    }}
                />
                <output id="found" aria-live="polite">
                    {state.find === ""
                        ? ""
                        : isBroken
                          ? "not a regular expression"
                          : matches.length === 0
                            ? rows > 0
                                ? `no span, ${counted(rows, "row")}`
                                : "no span"
                            : `${grouped(matches.length)} ${matches.length === 1 ? "span" : "spans"}`}
                </output>
            </span>
            <Tools store={store} name={name} view={state.view} canDraw={canDraw} canList={canList}>
                {store.isWhole ? null : (
                    <span class="faint" id="reading">
                        {boot.facts && boot.facts.spans > 0 ? `reading, ${Math.floor((read / boot.facts.spans) * 100)} %` : "reading"}
                    </span>
                )}
            </Tools>
        </header>
    );
}

function start(): void {
    const place = document.createElement("div");
    place.id = "app";
    document.body.prepend(place);
    // The first style sheet is that of the tables, which from now on are for paper only.
    document.querySelector("style")?.setAttribute("media", "print");
    const store = new Store();
    store.state = { ...store.state, ...ofFragment(location.hash) };
    addEventListener("hashchange", () => {
        if (location.hash.slice(1) !== toFragment(store.state, store.subject)) store.set(ofFragment(location.hash));
    });
    addEventListener("keydown", event => {
        if (press(store, event)) event.preventDefault();
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => store.changed());
    render(<App store={store} />, place);
    load(store);
}

start();
