// Compares two recordings in the page of `longpole view`, and what it shows with `longpole diff`.
//
// usage: node comparison.js LONGPOLE CHROMIUM BEFORE AFTER [SCREENSHOTS]

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { basename } from 'node:path';
import { AxeBuilder } from '@axe-core/playwright';
import { open, runCases, settled as waitUntilSettled } from './support.js';

const [longpole, browserProgram, before, after, screenshots] = process.argv.slice(2);
const diff = JSON.parse(execFileSync(longpole, ['diff', before, after, '--json'], { maxBuffer: 1 << 28 }));

const opened = await open(longpole, browserProgram, [before, after]);
const { context, page, problems } = opened;

const cases = [];
/** A case; its name is the sentence that it proves. */
function test(name, run) {
  cases.push({ name, run });
}

const settled = (read) => waitUntilSettled(page, read);
const comparison = () => page.getByRole('region', { name: 'Comparison' });
const timeline = (recording) => page.getByRole('region', { name: `Timeline of ${basename(recording)}` });
const canvases = (recording) => timeline(recording).getByRole('application');
const panel = () => page.getByRole('tabpanel');
const offset = () => comparison().getByRole('textbox', { name: /begins at/ });
/** Asks the server as the page does. */
const api = (path) => page.evaluate(async (path) => (await fetch(`api/${path}`)).json(), path);

/** The parts of the link by their names. */
function parts(page) {
  return page.evaluate(() => Object.fromEntries(location.hash.slice(1).split('&').map((part) => part.split('='))));
}
const link = () => settled(() => parts(page));

/** Searches for states, and waits for those that are found. */
async function search(text) {
  await page.keyboard.press('/');
  await page.keyboard.type(text);
  await panel().locator('ol').getByRole('button', { name: text }).first().waitFor();
}

/** Left edge and width of the view in the overview of a trace, in percent. */
function viewBox(recording) {
  return timeline(recording).locator('.strip .view').evaluate((box) => [box.style.left, box.style.width].map(parseFloat));
}

/** The state that a part of the link names, of one trace, and how many of its name are before it. */
async function linkedState(trace, text) {
  const [row, time] = text.split('.');
  const { states } = await api('traces/' + trace + `/rows`);
  const [state] = (await api(`traces/${trace}/states?row=${row}&begin=${time}&end=${Number(time) + 1}&limit=1`)).states;
  const { sums } = await api(`traces/${trace}/sums?begin=0&end=${state.begin}&rows=${row}`);
  const earlier = sums.find((sum) => sum.state === state.state)?.count ?? 0;
  return { name: states[state.state].name, begin: state.begin, earlier };
}

test('the button shows both recordings below each other', async () => {
  await page.getByRole('button', { name: 'Compare', exact: true }).click();
  await comparison().waitFor();
  const boxes = [await canvases(before).boundingBox(), await canvases(after).boundingBox()];
  assert.ok(boxes[0].y + boxes[0].height <= boxes[1].y, JSON.stringify(boxes));
  assert.deepEqual([boxes[0].x, boxes[0].width], [boxes[1].x, boxes[1].width], 'one time axis');
  assert.ok(boxes.every((box) => box.height > 100), JSON.stringify(boxes));
});

test('the server answers what diff prints', async () => {
  await comparison().getByRole('heading').waitFor();
  const { schema_version, ...expected } = diff;
  assert.equal(schema_version, 1);
  assert.deepEqual(await api('diff?base=1&new=2'), expected);
});

test('the differences are those of diff', async () => {
  assert.equal(await comparison().getByRole('heading').textContent(), diff.verdict.text);
  const share = (part) => `${(part * 100).toFixed(1)} %`;
  const table = panel().getByRole('table', { name: 'States of the critical path' });
  const all = panel().getByRole('button', { name: /^All/ }).first();
  if (diff.states.length > 8) await all.click();
  const rows = (await table.getByRole('row').allTextContents()).slice(1);
  assert.equal(rows.length, diff.states.length);
  diff.states.forEach((state, at) => {
    const text = rows[at].replace(/\s+/g, '');
    const expected = `${state.machine}::${state.state}${share(state.share_a)}${share(state.share_b)}${state.certain ? '●' : ''}`;
    assert.ok(text.startsWith(expected.replace(/\s+/g, '')), `${text} is not ${expected}`);
  });
  for (const latency of diff.latency.slice(0, 8)) {
    await panel().getByRole('table', { name: 'Latencies' }).getByText(latency.name).first().waitFor();
  }
});

test('rows of the same names are in the same order', async () => {
  const names = (recording) => timeline(recording).getByRole('treeitem').locator('.name').allTextContents();
  const first = await names(before);
  assert.ok(first.length > 1);
  assert.deepEqual(await names(after), first);
});

test('zooming and moving one timeline moves the other one', async () => {
  const [first, second] = [await viewBox(before), await viewBox(after)];
  await canvases(before).focus();
  await page.keyboard.press('w');
  await page.keyboard.press('w');
  await link();
  const [zoomedFirst, zoomedSecond] = [await viewBox(before), await viewBox(after)];
  assert.ok(zoomedFirst[1] < first[1] && zoomedSecond[1] < second[1]);
  await canvases(after).focus();
  await page.keyboard.press('d');
  await link();
  const [movedFirst, movedSecond] = [await viewBox(before), await viewBox(after)];
  assert.ok(movedFirst[0] > zoomedFirst[0] && movedSecond[0] > zoomedSecond[0]);
});

test('both are aligned at the same occurrence of the selected state', async () => {
  await canvases(before).focus();
  await page.keyboard.press('f');
  await search('grind');
  for (let at = 0; at < 3; at += 1) await page.keyboard.press('Enter');
  await canvases(before).focus();
  await page.keyboard.press('l');
  await page.waitForFunction(() => location.hash.includes('state2='));
  const { state, state2, offset: shown, trace, trace2 } = await link();
  assert.deepEqual([trace, trace2], ['1', '2']);
  const [first, second] = [await linkedState(1, state), await linkedState(2, state2)];
  assert.deepEqual([first.name, first.earlier], ['grind', 2]);
  assert.deepEqual([second.name, second.earlier], ['grind', 2]);
  assert.equal(Number(shown), first.begin - second.begin);
});

test('both are aligned at a match of the search', async () => {
  await search('wrap');
  await page.keyboard.press('Enter');
  await page.keyboard.press('Enter');
  await page.getByRole('button', { name: 'Align both at match 2' }).click();
  const [first, second] = await Promise.all([1, 2].map((id) => api(`traces/${id}/search?q=wrap&limit=2`)));
  await page.waitForFunction((ns) => location.hash.includes(`offset=${ns}`), first.matches[1].begin - second.matches[1].begin);
});

test('the alignment can be written and moved', async () => {
  await offset().fill('-1.5 ms');
  await offset().press('Enter');
  assert.equal((await link()).offset, '-1500000');
  await canvases(before).focus();
  await page.keyboard.press('Shift+D');
  const moved = Number((await link()).offset);
  assert.ok(moved > -1_500_000, String(moved));
  await offset().fill('a while');
  await offset().press('Enter');
  await page.getByRole('alert').getByText('is no time').waitFor();
  assert.equal(Number((await link()).offset), moved);
  await page.getByRole('button', { name: 'Dismiss' }).click();
  await comparison().getByRole('button', { name: 'Begins' }).click();
  assert.equal((await link()).offset, undefined);
});

test('a difference is highlighted in both timelines', async () => {
  await page.getByRole('tab', { name: 'Changes' }).click();
  await page.mouse.move(0, 0);
  const pictures = () => Promise.all([before, after].map((it) => canvases(it).screenshot()));
  await link();
  const plain = await pictures();
  const state = diff.states.find((it) => it.state === 'grind');
  const button = panel().getByRole('table').first().getByRole('button', { name: /::grind/ });
  await button.click();
  await page.mouse.move(0, 0);
  assert.equal(await button.getAttribute('aria-pressed'), 'true');
  assert.equal(decodeURIComponent((await link()).highlight), `${state.machine}::${state.state}`);
  (await pictures()).forEach((picture, at) => assert.ok(!picture.equals(plain[at]), `timeline ${at}`));
});

test('a link restores the comparison', async () => {
  await offset().fill('2 ms');
  await offset().press('Enter');
  const expected = await link();
  assert.ok(expected.state && expected.state2 && expected.view && expected.highlight);
  const other = await context.newPage();
  await other.goto(await page.evaluate(() => location.href));
  await other.getByRole('region', { name: 'Comparison' }).getByRole('heading').waitFor();
  await waitUntilSettled(other, () => parts(other));
  assert.deepEqual(await parts(other), expected);
  assert.equal(await other.getByRole('application').count(), 2);
  await other.close();
});

test('axe finds no serious violation in either theme', async () => {
  for (const colorScheme of ['light', 'dark']) {
    await page.emulateMedia({ colorScheme });
    await page.waitForTimeout(300);
    const { violations } = await new AxeBuilder({ page }).analyze();
    const serious = violations.filter((it) => ['serious', 'critical'].includes(it.impact));
    const text = serious.map((it) => `${it.id}: ${it.help}: ${it.nodes[0].html}`).join('\n');
    assert.equal(serious.length, 0, text);
  }
});

test('the comparison is drawn in two sizes and themes', async () => {
  await comparison().getByRole('button', { name: 'At the selection' }).click();
  await canvases(before).focus();
  await page.keyboard.press('f');
  for (const [width, height] of [[1280, 800], [2560, 1440]]) {
    for (const colorScheme of ['light', 'dark']) {
      await page.setViewportSize({ width, height });
      await page.emulateMedia({ colorScheme });
      await link();
      const path = screenshots ? `${screenshots}/comparison-${width}-${colorScheme}.png` : undefined;
      const image = await page.screenshot({ path });
      assert.ok(image.length > 20_000, 'the page is not empty');
      const overflow = await page.evaluate(() => document.documentElement.scrollWidth > window.innerWidth);
      assert.ok(!overflow, `nothing is wider than the window at ${width}`);
    }
  }
});

test('Esc ends the comparison, and a command begins it again', async () => {
  await canvases(before).focus();
  for (let at = 0; at < 8 && (await comparison().count()) > 0; at += 1) await page.keyboard.press('Escape');
  assert.equal(await page.getByRole('application').count(), 1);
  await page.getByRole('region', { name: 'Verdict' }).waitFor();
  assert.equal((await link()).trace2, undefined);
  await page.keyboard.press('Control+Shift+P');
  await page.getByRole('combobox', { name: 'Name of a command' }).fill('compare with');
  await page.keyboard.press('Enter');
  await comparison().getByRole('heading').waitFor();
  assert.equal((await link()).trace2, '2');
});

test('nothing was reported as an error', () => {
  assert.deepEqual(problems, []);
});

await runCases(opened, cases, screenshots);
