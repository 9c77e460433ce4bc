//! What every engine offers, embedded or remote.

use std::error::Error;
use std::ops::ControlFlow;

use crate::grove::Grove;

/// Where an engine gets its prompts and brings back their trees.
///
/// Groves move: the engine owns one while it grows and hands it back when it is done. A batch job hands out a fixed
/// list; a server hands out requests as they come.
pub trait Forest {
    /// The next grove to grow, if there is one now. `idle` says that the engine has nothing else to do, so that a source
    /// with nothing at hand may block until it has. `None` while idle ends the run.
    fn next(&mut self, idle: bool) -> Option<Grove>;

    /// A grove comes back: done, or unfinished after a break or an error, or when it was no longer wanted.
    fn done(&mut self, grove: Grove);

    /// A grove comes back that the engine cannot grow, with the reason. `Break` ends the run with it, which is what a batch
    /// job wants; `Continue` has the others grow on, which is what those want who asked a server for them.
    fn failed(&mut self, grove: Grove, error: &dyn Error) -> ControlFlow<()> {
        let _ = error;
        self.done(grove);
        ControlFlow::Break(())
    }

    /// Asked of every growing grove after every step: is it still wanted? One that is not comes back as it is, while the
    /// others grow on. A server says no when a client has gone away or its time is up.
    fn wants(&mut self, grove: &Grove) -> bool {
        let _ = grove;
        true
    }

    /// Called after every step. `Break` ends the run: everything comes back as it is.
    fn pulse(&mut self, pulse: &Pulse) -> ControlFlow<()> {
        let _ = pulse;
        ControlFlow::Continue(())
    }
}

/// How a run is getting on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pulse {
    /// Tokens decoded since the run began.
    pub decoded: usize,
    /// Sequences being decoded now.
    pub live: usize,
    /// Sequences set aside until there is memory for them.
    pub waiting: usize,
    /// Pages of keys and values in use, for engines that keep their own.
    pub pages: usize,
}

/// Decodes groves until their forest has no more.
pub trait Engine {
    type Error: std::error::Error + Send + Sync + 'static;

    /// Every grove taken from the forest is brought back through [`Forest::done`] or [`Forest::failed`], on errors too:
    /// nothing that was generated is lost.
    fn grow(&mut self, forest: &mut dyn Forest) -> Result<(), Self::Error>;
}
