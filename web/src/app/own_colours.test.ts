import assert from 'node:assert/strict';
import { test } from 'node:test';
import { contrast, readableOn, stateColour, textOn, type Colour } from '../timeline/palette.ts';
import { NO_COLOURS, ownPalette, readColours } from './own_colours.ts';

test('an own colour replaces that of the class in one palette, and that of a state wins', () => {
  const own = { classes: { blocked: '#123456' }, states: { write: '#0a0b0c' } };
  const palette = ownPalette('standard', 'light', own);
  assert.deepEqual(palette.classes.blocked, [0x12, 0x34, 0x56]);
  assert.deepEqual(stateColour(palette, 'blocked', 'write'), [10, 11, 12]);
  const others = ownPalette('standard', 'light', NO_COLOURS);
  assert.notDeepEqual(others.classes.blocked, palette.classes.blocked);
  assert.deepEqual(palette.classes.running, others.classes.running);
});

test('a state of the path has the colour of the state on its row, whatever is before its name', () => {
  const own = { classes: {}, states: { 'a::write': '#010203', write: '#0a0b0c' } };
  const palette = ownPalette('standard', 'dark', own);
  const colours = ['nginx::write', 'nginx::a::write', 'nginx::write2', 'rewrite'].map((name) =>
    stateColour(palette, 'running', name),
  );
  assert.deepEqual(colours.slice(0, 2), [[10, 11, 12], [1, 2, 3]]);
  for (const colour of colours.slice(2)) assert.notDeepEqual(colour, [10, 11, 12]);
});

test('what was kept in a wrong form is left out', () => {
  const kept = {
    'standard light': {
      classes: { blocked: '#AABBCC', call: 'red', nothing: '#000000', running: 5 },
      states: { ['__proto__']: '#000001', write: '#00000' },
    },
    other: 7,
  };
  const read = readColours(JSON.parse(JSON.stringify(kept)));
  assert.deepEqual(read['standard light']?.classes, { blocked: '#AABBCC' });
  assert.deepEqual(Object.entries(read['standard light']?.states ?? {}), [['__proto__', '#000001']]);
  assert.deepEqual(read.other, NO_COLOURS);
  for (const wrong of [null, undefined, 3, 'text', []]) assert.deepEqual(readColours(wrong), {});
});

test('a text can be read on every colour by 4.5 to 1', () => {
  for (let red = 0; red < 256; red += 15) {
    for (let green = 0; green < 256; green += 15) {
      for (let blue = 0; blue < 256; blue += 15) {
        const colour: Colour = [red, green, blue];
        assert.ok(contrast(textOn(colour), colour) >= 4.5, String(colour));
        assert.ok(contrast(readableOn(colour, [87, 96, 106]), colour) >= 4.5, String(colour));
      }
    }
  }
});
