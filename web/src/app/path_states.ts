// The states of the critical path for table and bar: the report's entries joined by their name,
// with what halving each would bring, and the class that gives them their colour.

import type { Criticality, Report } from '../api/report.ts';
import type { Prediction, StateClass } from '../api/types.ts';

export interface PathState {
  /** As `longpole report` writes it, such as nginx::write. */
  name: string;
  /** How `what-if` is asked to change it. */
  scenario: string;
  kind: string;
  /** Null for a link between two machines. */
  class: StateClass | null;
  ns: number;
  share: number;
  rank: number | null;
  profileShare: number | null;
  /** What half of it would bring; null if that was not tried or was refused. */
  halved: Prediction | null;
}

const CLASS_OF_KIND: Record<string, StateClass> = {
  run: 'running',
  user: 'running',
  kernel: 'running',
  span: 'running',
  declared: 'running',
  named: 'running',
  system_call: 'call',
  fault: 'call',
  interrupted: 'interrupt',
  interrupt: 'interrupt',
  runnable: 'runnable',
  preempted: 'runnable',
  throttled: 'runnable',
  call: 'blocked',
  waits: 'blocked',
  blocked: 'blocked',
  asleep: 'asleep',
  outside: 'unknown',
  unknown: 'unknown',
};

export function classOfKind(kind: string): StateClass | null {
  return CLASS_OF_KIND[kind] ?? (kind.startsWith('link') ? null : 'unknown');
}

/** Names with spaces or `::` are written in quotes in a scenario. */
function quoted(name: string): string {
  return /\s|::|"/.test(name) ? `"${name}"` : name;
}

export function pathStates(report: Report): PathState[] {
  const byName = new Map<string, PathState>();
  for (const entry of report.criticality) {
    const name = nameOf(entry);
    const known = byName.get(name);
    if (known) {
      known.ns += entry.ns;
      known.share += entry.share;
      continue;
    }
    const scenario = `${quoted(entry.class)}::${quoted(entry.state)}`;
    byName.set(name, {
      name,
      scenario,
      kind: entry.kind,
      class: classOfKind(entry.kind),
      ns: entry.ns,
      share: entry.share,
      rank: entry.profile_rank,
      profileShare: entry.profile_share,
      halved: report.predictions.find((p) => p.change === `${scenario} x0.5`) ?? null,
    });
  }
  return [...byName.values()].sort((a, b) => b.ns - a.ns);
}

export function nameOf(entry: Pick<Criticality, 'class' | 'state'>): string {
  return `${entry.class}::${entry.state}`;
}
