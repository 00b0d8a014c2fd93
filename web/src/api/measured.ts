// Requests for what the server measured in addition to the states: docs/internals/viewer-interface.md.

import { RequestError } from './client.ts';
import type { Trace } from './types.ts';

/** A frame as it is sent: number of frames below it, index of its name, index of what it belongs to
 * (0 process, 1 program, 2 kernel, 3 code made at run time), samples, samples on top. */
export type PackedFrame = [depth: number, name: number, code: number, count: number, own: number];

export interface PackedFlameGraph {
  samples: number;
  lost: number;
  /** Samples with stacks beyond what the server tells apart. */
  beyond: number;
  /** Frames that were left out, each with less than `least` samples. */
  left_out: number;
  least: number;
  names: string[];
  frames: PackedFrame[];
}

export interface Stacks {
  all: PackedFlameGraph | null;
  path: PackedFlameGraph | null;
}

/** Asks for a measurement of a trace. Null as long as the server computes it. */
async function measurement<T>(trace: Trace, what: string, signal: AbortSignal): Promise<T | null> {
  const response = await fetch(`api/traces/${trace.id}/${what}`, { signal });
  if (response.status === 202) return null;
  const answer = await response.json().catch(() => null);
  if (response.ok) return answer;
  throw new RequestError(
    response.status,
    answer?.error ?? `The server answered with status ${response.status}.`,
  );
}

export function readStacks(trace: Trace, signal: AbortSignal): Promise<Stacks | null> {
  return measurement(trace, 'stacks', signal);
}
