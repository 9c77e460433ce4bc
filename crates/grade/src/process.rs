//! A child process on a leash: fed, listened to, and never left behind.
//!
//! Both graders that start programs need the same three things. [`Pipes`] feeds a child and drains it at the same
//! time, so that neither side waits for the other for ever, and keeps no more of its output than the caller has
//! room for. [`Leash`] owns the child's process group: dropping it kills the group and reaps the child, whichever
//! way the caller left. Deadlines are the caller's: each [`Pipes::turn`] waits for at most the time it is given.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process, kill_process_group, waitpid};

/// How much is read from a pipe at once: what a pipe holds by default on Linux.
const CHUNK: usize = 64 * 1024;

/// The ends of a child's pipes that are ours.
#[derive(Debug)]
pub(crate) struct Pipes {
    input: Option<OwnedFd>,
    unsent: Vec<u8>,
    sent: usize,
    output: Option<OwnedFd>,
    errors: Option<OwnedFd>,
    /// What the child answered and the caller has not yet taken.
    pub received: Vec<u8>,
    /// The last of what the child wrote to its standard error.
    pub complaints: Tail,
}

impl Pipes {
    /// Pipes to a child that is to be sent `message`, after which its input ends.
    pub fn new(input: OwnedFd, message: Vec<u8>, output: OwnedFd, errors: OwnedFd) -> io::Result<Self> {
        for end in [&input, &output, &errors] {
            rustix::io::ioctl_fionbio(end, true)?;
        }
        Ok(Self {
            input: Some(input),
            unsent: message,
            sent: 0,
            output: Some(output),
            errors: Some(errors),
            received: Vec::new(),
            complaints: Tail::default(),
        })
    }

    /// Has the child closed the pipe of its answers?
    pub fn answered(&self) -> bool {
        self.output.is_none()
    }

    /// Has it closed everything? It may live on, but there is nothing more to hear from it.
    pub fn silent(&self) -> bool {
        self.output.is_none() && self.errors.is_none()
    }

    /// Waits until a pipe is ready or the time is over, then moves what can be moved without waiting. Answers are
    /// read only up to `room` bytes not yet taken; beyond that the child waits.
    pub fn turn(&mut self, patience: Duration, room: usize) -> io::Result<()> {
        let listens = self.received.len() < room;
        let ends: [(Option<BorrowedFd<'_>>, PollFlags); 3] = [
            (self.input.as_ref().map(AsFd::as_fd), PollFlags::OUT),
            (self.output.as_ref().filter(|_| listens).map(AsFd::as_fd), PollFlags::IN),
            (self.errors.as_ref().map(AsFd::as_fd), PollFlags::IN),
        ];
        let mut polled: Vec<PollFd<'_>> = ends
            .iter()
            .filter_map(|(end, ready)| end.map(|end| PollFd::from_borrowed_fd(end, *ready)))
            .collect();
        let patience = Timespec {
            tv_sec: patience.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: patience.subsec_nanos().into(),
        };
        match poll(&mut polled, Some(&patience)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        // Of the ends that were polled, in their order: which have something for us?
        let mut ready = polled.iter().map(|end| !end.revents().is_empty()).collect::<Vec<_>>().into_iter();
        let [input, output, errors] = ends.map(|(end, _)| end.is_some() && ready.next() == Some(true));
        if input {
            self.send();
        }
        if output {
            let most = (room - self.received.len()).min(CHUNK);
            let received = &mut self.received;
            drain(&mut self.output, most, |bytes| received.extend_from_slice(bytes));
        }
        if errors {
            let complaints = &mut self.complaints;
            drain(&mut self.errors, CHUNK, |bytes| complaints.push(bytes));
        }
        Ok(())
    }

    /// Sends what the child takes. A child that stopped reading is sent no more: that is no error of ours, and
    /// what became of the child is told by its end.
    fn send(&mut self) {
        let Some(input) = &self.input else { return };
        let done = match rustix::io::write(input, &self.unsent[self.sent..]) {
            Ok(n) => {
                self.sent += n;
                self.sent == self.unsent.len()
            }
            Err(Errno::AGAIN | Errno::INTR) => false,
            Err(_) => true,
        };
        if done {
            self.input = None;
            self.unsent = Vec::new();
        }
    }
}

/// Reads once, without waiting; closes a pipe that has ended.
fn drain(pipe: &mut Option<OwnedFd>, most: usize, mut take: impl FnMut(&[u8])) {
    let Some(end) = pipe else { return };
    let mut chunk = [0; CHUNK];
    match rustix::io::read(&*end, &mut chunk[..most]) {
        Ok(0) => *pipe = None,
        Ok(n) => take(&chunk[..n]),
        Err(Errno::AGAIN | Errno::INTR) => {}
        Err(_) => *pipe = None,
    }
}

/// The last bytes of a stream that may be endless.
#[derive(Debug, Default)]
pub(crate) struct Tail(VecDeque<u8>);

impl Tail {
    const LENGTH: usize = 2048;

    fn push(&mut self, bytes: &[u8]) {
        let bytes = &bytes[bytes.len().saturating_sub(Self::LENGTH)..];
        let surplus = (self.0.len() + bytes.len()).saturating_sub(Self::LENGTH);
        self.0.drain(..surplus);
        self.0.extend(bytes);
    }

    /// The tail as text on one line, cut to a length that fits an error message.
    pub fn text(&self) -> String {
        let bytes: Vec<u8> = self.0.iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let surplus = line.chars().count().saturating_sub(400);
        line.chars().skip(surplus).collect()
    }
}

/// A child and whatever it started in its own process group. Dropped, all of it is killed and the child reaped.
#[derive(Debug)]
pub(crate) struct Leash {
    child: Pid,
    end: Option<WaitStatus>,
}

impl Leash {
    /// The child must lead a process group of its own and must not have been reaped.
    pub fn new(child: Pid) -> Self {
        Self { child, end: None }
    }

    #[cfg(target_os = "linux")]
    pub fn child(&self) -> Pid {
        self.child
    }

    /// Kills the group. The child's number cannot have passed to another process: it is held until reaped, which
    /// only happens here.
    pub fn kill(&mut self) {
        if self.end.is_none() {
            let _ = kill_process_group(self.child, Signal::KILL);
            let _ = kill_process(self.child, Signal::KILL);
        }
    }

    /// How the child ended, if it has. What it left in its group is killed with it.
    pub fn ended(&mut self) -> Option<WaitStatus> {
        if self.end.is_none() {
            // Looked at before it is reaped: while the dead child holds its number, so does its group.
            let options = rustix::process::WaitIdOptions::EXITED
                | rustix::process::WaitIdOptions::NOWAIT
                | rustix::process::WaitIdOptions::NOHANG;
            let dead = rustix::process::waitid(rustix::process::WaitId::Pid(self.child), options);
            if matches!(dead, Ok(None)) {
                return None;
            }
            return self.finish();
        }
        self.end
    }

    /// Kills the group if it still runs, and waits for the child's end, which is then certain.
    pub fn finish(&mut self) -> Option<WaitStatus> {
        self.kill();
        while self.end.is_none() {
            match waitpid(Some(self.child), WaitOptions::empty()) {
                Ok(Some((_, status))) => self.end = Some(status),
                Ok(None) | Err(Errno::INTR) => {}
                // Someone else reaped it (a program that ignores SIGCHLD): it is gone, all the same.
                Err(_) => break,
            }
        }
        self.end
    }
}

impl Drop for Leash {
    fn drop(&mut self) {
        self.finish();
    }
}

/// How a child ended, in words.
pub(crate) fn describe(end: Option<WaitStatus>) -> String {
    match end.map(|end| (end.exit_status(), end.terminating_signal())) {
        Some((Some(status), _)) => format!("ended with exit status {status}"),
        Some((_, Some(signal))) => format!("was killed by signal {signal}"),
        _ => "ended".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::Tail;

    #[test]
    fn a_tail_keeps_the_end() {
        let mut tail = Tail::default();
        tail.push(&vec![b'a'; 5000]);
        tail.push(b" the  end\n");
        assert!(tail.0.len() <= Tail::LENGTH);
        assert!(tail.text().ends_with("a the end"), "{}", tail.text());
    }
}
