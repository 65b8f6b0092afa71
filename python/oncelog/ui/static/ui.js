// Draws what the server sends. Names are data: they go into text nodes and attributes, never into markup.
"use strict";

const SVG = "http://www.w3.org/2000/svg";
const AGES = new Set(["age", "time-out", "held for", "silent for"]);
const byId = (id) => document.getElementById(id);
const drawn = new Map();
const unfolded = new Set();
let newest = null;
let stream = null;

if (location.search) history.replaceState(null, "", "/"); // the token is in a cookie now

// What a name has that nobody sees, or that turns the text around it, is shown as its number.
function visible(text) {
    return text.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, (one) => {
        const number = one.codePointAt(0).toString(16);
        return number.length > 4 ? `\\U${number.padStart(8, "0")}` : `\\u${number.padStart(4, "0")}`;
    });
}

function element(name, text, className) {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = visible(text);
    if (className) made.className = className;
    return made;
}

function age(seconds) {
    const units = [["d", 86400], ["h", 3600], ["min", 60]];
    for (const [unit, size] of units) if (seconds >= 2 * size) return `${Math.floor(seconds / size)} ${unit}`;
    return `${Math.floor(seconds)} s`;
}

function spark(values) {
    const drawing = document.createElementNS(SVG, "svg");
    const line = document.createElementNS(SVG, "polyline");
    const most = Math.max(...values, 1), last = Math.max(values.length - 1, 1);
    line.setAttribute("points", values.map((value, at) => `${100 * at / last},${19 - 18 * value / most}`).join(" "));
    drawing.setAttribute("viewBox", "0 0 100 20");
    drawing.setAttribute("preserveAspectRatio", "none");
    drawing.setAttribute("role", "img");
    drawing.setAttribute("aria-label", `from ${values[0]} to ${values.at(-1)}, at most ${Math.max(...values)}`);
    drawing.append(line);
    return drawing;
}

function cell(value, column, absent) {
    const made = element("td", undefined, typeof value === "number" ? "number" : "");
    made.dataset.column = column;
    if (Array.isArray(value)) made.append(spark(value));
    else made.append(element("span", shown(value, column) ?? absent, "data"));
    return made;
}

function shown(value, column) {
    if (value === null || value === "") return null;
    if (column === "time") return new Date(value).toLocaleTimeString();
    if (AGES.has(column)) return age(value);
    return typeof value === "number" ? value.toLocaleString("en") : value;
}

function drawRow(row, columns, absent) {
    const line = element("tr");
    row.forEach((value, at) => line.append(cell(value, columns[at], absent)));
    return line;
}

// What is unfolded stays so in the next readings: `key` says which row it is.
function fold(line, parts, key) {
    const button = element("button", undefined, "fold"), name = line.querySelector("td > *");
    const show = () => {
        button.setAttribute("aria-expanded", unfolded.has(key));
        for (const part of parts) part.hidden = !unfolded.has(key);
    };
    button.dataset.key = key;
    button.addEventListener("click", () => {
        if (!unfolded.delete(key)) unfolded.add(key);
        show();
    });
    for (const part of parts) part.className = "part";
    name.replaceWith(button);
    button.append(name);
    show();
}

function drawTable(table) {
    const section = element("section"), title = element("h2", `${table.title} `);
    const many = table.matching === table.total ? table.total : `${table.matching} of ${table.total}`;
    const some = table.rows.length < table.matching ? `, the first ${table.rows.length} shown` : "";
    title.append(element("span", `(${many}${some})`, "count"));
    title.id = `table-${table.title}`;
    section.setAttribute("aria-labelledby", title.id);
    section.append(title);
    if (table.note) section.append(element("p", table.note, "note"));
    if (!table.rows.length) return section;
    const grid = element("table"), head = element("thead"), body = element("tbody"), names = element("tr");
    grid.setAttribute("aria-labelledby", title.id);
    for (const column of table.columns) {
        const name = element("th", column);
        name.scope = "col";
        names.append(name);
    }
    head.append(names);
    table.rows.forEach((row, at) => {
        const line = drawRow(row, table.columns, "–"), parts = table.parts[at] ?? [];
        const below = parts.map((part) => drawRow(part, table.columns, ""));
        if (parts.length) fold(line, below, JSON.stringify([table.title, ...row.slice(0, 2)]));
        body.append(line, ...below);
    });
    grid.append(head, body);
    section.append(grid);
    return section;
}

// A table that is the same stays as it is, so that a reader keeps the place and what is selected.
function drawTables(tables) {
    const shown = byId("tables");
    tables.forEach((table, at) => {
        const key = JSON.stringify(table), old = shown.children[at];
        if (old && drawn.get(table.title) === key) return;
        drawn.set(table.title, key);
        const focused = old?.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
        const made = drawTable(table);
        if (old) old.replaceWith(made);
        else shown.append(made);
        const again = [...made.querySelectorAll(".fold")].find((button) => button.dataset.key === focused);
        again?.focus({ preventScroll: true });
    });
}

// Troubles are kept where they are while their command is the same: a new reading takes nobody's focus or selection.
function drawTroubles(troubles, total) {
    const list = byId("troubles"), kept = new Map([...list.children].map((item) => [item.dataset.key, item]));
    const items = troubles.map((trouble) => {
        const key = JSON.stringify([trouble.who, trouble.what, trouble.command]);
        const item = kept.get(key) ?? newTrouble(trouble, key);
        item.querySelector(".since").textContent = trouble.age_seconds === null ? "" : `for ${age(trouble.age_seconds)}`;
        return item;
    });
    const isSame = items.length === list.children.length && items.every((item, at) => list.children[at] === item);
    if (!isSame) list.replaceChildren(...items);
    byId("quiet").textContent = total > troubles.length ? `${total} things, the oldest ${troubles.length} shown.` : "";
    if (!troubles.length) byId("quiet").textContent = "Nothing is stuck.";
}

function newTrouble(trouble, key) {
    const item = element("li");
    item.dataset.key = key;
    item.append(element("strong", trouble.who || "The log", "data"), " ", element("span", undefined, "since"));
    item.append(element("div", trouble.what, "data"));
    if (!trouble.command) return item;
    const line = element("div", undefined, "command"), field = element("input"), copy = element("button", "Copy");
    field.readOnly = true;
    field.value = trouble.command;
    const who = visible(trouble.who || "the log");
    field.setAttribute("aria-label", `Command for ${who}`);
    copy.setAttribute("aria-label", `Copy the command for ${who}`);
    copy.addEventListener("click", async () => {
        field.select();
        try {
            await navigator.clipboard.writeText(field.value);
            byId("copied").textContent = "Copied.";
            copy.textContent = "Copied";
        } catch { // beyond loopback without TLS, browsers lend no clipboard
            copy.textContent = document.execCommand("copy") ? "Copied" : "Selected";
            byId("copied").textContent = copy.textContent;
        }
        setTimeout(() => { copy.textContent = "Copy"; }, 2000);
    });
    line.append(field, copy);
    item.append(line);
    return item;
}

function say(words, isAway) {
    const text = visible(words);
    if (byId("state").textContent !== text) byId("state").textContent = text;
    byId("state").className = isAway ? "away" : "";
}

function draw(page) {
    newest = page;
    byId("place").textContent = visible(page.place);
    document.title = page.troubles.length ? `(${page.troubles_total}) oncelog` : "oncelog";
    const read = page.read_ms === null ? "" : ` What is shown is of ${new Date(page.read_ms).toLocaleTimeString()}.`;
    if (page.problem) say(`The store cannot be read: ${page.problem}.${read}`, true);
    else say("Live.", false);
    if (page.read_ms === null) return;
    drawTroubles(page.troubles, page.troubles_total);
    drawTables(page.tables);
}

function listen() {
    stream?.close();
    stream = new EventSource(`/events?filter=${encodeURIComponent(byId("filter").value)}`);
    stream.onmessage = (event) => draw(JSON.parse(event.data));
    stream.onerror = () => {
        const read = newest?.read_ms ? ` What is shown is of ${new Date(newest.read_ms).toLocaleTimeString()}.` : "";
        say(`The page's server does not answer.${read}`, true);
        if (stream.readyState === EventSource.CLOSED) setTimeout(listen, 2000);
    };
}

let typing = 0;
byId("filter").addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(listen, 200);
});
listen();
