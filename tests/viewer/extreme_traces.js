// Opens traces at the edges of what there is: empty, of one event, of 100,000 threads, of 1 s and of
// 30 days, all lost, damaged, of 1970 and of 2106. The page shows what is there, and says what is
// missing.
//
// usage: node extreme_traces.js LONGPOLE CHROMIUM RECORDING FOLDER [SCREENSHOTS]
// RECORDING has probes; it is copied to FOLDER and damaged there.

import assert from 'node:assert/strict';
import { cpSync, createWriteStream, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { once } from 'node:events';
import { open, until } from './support.js';

const [longpole, browserProgram, recording, folder, screenshots] = process.argv.slice(2);

const SECONDS_OF_2106 = 4_294_967_296;
const DAY = 86_400;

/** The kernel tracer's line of a switch from one thread to another; thread 0 is idle. */
function switchLine(seconds, from, to) {
  const thread = (id) => (id === 0 ? 'swapper/0' : `thread${id}`);
  const before = `prev_comm=${thread(from)} prev_pid=${from} prev_prio=120 prev_state=S`;
  const after = `next_comm=${thread(to)} next_pid=${to} next_prio=120`;
  return `${thread(from)}-${from} [000] d..2. ${seconds.toFixed(6)}: sched_switch: ${before} ==> ${after}\n`;
}

/** Writes a trace in the kernel tracer's text, of switches between thread 1 and idle, or of `lines`. */
async function text(name, lines) {
  const path = `${folder}/${name}`;
  const file = createWriteStream(path);
  file.write('# tracer: nop\n#\n');
  for (const line of lines) if (!file.write(line)) await once(file, 'drain');
  file.end();
  await once(file, 'finish');
  return path;
}

/** Alternates between thread 1 and idle: `count` switches within this time. */
function* alternating(begin, seconds, count = 1000) {
  for (let i = 0; i < count; i += 1) yield switchLine(begin + (seconds * i) / (count - 1), i % 2, (i + 1) % 2);
}

function* manyThreads(count) {
  for (let i = 1; i <= count; i += 1) yield switchLine(100 + i / 10_000, i - 1, i);
}

function* onlyLosses() {
  yield switchLine(100, 0, 1);
  yield 'CPU:0 [LOST 100000 EVENTS]\n';
  yield switchLine(200, 1, 0);
}

/** A copy of the recording in which the streams of the threads are cut and have foreign bytes. */
function damaged() {
  const copy = `${folder}/damaged`;
  cpSync(recording, copy, { recursive: true });
  rmSync(`${copy}/derived`, { recursive: true, force: true });
  const below = (at) => readdirSync(at, { recursive: true, withFileTypes: true });
  const streams = below(`${copy}/user`).filter((entry) => entry.isFile() && entry.name !== 'metadata');
  for (const [at, entry] of streams.entries()) {
    const path = `${entry.parentPath ?? entry.path}/${entry.name}`;
    const bytes = readFileSync(path);
    const middle = Math.floor(bytes.length / 2);
    bytes.fill(0xa5, middle, Math.min(middle + 64, bytes.length));
    writeFileSync(path, at % 2 === 0 ? bytes : bytes.subarray(0, middle));
  }
  return copy;
}

mkdirSync(folder, { recursive: true });
/** Name, path, and what the answers must hold. */
const traces = [
  ['empty', await text('empty.txt', []), ({ trace }) => assert.equal(trace.events, 0)],
  ['one event', await text('one.txt', [switchLine(100, 0, 1)]), ({ trace }) => assert.equal(trace.events, 1)],
  ['100,000 threads', await text('threads.txt', manyThreads(100_000)), ({ rows }) => {
    // The last thread gets the CPU when the trace ends, so it has no state.
    assert.equal(rows.filter((row) => row.kind === 'thread').length, 99_999);
  }],
  ['1 s', await text('second.txt', alternating(100, 1)), ({ trace }) => assert.equal(trace.end, 1e9)],
  ['30 days', await text('days.txt', alternating(100, 30 * DAY)), ({ trace }) => assert.equal(trace.end, 30 * DAY * 1e9)],
  ['all lost', await text('lost.txt', onlyLosses()), ({ trace }) => assert.ok(trace.lost >= 100_000, String(trace.lost))],
  ['damaged', damaged(), ({ trace }) => assert.ok(trace.phase === 'ready' || trace.error !== null)],
  ['1970', await text('1970.txt', alternating(0.000_001, 1)), ({ trace }) => assert.ok(BigInt(trace.origin_ns) < 1_000_000n)],
  ['2106', await text('2106.txt', alternating(SECONDS_OF_2106, 1)), ({ trace }) => {
    assert.equal(BigInt(trace.origin_ns), BigInt(SECONDS_OF_2106) * 1_000_000_000n);
  }],
];

let failed = 0;
for (const [name, path, check] of traces) {
  const { address, page, problems, close } = await open(longpole, browserProgram, [path]);
  try {
    await page.goto(address);
    const ask = async (what) => (await fetch(`${address}api/traces/1${what}`)).json();
    let trace;
    await until(async () => {
      trace = await ask('');
      return trace.phase === 'ready' || trace.phase === 'failed';
    });
    check({ trace, rows: (await ask('/rows')).rows });
    if (trace.error) {
      assert.match(trace.error, /\w+/);
      await page.getByText(trace.error.slice(0, 40), { exact: false }).first().waitFor();
    }
    await page.waitForTimeout(500);
    await page.getByRole('application', { name: 'States over time' }).waitFor();
    // To the last row, to the end of the time, and back.
    for (const key of ['f', 'End', 'w', 'd', 'Home', 'f']) await page.keyboard.press(key);
    await page.mouse.move(640, 400);
    await page.mouse.wheel(0, 10_000_000);
    await page.waitForTimeout(500);
    if (screenshots) await page.screenshot({ path: `${screenshots}/extreme-${name.replace(/\W+/g, '-')}.png` });
    assert.deepEqual(problems, []);
    console.log(`ok: ${name}`);
  } catch (error) {
    failed += 1;
    console.log(`FAILED: ${name}\n${error.stack}`);
    if (screenshots) await page.screenshot({ path: `${screenshots}/extreme-failed-${failed}.png` });
  } finally {
    await close();
  }
}
console.log(`${traces.length - failed} of ${traces.length} traces passed`);
process.exit(failed === 0 ? 0 : 1);
