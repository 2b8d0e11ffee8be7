// The memory of the machine, and what the boot took of it, as measured; several boots are side by side.
import type { Boot } from "../data/boot";
import { grouped, percent, type Whole, whole } from "../lib/time";
import type { Store } from "../state";

const MIB = 2 ** 20;

interface Amount {
    readonly name: string;
    /** The time of the measurement. */
    readonly when: string;
    readonly bytes: Whole;
}

/** The known amounts of a boot, with the machine's memory first. */
function amounts(boot: Boot): Amount[] {
    const has = whole(boot.summary.subject.memory_bytes);
    const machine: Amount[] = has > 0 ? [{ name: "the machine's memory", when: "", bytes: has }] : [];
    return [...machine, ...(boot.facts?.memory ?? []).map(([name, when, bytes]) => ({ name, when, bytes: whole(bytes) }))];
}

const mebibytes = (bytes: Whole): string => `${(Number(bytes) / MIB).toFixed(1)} MiB`;

/** An amount of one of several boots, with its share of that machine's memory. */
function OfBoot({ boot, bytes }: { boot: Boot; bytes: Whole | undefined }) {
    if (bytes === undefined) return null;
    const has = Number(boot.summary.subject.memory_bytes);
    return (
        <span data-bytes={String(bytes)} title={`${grouped(bytes)} bytes`}>
            {mebibytes(bytes)}
            {has > 0 ? <span class="faint"> {percent(Number(bytes) / has)}</span> : null}
        </span>
    );
}

export function Memory({ store }: { store: Store }) {
    const { boot } = store;
    const boots = store.boots.filter(one => one.facts);
    const all = boots.map(amounts);
    const shownAmounts = amounts(boot);
    const names = [...new Map(all.flat().map(one => [one.name, one])).values()];
    const largest = Math.max(...shownAmounts.map(one => Number(one.bytes)), 1);
    const has = Number(boot.summary.subject.memory_bytes);
    const bytesOf = (amounts: readonly Amount[], name: string): Whole | undefined => amounts.find(one => one.name === name)?.bytes;
    store.target = {
        rows: () => [
            ["what", "measured", ...boots.map(one => `${one.name} bytes`)],
            ...names.map(({ name, when }) => [name, when, ...all.map(amounts => bytesOf(amounts, name) ?? "")]),
        ],
    };
    const { watched } = boot.summary;
    return (
        <div class="memory-view scroll" tabIndex={0} role="region" aria-label="Memory">
            <h2>Memory</h2>
            {names.length === 0 ? (
                <p>This recording says nothing of memory: neither how much the machine had nor what the boot took.</p>
            ) : (
                <table class="plain" id="memory">
                    <thead>
                        <tr>
                            <th scope="col">what</th>
                            <th scope="col" class="spare">
                                measured
                            </th>
                            {boots.length > 1 ? (
                                boots.map((one, i) => (
                                    <th scope="col" class="n" key={i}>
                                        {one.name}
                                    </th>
                                ))
                            ) : (
                                <>
                                    <th scope="col" class="n">
                                        amount
                                    </th>
                                    <th scope="col" class="n spare">
                                        bytes
                                    </th>
                                    {has > 0 ? (
                                        <th scope="col" class="n">
                                            of the machine's
                                        </th>
                                    ) : null}
                                    <th scope="col" class="spare">
                                        <span class="unseen">as a bar</span>
                                    </th>
                                </>
                            )}
                        </tr>
                    </thead>
                    <tbody>
                        {names.map(({ name, when }) => {
                            const bytes = bytesOf(shownAmounts, name);
                            return (
                                <tr key={name} data-bytes={bytes === undefined ? "" : String(bytes)}>
                                    <th scope="row">{name}</th>
                                    <td class="spare">{when}</td>
                                    {boots.length > 1 ? (
                                        boots.map((one, i) => (
                                            <td class="n" key={i}>
                                                <OfBoot boot={one} bytes={bytesOf(all[i]!, name)} />
                                            </td>
                                        ))
                                    ) : (
                                        <>
                                            <td class="n">{bytes === undefined ? "" : mebibytes(bytes)}</td>
                                            <td class="n spare">{bytes === undefined ? "" : grouped(bytes)}</td>
                                            {has > 0 ? <td class="n">{bytes === undefined ? "" : percent(Number(bytes) / has)}</td> : null}
                                            <td class="spare">
                                                {bytes === undefined ? null : (
                                                    <span
                                                        class="bar"
                                                        style={{ width: `${(Number(bytes) / largest) * 200}px` }}
                                                        aria-hidden="true"
                                                    />
                                                )}
                                            </td>
                                        </>
                                    )}
                                </tr>
                            );
                        })}
                    </tbody>
                </table>
            )}
            {shownAmounts.length === 1 && has > 0 ? <p>Nothing was measured of what the boot took of it.</p> : null}
            <p>
                {watched && watched.readings.length > 0 ? (
                    <>
                        How memory changed over time is not recorded. The values of {watched.variable || "the watched variable"} stand in{" "}
                        <button type="button" class="link" onClick={() => store.set({ view: "tracks" })}>
                            Tracks
                        </button>
                        .
                    </>
                ) : (
                    <>
                        How memory changed over time is not recorded. <code>bootscope record --watch</code> reads a variable of the kernel
                        during a boot.
                    </>
                )}
            </p>
        </div>
    );
}
