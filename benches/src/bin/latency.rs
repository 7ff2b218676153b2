//! How long jobs wait for their handlers, ours and the reference's; see `--help`.

use clap::Parser;
use leasehold_benches::{Answer, Options, Place, Report, bars, latency};

fn main() -> Answer {
    env_logger::init();
    if latency::is_worker()? {
        return Ok(());
    }
    let options = Options::parse();
    let mut report = Report::new();
    latency::measure(&options, &Place::from_environment(), &mut report)?;
    report.publish("latency")?;
    bars::print(&latency::bars(&report));
    Ok(())
}
