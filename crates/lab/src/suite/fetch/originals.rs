//! What suites are made of.

use super::super::source::Place;
use super::form::{Contest, Form};

/// Where something is published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Site {
    /// A dataset on the Hugging Face hub.
    Hub,
    /// A repository on GitHub.
    GitHub,
}

/// What a suite is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Original {
    pub suite: &'static str,
    pub site: Site,
    pub repo: &'static str,
    /// A commit, so that nothing can change.
    pub revision: &'static str,
    /// A file, or the folder with several.
    pub path: &'static str,
    /// Of its files as they are there, one after the other.
    pub sha256: &'static str,
    pub form: Form,
}

/// The files of MathArena lie where they were before its data moved.
const MATHARENA: Original = Original {
    suite: "",
    site: Site::GitHub,
    repo: "eth-sri/matharena",
    revision: "96440b20d0b90bb504edb7ee43c0e1e46567569f",
    path: "data",
    sha256: "",
    form: Form::Same,
};

pub const ORIGINALS: &[Original] = &[
    Original {
        suite: "aime2024",
        site: Site::GitHub,
        repo: "QwenLM/Qwen2.5-Math",
        revision: "a45202bd16f1ec06f433442dc1152d0074773465",
        path: "evaluation/data/aime24/test.jsonl",
        sha256: "af2b8bd2aa911b6333ad0df32f3ca05c7ae8ed10f1731f4372c8ae26990bf7ac",
        form: Form::Wiki,
    },
    Original {
        suite: "aime2025",
        sha256: "a2646b5ed295ad3d999d9ea5b03c3d89688e5a4a1c30d0398fe1b7144b2f4dc9",
        form: Form::Contests(&[
            Contest { folder: "aime/aime_2025_I", id: "aime2025-I", problems: 15 },
            Contest { folder: "aime/aime_2025_II", id: "aime2025-II", problems: 15 },
        ]),
        ..MATHARENA
    },
    Original {
        suite: "hmmt-feb-2025",
        sha256: "92a6843d38cd1a286715e188c3b43679f857dd9b8d387c676a691c69a053f2b7",
        form: Form::Contests(&[Contest { folder: "hmmt/hmmt_feb_2025", id: "hmmt-feb-2025", problems: 30 }]),
        ..MATHARENA
    },
    // Encrypted, as its authors publish it, and so it stays.
    Original {
        suite: "gpqa-diamond",
        site: Site::GitHub,
        repo: "idavidrein/gpqa",
        revision: "56686c06f5e19865c153de0fdb11be3890014df7",
        path: "dataset.zip",
        sha256: "461ae7329f15a3e35f8184d2dac24b990f34fdf12f366ca4062d8e6638cd08dc",
        form: Form::Same,
    },
    Original {
        suite: "humaneval-plus",
        site: Site::GitHub,
        repo: "evalplus/humanevalplus_release",
        revision: "200defce9e3429d28ca215b6dd061c0f7f31c18b",
        path: "HumanEvalPlus.jsonl.gz",
        sha256: "272720b90ac375502c8ed23cd791c2a93dfb22a911641a494da74a426c09f101",
        form: Form::Same,
    },
    Original {
        suite: "gsm8k",
        site: Site::GitHub,
        repo: "openai/grade-school-math",
        revision: "3101c7d5072418e28b9008a6636bde82a006892c",
        path: "grade_school_math/data/test.jsonl",
        sha256: "3730d312f6e3440559ace48831e51066acaca737f6eabec99bccb9e4b3c39d14",
        form: Form::Reasoned,
    },
    // The checksum is also that of prm800k/math_splits/test.jsonl in openai/prm800k, where the choice of problems is from.
    Original {
        suite: "math500",
        site: Site::Hub,
        repo: "HuggingFaceH4/MATH-500",
        revision: "6e4ed1a2a79af7d8630a6b768ec859cb5af4d3be",
        path: "test.jsonl",
        sha256: "35dc41080a3680858b27fa7e0533d2d547825316fc5dafe5d316f4ccc5a06132",
        form: Form::Lines(&[
            ("unique_id", "id"),
            ("problem", "problem"),
            ("answer", "answer"),
            ("subject", "subject"),
            ("level", "level"),
        ]),
    },
];

impl Original {
    /// Its files, in the order in which they count for the checksum.
    pub(super) fn files(&self) -> Vec<String> {
        match self.form {
            Form::Contests(contests) => {
                contests.iter().flat_map(|contest| contest.files(self.path)).collect()
            }
            _ => vec![self.path.to_owned()],
        }
    }

    /// Where all of it is, in words.
    pub(in super::super) fn whereabouts(&self, place: &Place) -> String {
        let url = self.url(self.path, place);
        if matches!(self.form, Form::Contests(_)) { format!("files below {url}") } else { url }
    }

    /// The address of one of its files.
    pub(super) fn url(&self, path: &str, place: &Place) -> String {
        let Original { repo, revision, .. } = self;
        match self.site {
            Site::Hub => format!("{}/datasets/{repo}/resolve/{revision}/{path}", place.hub),
            Site::GitHub => format!("{}/{repo}/{revision}/{path}", place.github),
        }
    }
}
