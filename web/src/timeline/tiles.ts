// Decoding of tiles: the packed answer of the server to a request for some rows and one window of
// time. Items stay in the server's bytes, which are uploaded to the GPU as they are; decoding reads
// only the header and one entry per row.
//
// Layout (little-endian): "LPT1", rows n, version, 0; n entries of row, kind (0 bins, 1 exact, 2 bins
// of a group), first item, number of items (u32); 16 bytes per item: begin f32, end f32, state u16, worst u16, count u16, busy u8,
// path u8. A typed array reads the bytes in the order of the machine, which is little-endian on
// every machine that runs a browser today.

export const ITEM_BYTES = 16;
const HEADER_BYTES = 16;
const ENTRY_BYTES = 16;
/** "LPT1" read as a little-endian number. */
const MAGIC = 0x3154504c;

/** The items of one row in a tile. */
export interface RowItems {
  row: number;
  /** Each item is one state; otherwise an item is a bin or several equal ones. */
  exact: boolean;
  /** Each item is a bin of all rows of a group. */
  group: boolean;
  first: number;
  count: number;
}

export interface DecodedTile {
  version: number;
  rows: RowItems[];
  itemCount: number;
  /** All items, for the upload. */
  bytes: Uint8Array<ArrayBuffer>;
  /** The same as four numbers an item. */
  texels: Uint32Array<ArrayBuffer>;
  /** Begin and end of item i are at 4 i and 4 i + 1. */
  times: Float32Array;
  /** State, worst state and count of item i are at 8 i + 4, 8 i + 5 and 8 i + 6. */
  words: Uint16Array;
}

export function decodeTile(buffer: ArrayBuffer): DecodedTile {
  if (buffer.byteLength < HEADER_BYTES) throw new Error('A tile is shorter than its header.');
  const header = new Uint32Array(buffer, 0, HEADER_BYTES / 4);
  if (header[0] !== MAGIC) throw new Error('A tile does not begin with LPT1.');
  const rowCount = header[1];
  const itemsBegin = HEADER_BYTES + rowCount * ENTRY_BYTES;
  if (itemsBegin > buffer.byteLength) throw new Error('A tile is shorter than its table of rows.');
  const itemCount = Math.floor((buffer.byteLength - itemsBegin) / ITEM_BYTES);
  const entries = new Uint32Array(buffer, HEADER_BYTES, rowCount * 4);
  const rows: RowItems[] = [];
  for (let i = 0; i < rowCount; i++) {
    const first = entries[4 * i + 2];
    const count = entries[4 * i + 3];
    if (first + count > itemCount) throw new Error('A tile lacks some of its items.');
    const kind = entries[4 * i + 1];
    rows.push({ row: entries[4 * i], exact: kind === 1, group: kind === 2, first, count });
  }
  return {
    version: header[2],
    rows,
    itemCount,
    bytes: new Uint8Array(buffer, itemsBegin, itemCount * ITEM_BYTES),
    texels: new Uint32Array(buffer, itemsBegin, itemCount * 4),
    times: new Float32Array(buffer, itemsBegin, itemCount * 4),
    words: new Uint16Array(buffer, itemsBegin, itemCount * 8),
  };
}

/** An item, for tooltips and text. */
export interface Item {
  begin: number;
  end: number;
  state: number;
  worst: number;
  count: number;
  /** Share of the time in which the row runs code, 0 to 1. */
  busy: number;
}

export function itemAt(tile: DecodedTile, index: number): Item {
  return {
    begin: tile.times[4 * index],
    end: tile.times[4 * index + 1],
    state: tile.words[8 * index + 4],
    worst: tile.words[8 * index + 5],
    count: tile.words[8 * index + 6],
    busy: tile.bytes[16 * index + 14] / 255,
  };
}

/** Index of the item of a row that contains `bin`, or the nearest one within `reach` bins; -1 if
 * there is none. */
export function findItem(tile: DecodedTile, items: RowItems, bin: number, reach: number): number {
  const low = lowerBound(
    items.first,
    items.first + items.count,
    (i) => tile.times[4 * i] > bin,
  );
  const before = low - 1;
  if (before >= items.first && tile.times[4 * before + 1] > bin) return before;
  let best = -1;
  let distance = reach;
  if (before >= items.first && bin - tile.times[4 * before + 1] <= distance) {
    best = before;
    distance = bin - tile.times[4 * before + 1];
  }
  if (low < items.first + items.count && tile.times[4 * low] - bin < distance) best = low;
  return best;
}

/** A part of a row's items: those in view. */
export interface ItemRange {
  row: number;
  /** As in RowItems. */
  group: boolean;
  first: number;
  count: number;
}

/** The items of the given rows that overlap an interval of bins. Each row costs two binary
 * searches. */
export function itemRanges(
  tile: DecodedTile,
  rows: ReadonlySet<number>,
  begin: number,
  end: number,
): ItemRange[] {
  const ranges: ItemRange[] = [];
  for (const items of tile.rows) {
    if (items.count === 0 || !rows.has(items.row)) continue;
    const last = items.first + items.count;
    const first = lowerBound(items.first, last, (i) => tile.times[4 * i + 1] > begin);
    const until = lowerBound(first, last, (i) => tile.times[4 * i] >= end);
    if (until > first) ranges.push({ row: items.row, group: items.group, first, count: until - first });
  }
  return ranges;
}

/** The first number from `low` on for which `test` holds, as for all after it; or `high`. */
function lowerBound(low: number, high: number, test: (index: number) => boolean): number {
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (test(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** What drawing has to know of a row's items. It is found when a tile arrives, so that no frame
 * looks at every item. */
export interface ItemFacts {
  /** Indices of the items that are at least `textBins` wide: only these have space for a text. */
  wide: number[];
  /** Some item may need a tick: it hides a worse state, or it may be narrower than a pixel. */
  ticks: boolean;
}

/** A pixel is at most two bins wide at the level of a view. */
const NARROW_BINS = 2;

export function itemFacts(tile: DecodedTile, items: RowItems, textBins: number): ItemFacts {
  const wide: number[] = [];
  let ticks = false;
  for (let i = items.first; i < items.first + items.count; i++) {
    const width = tile.times[4 * i + 1] - tile.times[4 * i];
    // The bar of a group is as high as the group is busy, so it has no text.
    if (width >= textBins && !items.group) wide.push(i);
    ticks ||= tile.words[8 * i + 4] !== tile.words[8 * i + 5];
    ticks ||= items.exact && width < NARROW_BINS;
  }
  return { wide, ticks };
}
