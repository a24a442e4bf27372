"use strict";
// Draws the page from the data that is embedded in it. What sites, spiders or file names wrote is set as `textContent`,
// which makes no markup of it.

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
const FILTERED = 3; // rows from which on a table can be filtered
const FEWEST = 12; // bars of time that share the whole width; fewer do not get wider than that
const DAY = 86400;

// Elements.

const printable = (text) =>
  // As the text of the command writes it: what could not be seen, or would turn others round, stands as an escape.
  text.replace(/[^\P{C}]|[\p{Zl}\p{Zp}]|(?! )\p{Zs}/gu, (character) => {
    const code = character.codePointAt(0);
    const short = { 9: "\\t", 10: "\\n", 13: "\\r" }[code];
    const [letter, digits] = code < 0x100 ? ["x", 2] : code < 0x10000 ? ["u", 4] : ["U", 8];
    return short ?? `\\${letter}${code.toString(16).padStart(digits, "0")}`;
  });

const fill = (element, attributes, content) => {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (typeof content === "string") element.textContent = printable(content);
  else element.append(...content.filter((part) => part !== null));
  return element;
};
const html = (name, attributes = {}, content = []) => fill(document.createElement(name), attributes, content);
const svg = (name, attributes = {}, content = []) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, content);

const webUrl = (text) => {
  // The URL of a page on the web in which nothing is odd; null for any other text.
  if (!/^https?:\/\/[^ ]*$/i.test(text) || printable(text) !== text) return null;
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
const said = (milliseconds) => new Date(milliseconds).toISOString().slice(0, 19).replace("T", " ");
const width = (seconds) => {
  const units = [[7 * DAY, "week"], [DAY, "day"], [3600, "hour"], [60, "minute"], [1, "second"]];
  const [size, unit] = units.find(([length]) => seconds >= length && seconds % length === 0);
  return many(seconds / size, unit);
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

const roundUp = (number) => {
  // The next number that makes a good end of an axis, and has a half.
  const size = 10 ** (String(number).length - 1);
  return [10, 12, 15, 20, 25, 30, 40, 50, 60, 80, 100]
    .map((tenths) => (size * tenths) / 10)
    .find((end) => end >= number && end % 2 === 0);
};

const legend = () => {
  const present = COLOURED.filter((reason) => data.totals[reason]);
  if (total("by_reason") > present.length) present.push("other");
  const items = present.map((reason) => {
    const square = svg("rect", { class: colour(reason), width: 1, height: 1 });
    const picture = svg("svg", { viewBox: "0 0 1 1", "aria-hidden": "true" }, [square]);
    return html("li", {}, [picture, html("span", {}, reason)]);
  });
  return html("ul", { class: "legend" }, items);
};

const tick = (milliseconds, seconds, length) => {
  // A time under the axis, no longer than it has to be.
  const text = said(milliseconds);
  const shown =
    length > 5 * DAY ? text.slice(0, 10) : length > DAY ? text.slice(5, 16) : text.slice(11, seconds < 60 ? 19 : 16);
  return html("li", {}, [html("time", { datetime: `${text.replace(" ", "T")}Z` }, shown)]);
};

const overTime = () => {
  const { seconds, buckets } = data.over_time;
  if (!buckets.length) return null;
  const highest = buckets.reduce((most, bucket) => (bucket.requests > most.requests ? bucket : most));
  const top = roundUp(highest.requests);
  const start = Date.parse(buckets[0].from);
  const length = buckets.length * seconds;
  const wide = 8 * Math.min(1, buckets.length / FEWEST); // of the 10 that a bucket has
  const columns = buckets.map((bucket, number) => {
    if (!bucket.requests) return null;
    const counts = stacked(bucket.by_reason, bucket.requests);
    const told = counts.map(([reason, requests]) => `${count(requests)} ${reason}`).join(", ");
    const parts = [svg("title", {}, `${said(Date.parse(bucket.from))} UTC: ${told}`)];
    let below = 0;
    for (const [reason, requests] of counts) {
      below += requests;
      const box = { x: number * 10 + 5 - wide / 2, width: wide, y: 100 - (100 * below) / top };
      parts.push(svg("rect", { class: `bar ${colour(reason)}`, ...box, height: (100 * requests) / top }));
    }
    return svg("g", {}, parts);
  });
  const says =
    `Disallowed requests over time; a bar is ${width(seconds)}, ` +
    `the highest ${count(highest.requests)} requests at ${said(Date.parse(highest.from))} UTC.`;
  const right = buckets.length * 10;
  const picture = { viewBox: `0 0 ${right} 100`, preserveAspectRatio: "none", role: "img", "aria-labelledby": "time-title" };
  const grid = svg("path", { class: "grid", d: [0, 50, 100].map((height) => `M0 ${height}H${right}`).join(" ") });
  const marks = buckets.length % 2 ? [0, 1] : [0, 0.5, 1]; // the middle is named where a bucket begins there
  const ticks = marks.map((part) => tick(start + part * length * 1000, seconds, length));
  const levels = [top, top / 2, 0].map((number) => html("li", {}, count(number)));
  return html("figure", {}, [
    html("figcaption", {}, [html("h2", {}, "Over time"), note(`a bar is ${width(seconds)}`, {}, "p"), legend()]),
    html("div", { class: "time" }, [
      html("ul", { class: "up", "aria-hidden": "true" }, levels),
      svg("svg", picture, [svg("title", { id: "time-title" }, says), grid, ...columns]),
      html("ul", { class: "along", "aria-hidden": "true" }, ticks),
    ]),
  ]);
};

const plots = () => {
  const first = (rows) => rows.slice(0, data.bars);
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
  const shown = data[kind].slice(0, data.top);
  const drawn = shown.map(cells);
  const rows = drawn.map(drawnRow);
  const all = count(total(kind));
  const left = total(kind) > shown.length ? `the first ${count(shown.length)} of ${all}, --top N lists more` : "";
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
  const [from, to] = [data.from, data.to].map((time) => (time === null ? null : said(Date.parse(time))));
  const until = from?.slice(0, 10) === to?.slice(0, 10) ? to?.slice(11) : to;
  const times = from === null ? null : from === to ? `At ${from} UTC` : `From ${from} to ${until} UTC`;
  const counted = (kind, what, only) => (total(kind) > 1 ? many(total(kind), what) : only);
  const spiders = counted("by_spider", "spider", `spider ${data.by_spider[0]?.spider ?? NO_SPIDER}`);
  const origins = counted("by_origin", "origin", `origin ${data.by_origin[0]?.origin ?? NO_ORIGIN}`);
  const found = data.requests ? [times, spiders, origins] : [];
  const file = data.breaks_off ? `${data.title}, which breaks off` : data.title;
  return [...found, file].filter((part) => part !== null).join(" · ");
};

document.title = `${headline()} - robots.txt report`;
fill(document.querySelector("h1"), {}, headline());
fill(document.querySelector(".lede"), {}, lede());
const drawn = tables().filter((table) => data[table.kind].length);
const parts = [figures(), ...(data.requests ? [overTime(), plots()] : []), drawn.length ? contents(drawn) : null, ...drawn.map(section)];
document.querySelector("main").append(...parts.filter((part) => part !== null));
