//! A neighbour that wants a core for itself.
//!
//! Engines that split every layer over all cores wait for the slowest of them, so one busy neighbour can
//! cost far more than the core it takes.

use std::env;
use std::hint::black_box;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

/// The hidden argument that makes this program the neighbour.
pub const SPIN: &str = "spin";

/// A neighbour ends by itself after this long, even if whoever started it was killed.
const LONGEST: Duration = Duration::from_secs(300);

/// A running neighbour, ended when dropped.
pub struct Neighbour(Child);

impl Neighbour {
    pub fn start() -> Result<Neighbour> {
        let program = env::current_exe().context("this program cannot find itself")?;
        let child = Command::new(program).arg(SPIN).spawn().context("cannot start a busy process")?;
        Ok(Neighbour(child))
    }

    /// Ends the neighbour, which must have been there all the time for a measurement to count.
    pub fn stop(mut self) -> Result<()> {
        ensure!(self.0.try_wait()?.is_none(), "the measurement outlasted its busy process");
        Ok(())
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to kill, and it is still to be waited for.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What the neighbour does: work that never yields its core.
pub fn spin() {
    let start = Instant::now();
    let mut count = 0_u64;
    while start.elapsed() < LONGEST {
        for _ in 0..1_000_000 {
            count = black_box(count.wrapping_add(1));
        }
    }
}
