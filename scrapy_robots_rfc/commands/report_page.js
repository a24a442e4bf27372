"use strict";
// Draws the page from the data that is embedded in it. What sites, spiders or file names wrote has escapes for
// what could not be seen, and is set as `textContent`, which makes no markup of it.

const data = JSON.parse(document.getElementById("data").textContent);

const COLOURED = ["rule", "unreachable", "crawl_delay", "parser"]; // from the bottom of a bar to its top; others share a colour
const MEANING = new Map([
  ["rule", "a rule of the site's robots.txt"],
  ["unreachable", "robots.txt could not be fetched, so the rules are unknown"],
  ["local", "a part of the crawl itself failed, so the rules are unknown"],
  ["crawl_delay", "the site asks for a longer interval than is kept"],
  ["parser", "the project's own parser says so"],
]);
const NO_ORIGIN = "(no origin)";
const NO_SPIDER = "(no name)";
const SHOWN = 100; // characters of a URL that are shown; the link has all of them
const BARS = 10; // bars of a plot at most
const FILTERED = 3; // rows from which on a table can be filtered

// Elements.

const fill = (element, attributes, content) => {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (typeof content === "string") element.textContent = content;
  else element.append(...content.filter((part) => part !== null));
  return element;
};
const html = (name, attributes = {}, content = []) => fill(document.createElement(name), attributes, content);
const svg = (name, attributes = {}, content = []) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, content);

const webUrl = (text) => {
  // The URL of a page on the web in which nothing is odd; null for any other text. Escapes have a backslash.
  if (!/^https?:\/\/[^ \\]*$/i.test(text)) return null;
  try {
    const url = new URL(text);
    return url.username || url.password ? null : url;
  } catch {
    return null;
  }
};
const link = (text, path = null) => {
  const url = webUrl(text);
  const characters = Array.from(text);
  const shown = characters.length > SHOWN ? `${characters.slice(0, SHOWN).join("")}...` : text;
  if (url === null) return html("span", {}, shown);
  return html("a", { href: path === null ? text : `${url.origin}${path}`, rel: "noopener noreferrer" }, shown);
};
const texts = (text) => [html("span", {}, text)];
const note = (content, attributes = {}, name = "span") => html(name, { class: "note", ...attributes }, content);

// Texts.

const count = (number) => number.toLocaleString("en");
const many = (number, what) => `${count(number)} ${what}${number === 1 ? "" : "s"}`;
const percent = (requests) => {
  const part = (100 * requests) / data.requests;
  if (part > 0 && part < 0.05) return "< 0.1 %";
  return `${(part % 1 === 0.25 ? part - 0.01 : part).toFixed(1)} %`; // a half is rounded as the text of the command is
};
const place = (rule) =>
  [rule.line === null ? null : `line ${rule.line}`, rule.token === null ? null : `for ${rule.token}`]
    .filter((part) => part !== null)
    .join(", ");
const total = (kind) => data[kind].length + data.more[kind];

// Plots. No text stands inside of a picture that is stretched to the width of a screen: it would be stretched, too.

const colour = (reason) => `c-${reason.replace("_", "-")}`;

const stacked = (reasons, requests) => {
  const parts = COLOURED.map((reason) => [reason, reasons[reason] ?? 0]);
  const others = requests - parts.reduce((sum, [, number]) => sum + number, 0);
  return [...parts, ["other", others]].filter(([, number]) => number > 0);
};

const bars = (title, rows) => {
  if (!rows.length) return null;
  const longest = rows[0].requests;
  const items = rows.map(({ name, requests, reasons }) => {
    const says = `${count(requests)} of ${count(data.requests)} requests, ${percent(requests)}`;
    const parts = [svg("title", {}, says), svg("rect", { class: "track", width: 100, height: 1 })];
    let before = 0;
    for (const [reason, number] of stacked(reasons, requests)) {
      const [x, length] = [before, number].map((each) => (100 * each) / longest);
      parts.push(svg("rect", { class: `bar ${colour(reason)}`, x, width: length, height: 1 }));
      before += number;
    }
    const picture = { viewBox: "0 0 100 1", preserveAspectRatio: "none", role: "img", "aria-label": says };
    return html("li", {}, [
      html("span", { class: "name" }, name),
      html("span", { class: "n" }, count(requests)),
      svg("svg", picture, parts),
    ]);
  });
  return html("figure", {}, [html("figcaption", {}, [html("h2", {}, title)]), html("ol", { class: "bars" }, items)]);
};

const plots = () => {
  const first = (rows) => rows.slice(0, BARS);
  const reasons = first(data.by_reason).map((row) => ({ ...row, name: texts(row.reason), reasons: { [row.reason]: row.requests } }));
  const origins = first(data.by_origin).map((row) => ({ ...row, name: texts(row.origin ?? NO_ORIGIN), reasons: row.by_reason }));
  const rules = first(data.by_rule).map((row) => {
    const below = [row.origin ?? NO_ORIGIN, place(row)].filter((text) => text);
    const parts = [html("code", {}, row.rule), ...below.map((text) => html("span", { class: "quiet" }, text))];
    return { ...row, name: parts, reasons: { rule: row.requests } };
  });
  return html("div", { class: "plots" }, [
    bars("Reasons", reasons),
    bars("Origins that cost most", origins),
    bars("Rules that cost most", rules),
  ]);
};

const figures = () => {
  const { rule = 0, unreachable = 0, exempt } = data.totals;
  const named = [
    ["by a rule", rule, true],
    ["robots.txt unreachable", unreachable, true],
    ["for another reason", data.requests - rule - unreachable, false],
    ["origins", total("by_origin"), true],
    ["rules", total("by_rule"), true],
    ["let through (dry run)", data.dry_run, false],
    ["decided by a stale copy", data.stale, false],
    ["of exempt sites, not asked", exempt, false],
    ["broken records, left out", data.broken, false],
  ];
  const items = named
    .filter(([, number, always]) => number || always)
    .map(([name, number]) => html("div", {}, [html("dt", {}, name), html("dd", {}, count(number))]));
  return html("dl", { class: "figures" }, items);
};

// Tables. A cell is a list of nodes, or a number with its text.

const number = (value, text = count(value)) => ({ value, text });
const shares = (row) => [number(row.requests), number(row.requests, percent(row.requests))];

const tables = () => [
  {
    kind: "by_reason", title: "By reason", columns: ["Reason", "Requests", "Share"],
    cells: (row) => [[...texts(row.reason), note(MEANING.get(row.reason) ?? "")], ...shares(row)],
  },
  {
    kind: "by_origin", title: "By origin", about: "scheme, host and port",
    columns: ["Origin", "Requests", "Share", "By a rule", "Unreachable", "Other"],
    cells: (row) => {
      const { rule = 0, unreachable = 0 } = row.by_reason;
      const reasons = [rule, unreachable, row.requests - rule - unreachable];
      return [[link(row.origin ?? NO_ORIGIN)], ...shares(row), ...reasons.map((each) => number(each))];
    },
  },
  {
    kind: "by_rule", title: "By rule", about: "with the first URL that each disallowed, and where it stands",
    columns: ["Rule", "robots.txt of", "Requests", "Share"],
    cells: (row) => {
      const example = row.example === null ? null : note([link(row.example)]);
      const where = place(row) ? note(place(row)) : null;
      return [[html("code", {}, row.rule), example], [link(row.origin ?? NO_ORIGIN, "/robots.txt"), where], ...shares(row)];
    },
  },
  {
    kind: "by_spider", title: "By spider", columns: ["Spider", "Requests", "Share"],
    cells: (row) => [texts(row.spider ?? NO_SPIDER), ...shares(row)],
  },
  {
    kind: "unreachable", title: "robots.txt unreachable", about: "what these sites say is unknown",
    columns: ["Why", "Requests", "Share", "Origins"],
    cells: (row) => [texts(row.why), ...shares(row), number(row.origins)],
  },
  {
    kind: "exempt", title: "Not asked", columns: ["Entry", "Requests"],
    about: "entries of ROBOTS_EXEMPT that were used; these requests are in no other number",
    cells: (row) => [texts(row.entry), number(row.requests)],
  },
];

const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b)));

const sort = (body, heading, headings, rows) => {
  // By the column of a heading: numbers begin with the largest, and the second time it is the other way round.
  const before = heading.getAttribute("aria-sort");
  const down = before === null ? heading.classList.contains("n") : before === "ascending";
  const column = headings.indexOf(heading);
  rows.sort((a, b) => (down ? compare(b.values[column], a.values[column]) : compare(a.values[column], b.values[column])));
  body.append(...rows.map((row) => row.element));
  for (const other of headings) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", down ? "descending" : "ascending");
};

const drawnRow = (cells) => {
  const elements = cells.map((cell, column) => {
    if (column === 0) return html("th", { scope: "row" }, cell);
    if (Array.isArray(cell)) return html("td", {}, cell);
    return html("td", { class: cell.value ? "n" : "n zero" }, cell.text);
  });
  const element = html("tr", {}, elements);
  const values = cells.map((cell, column) => (Array.isArray(cell) ? elements[column].textContent : cell.value));
  return { element, values, text: element.textContent.toLowerCase() };
};

const filter = (name, rows, status) => {
  // Hides the rows in which a text is not.
  const input = html("input", { type: "search", id: `filter-${name}` });
  input.addEventListener("input", () => {
    const wanted = input.value.toLowerCase();
    for (const row of rows) row.element.hidden = !row.text.includes(wanted);
    const shown = rows.filter((row) => !row.element.hidden).length;
    status.textContent = wanted ? `${count(shown)} of ${count(rows.length)} rows` : "";
  });
  return html("label", { class: "filter" }, [html("span", {}, "Filter"), input]);
};

const idOf = (kind) => kind.replace("by_", "");

const section = ({ kind, title, about = "", columns, cells }) => {
  const name = idOf(kind);
  const drawn = data[kind].map(cells);
  const rows = drawn.map(drawnRow);
  const left = data.more[kind] ? `the first ${count(rows.length)} of ${count(total(kind))}` : "";
  const status = note("", { role: "status" }, "p");
  const headings = columns.map((column, place) => {
    const attributes = Array.isArray(drawn[0][place]) ? { scope: "col" } : { scope: "col", class: "n" };
    return html("th", attributes, [html("button", { type: "button" }, column)]);
  });
  headings[columns.indexOf("Requests")]?.setAttribute("aria-sort", "descending");
  const body = html("tbody", {}, rows.map((row) => row.element));
  for (const heading of headings) {
    heading.firstChild.addEventListener("click", () => sort(body, heading, headings, rows));
  }
  const id = `${name}-title`;
  return html("section", { id: name, "aria-labelledby": id }, [
    html("div", { class: "head" }, [
      html("h2", { id }, title),
      note([about, left].filter((text) => text).join("; "), {}, "p"),
      status,
      rows.length < FILTERED ? null : filter(name, rows, status),
    ]),
    html("div", { class: "scroll", tabindex: 0, role: "region", "aria-labelledby": id }, [
      html("table", {}, [html("caption", {}, title), html("thead", {}, [html("tr", {}, headings)]), body]),
    ]),
  ]);
};

const contents = (drawn) => {
  const items = drawn.map(({ kind, title }) => html("li", {}, [html("a", { href: `#${idOf(kind)}` }, title)]));
  return html("nav", { "aria-label": "Tables" }, [html("ul", {}, items)]);
};

const headline = () => (data.requests ? `${many(data.requests, "request")} disallowed` : "No request was disallowed");

const lede = () => {
  const [from, to] = [data.from, data.to].map((time) => time?.slice(0, 19).replace("T", " "));
  const until = from?.slice(0, 10) === to?.slice(0, 10) ? to?.slice(11) : to;
  const times = from === undefined ? null : from === to ? `At ${from} UTC` : `From ${from} to ${until} UTC`;
  const counted = (kind, what, only) => (total(kind) > 1 ? many(total(kind), what) : only);
  const spiders = counted("by_spider", "spider", `spider ${data.by_spider[0]?.spider ?? NO_SPIDER}`);
  const origins = counted("by_origin", "origin", `origin ${data.by_origin[0]?.origin ?? NO_ORIGIN}`);
  const found = data.requests ? [times, spiders, origins] : [];
  return [...found, data.title].filter((part) => part !== null).join(" · ");
};

document.title = `${headline()} - robots.txt report`;
fill(document.querySelector("h1"), {}, headline());
fill(document.querySelector(".lede"), {}, lede());
const drawn = tables().filter((table) => data[table.kind].length);
const parts = [figures(), data.requests ? plots() : null, drawn.length ? contents(drawn) : null, ...drawn.map(section)];
document.querySelector("main").append(...parts.filter((part) => part !== null));
