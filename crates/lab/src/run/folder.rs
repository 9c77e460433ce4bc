//! A run's folder while it is written: one process at a time, and nothing that a kill could spoil.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::journal::{Journal, lines, replace};
use super::second_pass;
use super::{Asked, FORMAT, Manifest, RunError, Sample};

pub const MANIFEST: &str = "run.json";
pub const SAMPLES: &str = "samples.jsonl";
pub const PROBLEMS: &str = "problems.jsonl";
pub const METRICS: &str = "metrics.json";

/// The record's name for the reading of the second pass.
const SECOND_PASS: &str = "parameters.second_pass";

/// The option that says how answers are found. Runs without it are from when thoughts and all last numbers counted.
const EXTRACT: &str = "extract";

/// Keeps others from writing to a folder, until it is dropped or its process has died.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    pub fn take(folder: &Path) -> Result<Self, RunError> {
        fs::create_dir_all(folder).map_err(RunError::io("create", folder))?;
        let path = folder.join(".lock");
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(RunError::io("open", &path))?;
        match file.try_lock() {
            Ok(()) => Ok(Lock { _file: file }),
            Err(TryLockError::WouldBlock) => Err(RunError::Taken(folder.to_owned())),
            Err(TryLockError::Error(error)) => Err(RunError::io("lock", &path)(error)),
        }
    }
}

/// What a run would have been asked, had only these of its problems been chosen, by their ids in this order; or an id that is
/// not among its problems.
pub type Over<'a> = &'a dyn Fn(&[String]) -> Result<Manifest, String>;

/// What a folder holds for a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begun {
    Nothing,
    /// The same run.
    Same,
    /// The same run over some of its problems: it goes on with the others.
    Part,
}

/// A run that this process may write to.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    samples: Journal,
    /// The prompts that are in `samples.jsonl`, each with the place of its line.
    finished: HashMap<String, usize>,
    _lock: Arc<Lock>,
}

impl Folder {
    /// Begins a run, or goes on with one: then it must have been asked the same.
    pub fn open(
        path: &Path,
        manifest: &Manifest,
        problems: &[Asked],
        resume: bool,
    ) -> Result<Self, RunError> {
        let over: Over<'_> = &|_| Ok(manifest.clone());
        Folder::locked(Arc::new(Lock::take(path)?), path, manifest, over, problems, resume)
    }

    /// The same in a folder that is locked already.
    pub(crate) fn locked(
        lock: Arc<Lock>,
        path: &Path,
        manifest: &Manifest,
        over: Over<'_>,
        problems: &[Asked],
        resume: bool,
    ) -> Result<Self, RunError> {
        let begun = Folder::check(path, manifest, over, resume)?;
        if begun == Begun::Part {
            // They were those of fewer problems.
            remove(&path.join(METRICS))?;
        }
        if begun != Begun::Same {
            // First: what lies in a folder without it is not ours.
            replace(&path.join(MANIFEST), |out| write_pretty(out, manifest))?;
        }
        let listed = path.join(PROBLEMS);
        if !problems.is_empty() && (begun == Begun::Part || ids(&listed)?.len() != problems.len()) {
            replace(&listed, |out| write_lines(out, problems))?;
        }
        let samples = path.join(SAMPLES);
        let journal = Journal::open(&samples)?;
        let mut finished = HashMap::new();
        for (place, sample) in lines::<Sample>(&samples)?.enumerate() {
            let id = sample?.id;
            let why = format!("the prompt {id} has a line already");
            if finished.insert(id, place).is_some() {
                return Err(RunError::Damaged { path: samples, line: place + 1, why });
            }
        }
        Ok(Folder { path: path.to_owned(), samples: journal, finished, _lock: lock })
    }

    /// Could this run begin or go on in this folder? Nothing is written.
    pub fn check(path: &Path, manifest: &Manifest, over: Over<'_>, resume: bool) -> Result<Begun, RunError> {
        let Some(run) = read_manifest(path)? else {
            return not_in_the_way(path, &[SAMPLES, PROBLEMS, METRICS]).map(|()| Begun::Nothing);
        };
        if !resume {
            return Err(RunError::Exists(path.to_owned()));
        }
        let begun = if run.suite == manifest.suite {
            same(path, &run, manifest)?;
            Begun::Same
        } else {
            same(path, &run, &before(path, &run, manifest, over)?)?;
            Begun::Part
        };
        // What is complete can still be reported: nothing is added to it.
        let reads = |manifest: &Manifest| manifest.parameters.options.contains_key(EXTRACT);
        let is_complete =
            || Ok(begun == Begun::Same && ids(&path.join(SAMPLES))?.len() == run.suite.problems);
        if reads(manifest) && !reads(&run) && !is_complete()? {
            return Err(RunError::ReadOtherwise { path: path.to_owned() });
        }
        Ok(begun)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How many prompts are finished.
    pub fn finished(&self) -> usize {
        self.finished.len()
    }

    pub fn has(&self, id: &str) -> bool {
        self.finished.contains_key(id)
    }

    /// Adds a finished prompt.
    pub fn append(&mut self, sample: &Sample) -> Result<(), RunError> {
        self.samples.append(sample)?;
        self.finished.insert(sample.id.clone(), self.finished.len());
        Ok(())
    }

    /// Drops the prompts that are not to be kept, so that they are decoded again.
    pub fn retain(&mut self, keep: impl Fn(&Sample) -> bool) -> Result<(), RunError> {
        let samples = self.samples()?;
        let ids: Vec<String> = samples.into_iter().filter(keep).map(|sample| sample.id).collect();
        if ids.len() == self.finished.len() { Ok(()) } else { self.sort(&ids) }
    }

    /// Puts the lines into the order of `ids`: prompts finish in whatever order they will, and two runs of the same should
    /// be the same file.
    pub fn sort(&mut self, ids: &[String]) -> Result<(), RunError> {
        let in_place = |(place, id): (usize, &String)| self.finished.get(id) == Some(&place);
        if ids.len() == self.finished.len() && ids.iter().enumerate().all(in_place) {
            return Ok(());
        }
        let path = self.path.join(SAMPLES);
        let text = fs::read(&path).map_err(RunError::io("read", &path))?;
        let lines: Vec<&[u8]> = text.split_inclusive(|&byte| byte == b'\n').collect();
        let line = |id: &String| self.finished.get(id).and_then(|&place| lines.get(place));
        replace(&path, |out| ids.iter().filter_map(line).try_for_each(|line| out.write_all(line)))?;
        self.samples = Journal::open(&path)?;
        let kept = ids.iter().filter(|id| self.finished.contains_key(*id)).cloned();
        self.finished = kept.zip(0..).collect();
        Ok(())
    }

    pub fn samples(&self) -> Result<Vec<Sample>, RunError> {
        lines(&self.path.join(SAMPLES))?.collect()
    }

    pub fn write_metrics(&self, metrics: &impl Serialize) -> Result<(), RunError> {
        replace(&self.path.join(METRICS), |out| write_pretty(out, metrics))
    }
}

/// A file that is not ours must not be written over, however good its name is.
pub(crate) fn not_in_the_way(folder: &Path, names: &[&str]) -> Result<(), RunError> {
    match names.iter().find(|name| folder.join(name).exists()) {
        Some(name) => Err(RunError::InTheWay { folder: folder.to_owned(), file: (*name).to_owned() }),
        None => Ok(()),
    }
}

/// Did a run come to its end here?
pub(crate) fn has_metrics(folder: &Path) -> bool {
    folder.join(METRICS).is_file()
}

/// What a run was asked; `None` where none was begun.
pub fn read_manifest(folder: &Path) -> Result<Option<Manifest>, RunError> {
    let path = folder.join(MANIFEST);
    let text = match fs::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(RunError::io("read", &path)(error)),
    };
    let bad = |error: serde_json::Error| RunError::Manifest { path: path.clone(), why: error.to_string() };
    let value: serde_json::Value = serde_json::from_slice(&text).map_err(bad)?;
    // Before anything else is believed.
    match value.get("format").and_then(serde_json::Value::as_u64) {
        Some(found) if found == u64::from(FORMAT) => {
            let mut manifest: Manifest = serde_json::from_value(value).map_err(bad)?;
            let unsaid = || second_pass::unsaid(&manifest.method).map(str::to_owned);
            manifest.parameters.second_pass = manifest.parameters.second_pass.or_else(unsaid);
            Ok(Some(manifest))
        }
        Some(found) => Err(RunError::Format { path, found, known: FORMAT }),
        None => Err(RunError::Manifest { path, why: "it does not say which format it has".to_owned() }),
    }
}

/// What the run that was begun would be asked today: the same as now, over the problems that it has.
fn before(path: &Path, begun: &Manifest, now: &Manifest, over: Over<'_>) -> Result<Manifest, RunError> {
    if begun.suite.name != now.suite.name {
        return Ok(now.clone());
    }
    let mut listed = ids(&path.join(PROBLEMS))?;
    if listed.is_empty() {
        // Nothing is written down of these problems but their names, when they are finished.
        listed = ids(&path.join(SAMPLES))?;
        if listed.len() != begun.suite.problems {
            return Err(RunError::Unlisted { path: path.to_owned() });
        }
    }
    over(&listed).map_err(|id| RunError::Lacks { path: path.to_owned(), id })
}

/// What every line has.
#[derive(Deserialize)]
struct Named {
    id: String,
}

fn ids(path: &Path) -> Result<Vec<String>, RunError> {
    lines::<Named>(path)?.map(|line| line.map(|named| named.id)).collect()
}

fn remove(path: &Path) -> Result<(), RunError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(RunError::io("remove", path)(error))
        }
        _ => Ok(()),
    }
}

/// The first thing in which two runs differ. An option that the older one does not know is no difference where it has its
/// default.
fn same(path: &Path, was: &Manifest, now: &Manifest) -> Result<(), RunError> {
    let unasked = |key: &str, value: &str| {
        let default =
            key.strip_prefix("parameters.options.").and_then(|name| now.parameters.defaults.get(name));
        // As both are written: a number may have been one of another width.
        let written = default.map(Value::to_string);
        value == "false" || written.as_deref() == Some(value)
    };
    let [was, now] = [was, now].map(|manifest| {
        // By way of text, which shows 0.3 as it was typed and not as the nearest double.
        let text = serde_json::to_string(manifest).unwrap_or_default();
        let mut flat = Vec::new();
        flatten("", &serde_json::from_str(&text).unwrap_or_default(), &mut flat);
        flat
    });
    let value = |of: &[(String, String)], key: &str| {
        of.iter().find(|(known, _)| known == key).map(|(_, value)| value.clone())
    };
    let keys = was.iter().chain(&now).map(|(key, _)| key.as_str());
    // Where it lies does not matter: its hash does. Nor does it matter how theta was found.
    for key in keys.filter(|&key| key != "model.path" && !key.starts_with("found_theta.")) {
        let (was, now) = (value(&was, key), value(&now, key));
        let is_younger = was.is_none() && now.as_ref().is_some_and(|now| unasked(key, now));
        if was != now && !is_younger {
            let what = if key == SECOND_PASS { "reading of the second pass" } else { key }.to_owned();
            let [was, now] = [was, now].map(|value| value.unwrap_or_else(|| "nothing".to_owned()));
            return Err(RunError::Differs { path: path.to_owned(), what, was, now });
        }
    }
    Ok(())
}

fn flatten(name: &str, value: &serde_json::Value, into: &mut Vec<(String, String)>) {
    match value {
        serde_json::Value::Object(fields) => {
            for (key, value) in fields {
                let name = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
                flatten(&name, value, into);
            }
        }
        value => into.push((name.to_owned(), value.to_string())),
    }
}

fn write_lines(out: &mut dyn Write, lines: &[impl Serialize]) -> std::io::Result<()> {
    for line in lines {
        serde_json::to_writer(&mut *out, line)?;
        out.write_all(b"\n")?;
    }
    Ok(())
}

pub(crate) fn write_pretty(out: &mut dyn Write, value: &impl Serialize) -> std::io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    out.write_all(b"\n")
}
