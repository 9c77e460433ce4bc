//! `eager engine bench`: how fast trees grow, and how that compares with what the machine could do.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args as ClapArgs;
use eager_native::load::Checkpoint;
use eager_native::{Model, NativeEngine, Options};
use indicatif::ProgressBar;

use super::bound::{self, Shape};
use super::race::{self, Timing};
use super::report::{Line, Report, Skipped};
use super::workload::{self, Timed, Workload};
use crate::args::{EngineArgs, at_least_one, sequences};
use crate::interrupt::Interrupt;
use crate::progress::Progress;
use crate::session::{kernel, load};
use crate::{Outcome, Usage, print};

/// How long each peak is measured.
const PEAK: Duration = Duration::from_millis(300);

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Workloads, each a batch of sequences that never stop early:
  branches-32  32 sequences of one prompt of 256 tokens, 256 tokens each
  private-32   32 sequences, each with a prompt of its own of 1,500 tokens; 16 tokens each
  shared-32    32 sequences of one prompt of 1,500 tokens, 100 tokens into their own text; 16 tokens each
  branches-8   as branches-32, with 8 sequences
  single       as branches-32, with one sequence
  prefill      a prompt of 1,024 tokens, until its first token is decoded
A workload that the model's context is too short for is skipped. The clock never runs while a prompt is computed, but for
prefill, and memory for keys and values is there before it does. Prompts are random tokens; sampling is at temperature 0.6 and
top-p 0.95.")]
pub struct Args {
    /// A .gguf file, a folder with config.json, tokenizer.json and *.safetensors, or a name on the Hugging Face hub, such as
    /// Qwen/Qwen3-4B [default: the embedded acorn]
    #[arg(long)]
    model: Option<PathBuf>,
    /// What to measure, see below; may be given several times [default: all that fit the model]
    #[arg(long = "workload", value_name = "NAME", value_delimiter = ',', value_parser = workload::named)]
    workloads: Vec<Workload>,
    /// How often to run each workload; the run with the median time is shown
    #[arg(long, default_value_t = 1, value_parser = at_least_one)]
    repeat: usize,
    /// Measure what the machine could do as well, and what share of that each workload reaches
    #[arg(long)]
    peaks: bool,
    /// Print one JSON object instead of the tables
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    custom: CustomArgs,
    #[command(flatten)]
    engine: EngineArgs,
}

/// Any of these makes a workload of its own, which is run instead of the default ones.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "A workload of your own")]
struct CustomArgs {
    /// Sequences of one prompt [default: 32]
    #[arg(long, value_parser = sequences)]
    branches: Option<usize>,
    /// Tokens of the prompt that they share [default: 256]
    #[arg(long, value_parser = at_least_one)]
    shared: Option<usize>,
    /// Tokens that each decodes before the clock starts [default: 0]
    #[arg(long)]
    own: Option<usize>,
    /// Tokens that each decodes while the clock runs [default: 256]
    #[arg(long, value_parser = at_least_one)]
    tokens: Option<usize>,
}

impl CustomArgs {
    fn workload(&self) -> Option<Workload> {
        let &Self { branches, shared, own, tokens } = self;
        let given = [branches, shared, own, tokens].iter().any(Option::is_some);
        let default = workload::CUSTOM;
        given.then(|| Workload {
            branches: branches.unwrap_or(default.branches),
            shared: shared.unwrap_or(default.shared),
            own: own.unwrap_or(default.own),
            tokens: tokens.unwrap_or(default.tokens),
            ..default
        })
    }
}

/// Rows of its steps while the clock runs.
fn rows(workload: &Workload) -> usize {
    match workload.timed {
        Timed::Decoding => workload.branches,
        Timed::Prefill => workload.prompt(),
    }
}

impl Args {
    /// What is to be measured, whether or not it can be.
    fn wanted(&self) -> Vec<Workload> {
        let custom = self.custom.workload();
        let named = match (&self.workloads[..], custom) {
            ([], None) => &workload::NAMED[..],
            (named, _) => named,
        };
        named.iter().copied().chain(custom).collect()
    }
}

pub fn run(args: &Args) -> anyhow::Result<Outcome> {
    let options = args.engine.options();
    let interrupt = Interrupt::listen()?;
    let most = args.wanted().iter().map(rows).max();
    let most = kernel(&args.engine, most)?;
    let (checkpoint, model) = load(args.model.as_deref(), most)?;
    let engine = NativeEngine::new(model.clone(), options)?;
    let mut bench =
        Bench { args, checkpoint: &checkpoint, model: Some(model), options, interrupt: &interrupt };
    let (workloads, skipped) = bench.workloads(&engine)?;
    let fork = eager_native::bench::fork_cost(&engine);
    let mut report = Report {
        model: checkpoint.name.clone(),
        kernel: most.to_string(),
        threads: engine.threads(),
        workloads: Vec::new(),
        skipped,
        fork_microseconds: 1e6 * fork.share.as_secs_f64(),
        page_copy_microseconds: 1e6 * fork.copy.as_secs_f64(),
        peaks: args.peaks.then(|| bench.peaks()).transpose()?,
    };
    let kv = engine.kv_use();
    // Another kernel has weights of its own, and memory may not be enough for both.
    drop(engine);
    let shape = Shape::new(&checkpoint, kv.page_bytes / kv.page_tokens)?;
    let mut ended = Ok(Outcome::Done);
    for workload in workloads {
        match bench.measure(&workload) {
            Ok(Some((timing, kv_overhead))) => {
                let bound = report.peaks.as_ref().map(|peaks| bound::of(&workload, &shape, peaks));
                let kernel = kernel(&args.engine, Some(rows(&workload)))?.to_string();
                let line = Line::new(workload, kernel, args.engine.kv, timing, kv_overhead, bound);
                report.workloads.push(line);
            }
            Ok(None) => {
                eprintln!("eager: interrupted during {}", workload.name);
                ended = Ok(Outcome::Interrupted);
            }
            Err(error) => ended = Err(error),
        }
        if !matches!(ended, Ok(Outcome::Done)) {
            break;
        }
    }
    // Even when it was broken off in the end, what was measured is shown.
    if !report.workloads.is_empty() {
        print(&if args.json { serde_json::to_string(&report)? } else { report.describe() })?;
    }
    ended
}

struct Bench<'a> {
    args: &'a Args,
    checkpoint: &'a Checkpoint,
    model: Option<Arc<Model>>,
    options: Options,
    interrupt: &'a Interrupt,
}

impl Bench<'_> {
    /// What to run, and what cannot be.
    fn workloads(&self, engine: &NativeEngine) -> anyhow::Result<(Vec<Workload>, Vec<Skipped>)> {
        let (context, kv) = (self.checkpoint.config.context, engine.kv_use());
        let misfit = |workload: &Workload| workload.misfit(context, &kv, self.options.kv_bytes);
        let custom = self.args.custom.workload();
        if let Some(why) = custom.as_ref().and_then(misfit) {
            return Err(Usage(format!("this workload cannot run: {why}")).into());
        }
        let (mut fitting, mut skipped) = (Vec::new(), Vec::new());
        for workload in self.args.wanted() {
            match misfit(&workload) {
                None => fitting.push(workload),
                Some(why) => skipped.push(Skipped { name: workload.name, why }),
            }
        }
        for Skipped { name, why } in &skipped {
            eprintln!("eager: {name} is skipped: {why}");
        }
        if fitting.is_empty() {
            let name = &self.checkpoint.name;
            anyhow::bail!(
                "no workload fits {name}; describe one with --branches, --shared, --own and --tokens"
            );
        }
        Ok((fitting, skipped))
    }

    fn peaks(&self) -> anyhow::Result<eager_native::bench::Peaks> {
        let measuring = ProgressBar::new_spinner().with_message("measuring what the machine can do");
        measuring.enable_steady_tick(Duration::from_millis(200));
        let peaks = eager_native::bench::peaks(self.options.threads, PEAK);
        measuring.finish_and_clear();
        Ok(peaks?)
    }

    /// The run with the median time (of an even number, the slower of the two in the middle), and the memory that keys
    /// and values took as a multiple of what their distinct tokens need. `None` when the user ended it.
    fn measure(&mut self, workload: &Workload) -> anyhow::Result<Option<(Timing, f64)>> {
        let kernel = kernel(&self.args.engine, Some(rows(workload)))?;
        // Taken out, so that what is replaced is gone before its replacement comes.
        let model = match self.model.take().filter(|model| model.isa() == kernel) {
            Some(model) => model,
            None => load(self.args.model.as_deref(), kernel)?.1,
        };
        self.model = Some(Arc::clone(&model));
        // An engine of its own, so that its peak of memory is this workload's.
        let mut engine = NativeEngine::new(model, self.options)?;
        engine.reserve(workload.pages(engine.kv_use().page_tokens));
        let mut timings: Vec<Timing> = Vec::new();
        for _ in 0..self.args.repeat {
            let progress = Progress::of_tokens(workload.name, workload.decoded(), self.interrupt);
            match race::run(&mut engine, self.checkpoint, workload, progress)? {
                Some(timing) => timings.push(timing),
                None => return Ok(None),
            }
        }
        timings.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
        let kv = engine.kv_use();
        let overhead = (kv.peak_pages * kv.page_tokens) as f64 / workload.stored() as f64;
        let median = timings.len() / 2;
        Ok(timings.into_iter().nth(median).map(|timing| (timing, overhead)))
    }
}
