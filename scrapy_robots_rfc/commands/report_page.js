"use strict";
// Renders the page from the embedded data. Text from sites and file names has its invisible
// characters escaped, and is set as `textContent`, so it never becomes markup.

const data = JSON.parse(document.getElementById("data").textContent);

const COUNTED = data.counted === "dropped" ? "Dropped" : "Disallowed";
const NO_SITE = "(no site)";
const SHOWN = 100; // maximum characters to show for a site; its title has the full name
const TILES = 7; // maximum number of reasons that get their own tile
const FEW = 10; // number of rows that a table shows at first
const STEP = 1000; // number of rows that each further click shows; the first ones are also printed

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
const button = (content, onClick, attributes = {}) => {
  const made = html("button", { type: "button", ...attributes }, content);
  made.addEventListener("click", onClick);
  return made;
};

// Text.

const count = (number) => number.toLocaleString("en");
const many = (number, what) => `${count(number)} ${what}${number === 1 ? "" : "s"}`;
const present = (texts) => texts.filter((text) => text);
const cut = (text) => (text.length > SHOWN ? `${text.slice(0, SHOWN)}...` : text);
const date = (time) => `${time.slice(0, 19).replace("T", " ")} UTC`;

// Filters of the tables of URLs. A click on a reason, site or rule sets or clears a filter.

const filters = { reason: null, origin: null, rule: null };
const tables = []; // the functions that draw the tables of URLs again

const choose = (facet, value) => {
  filters[facet] = filters[facet] === value ? null : value;
  for (const each of document.querySelectorAll("button[data-facet]")) {
    each.setAttribute("aria-pressed", filters[each.dataset.facet] === each.value);
  }
  for (const draw of tables) draw();
  if (filters[facet] !== null) document.getElementById("dropped")?.scrollIntoView();
};
const choice = (facet, value, text = value) =>
  button(text, () => choose(facet, value), {
    class: "choice", title: `Show the URLs of ${value}`, value, "data-facet": facet,
    "aria-pressed": filters[facet] === value,
  });
const chips = () =>
  Object.entries(filters)
    .filter(([, value]) => value !== null)
    .map(([facet, value]) =>
      button(`${facet === "origin" ? "site" : facet}: ${cut(value)} \u00d7`, () => choose(facet, value), {
        class: "chip", "aria-label": `Remove the filter ${cut(value)}`,
      }),
    );

// The reasons, which add up to the total.

const tile = ({ reason, requests, share, meaning }) =>
  html("div", {}, [
    html("dt", {}, [meaning ? choice("reason", reason) : html("b", {}, reason), note(meaning)]),
    html("dd", {}, [count(requests), " ", note(share)]),
  ]);
const tiles = () => {
  const reasons = data.by_reason.slice(0, TILES);
  const rest = reasons.reduce((left, row) => left - row.requests, data.requests);
  const other = { reason: "other reasons", requests: rest, share: "", meaning: "" };
  return (rest ? [...reasons, other] : reasons).map(tile);
};

// The rows of each table: the values to sort by, the text to search, and a function that makes the
// cells. The first cell is the name, the second may be a bar, the others are numbers.

const bar = ({ requests, share }) => {
  const width = data.requests ? (100 * requests) / data.requests : 0;
  const drawn = svg("svg", { viewBox: "0 0 100 1", preserveAspectRatio: "none", "aria-hidden": true }, [
    svg("rect", { class: "track", width: 100, height: 1 }),
    svg("rect", { class: "bar", width, height: 1 }),
  ]);
  return html("div", { class: "share" }, [drawn, note(share)]);
};

const file = ({ robots_url: url, digest, first_fetched, fetched }) => {
  const isLink = /^https?:\/\/[\w.:[\]-]+\/robots\.txt$/i.test(url ?? "");
  const name = isLink ? html("a", { href: url, rel: "noopener noreferrer" }, url) : (url ?? "");
  const times = [...new Set(present([first_fetched, fetched]).map(date))].join(" to ");
  const details = present([digest, times && `requested ${times}`]);
  return html("li", {}, [name, details.length ? ` (${details.join(", ")})` : ""]);
};

const siteRow = (row) => {
  const name = row.origin ?? NO_SITE;
  const state = present([row.why ?? row.outcome, row.crawl_delay && `Crawl-delay ${row.crawl_delay} s`]);
  const used = row.files.filter(({ digest }) => digest).length;
  const files = html("details", {}, [
    html("summary", {}, used ? many(used, "robots.txt file") : "robots.txt request"),
    html("ul", {}, row.files.map(file)),
  ]);
  return {
    values: [name, row.requests, row.requests, row.allowed ?? -1],
    text: name,
    cells: () => [
      [choice("origin", name, cut(name)), note(state.join("; ")), ...(row.files.length ? [files] : [])],
      [bar(row)], count(row.requests), row.allowed === null ? "" : count(row.allowed),
    ],
  };
};

const ruleRow = (row) => ({
  values: [row.rule, row.requests, row.requests],
  text: row.rule,
  cells: () => [[html("code", {}, [choice("rule", row.rule)])], [bar(row)], count(row.requests)],
});

const plainRow = (name, row) => ({
  values: [name, row.requests], text: name, cells: () => [name, count(row.requests)],
});

// If all requests were sent in a dry run, the title already mentions it.
const inDryRun = (requests) =>
  requests && data.dry_run < data.requests ? `, ${count(requests)} in a dry run` : "";

// The digest tells the files of a site apart, so it is not shown if there is only one file.
const haveOneFile = new Set(
  data.by_origin.filter(({ files }) => files.length < 2).map(({ origin }) => origin),
);

const urlRows = (group) => {
  const details = present([
    group.reason,
    group.token !== null && `group ${group.token}`,
    group.agent !== null && `agent ${group.agent}`,
    !haveOneFile.has(group.origin) && group.digest,
  ]);
  const why = `${group.why ?? group.rule ?? group.reason} (${details.join(", ")})`;
  const facets = {
    reason: group.reason,
    origin: group.origin ?? NO_SITE,
    rule: group.rule ?? group.why ?? "not given",
  };
  return group.urls.map(({ url, requests, dry_run }) => ({
    values: [url, requests], text: `${url} ${why}`, facets,
    cells: () => [[html("code", {}, url), note(why + inDryRun(dry_run))], count(requests)],
  }));
};
const isChosen = (facets) =>
  Object.entries(filters).every(([facet, value]) => value === null || facets[facet] === value);

// Tables.

const TABLES = [
  {
    kind: "runs", title: "Runs", about: "use scrapy robots report --run N to show only one",
    columns: ["Run", "Requests"], rows: (run) => plainRow(run.name, run),
  },
  {
    kind: "by_origin", title: "By site", about: "click on a site to see its URLs",
    columns: ["Site", "Share", COUNTED, "Allowed"], rows: siteRow,
  },
  {
    kind: "by_rule", title: "By rule or cause", about: "click on a rule to see its URLs",
    columns: ["Rule or cause", "Share", COUNTED], rows: ruleRow,
  },
  {
    kind: "dropped", title: `${COUNTED} URLs`, about: "",
    columns: ["URL", "Requests"], rows: urlRows,
  },
  {
    kind: "allowed_urls", title: "Allowed URLs", about: "",
    columns: ["URL", "Requests"], rows: urlRows,
  },
  {
    kind: "exempt", title: "Exempt", about: "not judged by robots.txt, so not part of the numbers above",
    columns: ["ROBOTS_EXEMPT entry", "Requests"], rows: (row) => plainRow(row.entry ?? "", row),
  },
];

const drawnRow = (row, isLater) => {
  const [name, ...others] = row.cells();
  const cells = others.map((cell) => html("td", { class: typeof cell === "string" ? "n" : "bars" }, cell));
  return html("tr", isLater ? { class: "later" } : {}, [html("th", { scope: "row" }, name), ...cells]);
};

const compare = (a, b) => (typeof a === "number" ? a - b : a.localeCompare(b));
// Sort the rows by a column: numbers in descending and text in ascending order. A second click on
// the heading reverses the order.
const sort = (rows, heading, headings) => {
  const column = headings.indexOf(heading);
  const before = heading.getAttribute("aria-sort");
  const isDown = before === null ? column > 0 : before === "ascending";
  rows.sort((a, b) => compare(a.values[column], b.values[column]) * (isDown ? -1 : 1));
  for (const each of headings) each.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", isDown ? "descending" : "ascending");
};

const idOf = (kind) => kind.replace("by_", "");
const JSON_HINT = "scrapy robots report --json lists every URL";

const section = ({ kind, title, about, columns, rows: toRows }) => {
  const name = idOf(kind);
  const rows = data[kind].flatMap(toRows);
  const hasUrls = columns[0] === "URL";
  const body = html("tbody");
  const chosen = html("p", { class: "chosen", "aria-live": "polite" });
  const rest = html("p", { class: "rest" });
  const input = html("input", { type: "search", id: `filter-${name}` });
  let limit = FEW;
  const draw = () => {
    const wanted = input.value.toLowerCase();
    const found = rows.filter(
      (row) => (!hasUrls || isChosen(row.facets)) && row.text.toLowerCase().includes(wanted),
    );
    const drawn = found.slice(0, Math.max(limit, STEP));
    body.replaceChildren(...drawn.map((row, place) => drawnRow(row, place >= limit)));
    if (hasUrls) chosen.replaceChildren(...chips());
    const left = found.length - limit;
    const more = left > STEP ? `Show ${count(STEP)} more` : `Show all ${count(found.length)}`;
    rest.replaceChildren(...(left > 0 ? [button(more, () => show(limit + STEP))] : []));
    if (unlisted && found.length === rows.length) {
      rest.append(note(`and ${many(unlisted, "more request")}; ${JSON_HINT}`));
    }
    if (!found.length) rest.append(note(noMatch));
  };
  const show = (number) => {
    limit = number;
    draw();
  };
  const unlisted = hasUrls ? data[kind].reduce((sum, group) => sum + group.more, 0) : 0;
  const noUrl = `no ${title.toLowerCase().replace("urls", "URL")} matches these filters`;
  const hint = unlisted || data.more[kind] ? ` on this page; ${JSON_HINT}` : "";
  const noMatch = hasUrls ? noUrl + hint : "no matches";
  input.addEventListener("input", () => show(FEW));
  if (hasUrls) tables.push(draw);
  addEventListener("beforeprint", () => show(Infinity));
  const headings = columns.map((text, place) => {
    const heading = html("th", { scope: "col", class: !place ? "" : text === "Share" ? "bars" : "n" });
    if (text === COUNTED) heading.setAttribute("aria-sort", "descending");
    heading.append(button(text, () => { sort(rows, heading, headings); draw(); }));
    return heading;
  });
  const all = data[kind].length + (data.more[kind] ?? 0);
  const first = `the first ${count(data[kind].length)} of ${count(all)}`;
  const bound = data.more[kind] ? first + (hasUrls ? " rules and causes" : "") : "";
  draw();
  return html("section", { id: name, "aria-labelledby": `${name}-title` }, [
    html("div", { class: "head" }, [
      html("h2", { id: `${name}-title` }, title),
      note(present([about, bound]).join("; "), "p"),
      ...(hasUrls || rows.length > FEW
        ? [html("label", { class: "filter" }, [html("span", {}, "Search"), input])]
        : []),
    ]),
    ...(hasUrls ? [chosen] : []),
    html("table", {}, [html("caption", {}, title), html("thead", {}, [html("tr", {}, headings)]), body]),
    rest,
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
