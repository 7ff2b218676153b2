//! Jobs and queues managed by hand: cancel, discard, requeue, edit, purge, pause.
//!
//! Whatever takes a job from its worker adds one to its generation, so that the worker's writes are refused. Where many
//! jobs are meant, each chunk of them is a transaction of its own, unless the caller's transaction is open.
//!
//! Whatever changes something is [recorded](crate::inspect::actions()) in the same transaction, with the name of who did it: any
//! text, of which 255 bytes are kept. It is taken as it is given; whom to believe is the caller's affair.
//!
//! ```
//! # include!("doctest_setup.rs");
//! use leasehold::inspect::{self, Filter, State};
//! use leasehold::manage::{self, Cancel, Edit};
//! use leasehold::Schema;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let (_url, mut conn) = doctest_database();
//! let schema = Schema::default();
//! let id = Greet { name: "you".to_owned() }.enqueue(&mut conn)?.id();
//!
//! // Only if nobody has touched it since we looked.
//! let job = inspect::job(&mut conn, &schema, id)?.expect("it is there");
//! manage::edit(&mut conn, &schema, id, job.generation, &Edit::new().priority(10), "Ada")?;
//!
//! manage::cancel(&mut conn, &schema, id, Cancel::Hard, "Ada", "on holiday")?;
//! assert_eq!(inspect::job(&mut conn, &schema, id)?.map(|job| job.state), Some(State::Cancelled));
//!
//! // All that were cancelled run again.
//! let cancelled = Filter::new().state(State::Cancelled);
//! assert_eq!(manage::requeue_all(&mut conn, &schema, &cancelled, "Ada")?.requeued, 1);
//! # Ok(())
//! # }
//! ```

mod deed;
pub(crate) use deed::{Deed, signature};

mod end;
pub use end::{Cancel, cancel, cancel_all, discard, discard_all};
pub(crate) use end::{Ending, end_these};

mod requeue;
pub use requeue::{RequeueError, Requeued, requeue, requeue_all};

mod edit;
pub use edit::{Edit, EditError, edit};

mod purge;
pub(crate) use purge::{CHUNK as PURGE_CHUNK, next as next_purge};
pub use purge::{Retention, purge};

mod forget;
pub use forget::{ForgetStepsError, forget_steps};

mod pause;
pub use pause::{Pause, Scope, pause, pauses, resume};

use diesel::result::QueryResult;

use crate::backend::Backend;
use crate::inspect::{Filter, State};
use crate::schema::Schema;

/// Jobs in one transaction.
const CHUNK: i64 = 500;

/// Calls `act` with the ids of all jobs that match and are in one of `states`, a chunk at a time.
fn in_chunks<C: Backend>(
    conn: &mut C,
    schema: &Schema,
    filter: &Filter,
    states: &[State],
    mut act: impl FnMut(&mut C, &[i64]) -> QueryResult<()>,
) -> QueryResult<()> {
    let chosen = filter.chosen_state();
    for state in states
        .iter()
        .filter(|state| chosen.is_none_or(|chosen| chosen == **state))
    {
        let matching = filter.clone().state(*state).matching();
        let mut after = i64::MIN;
        loop {
            let ids = conn.ids(schema, &matching, after, CHUNK)?;
            let Some(last) = ids.last() else { break };
            after = *last;
            act(conn, &ids)?;
        }
    }
    Ok(())
}
