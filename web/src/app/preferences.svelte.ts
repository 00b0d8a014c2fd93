// What a person likes: theme, palette, display of times, the wheel. Kept by the browser, unlike
// the view, which is in the address.

import type { StateClass } from '../api/types.ts';
import type { PaletteName, Theme } from '../timeline/palette.ts';
import type { TimeDisplay } from '../timeline/time_format.ts';
import {
  MOST_STATES,
  NO_COLOURS,
  ownPalette,
  paletteKey,
  readColours,
  type ColoursByPalette,
  type OwnColours,
} from './own_colours.ts';

const STORAGE_KEY = 'longpole-viewer';

type ThemeChoice = Theme | 'system';

interface Stored {
  theme: ThemeChoice;
  palette: PaletteName;
  colours: ColoursByPalette;
  timeDisplay: TimeDisplay;
  wheelZooms: boolean;
}

const DEFAULTS: Stored = {
  theme: 'system',
  palette: 'standard',
  colours: {},
  timeDisplay: 'relative',
  wheelZooms: false,
};

/** Reads what was kept. A browser may forbid storage; then the defaults hold. */
function stored(): Stored {
  try {
    const kept = JSON.parse(localStorage.getItem(STORAGE_KEY) ?? '{}');
    return { ...DEFAULTS, ...kept, colours: readColours(kept.colours) };
  } catch {
    return DEFAULTS;
  }
}

class Preferences {
  private values = $state.raw<Stored>(stored());
  private systemDark = $state(matchMedia('(prefers-color-scheme: dark)').matches);

  /** The user's colours for the palette and theme that are shown. */
  readonly colours = $derived<OwnColours>(
    this.values.colours[paletteKey(this.values.palette, this.theme)] ?? NO_COLOURS,
  );
  readonly palette = $derived(ownPalette(this.values.palette, this.theme, this.colours));

  constructor() {
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', (event) => {
      this.systemDark = event.matches;
    });
  }

  get theme(): Theme {
    if (this.values.theme !== 'system') return this.values.theme;
    return this.systemDark ? 'dark' : 'light';
  }

  get paletteName(): PaletteName {
    return this.values.palette;
  }

  get timeDisplay(): TimeDisplay {
    return this.values.timeDisplay;
  }

  get wheelZooms(): boolean {
    return this.values.wheelZooms;
  }

  toggleTheme(): void {
    this.set({ theme: this.theme === 'dark' ? 'light' : 'dark' });
  }

  togglePalette(): void {
    this.set({ palette: this.values.palette === 'standard' ? 'colour-blind' : 'standard' });
  }

  /** Gives a class a colour; null is that of the palette. */
  colourClass(name: StateClass, colour: string | null): void {
    const { [name]: _, ...others } = this.colours.classes;
    const classes = colour === null ? others : { ...others, [name]: colour };
    this.setColours({ ...this.colours, classes });
  }

  /** Gives the states with a name a colour; null is that of their class. */
  colourState(name: string, colour: string | null): void {
    const { [name]: _, ...others } = this.colours.states;
    if (colour !== null && Object.keys(others).length >= MOST_STATES) return;
    const states = colour === null ? others : { ...others, [name]: colour };
    this.setColours({ ...this.colours, states });
  }

  /** Returns to the colours of the palette. */
  resetColours(): void {
    this.setColours(NO_COLOURS);
  }

  private setColours(own: OwnColours): void {
    const key = paletteKey(this.values.palette, this.theme);
    this.set({ colours: { ...this.values.colours, [key]: own } });
  }

  toggleTimeDisplay(): void {
    this.set({ timeDisplay: this.values.timeDisplay === 'utc' ? 'relative' : 'utc' });
  }

  toggleWheel(): void {
    this.set({ wheelZooms: !this.values.wheelZooms });
  }

  private set(change: Partial<Stored>): void {
    this.values = { ...this.values, ...change };
    try {
      localStorage.setItem(STORAGE_KEY, JSON.stringify(this.values));
    } catch {
      // Without storage, the choice holds until the page is closed.
    }
  }
}

export const preferences = new Preferences();
