//! fang, blocking: a thread and a connection for each worker. It has no bulk enqueue, no batches and no wake-up.

use std::thread;

use diesel::prelude::*;
use diesel::r2d2::{ConnectionManager, Pool};
use fang::{FangError, Queue, Queueable, Runnable, WorkerPool, typetag};
use serde::{Deserialize, Serialize};

use super::{Order, Outcome, Shape, System, begun, shares};

/// The README starts three and names no best number: as many as are tried without batching.
const WORKERS: u32 = 16;

#[derive(Serialize, Deserialize)]
#[serde(crate = "fang::serde")]
struct Noop {
    filler: String,
}

#[typetag::serde]
impl Runnable for Noop {
    fn run(&self, _: &dyn Queueable) -> Result<(), FangError> {
        begun();
        Ok(())
    }
}

pub(super) struct Fang(Queue);

/// The README's pool ("Initializing queue"), as large as its users are many.
fn queue(url: &str, size: u32) -> Outcome<Queue> {
    let pool = Pool::builder()
        .max_size(size)
        .build(ConnectionManager::<PgConnection>::new(url))?;
    Ok(Queue::builder().connection_pool(pool).build())
}

fn noop(order: &Order) -> Noop {
    Noop {
        filler: order.filler.clone(),
    }
}

impl System for Fang {
    fn prepare(order: &Order) -> Outcome<Self> {
        fang::run_migrations_postgres(&mut PgConnection::establish(&order.url)?)?;
        Ok(Self(queue(&order.url, u32::try_from(order.connections)?)?))
    }

    /// One by one: there is no other way.
    fn enqueue_bulk(&self, order: &Order) -> Outcome<()> {
        self.enqueue_singly(order)
    }

    fn enqueue_singly(&self, order: &Order) -> Outcome<()> {
        thread::scope(|scope| {
            let threads: Vec<_> = shares(order)
                .into_iter()
                .map(|share| {
                    let queue = self.0.clone();
                    scope.spawn(move || {
                        (0..share).try_for_each(|_| queue.insert_task(&noop(order)).map(drop))?;
                        Outcome::Ok(())
                    })
                })
                .collect();
            threads
                .into_iter()
                .try_for_each(|thread| thread.join().map_err(|_| "a thread panicked")?)
        })
    }

    fn enqueue_one(&self, order: &Order) -> Outcome<()> {
        self.0.insert_task(&noop(order))?;
        Ok(())
    }

    fn start(&self, order: &Order) -> Outcome<()> {
        let workers = match order.shape {
            Shape::Unbatched(workers) => u32::try_from(workers)?,
            _ => WORKERS,
        };
        // Finished tasks are removed: the default of "Configuring retention mode".
        let mut pool = WorkerPool::<Queue>::builder()
            .queue(queue(&order.url, workers)?)
            .number_of_workers(workers)
            .build();
        pool.start().map_err(|error| error.description)?;
        std::mem::forget(pool);
        Ok(())
    }
}
