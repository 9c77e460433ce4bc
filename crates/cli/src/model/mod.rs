//! `eager model`: models, before they are run.

pub mod hub;
mod info;

use clap::Subcommand;

use crate::Outcome;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show what a model is, what it takes, and how many branches of it fit in memory
    Info(info::Args),
}

pub fn run(command: &Command) -> anyhow::Result<Outcome> {
    match command {
        Command::Info(args) => info::run(args),
    }
}
