//! A place where a program of unknown intent can run and do no harm.
//!
//! A tested program comes from a model that is being rewarded for passing tests; sooner or later one of its
//! samples deletes files, forks without end or looks for the answers. So it runs in a child process that has
//! nothing to take hold of. Four harms matter, and each is kept off by more than one layer where the system
//! offers more than one:
//!
//! | harm | layers |
//! |---|---|
//! | reading or writing files outside | a root of its own with the interpreter's folders, read-only, and a scratch folder in memory (namespaces); landlock |
//! | the network | seccomp (there are no sockets); a network namespace without a network |
//! | processes: starting, signalling, outliving | seccomp (there is no `fork`, `exec` or `kill`); a process namespace that ends with its first process |
//! | memory | a limit on the address space; a scratch folder of fixed size |
//!
//! Besides, the child has a clean environment, no open descriptors but its pipes, no capabilities, a low
//! priority, limits on processor time, files and threads, and dies with the thread that started it. Nothing of it
//! is on disk, so nothing has to be cleaned up, even after a power cut.
//!
//! [`Sandbox::new`] does not trust a kernel's word: it starts a trial program that attempts each harm, and counts
//! a protection as active only if the attempt failed. Where one that matters cannot be had (containers often
//! forbid namespaces, older kernels lack landlock) the other layers carry it; where none does, `new` is an error
//! that says which and why, unless the caller passes [`Policy::AcceptMissing`].

#[cfg(target_os = "linux")]
mod filter;
#[cfg(target_os = "linux")]
mod launch;
mod python;
#[cfg(target_os = "linux")]
mod view;
#[cfg(not(target_os = "linux"))]
#[path = "plain.rs"]
mod walls;
#[cfg(target_os = "linux")]
#[path = "linux.rs"]
mod walls;

use std::fmt;
use std::io;
use std::time::{Duration, Instant};

use crate::process::{Leash, Pipes};

pub use python::Python;

/// Tries each harm and writes the names of those that failed to the descriptor of its answers.
const TRIAL: &str = include_str!("trial.py");
/// The trial takes some 30 ms; a machine on its knees may need much longer.
const TRIAL_PATIENCE: Duration = Duration::from_secs(30);

/// What to do where a protection that matters cannot be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// Refuse to run anything.
    RequireAll,
    /// Run all the same, with what there is. For programs that one trusts, or a machine that one does not mind.
    AcceptMissing,
}

/// What a program may use up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of address space.
    pub memory: u64,
    /// Bytes in the scratch folder, its own bookkeeping included.
    pub scratch: u64,
    /// Seconds of processor time after which the kernel ends the program, should we not have done so.
    pub cpu_seconds: u64,
    /// From 0 (as we are) to 19 (only when nothing else wants to run).
    pub niceness: i32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { memory: 1 << 30, scratch: 16 << 20, cpu_seconds: 300, niceness: 10 }
    }
}

/// What a program might do to the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Harm {
    Files,
    Network,
    Processes,
    Memory,
}

impl fmt::Display for Harm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Files => "file system",
            Self::Network => "network",
            Self::Processes => "processes",
            Self::Memory => "memory",
        })
    }
}

/// Whether a harm is kept off, and by what, or why not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Protection {
    pub against: Harm,
    pub state: Result<String, String>,
}

impl fmt::Display for Protection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.state {
            Ok(layers) => write!(f, "{}: protected by {layers}", self.against),
            Err(reason) => write!(f, "{}: NOT PROTECTED: {reason}", self.against),
        }
    }
}

/// Why no sandbox could be made or used.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    #[error("cannot use `{command}` as Python 3: {reason}; install it, or name another in EAGER_PYTHON")]
    Python { command: String, reason: String },
    #[error(
        "untrusted programs cannot be run safely here ({missing}); allow what is missing, or pass --unsafe-code to run them all the same"
    )]
    Unprotected { missing: String },
    #[error("cannot start a program in the sandbox: {reason}")]
    Start { reason: String },
    #[error("cannot talk to a program in the sandbox: {0}")]
    Pipe(#[from] io::Error),
}

/// The walls around tested programs, as this machine can build them.
#[derive(Debug)]
pub struct Sandbox {
    python: Python,
    limits: Limits,
    walls: walls::Walls,
    protections: Vec<Protection>,
    /// Layers that are not there, and why; their work is done by the others.
    absent: Vec<String>,
}

impl Sandbox {
    /// Finds out, by trial, which protections this machine offers.
    pub fn new(python: Python, limits: Limits, policy: Policy) -> Result<Self, SandboxError> {
        let (walls, absent) = walls::Walls::raise(&python, &limits)?;
        Self::within(walls, absent, python, limits, policy)
    }

    fn within(
        walls: walls::Walls,
        absent: Vec<String>,
        python: Python,
        limits: Limits,
        policy: Policy,
    ) -> Result<Self, SandboxError> {
        let mut sandbox = Self { python, limits, walls, protections: Vec::new(), absent };
        let prevented = sandbox.attempt_harm()?;
        sandbox.protections = sandbox.walls.protections(&prevented, &sandbox.absent);
        let missing: Vec<String> = sandbox
            .protections
            .iter()
            .filter_map(|p| p.state.as_ref().err().map(|reason| format!("{}: {reason}", p.against)))
            .collect();
        if !missing.is_empty() && policy == Policy::RequireAll {
            return Err(SandboxError::Unprotected { missing: missing.join("; ") });
        }
        Ok(sandbox)
    }

    /// The protections found, for a command to print at its start.
    pub fn protections(&self) -> &[Protection] {
        &self.protections
    }

    /// The same in full sentences, one a line, with the layers that are absent.
    pub fn describe(&self) -> Vec<String> {
        let python = format!("Python {} at {}", self.python.version, self.python.executable.display());
        let absent = self.absent.iter().map(|layer| format!("not available: {layer}"));
        std::iter::once(python)
            .chain(self.protections.iter().map(ToString::to_string))
            .chain(absent)
            .collect()
    }

    /// Starts a Python script inside. It gets `message` on its standard input and answers on the descriptor whose
    /// number is its first argument.
    pub(crate) fn start(&self, script: &str, message: Vec<u8>) -> Result<Running, SandboxError> {
        self.walls.start(&self.python, &self.limits, script, message)
    }

    /// The names of the harms that a program inside could not do.
    fn attempt_harm(&self) -> Result<Vec<String>, SandboxError> {
        let mut trial = self.start(TRIAL, self.limits.memory.to_string().into_bytes())?;
        let deadline = Instant::now() + TRIAL_PATIENCE;
        while !trial.pipes.answered() && Instant::now() < deadline {
            trial.pipes.turn(deadline.saturating_duration_since(Instant::now()), 4096)?;
        }
        let answer = String::from_utf8_lossy(&trial.pipes.received).into_owned();
        if !answer.trim_end().ends_with("done") {
            let end = crate::process::describe(trial.leash.finish());
            let complaints = trial.pipes.complaints.text();
            return Err(SandboxError::Start { reason: format!("the trial program {end}: {complaints}") });
        }
        Ok(answer.split_whitespace().map(str::to_owned).collect())
    }
}

/// A program at work in the sandbox. Dropped, it is killed and reaped.
#[derive(Debug)]
pub(crate) struct Running {
    pub pipes: Pipes,
    pub leash: Leash,
}

impl Running {
    /// The processor time it has used, where the system tells.
    pub fn cpu(&self) -> Option<Duration> {
        walls::cpu(&self.leash)
    }

    /// The time that it was ready to run while others ran, where the system tells.
    pub fn waited(&self) -> Option<Duration> {
        walls::waited(&self.leash)
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// The harms that are kept off with some of the layers only.
    fn protected(namespaces: bool, landlock: bool, seccomp: bool) -> Vec<Harm> {
        let walls = walls::Walls::with(namespaces, landlock, seccomp);
        let python = Python::find().expect("this test needs python3");
        let sandbox =
            Sandbox::within(walls, Vec::new(), python, Limits::default(), Policy::AcceptMissing).unwrap();
        sandbox.protections().iter().filter(|p| p.state.is_ok()).map(|p| p.against).collect()
    }

    #[test]
    fn layers_stand_in_for_each_other() {
        use Harm::{Files, Memory, Network, Processes};
        let python = Python::find().expect("this test needs python3");
        let (_, absent) = walls::Walls::raise(&python, &Limits::default()).unwrap();
        if !absent.is_empty() {
            println!("skipped: this system has not all layers: {}", absent.join(", "));
            return;
        }
        let all = vec![Files, Network, Processes, Memory];
        let table = [
            ((true, true, true), all.clone()),
            ((false, true, true), all.clone()),
            ((true, false, true), all.clone()),
            ((true, true, false), all),
            ((false, false, true), vec![Network, Processes, Memory]),
            ((false, true, false), vec![Files, Memory]),
            ((false, false, false), vec![Memory]),
        ];
        for ((namespaces, landlock, seccomp), expected) in table {
            let found = protected(namespaces, landlock, seccomp);
            assert_eq!(found, expected, "namespaces {namespaces}, landlock {landlock}, seccomp {seccomp}");
        }
    }

    #[test]
    fn without_protection_there_is_no_sandbox() {
        let walls = walls::Walls::with(false, false, true);
        let python = Python::find().expect("this test needs python3");
        let absent = vec!["landlock (this kernel has none)".to_owned()];
        let error =
            Sandbox::within(walls, absent, python, Limits::default(), Policy::RequireAll).unwrap_err();
        let message = error.to_string();
        assert!(message.contains("file system: not available: landlock (this kernel has none)"), "{message}");
        assert!(message.contains("--unsafe-code"), "{message}");
    }
}
