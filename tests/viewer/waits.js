// Uses the page of `longpole view` on a recording with stacks of waits, of tests/programs/places.c
// in the mode `lock`.
//
// usage: node waits.js LONGPOLE CHROMIUM RECORDING [SCREENSHOTS]

import assert from 'node:assert/strict';
import { AxeBuilder } from '@axe-core/playwright';
import { open, runCases, until } from './support.js';

const [longpole, browserProgram, recording, screenshots] = process.argv.slice(2);

const opened = await open(longpole, browserProgram, [recording]);
const { address, page, problems } = opened;

const cases = [];
/** A case; its name is the sentence that it proves. */
function test(name, run) {
  cases.push({ name, run });
}

const part = (name) => page.getByRole('region', { name, exact: true });
const ask = async (path) => (await fetch(`${address}api/traces/1${path}`)).json();

await until(async () => (await ask('')).phase === 'ready');
const { end } = await ask('');
const { rows, states } = await ask('/rows');
const program = rows.find((row) => row.kind === 'process' && row.name === 'places');
const threads = rows.filter((row) => row.parent === program?.id);
const { waits } = await ask(`/sampled-waits?begin=0&end=${end}`);

/** A wait for the lock whose wake-up was sampled, with its row. */
async function waitForLock() {
  for (const [row, begin, until] of waits) {
    if (!threads.some((thread) => thread.id === row)) continue;
    const { wait } = await ask(`/sampled-wait?row=${row}&begin=${begin}&end=${until}`);
    if (own(wait?.waiter)?.function === 'takes_lock' && own(wait?.waker)) return { row, ...wait };
  }
  return null;
}

/** The frame of the program's own function. */
function own(stack) {
  return stack?.own == null ? undefined : stack.frames[stack.own];
}

const wait = await waitForLock();
if (!wait) {
  console.log('skipped: stacks of waits in the viewer (none was recorded, or none of the program)');
  await opened.close();
  process.exit(0);
}
const length = wait.end - wait.begin;
const time = Math.floor(wait.begin + length / 4);
const view = [Math.max(0, Math.floor(wait.begin - 3 * length)), wait.end + 3 * length];
const stateThen = async () => (await ask(`/states?row=${wait.row}&begin=${time}&end=${time + 1}&limit=1`)).states[0].state;

async function inBothThemes(name) {
  for (const colorScheme of ['light', 'dark']) {
    await page.emulateMedia({ colorScheme });
    await page.waitForTimeout(500);
    if (screenshots) await page.screenshot({ path: `${screenshots}/waits-${name}-${colorScheme}.png` });
    const { violations } = await new AxeBuilder({ page }).analyze();
    const serious = violations.filter((it) => ['serious', 'critical'].includes(it.impact));
    assert.deepEqual(serious.map((it) => `${it.id}: ${it.nodes[0].html}`), []);
  }
}

test('the details of a sampled wait have the functions of both threads, with their lines', async () => {
  await page.goto(`${address}#trace=1&view=${view.join('_')}&state=${wait.row}.${time}`);
  await page.reload();
  await page.getByRole('tab', { name: /Details/ }).click();
  const details = part('Stacks of the wait');
  for (const frame of [own(wait.waiter), own(wait.waker)]) {
    const item = details.getByRole('listitem').filter({ hasText: frame.function }).first();
    await item.getByText(`places.c:${frame.line}`).waitFor();
  }
  assert.equal(await details.getByText('futex_do_wait').count(), 0);
  await details.getByRole('button', { name: /functions of the kernel/ }).first().click();
  await details.getByText(wait.waiter.frames[0].function, { exact: true }).first().waitFor();
  await inBothThemes('details');
});

test('the tooltip has the innermost functions of the program', async () => {
  const box = await page.getByRole('application', { name: 'States over time' }).boundingBox();
  const row = await page.locator(`[role=treeitem][id$="-${wait.row}"]`).boundingBox();
  const x = box.x + ((time - view[0]) / (view[1] - view[0])) * box.width;
  await page.mouse.move(x, row.y + row.height / 2);
  await page.getByText(`waits in takes_lock (places.c:${own(wait.waiter).line}) of places`).waitFor();
  await page.getByText(`woken in ${own(wait.waker).function} (`).waitFor();
});

test('a button leads to the stacks of the state, and others to its running code and its waits', async () => {
  const state = await stateThen();
  await part('Selected state').getByRole('button', { name: 'Stacks', exact: true }).click();
  const panel = part('Stacks');
  await panel.getByRole('button', { name: 'Selected state', pressed: true }).waitFor();
  await panel.getByText(`in ${states[state].name}`).waitFor();
  const functions = async () => {
    const all = await panel.getByRole('treeitem').evaluateAll((all) => all.map((it) => it.ariaLabel));
    return new Set(all.map((text) => text.slice(0, text.lastIndexOf(': '))));
  };
  await until(async () => (await functions()).has('takes_lock'));
  const found = await functions();
  assert.ok(!found.has('holds_lock') && !found.has('computes'), [...found].join());
  await inBothThemes('state');
  // All of the two threads, by a drag over their rows.
  const box = await page.getByRole('application', { name: 'States over time' }).boundingBox();
  const places = await Promise.all(
    threads.map(({ id }) => page.locator(`[role=treeitem][id$="-${id}"]`).boundingBox()),
  );
  const [top, bottom] = [Math.min(...places.map((it) => it.y)), Math.max(...places.map((it) => it.y + it.height))];
  await page.keyboard.press('Escape');
  await page.mouse.move(box.x + box.width * 0.01, top + 3);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.99, bottom - 3, { steps: 5 });
  await page.mouse.up();
  await panel.getByRole('button', { name: 'Selected range' }).click();
  await until(async () => (await functions()).has('holds_lock'));
  await panel.getByRole('button', { name: 'Waiting', exact: true }).click();
  const waiting = await functions();
  assert.ok(waiting.has('takes_lock') && !waiting.has('computes'), [...waiting].join());
  await inBothThemes('range');
  await panel.getByRole('button', { name: 'Running', exact: true }).click();
  assert.ok(![...(await functions())].some((name) => name.startsWith('waits')));
});

test('nothing was reported as an error', () => assert.deepEqual(problems, []));

await runCases(opened, cases, screenshots);
