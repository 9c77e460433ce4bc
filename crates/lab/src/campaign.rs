//! Several runs in one folder: methods side by side, seeds, the points of a sweep.
//!
//! Each run has a folder of its own below the campaign's (a single run is the campaign's folder itself). Runs that begin with
//! the same first pass share it. A run that is complete is never run again; one that is asked for with more problems goes on
//! with those.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use eager_core::{Engine, Method, Metrics, Plan};
use sha2::{Digest, Sha256};

use crate::bench::{self, Bench, BenchError, Observer, Pace, Passes, Speller, Task};
use crate::run::{
    Asked, Folder, Lock, Manifest, Run, RunError, SuiteInfo, has_metrics, not_in_the_way, read_manifest,
};
use crate::suite;

/// Does this option only matter to a second pass?
pub fn is_late(option: &str) -> bool {
    matches!(option, "surplus" | "surplus-total" | "adapt-to") || option.starts_with("regrow")
}

/// Is this option a method's own? All others say how problems are put and how tokens are drawn, which must be the same for
/// methods that are compared.
pub fn is_of_method(option: &str) -> bool {
    const FORKING: [&str; 5] = ["window", "everywhere", "cap", "relax", "fork-spacing"];
    let baseline = ["esc", "deepconf", "first-stage"].iter().any(|method| option.starts_with(method));
    is_late(option) || baseline || FORKING.contains(&option)
}

/// One run of a campaign.
#[derive(Debug, Clone)]
pub struct Trial {
    /// Its folder below the campaign's; empty for a campaign that is one run.
    pub name: String,
    pub method: Method,
    pub plan: Plan,
    pub manifest: Manifest,
    pub tasks: Arc<Vec<Task>>,
}

impl Trial {
    pub fn folder(&self, root: &Path) -> PathBuf {
        if self.name.is_empty() { root.to_owned() } else { root.join(&self.name) }
    }

    /// The name of the first pass that it shares with others, if it has to be kept.
    fn first_pass(&self, others: &[Trial]) -> Option<String> {
        let key = self.first_pass_key();
        let wants = |trial: &&Trial| trial.method.has_second_pass() && trial.first_pass_key() == key;
        others.iter().find(wants).map(|_| key)
    }

    /// What this run would be asked, had only these problems been chosen; or the id of one that it has not.
    fn over(&self, ids: &[String]) -> Result<Manifest, String> {
        let by_id: HashMap<&str, &Task> =
            self.tasks.iter().map(|task| (task.problem.id.as_str(), task)).collect();
        let task = |id: &String| by_id.get(id.as_str()).copied().ok_or_else(|| id.clone());
        let tasks: Vec<&Task> = ids.iter().map(task).collect::<Result<_, _>>()?;
        let mut manifest = self.manifest.clone();
        manifest.suite.hash = suite::hash(tasks.iter().map(|task| &task.problem));
        manifest.suite.problems = tasks.len();
        manifest.parameters.max_tokens = bench::max_tokens(tasks);
        Ok(manifest)
    }

    /// All that a first pass depends on, but for the problems: they are told apart by their fingerprints.
    fn first_pass_key(&self) -> String {
        let mut manifest = self.manifest.clone();
        manifest.method = self.method.opening().to_string();
        (manifest.model.path, manifest.found_theta) = (None, None);
        manifest.parameters.second_pass = None;
        manifest.suite = SuiteInfo { name: manifest.suite.name, ..SuiteInfo::default() };
        manifest.parameters.max_tokens = 0;
        manifest.parameters.options.retain(|name, _| !is_late(name));
        // A manifest is plain data, so this cannot fail; without it, no pass would be shared.
        let text = serde_json::to_vec(&manifest).unwrap_or_else(|_| self.name.clone().into_bytes());
        Sha256::digest(&text)[..8].iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Where first passes are.
const PASSES: &str = "first-pass";

/// What is written beside the runs, and what comes with it.
const REPORT: &str = "report.html";
const MARKDOWN: &str = "report.md";
const FIGURES: &str = "report-figures";

/// Looks on while runs go by.
pub trait Spectator: Observer {
    /// It is a run's turn. So many of its prompts were finished before: all of them, where it is not run again.
    fn run(&mut self, trial: &Trial, finished: usize) {
        let _ = (trial, finished);
    }

    /// It is complete.
    fn complete(&mut self, trial: &Trial, metrics: &Metrics) {
        let _ = (trial, metrics);
    }
}

impl Spectator for () {}

/// A campaign's folder, with this process as its only writer.
#[derive(Debug)]
pub struct Campaign {
    root: PathBuf,
    trials: Vec<Trial>,
    asked: Vec<Asked>,
    lock: Arc<Lock>,
}

impl Campaign {
    /// Looks at every run's folder before any begins, so that what cannot work is told at once, and nothing is left behind.
    pub fn open(root: &Path, trials: Vec<Trial>, asked: &[Asked], resume: bool) -> Result<Self, RunError> {
        let nested = trials.iter().all(|trial| !trial.name.is_empty());
        if nested && root.join("run.json").exists() {
            return Err(RunError::Alone(root.to_owned()));
        }
        let is_ours = if nested { Run::are_below(root) } else { root.join("run.json").exists() };
        if !is_ours {
            not_in_the_way(root, &[REPORT, MARKDOWN, FIGURES])?;
        }
        for trial in &trials {
            Folder::check(&trial.folder(root), &trial.manifest, &|ids| trial.over(ids), resume)?;
        }
        let lock = Arc::new(Lock::take(root)?);
        Ok(Campaign { root: root.to_owned(), trials, asked: asked.to_vec(), lock })
    }

    /// A run's folder, when its turn has come: a large sweep has more runs than a process may have files open.
    fn folder(&self, trial: &Trial) -> Result<Folder, RunError> {
        let path = trial.folder(&self.root);
        let lock = if trial.name.is_empty() { Arc::clone(&self.lock) } else { Arc::new(Lock::take(&path)?) };
        Folder::locked(lock, &path, &trial.manifest, &|ids| trial.over(ids), &self.asked, true)
    }

    /// Runs what is not complete, in order.
    pub fn run<E: Engine>(
        &mut self,
        engine: &mut E,
        spell: &Speller,
        pace: &Pace,
        spectator: &mut dyn Spectator,
    ) -> Result<ControlFlow<()>, BenchError> {
        for trial in &self.trials {
            let mut folder = self.folder(trial)?;
            spectator.run(trial, folder.finished());
            if folder.finished() < trial.tasks.len() {
                let mut passes = match trial.first_pass(&self.trials) {
                    Some(key) => Some(open_passes(&self.root, &key)?),
                    None => None,
                };
                let (spell, pace) = (Arc::clone(spell), pace.clone());
                let mut bench = Bench { engine, tasks: &trial.tasks, spell, pace };
                let flow = bench.run(&mut folder, &trial.plan, trial.method, passes.as_mut(), spectator)?;
                if flow.is_break() {
                    return Ok(flow);
                }
            }
            // Also where nothing was left to run: the last kill may have come after the last line.
            bench::sort(&mut folder, &trial.tasks)?;
            let metrics = bench::metrics(&folder.samples()?);
            folder.write_metrics(&BTreeMap::from([(trial.method.to_string(), metrics)]))?;
            spectator.complete(trial, &metrics);
        }
        Ok(ControlFlow::Continue(()))
    }

    pub fn trials(&self) -> &[Trial] {
        &self.trials
    }

    /// The runs that are not complete.
    pub fn missing(&self) -> impl Iterator<Item = &Trial> {
        self.trials.iter().filter(|trial| !self.is_complete(trial))
    }

    /// Metrics are the last thing that is written, and the first that goes when problems are added.
    fn is_complete(&self, trial: &Trial) -> bool {
        let folder = trial.folder(&self.root);
        let begun = read_manifest(&folder).ok().flatten();
        begun.is_some_and(|begun| begun.suite == trial.manifest.suite) && has_metrics(&folder)
    }

    /// Where the report goes. It may be written while this is held, and by nobody else.
    pub fn report(&self) -> PathBuf {
        self.root.join(REPORT)
    }
}

fn open_passes(root: &Path, key: &str) -> Result<Passes, RunError> {
    let folder = root.join(PASSES);
    fs::create_dir_all(&folder).map_err(RunError::io("create", &folder))?;
    Passes::open(&folder.join(format!("{key}.jsonl")))
}
