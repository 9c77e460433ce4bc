//! What a person sees while runs go by.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use eager_core::{Metrics, Pulse, Tree};
use eager_lab::bench::{Observer, Stage};
use eager_lab::campaign::{Campaign, Spectator, Trial};
use indicatif::{HumanDuration, ProgressBar, ProgressStyle};

use super::left::TimeLeft;
use crate::interrupt::Interrupt;

/// A bar for the run that is under way, and a line for each that is complete.
#[derive(Debug)]
pub struct Show {
    bar: ProgressBar,
    interrupt: Interrupt,
    /// Which run of how many.
    run: usize,
    runs: usize,
    title: String,
    /// Was the run complete when its turn came?
    there: bool,
    /// Most sequences of a prompt.
    cap: usize,
    begun: Instant,
    time: TimeLeft,
    /// What the time left is about, where more is to come than is known yet.
    of_what: &'static str,
    tokens: usize,
    /// What the prompts that are done would have cost as so many samples of the same length.
    alike: usize,
}

impl Show {
    /// `of_what` says what else than the whole command these runs are, as in " of this draw".
    pub fn new(campaign: &Campaign, of_what: &'static str, interrupt: &Interrupt) -> Self {
        let bar = ProgressBar::new(0);
        // The template is a constant, so it parses always or never; a plain bar would do as well.
        let style = "{prefix} {bar:20} {pos}/{len} prompts  {elapsed}  {msg}";
        bar.set_style(ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.enable_steady_tick(Duration::from_millis(200));
        Show {
            bar,
            interrupt: interrupt.clone(),
            run: 0,
            runs: campaign.trials().len(),
            title: String::new(),
            there: false,
            cap: 1,
            begun: Instant::now(),
            time: TimeLeft::new(campaign.missing().map(|trial| trial.method)),
            of_what,
            tokens: 0,
            alike: 0,
        }
    }

    /// How long it still takes; nothing where nobody knows, or nothing is left.
    fn left(&self, decoded: usize) -> Option<String> {
        let left = self.time.left(self.begun.elapsed(), self.bar.elapsed(), decoded)?;
        let left = (!left.is_zero()).then(|| left.max(Duration::from_secs(1)))?;
        Some(format!("about {} left{}", HumanDuration(left), self.of_what))
    }

    /// A line about the run, above the bar. Where there is no terminal for a bar, as in a batch job's log, the line comes all
    /// the same.
    fn say(&self, words: &str) {
        let line = format!("[{}/{}] {}: {words}", self.run, self.runs, self.title);
        match self.bar.is_hidden() {
            true => eprintln!("{line}"),
            false => self.bar.println(line),
        }
    }
}

impl Observer for Show {
    fn stage(&mut self, stage: Stage, prompts: usize, finished: usize) {
        let second = if stage == Stage::Second { ", second pass" } else { "" };
        self.bar.set_prefix(format!("[{}/{}] {}{second}", self.run, self.runs, self.title));
        self.bar.set_length(prompts as u64);
        self.bar.set_position(finished as u64);
        self.bar.reset_elapsed();
        self.time.stage(prompts - finished);
        (self.tokens, self.alike) = (0, 0);
    }

    fn grown(&mut self, tree: &Tree, decoded: usize) {
        self.bar.inc(1);
        self.time.grown(decoded);
        self.tokens += tree.tokens_generated();
        let printed: usize = tree.sequences().iter().map(|s| s.len()).sum();
        self.alike += printed * self.cap / tree.len().max(1);
    }

    fn pulse(&mut self, pulse: &Pulse) -> ControlFlow<()> {
        let rate = pulse.decoded as f64 / self.bar.elapsed().as_secs_f64().max(1e-3);
        let left = self.left(pulse.decoded).map_or_else(String::new, |left| left + ", ");
        let mut message = format!("{left}{rate:.0} tokens/s, {} sequences", pulse.live);
        if pulse.waiting > 0 {
            message += &format!(" (+{} set aside)", pulse.waiting);
        }
        if self.alike > self.tokens {
            let saved = 100.0 * (1.0 - self.tokens as f64 / self.alike as f64);
            message += &format!(", {saved:.0}% of tokens saved");
        }
        self.bar.set_message(message);
        if self.interrupt.asked() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

impl Spectator for Show {
    fn run(&mut self, trial: &Trial, finished: usize) {
        self.run += 1;
        self.cap = trial.plan.forking.cap;
        self.title = if trial.name.is_empty() { trial.method.to_string() } else { trial.name.clone() };
        let all = trial.tasks.len();
        self.there = finished >= all;
        self.begun = Instant::now();
        self.time.begin(trial.method, self.there);
        if finished > 0 && !self.there {
            self.say(&format!("goes on, {finished} of {all} prompts were there already"));
        }
    }

    fn complete(&mut self, _: &Trial, metrics: &Metrics) {
        let after = if self.there {
            ", was there already".to_owned()
        } else {
            self.time.complete(self.begun.elapsed());
            self.left(0).map_or_else(String::new, |left| format!("; {left}"))
        };
        let Metrics { pass_at_k, tokens, seconds, .. } = metrics;
        self.say(&format!("pass@k {pass_at_k:.3}, {tokens} tokens, {seconds:.1} s{after}"));
    }
}

impl Drop for Show {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
