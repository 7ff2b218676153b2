//! Measures briefly what the bar asks for and prints each of its lines; see `--help`.

use clap::Parser;
use leasehold_benches::{Answer, Extent, Options, Place, Report, bars, ours, throughput};

fn main() -> Answer {
    env_logger::init();
    if ours::is_worker()? {
        return Ok(());
    }
    let options = Options {
        extent: Extent::Bars,
        ..Options::parse()
    };
    let mut report = Report::new();
    throughput::measure(&options, &Place::from_environment(), &mut report)?;
    report.publish("bars")?;
    bars::print(&throughput::bars(&report));
    Ok(())
}
