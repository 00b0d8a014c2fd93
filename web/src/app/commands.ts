// All commands with their keys: the one list from which keys, the list of keys (`?`) and the
// command palette are made.

import { tick } from 'svelte';
import { isFile } from '../api/source.ts';
import type { Motion } from '../timeline/key_motion.ts';
import * as actions from './actions.ts';
import { drawer, DRAWER_PANELS } from './drawer.svelte.ts';
import type { KeyBinding } from './keys.ts';
import { preferences } from './preferences.svelte.ts';
import { page, type PanelName } from './page.svelte.ts';

export interface Command {
  title: string;
  group: 'View' | 'Selection' | 'Comparison' | 'Rows' | 'Panels' | 'Appearance';
  keys: readonly KeyBinding[];
  /** A held key runs it again and again. */
  repeats?: boolean;
  /** What a held key does; such a command is not in the palette. */
  motion?: Motion;
  /** It is left out in a file. */
  needsServer?: boolean;
  run?: () => void;
}

function panel(name: PanelName): () => void {
  return () => {
    page.panel = name;
  };
}

/** Shows a panel and puts the keyboard into its first field, when it exists. */
function panelWithField(name: PanelName): () => void {
  return () => {
    page.panel = name;
    // At once, so that nothing of what is typed next is taken for a key of a command.
    void tick().then(() => {
      const field = document.querySelector<HTMLInputElement>('[data-first-field]');
      field?.focus();
      field?.select();
    });
  };
}

const allCommands: readonly Command[] = [
  { title: 'Zoom in', group: 'View', keys: [{ code: 'KeyW' }], motion: 'in' },
  { title: 'Zoom out', group: 'View', keys: [{ code: 'KeyS' }], motion: 'out' },
  { title: 'Move left', group: 'View', keys: [{ code: 'KeyA' }], motion: 'left' },
  { title: 'Move right', group: 'View', keys: [{ code: 'KeyD' }], motion: 'right' },
  { title: 'Show the whole trace', group: 'View', keys: [{ code: 'KeyF' }], run: actions.fit },
  {
    title: 'Follow the newest time of a running recording',
    group: 'View',
    keys: [{ code: 'KeyN' }],
    needsServer: true,
    run: () => page.toggleFollow(),
  },
  {
    title: 'Zoom to the selected range or state',
    group: 'View',
    keys: [{ code: 'KeyR' }],
    run: actions.zoomToSelection,
  },
  {
    title: 'Previous view',
    group: 'View',
    keys: [{ code: 'z', control: true }],
    run: actions.back,
  },
  {
    title: 'Next view',
    group: 'View',
    keys: [
      { code: 'y', control: true },
      { code: 'z', control: true, shift: true },
    ],
    run: actions.forward,
  },
  {
    title: 'Go to the evidence of the verdict',
    group: 'View',
    keys: [{ code: 'KeyE' }],
    run: () => {
      const { evidence } = page.active.scene;
      if (evidence) page.active.show(evidence, null, 1);
    },
  },
  {
    title: 'Next state of the row',
    group: 'Selection',
    keys: [{ code: 'Period' }],
    repeats: true,
    run: () => actions.stepInRow(1),
  },
  {
    title: 'Previous state of the row',
    group: 'Selection',
    keys: [{ code: 'Comma' }],
    repeats: true,
    run: () => actions.stepInRow(-1),
  },
  {
    title: 'Next segment of the critical path',
    group: 'Selection',
    keys: [{ code: 'BracketRight' }],
    repeats: true,
    run: () => actions.stepOnPath(1),
  },
  {
    title: 'Previous segment of the critical path',
    group: 'Selection',
    keys: [{ code: 'BracketLeft' }],
    repeats: true,
    run: () => actions.stepOnPath(-1),
  },
  {
    title: 'Set or remove a mark',
    group: 'Selection',
    keys: [{ code: 'KeyM' }],
    run: actions.toggleMark,
  },
  {
    title: 'Add a note',
    needsServer: true,
    group: 'Selection',
    keys: [{ code: 'KeyM', shift: true }],
    run: panelWithField('notes'),
  },
  {
    title: 'Close, or clear the selection',
    group: 'Selection',
    keys: [{ code: 'Escape' }],
    run: actions.escape,
  },
  {
    title: 'Compare with another recording',
    group: 'Comparison',
    keys: [{ code: 'KeyC' }],
    run: actions.compare,
  },
  {
    title: 'End the comparison',
    group: 'Comparison',
    keys: [],
    run: () => page.endComparison(),
  },
  {
    title: 'Go to the other recording',
    group: 'Comparison',
    keys: [{ code: 'KeyO' }],
    run: actions.otherTimeline,
  },
  {
    title: 'Align at the same state in the other recording',
    group: 'Comparison',
    keys: [{ code: 'KeyL' }],
    run: actions.alignSame,
  },
  {
    title: 'Align the selected states of both',
    group: 'Comparison',
    keys: [{ code: 'KeyL', shift: true }],
    run: actions.alignSelections,
  },
  { title: 'Align the begins', group: 'Comparison', keys: [], run: actions.alignBegins },
  {
    title: 'Move the second recording left',
    group: 'Comparison',
    keys: [{ code: 'KeyA', shift: true }],
    repeats: true,
    run: () => page.comparison?.nudge(-1),
  },
  {
    title: 'Move the second recording right',
    group: 'Comparison',
    keys: [{ code: 'KeyD', shift: true }],
    repeats: true,
    run: () => page.comparison?.nudge(1),
  },
  {
    title: 'Differences',
    group: 'Comparison',
    keys: [],
    run: () => {
      if (page.comparison) page.panel = 'changes';
    },
  },
  {
    title: 'Pin or unpin the focused row',
    group: 'Rows',
    keys: [{ code: 'KeyP' }],
    run: () => {
      const { focusedRow } = page.active;
      if (focusedRow !== null) actions.togglePinned(focusedRow);
    },
  },
  {
    title: 'Hide the focused row',
    group: 'Rows',
    keys: [{ code: 'KeyH' }],
    run: () => {
      const { focusedRow } = page.active;
      if (focusedRow !== null) actions.hideRow(focusedRow);
    },
  },
  { title: 'Show hidden rows', group: 'Rows', keys: [], run: actions.showHiddenRows },
  {
    title: 'Collapse all groups',
    group: 'Rows',
    keys: [],
    run: () => actions.collapseAll(true),
  },
  { title: 'Expand all groups', group: 'Rows', keys: [], run: () => actions.collapseAll(false) },
  {
    title: 'Filter rows',
    group: 'Rows',
    keys: [{ code: 'KeyG' }],
    run: () => document.querySelector<HTMLElement>('[data-row-filter]')?.focus(),
  },
  {
    title: 'Search states',
    group: 'Panels',
    keys: [{ code: 'Slash', sign: '/' }],
    run: panelWithField('search'),
  },
  { title: 'States of the critical path', group: 'Panels', keys: [], run: panel('states') },
  { title: 'Details of the selection', group: 'Panels', keys: [], run: panel('details') },
  { title: 'Findings', group: 'Panels', keys: [], run: panel('findings') },
  ...DRAWER_PANELS.map(({ name, title }) => ({
    title,
    group: 'Panels' as const,
    keys: [],
    run: () => drawer.toggle(name),
  })),
  {
    title: 'Notes',
    group: 'Panels',
    keys: [],
    run: panelWithField('notes'),
    needsServer: true,
  },
  {
    title: 'List of keys',
    group: 'Panels',
    keys: [{ code: 'Slash', shift: true, sign: '?' }],
    run: () => {
      page.dialog = 'keys';
    },
  },
  {
    title: 'Commands',
    group: 'Panels',
    keys: [{ code: 'p', control: true, shift: true }],
    run: () => {
      page.dialog = 'commands';
    },
  },
  {
    title: 'Light or dark theme',
    group: 'Appearance',
    keys: [],
    run: () => preferences.toggleTheme(),
  },
  {
    title: 'Standard or colour-blind palette',
    group: 'Appearance',
    keys: [],
    run: () => preferences.togglePalette(),
  },
  {
    title: 'Edit the colours',
    group: 'Appearance',
    keys: [],
    run: () => {
      page.dialog = 'colours';
    },
  },
  {
    title: 'Relative times or UTC',
    group: 'Appearance',
    keys: [{ code: 'KeyT' }],
    run: () => preferences.toggleTimeDisplay(),
  },
  {
    title: 'Wheel scrolls or zooms',
    group: 'Appearance',
    keys: [],
    run: () => preferences.toggleWheel(),
  },
];

/** In a file, nothing can be saved or compared. */
const isOffered = ({ needsServer, group }: Command): boolean =>
  !isFile || !(needsServer || group === 'Comparison');

export const commands = allCommands.filter(isOffered);
