// Requests for the events of a trace: docs/internals/viewer-interface.md.

import { request } from './server_client.ts';
import type { Trace } from './types.ts';

/** An event, or a loss of events, whose name is empty. */
export interface EventLine {
  number: number;
  /** In ns since the begin of the first state; negative before it. */
  t: number;
  cpu: number | null;
  who: string;
  tid: number | null;
  /** The thread's row, or else the CPU's. */
  row: number | null;
  name: string;
  text: string;
}

export interface EventLines {
  items: number;
  lines: EventLine[];
  /** Numbers from which the lines before and after these ones can be asked for. */
  before: number | null;
  after: number | null;
  notes: string[];
}

export interface EventNames {
  items: number;
  names: { name: string; count: number }[];
  left_out: number;
}

/** A condition as of `longpole print --filter`, and the row of the thread. */
export interface EventSelection {
  filter: string;
  row: number | null;
}

/** Begin of the lines that are asked for: the number of an event, or a time. */
export type EventPlace = { from: number } | { at: number };

/** Reads lines from a place on, or before it. Null as long as the trace is read. */
export async function readEvents(
  trace: Trace,
  place: EventPlace,
  backwards: boolean,
  { filter, row }: EventSelection,
  limit: number,
  signal: AbortSignal,
): Promise<EventLines | null> {
  const query = new URLSearchParams({ limit: String(limit), backwards: String(backwards) });
  for (const [name, number] of Object.entries(place)) query.set(name, String(Math.floor(number)));
  if (filter !== '') query.set('filter', filter);
  if (row !== null) query.set('row', String(row));
  const response = await request(`api/traces/${trace.id}/events?${query}`, { signal });
  return response.status === 202 ? null : response.json();
}

/** One execution of a thread: from the time at which it got a CPU to that at which it left it. */
export interface Instance {
  begin: number;
  end: number;
  cpu: number;
  cpu_row: number;
  /** When it became able to run, and who woke it. */
  wake: { t: number; by: string; row: number | null } | null;
  /** The last interrupt on the CPU before. */
  interrupt: { name: string; begin: number; end: number; gap_ns: number } | null;
}

/** Reads the execution of a thread's row at a time. Null if it has no CPU then. */
export async function readInstance(
  trace: Trace,
  { row, at }: { row: number; at: number },
  signal: AbortSignal,
): Promise<Instance | null> {
  const address = `api/traces/${trace.id}/instance?row=${row}&at=${Math.max(0, Math.floor(at))}`;
  const response = await request(address, { signal });
  return response.status === 202 ? null : (await response.json()).instance;
}

/** Reads the number of events of each name. Null as long as the trace is read. */
export async function readEventNames(
  trace: Trace,
  signal: AbortSignal,
): Promise<EventNames | null> {
  const response = await request(`api/traces/${trace.id}/event-names`, { signal });
  return response.status === 202 ? null : response.json();
}
