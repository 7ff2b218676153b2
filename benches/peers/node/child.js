// What the parent asks of a child in Node: the same shapes as src/child/mod.rs.

import { readFileSync } from "node:fs";
import pg from "pg";

const DEADLINE_MS = 600_000;
const START_UP_MS = 2_000;
const REST_MS = 20;
const WARM_UP = 10;

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

const order = JSON.parse(process.argv[2]);
export const payload = { filler: order.filler };
/** So many at a time, each by itself; undefined in the other shapes. */
export const concurrency = order.shape.unbatched;

let count = 0;
let waiting;

/** Called by each handler, first of all. */
export function begun() {
  count += 1;
  waiting?.(performance.now());
}

function* chunks() {
  for (let first = 0; first < order.jobs; first += order.chunk) {
    yield Math.min(order.chunk, order.jobs - first);
  }
}

const rate = (jobs, started, ended) => (jobs * 1000) / (ended - started);

const quantile = (values, part) =>
  values.toSorted((a, b) => a - b)[Math.max(Math.ceil(values.length * part) - 1, 0)];

async function allCompleted(watch, started) {
  for (;;) {
    const looked = performance.now();
    if (count >= order.jobs) {
      const left = await watch.query(order.left);
      if (left.rows[0].count === "0") return looked;
    }
    if (looked - started > DEADLINE_MS) throw new Error(`${count} of ${order.jobs} jobs began`);
    await sleep(1);
  }
}

async function work(system) {
  let started = performance.now();
  for (const size of chunks()) await system.enqueueMany(size);
  const bulk = rate(order.jobs, started, performance.now());
  const watch = new pg.Client({ connectionString: order.url });
  await watch.connect();
  await watch.query("ANALYZE");
  started = performance.now();
  await system.start();
  const ended = await allCompleted(watch, started);
  return { rate: rate(order.jobs, started, ended), bulk };
}

async function single(system) {
  const started = performance.now();
  const lanes = Array.from({ length: order.connections }, async (_, lane) => {
    const share = Math.floor((order.jobs + lane) / order.connections);
    for (let job = 0; job < share; job += 1) await system.enqueueOne();
  });
  await Promise.all(lanes);
  return { rate: rate(order.jobs, started, performance.now()) };
}

async function pickup(system) {
  await system.start();
  await sleep(START_UP_MS);
  const waits = [];
  for (let sample = 0; sample < order.jobs + WARM_UP; sample += 1) {
    const began = new Promise((resolve) => (waiting = resolve));
    const called = performance.now();
    await system.enqueueOne();
    const wait = (await began) - called;
    if (sample >= WARM_UP) waits.push(wait);
    await sleep(REST_MS);
  }
  return { p50: quantile(waits, 0.5), p99: quantile(waits, 0.99) };
}

/** Measures what `prepare(url, connections)` returns, and ends the process. */
export async function measure(name, prepare) {
  const system = await prepare(order.url, order.connections);
  const shape = { prepare: () => ({}), work, single, pickup }[order.shape] ?? work;
  const answer = await shape(system);
  const manifest = new URL(`node_modules/${name}/package.json`, import.meta.url);
  const version = `${JSON.parse(readFileSync(manifest)).version}, Node ${process.versions.node}`;
  console.log(JSON.stringify({ ...answer, begun: count, version }));
  process.exit(0);
}
