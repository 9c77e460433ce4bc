//! No walls: a system whose protections we do not know how to use. Programs run only if the caller insists.

use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Pid;

use super::{Harm, Limits, Protection, Python, Running, SandboxError};
use crate::process::{Leash, Pipes};

#[derive(Debug)]
pub(super) struct Walls;

impl Walls {
    pub fn raise(_: &Python, _: &Limits) -> Result<(Self, Vec<String>), SandboxError> {
        Ok((
            Self,
            vec![format!("every layer (they are those of Linux, and this is {})", std::env::consts::OS)],
        ))
    }

    pub fn protections(&self, _: &[String], absent: &[String]) -> Vec<Protection> {
        let missing = || Err(format!("not available: {}", absent.join(", ")));
        [Harm::Files, Harm::Network, Harm::Processes, Harm::Memory]
            .map(|against| Protection { against, state: missing() })
            .into()
    }

    pub fn start(
        &self,
        python: &Python,
        _: &Limits,
        script: &str,
        message: Vec<u8>,
    ) -> Result<Running, SandboxError> {
        // Answers come on standard output: the script moves them out of the program's way.
        let mut child = Command::new(&python.executable)
            .args(["-s", "-S", "-B", "-W", "ignore", "-X", "utf8", "-c", script, "1"])
            .env_clear()
            .envs([("LC_ALL", "C.UTF-8"), ("PYTHONHASHSEED", "0"), ("PYTHONSAFEPATH", "1")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()?;
        let child_id = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let (Some(pid), Some(input), Some(output), Some(errors)) =
            (child_id, child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(SandboxError::Start { reason: "no pipes".to_owned() });
        };
        let leash = Leash::new(pid);
        let pipes = Pipes::new(OwnedFd::from(input), message, OwnedFd::from(output), OwnedFd::from(errors))?;
        Ok(Running { pipes, leash })
    }
}

pub(super) fn cpu(_: &Leash) -> Option<Duration> {
    None
}

pub(super) fn waited(_: &Leash) -> Option<Duration> {
    None
}
