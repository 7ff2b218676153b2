// graphile-worker, the npm package.

import { Logger, makeWorkerUtils, run } from "graphile-worker";
import pg from "pg";
import { begun, concurrency, measure, payload } from "./child.js";

const logger = new Logger(() => (level, message) => {
  if (level === "error") console.error(message);
});

// https://worker.graphile.org/docs/performance, "Quick stats": the configuration of its own figures.
const best = {
  concurrentJobs: 24,
  maxPoolSize: 25,
  localQueue: { size: 500 },
  completeJobBatchDelay: 0,
  failJobBatchDelay: 0,
};
// The defaults for batching are none; the pool is of the size that `maxPoolSize` recommends.
const unbatched = { concurrentJobs: concurrency, maxPoolSize: Math.max(10, concurrency + 2) };

await measure("graphile-worker", async (connectionString, connections) => {
  const pgPool = new pg.Pool({ connectionString, max: connections });
  // https://worker.graphile.org/docs/library/run: a pool of one's own needs handlers for errors.
  pgPool.on("error", console.error);
  pgPool.on("connect", (client) => client.on("error", console.error));
  const utils = await makeWorkerUtils({ pgPool, logger });
  await utils.migrate();
  return {
    enqueueMany: (size) => utils.addJobs(Array.from({ length: size }, () => ({ identifier: "noop", payload }))),
    enqueueOne: () => utils.addJob("noop", payload),
    start: () =>
      run({
        preset: { worker: { connectionString, logger, ...(concurrency ? unbatched : best) } },
        taskList: { noop: async () => begun() },
        parsedCronItems: [],
        noHandleSignals: true,
      }),
  };
});
