// A canvas that fills its place, sharp on every screen, whose drawing can also be SVG or PNG.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Surface } from "../lib/save";

interface Props {
    readonly label: string;
    /** The height of the whole drawing. It scrolls if that is more than fits. */
    readonly contentHeight: number;
    readonly draw: (on: Surface, width: number, height: number, scroll: number) => void;
    readonly onPointer?: (
        kind: "down" | "move" | "up" | "leave" | "double",
        event: PointerEvent | MouseEvent,
        x: number,
        y: number,
    ) => void;
    /** Returns true if it used the event. The page then does not scroll. */
    readonly onWheel?: (event: WheelEvent, x: number) => boolean;
    /** Two fingers: the factor by which they moved apart, the centre, and the distance that they moved. */
    readonly onPinch?: (factor: number, x: number, moved: number) => void;
    readonly onSize?: (width: number, height: number) => void;
    readonly scrollTo?: { readonly top: number; readonly height: number } | undefined;
    readonly class?: string;
    readonly children?: ComponentChildren;
}

/** The place of a tip about the thing under the pointer: beside the pointer, and within the window. */
export function besidePointer({ x, y }: { readonly x: number; readonly y: number }): Record<string, string> {
    const across = x > innerWidth / 2 ? { right: `${innerWidth - x + 12}px` } : { left: `${x + 12}px` };
    return y > innerHeight * 0.75 ? { ...across, bottom: `${innerHeight - y + 10}px` } : { ...across, top: `${y + 14}px` };
}

/** The place in the window, because a tip lies outside of what scrolls. */
export function placeOf(event: MouseEvent): { x: number; y: number } {
    return { x: event.clientX, y: event.clientY };
}

export function Canvas(props: Props) {
    const frame = useRef<HTMLDivElement>(null);
    const canvas = useRef<HTMLCanvasElement>(null);
    const latest = useRef(props);
    latest.current = props;
    const [size, setSize] = useState({ width: 0, height: 0 });
    const fingers = useRef(new Map<number, number>());

    const paint = (): void => {
        const [element, box] = [canvas.current, frame.current];
        if (!element || !box) return;
        const [width, height] = [box.clientWidth, box.clientHeight];
        if (width === 0 || height === 0) return;
        const ratio = devicePixelRatio || 1;
        const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
        if (element.width !== w || element.height !== h) {
            element.width = w;
            element.height = h;
            element.style.width = `${width}px`;
            element.style.height = `${height}px`;
        }
        const context = element.getContext("2d", { alpha: false });
        if (!context) return;
        context.setTransform(ratio, 0, 0, ratio, 0, 0);
        latest.current.draw(context, width, height, box.scrollTop);
    };

    useEffect(() => {
        const box = frame.current!;
        const observer = new ResizeObserver(() => {
            setSize({ width: box.clientWidth, height: box.clientHeight });
            latest.current.onSize?.(box.clientWidth, box.clientHeight);
        });
        observer.observe(box);
        const wheel = (event: WheelEvent): void => {
            if (latest.current.onWheel?.(event, event.clientX - box.getBoundingClientRect().left)) event.preventDefault();
        };
        // Not passive, because only then can the handler keep the whole page from scrolling or zooming.
        box.addEventListener("wheel", wheel, { passive: false });
        return () => {
            observer.disconnect();
            box.removeEventListener("wheel", wheel);
        };
    }, []);

    // The store redraws this component after every change, so the picture is painted each time.
    useEffect(paint);

    const { scrollTo } = props;
    useEffect(() => {
        const box = frame.current;
        if (!box || !scrollTo) return;
        if (scrollTo.top < box.scrollTop + 20) box.scrollTop = Math.max(scrollTo.top - 20, 0);
        else if (scrollTo.top + scrollTo.height > box.scrollTop + box.clientHeight)
            box.scrollTop = scrollTo.top + scrollTo.height - box.clientHeight + 10;
    }, [scrollTo?.top, scrollTo?.height]);

    const pointer = (kind: "down" | "move" | "up" | "leave" | "double") => (event: PointerEvent | MouseEvent) => {
        const box = frame.current!.getBoundingClientRect();
        const [x, y] = [event.clientX - box.left, event.clientY - box.top];
        if (event instanceof PointerEvent && event.pointerType === "touch") {
            const others = [...fingers.current].filter(([id]) => id !== event.pointerId).map(([, place]) => place);
            const before = fingers.current.get(event.pointerId);
            if (kind === "down" || kind === "move") fingers.current.set(event.pointerId, x);
            else fingers.current.delete(event.pointerId);
            const [other] = others;
            if (kind === "move" && other !== undefined && before !== undefined) {
                const [was, is] = [Math.abs(before - other), Math.abs(x - other)];
                if (was > 5 && is > 5) latest.current.onPinch?.(was / is, (x + other) / 2, x - before);
                return;
            }
        }
        latest.current.onPointer?.(kind, event, x, y);
    };

    return (
        <div
            ref={frame}
            class={`canvas ${props.class ?? ""}`}
            onScroll={paint}
            onPointerDown={pointer("down")}
            onPointerMove={pointer("move")}
            onPointerUp={pointer("up")}
            onPointerCancel={pointer("up")}
            onPointerLeave={pointer("leave")}
            onDblClick={pointer("double")}
            tabIndex={0}
            role="region"
            aria-label={props.label}
        >
            <canvas ref={canvas} role="img" aria-label={props.label} />
            <div style={{ height: `${Math.max(props.contentHeight - size.height, 0)}px` }} />
            {props.children}
        </div>
    );
}
