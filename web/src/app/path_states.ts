// The states of the critical path for table and bar: the report's entries joined by their name,
// with what halving each would bring, and the class that gives them their colour.

import type { Criticality, Gain, Report } from '../api/report.ts';
import type { Prediction, State, StateClass } from '../api/types.ts';

export interface PathState {
  /** As `longpole report` writes it, such as nginx::write. */
  name: string;
  /** The two parts of the name: nginx and write. */
  machines: string;
  state: string;
  /** The names of the same state on the timeline, where each machine of a class has its own, and in
   * a comparison, which adds the host. */
  names: Set<string>;
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

/** `states` are those of the timeline: a state has the same colour there and here. */
export function pathStates(report: Report, states: readonly State[]): PathState[] {
  const classes = new Map(states.map((state) => [state.name, state.class]));
  const byName = new Map<string, PathState>();
  for (const entry of report.criticality) {
    const name = nameOf(entry);
    const known = byName.get(name);
    if (known) {
      known.ns += entry.ns;
      known.share += entry.share;
      for (const other of namesOf(entry)) known.names.add(other);
      continue;
    }
    const scenario = `${quoted(entry.class)}::${quoted(entry.state)}`;
    byName.set(name, {
      name,
      machines: entry.class,
      state: entry.state,
      names: new Set(namesOf(entry)),
      scenario,
      kind: entry.kind,
      class:
        classes.get(`${entry.machine}::${entry.state}`) ??
        classes.get(name) ??
        classOfKind(entry.kind),
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

function namesOf(entry: Criticality): string[] {
  const name = nameOf(entry);
  const names = [name, `${entry.machine}::${entry.state}`];
  // In the graph, a link has the name of its queue; that of replies is numbered.
  if (entry.kind.startsWith('link')) names.push(`${entry.machine.replace(/:\d+$/, '')}::${entry.state}`);
  return entry.host === '' ? names : [...names, `${entry.host}/${name}`];
}

/** Returns true if `highlight`, a name in the table, the graph or the timeline, means the state. */
export function isMeant(state: PathState, highlight: string | null): boolean {
  return highlight !== null && state.names.has(highlight);
}

/** Names of the states on the timeline that are meant by a name: of a state of the path's table, or
 * of a call or span, whose states on the path are also meant. */
export function highlightedNames(
  name: string,
  report: Report | null,
  states: readonly State[],
): ReadonlySet<string> {
  const names = new Set([name]);
  for (const state of report ? pathStates(report, states) : []) {
    if (!state.names.has(name) && state.state !== name) continue;
    for (const other of state.names) names.add(other);
  }
  return names;
}

/** The states of the path that the verdict is about: those of its subject (a process is the subject
 * of its threads, too), and only the one that the verdict names, if it names one. */
export function verdictStates(report: Report, states: readonly PathState[]): PathState[] {
  const { subject, state } = report.verdict;
  if (!subject) return [];
  return states.filter(
    ({ machines, state: name }) =>
      (machines === subject.name || machines.startsWith(`${subject.name}/`)) &&
      (state === null || state.name === name),
  );
}

/** Difference of two shares of the path that are the same but for rounding and the path's ends. */
const SAME_SHARE = 0.005;

/** The verdict's share, if it is one of the critical path. A verdict by the stages has the share of
 * a stage's work instead, which its sentence explains. */
export function verdictPathShare(report: Report, states: readonly PathState[]): number | null {
  const { share } = report.verdict;
  if (share === null) return null;
  const onPath = verdictStates(report, states).reduce((sum, state) => sum + state.share, 0);
  // The time that calls are in transit is a link's, which has another name than the subject.
  const known = [onPath, ...states.map((state) => state.share)];
  return known.some((other) => Math.abs(other - share) < SAME_SHARE) ? share : null;
}

/** What changing the verdict's subject would bring: what the verdict says, or else what was
 * predicted for its state. */
export function verdictGain(report: Report, states: readonly PathState[]): Gain | null {
  if (report.verdict.gain) return report.verdict.gain;
  for (const { halved } of verdictStates(report, states)) {
    if (halved && halved.gain !== null) {
      const { change, gain, gain_low, gain_high } = halved;
      return { change, of: 'end', progress: null, gain, low: gain_low ?? gain,
        high: gain_high ?? gain };
    }
  }
  return null;
}

/** The advice to show first: that of a finding about the verdict's subject, or else the first. */
export function advice(report: Report): string | null {
  const { subject, state } = report.verdict;
  const withAdvice = report.findings.filter((finding) => finding.advice !== '');
  const name = subject ? `${subject.name}${state ? `::${state.name}` : ''}` : null;
  const found =
    withAdvice.find((finding) => finding.subject === name) ??
    withAdvice.find((finding) => finding.subject === subject?.name) ??
    withAdvice[0];
  return found?.advice ?? null;
}
