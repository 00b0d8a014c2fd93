// What a person likes: theme, palette, display of times, the wheel. Kept by the browser, unlike
// the view, which is in the address.

import { paletteOf, type PaletteName, type Theme } from '../timeline/palette.ts';
import type { TimeDisplay } from '../timeline/time_format.ts';

const STORAGE_KEY = 'longpole-viewer';

type ThemeChoice = Theme | 'system';

interface Stored {
  theme: ThemeChoice;
  palette: PaletteName;
  timeDisplay: TimeDisplay;
  wheelZooms: boolean;
}

const DEFAULTS: Stored = {
  theme: 'system',
  palette: 'standard',
  timeDisplay: 'relative',
  wheelZooms: false,
};

/** Reads what was kept. A browser may forbid storage; then the defaults hold. */
function stored(): Stored {
  try {
    return { ...DEFAULTS, ...JSON.parse(localStorage.getItem(STORAGE_KEY) ?? '{}') };
  } catch {
    return DEFAULTS;
  }
}

class Preferences {
  private values = $state.raw<Stored>(stored());
  private systemDark = $state(matchMedia('(prefers-color-scheme: dark)').matches);

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

  get palette() {
    return paletteOf(this.values.palette, this.theme);
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
