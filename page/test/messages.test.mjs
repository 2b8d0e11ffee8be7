// The lanes of messages of a made boot, and the names of tracks, compared with what a reader would write down.
import assert from "node:assert/strict";
import test from "node:test";
import { load } from "./bundle.mjs";

const { messageLanes, speakerOf } = await load("data/messages.ts");
const { labelsOf } = await load("data/model.ts");

/** A boot of 100 ns whose tracks 0 and 1 are a log and a thread, and 2 and 3 units. */
const boot = (marks, running = []) => ({
    marks,
    running,
    calls: undefined,
    unit: "ns",
    total: 100,
    extent: { from: 0, to: 100 },
    track: id =>
        [
            { kind: "console", name: "kernel log", label: "kernel log" },
            { kind: "thread", name: "init", label: "init [1]" },
            { kind: "thread", name: "ssh.service", label: "ssh.service" },
            { kind: "thread", name: "net.target", label: "net.target" },
        ][id],
});
const marks = list => list.map(([at, name, track = 0]) => ({ at, name, track }));
const shown = lanes => lanes.map(({ name, all }) => [name, all.map(({ from, text }) => [from, text])]);

test("a message's speaker is what stands before its colon", () => {
    const cases = [
        ["systemd[1]: systemd 230 running", "systemd"],
        ["ata2 (slot 4): SATA link up", "ata2"],
        ["ata3 : SATA link down", "ata3"],
        ["pci 0000:00:01.0: [8086:7000] type 00", "pci"],
        ["Freeing unused kernel memory: 6220K", undefined],
        ["[00:00:00.004,638] <dbg> main", undefined],
        ["", undefined],
    ];
    for (const [text, speaker] of cases) assert.equal(speakerOf(text), speaker, text);
});

test("a log has its gaps, a lane for each speaker of several messages, and one for the others", () => {
    const lanes = messageLanes(
        boot(
            marks([
                [0, "ata1: a"],
                [1, "usb: once"],
                [30, "ata1: b"],
                [31, "no speaker"],
                [60, "up", 3],
                [70, "late", 1],
            ]),
        ),
        track => track === 1,
    );
    // No lane for messages after the end.
    assert.deepEqual(
        messageLanes(boot(marks([[101, "ata1: a"]])), () => true),
        [],
    );
    assert.deepEqual(shown(lanes), [
        [
            "gaps between messages",
            [
                [1, "29 ns until “ata1: b”"],
                [0, "1 ns until “usb: once”"],
                [30, "1 ns until “no speaker”"],
            ],
        ],
        ["units that became active", [[60, "up"]]],
        [
            "ata1",
            [
                [0, "ata1: a"],
                [30, "ata1: b"],
            ],
        ],
        [
            "kernel log, others",
            [
                [1, "usb: once"],
                [31, "no speaker"],
            ],
        ],
    ]);
});

test("a boot with a trace has one lane for its log", () => {
    const lanes = messageLanes(
        boot(
            marks([
                [0, "ata1: a"],
                [30, "ata1: b"],
            ]),
            [{ track: 1, cpu: 0, from: 0, to: 100 }],
        ),
        () => true,
    );
    assert.deepEqual(shown(lanes), [
        [
            "kernel log",
            [
                [0, "ata1: a"],
                [30, "ata1: b"],
            ],
        ],
    ]);
});

test("tracks of one name have their place among them, threads their number, and made-up numbers are left out", () => {
    const names = ["firmware", "firmware", "init", "ssh.service", "thread0", "7"];
    const kinds = ["firmware", "firmware", "thread", "thread", "thread", "thread"];
    assert.deepEqual(labelsOf(names, kinds, [0n, 1n, 1n, 1n << 32n, 0xffff_ffff_8251_db00n, 7n]), [
        "firmware (1 of 2)",
        "firmware (2 of 2)",
        "init [1]",
        "ssh.service",
        "thread0 [0xffffffff8251db00]",
        "7",
    ]);
});
