// Colours of the states by class, for both themes, with a second palette for people with a
// deficiency of red-green vision. palette.test.ts checks their contrast with the background and
// with each other.

import type { Row, State, StateClass } from '../api/types.ts';
import { hasPackets } from './row_tree.ts';

export type Theme = 'light' | 'dark';
export type PaletteName = 'standard' | 'colour-blind';

/** Classes from the least to the most serious: a tick in a bin has the colour of the worst state.
 * The order is that of the server, and the index is the class number in the shaders. */
export const CLASSES: readonly StateClass[] = [
  'asleep',
  'running',
  'call',
  'interrupt',
  'runnable',
  'blocked',
  'unknown',
  'lost',
];

export const CLASS_TEXT: Record<StateClass, string> = {
  asleep: 'asleep or idle',
  running: 'running',
  call: 'system call',
  interrupt: 'interrupt',
  runnable: 'waits for a CPU',
  blocked: 'blocked',
  unknown: 'unknown',
  lost: 'events lost',
};

export type Colour = readonly [red: number, green: number, blue: number];

export interface Palette {
  background: Colour;
  /** Background of rows that are heads of groups. */
  head: Colour;
  grid: Colour;
  text: Colour;
  faintText: Colour;
  path: Colour;
  selection: Colour;
  link: Colour;
  /** Of rows with values. */
  value: Colour;
  classes: Record<StateClass, Colour>;
  /** Colours of single states, by their names. */
  states: ReadonlyMap<string, Colour>;
}

/** Reads a colour such as #2f9157, the form that colour inputs use. */
export function hex(text: string): Colour {
  const value = parseInt(text.slice(1), 16);
  return [value >> 16, (value >> 8) & 255, value & 255];
}

export function hexText(colour: Colour): string {
  return `#${colour.map((part) => part.toString(16).padStart(2, '0')).join('')}`;
}

const NO_STATES: ReadonlyMap<string, Colour> = new Map();

const LIGHT = {
  background: hex('#ffffff'),
  head: hex('#f1f3f6'),
  grid: hex('#e4e7eb'),
  text: hex('#1b1f24'),
  faintText: hex('#57606a'),
  path: hex('#0b0d10'),
  selection: hex('#0b57d0'),
  link: hex('#7a828c'),
  states: NO_STATES,
  value: hex('#0b7285'),
};

const DARK = {
  background: hex('#14171c'),
  head: hex('#1e232b'),
  grid: hex('#2a303a'),
  text: hex('#e6e9ed'),
  faintText: hex('#a3abb6'),
  path: hex('#ffffff'),
  selection: hex('#8ab4f8'),
  link: hex('#8b93a0'),
  states: NO_STATES,
  value: hex('#4ec3d6'),
};

const COMMON_LIGHT = {
  asleep: hex('#e6eaef'),
  unknown: hex('#868d97'),
  lost: hex('#8f959e'),
};

const COMMON_DARK = {
  asleep: hex('#272d36'),
  unknown: hex('#8d949f'),
  lost: hex('#79818c'),
};

const PALETTES: Record<PaletteName, Record<Theme, Palette>> = {
  standard: {
    light: {
      ...LIGHT,
      classes: {
        ...COMMON_LIGHT,
        running: hex('#2f9157'),
        call: hex('#2f6fd0'),
        interrupt: hex('#8250c4'),
        runnable: hex('#b97d0c'),
        blocked: hex('#cf3a3a'),
      },
    },
    dark: {
      ...DARK,
      classes: {
        ...COMMON_DARK,
        running: hex('#45b37a'),
        call: hex('#5b9df0'),
        interrupt: hex('#b18cf0'),
        runnable: hex('#e2a633'),
        blocked: hex('#ee6360'),
      },
    },
  },
  // Chosen by a search for colours that stay apart without red or green cones: they differ in
  // lightness as well as in hue.
  'colour-blind': {
    light: {
      ...LIGHT,
      classes: {
        ...COMMON_LIGHT,
        running: hex('#129c97'),
        call: hex('#337ef2'),
        interrupt: hex('#77089c'),
        runnable: hex('#8a6407'),
        blocked: hex('#a3223c'),
      },
    },
    dark: {
      ...DARK,
      classes: {
        ...COMMON_DARK,
        running: hex('#6ee7d8'),
        call: hex('#68aef7'),
        interrupt: hex('#ba66de'),
        runnable: hex('#dea921'),
        blocked: hex('#e05a72'),
      },
    },
  },
};

export function paletteOf(name: PaletteName, theme: Theme): Palette {
  return PALETTES[name][theme];
}

export function css(colour: Colour, alpha = 1): string {
  const [red, green, blue] = colour;
  return alpha === 1 ? `rgb(${red} ${green} ${blue})` : `rgb(${red} ${green} ${blue} / ${alpha})`;
}

/** Relative luminance as WCAG defines it. */
export function luminance(colour: Colour): number {
  const [red, green, blue] = colour.map((part) => {
    const value = part / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

export function contrast(a: Colour, b: Colour): number {
  const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
  return (high + 0.05) / (low + 0.05);
}

/** Least contrast between a text and what is behind it, by WCAG 2 (AA). */
const READABLE = 4.5;

const BLACK: Colour = [0, 0, 0];
const WHITE: Colour = [255, 255, 255];

/** Black or white, whichever is easier to read on the colour: one of them has at least 4.58 to 1 on
 * every colour. */
export function textOn(colour: Colour): Colour {
  return contrast(colour, WHITE) >= contrast(colour, BLACK) ? WHITE : BLACK;
}

/** The preferred colour of a text if it can be read on the colour, else black or white. */
export function readableOn(colour: Colour, preferred: Colour): Colour {
  return contrast(colour, preferred) >= READABLE ? preferred : textOn(colour);
}

/** The colour that a state has of its own, if it has one. A state of the critical path, such as
 * nginx::write, has that of the state `write`, unless it has another one itself. */
export function ownColour(palette: Palette, name: string): Colour | undefined {
  const { states } = palette;
  if (states.size === 0) return undefined;
  for (let rest = name; ; ) {
    const colour = states.get(rest);
    const at = rest.indexOf('::');
    if (colour || at < 0) return colour;
    rest = rest.slice(at + 2);
  }
}

/** The colour of a state where each class has one colour, such as in tables. Links of the critical
 * path have no class. */
export function plainColour(palette: Palette, stateClass: StateClass | null, name: string): Colour {
  return (
    ownColour(palette, name) ?? (stateClass === null ? palette.link : palette.classes[stateClass])
  );
}

/** The colour of a state in a list; of a value or a packet, that of values. */
export function colourOf(palette: Palette, row: Row | undefined, state: State | undefined): Colour {
  const isPacket = row !== undefined && hasPackets(row);
  if (row?.values || (isPacket && (!state || state.class === 'asleep'))) return palette.value;
  return plainColour(palette, state?.class ?? 'unknown', state?.name ?? '');
}

/** These classes are drawn as patterns, on which a text has a background of its own. */
export function hasPattern(stateClass: StateClass): boolean {
  return stateClass === 'unknown' || stateClass === 'lost';
}

/** The colour of one state: its own, or that of its class, a little lighter or darker depending on
 * the name, so that neighbours of one class differ. */
export function stateColour(palette: Palette, stateClass: StateClass, name: string): Colour {
  const own = ownColour(palette, name);
  if (own) return own;
  const base = palette.classes[stateClass];
  if (stateClass === 'asleep' || hasPattern(stateClass)) return base;
  let hash = 0;
  for (let i = 0; i < name.length; i++) hash = (Math.imul(hash, 31) + name.charCodeAt(i)) | 0;
  const shade = [0, 0.16, -0.12, 0.08, -0.06][Math.abs(hash) % 5];
  return mix(base, shade > 0 ? WHITE : BLACK, Math.abs(shade));
}

/** How a state is drawn: its colour, and the index of its class. */
export interface StateLook {
  colour: Colour;
  classIndex: number;
}

/** Part of the background in the colour of a state that is not highlighted. */
const FADED = 0.78;

/** Returns what tells if a state is faded. If some states of the critical path are highlighted, the
 * other states of the path are faded; these have names such as nginx::write, which no other row
 * uses. If a name is not of this form, the other states of all rows are faded. */
export function fading(highlight: ReadonlySet<string> | null): (name: string) => boolean {
  if (highlight === null) return () => false;
  const ofRows = [...highlight].some((name) => !name.includes('::'));
  return (name) => (ofRows || name.includes('::')) && !highlight.has(name);
}

/** The looks of all states. */
export function stateLooks(
  states: readonly State[],
  palette: Palette,
  highlight: ReadonlySet<string> | null,
): StateLook[] {
  const isFaded = fading(highlight);
  return states.map((state) => ({
    colour: drawnColour(palette, state, isFaded(state.name)),
    classIndex: CLASSES.indexOf(state.class),
  }));
}

/** The colour in which the timeline draws a state. */
export function drawnColour(palette: Palette, state: State, isFaded: boolean): Colour {
  const colour = stateColour(palette, state.class, state.name);
  return isFaded ? mix(colour, palette.background, FADED) : colour;
}

export function mix(a: Colour, b: Colour, part: number): Colour {
  const channel = (i: 0 | 1 | 2) => Math.round(a[i] + (b[i] - a[i]) * part);
  return [channel(0), channel(1), channel(2)];
}
