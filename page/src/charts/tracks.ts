// Tracks in order of time: a lane for each track, with its state, its spans by depth, and the boot path across all lanes.
import type { Boot, Stay, Track, TrackKind, Wait } from "../data/boot";
import type { Instant } from "../data/instants";
import type { Surface } from "../lib/save";
import type { Palette } from "./colours";
import {
    axis,
    Boxes,
    FONT,
    fitting,
    fittingName,
    type LabelColours,
    type MatchedLabels,
    ROW,
    type Scale,
    seenOf,
    spanRow,
    Texts,
    timeAt,
    x,
} from "./draw";

/** Width of the names of tracks. */
export function gutterOf(width: number): number {
    return Math.min(190, Math.round(width * 0.26));
}
export const AXIS = 20;
/** The left edge of the names of lanes; left of it is the mark of a track that can be folded. */
const NAME_LEFT = 18;
/** Height of the strip above a track's spans that shows if it ran. */
const STATE = 8;
const GAP = 5;
/** The least height of a lane, for the track's name. */
const MIN_LANE = 16;
/** Rows of a folded track: in the view of the path, on the path, elsewhere. */
const FOLDED_ROWS = { path: 4, onPath: 8, other: 2 } as const;
/** The least distance of arrows in pixels. If there are more, some are left out until the user zooms in. */
const MIN_ARROW_GAP = 5;
/** The least width in pixels of a turn that has an arrow. If threads hand over every microsecond, arrows would cover their tracks. */
const MIN_TURN = 2;
/** Nanoseconds that an instant counts as, so that a search by time can hit it. */
const THIN = 1;
/** Pixels of text after an instant, least and most. */
const MIN_ROOM = 34;
const MAX_ROOM = 160;
const MAX_MESSAGE = 480;
/** Pixels beside an instant that also belong to it. */
const NEAR = 4;
/** The share of the boot path from which a track comes before all tracks with less. */
const MIN_LARGE_SHARE = 0.01;

export interface Lane {
    readonly track: Track;
    readonly y: number;
    readonly height: number;
    readonly rows: number;
    readonly depth: number;
    readonly isFolded: boolean;
}

/** A lane of instants. It lies between the axis and the tracks. */
export interface InstantLane {
    readonly name: string;
    readonly isOfMessages: boolean;
    readonly all: readonly Instant[];
    readonly y: number;
}

export interface Layout {
    readonly lanes: readonly Lane[];
    readonly instants: readonly InstantLane[];
    readonly height: number;
    /** The number of tracks without any evidence but their name. They are not shown. */
    readonly empty: number;
}

/** The time of each track on the boot path. */
export function timeOnPath(boot: Boot): Map<number, number> {
    const times = new Map<number, number>();
    for (const stay of boot.stays) times.set(stay.owner.track, (times.get(stay.owner.track) ?? 0) + stay.to - stay.from);
    return times;
}

const ORDER: Readonly<Record<string, number>> = { vmm: 0, firmware: 1, thread: 2, cpu: 3, interrupts: 4, console: 5 };

/**
 * The lanes from top to bottom. Tracks on the boot path come first, in the order in which the path reaches them, those with a
 * large share before those with a small one. The others follow, by kind and number.
 */
export function layOut(boot: Boot, folded: ReadonlySet<number>, only: "path" | "all", selectedSpan?: number): Layout {
    // A selected span is always visible, at any depth, and also if its track is not on the path.
    const selectedTrack = selectedSpan === undefined ? undefined : boot.spans.track[selectedSpan];
    const first = new Map<number, number>();
    for (const stay of boot.stays) if (!first.has(stay.owner.track)) first.set(stay.owner.track, stay.index);
    const times = timeOnPath(boot);
    const hasMuch = (track: number): boolean => (times.get(track) ?? 0) >= boot.total * MIN_LARGE_SHARE;
    const wanted = boot.tracks.filter(track =>
        only === "path" ? boot.onPath.has(track.id) || track.id === selectedTrack : boot.hasLane(track.id),
    );
    const key = (track: Track): number => {
        const on = first.get(track.id);
        return on !== undefined
            ? on + (hasMuch(track.id) ? 0 : 1e9)
            : 2e9 + (ORDER[track.kind] ?? 9) * 1e7 + track.id + (track.idle ? 1e6 : 0);
    };
    // Each thread is by itself. Tracks of another kind, such as the stacks of firmware, lie together, where the first of them lies,
    // by their numbers: stacks have them in the order of their first use.
    const groups = new Map<TrackKind, number>();
    for (const track of wanted) groups.set(track.kind, Math.min(groups.get(track.kind) ?? Infinity, key(track)));
    const group = (track: Track): number => (track.kind === "thread" ? key(track) : groups.get(track.kind)!);
    wanted.sort((a, b) => group(a) - group(b) || a.id - b.id);
    const lanes: Lane[] = [];
    let y = AXIS;
    const instants = (only === "all" ? boot.instants.lanes : []).map(({ name, isOfMessages, all }) => {
        const lane = { name, isOfMessages, all, y };
        y += ROW + GAP;
        return lane;
    });
    for (const track of wanted) {
        const depth = boot.rows(track.id).rows.length;
        const few = only === "path" ? FOLDED_ROWS.path : first.has(track.id) ? FOLDED_ROWS.onPath : FOLDED_ROWS.other;
        const isFolded = depth > few && !folded.has(track.id);
        const least = track.id === selectedTrack ? boot.spans.depth[selectedSpan!]! + 1 : 0;
        const rows = Math.max(isFolded ? few : depth, least);
        const height = Math.max(STATE + rows * ROW + GAP, MIN_LANE);
        lanes.push({ track, y, height, rows, depth, isFolded });
        y += height;
    }
    const marked = new Set(boot.marks.map(mark => mark.track));
    const empty = only === "all" ? boot.tracks.filter(track => !boot.hasLane(track.id) && !marked.has(track.id)).length : 0;
    return { lanes, instants, height: y, empty };
}

/** The vertical position of a span in a layout. */
export function topOf(lane: Lane, depth: number): number {
    return lane.y + STATE + depth * ROW;
}

/** The input of a picture. */
export interface Picture {
    readonly boot: Boot;
    readonly layout: Layout;
    readonly width: number;
    readonly height: number;
    readonly scroll: number;
    readonly from: number;
    readonly to: number;
    readonly palette: Palette;
    readonly colours: LabelColours;
    readonly found: MatchedLabels;
    readonly selected: { from: number; to: number } | undefined;
    readonly selectedSpan: number | undefined;
    readonly selectedInstant: number | undefined;
    readonly step: Stay | undefined;
    readonly marked: readonly { from: number; to: number }[];
    readonly isPathShown: boolean;
}

export function scaleOf({ from, to, width }: Pick<Picture, "from" | "to" | "width">): Scale {
    return { from, to, left: gutterOf(width), right: width };
}

/** The lanes that are visible in a picture. */
function* seen(picture: Picture): Generator<{ lane: Lane; y: number }> {
    const { lanes } = picture.layout;
    let [low, high] = [0, lanes.length];
    while (low < high) {
        const middle = (low + high) >> 1;
        const lane = lanes[middle]!;
        if (lane.y + lane.height > picture.scroll) high = middle;
        else low = middle + 1;
    }
    for (let i = low; i < lanes.length; i += 1) {
        const lane = lanes[i]!;
        if (lane.y > picture.scroll + picture.height) return;
        yield { lane, y: lane.y - picture.scroll };
    }
}

export function paint(picture: Picture, on: Surface): void {
    const { boot, palette, width, height } = picture;
    const scale = scaleOf(picture);
    on.fillStyle = palette.background;
    on.fillRect(0, 0, width, height);
    ranges(picture, scale, on);
    axis(scale, height, boot.unit, palette, on);
    const [boxes, texts] = [new Boxes(), new Texts()];
    for (const { lane, y } of seen(picture)) {
        states(picture, scale, lane, y, boxes);
        const { rows } = boot.rows(lane.track.id);
        for (let depth = 0; depth < lane.rows; depth += 1) {
            const top = y + STATE + depth * ROW;
            const row = rows[depth];
            if (row && top > -ROW && top < height) spanRow(boot, row, scale, top, picture.colours, palette, picture.found, boxes, texts);
        }
    }
    const beside = new Texts();
    instantLanes(picture, scale, boxes, texts, beside);
    boxes.paint(on);
    texts.paint(on, palette.onFill);
    beside.paint(on, palette.text);
    marks(picture, scale, on);
    if (picture.isPathShown) path(picture, scale, on);
    selection(picture, scale, on);
    gutter(picture, on);
    // The axis stays in place while lanes scroll below it.
    on.fillStyle = palette.gutter;
    on.fillRect(0, 0, width, AXIS - 1);
    axis(scale, AXIS - 1, boot.unit, palette, on);
}

function ranges(picture: Picture, scale: Scale, on: Surface): void {
    const shaded = picture.selected ? [...picture.marked, picture.selected] : picture.marked;
    on.fillStyle = picture.palette.marked;
    for (const { from, to } of shaded) {
        const [left, right] = [Math.max(x(scale, from), scale.left), Math.min(x(scale, to), scale.right)];
        if (right >= left) on.fillRect(left, 0, Math.max(right - left, 1), picture.height);
    }
}

/** Running is a full strip, runnable half of one, waiting a line, so the states differ without colour. */
function states(picture: Picture, scale: Scale, lane: Lane, y: number, boxes: Boxes): void {
    const { boot, palette } = picture;
    for (const { one, left, right } of seenOf(
        boot.waitsOf(lane.track.id),
        scale,
        wait => wait.from,
        wait => wait.until,
    )) {
        const woken = Math.min(Math.max(x(scale, one.woken), left), right);
        if (woken > left) boxes.add(palette.meanings.waiting, left, y + STATE / 2 - 1, woken - left, 1);
        if (right > woken) boxes.add(palette.meanings["run queue"], woken, y + STATE / 2 - 1, right - woken, STATE / 2);
    }
    for (const { left, right } of seenOf(
        boot.runningOf(lane.track.id),
        scale,
        run => run.from,
        run => run.to,
    )) {
        boxes.add(palette.meanings.computing, left, y + 1, Math.max(right - left, 0.7), STATE - 2);
    }
}

/** Draws instants. One with a length is a box; one without is a line, with its text if the next one leaves room. */
function instantLanes(picture: Picture, scale: Scale, boxes: Boxes, within: Texts, beside: Texts): void {
    const { palette, height, scroll, selectedInstant } = picture;
    for (const { all, isOfMessages, y } of picture.layout.instants) {
        const tick = isOfMessages ? palette.faint : palette.arrow;
        const top = y - scroll;
        if (top < -ROW || top > height) continue;
        const seen = [
            ...seenOf(
                all,
                scale,
                one => one.from,
                one => one.to + THIN,
            ),
        ];
        seen.forEach(({ one, left, right }, i) => {
            const isThin = one.to === one.from;
            const room = Math.min(
                (seen[i + 1]?.left ?? scale.right) - left,
                isThin ? (isOfMessages ? MAX_MESSAGE : MAX_ROOM) : right - left,
            );
            if (!isThin) boxes.add(palette.other[0]!, left, top, Math.max(right - left, 1), ROW - 1);
            if (isThin)
                boxes.add(
                    one.index === selectedInstant ? palette.selected : tick,
                    left,
                    top,
                    one.index === selectedInstant ? 4 : isOfMessages ? 1 : 2,
                    ROW - 1,
                );
            else if (one.index === selectedInstant) boxes.add(palette.selected, left, top + ROW - 4, Math.max(right - left, 2), 3);
            if (room > MIN_ROOM) (isThin ? beside : within).add(fitting(one.text, room - 6), left + 5, top + ROW / 2);
        });
    }
}

/** Draws marks as small triangles in the strip of their track. */
function marks(picture: Picture, scale: Scale, on: Surface): void {
    const tops = new Map<number, number>();
    for (const { lane, y } of seen(picture)) tops.set(lane.track.id, y);
    on.fillStyle = picture.palette.text;
    let last = -10;
    for (const mark of picture.boot.marks) {
        const top = tops.get(mark.track);
        const place = x(scale, mark.at);
        if (top === undefined || place < scale.left || place > scale.right || place - last < 3) continue;
        last = place;
        on.beginPath();
        on.moveTo(place - 3, top);
        on.lineTo(place + 3, top);
        on.lineTo(place, top + 5);
        on.fill();
    }
}

/** Draws the boot path as one line across all lanes. Where it changes lanes, an arrow leads from the waiter to what it waited for. */
function path(picture: Picture, scale: Scale, on: Surface): void {
    const { boot, palette, layout, scroll } = picture;
    const middle = new Map<number, number>();
    for (const lane of layout.lanes) middle.set(lane.track.id, lane.y + STATE / 2 - scroll);
    const [boxes, bold] = [new Boxes(), new Boxes()];
    const arrows: [number, number, number][] = [];
    let [lastArrow, lastTurn] = [-10, boot.stayAt(scale.from - 1)];
    for (const { one: stay, left, right } of seenOf(
        boot.stays,
        scale,
        stay => stay.from,
        stay => stay.to,
    )) {
        const y = middle.get(stay.owner.track);
        if (y === undefined) continue;
        const isStep = picture.step?.index === stay.index;
        // Time in which no thread ran is a thinner line.
        const height = stay.kind === "running" ? 4 : 2;
        (isStep ? bold : boxes).add(isStep ? palette.selected : palette.path, left, y - height / 2, Math.max(right - left, 1), height);
        if (right - left < MIN_TURN && !isStep) continue;
        const from = lastTurn && middle.get(lastTurn.owner.track);
        if (from !== undefined && from !== y && left - lastArrow > MIN_ARROW_GAP && stay.from >= scale.from) {
            lastArrow = left;
            arrows.push([left, from, y]);
        }
        lastTurn = stay;
    }
    boxes.paint(on);
    bold.paint(on);
    on.strokeStyle = palette.arrow;
    on.fillStyle = palette.arrow;
    on.lineWidth = 1.2;
    for (const [at, from, to] of arrows) arrow(on, at, from, to);
    waiters(picture, scale, middle, on);
}

function arrow(on: Surface, at: number, from: number, to: number): void {
    const point = to > from ? -5 : 5;
    on.beginPath();
    on.moveTo(at, from);
    on.lineTo(at, to);
    on.stroke();
    on.beginPath();
    on.moveTo(at, to);
    on.lineTo(at - 3, to + point);
    on.lineTo(at + 3, to + point);
    on.fill();
}

/** Draws arrows for the selected step, from each waiter to the thread that it waited for. */
function waiters(picture: Picture, scale: Scale, middle: ReadonlyMap<number, number>, on: Surface): void {
    const { step, palette } = picture;
    if (!step || step.chain.length < 2) return;
    const at = Math.min(Math.max(x(scale, (step.from + step.to) / 2), scale.left), scale.right);
    on.strokeStyle = palette.selected;
    on.fillStyle = palette.selected;
    on.lineWidth = 2;
    step.chain.slice(1).forEach((frame, i) => {
        const [from, to] = [middle.get(step.chain[i]!.track), middle.get(frame.track)];
        if (from !== undefined && to !== undefined && from !== to) arrow(on, at + i * 4, from, to);
    });
}

function selection(picture: Picture, scale: Scale, on: Surface): void {
    const { boot, selectedSpan, palette } = picture;
    if (selectedSpan === undefined) return;
    for (const { lane, y } of seen(picture)) {
        if (lane.track.id !== boot.spans.track[selectedSpan]) continue;
        const depth = boot.spans.depth[selectedSpan]!;
        if (depth >= lane.rows) return;
        const [left, right] = [
            Math.max(x(scale, boot.spans.start[selectedSpan]!), scale.left),
            Math.min(x(scale, boot.spans.end[selectedSpan]!), scale.right),
        ];
        on.strokeStyle = palette.selected;
        on.lineWidth = 2;
        if (right >= left) on.strokeRect(left, y + STATE + depth * ROW, Math.max(right - left, 2), ROW - 1);
    }
}

function gutter(picture: Picture, on: Surface): void {
    const { palette, height } = picture;
    on.fillStyle = palette.gutter;
    on.fillRect(0, 0, gutterOf(picture.width) - 1, height);
    on.strokeStyle = palette.line;
    on.lineWidth = 1;
    for (const { name, y } of picture.layout.instants) {
        on.font = FONT;
        on.textBaseline = "middle";
        on.fillStyle = palette.faint;
        on.fillText(fittingName(name, gutterOf(picture.width) - 22), NAME_LEFT, y - picture.scroll + ROW / 2);
    }
    for (const { lane, y } of seen(picture)) {
        on.beginPath();
        on.moveTo(0, Math.round(y) - GAP / 2 + 0.5);
        on.lineTo(picture.width, Math.round(y) - GAP / 2 + 0.5);
        on.stroke();
        on.font = FONT;
        on.textBaseline = "middle";
        on.fillStyle = palette.text;
        const fold = lane.isFolded ? "▸" : lane.rows > FOLDED_ROWS.other ? "▾" : "";
        if (fold) on.fillText(fold, 6, y + STATE / 2 + 4);
        on.fillText(fittingName(lane.track.label, gutterOf(picture.width) - 22), NAME_LEFT, y + STATE / 2 + 4);
    }
}

/** The thing at a place of a picture. */
export interface Hit {
    readonly lane: Lane | undefined;
    readonly span: number | undefined;
    readonly stay: Stay | undefined;
    /** The wait at that place, if the place is in the strip and the boot path is elsewhere. */
    readonly wait?: Wait | undefined;
    readonly instant: Instant | undefined;
    readonly at: number;
    readonly isGutter: boolean;
}

export function hit(picture: Picture, px: number, py: number): Hit {
    const { boot } = picture;
    const scale = scaleOf(picture);
    const at = timeAt(scale, px);
    const lane = py < AXIS ? undefined : picture.layout.lanes.find(l => py + picture.scroll >= l.y && py + picture.scroll < l.y + l.height);
    const isGutter = px < gutterOf(picture.width);
    const beside = (NEAR * (scale.to - scale.from)) / (scale.right - scale.left);
    const among =
        isGutter || py < AXIS
            ? undefined
            : picture.layout.instants.find(one => py + picture.scroll >= one.y && py + picture.scroll < one.y + ROW);
    const instant = among && nearest(among.all, at, beside);
    if (among) return { lane: undefined, span: undefined, stay: undefined, instant, at, isGutter };
    if (!lane || isGutter) return { lane, span: undefined, stay: undefined, instant: undefined, at, isGutter };
    const inLane = py + picture.scroll - lane.y;
    if (inLane < STATE) {
        const onPath = picture.isPathShown ? boot.stayAt(at) : undefined;
        const stay = onPath && onPath.from <= at && onPath.to > at && onPath.owner.track === lane.track.id ? onPath : undefined;
        const wait = stay ? undefined : boot.waitsOf(lane.track.id).find(one => one.from <= at && at < one.until);
        return { lane, span: undefined, stay, wait, instant: undefined, at, isGutter };
    }
    const row = boot.rows(lane.track.id).rows[Math.floor((inLane - STATE) / ROW)];
    if (!row || inLane >= STATE + lane.rows * ROW) return { lane, span: undefined, stay: undefined, instant: undefined, at, isGutter };
    // A narrow span is drawn one pixel wide, so a hit must also count within that pixel.
    const slack = (scale.to - scale.from) / (scale.right - scale.left) / 2;
    const span = row[boot.firstEndingAfter(row, at - slack)];
    const isHit = span !== undefined && boot.spans.start[span]! <= at + slack;
    return { lane, span: isHit ? span : undefined, stay: undefined, instant: undefined, at, isGutter };
}

/** The instant at a time, or the nearest one within a distance of `beside`. */
function nearest(all: readonly Instant[], at: number, beside: number): Instant | undefined {
    const distance = ({ from, to }: Instant): number => Math.max(from - at, at - to, 0);
    let [low, high] = [0, all.length];
    while (low < high) {
        const middle = (low + high) >> 1;
        if (all[middle]!.from > at) high = middle;
        else low = middle + 1;
    }
    const near = [all[low - 1], all[low]].filter(one => one !== undefined && distance(one) <= beside) as Instant[];
    return near.sort((a, b) => distance(a) - distance(b))[0];
}
