// Follows a running recording in the page of `longpole view --live`, until the recording has ended.
//
// usage: node live.js LONGPOLE CHROMIUM PROGRAM FOLDER [SCREENSHOTS]
// PROGRAM has probes and runs until its standard input is closed.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { AxeBuilder } from '@axe-core/playwright';
import { open, runCases, until, settled as waitUntilSettled } from './support.js';

const [longpole, browserProgram, program, folder, screenshots] = process.argv.slice(2);

const arguments_ = ['record', '--kernel', 'none', '-o', folder, '--', program];
const recorder = spawn(longpole, arguments_, { stdio: ['pipe', 'ignore', 'inherit'] });
const recorded = new Promise((resolve) => recorder.on('exit', resolve));
// The recording exists as soon as it has a description.
await until(() => existsSync(folder) && readdirSync(folder).some((name) => existsSync(`${folder}/${name}/longpole.json`)));

const opened = await open(longpole, browserProgram, ['--live']);
const { page, context, problems } = opened;

const cases = [];
/** A case; its name is the sentence that it proves. */
function test(name, run) {
  cases.push({ name, run });
}

const api = (path) => page.evaluate(async (path) => (await fetch(`api/traces/1${path}`)).json(), path);
const followButton = page.getByRole('button', { name: 'Follow', exact: true });
const isFollowing = async () => (await followButton.getAttribute('aria-pressed')) === 'true';
const timeline = page.getByRole('application', { name: 'States over time' });
const row = (name) => page.getByRole('treeitem', { name });
const view = () => page.evaluate(() => location.hash.match(/view=([0-9._-]+)/)?.[1] ?? '');
const settled = (read) => waitUntilSettled(page, read);

test('the page of a running recording shows rows and events that become more', async () => {
  await page.getByText('Live', { exact: false }).first().waitFor();
  await page.getByText('Recording…').waitFor();
  await row(/packer|until_closed/).first().waitFor();
  const first = await api('');
  assert.equal(first.phase, 'live');
  await until(async () => (await api('')).events > first.events + 100);
  assert.ok((await api('')).end > first.end);
});

/** Ends following by a key, and returns the end of the view, which then stays in the address. */
async function followedEnd() {
  await page.keyboard.press('n');
  await until(async () => !(await isFollowing()) && (await view()) !== '');
  return Number((await settled(view)).split('_')[1]);
}

test('the view keeps the newest time until it is moved, and again after a key', async () => {
  assert.ok(await isFollowing());
  await timeline.focus();
  const { end: begin } = await api('');
  let first = 0;
  // The page asks for the newest time now and then.
  await until(async () => {
    if (!(await isFollowing())) await page.keyboard.press('n');
    first = await followedEnd();
    return first >= begin;
  });
  const { end: between } = await api('');
  assert.ok(first <= between, `${first} of ${between}`);
  await until(async () => (await api('')).end > between + 1e9);
  let second = 0;
  await until(async () => {
    await page.keyboard.press('n');
    await until(isFollowing);
    second = await followedEnd();
    return second > between;
  });
  assert.ok(second <= (await api('')).end, 'the view ends with the newest time');
  await page.keyboard.press('n');
  await until(isFollowing);
  await page.keyboard.press('w');
  await until(async () => !(await isFollowing()));
  const moved = await settled(view);
  const { end } = await api('');
  await until(async () => (await api('')).end > end + 1e9);
  assert.equal(await view(), moved, 'a view that was moved stays');
  await page.keyboard.press('n');
  await until(isFollowing);
  await page.mouse.move(600, 500);
  await page.mouse.wheel(0, 40);
});

test('the page of a running recording has no serious violation of accessibility', async () => {
  const found = await new AxeBuilder({ page }).analyze();
  const serious = found.violations.filter(({ impact }) => impact === 'serious' || impact === 'critical');
  assert.deepEqual(serious.map(({ id, nodes }) => [id, nodes.map(({ html }) => html)]), []);
  if (screenshots) {
    for (let shown = 0; shown < 2; shown += 1) {
      const theme = await page.evaluate(() => document.documentElement.dataset.theme);
      await page.screenshot({ path: `${screenshots}/live-${theme}.png` });
      await page.getByRole('button', { name: /^(Light|Dark)$/ }).click();
    }
  }
});

test('when the recording ends, the verdict follows, and a pinned row stays pinned', async () => {
  await row(/packer|until_closed/).last().click();
  await timeline.focus();
  await row(/packer|until_closed/).last().focus();
  await page.keyboard.press('p');
  const pinned = async () => {
    const id = await page.evaluate(() => Number(location.hash.match(/pinned=(\d+)(?:&|$)/)?.[1] ?? NaN));
    const found = (await api('/rows')).rows.find((row) => row.id === id);
    return found && { kind: found.kind, name: found.name, tid: found.tid };
  };
  await until(pinned);
  const before = await pinned();
  assert.match(before.name, /packer|until_closed/);
  recorder.stdin.end();
  await recorded;
  await until(async () => (await api('')).phase === 'ready');
  const { verdict } = await api('/report');
  await page.getByRole('region', { name: 'Verdict' }).getByText(verdict.text, { exact: false }).waitFor();
  await page.getByRole('group', { name: 'Share of each state of the critical path' }).waitFor();
  const { phase, live, generation } = await api('');
  assert.deepEqual([phase, live, generation], ['ready', null, 1]);
  assert.ok(!(await followButton.isVisible()));
  // The page reads the rows again, whose ids are other ones now, and then writes its link.
  await until(async () => /[#&]generation=1(&|$)/.test(await page.evaluate(() => location.hash)));
  await until(pinned);
  // The id of a thread may be unknown until the end.
  const after = await pinned();
  assert.deepEqual(after, { ...before, tid: before.tid ?? after.tid });
  if (screenshots) await page.screenshot({ path: `${screenshots}/live-ended.png` });
});

test('nothing was reported as an error', async () => {
  assert.deepEqual(problems, []);
  assert.equal(context.pages().length, 1);
});

await runCases(opened, cases, screenshots);
