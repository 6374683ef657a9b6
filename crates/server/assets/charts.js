// Small charts, made of SVG elements. Each has its numbers as a table, too, for whoever does not see it.

import { el, table } from "./text.js";

const SVG = "http://www.w3.org/2000/svg";
const HEIGHT = 150;
const [LEFT, BOTTOM, TOP] = [44, 22, 8];

function svg(name, attributes, ...inside) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...inside);
  return made;
}

/** A round number at or above. */
function ceiling(number) {
  if (number <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(number));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= number);
}

/**
 * A chart of points in time. `series` are `{name, tone, values}`; those of bars stand on each other.
 * `form` is `bars` or `lines`; `told` writes a value in words.
 */
export function chart({ title, times, series, form, told = String, clock }) {
  // Letters keep their size where there is less room.
  const WIDTH = innerWidth < 640 ? 340 : 720;
  const sums = times.map((_, place) => series.reduce((sum, { values }) => (form === "bars" ? sum + (values[place] ?? 0) : Math.max(sum, values[place] ?? 0)), 0));
  const most = ceiling(Math.max(...sums, 0));
  const step = (WIDTH - LEFT) / Math.max(times.length, 1);
  const x = (place) => LEFT + place * step;
  const y = (value) => HEIGHT - BOTTOM - (value / most) * (HEIGHT - BOTTOM - TOP);
  const drawing = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "chart", "aria-hidden": "true", focusable: "false" });
  for (const value of [0, most / 2, most]) {
    drawing.append(svg("line", { x1: LEFT, x2: WIDTH, y1: y(value), y2: y(value), class: "grid" }));
    drawing.append(svg("text", { x: LEFT - 6, y: y(value) + 4, class: "axis", "text-anchor": "end" }, told(value)));
  }
  const every = Math.max(1, Math.ceil(times.length / (WIDTH / 90)));
  times.forEach((time, place) => {
    if (place % every === 0) drawing.append(svg("text", { x: x(place) + step / 2, y: HEIGHT - 6, class: "axis", "text-anchor": "middle" }, clock(time)));
  });
  if (form === "bars") bars(drawing, { times, series, x, y, step });
  else lines(drawing, { series, x: (place) => x(place) + step / 2, y });
  const legend = el("ul", { class: "legend", "aria-hidden": "true" }, series.map(({ name, tone }) => el("li", { data: { tone } }, name)));
  const rows = times.map((time, place) => [clock(time), ...series.map(({ values }) => (values[place] === null || values[place] === undefined ? "–" : told(values[place])))]);
  return el("figure", { class: "panel" }, el("figcaption", {}, el("h2", {}, title), legend), drawing,
    el("details", { class: "more" }, el("summary", {}, "As a table"), table(title, ["Time", ...series.map(({ name }) => name)], rows)));
}

function bars(drawing, { times, series, x, y, step }) {
  times.forEach((_, place) => {
    let below = 0;
    for (const { tone, values } of series) {
      const value = values[place] ?? 0;
      if (!value) continue;
      const top = y(below + value);
      drawing.append(svg("rect", { x: x(place) + step * 0.12, width: step * 0.76, y: top, height: Math.max(1, y(below) - top), class: `tone-${tone}` }));
      below += value;
    }
  });
}

function lines(drawing, { series, x, y }) {
  for (const { tone, values } of series) {
    let pen = "";
    let path = "";
    values.forEach((value, place) => {
      if (value === null || value === undefined) {
        pen = "";
        return;
      }
      path += `${pen ? "L" : "M"}${x(place).toFixed(1)} ${y(value).toFixed(1)}`;
      pen = "down";
      drawing.append(svg("circle", { cx: x(place), cy: y(value), r: 2.6, class: `tone-${tone}` }));
    });
    drawing.append(svg("path", { d: path, class: `line tone-${tone}` }));
  }
}
