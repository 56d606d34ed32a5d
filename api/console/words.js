// Figures and times as people say them.

/** Seconds to a tenth, minutes from one on. */
export function seconds(value) {
  if (value < 60) return `${value.toFixed(1)} s`;
  return `${Math.floor(value / 60)} min ${Math.round(value % 60)} s`;
}

export function bytes(value) {
  const units = ["bytes", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${unit && value < 10 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
}

/** "3 clips", "1 clip". */
export const count = (number, noun, plural = `${noun}s`) =>
  `${number.toLocaleString("en")} ${number === 1 ? noun : plural}`;

/** "2 days ago". */
export function ago(iso) {
  if (!iso) return "never";
  const minutes = (Date.now() - Date.parse(iso)) / 60000;
  const steps = [
    [1, "just now"],
    [60, "minute", 1],
    [1440, "hour", 60],
    [Infinity, "day", 1440],
  ];
  const [, unit, size] = steps.find(([limit]) => minutes < limit);
  return size ? `${count(Math.floor(minutes / size), unit)} ago` : unit;
}

/** A date and time of this reader's place. */
export const moment = (iso) => new Date(iso).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });

/** "1.25 times", never 1.2500000238. */
export const times = (value) =>
  Number(value) === 1 ? "1 time, its own pace" : `${Number(Number(value).toFixed(2))} times`;

/** How alike two voices are. */
export function likeness(cosine) {
  const steps = [
    [0.88, "perhaps the same person"],
    [0.78, "very much alike"],
    [0.68, "alike"],
    [0.58, "some likeness"],
  ];
  return steps.find(([from]) => cosine >= from)?.[1] ?? "different voices";
}
