// pg-boss, the npm package.

import { PgBoss } from "pg-boss";
import { begun, concurrency, measure, payload } from "./child.js";

const QUEUE = "noop";
const BATCH = 500;

await measure("pg-boss", async (connectionString, connections) => {
  // `useListenNotify`, and `notify` of the queue: https://pgboss.io/api/constructor and /api/queues.
  const boss = new PgBoss({
    connectionString,
    max: Math.max(connections, concurrency ?? 0) + 2,
    useListenNotify: true,
  });
  boss.on("error", (error) => console.error(error));
  await boss.start();
  await boss.createQueue(QUEUE, { notify: true });

  // A worker of one job at a time waits half a second between two of them; `fetch` and `complete` do not.
  const oneByOne = async () => {
    for (;;) {
      const [job] = await boss.fetch(QUEUE);
      if (!job) return;
      begun();
      await boss.complete(QUEUE, job.id);
    }
  };
  // https://pgboss.io/api/workers: batches, four of them under way, and no pause while they are full.
  const batches = () =>
    boss.work(QUEUE, { batchSize: BATCH, localConcurrency: 4, burstWhenBatchFull: true }, async (jobs) =>
      jobs.forEach(begun),
    );

  return {
    enqueueMany: (size) => boss.insert(QUEUE, Array.from({ length: size }, () => ({ data: payload }))),
    enqueueOne: () => boss.send(QUEUE, payload),
    start: () => (concurrency ? void Array.from({ length: concurrency }, oneByOne) : batches()),
  };
});
