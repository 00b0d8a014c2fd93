// The state of the page: which traces are shown, on one time axis, and what is open next to them.
// It restores the address on start, and keeps the address up to date.
//
// There is one viewer per trace that is shown: one, or two in a comparison. Panels and keys are
// about the active one, which is the one that was used last.

import { source } from '../api/source.ts';
import type { Trace } from '../api/types.ts';
import { TimeAxis } from '../timeline/time_axis.ts';
import { ViewHistory, type Place } from '../timeline/view_history.ts';
import { span, type View } from '../timeline/viewport.ts';
import { Comparison } from './comparison.svelte.ts';
import { readLink, writeLink, type DrawerLink, type Link, type TraceLink } from './link.ts';
import { Viewer, type ViewerHost } from './viewer.svelte.ts';

export type PanelName = 'changes' | 'states' | 'details' | 'findings' | 'search' | 'notes';

const LINK_DELAY_MS = 300;
/** Width of the view of a trace that is being recorded, at first. */
const FOLLOW_WIDTH_NS = 10e9;

function isSame(one: View, other: View): boolean {
  return one.begin === other.begin && one.end === other.end;
}

export class Page implements ViewerHost {
  traces = $state.raw<Trace[]>([]);
  readonly first = new Viewer(this);
  comparison = $state.raw<Comparison | null>(null);
  active = $state.raw<Viewer>(this.first);
  panel = $state<PanelName>('states');
  dialog = $state<'keys' | 'commands' | 'compare' | 'colours' | null>(null);
  error = $state<string | null>(null);
  highlight = $state<string | null>(null);
  viewers = $derived(this.comparison ? [this.first, this.comparison.second] : [this.first]);

  readonly axis = new TimeAxis();
  readonly history = new ViewHistory();
  /** The view keeps the newest time of a trace that is being recorded. */
  followsNewest = $state(false);
  /** The first trace is being recorded. */
  isLive = $state(false);
  /** Width of the view that follows, in ns. */
  private followWidth = FOLLOW_WIDTH_NS;
  /** The view that following has set. */
  private followed: View | null = null;
  private hasMoved = false;
  /** The view that the address asks for; null if it was shown, or does not matter any more. */
  private wanted: View | null = null;
  /** Time of the axis at the pointer; null if it is not on a timeline. */
  pointerTime: number | null = null;
  private linkTimer = 0;
  private drawer: DrawerLink | null = null;
  /** What was written last. */
  private written = '';

  get leader(): Viewer {
    return this.first;
  }

  get showsEvidence(): boolean {
    return !this.userMoved && !this.wanted && !this.comparison;
  }

  get userMoved(): boolean {
    return this.hasMoved;
  }

  set userMoved(moved: boolean) {
    this.hasMoved = moved;
    if (moved) this.followsNewest = false;
  }

  follow(): void {
    const { axis, followed } = this;
    if (this.followsNewest) {
      if (followed && !isSame(followed, axis.view)) this.userMoved = true;
      else this.showNewest();
    } else if (!this.userMoved) axis.setView(this.wanted ?? axis.extent);
  }

  setLive(isLive: boolean): void {
    if (isLive === this.isLive) return;
    this.isLive = isLive;
    if (!isLive) this.followsNewest = false;
    else if (!this.userMoved && !this.wanted) this.followNewest(FOLLOW_WIDTH_NS);
  }

  /** Begins or ends to follow the newest time. */
  toggleFollow(): void {
    if (this.followsNewest) this.userMoved = true;
    else if (this.isLive) this.followNewest(span(this.axis.view));
    this.keepLink();
  }

  private followNewest(width: number): void {
    this.showAgain();
    this.followWidth = width;
    this.followsNewest = true;
    this.showNewest();
  }

  private showNewest(): void {
    const { end } = this.axis.extent;
    this.axis.setView({ begin: end - this.followWidth, end });
    this.followed = this.axis.view;
  }

  /** Shows what the address asks for. */
  async start(): Promise<void> {
    const link = readLink(location.hash);
    if (!(await this.listTraces())) return;
    const trace = this.traces.find((t) => t.id === link.first.trace) ?? this.traces[0];
    if (!trace) {
      this.error = 'There is no recording. `longpole record` makes one.';
      return;
    }
    this.wanted = link.view;
    this.highlight = link.highlight;
    const second = this.traces.find((t) => t.id === link.second?.trace);
    if (second && link.second) this.openSecond(second, link.second, link.offset);
    this.openFirst(trace, trace.id === link.first.trace ? link.first : undefined);
  }

  /** Asks for the list of traces, to which other clients of the server may have added some. */
  async listTraces(): Promise<boolean> {
    try {
      this.traces = await source.traces();
      return true;
    } catch (error) {
      this.fail(error);
      return false;
    }
  }

  /** Shows another trace instead of the first one. */
  open(trace: Trace): void {
    this.showAgain();
    this.highlight = null;
    this.comparison?.place(0);
    this.openFirst(trace);
  }

  /** Follows the traces until the user moves the view again. */
  private showAgain(): void {
    this.userMoved = false;
    this.wanted = null;
  }

  private openFirst(trace: Trace, link?: TraceLink): void {
    this.error = null;
    this.first.open(trace, link);
    document.title = `${trace.name} – Longpole`;
  }

  /** Shows a trace below the first one, and what differs. Both are in view as a whole at first. */
  compare(trace: Trace): void {
    this.showAgain();
    this.openSecond(trace);
    this.follow();
  }

  private openSecond(trace: Trace, link?: TraceLink, offset = 0): void {
    const comparison = this.comparison ?? new Comparison(this, new Viewer(this));
    this.active = this.first;
    this.comparison = comparison;
    this.panel = 'changes';
    comparison.second.open(trace, link);
    comparison.place(offset);
  }

  endComparison(): void {
    const { comparison } = this;
    if (!comparison) return;
    comparison.second.close();
    this.active = this.first;
    this.comparison = null;
    if (this.panel === 'changes') this.panel = 'states';
    this.keepLink();
  }

  activate(viewer: Viewer): void {
    if (viewer !== this.active) this.active = viewer;
  }

  setHighlight(name: string | null): void {
    this.highlight = name;
    for (const viewer of this.viewers) viewer.showHighlight();
    this.keepLink();
  }

  /** Moves all timelines to a place of the history. */
  restore(place: Place | null): void {
    if (!place) return;
    this.userMoved = true;
    this.axis.setView(place.view);
    this.viewers.forEach((viewer, i) => viewer.timeline?.setScroll(place.scrolls[i] ?? 0));
  }

  rested(): void {
    const scrolls = this.viewers.map((viewer) => viewer.timeline?.scroll ?? 0);
    // Only what the user looked at on purpose is a place of the history.
    if (!this.followsNewest) this.history.record({ view: this.axis.view, scrolls });
    this.keepLink();
  }

  fail(error: unknown): void {
    this.error = error instanceof Error ? error.message : String(error);
  }

  /** Writes the address soon, once for many changes. */
  keepLink(): void {
    clearTimeout(this.linkTimer);
    this.linkTimer = window.setTimeout(() => this.writeLink(), LINK_DELAY_MS);
  }

  /** Keeps in the address what the drawer shows. */
  keepDrawer(drawer: DrawerLink | null): void {
    this.drawer = drawer;
    this.keepLink();
  }

  private writeLink(): void {
    const first = this.first.currentLink;
    const second = this.comparison && this.comparison.second.currentLink;
    // Until the rows of both are known, the address is what is still to be restored.
    if (!first || (this.comparison && !second)) return;
    const link: Link = {
      view: this.userMoved ? this.axis.view : this.wanted,
      highlight: this.highlight,
      first,
      second,
      offset: this.comparison?.offset ?? 0,
      drawer: this.drawer,
    };
    const text = writeLink(link);
    // Setting the address costs some milliseconds, also if it stays the same.
    if (text === this.written) return;
    this.written = text;
    history.replaceState(null, '', text);
  }
}

export const page = new Page();
