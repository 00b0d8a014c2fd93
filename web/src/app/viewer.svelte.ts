// The state of the viewer: the open trace, its rows and report, the view, the scene, the settings.
// Panels read it, the timeline draws it, actions.ts changes it. It polls the trace while it grows,
// restores the address on start, and keeps the address up to date.

import type { Part, TraceClient } from '../api/client.ts';
import type { Interval, Report } from '../api/report.ts';
import { source } from '../api/source.ts';
import type { Row, Rows, Trace } from '../api/types.ts';
import { emptyScene, type Scene } from '../timeline/scene.ts';
import { RowTree, type RowSettings } from '../timeline/row_tree.ts';
import { Timeline } from '../timeline/timeline.ts';
import { ViewHistory } from '../timeline/view_history.ts';
import { viewAround, type View } from '../timeline/viewport.ts';
import { readLink, writeLink, type Link } from './link.ts';
import { pathStates } from './path_states.ts';
import { preferences } from './preferences.svelte.ts';

export type PanelName = 'states' | 'details' | 'findings' | 'search' | 'notes';

const POLL_READING_MS = 500;
const POLL_ANALYSING_MS = 1000;
const POLL_FAILED_MS = 3000;
const LINK_DELAY_MS = 300;
/** Segments of the path that decide to which row the timeline scrolls for the evidence. */
const EVIDENCE_SEGMENTS = 500;
/** From this number of processes on, those that are not on the path are collapsed at first. */
const MANY_PROCESSES = 12;

const NO_ROWS: Rows = { version: -1, rows: [], states: [] };

export const INITIAL_SETTINGS: RowSettings = {
  collapsed: new Set(),
  hidden: new Set(),
  pinned: [],
  filter: '',
  order: 'path',
};

export class Viewer {
  traces = $state.raw<Trace[]>([]);
  trace = $state.raw<Trace | null>(null);
  rows = $state.raw<Rows>(NO_ROWS);
  report = $state.raw<Report | null>(null);
  scene = $state.raw<Scene>(emptyScene());
  settings = $state.raw<RowSettings>(INITIAL_SETTINGS);
  view = $state.raw<View>({ begin: 0, end: 1 });
  scroll = $state(0);
  panel = $state<PanelName>('states');
  dialog = $state<'keys' | 'commands' | null>(null);
  error = $state<string | null>(null);
  /** Name of the highlighted state of the path's table. */
  highlight = $state<string | null>(null);
  /** The row that the keyboard is at. */
  focusedRow = $state<number | null>(null);
  tree = $derived(new RowTree(this.rows.rows));
  layout = $derived(this.tree.layout(this.settings));

  client = $state.raw<TraceClient | null>(null);
  /** The part of the trace with all states; null if this is the whole trace. */
  part = $derived<Part | null>(this.client?.part ?? null);

  timeline: Timeline | null = null;
  readonly history = new ViewHistory();
  /** False until the user has moved the view. Until then, the view follows the trace. */
  userMoved = false;
  private link: Link = readLink('');
  private pollTimer = 0;
  private linkTimer = 0;
  /** The user, or the address, has decided which rows are collapsed. */
  private rowsDecided = false;
  private tracesRead = false;

  /** Called when the timeline's element exists. */
  attach(element: HTMLElement): () => void {
    const timeline = new Timeline(element, {
      moved: (view, scroll) => {
        this.view = view;
        this.scroll = scroll;
      },
      rested: (view, scroll) => {
        this.history.record({ view, scroll });
        this.keepLink();
      },
      failed: (error) => this.fail(error),
    });
    this.timeline = timeline;
    if (!this.tracesRead) void this.start();
    return () => timeline.dispose();
  }

  async start(): Promise<void> {
    this.tracesRead = true;
    this.link = readLink(location.hash);
    try {
      this.traces = await source.traces();
    } catch (error) {
      this.fail(error);
      return;
    }
    const trace = this.traces.find((t) => t.id === this.link.trace) ?? this.traces[0];
    if (trace) this.open(trace);
    else this.error = 'There is no recording. `longpole record` makes one.';
  }

  open(trace: Trace): void {
    clearTimeout(this.pollTimer);
    if (trace.id !== this.link.trace && this.trace !== null) this.link = readLink('');
    this.client = source.open(trace);
    this.trace = trace;
    this.rows = NO_ROWS;
    this.report = null;
    this.error = null;
    this.userMoved = this.link.view !== null;
    this.rowsDecided = this.link.rows !== null;
    this.settings = this.link.rows ?? INITIAL_SETTINGS;
    this.scene = {
      ...emptyScene(),
      originNs: BigInt(trace.origin_ns),
      timeDisplay: preferences.timeDisplay,
      marks: this.link.marks,
      range: this.link.range && { ...this.link.range.interval, rows: this.link.range.rows },
    };
    this.setHighlight(this.link.highlight);
    document.title = `${trace.name} – Longpole`;
    this.timeline?.open(this.client);
    this.timeline?.setExtent(trace.end, trace.version);
    this.timeline?.setView(this.link.view ?? { begin: 0, end: trace.end });
    void this.client.notes().then(
      (notes) => this.changeScene({ notes }),
      (error) => this.fail(error),
    );
    void this.poll(true);
  }

  changeScene(change: Partial<Scene>): void {
    this.scene = { ...this.scene, ...change };
    this.keepLink();
  }

  /** Highlights a state of the path's table on the timeline. */
  setHighlight(name: string | null): void {
    this.highlight = name;
    const states = this.report ? pathStates(this.report, this.rows.states) : [];
    const state = states.find((s) => s.name === name);
    const names = state ? state.names : new Set(name === null ? [] : [name]);
    this.changeScene({ highlight: name === null ? null : names });
  }

  changeSettings(change: Partial<RowSettings>): void {
    this.rowsDecided = true;
    this.settings = { ...this.settings, ...change };
    this.keepLink();
  }

  fail(error: unknown): void {
    this.error = error instanceof Error ? error.message : String(error);
  }

  /** Moves the view to an interval, and scrolls to a row. */
  show(interval: Interval, row: number | null, space = 0.5): void {
    if (!this.timeline || !this.trace) return;
    this.userMoved = true;
    this.timeline.setView(viewAround(interval, this.trace.end, space));
    if (row !== null) this.revealRow(row);
  }

  revealRow(id: number): void {
    const collapsed = this.tree.ancestors(id).filter((a) => this.settings.collapsed.has(a));
    if (collapsed.length > 0) {
      const open = new Set(this.settings.collapsed);
      for (const ancestor of collapsed) open.delete(ancestor);
      this.changeSettings({ collapsed: open });
      this.timeline?.setLayout(this.tree, this.layout);
    }
    const entry = this.tree.visible(this.layout, id);
    if (entry) this.timeline?.reveal(entry);
  }

  rowName(id: number): string {
    return this.tree.fullName(id);
  }

  row(id: number): Row | undefined {
    return this.tree.row(id);
  }

  /** Writes the address soon, once for many changes. */
  keepLink(): void {
    clearTimeout(this.linkTimer);
    this.linkTimer = window.setTimeout(() => this.writeLink(), LINK_DELAY_MS);
  }

  private writeLink(): void {
    const { trace, scene } = this;
    if (!trace || this.rows === NO_ROWS) return;
    const { range, selection } = scene;
    const fragment = writeLink({
      trace: trace.id,
      view: this.userMoved ? this.view : null,
      range: range && { interval: range, rows: range.rows },
      state: selection && {
        row: selection.row,
        time: (selection.begin + selection.end) / 2,
      },
      rows: this.rowsDecided ? this.settings : null,
      marks: scene.marks,
      highlight: this.highlight,
    });
    history.replaceState(null, '', fragment);
  }

  /** Reads what is new of the trace, and comes back as long as more is to come. */
  private async poll(first = false): Promise<void> {
    const { client } = this;
    if (!client || !this.timeline) return;
    let next = 0;
    try {
      const trace = await client.trace();
      if (client !== this.client) return;
      const grown = trace.version !== this.rows.version || first;
      this.trace = trace;
      if (grown) await this.readRows(client, trace);
      if (client !== this.client) return;
      // Not earlier: the rows are sorted by their time on the path only when it is known.
      if (!this.report && trace.phase === 'ready') await this.readReport(client);
      if (trace.phase === 'reading') next = POLL_READING_MS;
      else if (trace.phase === 'analysing') next = POLL_ANALYSING_MS;
      else if (trace.phase === 'ready' && !this.report) next = POLL_ANALYSING_MS;
    } catch (error) {
      if (client !== this.client) return;
      this.fail(error);
      next = POLL_FAILED_MS;
    }
    if (next > 0) this.pollTimer = window.setTimeout(() => void this.poll(), next);
  }

  private async readRows(client: TraceClient, trace: Trace): Promise<void> {
    const rows = await client.rows();
    const { timeline } = this;
    if (client !== this.client || !timeline) return;
    const firstRows = this.rows === NO_ROWS;
    this.rows = rows;
    if (!this.rowsDecided) this.collapseBystanders();
    timeline.setStates(rows.states);
    timeline.setLayout(this.tree, this.layout);
    timeline.setExtent(trace.end, trace.version);
    if (!this.userMoved) timeline.setView({ begin: 0, end: trace.end });
    if (firstRows) await this.restoreSelection(client);
  }

  private async restoreSelection(client: TraceClient): Promise<void> {
    const { state } = this.link;
    if (!state || !this.row(state.row)) return;
    const { states } = await client.states(state.row, state.time, state.time + 1, 1);
    if (states[0]) this.changeScene({ selection: { row: state.row, ...states[0] } });
  }

  private async readReport(client: TraceClient): Promise<void> {
    const report = await client.report();
    if (client !== this.client || !report) return;
    this.report = report;
    this.setHighlight(this.highlight);
    this.changeScene({ evidence: report.evidence });
    if (report.evidence && !this.userMoved) await this.showEvidence(client, report.evidence);
  }

  /** Moves the view to the evidence, and to the row that has the path there. */
  private async showEvidence(client: TraceClient, evidence: Interval): Promise<void> {
    const { segments } = await client.path(evidence.begin, evidence.end, EVIDENCE_SEGMENTS);
    if (client !== this.client || this.userMoved) return;
    const times = new Map<number, number>();
    for (const { row, begin, end } of segments) {
      if (row !== null) times.set(row, (times.get(row) ?? 0) + end - begin);
    }
    const [row] = [...times].sort(([, a], [, b]) => b - a)[0] ?? [null];
    this.show(evidence, row, 1);
    this.userMoved = false;
  }

  /** Collapses the recorder and, in a trace with many processes, those that are not on the path. */
  private collapseBystanders(): void {
    const processes = this.rows.rows.filter((row) => row.kind === 'process');
    const onPath = processes.some((row) => row.path_ns > 0);
    const recorder = this.rows.rows.filter((row) => row.kind === 'recorder');
    const collapsed = new Set<number>(recorder.map((row) => row.id));
    if (processes.length >= MANY_PROCESSES && onPath) {
      for (const row of processes) if (row.path_ns === 0) collapsed.add(row.id);
    }
    this.settings = { ...this.settings, collapsed };
  }
}

export const viewer = new Viewer();
