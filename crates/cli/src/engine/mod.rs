//! `eager engine`: the embedded engine on this machine.

mod bench;
mod bound;
pub mod info;
mod race;
mod report;
mod workload;

use clap::Subcommand;

use crate::Outcome;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show the kernel, the model's shape and what memory they take
    Info(info::Args),
    /// Measure how fast trees grow
    Bench(bench::Args),
}

pub fn run(command: &Command) -> anyhow::Result<Outcome> {
    match command {
        Command::Info(args) => info::run(args),
        Command::Bench(args) => bench::run(args),
    }
}
