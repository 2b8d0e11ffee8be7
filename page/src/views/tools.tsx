// The tools at the right of the header: saving a view, the theme, the list of keys.
import { csv, Svg, save } from "../lib/save";
import { type Store, type Theme, toFragment } from "../state";

interface Saved {
    readonly store: Store;
    readonly name: string;
    readonly view: string;
    /** True if the view has a picture, and if it has a table. */
    readonly canDraw: boolean;
    readonly canList: boolean;
}

export function Tools({ children, ...saved }: Saved & { children?: preact.ComponentChildren }) {
    const { store } = saved;
    return (
        <span class="tools">
            {children}
            <Save {...saved} />
            <label class="unseen" for="theme">
                colours
            </label>
            <select id="theme" value={store.state.theme} onChange={event => store.set({ theme: event.currentTarget.value as Theme })}>
                <option value="system">system</option>
                <option value="light">light</option>
                <option value="dark">dark</option>
            </select>
            <button type="button" aria-label="keys and help" onClick={() => store.set({ help: true })}>
                ?
            </button>
        </span>
    );
}

function Save({ store, name, view, canDraw, canList }: Saved) {
    const file = (ending: string): string => `${name.replace(/[^A-Za-z0-9._-]+/g, "-").slice(0, 60)}-${view}.${ending}`;
    const does: Record<string, () => void> = {
        svg: () => {
            const { draw } = store.target;
            if (!draw) return;
            const svg = new Svg(draw.width, draw.height);
            draw.on(svg);
            save(file("svg"), new Blob([svg.text()], { type: "image/svg+xml" }));
        },
        png: () => {
            const { draw } = store.target;
            if (!draw) return;
            const canvas = document.createElement("canvas");
            [canvas.width, canvas.height] = [draw.width * 2, draw.height * 2];
            const context = canvas.getContext("2d");
            if (!context) return;
            context.scale(2, 2);
            draw.on(context);
            canvas.toBlob(blob => blob && save(file("png"), blob));
        },
        csv: () => {
            const rows = store.target.rows?.();
            if (rows) save(file("csv"), new Blob([csv(rows)], { type: "text/csv" }));
        },
        link: () => void navigator.clipboard?.writeText(`${location.href.replace(/#.*/, "")}#${toFragment(store.state, store.subject)}`),
        print: () => window.print(),
    };
    return (
        <>
            <label class="unseen" for="save">
                save
            </label>
            <select
                id="save"
                value=""
                onChange={event => {
                    does[event.currentTarget.value]?.();
                    event.currentTarget.value = "";
                }}
            >
                <option value="">save…</option>
                {canDraw ? <option value="svg">the picture as SVG</option> : null}
                {canDraw ? <option value="png">the picture as PNG</option> : null}
                {canList ? <option value="csv">the table as CSV</option> : null}
                <option value="link">copy the link</option>
                <option value="print">print all tables</option>
            </select>
        </>
    );
}
