// Requests to the server. All addresses are relative to the page, whose address has the token.

import type { PathGraph } from '../charts/path_graph.ts';
import { RequestError, type Source, type TraceClient } from './client.ts';
import { parseReport, type Report } from './report.ts';
import type {
  Diff,
  ExactState,
  Note,
  Packet,
  PathSegment,
  Prediction,
  Rows,
  SearchResult,
  Sums,
  Trace,
  WaitMark,
} from './types.ts';

/** Asks the server. An answer with an error is an exception whose text says what to do next. */
export async function request(address: string, options: RequestInit = {}): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(address, options);
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new RequestError(
      0,
      'The server does not answer. Start `longpole view` again and open the address it prints.',
    );
  }
  if (response.ok) return response;
  const body = await response.json().catch(() => null);
  throw new RequestError(
    response.status,
    body?.error ?? `The server answered with status ${response.status}.`,
  );
}

async function json<T>(address: string, options: RequestInit = {}): Promise<T> {
  return (await request(address, options)).json();
}

function body(method: 'POST' | 'PUT', value: unknown): RequestInit {
  return {
    method,
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(value),
  };
}

export class Server implements Source {
  async traces(): Promise<Trace[]> {
    return (await json<{ traces: Trace[] }>('api/traces')).traces;
  }

  open(trace: Trace): TraceClient {
    return new ServerClient(trace);
  }

  async diff(base: number, changed: number, signal: AbortSignal): Promise<Diff | null> {
    const response = await request(`api/diff?base=${base}&new=${changed}`, { signal });
    return response.status === 202 ? null : response.json();
  }
}

/** Requests about one trace of the server. */
class ServerClient implements TraceClient {
  readonly part = null;
  readonly rowsLeftOut = 0;
  private readonly base: string;
  private readonly originNs: string;

  constructor(trace: Trace) {
    this.base = `api/traces/${trace.id}`;
    this.originNs = trace.origin_ns;
  }

  trace(): Promise<Trace> {
    return json(this.base);
  }

  rows(): Promise<Rows> {
    return json(`${this.base}/rows`);
  }

  async tiles(
    level: number,
    first: number,
    count: number,
    rows: readonly number[],
    signal: AbortSignal,
  ): Promise<ArrayBuffer> {
    const query = `level=${level}&first=${first}&count=${count}&rows=${rows.join(',')}`;
    return (await request(`${this.base}/tiles?${query}`, { signal })).arrayBuffer();
  }

  states(row: number, begin: number, end: number, limit: number): Promise<{
    states: ExactState[];
    more: boolean;
  }> {
    return json(`${this.base}/states?row=${row}&${range(begin, end)}&limit=${limit}`);
  }

  path(begin: number, end: number, limit: number, signal?: AbortSignal): Promise<{
    segments: PathSegment[];
    more: boolean;
  }> {
    return json(`${this.base}/path?${range(begin, end)}&limit=${limit}`, { signal });
  }

  async sampledWaits(begin: number, end: number, signal: AbortSignal): Promise<WaitMark[]> {
    const address = `${this.base}/sampled-waits?${range(begin, end)}`;
    return (await json<{ waits: WaitMark[] }>(address, { signal })).waits;
  }

  sums(
    begin: number,
    end: number,
    rows: readonly number[],
    signal?: AbortSignal,
  ): Promise<Sums> {
    const query = `${range(begin, end)}&rows=${rows.join(',')}`;
    return json(`${this.base}/sums?${query}`, { signal });
  }

  search(
    text: string,
    begin: number,
    end: number,
    limit: number,
    signal?: AbortSignal,
  ): Promise<SearchResult> {
    const query = `q=${encodeURIComponent(text)}&${range(begin, end)}&limit=${limit}`;
    return json(`${this.base}/search?${query}`, { signal });
  }

  packet(row: number, time: number, signal: AbortSignal): Promise<Packet> {
    return json(`${this.base}/packet?row=${row}&t=${Math.floor(time)}`, { signal });
  }

  /** The report, or null as long as the server computes it. */
  async report(): Promise<Report | null> {
    const response = await request(`${this.base}/report`);
    if (response.status === 202) return null;
    return parseReport(await response.text(), this.originNs);
  }

  async graph(signal: AbortSignal): Promise<{ graph: PathGraph | null } | null> {
    const response = await request(`${this.base}/graph`, { signal });
    return response.status === 202 ? null : response.json();
  }

  async whatIf(changes: string[], signal: AbortSignal): Promise<Prediction[]> {
    const options = { ...body('POST', { changes }), signal };
    return (await json<{ predictions: Prediction[] }>(`${this.base}/what-if`, options)).predictions;
  }

  async notes(): Promise<Note[]> {
    return (await json<{ notes: Note[] }>(`${this.base}/notes`)).notes;
  }

  async saveNotes(notes: Note[]): Promise<void> {
    await request(`${this.base}/notes`, body('PUT', { notes }));
  }
}

function range(begin: number, end: number): string {
  return `begin=${Math.max(0, Math.floor(begin))}&end=${Math.max(0, Math.ceil(end))}`;
}
