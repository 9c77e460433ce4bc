//! Models by their name on the Hugging Face hub.
//!
//! `--model Qwen/Qwen3-4B` is the folder of that name in the hub's cache, where every tool that uses the hub keeps its
//! files; what is not there is downloaded first. A name may go on with a revision (`Qwen/Qwen3-4B@main`) and, for a
//! repository with several GGUF files, with what tells them apart (`unsloth/Qwen3-4B-GGUF:Q4_K_M`).
//!
//! A download that breaks off goes on where it was. The hub names large files by their SHA-256, which is compared before
//! a file is used for the first time. What the cache holds is used as it is, without a question to the hub.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use hf_hub::api::sync::{ApiBuilder, ApiRepo};
use hf_hub::{Cache, Repo, RepoType};
use indicatif::{ProgressBar, ProgressStyle};

use crate::Usage;
use crate::session::hash_file;

const INDEX: &str = "model.safetensors.index.json";

/// What a folder of safetensors needs beside them; the hub may not have all.
const SETTINGS: [&str; 6] = [
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
    INDEX,
];

/// The file or folder that a model's name stands for: itself, if it is there, or else what the hub has under it.
pub fn locate(model: &Path) -> anyhow::Result<PathBuf> {
    match name(model) {
        Some(name) => Shelf::new(name).locate(),
        // What is not there either is told by those who would open it.
        None => Ok(model.to_owned()),
    }
}

/// The same for those who only want to speak to a model that runs elsewhere: a folder of safetensors is fetched without them.
pub fn locate_words(model: &Path) -> anyhow::Result<PathBuf> {
    match name(model) {
        Some(name) => Shelf { words_only: true, ..Shelf::new(name) }.locate(),
        None => Ok(model.to_owned()),
    }
}

/// What is no file may be a name.
fn name(model: &Path) -> Option<Name> {
    model.to_str().filter(|_| !model.exists()).and_then(Name::parse)
}

/// A model's name on the hub.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Name {
    /// As in `Qwen/Qwen3-4B`.
    repo: String,
    revision: String,
    /// A part of the name of the one file that is meant.
    variant: Option<String>,
}

impl Name {
    /// `None` for what cannot be a name.
    fn parse(text: &str) -> Option<Self> {
        let plain = |part: &str| {
            let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
            !part.is_empty() && part.chars().all(allowed) && !part.starts_with('.') && !part.contains("..")
        };
        let (rest, variant) = match text.split_once(':') {
            Some((rest, variant)) => (rest, Some(variant)),
            None => (text, None),
        };
        let (repo, revision) = rest.split_once('@').unwrap_or((rest, "main"));
        let (owner, name) = repo.split_once('/')?;
        let is_file = [".gguf", ".safetensors"].iter().any(|end| name.ends_with(end));
        let known = plain(owner) && plain(name) && plain(revision) && variant.is_none_or(plain) && !is_file;
        known.then(|| Self {
            repo: repo.to_owned(),
            revision: revision.to_owned(),
            variant: variant.map(str::to_owned),
        })
    }
}

/// A repository and its place in the cache.
struct Shelf {
    name: Name,
    repo: Repo,
    cache: Cache,
    /// Weights are not wanted, where they are files of their own.
    words_only: bool,
}

impl Shelf {
    fn new(name: Name) -> Self {
        let repo = Repo::with_revision(name.repo.clone(), RepoType::Model, name.revision.clone());
        // The place may also be named by a variable that the library does not know.
        let cache = std::env::var_os("HF_HUB_CACHE").filter(|place| !place.is_empty());
        let cache = cache.map_or_else(Cache::from_env, |place| Cache::new(place.into()));
        Self { name, repo, cache, words_only: false }
    }

    fn locate(&self) -> anyhow::Result<PathBuf> {
        if let Some(found) = self.cached() {
            return Ok(found);
        }
        let failed = || format!("cannot get {} from the Hugging Face hub", self.name.repo);
        if std::env::var("HF_HUB_OFFLINE").is_ok_and(|flag| flag == "1") {
            let why =
                format!("{} is not in the cache, and HF_HUB_OFFLINE says not to ask the hub", self.name.repo);
            return Err(anyhow::anyhow!(why));
        }
        self.download().with_context(failed)
    }

    /// The folder of the commit that the revision was when it was last fetched.
    fn snapshot(&self) -> Option<PathBuf> {
        let refs = self.cache.path().join(self.repo.folder_name()).join("refs").join(&self.name.revision);
        let commit = std::fs::read_to_string(refs).ok()?;
        Some(self.cache.repo(self.repo.clone()).pointer_path(commit.trim()))
    }

    /// The model, if all of it is in the cache.
    fn cached(&self) -> Option<PathBuf> {
        let snapshot = self.snapshot()?;
        if self.words_only && self.name.variant.is_none() && snapshot.join("tokenizer.json").exists() {
            return Some(snapshot);
        }
        let entries = std::fs::read_dir(&snapshot).ok()?;
        let there: Vec<String> = entries.flatten().filter_map(|e| e.file_name().into_string().ok()).collect();
        let wanted = Wanted::among(&there, &self.name).ok()?;
        let index = std::fs::read(snapshot.join(INDEX)).ok();
        let weights = wanted.weights(index.as_deref()).ok()?;
        let all = !weights.is_empty() && weights.iter().all(|file| snapshot.join(file).exists());
        all.then(|| wanted.path(&snapshot, &weights))
    }

    fn download(&self) -> anyhow::Result<PathBuf> {
        let mut builder = ApiBuilder::from_env().with_cache_dir(self.cache.path().clone()).with_retries(3);
        if let Some(token) = std::env::var("HF_TOKEN").ok().filter(|token| !token.is_empty()) {
            builder = builder.with_token(Some(token));
        }
        let api = builder.build()?.repo(self.repo.clone());
        let info =
            api.info().with_context(|| format!("{} is no model there, or is not public", self.name.repo))?;
        let there: Vec<String> = info.siblings.into_iter().map(|file| file.rfilename).collect();
        let wanted = Wanted::among(&there, &self.name)?;
        for file in wanted.settings() {
            self.fetch(&api, file)?;
        }
        if let Some(words) = self.cached().filter(|_| self.words_only) {
            return Ok(words);
        }
        let repo = self.cache.repo(self.repo.clone());
        let index = repo.get(INDEX).map(std::fs::read).transpose()?;
        let weights = wanted.weights(index.as_deref())?;
        for file in &weights {
            self.fetch(&api, file)?;
        }
        let missing = "the repository changed while it was being downloaded; try again";
        self.cached().context(missing)
    }

    /// A file into the cache, if it is not there; it is checked before anyone sees it.
    fn fetch(&self, api: &ApiRepo, file: &str) -> anyhow::Result<()> {
        if self.cache.repo(self.repo.clone()).get(file).is_some() {
            return Ok(());
        }
        let path = api.download_with_progress(file, Bar::default()).with_context(|| file.to_owned())?;
        let blob = path.canonicalize()?;
        let name = blob.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // Small files are named by the hash that git gives them; if one is damaged, it does not parse.
        let is_sha256 = name.len() == 64 && name.bytes().all(|b| b.is_ascii_hexdigit());
        if is_sha256 && hash_file(&blob)? != name {
            std::fs::remove_file(&blob)?;
            std::fs::remove_file(&path).or_else(|e| match e.kind() {
                std::io::ErrorKind::NotFound => Ok(()),
                _ => Err(e),
            })?;
            anyhow::bail!("{file} arrived damaged (its SHA-256 is not the hub's) and was removed; try again");
        }
        Ok(())
    }
}

/// Which files of a repository make up the model.
#[derive(Debug, PartialEq, Eq)]
enum Wanted {
    /// One GGUF, perhaps in several parts.
    Gguf(Vec<String>),
    /// A folder with these settings and these safetensors, unless its index knows better.
    Folder { settings: Vec<&'static str>, weights: Vec<String> },
}

impl Wanted {
    fn among(there: &[String], name: &Name) -> anyhow::Result<Self> {
        let ending = |end: &str| there.iter().filter(|file| file.ends_with(end)).cloned().collect::<Vec<_>>();
        // What lies in folders is the same model in another form.
        let mut safetensors: Vec<String> =
            ending(".safetensors").into_iter().filter(|f| !f.contains('/')).collect();
        if name.variant.is_none() && !safetensors.is_empty() {
            if safetensors.iter().any(|file| file == "model.safetensors") {
                safetensors = vec!["model.safetensors".to_owned()];
            }
            let settings =
                SETTINGS.into_iter().filter(|known| there.iter().any(|file| file == known)).collect();
            return Ok(Self::Folder { settings, weights: safetensors });
        }
        let mut models: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for file in ending(".gguf") {
            let lower = file.to_lowercase();
            // The part of a model that sees is no language model.
            if !lower.contains("mmproj")
                && name.variant.as_ref().is_none_or(|v| lower.contains(&v.to_lowercase()))
            {
                models.entry(without_part(&file).to_owned()).or_default().push(file);
            }
        }
        let (all, repo) = (models.len(), &name.repo);
        match (models.pop_first(), &name.variant) {
            (Some((_, parts)), _) if all == 1 => Ok(Self::Gguf(parts)),
            (Some((first, _)), _) => {
                let mut names: Vec<String> = [first].into_iter().chain(models.into_keys()).collect();
                names.sort();
                let why = format!(
                    "{repo} has {all} such models; name one as in {repo}:Q4_K_M ({})",
                    names.join(", ")
                );
                Err(Usage(why).into())
            }
            (None, Some(variant)) => Err(Usage(format!("{repo} has no .gguf file named {variant}")).into()),
            (None, None) => Err(anyhow::anyhow!("{repo} has neither .safetensors nor .gguf files")),
        }
    }

    fn settings(&self) -> &[&'static str] {
        match self {
            Self::Gguf(_) => &[],
            Self::Folder { settings, .. } => settings,
        }
    }

    fn weights(&self, index: Option<&[u8]>) -> anyhow::Result<Vec<String>> {
        match (self, index) {
            (Self::Gguf(parts), _) => Ok(parts.clone()),
            (Self::Folder { weights, .. }, None) => Ok(weights.clone()),
            (Self::Folder { .. }, Some(index)) => {
                let index: serde_json::Value = serde_json::from_slice(index).context(INDEX)?;
                let map =
                    index["weight_map"].as_object().with_context(|| format!("{INDEX} has no weight_map"))?;
                let mut files: Vec<String> =
                    map.values().filter_map(|f| f.as_str()).map(str::to_owned).collect();
                files.sort();
                files.dedup();
                // It comes from a stranger, and these become paths.
                match files.iter().find(|file| file.contains(['/', '\\']) || file.starts_with('.')) {
                    Some(outside) => anyhow::bail!("{INDEX} names {outside}, which is not beside it"),
                    None => Ok(files),
                }
            }
        }
    }

    /// What to open.
    fn path(&self, snapshot: &Path, weights: &[String]) -> PathBuf {
        match self {
            Self::Gguf(_) => snapshot.join(&weights[0]),
            Self::Folder { .. } => snapshot.to_owned(),
        }
    }
}

/// The name of a GGUF without the number of a part.
fn without_part(file: &str) -> &str {
    let stem = file.strip_suffix(".gguf").unwrap_or(file);
    let digits = |text: &str| text.len() == 5 && text.bytes().all(|b| b.is_ascii_digit());
    match stem.rsplit_once("-of-") {
        Some((rest, count)) if digits(count) => match rest.rsplit_once('-') {
            Some((base, number)) if digits(number) => base,
            _ => stem,
        },
        _ => stem,
    }
}

/// A bar on stderr while a file comes.
#[derive(Debug, Default)]
struct Bar(Option<ProgressBar>);

impl hf_hub::api::Progress for Bar {
    fn init(&mut self, size: usize, file: &str) {
        let style = "{prefix:40} {bar:24} {bytes}/{total_bytes}  {bytes_per_sec}  {eta}";
        // The template is a constant, so it parses always or never; a plain bar would do as well.
        let style = ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = ProgressBar::new(size as u64).with_style(style).with_prefix(file.to_owned());
        bar.enable_steady_tick(Duration::from_millis(200));
        self.0 = Some(bar);
    }

    fn update(&mut self, size: usize) {
        if let Some(bar) = &self.0 {
            bar.inc(size as u64);
        }
    }

    fn finish(&mut self) {
        if let Some(bar) = self.0.take() {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::parse(text).unwrap()
    }

    #[test]
    fn names_are_told_from_paths() {
        let qwen = Name { repo: "Qwen/Qwen3-4B".into(), revision: "main".into(), variant: None };
        assert_eq!(name("Qwen/Qwen3-4B"), qwen);
        assert_eq!(name("Qwen/Qwen3-4B@v1.0"), Name { revision: "v1.0".into(), ..qwen.clone() });
        assert_eq!(name("Qwen/Qwen3-4B:Q4_K_M").variant.as_deref(), Some("Q4_K_M"));
        for path in [
            "model", "./model", "../a/b", "a/b/c", "/a/b", "a/b.gguf", "a/", "a/b c", "a/..", "a/b@", "a/b:",
            "~/m",
        ] {
            assert_eq!(Name::parse(path), None, "{path}");
        }
    }

    #[test]
    fn the_files_of_a_model_are_found_in_its_repository() {
        let files = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
        let wanted = |names: &[&str], model: &str| Wanted::among(&files(names), &name(model));
        let folder = [
            "README.md",
            "config.json",
            "tokenizer.json",
            "model-00001-of-00002.safetensors",
            "model-00002-of-00002.safetensors",
            INDEX,
            "original/model.safetensors",
            "metal/model.bin",
        ];
        let found = wanted(&folder, "a/b").unwrap();
        assert_eq!(found.settings(), ["config.json", "tokenizer.json", INDEX]);
        let index = br#"{"weight_map": {"x": "model-00001-of-00002.safetensors", "y": "model-00001-of-00002.safetensors"}}"#;
        assert_eq!(found.weights(Some(index)).unwrap(), ["model-00001-of-00002.safetensors"]);
        assert!(found.weights(Some(br#"{"weight_map": {"x": "../../secret"}}"#)).is_err());
        let whole = ["model.safetensors", "consolidated.safetensors"];
        assert_eq!(wanted(&whole, "a/b").unwrap().weights(None).unwrap(), ["model.safetensors"]);

        let ggufs =
            ["m-Q4_K_M.gguf", "m-Q8_0-00001-of-00002.gguf", "m-Q8_0-00002-of-00002.gguf", "mmproj-F16.gguf"];
        assert_eq!(wanted(&ggufs, "a/b:q4_k_m").unwrap(), Wanted::Gguf(files(&ggufs[..1])));
        assert_eq!(wanted(&ggufs, "a/b:Q8_0").unwrap(), Wanted::Gguf(files(&ggufs[1..3])));
        let unclear = wanted(&ggufs, "a/b").unwrap_err().to_string();
        assert!(unclear.contains("a/b:Q4_K_M") && unclear.contains("m-Q8_0"), "{unclear}");
        assert!(wanted(&ggufs, "a/b:Q2_K").unwrap_err().to_string().contains("Q2_K"));
        assert!(wanted(&["README.md"], "a/b").unwrap_err().to_string().contains("neither"));
    }
}
