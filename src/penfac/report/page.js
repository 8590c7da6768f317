"use strict";
// Draws the learning curves of the page. No libraries; texts only ever as text nodes.
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const DASHES = ["", "8 4", "2 3"];
  const NARROW = 520; // pixels; below it the readout lies under the plot
  const ZERO_ROOM = 0.08; // part of a logarithmic axis that leads from 0 to the first step

  // ---- elements

  function shape(name, attributes, parent, content) {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (content !== undefined) made.textContent = content;
    if (parent) parent.append(made);
    return made;
  }

  function element(tag, kind, parent, content) {
    const made = document.createElement(tag);
    if (kind) made.className = kind;
    if (content !== undefined) made.textContent = content;
    if (parent) parent.append(made);
    return made;
  }

  function button(kind, parent, content, pressed, act) {
    const made = element("button", kind, parent, content);
    made.type = "button";
    made.setAttribute("aria-pressed", String(pressed));
    made.addEventListener("click", () => {
      const now = made.getAttribute("aria-pressed") !== "true";
      made.setAttribute("aria-pressed", String(now));
      act(now);
    });
    return made;
  }

  // ---- numbers, written as words.py writes them

  const grouped = (digits) => digits.replace(/\B(?=(\d{3})+$)/g, "\u202f");

  function number(x) {
    if (x === null || x === undefined) return "\u2013";
    const size = Math.abs(x);
    const sign = x < 0 ? "\u2212" : "";
    if (size > 0 && size < 0.0005) {
      return sign + size.toExponential(1).replace("+", "").replace("-", "\u2212");
    }
    const decimals = size >= 100 || size === 0 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3;
    const [whole, part] = size.toFixed(decimals).split(".");
    return sign + grouped(whole) + (part ? "." + part : "");
  }

  function brief(steps) {
    if (steps >= 1e6) return `${+(steps / 1e6).toPrecision(4)}M`;
    return steps >= 1e3 ? `${+(steps / 1e3).toPrecision(4)}k` : String(steps);
  }

  function tickLabel(value, gap) {
    const decimals = Math.max(0, -Math.floor(Math.log10(gap) + 1e-9));
    const [whole, part] = Math.abs(value).toFixed(Math.min(decimals, 6)).split(".");
    return (value < 0 ? "\u2212" : "") + grouped(whole) + (part ? "." + part : "");
  }

  // ---- scales

  function evenTicks(low, high, count, multiples = [1, 2, 5]) {
    const raw = (high - low) / Math.max(count, 1);
    const power = 10 ** Math.floor(Math.log10(raw));
    const gap = power * (multiples.find((m) => m * power >= raw) || 10);
    const ticks = [];
    for (let k = Math.ceil(low / gap - 1e-9); k * gap <= high + gap * 1e-9; k++) {
      ticks.push(k * gap);
    }
    return { ticks, gap };
  }

  function logTicks(first, last, count) {
    for (const multiples of [[1, 2, 5], [1, 3], [1]]) {
      const ticks = [];
      for (let e = Math.floor(Math.log10(first)); 10 ** e <= last * 1.001; e++) {
        for (const m of multiples) {
          const tick = m * 10 ** e;
          if (tick >= first * 0.999 && tick <= last * 1.001) ticks.push(tick);
        }
      }
      if (ticks.length <= count || multiples.length === 1) return ticks;
    }
    return [];
  }

  // Steps to pixels. A logarithm knows no 0: it stands apart at the left edge, and
  // between it and the first step after it the axis is linear.
  function stepScale(steps, log, left, right, count) {
    const last = steps[steps.length - 1];
    const first = steps.find((s) => s > 0);
    const width = right - left;
    if (!log || first === undefined || first === last) {
      const low = steps[0];
      const range = last - low || 1;
      const at = (s) => (last === low ? left + width / 2 : left + (width * (s - low)) / range);
      if (last === low) return { at, ticks: [low] };
      return { at, ticks: evenTicks(low, last, count, [1, 2, 2.5, 5]).ticks };
    }
    const room = steps[0] <= 0 ? ZERO_ROOM : 0;
    const decades = Math.log(last / first);
    const at = (s) => {
      const part = s < first
        ? (room * Math.max(s, 0)) / first
        : room + ((1 - room) * Math.log(s / first)) / decades;
      return left + width * part;
    };
    const ticks = logTicks(first, last, count);
    return { at, ticks: room ? [0, ...ticks] : ticks };
  }

  function nearest(sorted, value) {
    let low = 0;
    let high = sorted.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (sorted[middle] <= value) low = middle;
      else high = middle;
    }
    return Math.abs(sorted[high] - value) < Math.abs(sorted[low] - value) ? high : low;
  }

  // ---- what an arm draws

  function line(steps, values, x, y) {
    let path = "";
    for (let k = 0; k < values.length; k++) {
      path += `${k ? "L" : "M"}${x(steps[k]).toFixed(1)} ${y(values[k]).toFixed(1)}`;
    }
    return path;
  }

  function band(arm, x, y) {
    const back = [];
    let path = "";
    arm.steps.forEach((step, k) => {
      const at = x(step).toFixed(1);
      const spread = arm.std[k] || 0;
      path += `${k ? "L" : "M"}${at} ${y(arm.mean[k] + spread).toFixed(1)}`;
      back.push(`L${at} ${y(arm.mean[k] - spread).toFixed(1)}`);
    });
    return path + back.reverse().join("") + "Z";
  }

  function drawArm(arm, parent, x, y, withSeeds) {
    const group = shape("g", { class: `arm ink-${arm.ink}`, "data-arm": arm.name }, parent);
    if (withSeeds) {
      // all seeds in one path: a thousand elements are slow, a long one is not
      const d = arm.seeds.map((s) => line(s.steps || arm.steps, s.returns, x, y)).join("");
      shape("path", { class: "seed-lines", d }, group);
    }
    shape("path", { class: withSeeds ? "band faint" : "band", d: band(arm, x, y) }, group);
    if (arm.steps.length === 1) {
      shape("circle", { class: "dot", cx: x(arm.steps[0]), cy: y(arm.mean[0]), r: 4 }, group);
    }
    const look = { class: "mean", d: line(arm.steps, arm.mean, x, y) };
    if (DASHES[arm.dash]) look["stroke-dasharray"] = DASHES[arm.dash];
    shape("path", look, group);
  }

  function extent(arms, withSeeds) {
    let low = Infinity;
    let high = -Infinity;
    const see = (value) => {
      if (value < low) low = value;
      if (value > high) high = value;
    };
    for (const arm of arms) {
      arm.mean.forEach((mean, k) => {
        const spread = arm.std[k] || 0;
        see(mean - spread);
        see(mean + spread);
      });
      if (withSeeds) arm.seeds.forEach((seed) => seed.returns.forEach(see));
    }
    const pad = (high - low) * 0.04 || Math.abs(high) * 0.05 || 1;
    return [low - pad, high + pad];
  }

  // ---- one chart

  class Chart {
    constructor(data, figure) {
      this.arms = data.arms;
      this.hidden = new Set();
      this.log = false;
      this.withSeeds = false;
      this.build(data, figure);
      new ResizeObserver(() => this.later()).observe(this.plot);
      this.draw();
    }

    build(data, figure) {
      const controls = element("div", "controls", figure);
      button("control log", controls, "Log scale of steps", false, (on) => this.set("log", on));
      button("control each", controls, "Every seed", false, (on) => this.set("withSeeds", on));
      this.plot = element("div", "plot", figure);
      this.plot.tabIndex = 0;
      this.plot.setAttribute("role", "group");
      this.plot.setAttribute("aria-label",
        `Learning curves in ${data.env}. Left and right arrows read them step by step.`);
      this.back = shape("svg", { class: "back", "aria-hidden": "true" }, this.plot);
      // a layer of its own: moving the cross never repaints the curves
      this.front = shape("svg", { class: "front", "aria-hidden": "true" }, this.plot);
      this.readout = element("div", "readout", this.plot);
      this.readout.setAttribute("role", "status");
      this.readout.hidden = true;
      this.legend = element("div", "legend", figure);
      this.legend.setAttribute("role", "group");
      this.legend.setAttribute("aria-label", "Arms shown");
      this.arms.forEach((arm) => this.entry(arm));
      this.listen();
    }

    entry(arm) {
      const made = button(`entry ink-${arm.ink}`, this.legend, "", true, (on) => {
        if (on) this.hidden.delete(arm);
        else this.hidden.add(arm);
        this.draw();
      });
      const swatch = shape("svg", { viewBox: "0 0 28 8", "aria-hidden": "true" }, made);
      const look = { x1: 1, x2: 27, y1: 4, y2: 4 };
      if (DASHES[arm.dash]) look["stroke-dasharray"] = DASHES[arm.dash];
      shape("line", look, swatch);
      element("span", "name", made, arm.name);
      element("span", "count", made, `n = ${arm.seeds.length}`);
      const light = (on) => () => this.highlight(on ? arm : null);
      made.addEventListener("pointerenter", light(true));
      made.addEventListener("pointerleave", light(false));
    }

    highlight(arm) {
      for (const group of this.back.querySelectorAll(".arm")) {
        const faint = arm && !this.hidden.has(arm) && group.dataset.arm !== arm.name;
        group.classList.toggle("faint", Boolean(faint));
      }
    }

    listen() {
      const follow = (event) => {
        const box = this.plot.getBoundingClientRect();
        this.readAtPixel(event.clientX - box.left);
      };
      this.plot.addEventListener("pointermove", follow);
      this.plot.addEventListener("pointerdown", follow);
      this.plot.addEventListener("pointerleave", (event) => {
        if (event.pointerType === "mouse") this.unread();
      });
      this.plot.addEventListener("blur", () => this.unread());
      this.plot.addEventListener("keydown", (event) => this.key(event));
    }

    key(event) {
      const end = this.steps.length - 1;
      const at = this.at === undefined ? end : this.at;
      const to = {
        ArrowLeft: this.at === undefined ? end : at - 1, ArrowRight: at + 1, Home: 0, End: end,
      }[event.key];
      if (event.key === "Escape") this.unread();
      if (to === undefined) return;
      event.preventDefault();
      this.read(Math.min(Math.max(to, 0), end));
    }

    set(what, on) {
      this[what] = on;
      this.draw();
    }

    later() {
      if (this.waiting || this.plot.clientWidth === this.width) return;
      this.waiting = requestAnimationFrame(() => {
        this.waiting = 0;
        this.draw();
      });
    }

    draw() {
      this.unread();
      this.width = this.plot.clientWidth;
      this.height = Math.round(Math.min(430, Math.max(250, this.width * 0.5)));
      this.shown = this.arms.filter((arm) => !this.hidden.has(arm));
      const seen = this.shown.length ? this.shown : this.arms;
      const merged = new Set(this.arms.flatMap((arm) => arm.steps));
      this.steps = [...merged].sort((a, b) => a - b);
      for (const layer of [this.back, this.front]) {
        layer.setAttribute("viewBox", `0 0 ${this.width} ${this.height}`);
        layer.replaceChildren();
      }
      this.axes(extent(seen, this.withSeeds));
      for (const arm of this.shown) drawArm(arm, this.back, this.x, this.y, this.withSeeds);
    }

    axes([low, high]) {
      const { ticks, gap } = evenTicks(low, high, this.height / 60);
      const labels = ticks.map((t) => tickLabel(t, gap));
      const left = 14 + 7 * Math.max(...labels.map((l) => l.length), 2);
      const right = this.width - 18;
      const top = 26;
      const bottom = this.height - 44;
      this.box = { left, right, top, bottom };
      const scale = stepScale(this.steps, this.log, left, right, this.width / 85);
      this.x = scale.at;
      this.y = (v) => bottom - ((bottom - top) * (v - low)) / (high - low);
      const axis = shape("g", { class: "axis" }, this.back);
      ticks.forEach((t, k) => {
        const y = this.y(t).toFixed(1);
        shape("line", { x1: left, x2: right, y1: y, y2: y }, axis);
        shape("text", { x: left - 8, y, dy: "0.35em", class: "y" }, axis, labels[k]);
      });
      for (const t of scale.ticks) {
        const x = this.x(t).toFixed(1);
        shape("line", { class: "tick", x1: x, x2: x, y1: bottom, y2: bottom + 5 }, axis);
        shape("text", { class: "x", x, y: bottom + 19 }, axis, brief(t));
      }
      shape("line", { class: "base", x1: left, x2: right, y1: bottom, y2: bottom }, axis);
      shape("text", { class: "title", x: 0, y: 12 }, axis, "return");
      shape("text", { class: "title end", x: right, y: this.height - 6 }, axis,
        this.log ? "environment steps, log scale" : "environment steps");
    }

    readAtPixel(pixel) {
      this.read(nearest(this.steps.map(this.x), pixel));
    }

    // The evaluation of an arm nearest to a step, unless it lies an evaluation away.
    evaluation(arm, step) {
      const k = nearest(arm.steps, step);
      const count = arm.steps.length;
      const gap = count > 1 ? (arm.steps[count - 1] - arm.steps[0]) / (count - 1) : 0;
      return Math.abs(arm.steps[k] - step) <= gap / 2 ? k : -1;
    }

    read(at) {
      this.at = at;
      const step = this.steps[at];
      const x = this.x(step);
      this.front.replaceChildren();
      const { top, bottom } = this.box;
      shape("line", { class: "cross", x1: x, x2: x, y1: top, y2: bottom }, this.front);
      const found = this.shown.map((arm) => ({ arm, k: this.evaluation(arm, step) }));
      const height = ({ arm, k }) => (k < 0 ? -Infinity : arm.mean[k]);
      found.sort((a, b) => height(b) - height(a) || 0);
      const there = found.filter(({ k }) => k >= 0);
      const heights = there.map(({ arm, k }) => this.y(arm.mean[k]));
      there.forEach(({ arm, k }, j) => {
        const place = { cx: this.x(arm.steps[k]), cy: heights[j], r: 4 };
        shape("circle", { class: `dot ink-${arm.ink}`, ...place }, this.front);
      });
      this.fill(step, found);
      this.place(x, heights.reduce((sum, y) => sum + y, 0) / Math.max(heights.length, 1));
    }

    fill(step, found) {
      const box = this.readout;
      box.replaceChildren();
      element("p", "step", box, `step ${grouped(String(step))}`);
      const table = element("table", "", box);
      for (const { arm, k } of found) {
        const row = element("tr", `ink-${arm.ink}`, table);
        row.dataset.arm = arm.name;
        element("td", "name", row, arm.name);
        if (k < 0) {
          element("td", "none", row, "no evaluation here").colSpan = 3;
          continue;
        }
        element("td", "mean", row, number(arm.mean[k]));
        element("td", "std", row, `± ${number(arm.std[k])}`);
        const other = arm.steps[k] === step ? "" : ` at ${grouped(String(arm.steps[k]))}`;
        element("td", "count", row, `n = ${arm.n[k]}${other}`);
      }
      if (!found.length) element("p", "none", box, "No arm is shown.");
      box.hidden = false;
    }

    place(x, mean) {
      const style = this.readout.style;
      const narrow = this.width < NARROW;
      this.readout.classList.toggle("under", narrow);
      if (narrow) {
        style.top = `${this.height}px`;
        style.left = "0px";
        return;
      }
      // above or below, where the curves are not
      const { top, bottom } = this.box;
      const room = Math.max(top, bottom - 8 - this.readout.offsetHeight);
      style.top = `${mean < (top + bottom) / 2 ? room : top}px`;
      const wide = this.readout.offsetWidth;
      const left = x + 16 + wide < this.width ? x + 16 : x - 16 - wide;
      style.left = `${Math.max(0, left)}px`;
    }

    unread() {
      this.at = undefined;
      this.front.replaceChildren();
      this.readout.hidden = true;
    }
  }

  // ---- the rest of the page

  async function copy(source) {
    try {
      await navigator.clipboard.writeText(source.textContent);
      return "Copied";
    } catch {
      // not allowed here: leave it selected, one key away
      const range = document.createRange();
      range.selectNodeContents(source);
      const selection = window.getSelection();
      selection.removeAllRanges();
      selection.addRange(range);
      return document.execCommand("copy") ? "Copied" : "Selected";
    }
  }

  for (const made of document.querySelectorAll("[data-copy]")) {
    made.addEventListener("click", async () => {
      const said = await copy(document.getElementById(made.dataset.copy));
      made.textContent = said;
      document.getElementById("copied").textContent = said;
      setTimeout(() => { made.textContent = "Copy"; }, 1500);
    });
  }

  // paper cannot be unfolded
  let folded = [];
  window.addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("details:not([open])")];
    folded.forEach((d) => { d.open = true; });
  });
  window.addEventListener("afterprint", () => folded.forEach((d) => { d.open = false; }));

  const data = JSON.parse(document.getElementById("curve-data").textContent);
  for (const figure of document.querySelectorAll(".chart")) {
    const own = data[Number(figure.dataset.chart)];
    if (own.arms.length) new Chart(own, figure);
    else element("p", "small", figure, "No evaluations yet.");
  }
})();
