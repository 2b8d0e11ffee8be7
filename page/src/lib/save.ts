// Saves parts of the page: a picture, a table, a link. Names go into files as text of the format, never as markup.

/** The content of the current view that can be saved. */
export interface ExportTarget {
    /** Draws the visible picture on a surface of this size. */
    draw?: { width: number; height: number; on: (surface: Surface) => void };
    /** The rows of a table. The first is its heading. */
    rows?: () => readonly (readonly (string | number | bigint)[])[];
}

/** The interface that charts draw on: a canvas context, or a writer of SVG. */
export interface Surface {
    fillStyle: string | CanvasGradient | CanvasPattern;
    strokeStyle: string | CanvasGradient | CanvasPattern;
    lineWidth: number;
    font: string;
    textBaseline: CanvasTextBaseline;
    fillRect(x: number, y: number, width: number, height: number): void;
    strokeRect(x: number, y: number, width: number, height: number): void;
    fillText(text: string, x: number, y: number): void;
    beginPath(): void;
    moveTo(x: number, y: number): void;
    lineTo(x: number, y: number): void;
    stroke(): void;
    fill(): void;
}

const number = (n: number): string => String(Math.round(n * 100) / 100);

/** Text in XML. Names have no control characters: the program escaped them. */
export function xml(text: string): string {
    return text.replace(/[&<>"']/g, c => `&#${c.charCodeAt(0)};`);
}

/** Writes SVG of the drawing. */
export class Svg implements Surface {
    fillStyle: string | CanvasGradient | CanvasPattern = "black";
    strokeStyle: string | CanvasGradient | CanvasPattern = "black";
    lineWidth = 1;
    font = "12px sans-serif";
    textBaseline: CanvasTextBaseline = "middle";
    private readonly out: string[] = [];
    private path = "";

    constructor(
        readonly width: number,
        readonly height: number,
    ) {}

    fillRect(x: number, y: number, width: number, height: number): void {
        this.out.push(
            `<rect x="${number(x)}" y="${number(y)}" width="${number(width)}" height="${number(height)}" fill="${xml(String(this.fillStyle))}"/>`,
        );
    }

    strokeRect(x: number, y: number, width: number, height: number): void {
        this.out.push(
            `<rect x="${number(x)}" y="${number(y)}" width="${number(width)}" height="${number(height)}" fill="none" stroke="${xml(String(this.strokeStyle))}" stroke-width="${this.lineWidth}"/>`,
        );
    }

    fillText(text: string, x: number, y: number): void {
        const size = /(\d+)px/.exec(this.font)?.[1] ?? "12";
        const weight = this.font.startsWith("bold") ? ' font-weight="bold"' : "";
        this.out.push(
            `<text x="${number(x)}" y="${number(y)}" font-size="${size}"${weight} dominant-baseline="central" xml:space="preserve" fill="${xml(String(this.fillStyle))}">${xml(text)}</text>`,
        );
    }

    beginPath(): void {
        this.path = "";
    }

    moveTo(x: number, y: number): void {
        this.path += `M${number(x)} ${number(y)}`;
    }

    lineTo(x: number, y: number): void {
        this.path += `L${number(x)} ${number(y)}`;
    }

    stroke(): void {
        this.out.push(`<path d="${this.path}" fill="none" stroke="${xml(String(this.strokeStyle))}" stroke-width="${this.lineWidth}"/>`);
    }

    fill(): void {
        this.out.push(`<path d="${this.path}Z" fill="${xml(String(this.fillStyle))}"/>`);
    }

    text(): string {
        return (
            `<svg xmlns="http://www.w3.org/2000/svg" width="${this.width}" height="${this.height}" viewBox="0 0 ${this.width} ${this.height}" ` +
            `font-family="system-ui, sans-serif">\n${this.out.join("\n")}\n</svg>\n`
        );
    }
}

/** Rows as CSV (RFC 4180). A text that a spreadsheet would take for a formula gets a quote in front. */
export function csv(rows: readonly (readonly (string | number | bigint)[])[]): string {
    const cell = (value: string | number | bigint): string => {
        if (typeof value !== "string") return String(value);
        const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
        return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
    };
    return `${rows.map(row => row.map(cell).join(",")).join("\r\n")}\r\n`;
}

/** Offers a file to the user as a download. */
export function save(name: string, data: Blob): void {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(data);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
