//! What the heartbeat of many leases costs, ours and the reference's; see `--help`.

use clap::Parser;
use leasehold_benches::{Answer, Options, Place, Report, bars, heartbeat};

fn main() -> Answer {
    env_logger::init();
    let options = Options::parse();
    let mut report = Report::new();
    heartbeat::measure(&options, &Place::from_environment(), &mut report)?;
    report.publish("heartbeat")?;
    bars::print(&heartbeat::bars(&report));
    Ok(())
}
