//! Leasehold itself, with its defaults.

use std::sync::Mutex;
use std::thread;

use diesel::prelude::*;
use leasehold::{EnqueueOptions, Handler, Job, LeaseGuard, Worker};
use serde::{Deserialize, Serialize};

use super::{Order, Outcome, Shape, System, begun, chunks, shares};

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "noop")]
struct Noop {
    filler: String,
}

impl Handler<PgConnection> for Noop {
    fn run<'j>(self, lease: LeaseGuard<'j, PgConnection>, (): &()) -> leasehold::Outcome<'j> {
        begun();
        lease.finish()
    }
}

/// The connections that enqueue, open before anything is timed, as the peers' pools are.
pub(super) struct Leasehold(Mutex<Vec<PgConnection>>);

fn noop(order: &Order) -> Noop {
    Noop {
        filler: order.filler.clone(),
    }
}

impl System for Leasehold {
    fn prepare(order: &Order) -> Outcome<Self> {
        leasehold::migrate(&mut PgConnection::establish(&order.url)?)?;
        let conns = (0..order.connections).map(|_| PgConnection::establish(&order.url));
        Ok(Self(Mutex::new(conns.collect::<Result<_, _>>()?)))
    }

    fn enqueue_bulk(&self, order: &Order) -> Outcome<()> {
        let mut conns = self.0.lock().map_err(|_| "a thread panicked")?;
        for size in chunks(order) {
            let jobs: Vec<Noop> = (0..size).map(|_| noop(order)).collect();
            Noop::enqueue_all(&jobs, &mut conns[0], &EnqueueOptions::new())?;
        }
        Ok(())
    }

    fn enqueue_singly(&self, order: &Order) -> Outcome<()> {
        let mut conns = self.0.lock().map_err(|_| "a thread panicked")?;
        thread::scope(|scope| {
            let threads: Vec<_> = shares(order)
                .into_iter()
                .zip(conns.iter_mut())
                .map(|(share, conn)| {
                    scope.spawn(move || {
                        (0..share).try_for_each(|_| noop(order).enqueue(conn).map(drop))?;
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
        let mut conns = self.0.lock().map_err(|_| "a thread panicked")?;
        noop(order).enqueue(&mut conns[0])?;
        Ok(())
    }

    fn start(&self, order: &Order) -> Outcome<()> {
        let worker = Worker::<PgConnection, _>::new(&order.url, ()).register::<Noop>();
        let worker = match order.shape {
            Shape::Unbatched(threads) => worker.unbatched().threads(threads),
            _ => worker,
        };
        std::mem::forget(worker.start()?);
        Ok(())
    }
}
