//! What the queue asks of a database, by the stage of a job's life: one trait each, with the rows that it takes and
//! gives. The files of a backend have the same names.

mod enqueue;
pub use enqueue::*;

mod keys;
pub use keys::*;

mod admit;
pub use admit::*;

mod claim;
pub use claim::*;

mod selected;
pub use selected::*;

mod lease;
pub use lease::*;

mod commit;
pub use commit::*;

mod results;
pub use results::*;

mod steps;
pub use steps::*;

mod settle;
pub use settle::*;

mod sweep;
pub use sweep::*;

mod waits;
pub use waits::*;

mod batches;
pub use batches::*;
mod expiry;
pub use expiry::*;

mod pause;
pub use pause::*;

mod schedule;
pub use schedule::*;

mod fire;
pub use fire::*;

mod outbox;
pub use outbox::*;

mod relay;
pub use relay::*;

mod inbox;
pub use inbox::*;

mod workers;
pub use workers::*;

mod inspect;
pub use inspect::*;

mod figures;
pub use figures::*;

mod held;
pub use held::*;

mod life;
pub use life::*;

mod search;
pub use search::*;

mod check;
pub use check::*;

mod catalogue;
pub use catalogue::*;

mod manage;
pub use manage::*;

mod actions;
pub use actions::*;

mod rows;
pub use rows::*;
