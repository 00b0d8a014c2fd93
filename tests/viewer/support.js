// What the tests of the page share: the server, the browser, the list of cases.

import { spawn } from 'node:child_process';
import { chromium } from 'playwright-core';

/** Starts `longpole view`, and returns the process and the address that it prints. */
export function startServer(longpole, traces) {
  const server = spawn(longpole, ['view', '--no-open', ...traces]);
  server.stderr.pipe(process.stderr);
  return new Promise((resolve, reject) => {
    let text = '';
    server.stdout.on('data', (data) => {
      text += data;
      if (text.includes('\n')) resolve({ server, address: text.split('\n')[0] });
    });
    server.on('exit', (code) => reject(new Error(`longpole view ended with ${code}: ${text}`)));
  });
}

/** Opens traces in the browser. `problems` are errors of the page, `requested` the hosts asked. */
export async function open(longpole, browserProgram, traces) {
  const { server, address } = await startServer(longpole, traces);
  const browser = await chromium.launch({
    executablePath: browserProgram,
    args: ['--no-sandbox', '--use-gl=angle', '--use-angle=swiftshader', '--enable-unsafe-swiftshader'],
  });
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
  const page = await context.newPage();
  page.setDefaultTimeout(60_000);
  const problems = [];
  page.on('console', (message) => {
    if (message.type() === 'error') problems.push(message.text());
  });
  page.on('pageerror', (error) => problems.push(String(error)));
  const requested = new Set();
  page.on('request', (request) => requested.add(new URL(request.url()).host));
  const close = async () => {
    await browser.close();
    server.removeAllListeners('exit');
    server.kill();
  };
  return { address, context, page, problems, requested, close };
}

/** Waits until a value no longer changes. The page writes its link a moment after a change. */
export async function settled(page, read) {
  let last = await read();
  for (;;) {
    await page.waitForTimeout(1000);
    const now = await read();
    if (JSON.stringify(now) === JSON.stringify(last)) return now;
    last = now;
  }
}

/** Waits until a condition holds, and fails if it does not within a minute. */
export async function until(holds) {
  const deadline = Date.now() + 60_000;
  while (!(await holds())) {
    if (Date.now() > deadline) throw new Error(`not within a minute: ${holds}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

/** Runs cases on the page, one after the other, and ends the process. */
export async function runCases({ address, page, close }, cases, screenshots) {
  let failed = 0;
  try {
    await page.goto(address);
    for (const { name, run } of cases) {
      try {
        await run();
        console.log(`ok: ${name}`);
      } catch (error) {
        failed += 1;
        console.log(`FAILED: ${name}\n${error.stack}`);
        if (screenshots) await page.screenshot({ path: `${screenshots}/failed-${failed}.png` });
      }
    }
  } finally {
    await close();
  }
  console.log(`${cases.length - failed} of ${cases.length} cases passed`);
  process.exit(failed === 0 ? 0 : 1);
}
