//! How the cost of a job grows, ours and the reference's; see `--help`.

use clap::Parser;
use leasehold_benches::{Answer, Options, Place, Report, bars, growth};

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    options: Options,
    #[command(flatten)]
    lengths: growth::Lengths,
}

fn main() -> Answer {
    env_logger::init();
    let Command { options, lengths } = Command::parse();
    let mut report = Report::new();
    growth::measure(&options, &lengths, &Place::from_environment(), &mut report)?;
    report.publish("growth")?;
    bars::print(&growth::bars(&report));
    Ok(())
}
