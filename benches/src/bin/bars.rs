//! Measures briefly what the bar asks for and prints each of its lines; see `--help`.

use clap::Parser;
use leasehold_benches::{
    Answer, Extent, Options, Place, Report, bars, cost, growth, heartbeat, latency, ours, throughput,
};

fn main() -> Answer {
    env_logger::init();
    if ours::is_worker()? || latency::is_worker()? {
        return Ok(());
    }
    let options = Options {
        extent: Extent::Bars,
        ..Options::parse()
    };
    let mut report = Report::new();
    let place = Place::from_environment();
    throughput::measure(&options, &place, &mut report)?;
    cost::measure(&options, &place, &mut report)?;
    latency::measure(&options, &place, &mut report)?;
    growth::measure(&options, &growth::Lengths::usual(), &place, &mut report)?;
    heartbeat::measure(&options, &place, &mut report)?;
    report.publish("bars")?;
    let all = [
        throughput::bars(&report),
        latency::bars(&report),
        growth::bars(&report),
        heartbeat::bars(&report),
    ];
    bars::print(&all.concat());
    Ok(())
}
