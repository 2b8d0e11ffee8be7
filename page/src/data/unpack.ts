// Decodes a part of the page from base64 text of a zlib stream to bytes.

export async function unpacked(part: string): Promise<Uint8Array<ArrayBuffer>> {
    const packed = Uint8Array.from(atob(part), c => c.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
}
