//! The suites that are known by name.

use std::path::PathBuf;

use super::fetch::{ORIGINALS, fetch};
use super::jsonl::{Fields, Reader};
use super::source::Place;
use super::template::{Template, TemplateError};
use super::{Problem, Request, SuiteError, acorn, gpqa};
use crate::judge::Kind;

/// A suite that is known by name.
#[derive(Debug, Clone, Copy)]
pub struct Known {
    pub name: &'static str,
    /// Its file in the data folder; acorn's problems are part of the program.
    pub file: Option<&'static str>,
    /// Where that is from and what it looks like, in words.
    pub origin: &'static str,
    /// What the problems are judged by.
    pub kind: Kind,
    /// May its texts not be written down?
    pub secret: bool,
    /// The fields of a line that say what a problem is grouped by.
    group: &'static [&'static str],
}

const ACORN: &str = "acorn";
const GPQA: &str = "gpqa-diamond";
const HUMANEVAL: &str = "humaneval-plus";

/// Mathematics, in a file with a problem a line.
const fn lines(name: &'static str, file: &'static str, origin: &'static str) -> Known {
    Known { name, file: Some(file), origin, kind: Kind::Math, secret: false, group: &[] }
}

pub const SUITES: [Known; 8] = [
    lines(
        "aime2024",
        "aime2024.jsonl",
        "a line of {\"id\", \"problem\", \"answer\"} for each problem of AIME 2024, made from evaluation/data/aime24/test.jsonl of QwenLM/Qwen2.5-Math on GitHub",
    ),
    lines(
        "aime2025",
        "aime2025.jsonl",
        "a line of {\"id\", \"problem\", \"answer\"} for each problem of AIME 2025, made from data/aime/aime_2025_I and _II of eth-sri/matharena on GitHub at commit 96440b2",
    ),
    lines(
        "hmmt-feb-2025",
        "hmmt_feb_2025.jsonl",
        "a line of {\"id\", \"problem\", \"answer\"} for each problem of HMMT February 2025, made from data/hmmt/hmmt_feb_2025 of eth-sri/matharena on GitHub at commit 96440b2",
    ),
    Known {
        name: GPQA,
        file: Some("gpqa_dataset.zip"),
        origin: "dataset.zip of idavidrein/gpqa on GitHub, encrypted as its authors publish it",
        kind: Kind::Choice,
        secret: true,
        group: &[],
    },
    Known {
        name: HUMANEVAL,
        file: Some("HumanEvalPlus-v0.1.10.jsonl.gz"),
        origin: "HumanEvalPlus.jsonl.gz of the release v0.1.10 of evalplus/humanevalplus_release on GitHub",
        kind: Kind::Code,
        secret: false,
        group: &[],
    },
    Known {
        group: &["subject", "level"],
        ..lines(
            "math500",
            "math500.jsonl",
            "a line of {\"id\", \"problem\", \"answer\", \"subject\", \"level\"} for each of the 500 problems, made from prm800k/math_splits/test.jsonl of openai/prm800k on GitHub",
        )
    },
    lines(
        "gsm8k",
        "gsm8k_test.jsonl",
        "a line of {\"id\", \"problem\", \"answer\"} for each problem of the test split, made from grade_school_math/data/test.jsonl of openai/grade-school-math on GitHub",
    ),
    Known {
        name: ACORN,
        file: None,
        origin: "part of the program",
        kind: Kind::Exact,
        secret: false,
        group: &[],
    },
];

/// The names of the suites that are known.
pub fn names() -> Vec<&'static str> {
    SUITES.iter().map(|suite| suite.name).collect()
}

impl Known {
    pub(super) fn find(name: &str) -> Option<&'static Self> {
        SUITES.iter().find(|suite| suite.name == name)
    }

    /// acorn was trained on bare problems.
    pub(super) fn template(&self) -> Result<Template, TemplateError> {
        if self.name == ACORN { Template::bare() } else { Template::usual(self.kind) }
    }

    /// The problems are sorted by family and level, so that the first few would all be alike.
    pub(super) fn is_sorted(&self) -> bool {
        self.name == ACORN
    }

    pub(super) fn problems(&'static self, request: &Request) -> Result<Vec<Problem>, SuiteError> {
        let Some(file) = self.file else { return acorn::problems(request) };
        if request.problems.is_some() || request.problem_seed.is_some() {
            let why = format!("{} has the problems that it has: only acorn's are generated", self.name);
            return Err(SuiteError::Misfit(why));
        }
        let path = self.path(file, request)?;
        match self.name {
            GPQA => gpqa::problems(&path),
            #[cfg(unix)]
            HUMANEVAL => super::humaneval::problems(&path, request.unsafe_code),
            #[cfg(not(unix))]
            HUMANEVAL => Err(SuiteError::Misfit("programs can be run on Unix only".to_owned())),
            _ => {
                let group = self.group.iter().map(|&field| field.to_owned()).collect();
                let fields = Fields { id: Some("id".to_owned()), group, ..Fields::default() };
                let reader = Reader {
                    fields: &fields,
                    kind: self.kind,
                    #[cfg(unix)]
                    command: None,
                };
                reader.read(&path)
            }
        }
    }

    /// The file, fetched if need be.
    fn path(&'static self, file: &'static str, request: &Request) -> Result<PathBuf, SuiteError> {
        let place = match &request.place {
            Some(place) => place.clone(),
            None => Place::from_env()?,
        };
        let path = place.folder.join(file);
        if path.is_file() {
            return Ok(path);
        }
        let original = ORIGINALS.iter().find(|original| original.suite == self.name);
        let original = original.expect("where the file of every suite is from is known");
        if let Some(announce) = request.announce {
            announce(&format!("fetching {} from {}", self.name, original.whereabouts(&place)));
        }
        match fetch(original, &place, &path) {
            Ok(()) => Ok(path),
            Err(error) => {
                Err(SuiteError::Absent { suite: self, folder: place.folder, error: Box::new(error) })
            }
        }
    }
}
