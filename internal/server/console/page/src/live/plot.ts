// SPDX-License-Identifier: Apache-2.0
// A small chart of two lines over time. Loaded when the first chart is seen.
import uPlot from "uplot";

/** A line: its colour as CSS has it, and whether it is dashed, so that lines differ without colours. */
export interface Line {
  readonly color: string;
  readonly isDashed: boolean;
  readonly isFilled: boolean;
}

export interface PlotOptions {
  readonly lines: readonly [Line, Line];
  readonly value: (n: number) => string;
  /** The values differ by orders of magnitude, and none is 0. */
  readonly isLog: boolean;
  /** Is called with the index of the sample under the pointer, or undefined. */
  readonly onHover: (at: number | undefined) => void;
}

export const plotHeight = 110;

/** The colour that CSS makes of a value in an element, in words that a canvas knows. */
function resolve(el: HTMLElement, color: string): string {
  const probe = document.createElement("span");
  probe.style.color = color;
  el.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

function faint(color: string): string {
  return color.replace(/^rgb\((.*)\)$/, "rgba($1, 0.14)");
}

/** Steps between marks of time, in seconds. */
const steps = [10, 15, 30, 60, 120, 300, 600];

/** Marks of time, counted back from the last sample, at least 64 pixels apart. */
function marks(u: uPlot, min: number, max: number): number[] {
  const room = Math.max(1, Math.floor(u.width / 64));
  const step = steps.find((s) => (max - min) / s <= room) ?? 900;
  const found: number[] = [];
  // The left edge is left free: the marks of the other axis end there.
  for (let at = max; at >= min + step / 3; at -= step) found.unshift(at);
  return found;
}

/** The powers of ten around values. */
function decades(min: number | null, max: number | null): [number, number] {
  if (min === null || max === null || min <= 0) return [1, 10];
  const low = Math.floor(Math.log10(min));
  return [10 ** low, 10 ** Math.max(low + 1, Math.ceil(Math.log10(max)))];
}

/** Powers of ten from min to max, at most four. */
function powers(min: number, max: number): number[] {
  const low = Math.round(Math.log10(min));
  const high = Math.round(Math.log10(max));
  const step = Math.max(1, Math.ceil((high - low) / 3));
  const found: number[] = [];
  for (let at = low; at <= high; at += step) found.push(10 ** at);
  return found;
}

function ago(seconds: number): string {
  if (seconds < 0.5) return "now";
  return seconds < 90 ? `−${Math.round(seconds)} s` : `−${Math.round(seconds / 60)} min`;
}

/** Draws a chart into an element, as wide as it is. */
export function plot(el: HTMLElement, o: PlotOptions): uPlot {
  const dim = resolve(el, "var(--dim)");
  const grid = { stroke: resolve(el, "var(--line)"), width: 1 };
  const font = "11px system-ui, sans-serif";
  const series = o.lines.map((l): uPlot.Series => {
    const stroke = resolve(el, l.color);
    return {
      stroke,
      width: 1.5,
      spanGaps: false,
      points: { size: 4 },
      ...(l.isDashed ? { dash: [4, 3] } : {}),
      ...(l.isFilled ? { fill: faint(stroke) } : {}),
    };
  });
  return new uPlot(
    {
      width: Math.max(120, el.clientWidth),
      height: plotHeight,
      legend: { show: false },
      cursor: { y: false, drag: { x: false, y: false, setScale: false } },
      scales: { x: { time: false }, y: o.isLog ? { distr: 3, range: (_, min, max) => decades(min, max) } : { range: (_, __, max) => [0, max > 0 ? max * 1.1 : 1] } },
      axes: [
        {
          stroke: dim,
          font,
          size: 20,
          gap: 2,
          grid: { show: false },
          ticks: { show: false },
          splits: (u, _, min, max) => marks(u, min, max),
          values: (u, at) => at.map((t) => ago((u.scales["x"]?.max ?? t) - t)),
        },
        {
          stroke: dim,
          font,
          size: 52,
          gap: 4,
          grid,
          ticks: { show: false },
          space: 28,
          values: (_, at) => at.map((n) => o.value(n)),
          ...(o.isLog ? { splits: (_: uPlot, __: number, min: number, max: number) => powers(min, max), filter: (_: uPlot, at: number[]) => at } : {}),
        },
      ],
      series: [{}, ...series],
      hooks: { setCursor: [(u) => o.onHover(u.cursor.idx ?? undefined)] },
    },
    undefined,
    el,
  );
}
