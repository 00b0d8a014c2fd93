// Opens files of `longpole report --html` in a browser without a network, as their receiver would.
//
// usage: node html_report.js LONGPOLE CHROMIUM DEMO SMALL FOLDER [SCREENSHOTS]
//
// DEMO is a recording that does not fit into a file with all of its states, SMALL is one that does,
// FOLDER is where the files are written.

import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { AxeBuilder } from '@axe-core/playwright';
import { chromium } from 'playwright-core';
import { until } from './support.js';

const [longpole, browserProgram, demo, small, folder, screenshots] = process.argv.slice(2);

/** Writes the report as HTML, and returns the path of the file and the report. */
function written(trace, name) {
  const file = `${folder}/${name}.html`;
  const text = execFileSync(longpole, ['report', trace, '--json', '--html', file], { maxBuffer: 1 << 28 });
  return { file, report: JSON.parse(text) };
}

/** Names that would be markup if they were not text. */
const IMAGE = `<img src=x onerror="document.title='broken'">`;
const SCRIPT = `</script><script>document.title='broken'</script><!--<script>`;

/** A machine log in which two machines with these names work for each other. */
function hostileLog() {
  const origin = 1_764_000_000_000_000_000n;
  const lines = [
    [0, { machine: IMAGE, blocked: SCRIPT }],
    [0, { machine: SCRIPT, state: `${IMAGE}${SCRIPT}` }],
    [9_000_000, { machine: IMAGE, woken_by: SCRIPT }],
    [9_000_000, { machine: IMAGE, state: '{{script}}&lt;b&gt;' }],
    [10_000_000, { end: IMAGE }],
  ];
  const text = lines.map(([t, line]) => `{"t":${origin + BigInt(t)},${JSON.stringify(line).slice(1)}\n`);
  const path = `${folder}/<img src=x onerror=alert(1)>.jsonl`;
  writeFileSync(path, text.join(''));
  return path;
}

const browser = await chromium.launch({
  executablePath: browserProgram,
  args: ['--no-sandbox', '--use-gl=angle', '--use-angle=swiftshader', '--enable-unsafe-swiftshader'],
});
const problems = [];
const requested = [];

/** Opens a file without a network. */
async function opened(file, fragment = '', options = {}) {
  const context = await browser.newContext({
    viewport: { width: 1280, height: 800 },
    offline: true,
    ...options,
  });
  const page = await context.newPage();
  page.setDefaultTimeout(60_000);
  page.on('console', (message) => {
    if (message.type() === 'error') problems.push(message.text());
  });
  page.on('pageerror', (error) => problems.push(String(error)));
  page.on('dialog', (dialog) => problems.push(`a dialog: ${dialog.message()}`));
  page.on('request', (request) => requested.push(request.url().split('#')[0]));
  await page.goto(`${new URL(`file://${file}`).href}${fragment}`);
  await page.getByRole('region', { name: 'Verdict' }).getByRole('heading').waitFor();
  return page;
}

const part = (page, name) => page.getByRole('region', { name });
const viewOf = (page) => page.evaluate(() => location.hash.match(/view=([0-9._-]+)/)?.[1] ?? '');

/** Waits until a value no longer changes. The page writes its link a moment after a change. */
async function settled(read) {
  let last = await read();
  for (;;) {
    await new Promise((resolve) => setTimeout(resolve, 1000));
    const now = await read();
    if (JSON.stringify(now) === JSON.stringify(last)) return now;
    last = now;
  }
}

const cases = [];
/** A case; its name is the sentence that it proves. */
function test(name, run) {
  cases.push({ name, run });
}

const large = written(demo, 'demo');
const whole = written(small, 'small');

test('the file of the demo has at most a megabyte', () => {
  const { size } = statSync(large.file);
  assert.ok(size <= 1_000_000, `${size} bytes`);
});

test('the policy of the file allows no request', () => {
  const policy = /Content-Security-Policy" content="([^"]*)"/.exec(readFileSync(large.file, 'utf8'))[1];
  assert.match(policy, /^default-src 'none'; script-src 'sha256-[^' ]+'; style-src 'sha256-/);
  assert.ok(!/unsafe|https?:|\*/.test(policy), policy);
});

test('the first screen has the verdict and the table of states', async () => {
  const page = await opened(large.file);
  await part(page, 'Verdict').getByText(large.report.verdict.text, { exact: false }).waitFor();
  const row = large.report.criticality.find((it) => !it.kind.startsWith('link'));
  const text = await page.getByRole('row', { name: `${row.class} ::${row.state}` }).first().textContent();
  assert.match(text.replace(/\s/g, ''), new RegExp(`${(row.share * 100).toFixed(1)}%`), text);
  await page.context().close();
});

test('the keyboard zooms, and follows the path through single states', async () => {
  const page = await opened(large.file);
  await page.getByRole('application').focus();
  const before = await settled(() => viewOf(page));
  await page.keyboard.press(']');
  const heading = part(page, 'Selected state').getByRole('heading');
  const first = await settled(() => heading.textContent());
  await page.keyboard.press('r');
  const zoomed = await settled(() => viewOf(page));
  assert.notEqual(zoomed, before);
  const [begin, end] = zoomed.split('_').map(Number);
  assert.ok(end - begin < 100_000_000, zoomed);
  await page.keyboard.press(']');
  const second = await settled(() => page.evaluate(() => location.hash));
  assert.match(second, /state=/);
  assert.ok(first.length > 0);
  await page.context().close();
});

test('beyond the slice, the page shows that the file has no single states', async () => {
  const page = await opened(large.file, '#trace=1&view=1000_9000');
  await page.getByText(/not in this file: only bins of/).waitFor();
  await page.getByRole('application').focus();
  await page.keyboard.press(']');
  await page.getByRole('alert').getByText(/single states from .* to .* only/).waitFor();
  await page.context().close();
});

test('what needs a server is not offered', async () => {
  const page = await opened(large.file);
  assert.equal(await page.getByRole('tab', { name: 'Notes' }).count(), 0);
  const panel = page.getByRole('tabpanel');
  await panel.getByRole('row').nth(2).getByRole('button').click();
  await part(page, 'What if').waitFor();
  assert.equal(await page.getByRole('slider').count(), 0);
  await page.getByRole('button', { name: 'Commands' }).click();
  assert.equal(await page.getByRole('dialog').getByText('note').count(), 0);
  await page.context().close();
});

test('the folded graph is in the file, and a click on a node selects its state', async () => {
  const page = await opened(large.file);
  await page.getByRole('button', { name: 'Graph' }).click();
  const nodes = part(page, 'Graph').getByRole('button');
  const expected = JSON.parse(execFileSync(longpole, ['graph', demo, '--json', '--most', '150']));
  await nodes.first().waitFor();
  assert.equal(await nodes.count(), expected.nodes.length);
  // The largest state, and one that the table does not list until it is selected.
  const byShare = expected.nodes.map((node, at) => ({ ...node, at })).filter((node) => node.state !== null).sort((a, b) => b.share - a.share);
  const listed = page.getByRole('tabpanel').locator('td button[aria-pressed=true]');
  for (const { class: machines, state, kind, at } of [byShare[0], byShare.at(-1)]) {
    await nodes.nth(at).click();
    const name = `${kind === 'link' ? 'link' : machines}::${state}`;
    assert.equal(await listed.textContent(), name);
    await nodes.nth(at).click();
    await listed.waitFor({ state: 'detached' });
  }
  await page.getByRole('button', { name: 'Graph' }).click();
  assert.equal(await nodes.count(), 0);
  await page.context().close();
});

test('a small recording is in the file completely, with the answers of the server', async () => {
  const page = await opened(whole.file);
  assert.equal(await page.getByText('not in this file').count(), 0);
  const server = spawn(longpole, ['view', '--no-open', small]);
  try {
    const address = await new Promise((resolve, reject) => {
      let text = '';
      server.stdout.on('data', (data) => {
        text += data;
        if (text.includes('\n')) resolve(text.split('\n')[0]);
      });
      server.on('exit', (code) => reject(new Error(`longpole view ended with ${code}`)));
    });
    const live = await (await browser.newContext()).newPage();
    await live.goto(address);
    const api = (path) => live.evaluate(async (path) => (await fetch(`api/traces/1${path}`)).json(), path);
    await until(async () => (await api('')).phase === 'ready');
    const { end } = await api('');
    const { rows, states } = await api('/rows');
    const ids = rows.filter((row) => row.states > 0).map((row) => row.id);
    const [from, to] = [Math.floor(end * 0.3), Math.floor(end * 0.6)];
    const range = `#trace=1&range=${from}_${to}&rows=${ids.join('.')}`;
    const figures = async (other) => {
      await other.getByRole('tab', { name: 'Details' }).click();
      await part(other, 'Selected range').getByRole('table').first().waitFor();
      return settled(() => part(other, 'Selected range').locator('td.number').allTextContents());
    };
    const here = await opened(whole.file, range);
    await live.goto(`${address}${range}`);
    await live.reload();
    const [ours, theirs] = [await figures(here), await figures(live)];
    assert.ok(theirs.length > 0);
    // States with the same time may change places.
    assert.deepEqual(ours.toSorted(), theirs.toSorted());
    const { name } = states.find((state) => /^[a-z]/.test(state.name));
    const found = await api(`/search?q=${encodeURIComponent(name)}`);
    await here.getByRole('tab', { name: 'Search' }).click();
    await here.getByPlaceholder(/Name of a state/).fill(name);
    const shown = await settled(() => here.locator('p.total').textContent());
    assert.equal(Number(shown.match(/[\d,\u202f ]+/)[0].replace(/[^\d]/g, '')), found.count, shown);
    await here.context().close();
    await live.context().close();
  } finally {
    server.removeAllListeners('exit');
    server.kill();
  }
  await page.context().close();
});

test('names stay text', async () => {
  const { file, report } = written(hostileLog(), 'hostile');
  const page = await opened(file);
  await part(page, 'Verdict').getByText(report.verdict.text, { exact: false }).first().waitFor();
  for (const row of report.criticality) {
    await page.getByText(`::${row.state}`, { exact: false }).first().waitFor();
  }
  await page.getByRole('button', { name: 'Graph' }).click();
  await part(page, 'Graph').locator('text', { hasText: SCRIPT.slice(0, 12) }).first().waitFor();
  await page.waitForTimeout(500);
  const counts = await page.evaluate(() => [document.querySelectorAll('img').length, document.scripts.length, document.title]);
  assert.deepEqual(counts.slice(0, 2), [0, 5], 'four parts of data and one script');
  assert.match(counts[2], /^<img src=x onerror=alert\(1\)>\.jsonl/);
  // Without scripts, the verdict is what is left.
  const plain = await browser.newContext({ javaScriptEnabled: false, offline: true });
  const still = await plain.newPage();
  await still.goto(new URL(`file://${file}`).href);
  assert.match(await still.locator('body').textContent(), /timeline needs JavaScript/);
  assert.equal(await still.locator('img').count(), 0);
  await plain.close();
  await page.context().close();
});

test('both themes are drawn without overflow, and axe finds no serious violation', async () => {
  for (const colorScheme of ['light', 'dark']) {
    const page = await opened(large.file, '', { colorScheme });
    await page.getByRole('button', { name: 'Graph' }).click();
    await page.waitForTimeout(1500);
    const path = screenshots ? `${screenshots}/html-1280-${colorScheme}.png` : undefined;
    const image = await page.screenshot({ path });
    assert.ok(image.length > 20_000, 'the page is not empty');
    const isWider = await page.evaluate(() => document.documentElement.scrollWidth > window.innerWidth);
    assert.ok(!isWider, 'nothing is wider than the window');
    const { violations } = await new AxeBuilder({ page }).analyze();
    const serious = violations.filter((it) => ['serious', 'critical'].includes(it.impact));
    assert.equal(serious.length, 0, serious.map((it) => `${it.id}: ${it.help}: ${it.nodes[0].html}`).join('\n'));
    await page.context().close();
  }
});

test('nothing but the file was requested, and nothing was reported as an error', () => {
  const others = requested.filter((url) => !url.startsWith('file://') || !url.endsWith('.html'));
  assert.deepEqual(others, []);
  assert.deepEqual(problems, []);
});

let failed = 0;
try {
  for (const { name, run } of cases) {
    try {
      await run();
      console.log(`ok: ${name}`);
    } catch (error) {
      failed += 1;
      console.log(`FAILED: ${name}\n${error.stack}`);
    }
  }
} finally {
  await browser.close();
}
console.log(`${cases.length - failed} of ${cases.length} cases passed`);
process.exit(failed === 0 ? 0 : 1);
