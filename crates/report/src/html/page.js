// The page's own script: starts the chart, searches it, sorts tables. Inferno's script, before this one, has
// the functions init, unzoom, search and reset_search, and the variables searching and matchedtxt.
"use strict";

// Inferno's script would take the browser's search key for itself.
window.addEventListener("keydown", (event) => {
  if (event.keyCode === 114 || (event.ctrlKey && event.keyCode === 70)) event.stopImmediatePropagation();
}, true);

const find = document.getElementById("find");
if (find && typeof init === "function") {
  // It would restore a zoom from the query, by a selector that only finds in a document of its own.
  if (location.search) history.replaceState(null, "", location.pathname);
  init();
  const found = document.getElementById("found");
  find.addEventListener("input", () => {
    if (searching) {
      reset_search();
      searching = 0;
    }
    found.textContent = "";
    if (!find.value) return;
    try {
      search(find.value);
    } catch {
      found.textContent = "not a regular expression";
      return;
    }
    found.textContent = searching ? matchedtxt.textContent : "no frame matches";
  });
  document.getElementById("whole").addEventListener("click", () => unzoom());
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
