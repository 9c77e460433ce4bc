//! The `eager` command.

mod args;
mod backend;
mod compare;
mod demo;
mod engine;
mod grade;
mod interrupt;
mod lab;
mod language;
mod model;
mod picture;
mod progress;
mod remote;
mod serve;
mod session;
mod solve;
mod table;
mod theta;

use std::io::Write;
use std::process::ExitCode;

use clap::error::ErrorKind;
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
    /// Is each of these answers right? Adds "correct" to lines of JSON
    Grade(grade::Args),
    /// Run methods over a suite of problems, such that a crash loses next to nothing
    Bench(Box<lab::bench::Args>),
    /// Find the theta that suits a model, on a handful of problems
    Calibrate(Box<lab::calibrate::Args>),
    /// Run a method over a grid of theta, M and temperature
    Sweep(Box<lab::sweep::Args>),
    /// Peak entropy against pass rate
    Analyze(lab::analyze::Args),
    /// Tables and pictures of any set of runs, as HTML and Markdown
    Report(lab::report::Args),
    /// Serve the model over HTTP, as OpenAI's API: whoever asks for n samples gets those that EAGer grows
    Serve(Box<serve::Args>),
    /// The embedded engine: what it runs on here, and how fast it is
    #[command(subcommand)]
    Engine(engine::Command),
    /// Servers to decode on: are they fit for trees?
    #[command(subcommand)]
    Remote(remote::Command),
    /// Models: what they are and what they take
    #[command(subcommand)]
    Model(model::Command),
}

/// Prints a result. A reader that has gone away, as `head` does, has seen enough.
fn print(text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
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
    let command = match Cli::try_parse() {
        Ok(cli) => cli.command,
        Err(error) => return refuse(&error),
    };
    let result = match command {
        Command::Demo(args) => demo::run(&args),
        Command::Solve(args) => solve::run(args),
        Command::Grade(args) => grade::run(&args),
        Command::Bench(args) => lab::bench::run(&args),
        Command::Calibrate(args) => lab::calibrate::run(&args),
        Command::Sweep(args) => lab::sweep::run(&args),
        Command::Analyze(args) => lab::analyze::run(&args),
        Command::Report(args) => lab::report::run(&args),
        Command::Serve(args) => serve::run(*args),
        Command::Engine(command) => engine::run(&command),
        Command::Remote(command) => remote::run(&command),
        Command::Model(command) => model::run(&command),
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

/// Help and versions are clap's to print; a mistake becomes one sentence.
fn refuse(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        // Nobody is left to tell when even this cannot be printed.
        let _ = error.print();
        return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
    }
    eprintln!("eager: {} (see --help)", sentence(error));
    ExitCode::from(2)
}

/// What was wrong with the words of a command, without the advice around it.
fn sentence(error: &clap::Error) -> String {
    let text = error.to_string();
    let about = text.lines().take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"));
    let sentence: Vec<&str> = about.map(str::trim).filter(|line| !line.is_empty()).collect();
    let sentence = sentence.join(" ");
    sentence.strip_prefix("error: ").unwrap_or(&sentence).to_owned()
}
