//! awa, on the queue storage that it uses by default.

use std::time::Duration;

use awa::model::{QueueStorage, QueueStorageConfig};
use awa::{Client, InsertOpts, InsertParams, JobArgs, JobResult, QueueConfig};
use serde::{Deserialize, Serialize};
use sqlx_08::PgPool;
use sqlx_08::postgres::PgPoolOptions;
use tokio::runtime::Runtime;

use super::{Order, Outcome, Shape, System, at_once, begun, chunks, runtime};

#[derive(Clone, Serialize, Deserialize, JobArgs)]
struct Noop {
    filler: String,
}

pub(super) struct Awa {
    runtime: Runtime,
    pool: PgPool,
}

fn noop(order: &Order) -> Noop {
    Noop {
        filler: order.filler.clone(),
    }
}

impl System for Awa {
    fn prepare(order: &Order) -> Outcome<Self> {
        let runtime = runtime()?;
        let connections = u32::try_from(order.connections)?;
        let options = PgPoolOptions::new()
            .min_connections(connections)
            .max_connections(connections);
        let pool = runtime.block_on(options.connect(&order.url))?;
        if order.shape == Shape::Prepare {
            runtime.block_on(awa::migrations::run(&pool))?;
            // Otherwise jobs that are enqueued before the first worker starts go to the tables of earlier versions.
            let storage = QueueStorage::new(QueueStorageConfig::default())?;
            runtime.block_on(storage.install(&pool))?;
        }
        Ok(Self { runtime, pool })
    }

    /// `insert_many_copy`'s documentation: "For high-volume queue-storage producers, prefer
    /// `QueueStorage::enqueue_params_copy`".
    fn enqueue_bulk(&self, order: &Order) -> Outcome<()> {
        let storage = QueueStorage::new(QueueStorageConfig::default())?;
        for size in chunks(order) {
            let args = serde_json::to_value(noop(order))?;
            let job = InsertParams {
                kind: Noop::kind().to_owned(),
                args,
                opts: InsertOpts::default(),
            };
            let jobs = vec![job; size];
            self.runtime.block_on(storage.enqueue_params_copy(&self.pool, &jobs))?;
        }
        Ok(())
    }

    fn enqueue_singly(&self, order: &Order) -> Outcome<()> {
        at_once(&self.runtime, order, |share| {
            let pool = self.pool.clone();
            let job = noop(order);
            async move {
                for _ in 0..share {
                    awa::insert(&pool, &job).await?;
                }
                Ok(())
            }
        })
    }

    fn enqueue_one(&self, order: &Order) -> Outcome<()> {
        self.runtime.block_on(awa::insert(&self.pool, &noop(order)))?;
        Ok(())
    }

    fn start(&self, order: &Order) -> Outcome<()> {
        // The project's own benchmark, tests/benchmark_test.rs in the crate (`test_throughput_rust_workers_queue_storage`):
        // 100 workers, a pool of 20, a look every 50 ms, no deadline, which allows claims without a lease row.
        let common = QueueConfig {
            poll_interval: Duration::from_millis(50),
            deadline_duration: Duration::ZERO,
            ..QueueConfig::default()
        };
        let (config, connections) = match order.shape {
            // With `AWA_COMPLETION_BATCH_SIZE=1` and as many shards, which the parent sets.
            Shape::Unbatched(workers) => {
                let config = QueueConfig {
                    max_workers: u32::try_from(workers)?,
                    claimers: u16::try_from(workers)?,
                    claim_batch_size: 1,
                    ..common
                };
                (config, 2 * u32::try_from(workers)? + 4)
            }
            _ => (
                QueueConfig {
                    max_workers: 100,
                    ..common
                },
                20,
            ),
        };
        let pool = PgPoolOptions::new().max_connections(connections);
        let pool = self.runtime.block_on(pool.connect(&order.url))?;
        let client = Client::builder(pool)
            .queue("default", config)
            .register::<Noop, _, _>(|_, _| async {
                begun();
                Ok(JobResult::Completed)
            })
            .build()?;
        self.runtime.block_on(client.start())?;
        std::mem::forget(client);
        Ok(())
    }
}
