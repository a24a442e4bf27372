"use strict";
// Renders the page from the embedded data. Text from sites and file names has its invisible
// characters escaped, and is set as `textContent`, so it never becomes markup.

const data = JSON.parse(document.getElementById("data").textContent);

const NO_SITE = "(no site)";
const SHOWN = 100; // maximum characters to show for a site; the link contains the full name
const TILES = 7; // maximum number of reasons that get their own tile
const FILTERED = 3; // minimum number of rows for a table to get a filter
const OPEN = 100; // maximum number of URLs that are all shown from the start

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
const note = (content, name = "span") => html(name, { class: "note" }, content);

const site = (origin) => {
  const name = origin ?? NO_SITE;
  const shown = name.length > SHOWN ? `${name.slice(0, SHOWN)}...` : name;
  if (!/^https?:\/\/[\w.:[\]-]+$/i.test(name)) return html("span", {}, shown);
  return html("a", { href: `${name}/robots.txt`, rel: "noopener noreferrer" }, shown);
};

// Text.

const count = (number) => number.toLocaleString("en");
const many = (number, what) => `${count(number)} ${what}${number === 1 ? "" : "s"}`;
const present = (texts) => texts.filter((text) => text);

// The reasons, which add up to the total.

const tile = ({ reason, requests, share, meaning }) =>
  html("div", {}, [
    html("dt", {}, [html("b", {}, reason), note(meaning)]),
    html("dd", {}, [count(requests), " ", note(share)]),
  ]);
const tiles = () => {
  const reasons = data.by_reason.slice(0, TILES);
  const rest = reasons.reduce((left, row) => left - row.requests, data.requests);
  const other = { reason: "other reasons", requests: rest, share: "", meaning: "" };
  return (rest ? [...reasons, other] : reasons).map(tile);
};

// Tables with two columns. The second contains the number of requests.

const urlCount = data.dropped.reduce((sum, row) => sum + row.urls.length, 0);
const isOpen = urlCount <= OPEN;

// If all requests were sent in a dry run, the title already mentions it.
const inDryRun = (requests) =>
  requests && data.dry_run < data.requests ? `, ${count(requests)} in a dry run` : "";

const urls = (row) => {
  const items = row.urls.map(({ url, requests, dry_run }) =>
    html("li", {}, url + (requests > 1 ? ` (${count(requests)} times)` : "") + inDryRun(dry_run)),
  );
  const more = `and ${many(row.more, "more request")}; scrapy robots report --json lists every URL`;
  return html("details", isOpen ? { open: "" } : {}, [
    html("summary", {}, many(row.urls.length, "URL")),
    html("ul", {}, items),
    ...(row.more ? [note(more, "p")] : []),
  ]);
};

const dropped = (row) => {
  const details = present([
    row.reason,
    row.token !== null && `group ${row.token}`,
    row.agent !== null && `agent ${row.agent}`,
  ]);
  return [
    html("code", {}, row.why ?? row.rule ?? row.reason),
    html("span", { class: "note" }, [site(row.origin), `, ${details.join(", ")}${inDryRun(row.dry_run)}`]),
    urls(row),
  ];
};

const TABLES = [
  {
    kind: "runs", title: "Runs", about: "use scrapy robots report --run N to show only one",
    column: "Run", cell: (row) => [row.name],
  },
  { kind: "by_origin", title: "By site", column: "Site", cell: (row) => [site(row.origin)] },
  {
    kind: "unreachable", title: "robots.txt unreachable", about: "by cause",
    column: "Cause", cell: (row) => [row.why],
  },
  {
    kind: "dropped", title: data.dry_run ? "Disallowed URLs" : "Dropped URLs", about: "by reason and rule",
    column: "Reason and URLs", cell: dropped,
  },
  {
    kind: "exempt", title: "Exempt", column: "ROBOTS_EXEMPT entry", cell: (row) => [row.entry ?? ""],
    about: "not judged by robots.txt, so not part of the numbers above",
  },
];

const numberCell = ({ requests, share }) => {
  if (share === undefined) return html("td", { class: "n" }, count(requests));
  const width = (100 * requests) / data.requests;
  const bar = svg("svg", { viewBox: "0 0 100 1", preserveAspectRatio: "none", "aria-hidden": true }, [
    svg("rect", { class: "track", width: 100, height: 1 }),
    svg("rect", { class: "bar", width, height: 1 }),
  ]);
  return html("td", { class: "n" }, [html("b", {}, count(requests)), " ", note(share), bar]);
};

const drawnRow = (row, cell) => {
  const name = html("th", { scope: "row" }, cell(row));
  const element = html("tr", {}, [name, numberCell(row)]);
  return { element, values: [name.textContent, row.requests], details: name.querySelector("details") };
};

const sort = (body, heading, headings, rows) => {
  // Sorts numbers in descending and text in ascending order. A second click reverses the order.
  const before = heading.getAttribute("aria-sort");
  const column = headings.indexOf(heading);
  const isDown = before === null ? column === 1 : before === "ascending";
  rows.sort((one, other) => {
    const [a, b] = isDown ? [other.values[column], one.values[column]] : [one.values[column], other.values[column]];
    return typeof a === "number" ? a - b : a.localeCompare(b);
  });
  body.append(...rows.map((row) => row.element));
  for (const each of headings) each.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", isDown ? "descending" : "ascending");
};

const filter = (name, rows) => {
  // Hides the rows that don't contain the text. In the other rows, if some URLs contain it, hides
    // the rest.
  const input = html("input", { type: "search", id: `filter-${name}` });
  input.addEventListener("input", () => {
    const wanted = input.value.toLowerCase();
    const has = (element) => element.textContent.toLowerCase().includes(wanted);
    for (const { element, details } of rows) {
      element.hidden = !has(element);
      if (details === null) continue;
      const items = [...details.querySelectorAll("li")];
      const matching = new Set(items.filter(has));
      for (const item of items) item.hidden = matching.size > 0 && !matching.has(item);
      details.open = isOpen || (wanted !== "" && matching.size > 0);
    }
  });
  return html("label", { class: "filter" }, [html("span", {}, "Search"), input]);
};

const idOf = (kind) => kind.replace("by_", "");

const section = ({ kind, title, about = "", column, cell }) => {
  const name = idOf(kind);
  const id = `${name}-title`;
  const rows = data[kind].map((row) => drawnRow(row, cell));
  const all = rows.length + data.more[kind];
  const bound = data.more[kind] ? `the first ${count(rows.length)} of ${count(all)}` : "";
  const headings = [column, "Requests"].map((text, place) =>
    html("th", { scope: "col", class: place ? "n" : "" }, [html("button", { type: "button" }, text)]),
  );
  if (kind !== "runs") headings[1].setAttribute("aria-sort", "descending");
  const body = html("tbody", {}, rows.map((row) => row.element));
  for (const heading of headings) {
    heading.firstChild.addEventListener("click", () => sort(body, heading, headings, rows));
  }
  return html("section", { id: name, "aria-labelledby": id }, [
    html("div", { class: "head" }, [
      html("h2", { id }, title),
      note(present([about, bound]).join("; "), "p"),
      ...(rows.length >= FILTERED || kind === "dropped" ? [filter(name, rows)] : []),
    ]),
    html("table", {}, [html("caption", {}, title), html("thead", {}, [html("tr", {}, headings)]), body]),
  ]);
};

document.title = `${data.headline} - robots.txt report`;
document.querySelector("h1").append(data.headline);
document.querySelector(".facts").append(
  ...data.facts.map(([name, text]) => html("div", {}, [html("dt", {}, name), html("dd", {}, text)])),
);
const main = document.querySelector("main");
if (data.requests) main.append(html("dl", { class: "tiles" }, tiles()));
const shown = TABLES.filter(({ kind }) => data[kind].length > (kind === "runs" ? 1 : 0));
const link = ({ kind, title }) => html("a", { href: `#${idOf(kind)}` }, title);
if (shown.length > 1) main.append(html("nav", {}, shown.map(link)));
main.append(...shown.map(section));
addEventListener("beforeprint", () => {
  for (const details of document.querySelectorAll("details")) details.open = true;
});
