//! Running a workload on our engine, by its own command.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use crate::workload::{Kv, Phase, Workload};

/// The `eager` command. A process of its own, as both engines would otherwise keep threads that wait for
/// work in the same one.
pub struct Eager {
    binary: PathBuf,
    model: PathBuf,
    threads: u16,
    peaks: bool,
}

/// What one run of the command reached.
#[derive(Debug, Clone, Copy)]
pub struct Speed {
    pub tokens_per_second: f64,
    /// Of what the machine's peaks allow, where they were measured in the same run.
    pub share_of_bound: Option<f64>,
}

#[derive(Debug, Deserialize)]
struct Report {
    workloads: Vec<Entry>,
}

#[derive(Debug, Deserialize)]
struct Entry {
    name: String,
    branches: u64,
    shared: u64,
    /// Tokens of a prompt of one's own, and tokens decoded before the clock starts: to a cache they are the same.
    private: u64,
    own: u64,
    tokens: u64,
    kv: String,
    tokens_per_second: f64,
    share_of_bound: Option<f64>,
}

impl Eager {
    /// Makes sure there is such a command, which would otherwise be found out after minutes of scouting.
    pub fn new(binary: &Path, model: &Path, threads: u16, peaks: bool) -> Result<Eager> {
        let version = Command::new(binary).arg("--version").output();
        let version = version.with_context(|| format!("cannot run {}", binary.display()))?;
        ensure!(version.status.success(), "{} is not the `eager` command", binary.display());
        Ok(Eager { binary: binary.to_owned(), model: model.to_owned(), threads, peaks })
    }

    /// The speed of the whole workload, as the command reports it.
    pub fn measure(&self, workload: &Workload, kv: Kv) -> Result<Speed> {
        // Where llama.cpp keeps half-precision floats, we keep whole numbers of 16 bits.
        let ours = match kv {
            Kv::F16 => "q16",
            Kv::Q8 => "q8",
        };
        let output = Command::new(&self.binary)
            .args(["engine", "bench", "--json", "--workload", workload.name, "--kv", ours])
            .args(["--threads", &self.threads.to_string()])
            .args(self.peaks.then_some("--peaks"))
            .arg("--model")
            .arg(&self.model)
            .output()
            .with_context(|| format!("cannot run {}", self.binary.display()))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("{} failed on {}: {}", self.binary.display(), workload.name, said.trim());
        }
        let report: Report = serde_json::from_slice(&output.stdout)
            .context("the output of `eager engine bench` is not understood")?;
        let entry = report
            .workloads
            .into_iter()
            .find(|entry| entry.name == workload.name && entry.kv == ours)
            .with_context(|| format!("`eager engine bench` did not report {}", workload.row(kv)))?;
        entry.check(workload)?;
        Ok(Speed { tokens_per_second: entry.tokens_per_second, share_of_bound: entry.share_of_bound })
    }
}

impl Entry {
    /// A name is a promise; a ratio needs the same work on both sides.
    fn check(&self, workload: &Workload) -> Result<()> {
        ensure!(
            self.tokens_per_second.is_finite() && self.tokens_per_second > 0.0,
            "`eager engine bench` reports {} tokens/s for {}",
            self.tokens_per_second,
            self.name
        );
        if workload.phase == Phase::Prefill {
            return Ok(());
        }
        let theirs = [self.branches, self.shared, self.private + self.own, self.tokens];
        let ours = [workload.branches, workload.shared, workload.own, workload.tokens].map(u64::from);
        ensure!(
            theirs == ours,
            "{}: `eager engine bench` ran [branches, shared, own, tokens] = {theirs:?} instead of {ours:?}",
            self.name
        );
        Ok(())
    }
}
