//! graphile_worker, the crate.

use std::time::Duration;

use graphile_worker::{
    IntoTaskHandlerResult, JobSpec, LocalQueueConfig, TaskHandler, WorkerContext, WorkerOptions, WorkerUtils,
};
use serde::{Deserialize, Serialize};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;
use tokio::runtime::Runtime;

use super::{Order, Outcome, Shape, System, at_once, begun, chunks, runtime};

#[derive(Clone, Serialize, Deserialize)]
struct Noop {
    filler: String,
}

impl TaskHandler for Noop {
    const IDENTIFIER: &'static str = "noop";

    async fn run(self, _: WorkerContext) -> impl IntoTaskHandlerResult {
        begun();
        Ok::<(), String>(())
    }
}

pub(super) struct GraphileWorker {
    runtime: Runtime,
    pool: PgPool,
}

fn noop(order: &Order) -> Noop {
    Noop {
        filler: order.filler.clone(),
    }
}

impl GraphileWorker {
    fn utils(&self) -> WorkerUtils {
        WorkerUtils::new(self.pool.clone(), "graphile_worker")
    }
}

impl System for GraphileWorker {
    fn prepare(order: &Order) -> Outcome<Self> {
        let runtime = runtime()?;
        let connections = u32::try_from(order.connections)?;
        let options = PgPoolOptions::new()
            .min_connections(connections)
            .max_connections(connections);
        let pool = runtime.block_on(options.connect(&order.url))?;
        let system = Self { runtime, pool };
        system.runtime.block_on(system.utils().migrate())?;
        Ok(system)
    }

    fn enqueue_bulk(&self, order: &Order) -> Outcome<()> {
        let spec = JobSpec::default();
        for size in chunks(order) {
            let jobs: Vec<_> = (0..size).map(|_| (noop(order), &spec)).collect();
            self.runtime.block_on(self.utils().add_jobs::<Noop>(&jobs))?;
        }
        Ok(())
    }

    fn enqueue_singly(&self, order: &Order) -> Outcome<()> {
        at_once(&self.runtime, order, |share| {
            let utils = self.utils();
            let job = noop(order);
            async move {
                for _ in 0..share {
                    utils.add_job(job.clone(), JobSpec::default()).await?;
                }
                Ok(())
            }
        })
    }

    fn enqueue_one(&self, order: &Order) -> Outcome<()> {
        self.runtime
            .block_on(self.utils().add_job(noop(order), JobSpec::default()))?;
        Ok(())
    }

    fn start(&self, order: &Order) -> Outcome<()> {
        let options = WorkerOptions::default().database_url(&order.url).define_job::<Noop>();
        let options = match order.shape {
            // Without `local_queue` and `complete_job_batch_delay` each job is fetched and completed by itself. A signal
            // lets each slot fetch one job, and without new jobs the signals come from the poll: at the default of a second
            // a slot does one job a second.
            Shape::Unbatched(concurrency) => options
                .concurrency(concurrency)
                .poll_interval(Duration::from_millis(1))
                .max_pg_conn(u32::try_from(concurrency)? + 2),
            // The project's own benchmark, benches/perf_test.rs in the crate: these four values, on a pool of 100.
            _ => options
                .concurrency(500)
                .poll_interval(Duration::from_millis(5))
                .complete_job_batch_delay(Duration::from_millis(5))
                .local_queue(LocalQueueConfig::default().with_size(5000))
                .max_pg_conn(100),
        };
        let worker = self.runtime.block_on(options.init())?;
        self.runtime.spawn(async move {
            if let Err(error) = worker.run().await {
                eprintln!("graphile_worker: {error}");
            }
        });
        Ok(())
    }
}
