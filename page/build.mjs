// Builds the page's application: dist/page.js and dist/page.css, which the program embeds. The workers are bundled first and
// embedded in the script as text. The page starts them from memory, because it has no other file. The script is compressed: what
// remains as text unpacks and starts it.

import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { deflateSync } from "node:zlib";
import { build, transform } from "esbuild";

const common = { bundle: true, format: "iife", target: "es2022", minify: true, write: false, charset: "utf8", legalComments: "none" };

const worker = await build({ ...common, entryPoints: ["src/data/worker.ts"] });
const whatIf = await build({ ...common, entryPoints: ["src/data/whatif-worker.ts"] });
const page = await build({
    ...common,
    entryPoints: ["src/main.tsx"],
    outdir: "dist",
    jsx: "automatic",
    jsxImportSource: "preact",
    define: { WORKER: JSON.stringify(worker.outputFiles[0].text), WHAT_IF_WORKER: JSON.stringify(whatIf.outputFiles[0].text) },
});
// Preact's licence demands this notice.
const notice = `/* This has Preact in it (https://preactjs.com):\n\n${await readFile("node_modules/preact/LICENSE", "utf8")}*/\n`;

/** The script that unpacks another one and runs it, by the same nonce. */
async function packed(text) {
    const [{ code }, script] = [
        await transform(await readFile("src/unpack.js", "utf8"), { minify: true }),
        deflateSync(text, { level: 9 }),
    ];
    return `${notice}const PACKED="${script.toString("base64")}";${code}`;
}

await mkdir("dist", { recursive: true });
for (const file of page.outputFiles) {
    const name = file.path.endsWith(".css") ? "dist/page.css" : "dist/page.js";
    if (/<\/(script|style)/i.test(file.text)) {
        throw new Error(`${name} would end the element that it is put in`);
    }
    const text = name.endsWith(".js") ? await packed(file.text) : file.text;
    await writeFile(`${name}.new`, text);
    await rename(`${name}.new`, name);
    console.log(`${name}: ${(text.length / 1000).toFixed(1)} kB, ${(file.contents.length / 1000).toFixed(1)} kB before packing`);
}
