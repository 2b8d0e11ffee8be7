// A table of any length. Only the visible rows are elements. It sorts by any column, and is a table to a screen reader.
import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";

export interface Column<T> {
    readonly name: string;
    /** The sort key. Numbers sort largest first. */
    readonly key: (row: T) => number | string;
    readonly show: (row: T) => ComponentChildren;
    readonly isNumber?: boolean;
    readonly width?: string;
    /** True for a column that a narrow table leaves out, the last such column first. A saved file has it. */
    readonly isSpare?: boolean;
}

interface Props<T> {
    readonly label: string;
    readonly rows: readonly T[];
    readonly columns: readonly Column<T>[];
    readonly onPick?: (row: T) => void;
    readonly isPicked?: (row: T) => boolean;
    /** True for a row that is grey, because its figures say nothing here. */
    readonly isFaint?: (row: T) => boolean;
    /** The column that it is sorted by at first; `undefined` keeps the given order. */
    readonly sortedBy?: number;
    /** The column whose cell picks a row; the first one by default. */
    readonly pickedBy?: number;
    /** The lines of text that a row takes at a width in pixels; each row takes one by default. */
    readonly linesOf?: (row: T, width: number) => number;
    /** A row to keep in sight. */
    readonly inSight?: number | undefined;
}

const ROW = 25;
/** The height of each further line of a row. */
const LINE = 18;
/** The width of the column that identifies a row, in em. */
const NAME_EM = 11;
/** The width of a character, in em, and the number of rows whose names are measured. */
const CHARACTER_EM = 0.6;
const MEASURED = 2_000;

/** The columns that fit. If leaving out the spare ones is not enough, the table scrolls. */
function fitting<T>(columns: readonly Column<T>[], widthEm: number): readonly Column<T>[] {
    const needs = (of: readonly Column<T>[]): number => of.reduce((sum, column) => sum + parseFloat(column.width ?? "0"), NAME_EM);
    let left = columns;
    for (let i = columns.length - 1; i >= 0 && needs(left) > widthEm; i -= 1)
        if (columns[i]!.isSpare) left = left.filter(column => column !== columns[i]);
    return left;
}

/** The row at a height, from the top of each row. */
function rowAt(tops: Float64Array, at: number): number {
    let [low, high] = [0, tops.length - 1];
    while (low < high) {
        const middle = (low + high + 1) >> 1;
        if (tops[middle]! <= at) low = middle;
        else high = middle - 1;
    }
    return low;
}

export function Table<T>({ label, rows, columns: all, onPick, isPicked, isFaint, sortedBy, inSight, pickedBy = 0, linesOf }: Props<T>) {
    const [sort, setSort] = useState<{ column: number; isDown: boolean } | undefined>(
        sortedBy === undefined ? undefined : { column: sortedBy, isDown: true },
    );
    const [scroll, setScroll] = useState(0);
    const [{ height, width, widthEm }, setSize] = useState({ height: 400, width: 0, widthEm: Infinity });
    const box = useRef<HTMLDivElement>(null);
    const columns = useMemo(() => fitting(all, widthEm), [all, widthEm]);

    const sorted = useMemo(() => {
        const column = sort && all[sort.column];
        if (!column) return rows;
        const keyed = rows.map((row, i) => ({ row, i, key: column.key(row) }));
        const less = (a: number | string, b: number | string): number =>
            typeof a === "number" && typeof b === "number" ? b - a : String(a).localeCompare(String(b));
        keyed.sort((a, b) => (sort.isDown ? less(a.key, b.key) : less(b.key, a.key)) || a.i - b.i);
        return keyed.map(one => one.row);
    }, [rows, sort, all]);

    useEffect(() => {
        const element = box.current!;
        const em = parseFloat(getComputedStyle(element).fontSize);
        const observer = new ResizeObserver(() =>
            setSize({ height: element.clientHeight, width: element.clientWidth, widthEm: element.clientWidth / em }),
        );
        observer.observe(element);
        return () => observer.disconnect();
    }, []);
    // The top of each row, and the height of all, where rows differ.
    const tops = useMemo(() => {
        if (!linesOf || width === 0) return undefined;
        const sums = new Float64Array(sorted.length + 1);
        for (let i = 0; i < sorted.length; i += 1) sums[i + 1] = sums[i]! + ROW + (Math.max(linesOf(sorted[i]!, width), 1) - 1) * LINE;
        return sums;
    }, [sorted, linesOf, width]);
    const topOf = (row: number): number => (tops ? tops[Math.min(row, sorted.length)]! : row * ROW);
    useEffect(() => {
        const element = box.current;
        if (!element || inSight === undefined) return;
        const top = tops ? tops[inSight]! : inSight * ROW;
        if (top < element.scrollTop || top > element.scrollTop + element.clientHeight - 2 * ROW)
            element.scrollTop = Math.max(top - element.clientHeight / 2, 0);
    }, [inSight]);

    // The column that identifies a row never vanishes: the table scrolls instead.
    const longest = useMemo(
        () => rows.slice(0, MEASURED).reduce((most, row) => Math.max(most, String(all[pickedBy]!.key(row)).length), NAME_EM),
        [rows, all],
    );
    const widthOf = (name: number): string => `calc(${[`${name}em`, ...columns.flatMap(column => column.width ?? [])].join(" + ")})`;
    const first = Math.max((tops ? rowAt(tops, scroll) : Math.floor(scroll / ROW)) - 5, 0);
    const last = Math.min(first + Math.ceil(height / ROW) + 10, sorted.length);
    const spacer = (pixels: number) =>
        pixels > 0 ? (
            <tr aria-hidden="true" style={{ height: `${pixels}px` }}>
                <td colSpan={columns.length} />
            </tr>
        ) : null;
    return (
        <div class="table" ref={box} tabIndex={0} role="region" aria-label={label} onScroll={() => setScroll(box.current!.scrollTop)}>
            <table
                aria-rowcount={sorted.length + 1}
                style={{ minWidth: widthOf(NAME_EM), maxWidth: linesOf ? "none" : widthOf(Math.max(longest * CHARACTER_EM + 2, NAME_EM)) }}
            >
                <caption class="unseen">{label}</caption>
                <thead>
                    <tr aria-rowindex={1}>
                        {columns.map(column => {
                            const i = all.indexOf(column);
                            const is = sort?.column === i;
                            const order = !is ? "none" : sort.isDown === (column.isNumber === true) ? "descending" : "ascending";
                            return (
                                <th
                                    scope="col"
                                    class={column.isNumber ? "n" : ""}
                                    aria-sort={order}
                                    style={column.width ? { width: column.width } : {}}
                                    key={column.name}
                                >
                                    <button type="button" onClick={() => setSort({ column: i, isDown: is ? !sort.isDown : true })}>
                                        {column.name}
                                        {is ? <span aria-hidden="true">{order === "descending" ? " ▾" : " ▴"}</span> : null}
                                    </button>
                                </th>
                            );
                        })}
                    </tr>
                </thead>
                <tbody>
                    {spacer(topOf(first))}
                    {sorted.slice(first, last).map((row, i) => (
                        <tr
                            key={first + i}
                            aria-rowindex={first + i + 2}
                            class={`${isPicked?.(row) ? "picked" : ""}${isFaint?.(row) ? " faint" : ""}`.trim()}
                            style={tops ? { height: `${topOf(first + i + 1) - topOf(first + i)}px` } : {}}
                        >
                            {columns.map((column, c) => {
                                const shown =
                                    c === pickedBy && onPick ? (
                                        <button type="button" class="pick" onClick={() => onPick(row)}>
                                            {column.show(row)}
                                        </button>
                                    ) : (
                                        column.show(row)
                                    );
                                return c === pickedBy ? (
                                    <th scope="row" key={c}>
                                        {shown}
                                    </th>
                                ) : (
                                    <td class={column.isNumber ? "n" : ""} key={c}>
                                        {shown}
                                    </td>
                                );
                            })}
                        </tr>
                    ))}
                    {spacer(topOf(sorted.length) - topOf(last))}
                </tbody>
            </table>
        </div>
    );
}
