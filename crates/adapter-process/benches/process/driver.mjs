// Plays the seed's runtime as a contestant: the same work, the same figures, on one line.
import { readFileSync } from 'node:fs';
import { createNodeProcessAgentRuntime } from './process.mjs';

const [what, of] = process.argv.slice(2);
const input = { projectRoot: '/', project: { slug: 'b', name: 'b', protocol: '1' } };

function childTicks() {
  const stat = readFileSync('/proc/self/stat', 'utf8');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[13]) + Number(fields[14])) / 100;
}
function memory(of) {
  const line = readFileSync('/proc/self/status', 'utf8').split('\n').find((l) => l.startsWith(of));
  return Number(line.split(/\s+/)[1]);
}
function clocks() {
  const own = process.cpuUsage();
  return { own: (own.user + own.system) / 1e6, children: childTicks(), wall: performance.now() };
}
function figures(before, kibEach = 0) {
  const now = clocks();
  console.log(now.own - before.own, now.children - before.children,
    (now.wall - before.wall) / 1e3, memory('VmHWM:'), kibEach);
}
function ended(handle, lines) {
  return new Promise((resolve) => {
    let seen = 0, over = false;
    const done = () => { if (over && (lines === undefined || seen >= lines)) resolve(); };
    handle.subscribe((event) => {
      if (event.type === 'log') { seen += 1; }
      if (event.type === 'status' && (event.status === 'stopped' || event.status === 'crashed')) { over = true; }
      done();
    });
  });
}
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

if (what === 'lines') {
  const runtime = createNodeProcessAgentRuntime({ command: 'cat', args: [of] });
  const before = clocks();
  await ended(await runtime.start(input), 1_000_000);
  figures(before);
} else if (what === 'short') {
  const runtime = createNodeProcessAgentRuntime({ command: 'true', args: [] });
  const before = clocks();
  for (let at = 0; at < Number(of); at += 1) await ended(await runtime.start(input));
  figures(before);
} else if (what === 'idle') {
  const runtime = createNodeProcessAgentRuntime({ command: 'sleep', args: ['600'] });
  const warm = await runtime.start(input);
  await sleep(200);
  const rss = memory('VmRSS:');
  const handles = [];
  for (let at = 0; at < Number(of); at += 1) {
    const handle = await runtime.start(input);
    handle.subscribe(() => {});
    handles.push(handle);
  }
  await sleep(3000);
  const each = (memory('VmRSS:') - rss) / Number(of);
  const before = clocks();
  await Promise.all(handles.map((handle) => handle.stop()));
  figures(before, each);
  await warm.stop();
}
