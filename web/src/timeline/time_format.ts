// Texts for times and durations, and the ticks of the ruler.

import { span, type View } from './viewport.ts';

export type TimeDisplay = 'relative' | 'utc';

const THIN_SPACE = '\u2009';

/** A duration with three significant digits and a unit: "1.23 ms". */
export function formatDuration(ns: number): string {
  const size = Math.abs(ns);
  if (size < 1000) return `${trimmed(ns, size < 10 && !Number.isInteger(ns) ? 1 : 0)} ns`;
  if (size < 1e6) return `${significant(ns / 1e3)} µs`;
  if (size < 1e9) return `${significant(ns / 1e6)} ms`;
  if (size < 120e9) return `${significant(ns / 1e9)} s`;
  if (size < 7200e9) return `${Math.floor(ns / 60e9)} min ${Math.floor((ns / 1e9) % 60)} s`;
  return `${Math.floor(ns / 3600e9)} h ${Math.floor((ns / 60e9) % 60)} min`;
}

/** A duration with every ns: "1.234 567 ms". */
export function formatExact(ns: number): string {
  const size = Math.abs(ns);
  const [unit, digits] = size < 1e3 ? ['ns', 0] : size < 1e6 ? ['µs', 3] : size < 1e9
    ? ['ms', 6]
    : ['s', 9];
  const value = ns / 10 ** (digits as number);
  return `${grouped(value.toFixed(digits as number))} ${unit}`;
}

function significant(value: number): string {
  const size = Math.abs(value);
  return trimmed(value, size < 10 ? 2 : size < 100 ? 1 : 0);
}

function trimmed(value: number, digits: number): string {
  return value.toFixed(digits);
}

/** Reads a duration such as "-1.5 ms", in whole ns; without a unit, in ns. Null if it is none. */
export function parseDuration(text: string): number | null {
  const match = /^([+-]?)(\d*\.?\d+)(ns|us|µs|ms|s)?$/.exec(
    text.replace(/[\s,]/g, '').replace('\u2212', '-'),
  );
  if (!match) return null;
  const [, sign, digits, unit] = match;
  const unitNs = { ns: 1, us: 1e3, µs: 1e3, ms: 1e6, s: 1e9 }[unit ?? 'ns'] ?? 1;
  const ns = Math.round(Number(digits) * unitNs);
  return ns === 0 ? 0 : sign === '-' ? -ns : ns;
}

/** Separates the digits after the point in groups of three. */
function grouped(text: string): string {
  const [whole, fraction] = text.split('.');
  if (!fraction) return whole;
  return `${whole}.${(fraction.match(/.{1,3}/g) ?? []).join(THIN_SPACE)}`;
}

/** A time since the begin of the trace in seconds, with the digits that steps of `step` ns need. */
export function formatRelative(ns: number, step = 1): string {
  return `${grouped((ns / 1e9).toFixed(fractionDigits(step)))} s`;
}

/** A time on the clock in UTC, with the digits that steps of `step` ns need. */
export function formatUtc(ns: number, originNs: bigint, step = 1): string {
  const absolute = originNs + BigInt(Math.round(ns));
  const second = 1_000_000_000n;
  let fraction = absolute % second;
  let seconds = absolute / second;
  if (fraction < 0n) {
    fraction += second;
    seconds -= 1n;
  }
  const date = new Date(Number(seconds) * 1000);
  const clock = date.toISOString().slice(11, 19);
  const digits = fractionDigits(step);
  if (digits === 0) return clock;
  return grouped(`${clock}.${fraction.toString().padStart(9, '0').slice(0, digits)}`);
}

/** The day in UTC, such as 2026-11-29. */
export function formatDay(ns: number, originNs: bigint): string {
  const milliseconds = (originNs + BigInt(Math.round(ns))) / 1_000_000n;
  return new Date(Number(milliseconds)).toISOString().slice(0, 10);
}

export function formatTime(
  ns: number,
  display: TimeDisplay,
  originNs: bigint,
  step = 1,
): string {
  return display === 'utc' ? formatUtc(ns, originNs, step) : formatRelative(ns, step);
}

/** Digits after the point of a second that tell two times apart that differ by `step` ns; a
 * multiple of three, because that is how people read them. */
function fractionDigits(step: number): number {
  if (step >= 1e9) return 0;
  if (step >= 1e6) return 3;
  if (step >= 1e3) return 6;
  return 9;
}

/** Steps of the ruler from a minute on, in seconds; below, they are 1, 2, 5 times a power of 10. */
const LONG_STEPS_S = [60, 120, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400, 604800];

/** The smallest round step whose ticks are at least `spacing` pixels apart. */
export function tickStep(view: View, width: number, spacing: number): number {
  const least = (span(view) / Math.max(width, 1)) * spacing;
  if (least <= 1) return 1;
  const power = 10 ** Math.floor(Math.log10(least));
  for (const factor of [1, 2, 5, 10]) {
    if (factor * power >= least && factor * power < 60e9) return factor * power;
  }
  return (LONG_STEPS_S.find((step) => step * 1e9 >= least) ?? Math.ceil(least / 86400e9) * 86400) *
    1e9;
}

/** Times of the ticks in view: multiples of the step, counted from `zero`. */
export function ticks(view: View, step: number, zero = 0): number[] {
  const times: number[] = [];
  const first = Math.ceil((view.begin - zero) / step);
  for (let i = first; i * step + zero <= view.end; i++) times.push(i * step + zero);
  return times;
}

/** The time since the trace's begin at which the clock last showed a multiple of the step. */
export function clockZero(originNs: bigint, step: number): number {
  const whole = BigInt(Math.round(step));
  return -Number(((originNs % whole) + whole) % whole);
}

export function formatPercent(share: number, digits = 1): string {
  return `${(share * 100).toFixed(digits)} %`;
}

export function formatGain(gain: number): string {
  const size = Math.abs(gain) * 100;
  return `${gain >= 0 ? '+' : '−'}${size.toFixed(size < 1000 ? 1 : 0)} %`;
}

/** A rate with three significant digits: "1.45 k/s". */
export function formatRate(perSecond: number): string {
  const [unit, size] = perSecond < 1e3 ? ['', 1] : perSecond < 1e6 ? ['k', 1e3] : ['M', 1e6];
  return `${significant(perSecond / (size as number))} ${unit}/s`.replace(' /', '/');
}

export function formatCount(count: number): string {
  return count.toLocaleString('en');
}
