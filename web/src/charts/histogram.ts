// Buckets of a histogram, joined into fewer ones for a picture.

export interface Bin {
  /** From this value on, up to the next one. */
  from: number;
  to: number;
  count: number;
}

/** Joins buckets (a value and its count) into bins whose bounds grow by the same factor. */
export function binned(buckets: readonly (readonly [number, number])[], most: number): Bin[] {
  if (buckets.length === 0) return [];
  const values = buckets.map(([value]) => Math.max(value, 1));
  // The factor is a root of 2, so that bins are comparable between latencies.
  const [least, greatest] = [Math.min(...values), Math.max(...values)];
  let parts = 8;
  while (parts > 1 && Math.log2(greatest / least) * parts >= most) parts /= 2;
  const first = Math.floor(Math.log2(least) * parts);
  const count = Math.floor(Math.log2(greatest) * parts) - first + 1;
  const bins: Bin[] = Array.from({ length: count }, (_, at) => ({
    from: 2 ** ((first + at) / parts),
    to: 2 ** ((first + at + 1) / parts),
    count: 0,
  }));
  buckets.forEach(([, number], at) => {
    bins[Math.floor(Math.log2(values[at]) * parts) - first].count += number;
  });
  return bins;
}
