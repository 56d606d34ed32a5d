// The section with all speakers on a plane, and the same as a list: either chooses, and both follow.

import { askJson, wordsOf } from "./api.js";
import { announce, h, heading, nextId } from "./dom.js";
import { count, likeness } from "./words.js";

const SIZE = 1000;
const MARGIN = 60;
const LIMIT = 500;
// Of the picture as it is seen, whatever its size.
const TEXT_PX = 14;
const DOT_PX = 5;

/** Builds the section; gives what ends it. */
export async function open(root, { to }) {
  const panel = new MapPanel();
  root.append(
    heading("Map", "Voices that lie close together sound alike. Choose one to see how like it the others are."),
    panel.root,
  );
  await panel.load(to ?? null);
  return () => panel.watcher.disconnect();
}

class MapPanel {
  constructor() {
    this.problem = h("p", { class: "error", role: "alert", hidden: true });
    this.plane = h("svg:svg", { viewBox: `0 0 ${SIZE} ${SIZE}`, class: "plane", "aria-hidden": "true" });
    const id = nextId("voices");
    this.list = h("ul", { id, class: "voices", role: "listbox", tabindex: "0", "aria-label": "Voices, nearest first" });
    this.list.addEventListener("keydown", (event) => this.press(event));
    this.caption = h("p", { class: "hint", role: "status" });
    this.root = h(
      "div",
      {},
      this.problem,
      h("div", { class: "map" }, h("figure", {}, this.plane, h("figcaption", {}, this.caption)), this.list),
    );
    this.points = [];
    this.watcher = new ResizeObserver(() => this.draw());
    this.watcher.observe(this.plane);
  }

  async load(to) {
    this.problem.hidden = true;
    try {
      this.show(await askJson("GET", "v1/speakers/map", { query: { to, limit: LIMIT } }), to);
    } catch (error) {
      this.problem.textContent = wordsOf(error);
      this.problem.hidden = false;
    }
  }

  show(map, to) {
    this.to = to;
    this.points = [...map.points].sort((a, b) => (to ? b.cosine - a.cosine : a.name.localeCompare(b.name)));
    const [across, up] = map.explained.map((share) => Math.round(share * 100));
    const among =
      map.total > map.points.length
        ? `${count(map.points.length, "voice")} of ${map.total.toLocaleString("en")}`
        : count(map.total, "voice");
    const chosen = this.points.find((point) => point.speaker_id === to);
    const whose = chosen ? [h("a", { href: `#/speakers/${to}` }, chosen.name), " is chosen. "] : [];
    const words = map.points.length
      ? `${among}. The plane shows ${across + up} % of how they differ.`
      : "Nobody is enrolled yet.";
    this.caption.replaceChildren(...whose, words);
    this.draw();
    this.fill();
    if (chosen)
      announce(
        `${chosen.name} is chosen. Nearest: ${this.points
          .slice(1, 4)
          .map((point) => point.name)
          .join(", ")}.`,
      );
  }

  draw() {
    if (!this.points.length) return this.plane.replaceChildren();
    const unit = SIZE / (this.plane.clientWidth || SIZE);
    const place = placing(this.points);
    const labels = new Labels(this.points.map(place), TEXT_PX * unit);
    // The chosen one comes last, so that it lies above the others; it and the nearest are named first.
    const dots = this.points.map((point) => this.dot(point, place(point), unit, labels));
    this.plane.replaceChildren(...dots.reverse());
  }

  dot(point, [x, y], unit, labels) {
    const shade = point.cosine === null ? 0.55 : nearness(point.cosine);
    const is = point.speaker_id === this.to;
    const dot = h("svg:circle", {
      r: unit * (is ? 2 * DOT_PX : DOT_PX * (1 + shade)),
      "stroke-width": unit * (is ? 3 : 1.5),
    });
    dot.style.fillOpacity = is ? 1 : 0.12 + 0.83 * shade;
    const name = labels.name(point.name, x, y, is);
    const group = h(
      "svg:g",
      { class: is ? "dot chosen" : "dot", transform: `translate(${x} ${y})` },
      h("svg:title", {}, pointWords(point)),
      dot,
      name,
    );
    group.addEventListener("click", () => this.load(point.speaker_id));
    return group;
  }

  fill() {
    const rows = this.points.map((point) => {
      const is = point.speaker_id === this.to;
      const figures = point.cosine === null || is ? "" : point.cosine.toFixed(2);
      const row = h(
        "li",
        { id: `voice-${point.speaker_id}`, role: "option", "aria-selected": String(is) },
        h("span", {}, point.name),
        h("small", {}, figures),
      );
      row.addEventListener("click", () => this.load(point.speaker_id));
      return row;
    });
    this.list.replaceChildren(...rows);
    this.move(
      Math.max(
        0,
        this.points.findIndex((point) => point.speaker_id === this.to),
      ),
    );
  }

  press(event) {
    const last = this.points.length - 1;
    const moves = { ArrowDown: this.active + 1, ArrowUp: this.active - 1, Home: 0, End: last };
    if (event.key in moves) {
      event.preventDefault();
      this.move(Math.max(0, Math.min(last, moves[event.key])));
    } else if ((event.key === "Enter" || event.key === " ") && this.points[this.active]) {
      event.preventDefault();
      this.load(this.points[this.active].speaker_id);
    }
  }

  move(index) {
    this.list.querySelector(".active")?.classList.remove("active");
    this.active = index;
    const row = this.list.children[index];
    row?.classList.add("active");
    if (row) this.list.setAttribute("aria-activedescendant", row.id);
    if (document.activeElement === this.list) row?.scrollIntoView({ block: "nearest" });
  }
}

/** Names beside dots, as many as there is room for. */
class Labels {
  constructor(places, size) {
    this.size = size;
    this.taken = places.map(([x, y]) => [x - size / 2, y - size / 2, x + size / 2, y + size / 2]);
  }

  /** The text on the right of its dot, or on the left; null where both are taken. */
  name(words, x, y, always) {
    const width = words.length * this.size * 0.58;
    const gap = this.size * (always ? 1.1 : 0.9);
    const boxes = { start: [x + gap, x + gap + width], end: [x - gap - width, x - gap] };
    const side =
      Object.keys(boxes).find((each) => this.isFree(boxes[each], y)) ??
      (always && (boxes.start[1] < SIZE ? "start" : "end"));
    if (!side) return null;
    this.taken.push([boxes[side][0], y - this.size / 2, boxes[side][1], y + this.size / 2]);
    return h(
      "svg:text",
      { x: side === "start" ? gap : -gap, y: this.size * 0.35, "text-anchor": side, "font-size": this.size },
      words,
    );
  }

  isFree([left, right], y) {
    const [top, bottom] = [y - this.size / 2, y + this.size / 2];
    const hits = (box) => left < box[2] && box[0] < right && top < box[3] && box[1] < bottom;
    return left > 0 && right < SIZE && !this.taken.some(hits);
  }
}

/** Where a point goes in the picture: one unit for both axes, all of them inside. */
function placing(points) {
  const reach = Math.max(...points.flatMap((point) => [Math.abs(point.x), Math.abs(point.y)]), 1e-9);
  const scale = (SIZE / 2 - MARGIN) / reach;
  return (point) => [SIZE / 2 + point.x * scale, SIZE / 2 - point.y * scale];
}

/** A cosine between strangers and the same voice, as 0 to 1. */
const nearness = (cosine) => Math.max(0, Math.min(1, (cosine - 0.45) / 0.5));

const pointWords = (point) =>
  point.cosine === null ? point.name : `${point.name}: ${point.cosine.toFixed(2)}, ${likeness(point.cosine)}`;
