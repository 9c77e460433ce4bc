//! The `eager` command.

mod args;
mod compare;
mod demo;
mod interrupt;
mod picture;
mod progress;
mod session;
mod solve;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(name = "eager", version, about, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run every method on the embedded model and its problems, and compare them in one table
    Demo(demo::Args),
    /// Grow the tree of one problem: the votes, the answer, and what it cost
    Solve(solve::Args),
}

/// What a command ended with, when it did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Done,
    /// Stopped by Ctrl-C; what was finished has been printed.
    Interrupted,
}

/// A mistake in how the command was called, as opposed to something that went wrong.
#[derive(Debug)]
struct Usage(String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Demo(args) => demo::run(&args),
        Command::Solve(args) => solve::run(&args),
    };
    match result {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        // What shells report for a program that Ctrl-C ended.
        Ok(Outcome::Interrupted) => ExitCode::from(130),
        Err(error) => {
            eprintln!("eager: {error:#}");
            ExitCode::from(if error.is::<Usage>() { 2 } else { 1 })
        }
    }
}
