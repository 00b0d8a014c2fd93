import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Report } from '../api/report.ts';
import { highlightedNames, isMeant, pathStates } from './path_states.ts';

function entry(host: string, machine: string, state: string) {
  return { host, machine, class: machine.replace(/\.\d+$/, ''), state, kind: 'run', ns: 1, share: 0.5,
    profile_rank: null, profile_share: null };
}

const REPORT = {
  criticality: [entry('', 'worker.1', 'parse'), entry('', 'worker.2', 'parse'),
    entry('db', 'server', 'parse'), entry('', 'worker.1', 'read')],
  predictions: [],
} as unknown as Report;

function names(name: string): string[] {
  return [...highlightedNames(name, REPORT, [])].sort();
}

test('a state of the path is highlighted for all machines of its class', () => {
  assert.deepEqual(names('worker::parse'), ['worker.1::parse', 'worker.2::parse', 'worker::parse']);
});

test('a state of another host is found by the name that a comparison has for it', () => {
  assert.deepEqual(names('db/server::parse'), ['db/server::parse', 'server::parse']);
});

test('a span is highlighted in all rows, and on the path of all machines', () => {
  const all = names('parse');
  assert.ok(all.includes('parse') && all.includes('worker.2::parse') && all.includes('server::parse'));
  assert.ok(!all.includes('worker.1::read'));
});

test('without a report, a name is highlighted as it is', () => {
  assert.deepEqual([...highlightedNames('a::b', null, [])], ['a::b']);
});

test('a link is found by the name that the graph has for it', () => {
  const link = { ...entry('', 'rpc:ask:reply:0', 'queued'), class: 'link', kind: 'link_queued' };
  const report = { ...REPORT, criticality: [link] } as Report;
  const [state] = pathStates(report, []);
  assert.equal(state.name, 'link::queued');
  assert.ok(isMeant(state, 'rpc:ask:reply::queued') && isMeant(state, 'rpc:ask:reply:0::queued'));
  assert.ok(!isMeant(state, 'rpc:ask::queued') && !isMeant(state, null));
});
