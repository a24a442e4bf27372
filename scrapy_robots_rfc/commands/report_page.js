"use strict";
// Draws the page from the data that is embedded in it. What sites or file names wrote has escapes
// for what could not be seen, and is set as `textContent`, which makes no markup of it.

const data = JSON.parse(document.getElementById("data").textContent);

const MEANING = new Map([
  ["rule", "a rule of the site's robots.txt"],
  ["unreachable", "robots.txt could not be fetched, so the rules are unknown"],
  ["local", "a part of the crawl itself failed, so the rules are unknown"],
  ["crawl_delay", "the site asks for a longer interval than you accept"],
  ["parser", "the project's own parser says so"],
]);
const NO_ORIGIN = "(no origin)";
const SHOWN = 100; // characters of an origin that are shown; the link has all of them
const BARS = 10; // bars of a plot at most
const FILTERED = 3; // rows from which on a table can be filtered

// Elements.

const fill = (element, attributes, content) => {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (typeof content === "string") element.textContent = content;
  else element.append(...content);
  return element;
};
const html = (name, attributes = {}, content = []) =>
  fill(document.createElement(name), attributes, content);
const svg = (name, attributes, content = []) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, content);
const note = (content, attributes = {}, name = "span") =>
  html(name, { class: "note", ...attributes }, content);

const link = (origin, path = "/") => {
  const shown = origin.length > SHOWN ? `${origin.slice(0, SHOWN)}...` : origin;
  if (!/^https?:\/\/[\w.:[\]-]+$/i.test(origin)) return html("span", {}, shown);
  return html("a", { href: origin + path, rel: "noopener noreferrer" }, shown);
};

// Texts.

const count = (number) => number.toLocaleString("en");
const many = (number, what) => `${count(number)} ${what}${number === 1 ? "" : "s"}`;
const percent = (requests) => `${((100 * requests) / data.requests).toFixed(1)} %`;
const place = (rule) =>
  [rule.line === null ? "" : `line ${rule.line}`, rule.token === null ? "" : `for ${rule.token}`]
    .filter((part) => part)
    .join(", ");
const total = (kind) => data[kind].length + data.more[kind];
const headline = data.requests
  ? `${many(data.requests, "request")} disallowed`
  : "No request was disallowed";

// Plots and figures.

const bars = (title, rows, name) => {
  const items = rows.slice(0, BARS).map((row) => {
    const [number, all] = [count(row.requests), count(data.requests)];
    const picture = {
      viewBox: "0 0 100 1",
      preserveAspectRatio: "none",
      role: "img",
      "aria-label": `${number} of ${all} requests, ${percent(row.requests)}`,
    };
    const width = (100 * row.requests) / rows[0].requests;
    return html("li", {}, [
      html("span", { class: "name" }, name(row)),
      html("span", { class: "n" }, number),
      svg("svg", picture, [
        svg("rect", { class: "track", width: 100, height: 1 }),
        svg("rect", { class: "bar", width, height: 1 }),
      ]),
    ]);
  });
  return html("figure", {}, [html("h2", {}, title), html("ol", { class: "bars" }, items)]);
};

const parts = (...texts) => texts.filter((text) => text).map((text) => html("span", {}, text));
const plots = () => [
  bars("Reasons", data.by_reason, (row) => parts(row.reason)),
  bars("Origins that cost most", data.by_origin, (row) => parts(row.origin ?? NO_ORIGIN)),
  bars("Rules that cost most", data.by_rule, (row) => [
    html("code", {}, row.rule),
    ...parts(row.origin ?? NO_ORIGIN, place(row)),
  ]),
];

const figures = () => {
  const of = (reason) => data.by_reason.find((row) => row.reason === reason)?.requests ?? 0;
  const named = [
    ["by a rule", of("rule")],
    ["robots.txt unreachable", of("unreachable")],
    ["origins", total("by_origin")],
    ["rules", total("by_rule")],
    ["let through (dry run)", data.dry_run],
    ["broken records, left out", data.broken],
  ];
  return named
    .filter(([, number]) => number)
    .map((pair) => html("div", {}, [html("dt", {}, pair[0]), html("dd", {}, count(pair[1]))]));
};

// Tables. A cell is a list of nodes, or a number, which may have a text.

const shares = ({ requests }) => [
  { value: requests },
  { value: requests, text: percent(requests) },
];

const TABLES = [
  {
    kind: "by_reason", title: "By reason", columns: ["Reason", "Requests", "Share"],
    cells: (row) => [[...parts(row.reason), note(MEANING.get(row.reason) ?? "")], ...shares(row)],
  },
  {
    kind: "by_origin", title: "By origin", about: "scheme, host and port",
    columns: ["Origin", "Requests", "Share"],
    cells: (row) => [[link(row.origin ?? NO_ORIGIN)], ...shares(row)],
  },
  {
    kind: "by_rule", title: "By rule", columns: ["Rule", "robots.txt of", "Requests", "Share"],
    cells: (row) => {
      const origin = link(row.origin ?? NO_ORIGIN, "/robots.txt");
      return [[html("code", {}, row.rule)], [origin, note(place(row))], ...shares(row)];
    },
  },
  {
    kind: "unreachable", title: "robots.txt unreachable", about: "what these sites say is unknown",
    columns: ["Why", "Requests", "Share"],
    cells: (row) => [parts(row.why), ...shares(row)],
  },
  {
    kind: "exempt", title: "Not asked", columns: ["Entry", "Requests"],
    about: "entries of ROBOTS_EXEMPT that were used; these requests are in no other number",
    cells: (row) => [parts(row.entry), { value: row.requests }],
  },
];

const sort = (body, heading, headings, rows) => {
  // Numbers begin with the largest, texts with the first; a second click turns the order round.
  const before = heading.getAttribute("aria-sort");
  const down = before === null ? heading.classList.contains("n") : before === "ascending";
  const column = headings.indexOf(heading);
  const [one, other] = down ? [1, 0] : [0, 1];
  rows.sort((...pair) => {
    const [a, b] = [pair[one].values[column], pair[other].values[column]];
    return typeof a === "number" ? a - b : a.localeCompare(b);
  });
  body.append(...rows.map((row) => row.element));
  for (const each of headings) each.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", down ? "descending" : "ascending");
};

const drawnRow = (cells) => {
  const elements = cells.map((cell, column) => {
    if (column === 0) return html("th", { scope: "row" }, cell);
    if (Array.isArray(cell)) return html("td", {}, cell);
    return html("td", { class: "n" }, cell.text ?? count(cell.value));
  });
  const values = cells.map((cell, column) => cell.value ?? elements[column].textContent);
  return { element: html("tr", {}, elements), values };
};

const filter = (name, rows) => {
  // Hides the rows in which a text is not.
  const input = html("input", { type: "search", id: `filter-${name}` });
  input.addEventListener("input", () => {
    const wanted = input.value.toLowerCase();
    for (const { element } of rows) {
      element.hidden = !element.textContent.toLowerCase().includes(wanted);
    }
  });
  return html("label", { class: "filter" }, [html("span", {}, "Filter"), input]);
};

const section = ({ kind, title, about = "", columns, cells }) => {
  const name = kind.replace("by_", "");
  const id = `${name}-title`;
  const rows = data[kind].map((row) => drawnRow(cells(row)));
  const left = data.more[kind] ? `the first ${count(rows.length)} of ${count(total(kind))}` : "";
  const headings = columns.map((column, place) => {
    const attributes = typeof rows[0].values[place] === "number" ? { class: "n" } : {};
    const button = html("button", { type: "button" }, column);
    return html("th", { scope: "col", ...attributes }, [button]);
  });
  headings[columns.indexOf("Requests")].setAttribute("aria-sort", "descending");
  const body = html("tbody", {}, rows.map((row) => row.element));
  for (const heading of headings) {
    heading.firstChild.addEventListener("click", () => sort(body, heading, headings, rows));
  }
  return html("section", { id: name, "aria-labelledby": id }, [
    html("div", { class: "head" }, [
      html("h2", { id }, title),
      note([about, left].filter((text) => text).join("; "), {}, "p"),
      ...(rows.length < FILTERED ? [] : [filter(name, rows)]),
    ]),
    html("div", { class: "scroll", tabindex: 0, role: "region", "aria-labelledby": id }, [
      html("table", {}, [
        html("caption", {}, title),
        html("thead", {}, [html("tr", {}, headings)]),
        body,
      ]),
    ]),
  ]);
};

document.title = `${headline} - robots.txt report`;
document.querySelector("h1").append(headline);
document.querySelector(".lede").append(data.file);
const main = document.querySelector("main");
main.append(html("dl", { class: "figures" }, figures()));
if (data.requests) main.append(html("div", { class: "plots" }, plots()));
main.append(...TABLES.filter((table) => data[table.kind].length).map(section));
