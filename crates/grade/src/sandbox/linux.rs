//! The walls on Linux: which layers the kernel grants, and starting a program behind them.

use std::ffi::{CStr, CString};
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::fcntl_dupfd_cloexec;
use rustix::pipe::{PipeFlags, pipe_with};

use super::launch::{Landlock, Launch, Namespaces, Refused, START, Stage};
use super::{Harm, Limits, Protection, Python, Running, SandboxError, filter, view};
use crate::process::{Leash, Pipes};

/// The descriptor on which a script answers.
const ANSWERS: &str = "3";
/// All of the environment.
const ENVIRONMENT: [&CStr; 3] = [c"LC_ALL=C.UTF-8", c"PYTHONHASHSEED=0", c"PYTHONSAFEPATH=1"];
/// What the child needs is moved above these, so that giving it its own four descriptors overwrites nothing.
const ABOVE_STANDARD: i32 = 10;

/// The layers in use.
#[derive(Debug)]
pub(super) struct Walls {
    namespaces: bool,
    landlock: Option<i32>,
    seccomp: bool,
}

impl Walls {
    /// All layers, less those that the kernel refuses when a program is started with them. The second value says
    /// which and why.
    pub fn raise(python: &Python, limits: &Limits) -> Result<(Self, Vec<String>), SandboxError> {
        let mut walls = Self { namespaces: true, landlock: view::landlock_version(), seccomp: true };
        let mut absent = Vec::new();
        if walls.landlock.is_none() {
            absent.push("landlock (this kernel has none)".to_owned());
        }
        loop {
            let (launch, _, _, _) = walls.prepare(python, limits, "")?;
            match launch.start() {
                Ok(child) => {
                    Leash::new(child).finish();
                    return Ok((walls, absent));
                }
                Err(refused) => absent.push(walls.without(refused)?),
            }
        }
    }

    #[cfg(test)]
    pub fn with(namespaces: bool, landlock: bool, seccomp: bool) -> Self {
        Self { namespaces, landlock: view::landlock_version().filter(|_| landlock), seccomp }
    }

    /// Gives up the layer that was refused. Each can be given up once, so the loop above ends.
    fn without(&mut self, refused: Refused) -> Result<String, SandboxError> {
        let stage = refused.stage;
        if self.namespaces && matches!(stage, Stage::Clone | Stage::Namespaces | Stage::Mounts) {
            self.namespaces = false;
            return Ok(format!("namespaces ({refused})"));
        }
        if self.landlock.is_some() && stage == Stage::Landlock {
            self.landlock = None;
            return Ok(format!("landlock ({refused})"));
        }
        if self.seccomp && stage == Stage::Seccomp {
            self.seccomp = false;
            return Ok(format!("seccomp ({refused})"));
        }
        Err(SandboxError::Start { reason: refused.to_string() })
    }

    /// What keeps off each harm: the layers that are made for it, provided that the trial bore them out.
    pub fn protections(&self, prevented: &[String], absent: &[String]) -> Vec<Protection> {
        let landlock = self.landlock.map(|version| format!("landlock (version {version})"));
        let seccomp = || self.seccomp.then(|| "seccomp".to_owned());
        let namespace = |kind: &str| self.namespaces.then(|| format!("a {kind} namespace"));
        let table = [
            (Harm::Files, "files", [namespace("mount"), landlock]),
            (Harm::Network, "network", [namespace("network"), seccomp()]),
            (Harm::Processes, "processes", [namespace("process"), seccomp()]),
            (Harm::Memory, "memory", [Some("resource limits".to_owned()), None]),
        ];
        let judge = |(against, name, layers): (Harm, &str, [Option<String>; 2])| {
            let layers: Vec<String> = layers.into_iter().flatten().collect();
            // Processes made inside a namespace are allowed to exist: they end with it.
            let borne_out =
                prevented.iter().any(|harm| harm == name) || (against == Harm::Processes && self.namespaces);
            let state = match (layers.is_empty(), borne_out) {
                (false, true) => Ok(layers.join(" and ")),
                (true, _) => Err(format!("not available: {}", absent.join(", "))),
                (false, false) => Err(format!("{} did not stop a trial", layers.join(" and "))),
            };
            Protection { against, state }
        };
        table.map(judge).into()
    }

    pub fn start(
        &self,
        python: &Python,
        limits: &Limits,
        script: &str,
        message: Vec<u8>,
    ) -> Result<Running, SandboxError> {
        let (launch, input, output, errors) = self.prepare(python, limits, script)?;
        let child = launch.start().map_err(|refused| SandboxError::Start { reason: refused.to_string() })?;
        let leash = Leash::new(child);
        // Our copies of the child's ends close here; a pipe ends when the child's are closed too.
        drop(launch);
        Ok(Running { pipes: Pipes::new(input, message, output, errors)?, leash })
    }

    /// Everything that has to be allocated, before there is a child: and our ends of its pipes.
    fn prepare(
        &self,
        python: &Python,
        limits: &Limits,
        script: &str,
    ) -> Result<(Launch, OwnedFd, OwnedFd, OwnedFd), SandboxError> {
        let setup = |reason: String| SandboxError::Start { reason };
        let c_string = |text: &str| CString::new(text).map_err(|error| setup(error.to_string()));
        let (child_input, input) = pipe()?;
        let (output, child_output) = pipe()?;
        let (errors, child_errors) = pipe()?;
        let nowhere = high(File::options().write(true).open("/dev/null")?.into())?;
        // Only the standard library, and nothing from the folder it runs in. Hashes are not random, so that a
        // program that depends on the order of a set gets the same verdict every time.
        let executable = view::c_path(&python.executable)?;
        let flags = ["-s", "-S", "-B", "-W", "ignore", "-X", "utf8", "-c", script, ANSWERS];
        let mut arguments = vec![executable.clone()];
        for argument in flags {
            arguments.push(c_string(argument)?);
        }
        let landlock = match self.landlock {
            Some(version) => {
                let ruleset = view::ruleset(&python.readable).map_err(|error| setup(error.to_string()))?;
                let scratch = self.namespaces.then(|| view::scratch_access(version));
                let ruleset = ruleset.map(high).transpose()?;
                ruleset.map(|ruleset| Landlock { ruleset, scratch })
            }
            None => None,
        };
        let filter = || filter::compile(START, self.namespaces).map_err(|error| setup(error.to_string()));
        let launch = Launch {
            executable,
            arguments,
            environment: ENVIRONMENT.iter().map(|&variable| variable.to_owned()).collect(),
            descriptors: [high(child_input)?, nowhere, high(child_errors)?, high(child_output)?],
            namespaces: self.namespaces.then(|| namespaces(python, limits)).transpose()?,
            landlock,
            filter: self.seccomp.then(filter).transpose()?,
            memory: limits.memory,
            cpu_seconds: limits.cpu_seconds,
            niceness: limits.niceness,
        };
        Ok((launch, input, output, errors))
    }
}

fn namespaces(python: &Python, limits: &Limits) -> io::Result<Namespaces> {
    // The number inside does not matter as long as it is not root's; outside it is us.
    let map = |id: u32| Ok::<_, io::Error>(CString::new(format!("1000 {id} 1"))?);
    Ok(Namespaces {
        user_map: map(rustix::process::geteuid().as_raw())?,
        group_map: map(rustix::process::getegid().as_raw())?,
        // Any folder would do; this one is sure to exist, since the maps are written through it.
        mount_point: c"/proc".to_owned(),
        old_root: CString::new(format!("/proc{}", view::OLD_ROOT))?,
        options: CString::new(format!("mode=755,nr_inodes=4096,size={}", limits.scratch))?,
        steps: view::steps(&python.readable)?,
    })
}

/// A pipe whose ends no other child inherits: the end to read from and the end to write to.
fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(pipe_with(PipeFlags::CLOEXEC)?)
}

fn high(descriptor: OwnedFd) -> io::Result<OwnedFd> {
    Ok(fcntl_dupfd_cloexec(descriptor, ABOVE_STANDARD)?)
}

/// The processor time that a child has used, by the kernel's own clock of it.
pub(super) fn cpu(leash: &Leash) -> Option<Duration> {
    let mut clock: libc::clockid_t = 0;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: both calls fill in what they are given; the child is not yet reaped, so its number is its own.
    let failed = unsafe {
        libc::clock_getcpuclockid(leash.child().as_raw_nonzero().get(), &mut clock) != 0
            || libc::clock_gettime(clock, &mut time) != 0
    };
    (!failed).then(|| Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32))
}

/// The time that a child was ready to run and did not: the second number of a file, in nanoseconds.
pub(super) fn waited(leash: &Leash) -> Option<Duration> {
    let text = fs::read_to_string(format!("/proc/{}/schedstat", leash.child().as_raw_nonzero())).ok()?;
    text.split(' ').nth(1)?.parse().ok().map(Duration::from_nanos)
}
