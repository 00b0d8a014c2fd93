// The places of `places.c` in Node. Its waits block the thread.
//
// usage: places.js SECONDS
'use strict';

const cell = new Int32Array(new SharedArrayBuffer(4));
const now = () => process.hrtime.bigint();
let sink = 0;

function computes(ms) {
  const end = performance.now() + ms;
  let x = 1;
  while (performance.now() < end)
    for (let i = 0; i < 10000; i++)
      x = (Math.imul(x, 1664525) + 1013904223) | 0;
  sink = x;
}

function waits_long() {
  Atomics.wait(cell, 0, 0, 6);
}

function waits_short() {
  Atomics.wait(cell, 0, 0, 0.15);
}

function stage_of_waits() {
  for (let i = 0; i < 8; i++)
    waits_short();
}

const times = { computes: 0n, waits_long: 0n, waits_short: 0n };
const end = now() + BigInt(Math.round(parseFloat(process.argv[2]) * 1e9));
while (now() < end) {
  const begin = now();
  computes(3);
  const computed = now();
  waits_long();
  const waited = now();
  stage_of_waits();
  times.computes += computed - begin;
  times.waits_long += waited - computed;
  times.waits_short += now() - waited;
}
for (const [name, ns] of Object.entries(times))
  console.log(`${name} ${ns}`);
