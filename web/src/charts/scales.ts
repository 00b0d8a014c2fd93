// Scales of the charts: from values to places in pixels, and the ticks next to them.

/** Places of values on a logarithmic axis from `first` (the least value) to `last`. Values below 1
 * have the place of 1. */
export interface LogScale {
  least: number;
  greatest: number;
  first: number;
  last: number;
}

/** A scale for these values with a little room at both ends. */
export function logScale(values: readonly number[], first: number, last: number): LogScale {
  let least = Infinity;
  let greatest = 1;
  for (const value of values) {
    const positive = Math.max(value, 1);
    if (positive < least) least = positive;
    if (positive > greatest) greatest = positive;
  }
  if (least > greatest) least = greatest;
  return { least: least / 1.25, greatest: greatest * 1.25, first, last };
}

export function logPlace(scale: LogScale, value: number): number {
  const { least, greatest, first, last } = scale;
  const share = Math.log(Math.max(value, 1) / least) / Math.log(greatest / least);
  return first + share * (last - first);
}

/** Round values in the scale: powers of 10, and 2 and 5 times them if there are few. */
export function logTicks(scale: LogScale): number[] {
  const of = (factors: number[]) => {
    const found: number[] = [];
    for (let power = 10 ** Math.floor(Math.log10(scale.least)); power <= scale.greatest; power *= 10)
      for (const factor of factors) {
        const value = factor * power;
        if (value >= 1 && value >= scale.least && value <= scale.greatest) found.push(value);
      }
    return found;
  };
  const powers = of([1]);
  return powers.length >= 3 ? powers : of([1, 2, 5]);
}

/** Place of a value on an axis with equal steps. */
export function place(value: number, from: number, to: number, pixels: number): number {
  return ((value - from) / Math.max(to - from, 1e-9)) * pixels;
}

/** Round values from 0 to `greatest`, about `count` of them. */
export function roundTicks(greatest: number, count: number): number[] {
  if (greatest <= 0) return [0];
  const least = greatest / Math.max(count, 1);
  const power = 10 ** Math.floor(Math.log10(least));
  const step = Math.max(1, [1, 2, 5, 10].map((factor) => factor * power).find((it) => it >= least)!);
  const found: number[] = [];
  for (let value = 0; value <= greatest; value += step) found.push(value);
  return found;
}
