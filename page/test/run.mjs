// Runs all tests of the page, two files at a time: a browser leaves one of two CPUs idle.
import { readdirSync } from "node:fs";
import { run } from "node:test";
import { tap } from "node:test/reporters";

const folders = ["./", "./browser/"].map(folder => new URL(folder, import.meta.url));
const isTest = url => url.pathname.endsWith(".test.mjs");
const files = folders
    .flatMap(folder => readdirSync(folder).map(name => new URL(name, folder)))
    .filter(isTest)
    .map(url => url.pathname);
run({ files, concurrency: 2 })
    .on("test:fail", () => {
        process.exitCode = 1;
    })
    .compose(tap)
    .pipe(process.stdout);
