// The legend of the charts. A swatch has the height of its meaning in a strip, so it can be read without colour.
import type { Palette } from "../charts/colours";
import { colourOf, HEIGHTS, MEANINGS, meaningOf } from "../charts/meaning";
import type { Store } from "../state";

const KINDS: readonly (readonly [string, string])[] = [
    ["initcall", "initcall"],
    ["work", "work"],
    ["call", "function"],
    ["module", "module, process"],
    ["probe", "probe"],
    ["mount", "mount"],
    ["interrupt", "interrupt"],
    ["message", "message"],
];

/** Lists the meanings that occur in the boot, and the kinds of spans that it has. */
export function Legend({ store, palette }: { store: Store; palette: Palette }) {
    const { boot, state } = store;
    const kinds = new Set(boot.labels.map(label => boot.facts?.kinds[label.kind] ?? ""));
    const present = KINDS.filter(([kind]) => kinds.has(kind) || (kind === "module" && kinds.has("process")));
    const happens = new Set(boot.stays.map(stay => meaningOf(boot, stay)));
    if (state.view !== "overview" && boot.waits.length > 0)
        for (const meaning of ["computing", "run queue", "waiting"] as const) happens.add(meaning);
    return (
        <ul class="legend" aria-label="Legend">
            {MEANINGS.filter(meaning => happens.has(meaning)).map(meaning => (
                <li key={meaning}>
                    <span class="sample">
                        <span style={{ background: colourOf(palette, meaning), height: `${Math.max(HEIGHTS[meaning] * 10, 1)}px` }} />
                    </span>
                    {meaning}
                </li>
            ))}
            {boot.stays.length > 0 && (state.view === "path" || state.view === "tracks") ? (
                <li>
                    <span class="sample">
                        <span style={{ background: palette.path, height: "4px" }} />
                    </span>
                    boot path
                </li>
            ) : null}
            {present.map(([kind, name]) => (
                <li key={kind}>
                    <span class="sample">
                        <span style={{ background: palette.kinds[kind]?.[1] ?? palette.other[0]!, height: "10px" }} />
                    </span>
                    {name}
                </li>
            ))}
        </ul>
    );
}
