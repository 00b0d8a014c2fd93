// History of views, for Ctrl+Z and Ctrl+Y. A zoom or pan that lasts many frames is one entry: the
// caller records a view only when it has come to rest.

import type { View } from './viewport.ts';

const LONGEST = 100;

/** A view of the time axis, and the scroll position of each timeline. */
export interface Place {
  view: View;
  scrolls: number[];
}

export class ViewHistory {
  private places: Place[] = [];
  private at = -1;

  /** Adds the place at which the view has come to rest, and forgets what was undone. */
  record(place: Place): void {
    const last = this.places[this.at];
    if (last && same(last, place)) return;
    this.places = [...this.places.slice(0, this.at + 1), place].slice(-LONGEST);
    this.at = this.places.length - 1;
  }

  back(): Place | null {
    if (this.at <= 0) return null;
    return this.places[--this.at];
  }

  forward(): Place | null {
    if (this.at + 1 >= this.places.length) return null;
    return this.places[++this.at];
  }
}

function same(a: Place, b: Place): boolean {
  return (
    a.view.begin === b.view.begin &&
    a.view.end === b.view.end &&
    a.scrolls.join() === b.scrolls.join()
  );
}
