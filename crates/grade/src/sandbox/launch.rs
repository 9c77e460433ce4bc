//! Starting a program inside the walls.
//!
//! The child is made with `CLONE_VM | CLONE_VFORK`, as `posix_spawn` does: it borrows our memory, while the thread
//! that made it stands still, until it turns into the interpreter. A plain `fork` would copy the page tables of
//! the whole process and make every page of it copy-on-write; with a model in memory that costs the engine far
//! more than the grading does. It also lets the child be the first process of new namespaces at once.
//!
//! Between `clone` and `execveat` the child may be anywhere in our memory but must disturb nothing: other threads
//! go on, and may hold the allocator's lock. So everything it needs (paths, mappings, filter, ruleset) is in a
//! [`Launch`] made beforehand, and [`child`] is a straight line of system calls: no allocation, no locks, no
//! destructors, no panics. It runs on a stack of its own, with all signals blocked and their handlers reset.

use std::ffi::{CString, c_char, c_int, c_long, c_void};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};

use rustix::process::Pid;
use seccompiler::BpfProgram;

use super::view::{OLD_ROOT, SCRATCH, Step};

/// The descriptor that the interpreter is started from. Far above [`OPEN_FILES`], so nothing can take its place.
pub(super) const START: RawFd = 200;
/// How many descriptors a tested program may have open.
const OPEN_FILES: u64 = 64;
/// How many threads.
const THREADS: u64 = 64;
/// The main stack: deep recursion is legitimate, and pages never touched cost nothing.
const STACK: u64 = 256 << 20;

/// All that a child needs, ready for use by system calls alone.
#[derive(Debug)]
pub(super) struct Launch {
    pub executable: CString,
    pub arguments: Vec<CString>,
    pub environment: Vec<CString>,
    /// Become descriptors 0, 1, 2, 3 of the child. All are above 3.
    pub descriptors: [OwnedFd; 4],
    pub namespaces: Option<Namespaces>,
    pub landlock: Option<Landlock>,
    pub filter: Option<BpfProgram>,
    pub memory: u64,
    pub cpu_seconds: u64,
    pub niceness: c_int,
}

/// A root of its own, as its first process, without a network, as an ordinary user.
#[derive(Debug)]
pub(super) struct Namespaces {
    pub user_map: CString,
    pub group_map: CString,
    /// Any folder: the new root is mounted there for a moment.
    pub mount_point: CString,
    pub old_root: CString,
    pub options: CString,
    pub steps: Vec<Step>,
}

#[derive(Debug)]
pub(super) struct Landlock {
    pub ruleset: OwnedFd,
    /// Rights in the scratch folder, if there is one.
    pub scratch: Option<u64>,
}

/// A step that the kernel refused.
#[derive(Debug, thiserror::Error)]
#[error("{stage}: {error}")]
pub(super) struct Refused {
    pub stage: Stage,
    pub error: io::Error,
}

/// The parts of a start, in order; the name of what is missing where one fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub(super) enum Stage {
    Clone,
    Descriptors,
    Namespaces,
    Mounts,
    Landlock,
    Limits,
    Seccomp,
    Start,
}

impl std::fmt::Display for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Clone => "making the process",
            Self::Descriptors => "passing the pipes",
            Self::Namespaces => "entering the namespaces",
            Self::Mounts => "building the file system",
            Self::Landlock => "applying landlock",
            Self::Limits => "setting limits",
            Self::Seccomp => "applying seccomp",
            Self::Start => "starting the interpreter",
        })
    }
}

const STAGES: [Stage; 8] = [
    Stage::Clone,
    Stage::Descriptors,
    Stage::Namespaces,
    Stage::Mounts,
    Stage::Landlock,
    Stage::Limits,
    Stage::Seccomp,
    Stage::Start,
];

/// What the child reads and writes of our memory.
struct Borrowed<'a> {
    launch: &'a Launch,
    arguments: *const *const c_char,
    environment: *const *const c_char,
    filter: Option<libc::sock_fprog>,
    failure: Failure,
}

/// Written by the child, read by the parent once the child has gone.
#[derive(Default)]
struct Failure {
    stage: AtomicI32,
    errno: AtomicI32,
}

impl Launch {
    /// Starts the program. When this returns, it is the interpreter that runs, with every wall up; a child that
    /// could not raise one of them has ended.
    pub fn start(&self) -> Result<Pid, Refused> {
        let pointers = |strings: &[CString]| -> Vec<*const c_char> {
            strings.iter().map(|s| s.as_ptr()).chain([ptr::null()]).collect()
        };
        let (arguments, environment) = (pointers(&self.arguments), pointers(&self.environment));
        let borrowed = Borrowed {
            launch: self,
            arguments: arguments.as_ptr(),
            environment: environment.as_ptr(),
            filter: self.filter.as_ref().map(|program| libc::sock_fprog {
                len: program.len() as u16,
                // The same structure under two names, and the kernel only reads it.
                filter: program.as_ptr().cast_mut().cast(),
            }),
            failure: Failure::default(),
        };
        let mut flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        if self.namespaces.is_some() {
            flags |= libc::CLONE_NEWUSER | libc::CLONE_NEWNS | libc::CLONE_NEWPID;
            flags |= libc::CLONE_NEWNET | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS;
        }
        // 128 KiB, aligned as every architecture wants its stack.
        let mut stack: Vec<u128> = Vec::with_capacity(8192);
        // SAFETY: `signals` are plain bit sets that the calls fill in. The child runs `child` on `stack`, which
        // grows down from its end and outlives it: CLONE_VFORK keeps this thread here until the child has left
        // our memory. `child` keeps the promises of the module: it touches only `borrowed`, through a shared
        // reference, whose one mutable part is atomic. All signals are blocked around it, so that no handler of
        // ours runs in the child.
        let (pid, errno) = unsafe {
            let (mut all, mut before): (libc::sigset_t, libc::sigset_t) =
                (std::mem::zeroed(), std::mem::zeroed());
            libc::sigfillset(&mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
            let top = stack.as_mut_ptr().add(stack.capacity());
            let pid = libc::clone(child, top.cast(), flags, (&raw const borrowed).cast_mut().cast());
            let errno = io::Error::last_os_error();
            libc::pthread_sigmask(libc::SIG_SETMASK, &before, ptr::null_mut());
            (pid, errno)
        };
        let Some(pid) = Pid::from_raw(pid.max(0)) else {
            return Err(Refused { stage: Stage::Clone, error: errno });
        };
        match borrowed.failure.errno.load(Ordering::Acquire) {
            0 => Ok(pid),
            errno => {
                let _ = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty());
                let stage = STAGES[borrowed.failure.stage.load(Ordering::Acquire) as usize];
                Err(Refused { stage, error: io::Error::from_raw_os_error(errno) })
            }
        }
    }
}

/// A system call that failed.
struct Errno(c_int);

fn check(result: c_long) -> Result<c_long, Errno> {
    if result >= 0 {
        return Ok(result);
    }
    // SAFETY: the address of this thread's errno is always valid. In the child it is that of the thread that
    // stands still.
    Err(Errno(unsafe { *libc::__errno_location() }))
}

/// A system call by number, with its arguments as words.
macro_rules! call {
    ($number:ident $(, $argument:expr)* $(,)?) => {
        // SAFETY: see `child`; every pointer passed is to something that lives in `Borrowed`.
        check(unsafe { libc::syscall(libc::$number $(, $argument)*) })
    };
}

/// The child's whole life before it becomes the interpreter.
extern "C" fn child(borrowed: *mut c_void) -> c_int {
    // SAFETY: `start` passes a reference to a `Borrowed` that outlives the child.
    let borrowed: &Borrowed<'_> = unsafe { &*borrowed.cast() };
    let mut stage = Stage::Descriptors;
    if let Err(Errno(errno)) = become_interpreter(borrowed, &mut stage) {
        borrowed.failure.stage.store(stage as i32, Ordering::Release);
        borrowed.failure.errno.store(errno, Ordering::Release);
    }
    // SAFETY: ends this process alone, without running anything of ours.
    unsafe { libc::_exit(127) }
}

fn become_interpreter(borrowed: &Borrowed<'_>, stage: &mut Stage) -> Result<(), Errno> {
    let launch = borrowed.launch;
    reset_signals();
    call!(SYS_setsid)?;
    call!(SYS_prctl, libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0)?;
    for (wanted, descriptor) in (0..).zip(&launch.descriptors) {
        call!(SYS_dup3, descriptor.as_raw_fd(), wanted as c_int, 0)?;
    }
    if let Some(namespaces) = &launch.namespaces {
        *stage = Stage::Namespaces;
        become_user(namespaces)?;
        *stage = Stage::Mounts;
        build_root(namespaces)?;
        call!(SYS_chdir, c"/scratch".as_ptr())?;
    } else {
        call!(SYS_chdir, c"/".as_ptr())?;
    }
    *stage = Stage::Start;
    let flags = libc::O_PATH | libc::O_CLOEXEC;
    let executable = call!(SYS_openat, libc::AT_FDCWD, launch.executable.as_ptr(), flags, 0)?;
    call!(SYS_dup3, executable as c_int, START, libc::O_CLOEXEC)?;

    call!(SYS_prctl, libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)?;
    *stage = Stage::Landlock;
    if let Some(landlock) = &launch.landlock {
        restrict(landlock)?;
    }
    *stage = Stage::Limits;
    limit(launch)?;
    drop_capabilities()?;
    // Whatever else of ours is open closes as the interpreter starts.
    call!(SYS_close_range, 4_u32, u32::MAX, libc::CLOSE_RANGE_CLOEXEC)?;
    unblock_signals();
    *stage = Stage::Seccomp;
    if let Some(filter) = &borrowed.filter {
        call!(SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0_u32, ptr::from_ref(filter))?;
    }
    *stage = Stage::Start;
    let (arguments, environment) = (borrowed.arguments, borrowed.environment);
    call!(SYS_execveat, START, c"".as_ptr(), arguments, environment, libc::AT_EMPTY_PATH)?;
    Ok(())
}

/// An ordinary user of the new namespace, who is nobody else outside than we are.
fn become_user(namespaces: &Namespaces) -> Result<(), Errno> {
    write_file(c"/proc/self/setgroups".as_ptr(), b"deny")?;
    write_file(c"/proc/self/uid_map".as_ptr(), namespaces.user_map.as_bytes())?;
    write_file(c"/proc/self/gid_map".as_ptr(), namespaces.group_map.as_bytes())
}

fn write_file(path: *const c_char, text: &[u8]) -> Result<(), Errno> {
    let file = call!(SYS_openat, libc::AT_FDCWD, path, libc::O_WRONLY | libc::O_CLOEXEC, 0)? as c_int;
    call!(SYS_write, file, text.as_ptr(), text.len())?;
    call!(SYS_close, file)?;
    Ok(())
}

/// The new root: an empty file system of fixed size, in which the steps show what may be read.
fn build_root(namespaces: &Namespaces) -> Result<(), Errno> {
    let none = ptr::null::<c_char>();
    let (root, here) = (c"/".as_ptr(), namespaces.mount_point.as_ptr());
    call!(SYS_mount, none, root, none, libc::MS_REC | libc::MS_PRIVATE, none)?;
    let flags = libc::MS_NOSUID | libc::MS_NODEV;
    call!(SYS_mount, c"tmpfs".as_ptr(), here, c"tmpfs".as_ptr(), flags, namespaces.options.as_ptr())?;
    call!(SYS_mkdirat, libc::AT_FDCWD, namespaces.old_root.as_ptr(), 0o700)?;
    call!(SYS_pivot_root, here, namespaces.old_root.as_ptr())?;
    call!(SYS_chdir, root)?;
    for step in &namespaces.steps {
        build(step)?;
    }
    call!(SYS_umount2, c"/old-root".as_ptr(), libc::MNT_DETACH)?;
    call!(SYS_unlinkat, libc::AT_FDCWD, c"/old-root".as_ptr(), libc::AT_REMOVEDIR)?;
    Ok(())
}

fn build(step: &Step) -> Result<(), Errno> {
    let here = libc::AT_FDCWD;
    match step {
        Step::Folder(path) => call!(SYS_mkdirat, here, path.as_ptr(), 0o755)?,
        Step::File(path) => {
            let file = call!(SYS_openat, here, path.as_ptr(), libc::O_CREAT | libc::O_CLOEXEC, 0o644)?;
            call!(SYS_close, file as c_int)?
        }
        Step::Link { target, at } => call!(SYS_symlinkat, target.as_ptr(), here, at.as_ptr())?,
        Step::Bind { from, to } => {
            let none = ptr::null::<c_char>();
            call!(SYS_mount, from.as_ptr(), to.as_ptr(), none, libc::MS_BIND | libc::MS_REC, none)?;
            let read_only = libc::mount_attr {
                attr_set: libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV,
                attr_clr: 0,
                propagation: 0,
                userns_fd: 0,
            };
            let size = size_of::<libc::mount_attr>();
            let attributes = ptr::from_ref(&read_only);
            call!(SYS_mount_setattr, here, to.as_ptr(), libc::AT_RECURSIVE, attributes, size)?
        }
    };
    Ok(())
}

/// `struct landlock_path_beneath_attr`, which the kernel declares packed.
#[repr(C, packed)]
struct PathBeneath {
    allowed_access: u64,
    parent: i32,
}

fn restrict(landlock: &Landlock) -> Result<(), Errno> {
    const PATH_BENEATH: c_int = 1;
    let ruleset = landlock.ruleset.as_raw_fd();
    if let Some(allowed_access) = landlock.scratch {
        let flags = libc::O_PATH | libc::O_CLOEXEC;
        let folder = call!(SYS_openat, libc::AT_FDCWD, c"/scratch".as_ptr(), flags, 0)? as c_int;
        let rule = PathBeneath { allowed_access, parent: folder };
        call!(SYS_landlock_add_rule, ruleset, PATH_BENEATH, ptr::from_ref(&rule), 0_u32)?;
    }
    call!(SYS_landlock_restrict_self, ruleset, 0_u32)?;
    Ok(())
}

fn limit(launch: &Launch) -> Result<(), Errno> {
    let limits = [
        (libc::RLIMIT_AS, launch.memory),
        (libc::RLIMIT_STACK, STACK),
        (libc::RLIMIT_CPU, launch.cpu_seconds),
        (libc::RLIMIT_FSIZE, launch.memory),
        (libc::RLIMIT_NOFILE, OPEN_FILES),
        (libc::RLIMIT_NPROC, THREADS),
        (libc::RLIMIT_CORE, 0),
        (libc::RLIMIT_MEMLOCK, 0),
        (libc::RLIMIT_MSGQUEUE, 0),
    ];
    for (resource, most) in limits {
        // Never above the limit we have ourselves, which an ordinary user may not raise.
        let mut limit = libc::rlimit64 { rlim_cur: 0, rlim_max: 0 };
        call!(SYS_prlimit64, 0, resource, ptr::null::<c_void>(), &raw mut limit)?;
        let most = most.min(limit.rlim_max);
        limit = libc::rlimit64 { rlim_cur: most, rlim_max: most };
        call!(SYS_prlimit64, 0, resource, &raw const limit, ptr::null::<c_void>())?;
    }
    // Refused only where we are humbler than that already.
    let _ = call!(SYS_setpriority, libc::PRIO_PROCESS, 0, launch.niceness);
    Ok(())
}

/// Root without capabilities owns files and nothing more; with no_new_privs set, starting the interpreter does
/// not bring them back.
fn drop_capabilities() -> Result<(), Errno> {
    const VERSION_3: u32 = 0x2008_0522;
    let header: [u32; 2] = [VERSION_3, 0];
    let none = [0_u32; 6];
    call!(SYS_capset, header.as_ptr(), none.as_ptr())?;
    Ok(())
}

/// Handlers are addresses in our memory: none may run in the child.
fn reset_signals() {
    for signal in 1..=64 {
        // SAFETY: a zeroed action is the default one. The C library refuses the few signals it keeps for itself.
        unsafe {
            let default: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, &default, ptr::null_mut());
        }
    }
}

fn unblock_signals() {
    // SAFETY: an empty set is a valid mask; the call changes the mask of this process alone.
    unsafe {
        let none: libc::sigset_t = std::mem::zeroed();
        libc::sigprocmask(libc::SIG_SETMASK, &none, ptr::null_mut());
    }
}

const _: () = {
    // The child names these folders as literals.
    assert!(matches!(OLD_ROOT.as_bytes(), b"/old-root"));
    assert!(matches!(SCRATCH.as_bytes(), b"/scratch"));
};
