"use strict";
(() => {
  const data = JSON.parse(document.getElementById("index").textContent);
  const blocks = [...document.querySelectorAll("script.block")];
  const opened = new Map();
  const PAGE = 50;
  const by = (id) => document.getElementById(id);
  let chosen = [], page = 0;

  const make = (name, kind, text = "") => {
    const node = document.createElement(name);
    node.className = kind;
    node.textContent = text;
    if (kind === "ask") node.dir = "auto";
    return node;
  };
  const colour = (level) => (level === null ? "" : level >= 0.8 ? "good-c" : level < 0.5 ? "bad-c" : "warn-c");
  const level = (sample, metric) => (metric ? sample.s[data.metrics.indexOf(metric)] : sample.l);

  function block(at) {
    if (!opened.has(at)) opened.set(at, unpack(blocks[at].textContent));
    return opened.get(at);
  }
  async function unpack(text) {
    const bytes = Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return JSON.parse(await new Response(stream).text());
  }

  function choose() {
    const words = by("search").value.trim().toLowerCase();
    const metric = by("rank").value;
    const kept = by("filter").value;
    const rule = kept in data.rules ? new Set(data.rules[kept]) : null;
    chosen = [...data.samples.keys()].filter((at) => {
      const sample = data.samples[at];
      return (rule ? rule.has(at) : sample.u.includes(kept))
        && (!metric || level(sample, metric) !== null)
        && sample.q.toLowerCase().includes(words);
    });
    if (metric) chosen.sort((a, b) => level(data.samples[a], metric) - level(data.samples[b], metric) || a - b);
    page = 0;
    show();
  }

  function show() {
    const pages = Math.max(1, Math.ceil(chosen.length / PAGE));
    by("list").replaceChildren(...chosen.slice(page * PAGE, (page + 1) * PAGE).map(row));
    by("list").hidden = !chosen.length;
    by("count").textContent = chosen.length === 1 ? "1 sample" : `${chosen.length.toLocaleString("en")} samples`;
    by("page").textContent = `Page ${page + 1} of ${pages}`;
    by("previous").disabled = page === 0;
    by("next").disabled = page >= pages - 1;
    document.querySelector(".pages").hidden = pages === 1;
  }

  function row(at) {
    const sample = data.samples[at], metric = by("rank").value, value = level(sample, metric);
    const item = document.createElement("li");
    const button = make("button", "row");
    button.type = "button";
    button.setAttribute("aria-expanded", "false");
    const absent = metric || sample.r === null ? "not scored" : `undecided, risk ${sample.r.toFixed(2)}`;
    const name = metric ? "" : sample.f ? "faithful " : "overall ";
    button.append(
      make("span", "ask", sample.q || "(no question stored)"),
      make("span", `chip ${colour(value)}`, value === null ? absent : name + value.toFixed(2)),
      make("span", "when", [sample.t, sample.g].filter(Boolean).join(" · ")));
    button.addEventListener("click", () => toggle(item, button, at));
    item.append(button);
    return item;
  }

  async function toggle(item, button, at) {
    const is = button.getAttribute("aria-expanded") === "true";
    button.setAttribute("aria-expanded", String(!is));
    if (is) return item.querySelector(".detail")?.remove();
    const details = await block(Math.floor(at / data.size));
    if (button.getAttribute("aria-expanded") !== "true" || item.querySelector(".detail")) return;
    const box = make("div", "detail");
    box.innerHTML = details[at % data.size];
    box.addEventListener("click", (event) => light(box, event.target));
    item.append(box);
  }

  function light(box, link) {
    const chunk = link.dataset.chunk && box.querySelectorAll(".chunk")[link.dataset.chunk - 1];
    if (!chunk) return;
    document.querySelectorAll(".chunk.lit").forEach((each) => each.classList.remove("lit"));
    chunk.classList.add("lit");
    const quote = link.closest("li").dataset.quote;
    const mark = [...chunk.querySelectorAll("mark")].find((each) => quote.includes(each.textContent));
    (mark || chunk).scrollIntoView({ block: "center" });
    chunk.focus({ preventScroll: true });
  }

  function turn(step) {
    page += step;
    show();
    by("samples").scrollIntoView();
  }
  by("search").addEventListener("input", choose);
  by("rank").addEventListener("change", choose);
  by("filter").addEventListener("change", choose);
  by("previous").addEventListener("click", () => turn(-1));
  by("next").addEventListener("click", () => turn(1));
  document.querySelectorAll("[data-rule]").forEach((button) =>
    button.addEventListener("click", () => {
      by("filter").value = button.dataset.rule;
      choose();
      by("samples").scrollIntoView();
      by("list").querySelector("button")?.focus({ preventScroll: true });
    }));
  choose();
})();
