// Requests the tiles that are in view. Rows that are missing are requested together, a few requests
// at a time, those in the middle of the view first. A request whose tile is no longer wanted is
// aborted.

import type { TileCache } from './tile_cache.ts';

/** Rows of one request. 48 rows with an item per bin are below 1 MB, the limit of one frame. */
export const ROWS_PER_REQUEST = 48;
/** Groups of one request. The server adds up to 2,048 rows of each, and at most eight times as many
 * of a request for 1,024 bins. */
const GROUPS_PER_REQUEST = 8;
/** Rows around the visible ones are requested when this number is missing: each request costs
 * about a millisecond of script, so one per row would be most of a frame while the rows scroll. */
export const ROWS_TOGETHER = 32;
/** Browsers open six connections to a server; two are left for other requests. */
const REQUESTS_AT_ONCE = 4;
/** Time after which a request that failed may be made again. */
const RETRY_MS = 2000;

export interface WantedTile {
  level: number;
  tile: number;
}

export interface WantedRows {
  /** Their ids, the most important first. */
  rows: readonly number[];
  /** Rows that are requested at once. Others wait until more of them are missing. */
  urgent: ReadonlySet<number>;
  /** Rows that are groups: the server adds up all rows in them. */
  groups: ReadonlySet<number>;
}

export type FetchTile = (
  level: number,
  tile: number,
  rows: readonly number[],
  signal: AbortSignal,
) => Promise<ArrayBuffer>;

interface Request {
  level: number;
  tile: number;
  rows: number[];
  version: number;
  abort: AbortController;
}

export class TileLoader {
  private readonly cache: TileCache;
  private readonly fetchTile: FetchTile;
  private readonly active = new Set<Request>();
  private tiles: readonly WantedTile[] = [];
  private wanted: WantedRows = { rows: [], urgent: new Set(), groups: new Set() };
  private version = 0;
  private failedUntil = 0;
  /** Called when a batch was added to the cache. */
  onArrival: () => void = () => {};
  onError: (error: unknown) => void = () => {};
  /** Number of the current frame, for the cache. */
  frame = 0;

  constructor(cache: TileCache, fetchTile: FetchTile) {
    this.cache = cache;
    this.fetchTile = fetchTile;
  }

  get busy(): boolean {
    return this.active.size > 0;
  }

  /** Sets what is wanted: tiles, the most important first, and rows. */
  want(tiles: readonly WantedTile[], wanted: WantedRows, version: number): void {
    this.tiles = tiles;
    this.wanted = wanted;
    this.version = version;
    for (const request of this.active) {
      if (!tiles.some((t) => t.level === request.level && t.tile === request.tile)) {
        request.abort.abort();
        this.active.delete(request);
      }
    }
    this.start();
  }

  abortAll(): void {
    for (const request of this.active) request.abort.abort();
    this.active.clear();
    this.tiles = [];
  }

  private start(): void {
    if (performance.now() < this.failedUntil) return;
    for (const { level, tile } of this.tiles) {
      if (this.active.size >= REQUESTS_AT_ONCE) return;
      const requested = new Set<number>();
      for (const request of this.active) {
        if (request.level === level && request.tile === tile) {
          for (const row of request.rows) requested.add(row);
        }
      }
      const missing = this.cache
        .missing(level, tile, this.wanted.rows, this.version)
        .filter((row) => !requested.has(row));
      if (this.mayWait(missing)) continue;
      for (const rows of this.parts(missing)) {
        if (this.active.size >= REQUESTS_AT_ONCE) return;
        void this.run(level, tile, rows);
      }
    }
  }

  /** The rows of each request. */
  private parts(missing: readonly number[]): number[][] {
    const parts: number[][] = [];
    let groups = GROUPS_PER_REQUEST;
    for (const row of missing) {
      const isGroup = this.wanted.groups.has(row);
      const part = parts.at(-1);
      if (part && part.length < ROWS_PER_REQUEST && !(isGroup && groups >= GROUPS_PER_REQUEST)) {
        part.push(row);
      } else {
        parts.push([row]);
        groups = 0;
      }
      if (isGroup) groups++;
    }
    return parts;
  }

  private mayWait(missing: readonly number[]): boolean {
    const { urgent } = this.wanted;
    return missing.length < ROWS_TOGETHER && !missing.some((row) => urgent.has(row));
  }

  private async run(level: number, tile: number, rows: number[]): Promise<void> {
    const abort = new AbortController();
    const request = { level, tile, rows, version: this.version, abort };
    this.active.add(request);
    try {
      const buffer = await this.fetchTile(level, tile, rows, abort.signal);
      if (!this.active.has(request)) return;
      const batch = this.cache.add(level, tile, buffer, request.version, this.frame);
      // Without this, a server that leaves out a row would be asked for it without end.
      if (batch.decoded.rows.length < rows.length) this.failedUntil = performance.now() + RETRY_MS;
      this.onArrival();
    } catch (error) {
      if (abort.signal.aborted) return;
      this.failedUntil = performance.now() + RETRY_MS;
      this.onError(error);
    } finally {
      this.active.delete(request);
    }
    this.start();
  }
}
