// The parts of `longpole report --json` that the viewer shows (docs/json/report.schema.json), and
// their reading. The report gives times on the trace's clock, in ns since 1970. These exceed 2^53,
// so they are taken out of the text before JSON.parse could round them, and become times since the
// begin of the trace like all others.

import type { Prediction } from './types.ts';

export interface Interval {
  begin: number;
  end: number;
}

export interface Subject {
  level: string;
  host: string | null;
  name: string;
  pid: number | null;
  tid: number | null;
}

export interface Gain {
  change: string;
  of: 'end' | 'rate' | 'latency';
  progress: string | null;
  gain: number;
  low: number;
  high: number;
}

export interface Caveat {
  kind: string;
  text: string;
  remedy: string | null;
}

export interface Verdict {
  outcome: 'bottleneck' | 'paced' | 'spread' | 'unknown';
  subject: Subject | null;
  state: { kind: string; name: string } | null;
  mechanism: string | null;
  share: number | null;
  share_low: number | null;
  share_high: number | null;
  gain: Gain | null;
  caveats: Caveat[];
  unknown_share: number | null;
  lost: number;
  /** The verdict in a few words. */
  heading: string;
  text: string;
}

/** A state's time on the critical path. */
export interface Criticality {
  host: string;
  machine: string;
  class: string;
  state: string;
  kind: string;
  ns: number;
  share: number;
  profile_rank: number | null;
  profile_share: number | null;
}

export interface Finding {
  kind: string;
  subject: string;
  count: number;
  share: number;
  advice: string;
  evidence: Interval | null;
}

export interface Report {
  verdict: Verdict;
  evidence: Interval | null;
  criticality: Criticality[];
  findings: Finding[];
  predictions: Prediction[];
}

/** Numbers of 16 digits and more behind a key that ends in `_ns`. Within a text, a quote would be
 * escaped, so the pattern matches keys only. */
const LARGE_TIME = /"(\w+_ns)"\s*:\s*(\d{16,})/g;

interface RawInterval {
  start_ns: number | string;
  end_ns: number | string;
}

/** Reads a report; `originNs` is the `origin_ns` of its trace. */
export function parseReport(text: string, originNs: string): Report {
  const raw = JSON.parse(text.replace(LARGE_TIME, '"$1":"$2"'));
  const origin = BigInt(originNs);
  return {
    verdict: raw.verdict,
    evidence: intervalOf(raw.verdict.evidence, origin),
    criticality: raw.criticality ?? [],
    findings: (raw.findings ?? []).map((finding: Finding & { evidence: RawInterval }) => ({
      ...finding,
      evidence: intervalOf(finding.evidence, origin),
    })),
    predictions: raw.predictions ?? [],
  };
}

/** The interval since the trace's begin; null if it is empty, which means that there is none. */
function intervalOf(raw: RawInterval | null | undefined, origin: bigint): Interval | null {
  if (!raw) return null;
  const begin = Number(BigInt(raw.start_ns) - origin);
  const end = Number(BigInt(raw.end_ns) - origin);
  return end > begin ? { begin, end } : null;
}
