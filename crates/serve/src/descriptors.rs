//! Every connection is an open file to the system, and a process may have only so many.
//!
//! Shells commonly grant 1,024, which is as many as the server takes connections by default: the last ones could never be
//! accepted, and with no place taken nobody would have to leave for them. So the server asks the system for what it
//! needs, as far as it may, and takes no more connections than it got room for.

use tracing::warn;

/// Files that are no clients' connections: sockets to other engines, runs, what the runtime has open.
const OWN: u64 = 512;

/// How many connections there can be, of the number wanted.
pub fn room_for(connections: usize) -> usize {
    let wanted = (connections as u64).saturating_add(OWN);
    let granted = grant(wanted);
    if granted >= wanted {
        return connections;
    }
    let room = granted - OWN.min(granted / 4);
    if room >= connections as u64 {
        return connections;
    }
    warn!(
        files = granted,
        connections = room,
        "too few open files are allowed for {connections} connections; raise it with ulimit -n or LimitNOFILE"
    );
    room as usize
}

/// Raises the number of files that may be open, where it is below what is wanted, and says what it is then.
#[cfg(unix)]
fn grant(wanted: u64) -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    // Unlimited is no number.
    let Rlimit { current: Some(current), maximum } = getrlimit(Resource::Nofile) else { return wanted };
    if current >= wanted {
        return current;
    }
    let raised = maximum.map_or(wanted, |maximum| maximum.min(wanted));
    match setrlimit(Resource::Nofile, Rlimit { current: Some(raised), maximum }) {
        Ok(()) => raised,
        Err(_) => current,
    }
}

#[cfg(not(unix))]
fn grant(wanted: u64) -> u64 {
    wanted
}
