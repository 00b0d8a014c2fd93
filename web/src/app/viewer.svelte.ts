// The state of one trace in the page: its rows and report, the settings of the rows, the scene.
// Panels read it, its timeline draws it, actions.ts changes it. It polls the trace while it grows.
// The page (page.svelte.ts) has one viewer, or two in a comparison, on one time axis.

import type { Part, TraceClient } from '../api/client.ts';
import type { Interval, Report } from '../api/report.ts';
import { source } from '../api/source.ts';
import type { Row, Rows, Trace } from '../api/types.ts';
import type { KeyMotion } from '../timeline/key_motion.ts';
import { emptyScene, type Scene } from '../timeline/scene.ts';
import { RowTree, type RowSettings } from '../timeline/row_tree.ts';
import type { TimeAxis } from '../timeline/time_axis.ts';
import { Timeline } from '../timeline/timeline.ts';
import { shifted, viewAround, type View } from '../timeline/viewport.ts';
import { NO_TRACE_LINK, type TraceLink } from './link.ts';
import { NewGeneration } from './new_generation.ts';
import { highlightedNames } from './path_states.ts';
import { preferences } from './preferences.svelte.ts';

const POLL_READING_MS = 500;
const POLL_ANALYSING_MS = 1000;
const POLL_FAILED_MS = 3000;
/** Segments of the path that decide to which row the timeline scrolls for the evidence. */
const EVIDENCE_SEGMENTS = 500;
/** From this number of processes on, those that are not on the path are collapsed at first. */
const MANY_PROCESSES = 12;

/** From this number of rows of packets in a group on, the group is collapsed at first. */
const MANY_FLOWS = 24;

const NO_ROWS: Rows = { version: -1, generation: 0, rows: [], states: [] };

const INITIAL_SETTINGS: RowSettings = {
  collapsed: new Set(),
  hidden: new Set(),
  pinned: [],
  filter: '',
  order: 'path',
};

/** What a viewer needs of the page. */
export interface ViewerHost {
  readonly axis: TimeAxis;
  /** The viewer whose filter and order of rows hold for all. */
  readonly leader: Viewer;
  /** The view moves to the evidence of the verdict when it is known. */
  readonly showsEvidence: boolean;
  /** Name of the highlighted state of the path's table, or of a latency. */
  readonly highlight: string | null;
  /** False until the user has moved the view. Until then, the view follows the traces. */
  userMoved: boolean;
  /** Until the user has moved the view, shows all that is known, or the newest time. */
  follow(): void;
  /** The trace is being recorded, or is no longer. */
  setLive(isLive: boolean): void;
  /** The view or the scroll position has come to rest. */
  rested(): void;
  /** Something that the address holds has changed. */
  keepLink(): void;
  fail(error: unknown): void;
}

export class Viewer {
  trace = $state.raw<Trace | null>(null);
  rows = $state.raw<Rows>(NO_ROWS);
  report = $state.raw<Report | null>(null);
  scene = $state.raw<Scene>(emptyScene());
  settings = $state.raw<RowSettings>(INITIAL_SETTINGS);
  view = $state.raw<View>({ begin: 0, end: 1 });
  scroll = $state(0);
  /** The row that the keyboard is at. */
  focusedRow = $state<number | null>(null);
  tree = $derived(new RowTree(this.rows.rows));
  private places = $derived(this.tree.places(this.settings.order));
  layout = $derived.by(() => {
    const { leader } = this.host;
    if (leader === this) return this.tree.layout(this.settings);
    const { filter, order } = leader.settings;
    return this.tree.layout({ ...this.settings, filter, order }, leader.places);
  });

  client = $state.raw<TraceClient | null>(null);
  /** The part of the trace with all states; null if this is the whole trace. */
  part = $derived<Part | null>(this.client?.part ?? null);

  timeline: Timeline | null = null;
  /** The stored notes are known, so a list with one more does not replace them. */
  notesRead = false;
  motion: KeyMotion | null = null;
  private readonly host: ViewerHost;
  private link: TraceLink = NO_TRACE_LINK;
  /** Time of the axis at which the trace begins. */
  private offset = 0;
  private pollTimer = 0;
  /** The user, or the address, has decided which rows are collapsed. */
  private rowsDecided = false;

  constructor(host: ViewerHost) {
    this.host = host;
  }

  /** Called when the timeline's element exists. `scrolled` is called in each frame that moves. */
  attach(element: HTMLElement, scrolled: (scroll: number) => void): () => void {
    const timeline = new Timeline(element, this.host.axis, {
      moved: (view, scroll) => {
        scrolled(scroll);
        this.view = view;
        this.scroll = scroll;
      },
      rested: () => this.host.rested(),
      failed: (error) => this.host.fail(error),
    });
    this.timeline = timeline;
    timeline.setOffset(this.offset);
    this.begin();
    return () => {
      timeline.dispose();
      this.timeline = null;
    };
  }

  /** Shows a trace, in the way that the address asks for. */
  open(trace: Trace, link: TraceLink = NO_TRACE_LINK): void {
    this.close();
    this.link = link;
    this.client = source.open(trace);
    this.trace = trace;
    this.rows = NO_ROWS;
    this.report = null;
    this.rowsDecided = link.rows !== null;
    this.settings = link.rows ?? INITIAL_SETTINGS;
    this.scene = {
      ...emptyScene(),
      originNs: BigInt(trace.origin_ns),
      timeDisplay: preferences.timeDisplay,
      marks: link.marks,
      range: link.range && { ...link.range.interval, rows: link.range.rows },
    };
    this.showHighlight();
    const { client } = this;
    this.notesRead = false;
    void client.notes().then(
      (notes) => {
        if (this.client !== client) return;
        this.notesRead = true;
        this.changeScene({ notes });
      },
      (error) => this.host.fail(error),
    );
    this.begin();
  }

  /** Ends the requests for what is new of the trace. */
  close(): void {
    clearTimeout(this.pollTimer);
    this.client = null;
  }

  /** Begins to read the trace as soon as there are a trace and a timeline. */
  private begin(): void {
    const { timeline, client, trace } = this;
    if (!timeline || !client || !trace) return;
    timeline.open(client);
    timeline.setExtent(trace.end, trace.version);
    this.host.follow();
    void this.poll(true);
  }

  setOffset(offset: number): void {
    this.offset = offset;
    this.timeline?.setOffset(offset);
  }

  changeScene(change: Partial<Scene>): void {
    this.scene = { ...this.scene, ...change };
    this.host.keepLink();
  }

  /** Draws what the page highlights. */
  showHighlight(): void {
    const { highlight } = this.host;
    this.changeScene({
      highlight: highlight === null
        ? null
        : highlightedNames(highlight, this.report, this.rows.states),
    });
  }

  changeSettings(change: Partial<RowSettings>): void {
    this.rowsDecided = true;
    this.settings = { ...this.settings, ...change };
    this.host.keepLink();
  }

  /** Moves the view to an interval, and scrolls to a row. */
  show(interval: Interval, row: number | null, space = 0.5): void {
    if (!this.timeline || !this.trace) return;
    this.host.userMoved = true;
    this.timeline.setView(viewAround(interval, space));
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

  /** Scrolls to a row, and gives it the keyboard. */
  showRow(id: number): void {
    this.revealRow(id);
    this.focusedRow = id;
  }

  rowName(id: number): string {
    return this.tree.fullName(id);
  }

  row(id: number): Row | undefined {
    return this.tree.row(id);
  }

  /** What the address says about the trace; null until its rows are known. */
  get currentLink(): TraceLink | null {
    const { trace, scene } = this;
    if (!trace || this.rows === NO_ROWS) return null;
    const { range, selection, marks } = scene;
    return {
      trace: trace.id,
      generation: this.rows.generation,
      range: range && { interval: range, rows: range.rows },
      state: selection && {
        row: selection.row,
        time: Math.floor((selection.begin + selection.end) / 2),
      },
      rows: this.rowsDecided ? this.settings : null,
      marks,
    };
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
      this.host.setLive(trace.phase === 'live');
      const isRead = !grown || (await this.readRows(client, trace));
      if (client !== this.client) return;
      // Not earlier: the rows are sorted by their time on the path only when it is known.
      if (!this.report && trace.phase === 'ready') await this.readReport(client);
      if (trace.phase === 'live' || trace.phase === 'reading') next = POLL_READING_MS;
      else if (trace.phase === 'analysing') next = POLL_ANALYSING_MS;
      else if (trace.phase === 'ready' && !this.report) next = POLL_ANALYSING_MS;
      else if (!isRead) next = POLL_READING_MS;
    } catch (error) {
      if (client !== this.client) return;
      this.host.fail(error);
      next = POLL_FAILED_MS;
    }
    if (next > 0) this.pollTimer = window.setTimeout(() => void this.poll(), next);
  }

  /** False if the rows are of another generation than the trace's begin and end. */
  private async readRows(client: TraceClient, trace: Trace): Promise<boolean> {
    const rows = await client.rows();
    const { timeline } = this;
    if (client !== this.client || !timeline || rows.generation !== trace.generation) return false;
    const firstRows = this.rows === NO_ROWS;
    if (firstRows && rows.generation !== this.link.generation) this.forgetRows();
    if (!firstRows && rows.generation !== this.rows.generation) this.adopt(client, trace, rows);
    this.rows = rows;
    this.scene = { ...this.scene, originNs: BigInt(trace.origin_ns) };
    if (!this.rowsDecided) this.collapseBystanders();
    timeline.setStates(rows.states);
    timeline.setLayout(this.tree, this.layout);
    timeline.setExtent(trace.end, trace.version);
    this.host.follow();
    if (firstRows) await this.restoreSelection(client);
    return true;
  }

  /** Leaves out what the address says about rows and states that now have other ids. */
  private forgetRows(): void {
    const { rows } = this.link;
    this.link = NO_TRACE_LINK;
    this.scene = { ...this.scene, range: null };
    if (!rows) return;
    this.rowsDecided = false;
    this.settings = { ...INITIAL_SETTINGS, filter: rows.filter, order: rows.order };
  }

  /** Takes up rows with new ids: what the user has set is kept. */
  private adopt(client: TraceClient, trace: Trace, rows: Rows): void {
    const shift = Number(this.scene.originNs - BigInt(trace.origin_ns));
    const adopted = new NewGeneration(this.rows, rows, shift);
    const hasNotes = this.scene.notes.length > 0 && this.notesRead;
    this.settings = adopted.settings(this.settings);
    this.focusedRow = this.focusedRow === null ? null : adopted.row(this.focusedRow);
    this.changeScene(adopted.scene(this.scene));
    const { timeline } = this;
    if (timeline) {
      const { view } = timeline;
      timeline.open(client);
      timeline.setExtent(trace.end, trace.version);
      timeline.setView(shifted(view, shift));
    }
    if (hasNotes) void client.saveNotes(this.scene.notes).catch((error) => this.host.fail(error));
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
    this.showHighlight();
    this.changeScene({ evidence: report.evidence });
    if (report.evidence) await this.showEvidence(client, report.evidence);
  }

  /** Moves the view to the evidence, and to the row that has the path there. */
  private async showEvidence(client: TraceClient, evidence: Interval): Promise<void> {
    const { host } = this;
    const mayMove = () => client === this.client && host.showsEvidence;
    if (!mayMove()) return;
    const { segments } = await client.path(evidence.begin, evidence.end, EVIDENCE_SEGMENTS);
    if (!mayMove()) return;
    const times = new Map<number, number>();
    for (const { row, begin, end } of segments) {
      if (row !== null) times.set(row, (times.get(row) ?? 0) + end - begin);
    }
    const [row] = [...times].sort(([, a], [, b]) => b - a)[0] ?? [null];
    this.show(evidence, row, 1);
    host.userMoved = false;
  }

  /** Collapses the recorder and, in a trace with many processes, those that are not on the path. */
  private collapseBystanders(): void {
    const processes = this.rows.rows.filter((row) => row.kind === 'process');
    const onPath = processes.some((row) => row.path_ns > 0);
    const recorder = this.rows.rows.filter((row) => row.kind === 'recorder');
    const collapsed = new Set<number>(recorder.map((row) => row.id));
    for (const row of this.rows.rows) {
      if (row.kind !== 'packets') continue;
      const count = this.tree.leaves(this.tree.indexOf.get(row.id)!).length;
      if (count >= MANY_FLOWS) collapsed.add(row.id);
    }
    if (processes.length >= MANY_PROCESSES && onPath) {
      for (const row of processes) if (row.path_ns === 0) collapsed.add(row.id);
    }
    this.settings = { ...this.settings, collapsed };
  }
}
