"use strict";
// Sorts a table by the column whose heading is pressed, and hides the rows that a text is not in. The page is whole without.

const value = (row, column) => {
  const cell = row.cells[column];
  return cell.dataset.v === undefined ? cell.textContent : Number(cell.dataset.v);
};

const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b)));

const sort = (table, heading) => {
  const column = heading.cellIndex;
  const body = table.tBodies[0];
  const before = heading.getAttribute("aria-sort");
  const numbers = heading.classList.contains("n");
  const down = before === null ? numbers : before === "ascending";
  const rows = [...body.rows].map((row) => [value(row, column), row]);
  rows.sort(([a], [b]) => (down ? compare(b, a) : compare(a, b)));
  body.append(...rows.map(([, row]) => row));
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", down ? "descending" : "ascending");
};

for (const table of document.querySelectorAll("table")) {
  for (const heading of table.tHead.rows[0].cells) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    button.addEventListener("click", () => sort(table, heading));
    heading.append(button);
  }
}

for (const label of document.querySelectorAll(".filter")) {
  const section = label.closest("section");
  const rows = [...section.querySelector("tbody").rows];
  const texts = rows.map((row) => row.textContent.toLowerCase());
  const told = section.querySelector("[role=status]");
  label.hidden = false;
  label.querySelector("input").addEventListener("input", (event) => {
    const wanted = event.target.value.toLowerCase();
    let shown = 0;
    rows.forEach((row, number) => {
      row.hidden = !texts[number].includes(wanted);
      if (!row.hidden) shown += 1;
    });
    told.textContent = wanted ? `${shown.toLocaleString("en")} of ${rows.length.toLocaleString("en")} rows` : "";
  });
}
