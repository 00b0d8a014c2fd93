// The events that the drawer lists: a part of all that match the filter, which grows at both ends
// when it is scrolled there.

import {
  readEvents,
  type EventLine,
  type EventLines,
  type EventPlace,
  type EventSelection,
} from '../api/events.ts';
import type { Trace } from '../api/types.ts';

/** Lines that are asked for at once, and the most that are kept; the farther end is dropped. */
const PAGE = 200;
const MOST = 2000;

export class EventList {
  lines = $state.raw<EventLine[]>([]);
  items = $state(0);
  notes = $state.raw<string[]>([]);
  error = $state('');
  /** False as long as nothing is known. */
  known = $state(false);
  /** A request is on its way. */
  busy = $state(false);
  /** Numbers from which there is more; null at the ends of the trace. */
  before = $state<number | null>(null);
  after = $state<number | null>(null);
  private trace: number | null = null;
  private selection: EventSelection = { filter: '', row: null };
  private abort = new AbortController();

  /** Lists the events around a time. Returns the number of the first one at it or later. */
  async show(trace: Trace, t: number, selection: EventSelection): Promise<number | null> {
    this.cancel();
    this.trace = trace.id;
    this.selection = selection;
    const answer = await this.read(trace, { at: t }, false);
    if (!answer) return null;
    this.known = true;
    this.items = answer.items;
    this.notes = answer.notes;
    this.lines = answer.lines;
    this.after = answer.after;
    this.before = answer.before;
    await this.earlier(trace);
    return answer.lines[0]?.number ?? this.lines.at(-1)?.number ?? null;
  }

  /** Adds earlier events. Returns the number of added lines. */
  async earlier(trace: Trace): Promise<number> {
    if (this.busy || this.before === null) return 0;
    const answer = await this.read(trace, { from: this.before }, true);
    if (!answer) return 0;
    const lines = [...answer.lines, ...this.lines];
    if (lines.length > MOST) this.after = lines[MOST].number;
    this.lines = lines.slice(0, MOST);
    this.before = answer.before;
    return answer.lines.length;
  }

  /** Adds later events. Returns the number of lines that were dropped at the begin for them. */
  async later(trace: Trace): Promise<number> {
    if (this.busy || this.after === null) return 0;
    const answer = await this.read(trace, { from: this.after }, false);
    if (!answer) return 0;
    const lines = [...this.lines, ...answer.lines];
    const dropped = Math.max(0, lines.length - MOST);
    this.lines = lines.slice(dropped);
    if (dropped > 0) this.before = this.lines[0].number;
    this.after = answer.after;
    return dropped;
  }

  /** True if the list is of these events of the trace. */
  isOf({ id }: Trace, { filter, row }: EventSelection): boolean {
    const { selection } = this;
    return this.trace === id && selection.filter === filter && selection.row === row;
  }

  cancel(): void {
    this.abort.abort();
    this.abort = new AbortController();
    this.busy = false;
  }

  private async read(
    trace: Trace,
    place: EventPlace,
    backwards: boolean,
  ): Promise<EventLines | null> {
    const { signal } = this.abort;
    this.busy = true;
    try {
      const answer = await readEvents(trace, place, backwards, this.selection, PAGE, signal);
      this.error = '';
      return answer;
    } catch (error) {
      if (!signal.aborted) this.error = (error as Error).message;
      return null;
    } finally {
      if (!signal.aborted) this.busy = false;
    }
  }
}
