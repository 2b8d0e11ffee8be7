// Text on the fills of charts is readable in both themes: a contrast of 4.5 or more (WCAG AA).
import assert from "node:assert/strict";
import test from "node:test";
import { load } from "./bundle.mjs";

const { LIGHT, DARK } = await load("charts/colours.ts");

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
