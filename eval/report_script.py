"""The report's only script: it sorts, filters and pages the table of pairs.

Input: the JSON beside it. Output: `SCRIPT`, plain JavaScript. Invariant: it asks no network and
writes text only as text; the state stands in the address after `#`, so a view can be sent.
"""

SCRIPT = """
"use strict";
(() => {
const data = JSON.parse(document.getElementById("pair-data").textContent);
const box = document.getElementById("pairs"), form = box.querySelector("form");
const body = box.querySelector("tbody"), heads = [...box.querySelectorAll("thead th")];
const pager = box.querySelector(".pager"), found = document.getElementById("found");
const KINDS = 10, TIME = 2, state = {q: "", run: "", kind: "", sort: "", page: "1"};
const clock = s => {
  const t = Math.round(s * 10), two = n => String(n).padStart(2, "0");
  const h = Math.floor(t / 36000), m = Math.floor(t / 600) % 60;
  return (h ? h + ":" + two(m) : m) + ":" + two(Math.floor(t / 10) % 60) + "." + t % 10;
};
const told = (row, i) => i === 0 ? data.runs[row[0]] : i === TIME ? clock(row[TIME])
  : i === KINDS ? row[KINDS].map(k => data.kinds[k]).join(", ")
  : row[i] === null ? "\\u2013" : typeof row[i] === "number" ? row[i].toFixed(3) : row[i];
const keep = row => (state.run === "" || row[0] === +state.run)
  && (state.kind === "" || (+state.kind === data.kinds.length ? !row[KINDS].length
      : row[KINDS].includes(+state.kind)))
  && (!state.q || [row[1], row[3], row[4]].some(
      t => t !== null && t.toLowerCase().includes(state.q.toLowerCase())));
const order = i => (a, b) => {
  const x = i === KINDS ? told(a, i) : a[i], y = i === KINDS ? told(b, i) : b[i];
  if (x === null || y === null) return (x === null) - (y === null);  // dashes last either way
  return (x < y ? -1 : x > y ? 1 : 0) * (state.sort.startsWith("-") ? -1 : 1);
};
const column = () => state.sort === "" ? -1 : +state.sort.replace("-", "");
function show() {
  let rows = data.rows.filter(keep);
  if (column() >= 0) rows = [...rows].sort(order(column()));
  const pages = Math.max(1, Math.ceil(rows.length / data.page));
  const page = Math.min(Math.max(1, +state.page || 1), pages);
  body.replaceChildren(...rows.slice((page - 1) * data.page, page * data.page).map(row => {
    const tr = document.createElement("tr");
    heads.forEach((head, i) => {
      const td = tr.insertCell();
      td.textContent = told(row, i);
      td.className = head.classList.contains("num") ? "num" : row[i] === null ? "none" : "";
    });
    return tr;
  }));
  heads.forEach((head, i) => head.setAttribute("aria-sort", i !== column() ? "none"
    : state.sort.startsWith("-") ? "descending" : "ascending"));
  found.textContent = rows.length === data.rows.length ? rows.length + " rows"
    : rows.length + " of " + data.rows.length + " rows";
  pager.hidden = pages === 1;
  document.getElementById("page").textContent = "page " + page + " of " + pages;
  const [back, on] = pager.querySelectorAll("button");
  back.disabled = page === 1; on.disabled = page === pages;
  state.page = String(page);
}
function remember() {
  const words = new URLSearchParams(Object.entries(state).filter(
    ([name, value]) => value !== "" && !(name === "page" && value === "1")));
  try { history.replaceState(null, "", "#" + words); } catch (e) { /* a frame without history */ }
}
function recall() {
  const words = new URLSearchParams(location.hash.slice(1));
  for (const name in state) state[name] = words.get(name) || (name === "page" ? "1" : "");
  if (!/^-?\\d+$/.test(state.sort) || column() >= heads.length) state.sort = "";
  for (const name of ["q", "run", "kind"]) form.elements[name].value = state[name];
  show();
}
heads.forEach((head, i) => {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = head.textContent;
  button.onclick = () => {
    state.sort = column() === i && !state.sort.startsWith("-") ? "-" + i : String(i);
    state.page = "1"; show(); remember();
  };
  head.replaceChildren(button);
});
form.oninput = () => {
  for (const name of ["q", "run", "kind"]) state[name] = form.elements[name].value;
  state.page = "1"; show(); remember();
};
form.onsubmit = event => event.preventDefault();
form.onreset = () => {
  Object.assign(state, {q: "", run: "", kind: "", sort: "", page: "1"}); show(); remember();
};
pager.onclick = event => {
  if (!event.target.value) return;
  state.page = String(+state.page + +event.target.value); show(); remember();
};
addEventListener("hashchange", recall);
form.hidden = false;
recall();
})();
"""
