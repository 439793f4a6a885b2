"use strict";
(() => {
  const d = document.body.dataset, start = +d.start, offset = +d.offset, length = +d.length;
  const svg = document.getElementById("picture"), axis = document.querySelector("#axis svg");
  const grid = document.getElementById("grid"), tip = document.getElementById("tip");
  const steps = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 3e4, 6e4, 12e4, 3e5, 6e5, 18e5, 36e5, 72e5, 216e5, 432e5, 864e5];
  const items = [...svg.querySelectorAll("[data-f]")].map(g => {
    const title = g.querySelector("title");
    g.dataset.tip = title.textContent;
    title.remove();
    return {g, f: +g.dataset.f, t: +g.dataset.t, boxes: [...g.querySelectorAll("rect")], text: g.querySelector("text"), y: g.getAttribute("transform")?.match(/ ([\d.-]+)\)/)[1]};
  });
  let a = 0, b = length, w = 0;

  function draw() {
    w = document.querySelector("main").clientWidth;
    const scale = w / (b - a);
    svg.setAttribute("width", w);
    axis.setAttribute("width", w);
    for (const i of items) {
      const x = (i.f - a) * scale;
      if (i.y !== undefined) { i.g.setAttribute("transform", `translate(${x} ${i.y})`); continue; }
      const x0 = Math.max(x, -10), x1 = Math.min((i.t - a) * scale, w + 10), wide = Math.max(x1 - x0, +d.least);
      i.g.style.display = x1 < -5 || x0 > w + 5 ? "none" : "";
      for (const r of i.boxes) { r.setAttribute("x", x0); r.setAttribute("width", wide); }
      if (!i.text) continue;
      const left = Math.max(x0, 0) + 5;
      i.text.setAttribute("x", left);
      i.text.setAttribute("visibility", x1 - left > i.text.textContent.length * d.letter ? "visible" : "hidden");
    }
    ticks(scale);
  }

  function ticks(scale) {
    const step = steps.find(s => s * scale >= 90) || steps.at(-1) * Math.ceil(90 / scale / steps.at(-1));
    const first = Math.ceil((start + offset + a) / step) * step - start - offset;
    let lines = "", texts = "";
    for (let t = first; t <= b; t += step) {
      const x = (t - a) * scale, iso = new Date(start + offset + t).toISOString();
      const label = step < 1000 ? iso.slice(11, 23) : length > 72e6 ? iso.slice(5, 10) + " " + iso.slice(11, step < 6e4 ? 19 : 16) : iso.slice(11, 19);
      lines += `<line x1="${x}" x2="${x}" y1="0" y2="${svg.getAttribute("height")}"/>`;
      texts += `<text x="${x}" y="15">${label}</text>`;
    }
    grid.innerHTML = lines;
    axis.innerHTML = texts;
  }

  function show(from, to) {
    const span = Math.min(Math.max(to - from, 2), length);
    a = Math.min(Math.max(from, 0), length - span);
    b = a + span;
    draw();
  }
  function zoom(k, x = w / 2) {
    const at = a + (b - a) * x / w;
    k ? show(at - (at - a) * k, at + (b - at) * k) : show(0, length);
  }
  const xOf = e => e.clientX - svg.getBoundingClientRect().left;

  document.querySelector(".zoom").hidden = false;
  document.querySelectorAll("[data-zoom]").forEach(e => e.onclick = () => zoom(+e.dataset.zoom));
  svg.addEventListener("wheel", e => {
    if (e.ctrlKey || e.metaKey) { e.preventDefault(); zoom(Math.exp(e.deltaY / 300), xOf(e)); }
    else if (e.deltaX) { e.preventDefault(); const by = e.deltaX * (b - a) / w; show(a + by, b + by); }
  }, {passive: false});
  let drag = null;
  svg.addEventListener("pointerdown", e => { drag = {x: e.clientX, a, b}; svg.setPointerCapture(e.pointerId); });
  svg.addEventListener("pointerup", () => drag = null);
  svg.addEventListener("dblclick", e => zoom(e.shiftKey ? 2.5 : 0.4, xOf(e)));
  addEventListener("keydown", e => {
    const by = (b - a) / 5;
    const keys = {"+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), "0": () => zoom(0), ArrowLeft: () => show(a - by, b - by), ArrowRight: () => show(a + by, b + by)};
    if (keys[e.key] && !e.ctrlKey && !e.metaKey && !e.altKey) { keys[e.key](); e.preventDefault(); }
  });
  svg.addEventListener("pointermove", e => {
    if (drag && e.buttons) { const by = (drag.x - e.clientX) * (drag.b - drag.a) / w; show(drag.a + by, drag.b + by); }
    const g = document.elementFromPoint(e.clientX, e.clientY)?.closest?.("[data-tip]");
    tip.hidden = !g;
    if (!g) return;
    tip.textContent = g.dataset.tip;
    tip.style.left = Math.max(0, Math.min(e.clientX + 14, innerWidth - tip.offsetWidth - 8)) + "px";
    tip.style.top = (e.clientY + 18 + tip.offsetHeight > innerHeight ? e.clientY - tip.offsetHeight - 10 : e.clientY + 18) + "px";
  });
  svg.addEventListener("pointerleave", () => tip.hidden = true);
  document.querySelectorAll("tbody tr").forEach(r => r.onclick = () => {
    const f = +r.dataset.f, t = +r.dataset.t, edge = Math.max((t - f) / 2, length / 50);
    show(f - edge, t + edge);
    svg.scrollIntoView({block: "nearest"});
  });
  document.querySelectorAll("[data-host]").forEach(li => li.onclick = () => {
    const on = li.classList.toggle("on");
    document.querySelectorAll("[data-host]").forEach(o => o !== li && o.classList.remove("on"));
    svg.classList.toggle("alone", on);
    items.forEach(i => i.g.classList.toggle("shown", on && i.g.classList.contains("h" + li.dataset.host)));
  });
  addEventListener("resize", draw);
  draw();
})();
