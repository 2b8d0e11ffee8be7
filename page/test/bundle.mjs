// Loads a TypeScript module of the application into a test.
import { build } from "esbuild";

export async function load(path) {
    const { outputFiles } = await build({
        entryPoints: [new URL(`../src/${path}`, import.meta.url).pathname],
        bundle: true,
        format: "esm",
        target: "es2022",
        write: false,
        platform: "neutral",
        jsx: "automatic",
        jsxImportSource: "preact",
    });
    return import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].text).toString("base64")}`);
}
