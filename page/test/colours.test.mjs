// Text on the fills of charts is readable in both themes: a contrast of 4.5 or more (WCAG AA).
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import test from "node:test";
import { load } from "./bundle.mjs";

const { LIGHT, DARK, phaseColour } = await load("charts/colours.ts");
const { HEIGHTS, MEANINGS } = await load("charts/meaning.ts");

/** The lightness of a colour, 0 to 1, by WCAG. */
const lightness = colour => {
    const [r, g, b] = [1, 3, 5]
        .map(i => parseInt(colour.slice(i, i + 2), 16) / 255)
        .map(c => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const contrast = (one, other) => {
    const [dark, light] = [lightness(one), lightness(other)].sort((a, b) => a - b);
    return (light + 0.05) / (dark + 0.05);
};

for (const [name, palette] of Object.entries({ LIGHT, DARK })) {
    test(`${name}: text on every fill can be read`, () => {
        const fills = {
            ...palette.kinds,
            other: palette.other,
            phases: palette.phases,
            found: [palette.found],
            unexplained: [palette.unexplained],
        };
        for (const [of, colours] of Object.entries(fills)) {
            for (const colour of colours)
                assert.ok(contrast(colour, palette.onFill) >= 4.5, `${of} ${colour}: ${contrast(colour, palette.onFill).toFixed(2)}`);
        }
    });
}

test("a phase has the colour of its name, in every boot", () => {
    for (const palette of [LIGHT, DARK]) {
        const of = name => phaseColour(palette, name);
        assert.equal(of("VMM: exec"), of("VMM: start vCPUs"));
        assert.equal(of("initcalls: early"), of("initcalls: those in the log"));
        assert.equal(of("unexplained"), palette.unexplained);
        const apart = ["VMM: exec", "firmware", "loader", "early kernel", "initcalls: all levels", "hand-over", "process 1"];
        assert.equal(new Set(apart.map(of)).size, apart.length);
    }
});

test("pictures and the terminal's screen have the page's colours of phases", async () => {
    const colours = JSON.parse(await readFile(new URL("phase-colours.json", import.meta.url), "utf8"));
    for (const [name, colour] of Object.entries(colours)) assert.equal(phaseColour(LIGHT, name), colour, name);
});

/** A colour as an eye without green cones sees it (Machado, Oliveira and Fernandes, 2009). */
const withoutGreen = colour => {
    const [r, g, b] = [1, 3, 5].map(i => parseInt(colour.slice(i, i + 2), 16));
    return [0.367 * r + 0.861 * g - 0.228 * b, 0.28 * r + 0.673 * g + 0.047 * b, -0.012 * r + 0.043 * g + 0.969 * b];
};

test("meanings are told apart by readers with colour blindness, and without colour by their height or lightness", () => {
    for (const palette of [LIGHT, DARK]) {
        MEANINGS.forEach((one, i) => {
            for (const other of MEANINGS.slice(i + 1)) {
                const [a, b] = [palette.meanings[one], palette.meanings[other]];
                const seen = [withoutGreen(a), withoutGreen(b)];
                assert.ok(Math.hypot(...seen[0].map((value, k) => value - seen[1][k])) > 35, `${one} and ${other}`);
                const isHigher = Math.abs(HEIGHTS[one] - HEIGHTS[other]) >= 0.1;
                assert.ok(isHigher || Math.abs(lightness(a) - lightness(b)) > 0.1, `${one} and ${other} in print`);
            }
        });
    }
});
