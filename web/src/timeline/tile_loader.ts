// Requests the tiles that are in view. Rows that are missing are requested together, a few requests
// at a time, those in the middle of the view first. A request whose tile is no longer wanted is
// aborted.

import type { TileCache } from './tile_cache.ts';

/** Rows of one request. 48 rows with an item per bin are below 1 MB, the limit of one frame. */
export const ROWS_PER_REQUEST = 48;
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
  private rows: readonly number[] = [];
  private urgent: ReadonlySet<number> = new Set();
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

  /** Sets what is wanted: tiles, the most important first, and the ids of rows. Rows that are not
   * `urgent` wait until more of them are missing. */
  want(
    tiles: readonly WantedTile[],
    rows: readonly number[],
    version: number,
    urgent: ReadonlySet<number>,
  ): void {
    this.tiles = tiles;
    this.rows = rows;
    this.urgent = urgent;
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
        .missing(level, tile, this.rows, this.version)
        .filter((row) => !requested.has(row));
      if (this.mayWait(missing)) continue;
      for (let i = 0; i < missing.length; i += ROWS_PER_REQUEST) {
        if (this.active.size >= REQUESTS_AT_ONCE) return;
        void this.run(level, tile, missing.slice(i, i + ROWS_PER_REQUEST));
      }
    }
  }

  private mayWait(missing: readonly number[]): boolean {
    return missing.length < ROWS_TOGETHER && !missing.some((row) => this.urgent.has(row));
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
