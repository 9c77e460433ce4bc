//! Ctrl-C: the first asks for a clean end, the second ends at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;

/// Was an end asked for?
#[derive(Debug, Clone)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Listens from now on. At most once in a process.
    pub fn listen() -> anyhow::Result<Self> {
        let asked = Arc::new(AtomicBool::new(false));
        let seen = asked.clone();
        ctrlc::set_handler(move || {
            if seen.swap(true, Ordering::SeqCst) {
                std::process::exit(130);
            }
        })
        .context("cannot listen for Ctrl-C")?;
        Ok(Interrupt(asked))
    }

    /// One that nobody can ask for.
    #[cfg(test)]
    pub fn never() -> Self {
        Interrupt(Arc::new(AtomicBool::new(false)))
    }

    /// Becomes true when it is asked for; for those who wait elsewhere.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }

    pub fn asked(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}
