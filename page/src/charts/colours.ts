// The colours of charts. The hues are those of Okabe and Ito, which colour-blind readers can distinguish. Anything that a colour
// says also has a text, a pattern or a place. Text on colours has a contrast of 4.5 or more in both themes (test/colours.test.mjs).

/** The work or wait of a boot at a moment. charts/meaning.ts says which step of the boot path has which. */
export type Meaning = "computing" | "computing or waiting" | "run queue" | "disk" | "device" | "waiting" | "idle";

export interface Palette {
    readonly background: string;
    readonly gutter: string;
    readonly line: string;
    readonly text: string;
    readonly faint: string;
    readonly onFill: string;
    /** Tones by the kind of span, several of each kind, so that neighbours differ. */
    readonly kinds: Readonly<Record<string, readonly string[]>>;
    readonly other: readonly string[];
    /** Colours of phases; `phaseColour` chooses one by the name. */
    readonly phases: readonly string[];
    /** Colours of thin lines and small squares, without text on them. */
    readonly lines: readonly string[];
    readonly unexplained: string;
    readonly path: string;
    readonly arrow: string;
    readonly meanings: Readonly<Record<Meaning, string>>;
    readonly selected: string;
    readonly found: string;
    readonly marked: string;
    readonly dense: string;
}

/** Tones of one hue: 0 to 360, saturation in percent, the first lightness and the step. */
const tones = (hue: number, saturation: number, lightness: number, step: number): string[] =>
    [0, 1, 2, 3].map(i => hsl(hue, saturation, lightness + i * step));

/** The colour as `#rrggbb`, because an SVG reader may not support `hsl()`. */
export function hsl(hue: number, saturation: number, lightness: number): string {
    const [s, l] = [saturation / 100, lightness / 100];
    const part = (n: number): string => {
        const k = (n + hue / 30) % 12;
        const value = l - s * Math.min(l, 1 - l) * Math.max(-1, Math.min(k - 3, 9 - k, 1));
        return Math.round(value * 255)
            .toString(16)
            .padStart(2, "0");
    };
    return `#${part(0)}${part(8)}${part(4)}`;
}

const HUES: Readonly<Record<string, readonly [number, number]>> = {
    stage: [202, 65],
    level: [202, 30],
    initcall: [36, 90],
    module: [326, 40],
    probe: [164, 70],
    attach: [164, 45],
    mount: [56, 70],
    work: [202, 80],
    call: [36, 55],
    interrupt: [14, 75],
    process: [326, 55],
    message: [210, 8],
};

function kinds(lightness: number, step: number, share: number): Record<string, string[]> {
    return Object.fromEntries(
        Object.entries(HUES).map(([kind, [hue, saturation]]) => [kind, tones(hue, saturation * share, lightness, step)]),
    );
}

const PHASES: readonly (readonly [number, number])[] = [
    [202, 65],
    [36, 90],
    [164, 60],
    [326, 45],
    [56, 75],
    [14, 70],
    [202, 35],
    [265, 40],
];

/** The index in `PHASES` of phases of these names, so that a phase has the same colour in every boot. */
const PHASES_BY_NAME: readonly (readonly [RegExp, number])[] = [
    [/^VMM/, 7],
    [/^(firmware|BIOS|UEFI|SeaBIOS|coreboot)/i, 2],
    [/^(loader|decompressor|setup code|boot ?loader|GRUB)/i, 4],
    [/^(after the last initcall|hand-over)/, 5],
    [/initcall|^SYSINITs|device|driver/i, 1],
    [/machine-dependent/, 6],
    [/process 1|user|service|initrd|initramfs|guestfsd/i, 3],
    [/kernel/i, 0],
];

/** The colour of a phase, by its name. */
export function phaseColour(palette: Palette, name: string): string {
    if (name === "unexplained") return palette.unexplained;
    const known = PHASES_BY_NAME.find(([pattern]) => pattern.test(name));
    return palette.phases[known ? known[1] : (toneOf(name) * 2 + 1) % palette.phases.length]!;
}

const LINES: readonly (readonly [number, number])[] = [
    [202, 100],
    [20, 95],
    [164, 90],
    [300, 45],
    [45, 95],
    [265, 60],
    [340, 75],
    [90, 60],
];

export const LIGHT: Palette = {
    background: "#ffffff",
    gutter: "#f6f5f2",
    line: "#d9d6cf",
    text: "#1c1b19",
    faint: "#5d5a54",
    onFill: "#1c1b19",
    kinds: kinds(70, 4, 1),
    other: tones(40, 10, 78, 3),
    phases: PHASES.map(([h, s]) => hsl(h, s, 74)),
    lines: LINES.map(([h, s]) => hsl(h, s, h > 40 && h < 170 ? 30 : 40)),
    unexplained: "#d5d2cc",
    path: "#b3261e",
    arrow: "#b3261e",
    meanings: {
        computing: "#2f7d4f",
        "computing or waiting": "#6f8aa3",
        "run queue": "#e0a100",
        disk: "#0b6fb8",
        device: "#d98bc4",
        waiting: "#98938a",
        idle: "#c9c5be",
    },
    selected: "#0b57d0",
    found: "#f06ba8",
    marked: "rgba(11,87,208,0.12)",
    dense: "#a8957a",
};

export const DARK: Palette = {
    background: "#16181a",
    gutter: "#1e2124",
    line: "#3a3f44",
    text: "#eceae6",
    faint: "#a8a49c",
    onFill: "#f7f5f1",
    kinds: kinds(21, 3, 0.75),
    other: tones(40, 8, 26, 3),
    phases: PHASES.map(([h, s]) => hsl(h, s * 0.7, 29)),
    lines: LINES.map(([h, s]) => hsl(h, s, 66)),
    unexplained: "#44474a",
    path: "#ff8a80",
    arrow: "#ff8a80",
    meanings: {
        computing: "#5fbf86",
        "computing or waiting": "#b5c7d3",
        "run queue": "#f0c04a",
        disk: "#3f8fd6",
        device: "#d890d2",
        waiting: "#7d8287",
        idle: "#4a4e52",
    },
    selected: "#8ab4f8",
    found: "#b3215f",
    marked: "rgba(138,180,248,0.18)",
    dense: "#6d604c",
};

/** A number that is always the same for a text, to choose one of several tones. */
export function toneOf(text: string): number {
    let hash = 0;
    for (let i = 0; i < Math.min(text.length, 64); i += 1) hash = (hash * 31 + text.charCodeAt(i)) | 0;
    return (hash >>> 3) & 3;
}

export function isDark(theme: "system" | "light" | "dark"): boolean {
    return theme === "dark" || (theme === "system" && matchMedia("(prefers-color-scheme: dark)").matches);
}
