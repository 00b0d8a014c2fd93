// The values of rows such as queues and counters. In a tile, a value is a place on the scale of its
// row: 0 is the lower end, 65,535 the upper one. The scale reaches from the least value to the
// greatest, and contains 0.

import type { ValueFacts } from '../api/types.ts';

const PLACES = 65_535;
/** Digits of a value that is not whole. */
const DIGITS = 4;

export function scaleOf({ min, max }: ValueFacts): { low: number; high: number } {
  return { low: Math.min(min, 0), high: Math.max(max, 0) };
}

/** The value at a place of a tile; exact if all values of the row are whole and not many. */
export function valueAt(facts: ValueFacts, place: number): number {
  const { low, high } = scaleOf(facts);
  const value = low + (place / PLACES) * (high - low);
  const isWhole = Number.isInteger(facts.min) && Number.isInteger(facts.max);
  return isWhole && high - low <= PLACES ? Math.round(value) : value;
}

export function placeOf(facts: ValueFacts, value: number): number {
  const { low, high } = scaleOf(facts);
  if (high <= low) return 0;
  return Math.round(Math.min(Math.max((value - low) / (high - low), 0), 1) * PLACES);
}

/** A value without its unit. */
export function formatNumber(value: number): string {
  if (Number.isInteger(value) && Math.abs(value) < 2 ** 53) return value.toLocaleString('en');
  const size = Math.abs(value);
  if (size >= 1e15 || size < 1e-3) return value.toExponential(DIGITS - 1);
  return value.toLocaleString('en', { maximumSignificantDigits: Math.max(DIGITS, digits(size)) });
}

/** Digits before the point. */
function digits(size: number): number {
  return Math.floor(Math.log10(size)) + 1;
}

export function formatValue(value: number, { unit, capacity }: ValueFacts): string {
  const text = formatNumber(value);
  const of = capacity === null ? '' : ` of ${formatNumber(capacity)}`;
  return unit === null ? `${text}${of}` : `${text}${of} ${unit}`;
}
