// The drawer below the timeline: which of its panels is open, and how high it is.

import { untrack } from 'svelte';
import { isFile } from '../api/source.ts';
import type { Trace } from '../api/types.ts';
import { readLink } from './link.ts';
import { page } from './page.svelte.ts';

/** Whose stacks the flame graph shows. */
export type ShownStacks = 'all' | 'path' | 'range' | 'state';

export type DrawerPanel = 'graph' | 'stacks' | 'latency' | 'queues' | 'interaction' | 'events';

interface PanelTitle {
  name: DrawerPanel;
  title: string;
  /** Its data are in a file of `report --html`. */
  isInFile?: boolean;
}

const PANELS: readonly PanelTitle[] = [
  { name: 'graph', title: 'Graph', isInFile: true },
  { name: 'stacks', title: 'Stacks' },
  { name: 'latency', title: 'Latency' },
  { name: 'queues', title: 'Queues' },
  { name: 'interaction', title: 'Interaction' },
  { name: 'events', title: 'Events' },
];

export const DRAWER_PANELS = PANELS.filter(({ isInFile }) => isInFile || !isFile);

const LOWEST = 120;
/** Height of what is above the drawer, at least: the verdict and a few rows of the timeline. */
const ABOVE = 400;

class Drawer {
  private open = $state<DrawerPanel | null>(null);
  /** Place of the latency that is shown. */
  latency = $state(0);
  stacks = $state<ShownStacks>('all');
  /** Row of the queue that is to be shown; null once it is chosen. */
  queueRow = $state<number | null>(null);
  height = $state(Math.round(Math.max(LOWEST, Math.min(320, window.innerHeight * 0.3))));

  /** Opens what the address asks for. */
  constructor() {
    const { drawer: asked } = readLink(location.hash);
    const panel = DRAWER_PANELS.find(({ name }) => name === asked?.panel);
    if (!asked || !panel) return;
    this.resize(asked.height);
    this.panel = panel.name;
  }

  get panel(): DrawerPanel | null {
    return this.open;
  }

  set panel(panel: DrawerPanel | null) {
    this.open = panel;
    this.keep();
  }

  private keep(): void {
    page.keepDrawer(this.open && { panel: this.open, height: this.height });
  }

  showQueue(row: number): void {
    this.panel = 'queues';
    this.queueRow = row;
  }

  /** Shows the stacks of the selected state. */
  showStateStacks(): void {
    this.panel = 'stacks';
    this.stacks = 'state';
  }

  toggle(panel: DrawerPanel): void {
    this.panel = this.panel === panel ? null : panel;
  }

  /** Leaves room for the timeline. */
  resize(height: number): void {
    const highest = Math.max(LOWEST, window.innerHeight - ABOVE);
    this.height = Math.round(Math.min(Math.max(height, LOWEST), highest));
    if (this.open) this.keep();
  }
}

export const drawer = new Drawer();

type Read<T> = (trace: Trace, signal: AbortSignal) => Promise<T | null>;

/** A measurement of the open trace: read when a panel that shows it is opened, and read again for
 * another trace. Must be made while a component is initialised. */
export class Measurement<T> {
  value = $state.raw<T | null>(null);
  error = $state('');

  constructor(read: Read<T>) {
    // The id and the phase, since the trace itself is another object after each poll.
    const id = $derived(page.active.trace?.id);
    const phase = $derived(page.active.trace?.phase);
    $effect(() => {
      const trace = id === undefined ? null : untrack(() => page.active.trace);
      this.value = null;
      this.error = '';
      if (!trace || phase === 'live' || phase === 'reading' || phase === 'analysing') return;
      const abort = new AbortController();
      read(trace, abort.signal).then(
        (value) => (this.value = value),
        (caught) => {
          if (!abort.signal.aborted) this.error = caught.message;
        },
      );
      return () => abort.abort();
    });
  }
}
