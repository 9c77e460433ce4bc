//! Measures llama.cpp and our engine on the same workloads, interleaved in one run.

mod busy;
mod llama;
mod ours;
mod quantise;
mod report;
mod setting;
mod workload;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use clap::builder::{PossibleValuesParser, TypedValueParser};

use crate::busy::Neighbour;
use crate::llama::Llama;
use crate::ours::Eager;
use crate::report::{Kept, Report, Row, Scouted, best, quotients};
use crate::setting::Setting;
use crate::workload::{Kv, Workload};

/// The share of the best setting's speed that earns a setting a second look.
const CLOSE: f64 = 0.8;

/// Measure llama.cpp and eager on the same workloads, side by side
#[derive(Debug, Parser)]
#[command(name = "llama-peer", version, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
struct Args {
    #[command(subcommand)]
    task: Option<Task>,
    /// The model, a GGUF file; both engines read the same one
    #[arg(long, value_name = "FILE", required = true)]
    model: Option<PathBuf>,
    /// The `eager` command; without it only llama.cpp is measured
    #[arg(long, value_name = "PATH")]
    eager: Option<PathBuf>,
    /// Threads of each engine
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..))]
    threads: u16,
    /// Rounds of full measurements; 0 only scouts the settings of llama.cpp
    #[arg(long, default_value_t = 3)]
    rounds: u16,
    /// A workload to run, repeatable [default: all]
    #[arg(long, value_name = "NAME", value_parser = workload_parser())]
    workload: Vec<Workload>,
    /// Measure what is left of the speed next to a busy process, on branches-8
    #[arg(long, conflicts_with = "workload")]
    busy: bool,
    /// Measure the machine's peaks beside every run of eager, for its share of what they allow
    #[arg(long, requires = "eager")]
    peaks: bool,
    /// Write everything that was measured to a file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Write a model in another format of weights, by llama.cpp's own quantisation
    ///
    /// Weights that are quantised already are read as they are and quantised once more: good for speeds, not for answers.
    Quantise {
        /// The GGUF file to read
        from: PathBuf,
        /// The GGUF file to write
        to: PathBuf,
        /// The format of the weights
        #[arg(value_enum)]
        format: quantise::Format,
    },
}

fn workload_parser() -> impl TypedValueParser<Value = Workload> {
    PossibleValuesParser::new(Workload::ALL.map(|workload| workload.name))
        .try_map(|name| Workload::named(&name).ok_or("no such workload"))
}

fn main() -> Result<()> {
    if env::args_os().nth(1).is_some_and(|argument| argument == busy::SPIN) {
        busy::spin();
        return Ok(());
    }
    let args = Args::parse();
    if let Some(Task::Quantise { from, to, format }) = &args.task {
        return quantise::quantise(from, to, *format, args.threads);
    }
    let model = args.model.as_deref().context("--model names no file")?;
    let peers = Peers::new(&args, model)?;
    let mut report = Report {
        model: model.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        threads: args.threads,
        llama_build: peers.llama.build(),
        scouting: Vec::new(),
        rows: Vec::new(),
        busy: Vec::new(),
    };
    eprintln!("llama.cpp: {}", report.llama_build);
    let workloads = match (args.busy, args.workload.is_empty()) {
        (true, _) => vec![Workload::BRANCHES_8],
        (false, true) => Workload::ALL.to_vec(),
        (false, false) => args.workload,
    };
    let mut chosen = Vec::new();
    for workload in workloads {
        let scouted = peers.scout(&workload)?;
        let best = best(scouted.iter()).context("llama.cpp was scouted with no setting")?;
        chosen.push((workload, best.setting));
        report.scouting.extend(scouted);
    }
    match (args.rounds, args.busy) {
        (0, _) => (),
        (rounds, false) => report.rows = peers.compare(&chosen, rounds)?,
        (rounds, true) => {
            for (workload, setting) in &chosen {
                report.busy.extend(peers.keep(workload, *setting, rounds)?);
            }
        }
    }
    print!("{}", report.tables());
    if let Some(path) = &args.json {
        fs::write(path, serde_json::to_string_pretty(&report)?)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// The two engines.
struct Peers {
    llama: Llama,
    eager: Option<Eager>,
}

impl Peers {
    fn new(args: &Args, model: &Path) -> Result<Peers> {
        let eager =
            args.eager.as_deref().map(|binary| Eager::new(binary, model, args.threads, args.peaks));
        Ok(Peers { llama: Llama::load(model, args.threads)?, eager: eager.transpose()? })
    }

    /// A quick look at every setting of llama.cpp, since measuring each in full would take several times as long.
    fn scout(&self, workload: &Workload) -> Result<Vec<Scouted>> {
        let look = |setting| -> Result<f64> {
            let tokens_per_second = self.llama.scout(workload, setting)?;
            eprintln!("scouting {}: {tokens_per_second:.1} tokens/s with {setting}", workload.name);
            Ok(tokens_per_second)
        };
        let mut scouted = Vec::new();
        for setting in Setting::sweep(workload) {
            scouted.push(Scouted { workload: workload.name, setting, tokens_per_second: look(setting)? });
        }
        // A slow spell of the machine can outlast a look, so whoever came close gets a second one.
        let close = CLOSE * best(scouted.iter()).map_or(0.0, |best| best.tokens_per_second);
        for found in scouted.iter_mut().filter(|found| found.tokens_per_second > close) {
            found.tokens_per_second = found.tokens_per_second.max(look(found.setting)?);
        }
        Ok(scouted)
    }

    /// The full measurements, the engines taking turns.
    fn compare(&self, chosen: &[(Workload, Setting)], rounds: u16) -> Result<Vec<Row>> {
        let mut rows: Vec<Vec<Row>> =
            chosen.iter().map(|&(workload, setting)| self.rows(workload, setting)).collect();
        for round in 1..=rounds {
            for (&(workload, setting), rows) in chosen.iter().zip(&mut rows) {
                if let Some(eager) = &self.eager {
                    for (row, &kv) in rows.iter_mut().zip(workload.eager_kv()) {
                        let speed = eager.measure(&workload, kv)?;
                        row.eager.push(speed.tokens_per_second);
                        row.share_of_bound.extend(speed.share_of_bound);
                    }
                }
                let llama = self.llama.measure(&workload, setting)?;
                for row in rows {
                    row.llama.push(llama);
                    row.ratio = quotients(&row.eager, &row.llama);
                    eprint!("round {round} {}: llama.cpp {llama:.1} tokens/s", row.name);
                    match (row.eager.last(), row.ratio.last()) {
                        (Some(eager), Some(ratio)) => eprintln!(", eager {eager:.1}, ratio {ratio:.2}"),
                        _ => eprintln!(),
                    }
                }
            }
        }
        Ok(rows.into_iter().flatten().collect())
    }

    /// The rows a workload fills: one for each cache type of our engine, against the best of llama.cpp's.
    fn rows(&self, workload: Workload, setting: Setting) -> Vec<Row> {
        let kinds = if self.eager.is_some() { workload.eager_kv() } else { &[Kv::F16] };
        let row = |&kv| Row {
            name: workload.row(kv),
            workload,
            setting,
            eager: Vec::new(),
            share_of_bound: Vec::new(),
            llama: Vec::new(),
            ratio: Vec::new(),
        };
        kinds.iter().map(row).collect()
    }

    /// The speed of each engine alone and next to a busy process, in turns.
    fn keep(&self, workload: &Workload, setting: Setting, rounds: u16) -> Result<Vec<Kept>> {
        let mut kept = Vec::new();
        if let Some(eager) = &self.eager {
            kept.push(Kept::of("eager", rounds, || Ok(eager.measure(workload, Kv::F16)?.tokens_per_second))?);
        }
        // A share needs no long run; our command cannot be told, and takes all the steps of the workload.
        let short = Workload { tokens: 64, ..*workload };
        kept.push(Kept::of("llama.cpp", rounds, || self.llama.measure(&short, setting))?);
        Ok(kept)
    }
}

impl Kept {
    fn of(engine: &'static str, rounds: u16, measure: impl Fn() -> Result<f64>) -> Result<Kept> {
        let (mut quiet, mut busy) = (Vec::new(), Vec::new());
        for round in 1..=rounds {
            let alone = measure()?;
            let neighbour = Neighbour::start()?;
            let beside = measure()?;
            neighbour.stop()?;
            eprintln!("round {round} {engine}: {alone:.1} tokens/s alone, {beside:.1} beside a busy process");
            quiet.push(alone);
            busy.push(beside);
        }
        let share = quotients(&busy, &quiet);
        Ok(Kept { engine, quiet, busy, share })
    }
}
