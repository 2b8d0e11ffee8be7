// The meanings that all charts share: each has a colour, and a height that tells it apart without colour, on paper too.
import type { Boot, Stay } from "../data/boot";
import { isLog } from "../data/messages";
import type { Meaning, Palette } from "./colours";

export const MEANINGS: readonly Meaning[] = ["computing", "computing or waiting", "run queue", "disk", "device", "waiting", "idle"];

/** The share of a strip's height that a meaning fills. */
export const HEIGHTS: Readonly<Record<Meaning, number>> = {
    computing: 1,
    "computing or waiting": 0.8,
    "run queue": 0.6,
    disk: 0.6,
    device: 0.35,
    waiting: 0.2,
    idle: 0.1,
};

const DISK = /disk|block|\bbio\b|virtio\d*-(req|blk)|vblk|nvme|\bata|ahci|scsi|\bsd[a-z]\b|mmcblk|\bI\/O\b|pagein|biord/i;

/** False for a plain log: its messages do not show if a thread computed or waited between them. */
const showsRunning = (boot: Boot): boolean => !boot.isWhole || boot.waits.length > 0 || !isLog(boot);

/** The meaning of a step of the boot path. A name that says nothing of a disk or a device leaves a plain wait. */
export function meaningOf(boot: Boot, stay: Stay): Meaning {
    switch (stay.kind) {
        case "running":
            return boot.track(stay.owner.track)?.idle ? "idle" : showsRunning(boot) ? "computing" : "computing or waiting";
        case "runqueue":
            return "run queue";
        case "interrupt":
            return DISK.test(stay.on) ? "disk" : "device";
        case "topic":
            return DISK.test(stay.on) ? "disk" : "waiting";
        case "wait":
            return "waiting";
    }
}

export function colourOf(palette: Palette, meaning: Meaning): string {
    return palette.meanings[meaning];
}
