//! Suites of problems: what is asked, how it is put to the model, and what makes an answer right.
//!
//! A suite is known by name ([`SUITES`]) or is a file of the user's with a JSON object a line. Either way it becomes the
//! same plain list of problems, each with the message for the model and the judge of its responses:
//!
//! ```
//! use eager_lab::suite::{Request, Suite};
//!
//! let suite = Suite::open(&Request { limit: Some(6), ..Request::new("acorn") })?;
//! assert_eq!(suite.problems.len(), 6);
//! assert!(suite.problems[0].message.starts_with("Using each of"));
//! # Ok::<(), eager_lab::suite::SuiteError>(())
//! ```
//!
//! Files of known suites lie in the data folder ([`source`]). One that is missing is fetched from where its problems are
//! published, at a revision and with a checksum that are known ([`fetch`]).

mod acorn;
mod error;
pub mod fetch;
mod gpqa;
#[cfg(unix)]
mod humaneval;
mod jsonl;
mod known;
pub mod source;
mod template;

use std::path::Path;
use std::sync::atomic::AtomicBool;

use eager_grade::response::Response;
use sha2::{Digest, Sha256};

use crate::judge::{Graded, Judge, JudgeError, Kind};

pub use error::SuiteError;
pub use jsonl::{Fault, Fields};
pub use known::{Known, SUITES, names};
pub use source::Place;
pub use template::{Template, TemplateError};

use jsonl::Reader;

/// Problems to be run.
#[derive(Debug, Clone)]
pub struct Suite {
    /// The known suite's name, or the file's.
    pub name: String,
    /// Those that were chosen, in the order in which they are run.
    pub problems: Vec<Problem>,
    /// SHA-256 of the chosen problems as they are put to the model, with their answers or the file of their tests: runs
    /// with the same hash can be compared.
    pub hash: String,
    /// Its problems may not be written down in plain text.
    pub secret: bool,
}

/// One problem.
#[derive(Debug, Clone)]
pub struct Problem {
    /// Unique in its suite.
    pub id: String,
    /// The statement, as the file has it.
    pub text: String,
    /// The texts of the choices in the order in which they are shown; empty where nothing is to be chosen.
    pub choices: Vec<String>,
    /// What the user says to the model.
    pub message: String,
    /// The right answer, where there is one to be told.
    pub gold: Option<String>,
    /// What it is grouped by in reports: a family, a subject and level, a field.
    pub group: Option<String>,
    pub judge: Judge,
}

/// Which problems, and how they are put.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// A known suite's name, or the path of a file with a JSON object a line.
    pub suite: String,
    /// The fields of such a file.
    pub fields: Fields,
    /// What the answers of such a file are; mathematics, where nothing is said.
    pub grader: Option<Kind>,
    /// The program for [`Kind::Command`].
    #[cfg(unix)]
    pub command: Option<eager_grade::command::CommandGrader>,
    /// In place of the suite's own prompt: see [`Template`].
    pub template: Option<String>,
    /// Only the problems with these ids, in the suite's order; empty for all. This comes first, then the shuffle, then
    /// the limit.
    pub only: Vec<String>,
    /// In a random order, the same for the same seed.
    pub shuffle: Option<u64>,
    /// At most so many. Of acorn's, so many spread over its families and levels, and generated where there are more than
    /// the sixty fixed ones.
    pub limit: Option<usize>,
    /// How many of acorn's problems there are to choose from.
    pub problems: Option<usize>,
    /// Generates acorn's problems from this seed, even where the fixed ones would do.
    pub problem_seed: Option<u64>,
    /// Run programs even where this machine cannot keep them from doing harm.
    pub unsafe_code: bool,
    /// Where files are, in place of what the environment says.
    pub place: Option<Place>,
    /// Is told what is about to be fetched, which may take a while.
    pub announce: Option<fn(&str)>,
}

impl Request {
    /// All of a suite, as it is.
    pub fn new(suite: impl Into<String>) -> Self {
        Self { suite: suite.into(), ..Self::default() }
    }
}

impl Suite {
    pub fn open(request: &Request) -> Result<Self, SuiteError> {
        let (name, secret, sorted, template, problems) = match Known::find(&request.suite) {
            Some(known) => {
                request.expect_known()?;
                let template = request.template(|| known.template())?;
                (known.name.to_owned(), known.secret, known.is_sorted(), template, known.problems(request)?)
            }
            None => {
                let (name, kind, problems) = request.file()?;
                (name, false, false, request.template(|| Template::usual(kind))?, problems)
            }
        };
        let mut problems = request.choose(&name, problems, sorted)?;
        for problem in &mut problems {
            problem.message = template.render(problem)?;
        }
        Ok(Self { name, hash: hash(&problems), problems, secret })
    }

    /// Makes sure that the problems can be judged, before time is spent on responses. What the judges have to say about
    /// that, as lines for a person.
    pub fn prepare(&self) -> Result<Vec<String>, JudgeError> {
        // The judges of a suite are of one make.
        self.problems.first().map_or_else(|| Ok(Vec::new()), |problem| problem.judge.prepare())
    }
}

impl Problem {
    /// Judges all responses of a prompt; the verdicts come in their order.
    pub fn grade_all<'a, R>(&self, responses: &'a [R]) -> Result<Vec<Graded>, JudgeError>
    where
        &'a R: Into<Response<'a>>,
    {
        let responses: Vec<Response<'_>> = responses.iter().map(Into::into).collect();
        self.judge.grade_all_unless(&responses, &AtomicBool::new(false))
    }

    /// The same, unless `stop` becomes true before it is done.
    pub fn grade_all_unless(
        &self,
        responses: &[Response<'_>],
        stop: &AtomicBool,
    ) -> Result<Vec<Graded>, JudgeError> {
        self.judge.grade_all_unless(responses, stop)
    }
}

impl Request {
    fn expect_known(&self) -> Result<(), SuiteError> {
        let own = self.grader.is_some() || self.fields != Fields::default();
        #[cfg(unix)]
        let own = own || self.command.is_some();
        if own {
            let why =
                format!("{} has its own fields and grader; they can be named for a .jsonl file", self.suite);
            return Err(SuiteError::Misfit(why));
        }
        Ok(())
    }

    fn template(
        &self,
        usual: impl FnOnce() -> Result<Template, TemplateError>,
    ) -> Result<Template, TemplateError> {
        self.template.as_deref().map_or_else(usual, Template::new)
    }

    /// The problems of a file of the user's, with its name and what they are judged by.
    fn file(&self) -> Result<(String, Kind, Vec<Problem>), SuiteError> {
        let path = Path::new(&self.suite);
        let looks_like_one = path.extension().is_some_and(|extension| extension == "jsonl");
        let (true, Some(name)) = (looks_like_one || path.is_file(), path.file_name()) else {
            return Err(SuiteError::Unknown { name: self.suite.clone() });
        };
        let misfit = |why: &str| Err(SuiteError::Misfit(why.to_owned()));
        let kind = self.grader.unwrap_or(Kind::Math);
        #[cfg(unix)]
        let has_command = self.command.is_some();
        #[cfg(not(unix))]
        let has_command = false;
        match kind {
            Kind::Code => return misfit("programs are judged by the tests of humaneval-plus only"),
            Kind::Command if cfg!(not(unix)) => {
                return misfit("the grader 'command' runs a program, and that works on Unix only");
            }
            Kind::Command if !has_command => return misfit("the grader 'command' needs a program to run"),
            Kind::Command => {}
            _ if has_command => return misfit("a grading program goes with the grader 'command'"),
            _ => {}
        }
        if self.problems.is_some() || self.problem_seed.is_some() {
            return misfit("a file has the problems that it has: only acorn's are generated");
        }
        let reader = Reader {
            fields: &self.fields,
            kind,
            #[cfg(unix)]
            command: self.command.clone().map(std::sync::Arc::new),
        };
        Ok((name.to_string_lossy().into_owned(), kind, reader.read(path)?))
    }

    /// Those that were asked for: the named ones, shuffled, and of these the first.
    fn choose(&self, name: &str, mut all: Vec<Problem>, sorted: bool) -> Result<Vec<Problem>, SuiteError> {
        if self.limit == Some(0) {
            return Err(SuiteError::Misfit("a limit of 0 leaves no problem".to_owned()));
        }
        if !self.only.is_empty() {
            let known = |id: &&String| all.iter().any(|problem| problem.id == **id);
            let unknown: Vec<String> = self.only.iter().filter(|id| !known(id)).cloned().collect();
            if !unknown.is_empty() {
                let example = all.first().map_or_else(String::new, |problem| problem.id.clone());
                return Err(SuiteError::UnknownIds { suite: name.to_owned(), ids: unknown, example });
            }
            all.retain(|problem| self.only.contains(&problem.id));
        }
        if let Some(seed) = self.shuffle {
            let order = eager_grade::choice::order(name, seed, all.len());
            all = order.into_iter().map(|at| all[at].clone()).collect();
        }
        let limit = self.limit.unwrap_or(usize::MAX);
        if sorted && self.only.is_empty() && self.shuffle.is_none() {
            return Ok(acorn::spread(all, limit));
        }
        all.truncate(limit);
        Ok(all)
    }
}

/// SHA-256 of problems, as they are put to the model and judged, in this order.
pub(crate) fn hash<'a>(problems: impl IntoIterator<Item = &'a Problem>) -> String {
    let mut hash = Sha256::new();
    // Lengths keep two neighbours from being mistaken for two others.
    let mut add = |text: &[u8]| {
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text);
    };
    add(b"eager suite 1");
    for Problem { id, message, gold, choices, judge, .. } in problems {
        add(id.as_bytes());
        add(message.as_bytes());
        add(judge.kind().name().as_bytes());
        add(if gold.is_some() { b"gold" } else { b"" });
        add(gold.as_deref().unwrap_or_default().as_bytes());
        add(choices.len().to_string().as_bytes());
        choices.iter().for_each(|choice| add(choice.as_bytes()));
        match judge {
            // The tests have no gold answer to stand for them.
            #[cfg(unix)]
            Judge::Code { programs, .. } => add(programs.hash().as_bytes()),
            // Another program, or another thing that it is told, is another judge; how long it may take is not.
            #[cfg(unix)]
            Judge::Command { grader, problem } => {
                add(grader.program.as_encoded_bytes());
                add(grader.arguments.len().to_string().as_bytes());
                grader.arguments.iter().for_each(|argument| add(argument.as_encoded_bytes()));
                add(problem.to_string().as_bytes());
            }
            // All that they go by is hashed above.
            Judge::Text(_) | Judge::None => {}
        }
    }
    fetch::hex(&hash.finalize())
}
