// Fetches the packages that build the page, like `npm ci --omit=dev`. It is for machines with Node.js but without npm, which is 370
// packages in Debian. Each package must have the checksum in package-lock.json.

import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdir, mkdtemp, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";

const REGISTRY = process.env.npm_config_registry ?? "https://registry.npmjs.org/";

/** True if a package is for this machine. A package for one system names it. */
const isWanted = ({ dev, os, cpu }) =>
    !dev && (os ?? [process.platform]).includes(process.platform) && (cpu ?? [process.arch]).includes(process.arch);

async function fetched(name, { version, integrity }) {
    const url = new URL(`${name}/-/${name.split("/").at(-1)}-${version}.tgz`, REGISTRY);
    const answer = await fetch(url);
    if (!answer.ok) throw new Error(`${url}: ${answer.status} ${answer.statusText}`);
    const archive = Buffer.from(await answer.arrayBuffer());
    const [algorithm, wanted] = integrity.split(/-(.*)/);
    if (createHash(algorithm).update(archive).digest("base64") !== wanted) throw new Error(`${url}: not what package-lock.json expects`);
    return archive;
}

const { packages } = JSON.parse(await readFile("package-lock.json", "utf8"));
const folder = await mkdtemp("node_modules.");
try {
    for (const [place, one] of Object.entries(packages)) {
        if (!place || !isWanted(one)) continue;
        const name = place.replace(/^node_modules\//, "");
        const into = join(folder, name);
        await mkdir(into, { recursive: true });
        execFileSync("tar", ["--extract", "--gzip", "--strip-components=1", "--no-same-owner", "--directory", into], {
            input: await fetched(name, one),
        });
    }
    await writeFile(join(folder, ".package-lock.json"), "{}\n");
    await rm("node_modules", { recursive: true, force: true });
    await rename(folder, "node_modules");
} catch (error) {
    await rm(folder, { recursive: true });
    console.error(`${error.message}${error.cause ? ` (${error.cause.message})` : ""}`);
    process.exitCode = 1;
}
