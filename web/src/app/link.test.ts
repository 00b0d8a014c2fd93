import assert from 'node:assert/strict';
import { test } from 'node:test';
import { findBinding, type KeyPress } from './keys.ts';
import { readLink, writeLink, type Link } from './link.ts';

const LINK: Link = {
  view: { begin: -20, end: 9_007_199_254_740_000 },
  highlight: 'nginx::write & more',
  first: {
    trace: 3,
    generation: 1,
    range: { interval: { begin: 10, end: 20 }, rows: [4, 5] },
    state: { row: 4, time: 15 },
    rows: {
      collapsed: new Set([7, 8]),
      hidden: new Set([2]),
      pinned: [5, 4],
      filter: 'a&b=c #ü',
      order: 'busy',
    },
    marks: [1, 2],
  },
  second: null,
  offset: 0,
  drawer: { panel: 'graph', height: 320 },
};

test('a link restores what was written', () => {
  assert.deepEqual(readLink(writeLink(LINK)), LINK);
});

test('a link restores a comparison with its alignment', () => {
  const second = { ...LINK.first, trace: 4, generation: 0, state: { row: 9, time: 30 }, rows: null, marks: [] };
  const compared: Link = { ...LINK, second, offset: -15 };
  assert.deepEqual(readLink(writeLink(compared)), compared);
  assert.equal(readLink('#trace=1&offset=5').offset, 0, 'without a second trace');
  assert.equal(readLink('#trace=1&trace2=2&offset=x').offset, 0);
});

test('a drawer of a wrong form is left out', () => {
  for (const text of ['graph', 'graph.', '.3', 'graph.x', 'graph.1234567', '<b>.3']) {
    assert.equal(readLink(`#drawer=${text}`).drawer, null, text);
  }
});

test('an empty link restores nothing', () => {
  const empty = readLink('');
  assert.deepEqual(readLink(writeLink(empty)), empty);
  assert.equal(empty.first.rows, null);
  assert.equal(empty.first.generation, 0);
});

test('a malformed link is read as far as it makes sense', () => {
  const link = readLink('#trace=x&view=9_3&range=1_2&rows=4.y.5&state=1&filter=%E0%A4%A&marks=-');
  assert.equal(link.first.trace, null);
  assert.equal(link.view, null);
  assert.deepEqual(link.first.range, { interval: { begin: 1, end: 2 }, rows: [4, 5] });
  assert.equal(link.first.state, null);
  assert.equal(link.first.rows?.filter, '');
  assert.deepEqual(link.first.marks, []);
});

function press(code: string, key: string, modifiers: Partial<KeyPress> = {}): KeyPress {
  return {
    code, key, shiftKey: false, ctrlKey: false, metaKey: false, altKey: false, ...modifiers,
  };
}

const COMMANDS = [
  { name: 'in', keys: [{ code: 'KeyW' }] },
  { name: 'search', keys: [{ code: 'Slash', sign: '/' }] },
  { name: 'keys', keys: [{ code: 'Slash', shift: true, sign: '?' }] },
  { name: 'back', keys: [{ code: 'z', control: true }] },
  { name: 'commands', keys: [{ code: 'p', control: true, shift: true }] },
];

test('letters are bound by position, Ctrl with a letter by the letter, signs by both', () => {
  const name = (key: KeyPress) => findBinding(COMMANDS, key)?.name ?? null;
  assert.equal(name(press('KeyW', 'z')), 'in', 'AZERTY has Z where QWERTY has W');
  assert.equal(name(press('KeyY', 'z', { ctrlKey: true })), 'back', 'QWERTZ');
  assert.equal(name(press('Digit7', '/', { shiftKey: true })), 'search', 'German keyboard');
  assert.equal(name(press('Minus', '?', { shiftKey: true })), 'keys', 'German keyboard');
  assert.equal(name(press('Slash', '?', { shiftKey: true })), 'keys');
  assert.equal(name(press('KeyP', 'P', { ctrlKey: true, shiftKey: true })), 'commands');
  assert.equal(name(press('KeyW', 'w', { ctrlKey: true })), null);
  assert.equal(name(press('KeyW', 'W', { shiftKey: true })), null);
});
