//! A bar on stderr while trees grow.

use std::ops::ControlFlow;
use std::time::Duration;

use eager_core::{Pulse, Tree, Watch};
use indicatif::{ProgressBar, ProgressStyle};

use crate::interrupt::Interrupt;

/// Shows a pass over prompts and ends it on Ctrl-C.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    interrupt: Interrupt,
}

impl Progress {
    /// A pass over so many prompts.
    pub fn new(title: &str, prompts: usize, interrupt: &Interrupt) -> Self {
        let style = "{prefix:18} {bar:24} {pos}/{len} prompts  {elapsed}  {msg}";
        Self::with(ProgressBar::new(prompts as u64), style, title, interrupt)
    }

    /// A pass of which it is not known how many prompts it will take up.
    pub fn open_ended(title: &str, interrupt: &Interrupt) -> Self {
        Self::with(
            ProgressBar::new_spinner(),
            "{prefix} {spinner} {pos} prompts  {elapsed}  {msg}",
            title,
            interrupt,
        )
    }

    /// A run of which it is known how many tokens it will decode.
    pub fn of_tokens(title: &str, tokens: usize, interrupt: &Interrupt) -> Self {
        let style = "{prefix:18} {bar:24} {pos}/{len} tokens  {elapsed}  {msg}";
        Self::with(ProgressBar::new(tokens as u64), style, title, interrupt)
    }

    /// Moves the bar of such a run. Costs next to nothing, so that it can be called within what is timed.
    pub fn decoded(&self, pulse: &Pulse) -> ControlFlow<()> {
        self.bar.set_position(pulse.decoded as u64);
        if self.interrupt.asked() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn with(bar: ProgressBar, style: &str, title: &str, interrupt: &Interrupt) -> Self {
        // The templates are constants, so they parse always or never; a plain bar would do as well.
        let style = ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = bar.with_style(style).with_prefix(title.to_owned());
        bar.enable_steady_tick(Duration::from_millis(200));
        Progress { bar, interrupt: interrupt.clone() }
    }
}

impl Watch for Progress {
    fn grown(&mut self, _: usize, tree: &Tree) {
        if tree.live().next().is_none() {
            self.bar.inc(1);
        }
    }

    fn pulse(&mut self, pulse: &Pulse) -> ControlFlow<()> {
        let rate = pulse.decoded as f64 / self.bar.elapsed().as_secs_f64().max(1e-3);
        let mut message = format!("{} tokens, {rate:.0}/s, {} sequences live", pulse.decoded, pulse.live);
        if pulse.waiting > 0 {
            message += &format!(", {} set aside", pulse.waiting);
        }
        self.bar.set_message(message);
        if self.interrupt.asked() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
