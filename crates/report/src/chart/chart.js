// The flame chart's behaviour: a click zooms, a regular expression marks frames, and names are cut to the room they have.
// It works on what the SVG says: its length in data-total, and in each frame its start and length.
"use strict";

function flameChart(svg) {
  const margin = 10, character = 7.25, fewest = 3, apart = 90;
  const total = Number(svg.dataset.total), top = Number(svg.dataset.top);
  const axis = svg.querySelector(".axis");
  const bottom = Number(svg.getAttribute("height")) - margin;
  const frames = [...svg.querySelectorAll(".frames > g")].map((group) => ({
    group,
    rect: group.querySelector("rect"),
    text: group.querySelector("text"),
    name: group.querySelector("title").textContent.split("\n")[0],
    from: Number(group.dataset.at),
    to: Number(group.dataset.at) + Number(group.dataset.for),
    row: Number(group.querySelector("rect").getAttribute("y")),
  }));
  let shown = { from: 0, to: total, row: -1 };
  let width = 1200;

  const element = (name, attributes, text = "") => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.textContent = text;
    return made;
  };
  const x = (at) => margin + (at - shown.from) / Math.max(shown.to - shown.from, 1) * (width - 2 * margin);

  function label(at, step) {
    const units = svg.dataset.unit === "ns"
      ? [["s", 1e9], ["ms", 1e6], ["µs", 1e3], ["ns", 1]]
      : svg.dataset.unit === "count" ? [["G", 1e9], ["M", 1e6], ["k", 1e3], ["", 1]]
      : [["Gticks", 1e9], ["Mticks", 1e6], ["kticks", 1e3], ["ticks", 1]];
    const [unit, size] = units.find(([, size]) => at >= size) ?? ["", 1];
    const decimals = Math.max(0, Math.ceil(Math.log10(size / step) - 1e-9));
    return at === 0 ? "0" : `${(at / size).toFixed(decimals)} ${unit}`;
  }

  function drawAxis() {
    const least = (shown.to - shown.from) / (width - 2 * margin) * apart;
    const decade = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
    const step = [1, 2, 5, 10].map((n) => n * decade).find((step) => step >= least);
    axis.replaceChildren();
    for (let n = Math.ceil(shown.from / step); n * step <= shown.to; n += 1) {
      const left = x(n * step);
      axis.append(
        element("path", { d: `M${left} ${top + 6}V${bottom}`, stroke: "#dcd9d3" }),
        element("text", { x: left + 3, y: top + 16 }, label(n * step, step)),
      );
    }
  }

  function place(frame) {
    const { group, rect } = frame;
    const inside = frame.to > shown.from && frame.from < shown.to || frame.from >= shown.from && frame.to <= shown.to;
    group.style.display = inside ? "" : "none";
    if (!inside) return;
    const left = Math.max(x(frame.from), margin), right = Math.min(x(frame.to), width - margin);
    rect.setAttribute("x", left);
    rect.setAttribute("width", Math.max(right - left, 0));
    // What is around the frame that was zoomed to.
    group.style.opacity = frame.row < shown.row ? .5 : "";
    const room = Math.floor((right - left - 4) / character);
    if (room < fewest) {
      frame.text?.remove();
      frame.text = null;
      return;
    }
    if (!frame.text) {
      frame.text = element("text", { y: frame.row + 13 });
      group.append(frame.text);
    }
    const letters = [...frame.name];
    frame.text.setAttribute("x", left + 3);
    frame.text.textContent = letters.length > room ? `${letters.slice(0, room - 1).join("")}…` : frame.name;
  }

  function draw() {
    // A document of its own may have a scroll bar beside it.
    const bar = Number(svg.getAttribute("height")) > window.innerHeight ? 16 : 0;
    width = Math.max(svg.parentElement?.clientWidth || window.innerWidth - bar, 640);
    svg.setAttribute("width", width);
    svg.setAttribute("viewBox", `0 0 ${width} ${svg.getAttribute("height")}`);
    drawAxis();
    frames.forEach(place);
  }

  function zoom(frame) {
    shown = frame;
    draw();
  }

  // Marks frames by name. Says how many there are, and the share of the boot in which any of them is under way.
  function mark(expression) {
    const matches = expression ? frames.filter((frame) => expression.test(frame.name)) : [];
    const marked = new Set(matches);
    for (const frame of frames) {
      frame.colour ??= frame.rect.getAttribute("fill");
      frame.rect.setAttribute("fill", marked.has(frame) ? "#ffe500" : frame.colour);
    }
    let covered = 0, end = -Infinity;
    for (const { from, to } of matches.sort((a, b) => a.from - b.from)) {
      covered += Math.max(0, to - Math.max(from, end));
      end = Math.max(end, to);
    }
    return { count: matches.length, share: covered / Math.max(total, 1) };
  }

  for (const frame of frames) {
    frame.group.style.cursor = "pointer";
    frame.group.addEventListener("click", () => zoom(frame));
  }
  window.addEventListener("resize", draw);
  const whole = () => zoom({ from: 0, to: total, row: -1 });
  draw();
  return { mark, whole };
}

// A chart that is a document: its own two buttons.
function standAlone(svg) {
  const chart = flameChart(svg), tools = svg.querySelector(".tools");
  const marked = tools.querySelector(".mark");
  const right = () => tools.setAttribute("transform", `translate(${Number(svg.getAttribute("width")) - 10} 0)`);
  tools.removeAttribute("display");
  right();
  window.addEventListener("resize", right);
  tools.querySelector(".whole").addEventListener("click", chart.whole);
  marked.addEventListener("click", () => {
    const text = prompt("Mark frames whose names match this regular expression:", "");
    if (text === null) return;
    let expression;
    try {
      expression = text && new RegExp(text);
    } catch {
      marked.textContent = "not a regular expression";
      return;
    }
    const { count, share } = chart.mark(expression);
    marked.textContent = text ? `${count} marked, ${(share * 100).toFixed(2)} %` : "mark…";
  });
}
