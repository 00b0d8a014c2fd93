// Colours that the user chose instead of those of a palette: for classes of states, and for single
// states by name. Each palette has its own for each theme, since a colour that stands out from white
// does not stand out from black, and since the colour-blind palette stays one.

import type { StateClass } from '../api/types.ts';
import {
  CLASSES,
  hex,
  paletteOf,
  type Colour,
  type Palette,
  type PaletteName,
  type Theme,
} from '../timeline/palette.ts';

/** Colours in the form #rrggbb. */
export interface OwnColours {
  classes: Partial<Record<StateClass, string>>;
  states: Record<string, string>;
}

/** The colours for each palette and theme in which some were chosen. */
export type ColoursByPalette = Partial<Record<string, OwnColours>>;

export const NO_COLOURS: OwnColours = { classes: {}, states: {} };

/** Most states that have a colour of their own. */
export const MOST_STATES = 200;

export function paletteKey(name: PaletteName, theme: Theme): string {
  return `${name} ${theme}`;
}

/** Reads what was kept. What has the wrong form is left out. */
export function readColours(kept: unknown): ColoursByPalette {
  const all: ColoursByPalette = {};
  for (const [key, value] of entries(kept)) {
    const { classes, states } = Object.fromEntries(entries(value));
    all[key] = {
      classes: Object.fromEntries(
        colours(classes).filter(([name]) => (CLASSES as readonly string[]).includes(name)),
      ),
      states: Object.fromEntries(colours(states).slice(0, MOST_STATES)),
    };
  }
  return all;
}

function entries(value: unknown): [string, unknown][] {
  return typeof value === 'object' && value !== null ? Object.entries(value) : [];
}

function colours(value: unknown): [string, string][] {
  return entries(value).filter((entry): entry is [string, string] =>
    /^#[0-9a-f]{6}$/i.test(String(entry[1])),
  );
}

/** The palette with the user's colours. */
export function ownPalette(name: PaletteName, theme: Theme, own: OwnColours): Palette {
  const palette = paletteOf(name, theme);
  const classes: Record<StateClass, Colour> = { ...palette.classes };
  for (const [stateClass, colour] of Object.entries(own.classes)) {
    classes[stateClass as StateClass] = hex(colour);
  }
  const states = new Map(Object.entries(own.states).map(([state, colour]) => [state, hex(colour)]));
  return { ...palette, classes, states };
}
