// Unpacks the application, which build.mjs puts into PACKED, and runs it. Until then, and in a browser that cannot unpack, the page
// has its tables.

const { nonce } = document.currentScript;
if (typeof DecompressionStream === "undefined") {
    const [place, warning] = [document.createElement("div"), document.createElement("p")];
    place.id = "app";
    warning.className = "warning";
    warning.setAttribute("role", "alert");
    warning.textContent = "This browser cannot unpack the data (it has no DecompressionStream): the tables of the page are all there is.";
    place.append(warning);
    document.body.prepend(place);
    document.body.classList.add("no-data");
} else {
    const bytes = Uint8Array.from(atob(PACKED), c => c.charCodeAt(0));
    new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).text().then(text => {
        const script = document.createElement("script");
        script.nonce = nonce;
        script.textContent = text;
        // Into the head: an element in the body would end the part of the data that is being read.
        document.head.append(script);
        script.remove();
    });
}
