// A reader of lifecycle lines as one would write it in Node: readline, JSON.parse, the same checks.
// Prints how many lines it accepted and how many nanoseconds that took.
import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';

const STATES = new Set(['created', 'starting', 'running', 'waiting', 'completed', 'failed', 'cancelled', 'lost']);
const TERMINAL = new Set(['completed', 'failed', 'cancelled', 'lost']);
const KINDS = new Set(['created', 'state_changed', 'activity', 'heartbeat', 'terminal', 'reconciliation', 'diagnostic']);
const CAPABILITIES = ['history', 'heartbeat', 'snapshot', 'cancel', 'terminalCause'];
const TIME = /^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])T([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,9})?(Z|\+00:00)$/;
const CONTROL = /[\u0000-\u001f\u007f-\u009f]/;

const id = (v) => typeof v === 'string' && v.length > 0 && v.length <= 512 && !CONTROL.test(v);
const integer = (v) => Number.isSafeInteger(v) && v >= 0;
const object = (v) => typeof v === 'object' && v !== null && !Array.isArray(v);
const time = (v) => typeof v === 'string' && TIME.test(v) && !Number.isNaN(Date.parse(v));

function accepts(line) {
  if (Buffer.byteLength(line) > 65536) return false;
  let e;
  try { e = JSON.parse(line); } catch { return false; }
  if (!object(e) || e.schemaVersion !== 1) return false;
  if (!id(e.eventId) || !id(e.source) || !id(e.sourceEpoch) || !id(e.childId)) return false;
  const l = e.lineage;
  if (!object(l) || !id(l.rootChildId) || !integer(l.attempt) || typeof l.external !== 'boolean') return false;
  if (l.parentChildId !== undefined && (!id(l.parentChildId) || l.parentChildId === e.childId)) return false;
  if (l.external !== (l.adoptedAt !== undefined) || (l.adoptedAt !== undefined && !time(l.adoptedAt))) return false;
  if (l.attempt > 0 && l.rootChildId === e.childId) return false;
  if (!KINDS.has(e.kind) || !time(e.observedAt)) return false;
  if (e.state !== undefined && !STATES.has(e.state)) return false;
  switch (e.kind) {
    case 'created': if (e.state !== 'created') return false; break;
    case 'state_changed': if (e.state === undefined) return false; break;
    case 'terminal': if (!TERMINAL.has(e.state)) return false; break;
    case 'activity': case 'heartbeat': if (e.state !== undefined) return false; break;
  }
  if (e.sequence !== undefined && !integer(e.sequence)) return false;
  if (e.activity !== undefined && typeof e.activity !== 'string') return false;
  if (e.details !== undefined && !object(e.details)) return false;
  const c = e.capabilities;
  if (c !== undefined) {
    if (!object(c)) return false;
    for (const key of CAPABILITIES) if (c[key] !== 'known' && c[key] !== 'unknown') return false;
  }
  return true;
}

const start = process.hrtime.bigint();
let accepted = 0;
for await (const line of createInterface({ input: createReadStream(process.argv[2]), crlfDelay: Infinity })) {
  if (accepts(line)) accepted += 1;
}
console.log(`${accepted} ${process.hrtime.bigint() - start}`);
