// Shows packets in the page of `longpole view`: those of a capture that the test writes, and with
// root those of a recording with the kernel's events.
//
// usage: node packets.js LONGPOLE CHROMIUM FOLDER RECORDING [SCREENSHOTS]
//
// FOLDER is where the capture is written; RECORDING is empty without root.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { AxeBuilder } from '@axe-core/playwright';
import { open, runCases, until, settled as waitUntilSettled } from './support.js';

const [longpole, browserProgram, folder, recording, screenshots] = process.argv.slice(2);

/** A SYN ACK behind a VLAN tag with options and padding, a datagram, a request of ARP, and a packet
 * that was cut off. */
const SYN_ACK =
  '0200000000020200000000018100006408004500003c000040004006b8b90a0000010a0000020050c350112233445566' +
  '7788a012fe8814300000020405b40402080a0102030405060708010303070000';
const DATAGRAM =
  '0200000000020200000000010800450000200000000040117ac90a0000010a0000031f90c350000cabcd01020304';
const ARP =
  'ffffffffffff02000000000108060001080006040001020000000001' + '0a0000010000000000000a000002';
const CUT = SYN_ACK.slice(0, 84);
const PACKETS = [SYN_ACK, DATAGRAM, ARP, CUT, DATAGRAM];
const BEGIN_NS = 1_764_000_000_000_000_000n;
const STEP_NS = 1_000_000n;

/** A block of pcapng. */
function block(type, body) {
  const length = 12 + body.length;
  const bytes = Buffer.alloc(length);
  bytes.writeUInt32LE(type, 0);
  bytes.writeUInt32LE(length, 4);
  body.copy(bytes, 8);
  bytes.writeUInt32LE(length, length - 4);
  return bytes;
}

function padded(bytes) {
  return Buffer.concat([bytes, Buffer.alloc((4 - (bytes.length % 4)) % 4)]);
}

function option(code, value) {
  const head = Buffer.alloc(4);
  head.writeUInt16LE(code, 0);
  head.writeUInt16LE(value.length, 2);
  return Buffer.concat([head, padded(value)]);
}

function capture() {
  const section = Buffer.from('4d3c2b1a01000000ffffffffffffffff', 'hex');
  const name = option(2, Buffer.from('lab0'));
  const resolution = option(9, Buffer.from([9]));
  const device = Buffer.concat([Buffer.from('0100000000000100', 'hex'), name, resolution, Buffer.alloc(4)]);
  const packets = PACKETS.map((digits, i) => {
    const data = Buffer.from(digits, 'hex');
    const head = Buffer.alloc(20);
    const t = BEGIN_NS + BigInt(i) * STEP_NS;
    head.writeUInt32LE(Number(t >> 32n), 4);
    head.writeUInt32LE(Number(t & 0xffffffffn), 8);
    head.writeUInt32LE(data.length, 12);
    head.writeUInt32LE(Math.max(data.length, SYN_ACK.length / 2), 16);
    return block(6, Buffer.concat([head, padded(data)]));
  });
  return Buffer.concat([block(0x0a0d0d0a, section), block(1, device), ...packets]);
}

const file = `${folder}/lab.pcapng`;
writeFileSync(file, capture());
const opened = await open(longpole, browserProgram, [file, ...(recording ? [recording] : [])]);
const { address, page, problems } = opened;

const cases = [];
/** A case; its name is the sentence that it proves. */
function test(name, run) {
  cases.push({ name, run });
}

const part = (name) => page.getByRole('region', { name });
const settled = (read) => waitUntilSettled(page, read);
const api = (path) =>
  page.evaluate(async (path) => {
    const answer = await fetch(`api/traces/${path}`);
    return answer.json();
  }, path);

async function ready(trace) {
  await until(async () => (await api(trace)).phase === 'ready');
  return (await api(`${trace}/rows`)).rows;
}

/** Opens a link to the packet of a row at a time. */
async function select(trace, row, begin, end) {
  await page.goto('about:blank');
  const view = `${begin - 100_000}_${end + 100_000}`;
  await page.goto(`${address}#trace=${trace}&view=${view}&state=${row}.${begin}`);
  await page.getByRole('tab', { name: 'Details' }).click();
  await part('Selected packet').getByText(/bytes/).first().waitFor();
}

test('a capture has a row for each conversation, below its interface', async () => {
  const rows = await ready(1);
  const head = rows.find((row) => row.kind === 'packets');
  assert.equal(head.name, 'packets of lab0');
  const captured = rows.filter((row) => row.kind === 'captured');
  assert.ok(captured.every((row) => row.parent === head.id));
  const counts = captured.map((row) => `${row.name}: ${row.states}`).sort();
  assert.deepEqual(counts, [
    '10.0.0.1 ↔ 10.0.0.2: 2',
    '10.0.0.1:80 ↔ 10.0.0.2:50000: 1',
    '10.0.0.1:8080 ↔ 10.0.0.3:50000: 2',
  ]);
});

test('a packet shows its fields, and a field marks its bytes', async () => {
  const row = (await ready(1)).find((it) => it.name.startsWith('10.0.0.1:80 '));
  const { states } = await api(`1/states?row=${row.id}`);
  await select(1, row.id, states[0].begin, states[0].end);
  const packet = part('Selected packet');
  await packet.getByRole('heading', { name: 'TCP SYN ACK' }).waitFor();
  const field = packet.getByRole('button', { name: 'destination port 50000' });
  await field.focus();
  await page.keyboard.press('Enter');
  assert.equal(await field.getAttribute('aria-pressed'), 'true');
  const marked = await packet.locator('pre .marked').allTextContents();
  assert.deepEqual(marked, ['c3', '50']);
  const bytes = await packet.locator('pre').textContent();
  const digits = bytes.split('\n').map((line) => line.slice(4, 4 + 16 * 3)).join('').replace(/\s/g, '');
  assert.equal(digits, SYN_ACK);
  if (screenshots) await page.screenshot({ path: `${screenshots}/packets-captured.png` });
});

test('packets that are cut off, and ARP, are shown as far as they go', async () => {
  const row = (await ready(1)).find((it) => it.name === '10.0.0.1 ↔ 10.0.0.2');
  const { states } = await api(`1/states?row=${row.id}`);
  const packets = await Promise.all(states.map(({ begin }) => api(`1/packet?row=${row.id}&t=${begin}`)));
  assert.deepEqual(packets.map(({ frames }) => frames[0].summary).sort(), ['ARP request', 'IPv4 TCP']);
  assert.deepEqual(packets.map(({ frames }) => frames[0].bytes).sort(), [ARP, CUT].sort());
});

test('the next packet of the row is selected by a key', async () => {
  const row = (await ready(1)).find((it) => it.name.startsWith('10.0.0.1:8080'));
  const { states } = await api(`1/states?row=${row.id}`);
  await select(1, row.id, states[0].begin, states[0].end);
  await page.getByRole('application', { name: 'States over time' }).focus();
  await page.keyboard.press('.');
  const link = await settled(() => page.evaluate(() => location.hash));
  const time = Number(link.match(/state=\d+\.([\d.]+)/)[1]);
  assert.ok(states[1].begin <= time && time < states[1].end, link);
  await part('Selected packet').getByRole('heading', { name: 'UDP' }).waitFor();
});

test('a packet of the kernel has the path that the command prints, through the rows', async () => {
  if (!recording) {
    console.log('skipped: the path of a packet (not root)');
    return;
  }
  const rows = await ready(2);
  const flows = rows.filter((row) => row.kind === 'flow').sort((a, b) => b.states - a.states);
  let found = null;
  for (const row of flows) {
    const { states } = await api(`2/states?row=${row.id}&limit=20`);
    const state = states[Math.floor(states.length / 2)];
    const packet = await api(`2/packet?row=${row.id}&t=${state.begin}`);
    if (packet.path?.reader) {
      found = { row, state, packet };
      break;
    }
  }
  assert.ok(found, 'a packet was read');
  const { row, state, packet } = found;
  const text = execFileSync(longpole, ['packets', recording, '--journey', String(packet.path.number), '--json']).toString();
  const journey = JSON.parse(text);
  assert.equal(packet.path.length, journey.length);
  // As whole numbers, which are too large for numbers of JavaScript.
  const [begin, end] = ['begin_ns', 'end_ns'].map((name) => BigInt(text.match(new RegExp(`"${name}": *(\\d+)`))[1]));
  assert.equal(packet.path.end - packet.path.begin, Number(end - begin));
  assert.deepEqual(packet.frames.map(({ bytes }) => bytes), journey.frames.map(({ bytes }) => bytes));
  assert.ok(packet.frames.length > 0 && packet.frames.every(({ summary }) => summary === 'UDP'));
  const texts = packet.chain.map((place) => place.text.replace(/ \(.*\)$/, ''));
  for (const { step } of journey.steps) assert.ok(texts.includes(step), `${step} of ${texts}`);
  assert.ok(packet.chain.every((place, i) => i === 0 || place.t >= packet.chain[i - 1].t));
  const kinds = packet.chain.map((place) => rows.find((it) => it.id === place.row)?.kind);
  assert.equal(kinds[0], 'thread');
  assert.ok(kinds.includes('interrupt'), `${kinds}`);
  await select(2, row.id, state.begin, state.end);
  const shown = await part('Selected packet').getByRole('list', { name: 'Path of the packet' }).getByRole('listitem').count();
  assert.equal(shown, packet.chain.length);
  if (screenshots) await page.screenshot({ path: `${screenshots}/packets-path.png` });
});

test('axe finds no serious violation with a packet, and nothing was reported as an error', async () => {
  for (const colorScheme of ['light', 'dark']) {
    await page.emulateMedia({ colorScheme });
    await page.waitForTimeout(500);
    const { violations } = await new AxeBuilder({ page }).analyze();
    const serious = violations.filter((it) => ['serious', 'critical'].includes(it.impact));
    assert.equal(serious.map((it) => `${it.id}: ${it.nodes[0].html}`).join('\n'), '');
  }
  assert.deepEqual(problems, []);
});

await runCases(opened, cases, screenshots);
