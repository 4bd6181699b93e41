"use strict";
(() => {
  const data = JSON.parse(document.getElementById("index").textContent);
  const blocks = [...document.querySelectorAll("script.block")];
  const opened = new Map();
  const PAGE = 50;
  const by = (id) => document.getElementById(id);
  let chosen = [], page = 0;

  const make = (name, text, kind) => {
    const node = document.createElement(name);
    if (text !== undefined && text !== null) node.textContent = text;
    if (kind) node.className = kind;
    return node;
  };
  const auto = (name, text, kind) => {
    const node = make(name, text, kind);
    node.dir = "auto";
    return node;
  };
  const colour = (level) => (level === null ? "" : level >= 0.8 ? "good-c" : level < 0.5 ? "bad-c" : "warn-c");
  const number = (value) => (Number.isInteger(value) ? String(value) : value.toFixed(value < 10 ? 2 : 1));

  async function block(at) {
    if (!opened.has(at)) opened.set(at, unpack(blocks[at].textContent));
    return opened.get(at);
  }
  async function unpack(text) {
    const bytes = Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return JSON.parse(await new Response(stream).text());
  }

  const level = (sample, metric) => {
    if (!metric) return sample.l;
    const at = data.metrics.indexOf(metric);
    return sample.s[at] === undefined ? null : sample.s[at];
  };

  function choose() {
    const words = by("search").value.trim().toLowerCase();
    const metric = by("rank").value;
    const kept = by("filter").value;
    const rule = kept in data.rules ? new Set(data.rules[kept]) : null;
    chosen = [];
    data.samples.forEach((sample, at) => {
      if (rule && !rule.has(at)) return;
      if (kept && !rule && !sample.u.includes(kept)) return;
      if (metric && level(sample, metric) === null) return;
      if (words && !sample.q.toLowerCase().includes(words)) return;
      chosen.push(at);
    });
    if (metric) chosen.sort((a, b) => level(data.samples[a], metric) - level(data.samples[b], metric) || a - b);
    page = 0;
    show();
  }

  function show() {
    const pages = Math.max(1, Math.ceil(chosen.length / PAGE));
    const metric = by("rank").value;
    by("list").replaceChildren(...chosen.slice(page * PAGE, (page + 1) * PAGE).map((at) => row(at, metric)));
    by("list").hidden = !chosen.length;
    by("count").textContent = chosen.length === 1 ? "1 sample" : `${chosen.length.toLocaleString("en")} samples`;
    by("page").textContent = `Page ${page + 1} of ${pages}`;
    by("previous").disabled = page === 0;
    by("next").disabled = page >= pages - 1;
    document.querySelector(".pages").hidden = pages === 1;
  }

  function row(at, metric) {
    const sample = data.samples[at];
    const item = document.createElement("li");
    const button = make("button", null, "row");
    button.type = "button";
    button.setAttribute("aria-expanded", "false");
    button.append(auto("span", sample.q || "(no question stored)", "ask"));
    const value = level(sample, metric);
    const absent = metric || sample.r === null ? "not scored" : `undecided, risk ${number(sample.r)}`;
    button.append(make("span", value === null ? absent : `${metric ? "" : sample.f ? "faithful " : "overall "}${number(value)}`, `chip ${colour(value)}`));
    button.append(make("span", [sample.t, sample.g].filter(Boolean).join(" · "), "when"));
    button.addEventListener("click", () => toggle(item, button, at));
    item.append(button);
    return item;
  }

  async function toggle(item, button, at) {
    const is = button.getAttribute("aria-expanded") === "true";
    button.setAttribute("aria-expanded", String(!is));
    if (is) return item.querySelector(".detail")?.remove();
    const all = await block(Math.floor(at / data.size));
    if (button.getAttribute("aria-expanded") === "true" && !item.querySelector(".detail"))
      item.append(detail(all[at % data.size], at));
  }

  function detail(sample, at) {
    const box = make("div", null, "detail");
    const left = document.createElement("div"), right = document.createElement("div");
    texts(left, sample);
    chunks(right, sample, at);
    Object.entries(sample.outcomes).forEach(([name, outcome]) => metric(left, name, outcome, at));
    about(left, sample);
    box.append(left, right);
    return box;
  }

  function texts(to, sample) {
    for (const [name, text] of [["Question", sample.question], ["Answer", sample.answer], ["Reference", sample.reference]])
      if (text) to.append(make("h3", name), auto("p", text, "text"));
  }

  function about(to, sample) {
    const facts = Object.entries(sample.facts || {});
    if (facts.length) to.append(make("h3", "About"), auto("p", facts.map(([key, value]) => `${key}: ${value}`).join("\n"), "text minor"));
  }

  function metric(to, name, outcome, at) {
    const title = make("h3", `${name} `);
    if ("not_scored" in outcome) {
      title.append(make("span", outcome.undecided ? "undecided" : "not scored", "chip"));
      to.append(title, make("p", [outcome.not_scored.replaceAll("_", " "), outcome.detail].filter(Boolean).join(": "), "minor"));
      Object.entries(outcome.explanation || {}).forEach(([key, value]) => explain(to, key, value, at));
      return;
    }
    title.append(make("span", [number(outcome.value), outcome.word, outcome.label, outcome.screening && "screening"].filter(Boolean).join(" "), `chip ${colour(outcome.normalized)}`));
    to.append(title);
    (outcome.warnings || []).forEach((text) => to.append(auto("p", text, "minor")));
    Object.entries(outcome.explanation || {}).forEach(([key, value]) => explain(to, key, value, at));
  }

  function explain(to, key, value, at) {
    if (Array.isArray(value) && value.length && value.every((each) => each && typeof each === "object")) {
      const list = make("ul", null, "claims");
      value.forEach((each) => list.append(claim(each, at)));
      to.append(list);
    } else if (value !== null && value !== "" && !(Array.isArray(value) && !value.length)) {
      const text = typeof value === "object" ? JSON.stringify(value) : String(value);
      to.append(auto("p", `${key}: ${text}`, "minor text"));
    }
  }

  const KINDS = { supported: "good-c", contradicted: "bad-c", not_stated: "warn-c", unsure: "" };
  function verdict(each) {
    if (each.verdict) return [each.verdict.replaceAll("_", " "), KINDS[each.verdict] ?? ""];
    const flag = ["supported", "correct", "found", "useful", "holds"].find((name) => name in each);
    if (!flag) return ["", ""];
    if (each[flag] === null) return ["unsure", ""];
    return [each[flag] ? flag : `not ${flag}`, each[flag] ? "good-c" : "bad-c"];
  }
  function claim(each, at) {
    const [word, kind] = verdict(each);
    const item = make("li", null, `claim ${kind}`);
    const subject = each.claim ?? each.entity ?? each.question;
    const link = (n) => {
      const button = make("button", `Chunk ${n}`, "link");
      button.type = "button";
      button.addEventListener("click", () => light(at, n, each.quote));
      return button;
    };
    if (word) item.append(make("span", word, `chip ${kind}`), " ");
    item.append(subject === undefined && each.chunk ? link(each.chunk) : auto("span", subject ?? JSON.stringify(each)));
    if (each.reason) item.append(auto("p", each.reason));
    if (each.quote) item.append(auto("p", `“${each.quote}”`));
    const numbers = subject === undefined ? [] : each.chunk ? [each.chunk] : each.chunks || [];
    if (numbers.length) {
      const links = document.createElement("p");
      links.append(...numbers.flatMap((n) => [link(n), " "]));
      item.append(links);
    }
    return item;
  }

  function light(at, n, quote) {
    const chunk = by(`chunk-${at}-${n}`);
    if (!chunk) return;
    document.querySelectorAll(".chunk.lit").forEach((each) => each.classList.remove("lit"));
    chunk.classList.add("lit");
    const mark = quote && [...chunk.querySelectorAll("mark")].find((each) => quote.includes(each.textContent));
    (mark || chunk).scrollIntoView({ block: "center" });
    chunk.focus({ preventScroll: true });
  }

  function chunks(to, sample, at) {
    if (!sample.contexts) return to.append(make("h3", "Context"), make("p", "Nothing was retrieved.", "minor"));
    to.append(make("h3", sample.contexts.length === 1 ? "1 chunk" : `${sample.contexts.length} chunks`));
    const quotes = Object.values(sample.outcomes).flatMap((one) => Object.values(one.explanation || {})).flat()
      .map((each) => each && each.quote).filter(Boolean);
    sample.contexts.forEach((context, index) => {
      const box = make("div", null, "chunk");
      box.id = `chunk-${at}-${index + 1}`;
      box.tabIndex = 0;
      box.setAttribute("role", "group");
      box.setAttribute("aria-label", `Chunk ${index + 1}`);
      box.append(make("b", [index + 1, context.id].filter((x) => x !== undefined).join(" · ")), marked(context.text, quotes));
      to.append(box);
    });
  }

  function marked(text, quotes) {
    const node = auto("p", null, "text");
    const spans = [...new Set(quotes)].map((quote) => [text.indexOf(quote), quote.length])
      .filter(([start]) => start >= 0).sort((a, b) => a[0] - b[0]);
    let end = 0;
    for (const [start, length] of spans) {
      if (start < end) continue;
      node.append(text.slice(end, start), make("mark", text.slice(start, start + length)));
      end = start + length;
    }
    node.append(text.slice(end));
    return node;
  }

  by("search").addEventListener("input", choose);
  by("rank").addEventListener("change", choose);
  by("filter").addEventListener("change", choose);
  const turn = (step) => { page += step; show(); by("samples").scrollIntoView(); };
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
