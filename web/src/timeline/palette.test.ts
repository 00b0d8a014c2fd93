import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  CLASSES,
  contrast,
  fading,
  paletteOf,
  textOn,
  type Colour,
  type PaletteName,
  type Theme,
} from './palette.ts';

const ALL: [PaletteName, Theme][] = [
  ['standard', 'light'],
  ['standard', 'dark'],
  ['colour-blind', 'light'],
  ['colour-blind', 'dark'],
];

test('every class but sleeping stands out from the background by 3 to 1', () => {
  for (const [name, theme] of ALL) {
    const palette = paletteOf(name, theme);
    for (const stateClass of CLASSES) {
      if (stateClass === 'asleep') continue;
      const ratio = contrast(palette.classes[stateClass], palette.background);
      assert.ok(ratio >= 3, `${name} ${theme} ${stateClass}: ${ratio.toFixed(2)}`);
    }
  }
});

test('texts can be read on every colour by 4.5 to 1', () => {
  for (const [name, theme] of ALL) {
    const palette = paletteOf(name, theme);
    for (const stateClass of CLASSES) {
      const ratio = contrast(textOn(palette.classes[stateClass]), palette.classes[stateClass]);
      assert.ok(ratio >= 4.5, `${name} ${theme} ${stateClass}: ${ratio.toFixed(2)}`);
    }
    assert.ok(contrast(palette.text, palette.background) >= 7);
    assert.ok(contrast(palette.faintText, palette.head) >= 4.5);
    assert.ok(contrast(palette.faintText, palette.classes.asleep) >= 4.5);
  }
});

/** What people without the cones for red or for green see (Machado, Oliveira and Fernandes, 2009,
 * severity 1). */
const DEFICIENCIES: Record<string, number[][]> = {
  protanopia: [
    [0.152286, 1.052583, -0.204868],
    [0.114503, 0.786281, 0.099216],
    [-0.003882, -0.048116, 1.051998],
  ],
  deuteranopia: [
    [0.367322, 0.860646, -0.227968],
    [0.280085, 0.672501, 0.047413],
    [-0.01182, 0.04294, 0.968881],
  ],
};

function linear(value: number): number {
  const part = value / 255;
  return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
}

/** Lightness, green-red and blue-yellow of a colour in the Oklab space. */
function oklab(colour: Colour, matrix: number[][]): number[] {
  const rgb = colour.map(linear);
  const [r, g, b] = matrix.map((row) =>
    Math.min(Math.max(row[0] * rgb[0] + row[1] * rgb[1] + row[2] * rgb[2], 0), 1),
  );
  const l = Math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
  const m = Math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
  const s = Math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
  return [
    0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s,
    1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s,
    0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s,
  ];
}

test('the colour-blind palette keeps the classes apart without red or green cones', () => {
  const classes = ['running', 'call', 'interrupt', 'runnable', 'blocked', 'asleep'] as const;
  for (const theme of ['light', 'dark'] as const) {
    const palette = paletteOf('colour-blind', theme);
    for (const [deficiency, matrix] of Object.entries(DEFICIENCIES)) {
      classes.forEach((first, i) => {
        for (const second of classes.slice(i + 1)) {
          const a = oklab(palette.classes[first], matrix);
          const b = oklab(palette.classes[second], matrix);
          const distance = Math.hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]);
          const text = `${theme}, ${deficiency}: ${first} and ${second} ${distance.toFixed(3)}`;
          assert.ok(distance >= 0.06, text);
        }
      });
    }
  }
});

test('a highlighted state of the path fades the path, and a name of a state also the rows', () => {
  const ofPath = fading(new Set(['parser::parse']));
  assert.deepEqual(['parser::parse', 'parser::read', 'read'].map(ofPath), [false, true, false]);
  const ofRows = fading(new Set(['parse', 'parser::parse']));
  assert.deepEqual(['parse', 'parser::parse', 'read'].map(ofRows), [false, false, true]);
  assert.equal(fading(null)('parser::parse'), false);
});
