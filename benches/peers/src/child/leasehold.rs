//! Leasehold itself, with its defaults.

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

pub(super) struct Leasehold;

fn noop(order: &Order) -> Noop {
    Noop {
        filler: order.filler.clone(),
    }
}

impl System for Leasehold {
    fn prepare(order: &Order) -> Outcome<Self> {
        leasehold::migrate(&mut PgConnection::establish(&order.url)?)?;
        Ok(Self)
    }

    fn enqueue_bulk(&self, order: &Order) -> Outcome<()> {
        let mut conn = PgConnection::establish(&order.url)?;
        for size in chunks(order) {
            let jobs: Vec<Noop> = (0..size).map(|_| noop(order)).collect();
            Noop::enqueue_all(&jobs, &mut conn, &EnqueueOptions::new())?;
        }
        Ok(())
    }

    fn enqueue_singly(&self, order: &Order) -> Outcome<()> {
        thread::scope(|scope| {
            let threads: Vec<_> = shares(order)
                .into_iter()
                .map(|share| {
                    scope.spawn(move || {
                        let mut conn = PgConnection::establish(&order.url)?;
                        (0..share).try_for_each(|_| noop(order).enqueue(&mut conn).map(drop))?;
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
        thread_local! {
            static CONNECTION: std::cell::RefCell<Option<PgConnection>> = const { std::cell::RefCell::new(None) };
        }
        CONNECTION.with_borrow_mut(|conn| {
            if conn.is_none() {
                *conn = Some(PgConnection::establish(&order.url)?);
            }
            if let Some(conn) = conn {
                noop(order).enqueue(conn)?;
            }
            Ok(())
        })
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
