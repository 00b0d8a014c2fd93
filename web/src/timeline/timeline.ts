// A timeline: owns the canvases, requests what is in view, and draws a frame only if
// something has changed. It knows nothing of panels and of the address; the viewer gives it rows
// and a scene, and listens to its events.
//
// Two canvases lie above each other: the rectangles of the states (WebGL2 or 2D), and the texts,
// path and selections (2D). Nothing in a frame looks at single items of tiles.

import type { Part, TraceClient } from '../api/client.ts';
import type { PathSegment, State } from '../api/types.ts';
import { CanvasRenderer } from './canvas_renderer.ts';
import { HEADER_HEIGHT, timeAt, visibleRows, type Frame, type PlacedRow } from './frame.ts';
import { GlRenderer } from './gl_renderer.ts';
import { paletteOf, stateLooks, type Palette } from './palette.ts';
import { drawPart } from './part_drawing.ts';
import { drawChain } from './chain_drawing.ts';
import { drawPathLine } from './path_drawing.ts';
import { pathStore } from './path_store.ts';
import { RowSlots, type Renderer } from './renderer.ts';
import { RowTree, stickyHeads, type Layout, type LayoutRow } from './row_tree.ts';
import { drawRuler, rulerTicks } from './ruler.ts';
import { emptyScene, type Scene } from './scene.ts';
import {
  drawMarks,
  drawPointer,
  drawRange,
  drawRangeTexts,
  drawSelection,
} from './selection_drawing.ts';
import { StateDrawing } from './state_drawing.ts';
import { TileCache } from './tile_cache.ts';
import { TileLoader } from './tile_loader.ts';
import type { Item } from './tiles.ts';
import type { OnAxis, TimeAxis } from './time_axis.ts';
import { levelOf, pixelToTime, shifted, span, TILE_BINS, type View } from './viewport.ts';
import { drawWaitMarks, hasMark, waitMarkStore, type WaitMarks } from './wait_marks.ts';
import type { WindowStore } from './window_store.ts';

/** Time without a change after which the view has come to rest. */
const REST_MS = 150;
/** Shortest time between two looks at what has to be requested, while the view moves. */
const REQUEST_INTERVAL_MS = 50;

export interface TimelineEvents {
  /** The view or the scroll position has changed. Called at most once per frame. */
  moved(view: View, scroll: number): void;
  /** The view has come to rest after a change. */
  rested(view: View, scroll: number): void;
  failed(error: unknown): void;
}

const NO_MARKS: WaitMarks = new Map();

const NO_LAYOUT: Layout = {
  path: null,
  pinned: [],
  pinnedHeight: 0,
  rows: [],
  height: 0,
  byIndex: new Map(),
};

export class Timeline implements OnAxis {
  scroll = 0;
  length = 0;
  offset = 0;
  readonly axis: TimeAxis;
  readonly element: HTMLElement;
  private readonly events: TimelineEvents;
  private readonly overlay = document.createElement('canvas');
  private readonly context: CanvasRenderingContext2D;
  private states: readonly State[] = [];
  private tree = new RowTree([]);
  private layout: Layout = NO_LAYOUT;
  private scene: Scene = emptyScene();
  private palette: Palette = paletteOf('standard', 'light');
  private stateCanvas = document.createElement('canvas');
  private renderer: Renderer;
  private cache = new TileCache();
  private loader: TileLoader | null = null;
  private path: WindowStore<PathSegment[]> | null = null;
  private waits: WindowStore<WaitMarks> | null = null;
  private part: Part | null = null;
  private readonly stateDrawing = new StateDrawing();
  private version = 0;
  private width = 1;
  private height = 1;
  private ratio = 1;
  private frameNumber = 0;
  private scheduled = false;
  private lastMove = 0;
  private lastRequest = 0;
  private moved = false;
  private restTimer = 0;
  private readonly resizing: ResizeObserver;
  /** Position of the pointer, for its time; null outside. */
  private pointerX: number | null = null;

  constructor(element: HTMLElement, axis: TimeAxis, events: TimelineEvents) {
    this.element = element;
    this.axis = axis;
    this.events = events;
    this.context = this.overlay.getContext('2d')!;
    this.renderer = this.createRenderer();
    element.append(this.stateCanvas, this.overlay);
    this.resizing = new ResizeObserver(() => this.resize());
    this.resizing.observe(element);
    axis.join(this);
    this.resize();
  }

  dispose(): void {
    this.axis.leave(this);
    this.resizing.disconnect();
    this.loader?.abortAll();
    this.path?.clear();
    this.waits?.clear();
    this.renderer.dispose();
    clearTimeout(this.restTimer);
    this.element.replaceChildren();
  }

  /** Shows another trace. */
  open(client: TraceClient): void {
    this.loader?.abortAll();
    this.path?.clear();
    this.waits?.clear();
    this.cache.clear();
    this.cache = new TileCache();
    this.cache.onDrop = (batch) => this.renderer.forget(batch);
    this.loader = new TileLoader(this.cache, (level, tile, rows, signal) =>
      client.tiles(level, tile * TILE_BINS, TILE_BINS, rows, signal),
    );
    this.loader.onArrival = () => this.invalidate();
    this.loader.onError = (error) => this.events.failed(error);
    this.path = pathStore(client);
    this.waits = waitMarkStore(client);
    for (const store of [this.path, this.waits]) store.onArrival = () => this.invalidate();
    this.part = client.part;
    this.invalidate();
  }

  /** Sets the length and version of the trace, which grow while it is read. */
  setExtent(length: number, version: number): void {
    this.length = length;
    this.version = version;
    this.lastRequest = 0;
    this.invalidate();
  }

  setStates(states: readonly State[]): void {
    this.states = states;
    this.colourStates();
    this.invalidate();
  }

  setLayout(tree: RowTree, layout: Layout): void {
    this.tree = tree;
    this.layout = layout;
    this.renderer.setLayout(layout);
    this.setScroll(this.scroll);
    this.invalidate();
  }

  setScene(scene: Scene): void {
    const recolour = scene.highlight !== this.scene.highlight;
    this.scene = scene;
    if (recolour) this.colourStates();
    this.invalidate();
  }

  setPalette(palette: Palette): void {
    this.palette = palette;
    this.colourStates();
    this.invalidate();
  }

  setPointer(x: number | null): void {
    if (x === this.pointerX) return;
    this.pointerX = x;
    this.invalidate();
  }

  /** The part of the trace's time that is in view. */
  get view(): View {
    return this.axis.viewOf(this);
  }

  /** Moves the axis so that this part of the trace's time is in view. */
  setView(view: View): void {
    this.axis.setView(shifted(view, this.offset));
  }

  /** Moves the trace on the axis. */
  setOffset(offset: number): void {
    if (offset === this.offset) return;
    this.offset = offset;
    this.axis.setView(this.axis.view);
    this.noteMove();
  }

  axisMoved(): void {
    this.noteMove();
  }

  zoom(factor: number, x: number): void {
    const { view } = this.axis;
    this.axis.zoom(factor, pixelToTime(view, this.width, x));
  }

  pan(pixels: number): void {
    this.axis.pan((pixels / this.width) * span(this.axis.view));
  }

  setScroll(scroll: number): void {
    const most = Math.max(0, this.layout.height - this.rowsHeight);
    const next = Math.round(Math.min(Math.max(scroll, 0), most));
    if (next === this.scroll) return;
    this.scroll = next;
    this.noteMove();
  }

  /** Scrolls so that a row is visible. */
  reveal(entry: LayoutRow): void {
    if (entry.pinned) return;
    // The heads of the row's groups cover the top.
    const above = entry.depth * entry.height * 1.1;
    if (entry.top - above < this.scroll) this.setScroll(entry.top - above);
    const bottom = entry.top + entry.height;
    if (bottom > this.scroll + this.rowsHeight) this.setScroll(bottom - this.rowsHeight);
  }

  /** Height of the part in which rows scroll. */
  get rowsHeight(): number {
    return Math.max(0, this.height - HEADER_HEIGHT - this.layout.pinnedHeight);
  }

  get canvasWidth(): number {
    return this.width;
  }

  get loading(): boolean {
    return this.loader?.busy ?? false;
  }

  /** The geometry of the current view, for hit tests. */
  frame(): Frame {
    const sticky = stickyHeads(this.layout, this.scroll);
    return {
      width: this.width,
      height: this.height,
      ratio: this.ratio,
      view: this.view,
      layout: this.layout,
      tree: this.tree,
      states: this.states,
      palette: this.palette,
      scene: this.scene,
      scroll: this.scroll,
      sticky,
      stickyHeight: sticky.reduce((sum, head) => sum + head.height, 0),
      rowsTop: HEADER_HEIGHT + this.layout.pinnedHeight,
    };
  }

  /** The item under the pointer, from the tiles that are there; null if nothing is. */
  itemAt(row: number, x: number): (Item & { exact: boolean; group: boolean }) | null {
    const level = levelOf(this.view, this.width * this.ratio);
    const time = timeAt(this.frame(), x);
    return this.stateDrawing.itemAt(this.cache, level, row, time);
  }

  segments() {
    return this.path?.best(this.view) ?? [];
  }

  /** True if a wait in this part of a row has a stack, as far as the page knows. */
  hasWaitStack(row: number, { begin, end }: View): boolean {
    const marks = this.waits?.best(this.view);
    return marks ? hasMark(marks, row, begin, end) : false;
  }

  invalidate(): void {
    if (this.scheduled) return;
    this.scheduled = true;
    requestAnimationFrame((now) => {
      this.scheduled = false;
      this.draw(now);
    });
  }

  private noteMove(): void {
    this.lastMove = performance.now();
    this.moved = true;
    clearTimeout(this.restTimer);
    this.restTimer = window.setTimeout(() => {
      this.invalidate();
      this.events.rested(this.view, this.scroll);
    }, REST_MS);
    this.invalidate();
  }

  private createRenderer(): Renderer {
    const renderer = GlRenderer.create(this.stateCanvas, new RowSlots());
    if (!renderer) return new CanvasRenderer(this.stateCanvas);
    this.stateCanvas.addEventListener('webglcontextlost', () => this.useCanvas(), { once: true });
    return renderer;
  }

  /** Continues without WebGL after its context was lost. A canvas keeps the kind of its first
   * context, so it is replaced. */
  private useCanvas(): void {
    const canvas = document.createElement('canvas');
    this.stateCanvas.replaceWith(canvas);
    this.stateCanvas = canvas;
    this.renderer = new CanvasRenderer(canvas);
    this.resize();
    this.colourStates();
    this.renderer.setLayout(this.layout);
  }

  private colourStates(): void {
    const { states, palette, scene } = this;
    this.renderer.setStates(stateLooks(states, palette, scene.highlight), palette);
  }

  private resize(): void {
    this.width = Math.max(1, this.element.clientWidth);
    this.height = Math.max(1, this.element.clientHeight);
    this.ratio = window.devicePixelRatio || 1;
    for (const canvas of [this.stateCanvas, this.overlay]) {
      canvas.width = Math.round(this.width * this.ratio);
      canvas.height = Math.round(this.height * this.ratio);
    }
    this.renderer.resize(this.stateCanvas.width, this.stateCanvas.height, this.ratio);
    this.renderer.setLayout(this.layout);
    this.setScroll(this.scroll);
    this.noteMove();
  }

  private draw(now: number): void {
    this.frameNumber++;
    const frame = this.frame();
    const rows = visibleRows(frame);
    const moving = now - this.lastMove < REST_MS;
    const { context } = this;
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    context.clearRect(0, 0, this.width, this.height);
    const grid = rulerTicks(frame);
    const complete = this.stateDrawing.draw(
      this.renderer, context, frame, rows, this.cache, this.length, grid.times, moving,
      this.frameNumber,
    );
    this.drawOverlay(frame, rows, grid);
    this.request(now, frame, rows, moving);
    if (!complete) this.invalidate();
    if (this.moved) {
      this.moved = false;
      this.events.moved(this.view, this.scroll);
    }
  }

  private drawOverlay(
    frame: Frame,
    rows: readonly PlacedRow[],
    grid: { step: number; times: number[] },
  ): void {
    const { context } = this;
    const segments = this.segments();
    context.save();
    context.beginPath();
    context.rect(0, HEADER_HEIGHT, this.width, this.height - HEADER_HEIGHT);
    context.clip();
    drawPathLine(context, frame, segments);
    context.restore();
    drawWaitMarks(context, frame, rows, this.waits?.best(frame.view) ?? NO_MARKS);
    drawSelection(context, frame);
    drawChain(context, frame);
    drawRuler(context, frame, grid);
    if (this.part) drawPart(context, frame, this.part, this.length);
    drawMarks(context, frame);
    drawRange(context, frame);
    if (this.pointerX !== null) drawPointer(context, frame, this.pointerX);
    drawRangeTexts(context, frame);
  }

  private request(now: number, frame: Frame, rows: readonly PlacedRow[], moving: boolean): void {
    if (!this.loader || this.length <= 0) return;
    if (moving && now - this.lastRequest < REQUEST_INTERVAL_MS) {
      // The look after the last change is never left out: the view comes to rest with a frame.
      return;
    }
    this.lastRequest = now;
    this.loader.frame = this.frameNumber;
    const level = levelOf(this.view, this.width * this.ratio);
    this.loader.want(
      this.stateDrawing.wantedTiles(this.view, level, this.length),
      this.stateDrawing.wantedRows(frame, rows),
      this.version,
    );
    this.path?.want(this.view, this.length, this.version);
    this.waits?.want(this.view, this.length, this.version);
  }
}
