// The page's own script: starts the chart, if there is one, and sorts tables.
"use strict";

const drawing = document.querySelector("#chart > svg");
if (drawing) {
  const chart = flameChart(drawing);
  const find = document.getElementById("find"), found = document.getElementById("found");
  find.addEventListener("input", () => {
    let expression;
    try {
      expression = find.value && new RegExp(find.value);
    } catch {
      found.textContent = "not a regular expression";
      return;
    }
    const { count, share } = chart.mark(expression);
    found.textContent = !expression ? "" : count ? `${count} marked, ${(share * 100).toFixed(2)} % of the boot` : "no frame matches";
  });
  document.getElementById("whole").addEventListener("click", chart.whole);
}

for (const table of document.querySelectorAll("table.sortable")) {
  const headings = [...table.tHead.rows[0].cells];
  headings.forEach((heading, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = heading.textContent;
    heading.replaceChildren(button);
    button.addEventListener("click", () => {
      const numbers = heading.classList.contains("n");
      const before = heading.getAttribute("aria-sort") ?? (numbers ? "ascending" : "descending");
      const order = before === "ascending" ? "descending" : "ascending";
      const sign = order === "ascending" ? 1 : -1;
      const key = (row) => numbers ? Number(row.cells[column].dataset.v) : row.cells[column].textContent;
      const rows = [...table.tBodies[0].rows].map((row) => [key(row), row]);
      rows.sort(([a], [b]) => sign * (numbers ? a - b : a.localeCompare(b)));
      table.tBodies[0].append(...rows.map(([, row]) => row));
      headings.forEach((other) => other.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", order);
    });
  });
}
