use diesel::SqliteConnection;
use leasehold::{LeaseGuard, Outcome};

fn swap<'a, 'b: 'a>(mine: LeaseGuard<'a, SqliteConnection>, theirs: LeaseGuard<'b, SqliteConnection>) -> Outcome<'a> {
    drop(mine);
    theirs.finish()
}

fn main() {}
