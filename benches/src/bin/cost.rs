//! What a job costs, ours and the reference's; see `--help`.

use clap::Parser;
use leasehold_benches::{Answer, Options, Place, Report, cost, ours};

fn main() -> Answer {
    env_logger::init();
    if ours::is_worker()? {
        return Ok(());
    }
    let options = Options::parse();
    let mut report = Report::new();
    cost::measure(&options, &Place::from_environment(), &mut report)?;
    report.publish("cost")
}
