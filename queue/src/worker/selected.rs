//! Jobs that a program chooses itself: those whose ids an operator clicked, or that a scheduler found due.
//!
//! [`Running::claim_selected`] takes from a list those jobs that can run and says of each of the others what it is. What it
//! claims is held like any claimed job, and renewed; the program runs it on a thread of its own ([`ClaimedJob::work`]) or
//! hands it to the worker ([`ClaimedJob::hand_over`]).
//!
//! ```
//! # include!("../doctest_setup.rs");
//! use leasehold::selected::{Answer, Settled};
//! use leasehold::Worker;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let (url, mut conn) = doctest_database();
//! let worker = Worker::<SqliteConnection, _>::new(&url, ()).register::<Greet>();
//! let running = worker.claims_selected_only().start()?;
//! let id = Greet { name: "you".to_owned() }.enqueue(&mut conn)?.id();
//!
//! for selected in running.claim_selected([id, 4711])? {
//!     match selected.answer {
//!         Answer::Claimed(job) => {
//!             let settled = job.work(|greet: Greet, lease| {
//!                 println!("Hello, {}!", greet.name);
//!                 lease.finish()
//!             });
//!             assert_eq!(settled, Settled::Completed);
//!         }
//!         other => println!("{}: {other}", selected.asked),
//!     }
//! }
//! # Ok(())
//! # }
//! ```

mod answer;
pub use answer::{Answer, BlockedBy, ClaimError, Selected};

mod choose;

mod choosing;
pub(super) use choosing::{Choosing, resolve};

mod claimed;
pub use claimed::ClaimedJob;

mod selection;
pub use selection::{Asked, Selection};

mod settled;
pub use settled::Settled;

#[expect(unused_imports, reason = "the documentation names it")]
use super::Running;
