//! apalis with apalis-postgres.

use std::time::Duration;

use apalis::prelude::*;
use apalis_postgres::{Config, PgPool, PostgresStorage};
use serde::{Deserialize, Serialize};
use sqlx::postgres::PgPoolOptions;
use tokio::runtime::Runtime;

use super::{Order, Outcome, Shape, System, at_once, begun, chunks, runtime};

/// `Config::batch_size`: "Larger batches can improve throughput"; its tests use 50.
const BATCH: usize = 500;

#[derive(Clone, Serialize, Deserialize)]
struct Noop {
    filler: String,
}

async fn handle(_: Noop) -> Result<(), BoxDynError> {
    begun();
    Ok(())
}

pub(super) struct Apalis {
    runtime: Runtime,
    pool: PgPool,
}

fn noop(order: &Order) -> Noop {
    Noop {
        filler: order.filler.clone(),
    }
}

impl Apalis {
    fn storage(pool: &PgPool, batch: usize) -> PostgresStorage<Noop> {
        // `lock_tasks(false)`, as in the tests of the crate: fetched jobs are not marked once more when their handler
        // begins. Results are persisted, as by default: without it no job is completed in the table.
        let config = Config::default().queue("noop").batch_size(batch).lock_tasks(false);
        PostgresStorage::new(pool).with_config(config)
    }
}

impl System for Apalis {
    fn prepare(order: &Order) -> Outcome<Self> {
        let runtime = runtime()?;
        let connections = u32::try_from(order.connections)?;
        let options = PgPoolOptions::new()
            .min_connections(connections)
            .max_connections(connections);
        let pool = runtime.block_on(options.connect(&order.url))?;
        runtime.block_on(PostgresStorage::setup(&pool))?;
        Ok(Self { runtime, pool })
    }

    fn enqueue_bulk(&self, order: &Order) -> Outcome<()> {
        let mut storage = Self::storage(&self.pool, BATCH);
        for size in chunks(order) {
            let jobs = vec![noop(order); size];
            self.runtime.block_on(storage.push_bulk(jobs))?;
        }
        Ok(())
    }

    fn enqueue_singly(&self, order: &Order) -> Outcome<()> {
        at_once(&self.runtime, order, |share| {
            let mut storage = Self::storage(&self.pool, BATCH);
            let job = noop(order);
            async move {
                for _ in 0..share {
                    storage.push(job.clone()).await?;
                }
                Ok(())
            }
        })
    }

    fn enqueue_one(&self, order: &Order) -> Outcome<()> {
        self.runtime
            .block_on(Self::storage(&self.pool, BATCH).push(noop(order)))?;
        Ok(())
    }

    fn start(&self, order: &Order) -> Outcome<()> {
        let workers = match order.shape {
            Shape::Unbatched(workers) => workers,
            _ => 1,
        };
        // For each worker: one to listen, one to fetch and complete, and some that nobody has to wait.
        let pool = PgPoolOptions::new().max_connections(2 * u32::try_from(workers)? + 8);
        let pool = self.runtime.block_on(pool.connect(&order.url))?;
        match order.shape {
            // A worker fetches for itself, one batch at a time: for more at once there must be more of them.
            Shape::Unbatched(workers) => {
                for worker in 0..workers {
                    self.spawn(format!("worker-{worker}"), &pool, 1);
                }
            }
            _ => self.spawn("worker".to_owned(), &pool, BATCH),
        }
        Ok(())
    }
}

impl Apalis {
    /// The README's "Pubsub listener example", with handlers in tasks of their own as in the README of apalis.
    fn spawn(&self, name: String, pool: &PgPool, batch: usize) {
        let storage = Self::storage(pool, batch);
        let runtime = self.runtime.handle().clone();
        // The worker's future is not `Send`.
        std::thread::spawn(move || {
            let _context = runtime.enter();
            let worker = WorkerBuilder::new(name)
                .backend(storage.with_pubsub().poll_with_interval(Duration::from_millis(100)))
                .concurrency(batch)
                .parallelize(tokio::spawn)
                .build(handle);
            if let Err(error) = runtime.block_on(worker.run()) {
                eprintln!("apalis: {error}");
            }
        });
    }
}
