// Uses the page of `longpole view` as a user would, and compares what it shows with the answers of
// the command.
//
// usage: node viewer.js LONGPOLE CHROMIUM RECORDING [SCREENSHOTS]

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { AxeBuilder } from '@axe-core/playwright';
import { open, runCases, until, settled as waitUntilSettled, startServer } from './support.js';

const [longpole, browserProgram, recording, screenshots] = process.argv.slice(2);

/** Runs the command, and returns its JSON. */
function answer(verb, ...more) {
  const text = execFileSync(longpole, [verb, recording, '--json', ...more], { maxBuffer: 1 << 28 });
  return JSON.parse(text);
}

const opened = await open(longpole, browserProgram, [recording]);
const { address, context, page, problems, requested } = opened;

const cases = [];
/** A case; its name is the sentence that it proves. */
function test(name, run) {
  cases.push({ name, run });
}

const part = (name) => page.getByRole('region', { name });
const view = () => page.evaluate(() => location.hash.match(/view=([0-9._-]+)/)?.[1] ?? '');
const timeline = page.getByRole('application', { name: 'States over time' });
const focusTimeline = () => timeline.focus();

const settled = (read) => waitUntilSettled(page, read);

/** Asks the server as the page does. */
const api = (path) => page.evaluate(async (path) => (await fetch(`api/traces/1/${path}`)).json(), path);

const report = answer('report');

test('the verdict of the report is in words on the first screen', async () => {
  await part('Verdict').getByText(report.verdict.text, { exact: false }).waitFor();
  const first = report.criticality[0];
  await page.getByText(first.state, { exact: false }).first().waitFor();
});

test('the rows have the states that the path spends its time in', async () => {
  const { rows, states, path } = await api('rows');
  const { sums } = await api(`sums?rows=${path}`);
  const ns = new Map();
  for (const sum of sums) {
    const name = states[sum.state].name;
    ns.set(name, (ns.get(name) ?? 0) + sum.total_ns);
  }
  for (const row of report.criticality) {
    assert.equal(ns.get(`${row.machine}::${row.state}`), row.ns, `${row.machine}::${row.state}`);
  }
  assert.ok(rows.some((row) => row.path_ns > 0));
});

test('the keyboard follows the path from its first segment on', async () => {
  const { segments } = await api('path?limit=20');
  await focusTimeline();
  await page.keyboard.press('f');
  await page.keyboard.press('Escape');
  const durations = [];
  for (let at = 0; at < 5; at += 1) {
    await page.keyboard.press(']');
    const text = await settled(() => part('Selected state').getByRole('heading').textContent());
    durations.push(text);
  }
  assert.ok(new Set(durations).size > 1 || segments.length < 3, String(durations));
});

test('zooming to one state and back by the history restores the view', async () => {
  await focusTimeline();
  await page.keyboard.press('f');
  const whole = await settled(view);
  await page.keyboard.press('r');
  const zoomed = await settled(view);
  assert.notEqual(zoomed, whole);
  await page.keyboard.press('Control+z');
  assert.equal(await settled(view), whole);
  await page.keyboard.press('Control+y');
  assert.equal(await settled(view), zoomed);
  await page.keyboard.press('Control+z');
});

test('a dragged range shows its length and the sums of its states', async () => {
  await focusTimeline();
  await page.keyboard.press('f');
  const box = await timeline.boundingBox();
  // Rows with values are the last ones; the third one is a thread.
  const row = await page.getByRole('treeitem').nth(2).boundingBox();
  const y = row.y + row.height / 2;
  await page.mouse.move(box.x + box.width * 0.3, y);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.6, y, { steps: 5 });
  await page.mouse.up();
  await part('Selected range').getByRole('table').first().waitFor();
  const link = await settled(() => page.evaluate(() => location.hash));
  const [begin, end] = link.match(/range=(\d+)_(\d+)/).slice(1).map(Number);
  const { sums } = await api(`sums?begin=${begin}&end=${end}&rows=${link.match(/rows=([\d.]+)/)[1].replaceAll('.', ',')}`);
  assert.ok(end > begin && sums.length > 0);
  const longest = Math.max(...sums.map((sum) => sum.total_ns));
  const shown = await part('Selected range').getByRole('row').nth(1).getByRole('cell').nth(1).textContent();
  const [, number, unit] = shown.match(/([\d.]+)\s(ns|µs|ms|s)$/);
  const ns = Number(number) * { ns: 1, µs: 1e3, ms: 1e6, s: 1e9 }[unit];
  assert.ok(Math.abs(ns / longest - 1) < 0.06, `${longest} ns: ${shown}`);
});

test('a closed group shows how busy its rows are', async () => {
  const { rows } = await api('rows');
  const group = rows.find((row) => rows.some((it) => it.parent === row.id && it.busy_ns > 0));
  const within = rows.filter((row) => row.parent === group.id && row.states > 0);
  const [level, count] = [24, 64];
  const bytes = await page.evaluate(async (query) => {
    const answered = await fetch(`api/traces/1/tiles?${query}`);
    return [...new Uint8Array(await answered.arrayBuffer())];
  }, `level=${level}&first=0&count=${count}&rows=${group.id}`);
  const tile = new DataView(new Uint8Array(bytes).buffer);
  assert.equal(tile.getUint32(20, true), 2, 'bins of a group');
  const items = tile.getUint32(28, true);
  assert.ok(items > 1);
  let busy = 0;
  for (let i = 0; i < items; i += 1) busy += (tile.getUint8(32 + 16 * i + 14) / 255) * 2 ** level;
  const expected = within.reduce((sum, row) => sum + row.busy_ns, 0) / within.length;
  assert.ok(Math.abs(busy / expected - 1) < 0.02, `${busy} of ${expected}`);
  const head = page.getByRole('treeitem', { name: group.name }).first();
  const box = await head.boundingBox();
  const bar = async () => {
    const { x, width } = await timeline.boundingBox();
    const clip = { x, y: box.y + 2, width, height: box.height - 4 };
    return (await page.screenshot({ clip })).toString('base64');
  };
  await focusTimeline();
  await page.keyboard.press('f');
  const open = await settled(bar);
  await head.click();
  assert.notEqual(await settled(bar), open, 'the closed group has a bar');
  await head.click();
});

test('the search counts the states that the server finds', async () => {
  const { states } = await api('rows');
  const name = states.find((state) => /^[a-z]/.test(state.name)).name;
  const found = await api(`search?q=${encodeURIComponent(name)}`);
  await focusTimeline();
  await page.keyboard.press('/');
  await page.keyboard.type(name);
  const shown = await settled(() => page.locator('p.total').textContent());
  assert.equal(Number(shown.match(/[\d,\u202f ]+/)[0].replace(/[^\d]/g, '')), found.count, shown);
  await page.keyboard.press('Enter');
  await page.keyboard.press('Escape');
});

test('a note is kept with the trace', async () => {
  await focusTimeline();
  await page.keyboard.press('Shift+m');
  await page.locator('#note-text').fill('<b>look here</b>');
  await page.keyboard.press('Enter');
  await page.getByText('<b>look here</b>').waitFor();
  const file = `${recording}/derived/notes.json`;
  await settled(async () => existsSync(file));
  assert.equal(JSON.parse(readFileSync(file, 'utf8')).notes[0].text, '<b>look here</b>');
});

test('a link restores view, range and notes', async () => {
  const before = await settled(() => page.evaluate(() => location.href));
  const other = await context.newPage();
  await other.goto(before);
  await other.getByRole('region', { name: 'Verdict' }).getByText(report.verdict.text).waitFor();
  await other.waitForTimeout(1000);
  const after = await other.evaluate(() => location.href);
  const parts = (href) => ['view', 'range'].map((name) => new URL(href).hash.match(`${name}=([^&]*)`)?.[1]);
  assert.deepEqual(parts(after), parts(before));
  await other.close();
});

test('the what-if slider gives the answer of what-if', async () => {
  const row = report.criticality.find((row) => row.share > 0.02 && !row.kind.includes?.('link'));
  const prediction = report.predictions.find((it) => it.change.includes(`::${row.state} x0.5`));
  if (!prediction) {
    console.log('skipped: the what-if slider (the report predicts no change of the first state)');
    return;
  }
  const change = prediction.change.replace(/x0\.5$/, 'x0.3');
  const [expected] = answer('what-if', change);
  const predicted = await page.evaluate(async (change) => {
    const body = JSON.stringify({ changes: [change] });
    const headers = { 'Content-Type': 'application/json' };
    const answered = await fetch('api/traces/1/what-if', { method: 'POST', headers, body });
    return (await answered.json()).predictions[0];
  }, change);
  for (const field of ['gain', 'gain_low', 'gain_high', 'predicted_ns']) {
    assert.equal(predicted[field], expected[field], field);
  }
  await page.getByRole('tab', { name: 'Path' }).click();
  await page.getByRole('tabpanel').getByText(row.state, { exact: false }).first().click();
  const slider = part('What if').getByRole('slider');
  await slider.fill('0.3');
  await part('What if').getByText(/[+-]\d/).first().waitFor();
});

test('each finding leads to a view', async () => {
  await page.getByRole('tab', { name: /Findings/ }).click();
  const buttons = page.getByRole('tabpanel').getByRole('button');
  for (let at = 0; at < Math.min(await buttons.count(), 5); at += 1) await buttons.nth(at).click();
});

/** The lines of `--folded`, as the server's flame graph has them. */
function folded({ names, frames }) {
  const suffix = ['', '', '_[k]', '_[j]'];
  // From the fifth on, a frame is what the stack waits for, or a state without stacks; the last one
  // stands for functions that are missing, and has its brackets.
  const TRUNCATED = 10;
  const text = (name, code) => (code < suffix.length ? name + suffix[code] : code === TRUNCATED ? name : `[${name}]`);
  const lines = new Map();
  const stack = [];
  for (const [depth, name, code, , own] of frames) {
    stack.length = depth;
    stack.push(text(names[name].replaceAll(';', ':').replaceAll('\n', ' '), code));
    const line = stack.join(';');
    if (own > 0) lines.set(line, (lines.get(line) ?? 0) + own);
  }
  return [...lines].map(([line, count]) => `${line} ${count}`).sort();
}

/** The lines that the command prints. */
function printed(...more) {
  return execFileSync(longpole, [...more, recording], { maxBuffer: 1 << 28, stdio: ['ignore', 'pipe', 'ignore'] }).toString().split('\n').filter(Boolean).sort();
}

const drawer = (name) => page.getByRole('region', { name: 'Drawer' }).getByRole('button', { name, exact: true });

test('the flame graph has the stacks of the recording and of its path, and zooms by click and key', async () => {
  const stacks = await api('stacks');
  await drawer('Stacks').click();
  if (!stacks.all) {
    await part('Stacks').getByText('has no samples of stacks').waitFor();
    console.log('skipped: flame graph of a recording with stacks (not root)');
    return;
  }
  // The page counts the time between two samples, the command the samples.
  const count = (lines) => lines.reduce((sum, line) => sum + Number(line.match(/\d+$/)[0]), 0);
  const [all, samples] = [folded(stacks.all), printed('cpu', '--folded')];
  const period = count(all) / count(samples);
  assert.deepEqual(all, samples.map((line) => line.replace(/\d+$/, (samples) => samples * period)).sort());
  assert.ok(stacks.path.samples > 0);
  assert.deepEqual(folded(stacks.path), printed('path', '--folded'));
  const tree = part('Stacks').getByRole('tree');
  await part('Stacks').getByRole('button', { name: 'Critical path only' }).click();
  const processes = await settled(() => tree.getByRole('treeitem', { level: 1 }).evaluateAll((all) => all.map((it) => it.ariaLabel)));
  const shown = processes.map((text) => Number(text.match(/, <?([\d.]+) %/)[1]));
  assert.ok(shown.every((share) => share <= 100) && shown.length > 0, String(processes));
  // The process with most of the path, then the frame below it, by keys.
  const largest = tree.getByRole('treeitem', { level: 1 }).nth(shown.indexOf(Math.max(...shown)));
  await largest.focus();
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  const zoomed = tree.locator('[aria-selected=true]');
  assert.equal(await zoomed.count(), 1);
  assert.equal(await zoomed.getAttribute('aria-level'), '2');
  const [wide, whole] = [await zoomed.boundingBox(), await tree.boundingBox()];
  assert.ok(Math.abs(wide.width - whole.width) < 2, 'the zoomed frame is as wide as the picture');
  await page.keyboard.press('Escape');
  assert.equal(await zoomed.count(), 0);
  const name = (await zoomed.or(tree.getByRole('treeitem', { level: 1 }).first()).getAttribute('aria-label')).split(':')[0];
  await part('Stacks').getByRole('searchbox').fill(name);
  await part('Stacks').getByText('of the time').waitFor();
  await part('Stacks').getByRole('searchbox').fill('');
});

/** Times in ns of running code and of waits in a flame graph. */
function times({ unit, frames }) {
  assert.equal(unit, 'ns');
  const sums = { running: 0, waiting: 0 };
  for (const [, , code, , own] of frames) sums[code < 4 ? 'running' : 'waiting'] += own;
  return sums;
}

test('the flame graph of the selected range has its running code and its waits', async () => {
  const { all } = await api('stacks');
  const { rows } = await api('rows');
  const { end } = await (await fetch(`${address}api/traces/1`)).json();
  // Threads on the path are not in collapsed groups.
  const ids = rows.filter((row) => row.tid !== null && row.path_ns > 0).slice(0, 12).map((row) => row.id);
  if (!all || ids.length === 0) {
    console.log('skipped: flame graph of a range of a recording with stacks (not root)');
    return;
  }
  const of = async (begin, until, some) => (await api(`stacks?begin=${begin}&end=${until}&rows=${some.join(',')}`)).all;
  const half = Math.floor(end / 2);
  const [first, second, whole] = [await of(0, half, ids), await of(half, end, ids), await of(0, end, ids)];
  assert.ok(whole.samples > 0);
  // The part of a wait in each half is rounded to whole nanoseconds.
  const isNear = (a, b) => assert.ok(Math.abs(a - b) <= 2 * whole.samples, `${a} ${b}`);
  const both = times(whole);
  for (const kind of ['running', 'waiting']) isNear(times(first)[kind] + times(second)[kind], both[kind]);
  const each = new Map();
  for (const id of ids) each.set(id, times(await of(0, end, [id])));
  const sum = (kind) => [...each.values()].reduce((sum, of) => sum + of[kind], 0);
  for (const kind of ['running', 'waiting']) isNear(sum(kind), both[kind]);
  await focusTimeline();
  await page.keyboard.press('Escape');
  await page.keyboard.press('f');
  if (await part('Stacks').isVisible()) await drawer('Stacks').click();
  const box = await timeline.boundingBox();
  const [busiest] = [...each].sort(([, a], [, b]) => b.running + b.waiting - a.running - a.waiting)[0];
  const { name } = rows.find((row) => row.id === busiest);
  await page.getByRole('searchbox', { name: 'Filter rows by name' }).fill(name);
  const row = await page.locator(`[role=treeitem][id$="-${busiest}"]`).boundingBox();
  await page.mouse.move(box.x + box.width * 0.05, row.y + row.height / 2);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.95, row.y + row.height / 2, { steps: 5 });
  await page.mouse.up();
  await drawer('Stacks').click();
  const button = part('Stacks').getByRole('button', { name: 'Selected range' });
  await button.click();
  await part('Stacks').getByText(/samples of running code and of waits/).waitFor();
  if (screenshots) await page.screenshot({ path: `${screenshots}/viewer-range-stacks.png` });
  await focusTimeline();
  await page.keyboard.press('Escape');
  assert.ok(await button.isDisabled());
  await part('Stacks').getByRole('button', { name: 'Whole recording', pressed: true }).waitFor();
  await page.getByRole('searchbox', { name: 'Filter rows by name' }).fill('');
});

test('the latencies are those of the command, and a case leads to its place on the timeline', async () => {
  const { latencies } = await api('latency');
  assert.deepEqual(latencies.map((it) => it.latency), answer('latency'));
  assert.ok(latencies.length > 1);
  for (const [at, { latency }] of latencies.entries()) {
    const { cases, left_out, buckets } = await api(`latency/${at}`);
    assert.equal(cases.length + left_out, latency.count);
    assert.equal(buckets.reduce((sum, [, count]) => sum + count, 0), latency.count);
    assert.equal(Math.max(...cases.map(([, ns]) => ns)), latency.max_ns);
    assert.ok(cases.every(([begin], i) => i === 0 || begin >= cases[i - 1][0]), 'cases are in the order of time');
  }
  // The span with the most cases: its fourth case.
  const spans = latencies.map(({ latency, row }, at) => ({ latency, row, at })).filter(({ latency }) => latency.kind === 'span');
  const { latency, row, at } = spans.sort((a, b) => b.latency.count - a.latency.count)[0];
  await drawer('Latency').click();
  await part('Latency').getByRole('button', { name: `span ${latency.name}` }).first().click();
  const { cases } = await api(`latency/${at}`);
  const points = part('Latency').getByRole('application', { name: latency.name });
  await points.focus();
  for (let i = 0; i < 3; i += 1) await page.keyboard.press('ArrowRight');
  await page.keyboard.press('Enter');
  const link = await settled(() => page.evaluate(() => location.hash));
  const [begin, ns] = cases[3];
  const found = link.match(/range=(\d+)_(\d+)/).slice(1).map(Number);
  assert.deepEqual(found, [begin, begin + ns]);
  assert.equal(link.match(/[&]rows=(\d+)/)[1], String(row));
  const [from, to] = link.match(/view=([\d.]+)_([\d.]+)/).slice(1).map(Number);
  assert.ok(from <= begin && begin + ns <= to, 'the case is in view');
});

test('the queues are those of the command, and the chart leads to a moment', async () => {
  const { queues } = await api('queues');
  assert.deepEqual(queues, answer('queues'));
  assert.ok(queues.length > 0);
  for (const [at, queue] of queues.entries()) {
    const { depths, width } = await api(`queues/${at}`);
    assert.equal(Math.max(...depths.map(([, most]) => most)), queue.depth.max, queue.name);
    assert.ok(width > 0 && depths.every(([least, most]) => least >= 0 && least <= most));
  }
  await drawer('Queues').click();
  await part('Queues').getByText(queues[0].name, { exact: false }).first().waitFor();
  await focusTimeline();
  await page.keyboard.press('f');
  const whole = await settled(view);
  await part('Queues').getByRole('application', { name: queues[0].name }).focus();
  await page.keyboard.press('ArrowRight');
  await page.keyboard.press('Enter');
  assert.notEqual(await settled(view), whole);
});

test('the row of a queue has its fill level, its sums, and leads to its statistics and back', async () => {
  const { rows } = await api('rows');
  const [queue] = answer('queues');
  const row = rows.find((it) => it.kind === 'queue' && it.name === queue.name);
  assert.equal(row.values.max, queue.depth.max);
  assert.equal(row.values.capacity, queue.capacity);
  // The mean is that of the command, which counts until the last probe. Times of this size are
  // exact to 256 ns here.
  const { origin_ns } = await page.evaluate(async () => (await fetch('api/traces/1')).json());
  const lastProbe = report.inputs.end_ns - Number(origin_ns);
  const { values } = await api(`sums?rows=${row.id}&end=${lastProbe}`);
  assert.ok(Math.abs(values[0].mean - queue.depth.mean) < 0.01 * queue.depth.max, `${values[0].mean} ${queue.depth.mean}`);
  // What the page draws: in each step the value lies between those of its places.
  const { states } = await api(`states?row=${row.id}&limit=1000`);
  assert.ok(states.length > 10 && states.every(({ value }) => value >= row.values.min && value <= row.values.max));

  await focusTimeline();
  await page.keyboard.press('Escape');
  await page.keyboard.press('f');
  const label = page.getByRole('treeitem', { name: new RegExp(queue.name) });
  await label.scrollIntoViewIfNeeded();
  const [box, place] = [await timeline.boundingBox(), await label.boundingBox()];
  const y = place.y + place.height / 2;
  await page.mouse.click(box.x + box.width / 2, y);
  const heading = part('Selected state').getByRole('heading');
  await heading.getByText(row.values.unit).waitFor();
  const link = await settled(() => page.evaluate(() => location.hash));
  const [, selected, time] = link.match(/state=(\d+)\.([\d.]+)/);
  assert.equal(Number(selected), row.id);
  const at = states.find((step) => step.begin <= Number(time) && Number(time) < step.end);
  assert.equal(await heading.textContent().then((text) => text.trim().split(' ')[0]), String(at.value));
  await page.keyboard.press('.');
  const next = states[states.indexOf(at) + 1];
  assert.equal(await settled(() => heading.textContent().then((text) => text.trim().split(' ')[0])), String(next.value));

  await part('Selected state').getByRole('button', { name: 'Queue' }).click();
  await part('Queues').getByRole('button', { name: new RegExp(queue.name), pressed: true }).waitFor();
  await part('Queues').getByRole('button', { name: 'On the timeline' }).click();

  await page.mouse.move(box.x + box.width * 0.3, y);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.6, y, { steps: 5 });
  await page.mouse.up();
  const table = page.getByRole('table', { name: 'Values in the range' });
  await table.waitFor();
  const range = (await settled(() => page.evaluate(() => location.hash))).match(/range=(\d+)_(\d+)/).slice(1);
  const { values: [expected] } = await api(`sums?begin=${range[0]}&end=${range[1]}&rows=${row.id}`);
  const cells = await table.getByRole('row').nth(1).getByRole('cell').allTextContents();
  assert.deepEqual([cells[1], cells[3]].map((text) => Number(text.trim())), [expected.min, expected.max]);
  assert.ok(Math.abs(Number(cells[2]) - expected.mean) < 0.001 * expected.max, `${cells[2]} ${expected.mean}`);
});

test('who waits for whom is as in the wait graph, and a click pins both rows', async () => {
  const { waits, rows } = await api('waits');
  const { schema_version, ...expected } = answer('graph', '--waits');
  assert.ok(schema_version > 0);
  assert.deepEqual(waits, expected);
  assert.equal(rows.length, waits.edges.length);
  await drawer('Interaction').click();
  const { from, to } = waits.edges[0];
  const first = part('Interaction').getByRole('button', { name: `${from.machine} → ${to.machine}` }).first();
  await first.click();
  const link = await settled(() => page.evaluate(() => location.hash));
  const pinned = link.match(/pinned=([\d.]+)/)[1].split('.').map(Number);
  assert.deepEqual(pinned.sort(), rows[0].filter((row) => row !== null).sort());
  await first.click();
  assert.ok(!/pinned=\d/.test(await settled(() => page.evaluate(() => location.hash))));
});

test('the events are those that print prints, in whatever order they are asked for', async () => {
  const { items, names } = await api('event-names');
  const text = execFileSync(longpole, ['print', recording, '--json'], { maxBuffer: 1 << 28, encoding: 'utf8' });
  // The page begins with the command.
  const printed = text.trimEnd().split('\n').slice(-items).map((line) => ({ ...JSON.parse(line), t_ns: BigInt(line.match(/"t_ns":(\d+)/)[1]) }));
  assert.equal(printed.length, items);
  for (const { name, count } of names) assert.equal(printed.filter((event) => event.name === name).length, count, name);
  const origin = BigInt((await (await fetch(`${address}api/traces/1`)).json()).origin_ns);
  const equal = (line) => {
    const event = printed[line.number];
    assert.deepEqual([BigInt(line.t) + origin, line.name, line.cpu], [event.t_ns, event.name ?? '', event.cpu ?? null], String(line.number));
  };
  const some = Math.min(items, 2000);
  let read = 0;
  for (let from = 0; from !== null && read < some; ) {
    const page = await api(`events?from=${from}&limit=97`);
    page.lines.forEach(equal);
    assert.equal(page.lines[0].number, from);
    read += page.lines.length;
    from = page.after;
  }
  assert.ok(read >= some);
  for (let from = items; from > items - some; ) {
    const page = await api(`events?from=${from}&backwards=true&limit=89`);
    page.lines.forEach(equal);
    assert.equal(page.lines.at(-1).number, from - 1);
    if (page.before === null) break;
    from = page.before;
  }
  const rarest = names.at(-1).name;
  const numbers = printed.flatMap((event, number) => (event.name === rarest ? [number] : []));
  const filter = `filter=${encodeURIComponent(`name == ${JSON.stringify(rarest)}`)}`;
  const isNamed = ({ name }) => name === rarest;
  const found = await api(`events?from=0&limit=1000&${filter}`);
  assert.deepEqual(found.lines.filter(isNamed).map(({ number }) => number), numbers.slice(0, 1000));
  const last = await api(`events?from=${items}&backwards=true&limit=1000&${filter}`);
  assert.deepEqual(last.lines.filter(isNamed).map(({ number }) => number), numbers.slice(-1000));
  // The first events may be earlier than the first state.
  const middle = printed[Math.floor(items / 2)].t_ns - origin;
  const at = middle > 0n ? middle : 0n;
  const first = printed.findIndex((event) => event.t_ns - origin >= at);
  assert.equal((await api(`events?at=${at}&limit=1`)).lines[0].number, first);
  const refused = await fetch(`${address}api/traces/1/events?from=0&filter=${encodeURIComponent('name ==')}`);
  assert.equal(refused.status, 400);
  assert.match((await refused.json()).error, /name ==/);
});

test('a line of the events leads to the state of its thread', async () => {
  await focusTimeline();
  await page.keyboard.press('Escape');
  // The first one ends a range, this one the selection.
  await page.keyboard.press('Escape');
  assert.ok(!/[&#](state|range)=/.test(await settled(() => page.evaluate(() => location.hash))));
  await drawer('Events').click();
  const list = part('Events').getByRole('list');
  await list.getByRole('listitem').first().waitFor();
  // The list is around the begin; the first line there is chosen.
  const [first] = (await api('events?at=0&limit=1')).lines;
  assert.ok(first.row !== null, first.who);
  await list.locator('[aria-current="true"]').click();
  const [, row] = (await settled(() => page.evaluate(() => location.hash))).match(/[&#]state=(\d+)\.\d+/) ?? [];
  assert.equal(row, String(first.row));
  // A line of the selected state changes nothing, and the list follows the next selection.
  const current = list.locator('[aria-current="true"]');
  await current.click();
  const before = await current.textContent();
  await focusTimeline();
  for (let step = 0; step < 3; step += 1) {
    await page.keyboard.press('.');
    await settled(() => page.evaluate(() => location.hash));
  }
  const time = Number((await page.evaluate(() => location.hash)).match(/[&#]state=\d+\.(\d+)/)[1]);
  const { states: [selected] } = await api(`states?row=${row}&begin=${time}&end=${time + 1}&limit=1`);
  const [next] = (await api(`events?at=${selected.begin}&limit=1`)).lines;
  assert.notEqual(next.number, first.number);
  await until(async () => (await current.textContent()) !== before);
  await until(async () => (await current.getAttribute('title')) === `${next.who} ${next.name} ${next.text}`);
  const { names } = await api('event-names');
  const name = names[0].name;
  await part('Events').getByRole('button', { name, exact: true }).first().click();
  // A loss of events is listed whatever the condition.
  await list.locator('.plain:not(.loss) .name', { hasNotText: name }).first().waitFor({ state: 'detached' });
  assert.ok((await list.locator('.plain:not(.loss) .name').count()) > 0);
  await part('Events').getByRole('button', { name, exact: true }).first().click();
});

test('a link restores the drawer with its panel and its height', async () => {
  await drawer('Latency').click();
  const edge = (of) => of.getByRole('separator', { name: 'Height of the drawer' });
  await edge(page).focus();
  await page.keyboard.press('ArrowUp');
  const height = await edge(page).getAttribute('aria-valuenow');
  assert.match(await settled(() => page.evaluate(() => location.hash)), new RegExp(`drawer=latency\\.${height}(&|$)`));
  const other = await context.newPage();
  await other.goto(page.url());
  await other.getByRole('region', { name: 'Latency' }).waitFor();
  assert.equal(await edge(other).getAttribute('aria-valuenow'), height);
  await other.close();
  await drawer('Latency').click();
  assert.ok(!/drawer=/.test(await settled(() => page.evaluate(() => location.hash))));
});

test('the graph is that of the command, and a click or a key on a node selects its state', async () => {
  const { graph } = await api('graph');
  const expected = answer('graph', '--most', '150');
  const name = ({ class: machines, state }) => (state === null ? null : `${machines}::${state}`);
  assert.deepEqual(graph.nodes.map((it) => it.state), expected.nodes.map(name));
  assert.deepEqual(graph.nodes.map((it) => it.share), expected.nodes.map((it) => it.share));
  for (const { from, to } of graph.edges) {
    assert.ok(expected.edges.some((edge) => edge.from === from && edge.to === to));
  }
  for (const at of graph.nodes.keys()) {
    assert.ok(graph.edges.some(({ from, to }) => from !== to && [from, to].includes(at)), graph.nodes[at].about);
  }
  await drawer('Graph').click();
  const nodes = part('Graph').getByRole('button');
  await nodes.first().waitFor();
  assert.deepEqual(await nodes.evaluateAll((all) => all.map((it) => it.querySelector('title').textContent)), graph.nodes.map((it) => `${it.lines[1]}; ${it.about}`));
  await part('Graph').getByRole('button', { name: graph.nodes[0].about }).waitFor();
  const { state, kind } = graph.nodes[0];
  const listed = page.getByRole('tabpanel').locator('td button[aria-pressed=true]');
  await page.getByRole('tab', { name: 'Path' }).click();
  if (await nodes.first().getAttribute('aria-pressed') === 'true') await nodes.first().click();
  await nodes.first().click();
  assert.equal(await nodes.first().getAttribute('aria-pressed'), 'true');
  assert.equal(await listed.textContent(), kind === 'link' ? state.replace(/^.*::/, 'link::') : state);
  assert.match(await settled(() => page.evaluate(() => location.hash)), new RegExp(`highlight=${encodeURIComponent(state)}(&|$)`));
  await nodes.first().focus();
  const key = graph.nodes[0].y > 0 ? 'ArrowUp' : 'ArrowDown';
  await page.keyboard.press(key);
  await page.keyboard.press('Enter');
  const other = part('Graph').locator('[aria-pressed=true]');
  assert.equal(await other.count(), 1);
  assert.notEqual(await other.getAttribute('data-node'), '0');
  await page.keyboard.press('Enter');
  assert.equal(await other.count(), 0);
});

test('a recording that is opened again has the same events, stacks, latencies, queues, waits and graph', async () => {
  assert.ok(existsSync(`${recording}/derived/timeline`), 'the timeline is kept');
  const again = await startServer(longpole, [recording]);
  const ask = async (path) => (await fetch(`${again.address}api/traces/1${path}`)).json();
  await until(async () => (await ask('')).phase === 'ready');
  for (const path of ['event-names', 'events?from=5', 'stacks', 'latency', 'latency/0', 'queues', 'queues/0', 'waits', 'graph',
    'sampled-waits?begin=0&end=1000000000000']) {
    assert.deepEqual(await ask(`/${path}`), await api(path), path);
  }
  again.server.removeAllListeners('exit');
  again.server.kill();
});

/** How many pixels of the window have this colour. */
async function pixelsOf(colour) {
  const bytes = [...(await page.screenshot())];
  return page.evaluate(async ({ bytes, colour }) => {
    const image = await createImageBitmap(new Blob([new Uint8Array(bytes)]));
    const context = new OffscreenCanvas(image.width, image.height).getContext('2d');
    context.drawImage(image, 0, 0);
    const { data } = context.getImageData(0, 0, image.width, image.height);
    let count = 0;
    for (let i = 0; i < data.length; i += 4) {
      count += Number(colour.every((part, channel) => data[i + channel] === part));
    }
    return count;
  }, { bytes, colour });
}

test('colours of classes and of states can be changed by keyboard, are drawn and kept', async () => {
  const edit = page.getByRole('button', { name: 'Edit colours' });
  const dialog = page.getByRole('dialog', { name: 'Colours of the states' });
  const swatch = part('Legend').locator('span', { hasText: 'blocked' }).locator('i').first();
  const background = () => swatch.evaluate((it) => getComputedStyle(it).backgroundColor);
  const before = await background();
  await edit.focus();
  await page.keyboard.press('Enter');
  await dialog.getByLabel('blocked', { exact: true }).fill('#123456');
  await dialog.getByLabel('running', { exact: true }).fill('#fefefe');
  await dialog.getByText('hardly differs from the background').waitFor();
  const { violations } = await new AxeBuilder({ page }).analyze();
  assert.deepEqual(violations.filter((it) => ['serious', 'critical'].includes(it.impact)).map((it) => it.id), []);
  await dialog.getByRole('button', { name: 'Reset the colour of “running”' }).click();
  assert.equal(await dialog.getByText('hardly differs').count(), 0);
  await page.keyboard.press('Escape');
  assert.equal(await background(), 'rgb(18, 52, 86)');

  await focusTimeline();
  await page.keyboard.press('Escape');
  await page.keyboard.press('Escape');
  await page.keyboard.press('f');
  assert.equal(await pixelsOf([1, 203, 33]), 0);
  // A state of the path near the middle; what is unknown has a pattern instead of a colour.
  await page.keyboard.press(']');
  const colour = part('Selected state').getByLabel('Colour');
  for (let i = 0; i < 20 && !(await colour.isVisible()); i += 1) {
    await page.keyboard.press('[');
    await page.waitForTimeout(200);
  }
  await colour.fill('#01cb21');
  await page.keyboard.press('r');
  await settled(view);
  assert.ok((await pixelsOf([1, 203, 33])) > 200, 'the state is drawn in its colour');

  await page.reload();
  await part('Verdict').getByText(report.verdict.text, { exact: false }).waitFor();
  assert.equal(await background(), 'rgb(18, 52, 86)');
  await edit.click();
  await dialog.getByText('States with a colour of their own').waitFor();
  await dialog.getByRole('button', { name: 'Reset all colours' }).click();
  await page.keyboard.press('Escape');
  assert.equal(await background(), before);
});

test('axe finds no serious violation in either theme, whatever panel is open', async () => {
  for (const colorScheme of ['light', 'dark']) {
    await page.emulateMedia({ colorScheme });
    for (const name of ['Graph', 'Stacks', 'Latency', 'Queues', 'Interaction', 'Events']) {
      await drawer(name).click();
      await page.waitForTimeout(500);
      const { violations } = await new AxeBuilder({ page }).analyze();
      const serious = violations.filter((it) => ['serious', 'critical'].includes(it.impact));
      const text = serious.map((it) => `${name}: ${it.id}: ${it.help}: ${it.nodes[0].html}`).join('\n');
      assert.equal(serious.length, 0, text);
    }
  }
});

test('the page is drawn in two sizes and themes', async () => {
  for (const name of ['Graph', 'Stacks', 'Latency', 'Queues', 'Interaction', 'Events']) {
    await page.setViewportSize({ width: 1280, height: 800 });
    await drawer(name).click();
    await settled(view);
    const path = screenshots ? `${screenshots}/viewer-${name}.png` : undefined;
    assert.ok((await page.screenshot({ path })).length > 20_000);
    const overflow = await page.evaluate(() => document.documentElement.scrollWidth > window.innerWidth);
    assert.ok(!overflow, `nothing is wider than the window with ${name}`);
  }
  await drawer('Interaction').click();
  for (const [width, height] of [[1280, 800], [2560, 1440]]) {
    for (const colorScheme of ['light', 'dark']) {
      await page.setViewportSize({ width, height });
      await page.emulateMedia({ colorScheme });
      await focusTimeline();
      await page.keyboard.press('Escape');
      await page.keyboard.press('Escape');
      await page.keyboard.press('e');
      await settled(view);
      await page.waitForTimeout(500);
      const path = screenshots ? `${screenshots}/viewer-${width}-${colorScheme}.png` : undefined;
      const image = await page.screenshot({ path });
      assert.ok(image.length > 20_000, 'the page is not empty');
      const overflow = await page.evaluate(() => document.documentElement.scrollWidth > window.innerWidth);
      assert.ok(!overflow, `nothing is wider than the window at ${width}`);
    }
  }
});

test('nothing is loaded from elsewhere, and nothing was reported as an error', async () => {
  assert.deepEqual([...requested], [new URL(address).host]);
  assert.deepEqual(problems, []);
});

await runCases(opened, cases, screenshots);
