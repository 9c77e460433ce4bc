//! Which system calls a tested program may make.
//!
//! An allowlist: what CPython needs to start, to compute, to read its library and to write to descriptors that it
//! was given. Everything else does not exist (`ENOSYS`, as on a kernel without it: libraries fall back, programs
//! get an ordinary exception). In particular there are no processes (`fork`, `clone` but for threads, `execve`), no
//! sockets or pipes, no signals to anyone, no memory that escapes the limit (`memfd_create`, `shmget`), no
//! `ptrace`, `mount`, `bpf`, `io_uring`, `keyctl`, `userfaultfd`, and nothing that a later kernel adds.
//!
//! The one `execve` that starts the interpreter is an `execveat` on a descriptor above the limit of open files:
//! it closes as the interpreter starts, and no later descriptor can have its number, so there is no second one.

use std::collections::BTreeMap;

use libc::{
    SYS_brk, SYS_chdir, SYS_clock_getres, SYS_clock_gettime, SYS_clock_nanosleep, SYS_clone, SYS_close,
    SYS_dup, SYS_dup3, SYS_execveat, SYS_exit, SYS_exit_group, SYS_faccessat, SYS_fcntl, SYS_fstat,
    SYS_ftruncate, SYS_futex, SYS_getcpu, SYS_getcwd, SYS_getdents64, SYS_getegid, SYS_geteuid, SYS_getgid,
    SYS_getpgid, SYS_getpid, SYS_getppid, SYS_getrandom, SYS_getrusage, SYS_gettid, SYS_gettimeofday,
    SYS_getuid, SYS_ioctl, SYS_linkat, SYS_lseek, SYS_madvise, SYS_mkdirat, SYS_mmap, SYS_mprotect,
    SYS_mremap, SYS_munmap, SYS_nanosleep, SYS_newfstatat, SYS_openat, SYS_ppoll, SYS_pread64, SYS_prlimit64,
    SYS_pselect6, SYS_pwrite64, SYS_read, SYS_readlinkat, SYS_readv, SYS_renameat2, SYS_rseq,
    SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_sched_getaffinity, SYS_sched_yield,
    SYS_set_robust_list, SYS_set_tid_address, SYS_sigaltstack, SYS_statx, SYS_symlinkat, SYS_sysinfo,
    SYS_times, SYS_uname, SYS_unlinkat, SYS_write, SYS_writev,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

/// Calls allowed with any arguments.
const ALWAYS: &[libc::c_long] = &[
    // Memory.
    SYS_brk,
    SYS_mmap,
    SYS_mprotect,
    SYS_mremap,
    SYS_munmap,
    SYS_madvise,
    // Descriptors already open.
    SYS_close,
    SYS_dup,
    SYS_dup3,
    SYS_fstat,
    SYS_lseek,
    SYS_pread64,
    SYS_pwrite64,
    SYS_read,
    SYS_readv,
    SYS_write,
    SYS_writev,
    SYS_ppoll,
    SYS_pselect6,
    // Names of files; which ones can be reached is not decided here.
    SYS_chdir,
    SYS_faccessat,
    SYS_getcwd,
    SYS_getdents64,
    SYS_newfstatat,
    SYS_readlinkat,
    SYS_statx,
    // Time.
    SYS_clock_getres,
    SYS_clock_gettime,
    SYS_clock_nanosleep,
    SYS_gettimeofday,
    SYS_nanosleep,
    SYS_times,
    // Threads and the handling of one's own signals.
    SYS_futex,
    SYS_rseq,
    SYS_rt_sigaction,
    SYS_rt_sigprocmask,
    SYS_rt_sigreturn,
    SYS_sched_getaffinity,
    SYS_sched_yield,
    SYS_set_robust_list,
    SYS_set_tid_address,
    SYS_sigaltstack,
    // Who and where am I?
    SYS_getcpu,
    SYS_getegid,
    SYS_geteuid,
    SYS_getgid,
    SYS_getpgid,
    SYS_getpid,
    SYS_getppid,
    SYS_getrandom,
    SYS_getrusage,
    SYS_gettid,
    SYS_getuid,
    SYS_sysinfo,
    SYS_uname,
    // The end.
    SYS_exit,
    SYS_exit_group,
];

/// The older spellings of some of these that only this architecture has.
#[cfg(target_arch = "x86_64")]
const ALWAYS_HERE: &[libc::c_long] = &[
    libc::SYS_access,
    libc::SYS_arch_prctl,
    libc::SYS_dup2,
    libc::SYS_getpgrp,
    libc::SYS_getrlimit,
    libc::SYS_lstat,
    libc::SYS_poll,
    libc::SYS_readlink,
    libc::SYS_select,
    libc::SYS_stat,
    libc::SYS_time,
];
#[cfg(not(target_arch = "x86_64"))]
const ALWAYS_HERE: &[libc::c_long] = &[];

/// Calls that change a file tree: only where the tree to be changed is a scratch folder of bounded size.
const SCRATCH: &[libc::c_long] =
    &[SYS_ftruncate, SYS_linkat, SYS_mkdirat, SYS_renameat2, SYS_symlinkat, SYS_unlinkat];
#[cfg(target_arch = "x86_64")]
const SCRATCH_HERE: &[libc::c_long] =
    &[libc::SYS_mkdir, libc::SYS_rename, libc::SYS_renameat, libc::SYS_rmdir, libc::SYS_unlink];
#[cfg(not(target_arch = "x86_64"))]
const SCRATCH_HERE: &[libc::c_long] = &[];

/// What may be done to a descriptor through `fcntl`; neither leases nor owners nor the size of pipes.
const FCNTL: &[libc::c_int] =
    &[libc::F_DUPFD, libc::F_DUPFD_CLOEXEC, libc::F_GETFD, libc::F_SETFD, libc::F_GETFL, libc::F_SETFL];

/// Questions that CPython asks of the files it opens (is this a terminal?), and close-on-exec.
const IOCTL: &[u64] = &[libc::TCGETS, libc::TIOCGWINSZ, libc::FIOCLEX, libc::FIONCLEX, libc::FIONBIO];

/// Every way of opening a file other than to read it.
const OPEN_TO_WRITE: libc::c_int =
    libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC | libc::O_APPEND | (libc::O_TMPFILE & !libc::O_DIRECTORY);

/// The filter, compiled. `start` is the descriptor that the interpreter is started from; files may be opened for
/// writing only if there is a scratch folder.
pub(super) fn compile(start: libc::c_int, scratch: bool) -> Result<BpfProgram, seccompiler::BackendError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    let mut allow =
        |calls: &[libc::c_long]| calls.iter().for_each(|&call| drop(rules.insert(call, Vec::new())));
    allow(ALWAYS);
    allow(ALWAYS_HERE);
    if scratch {
        allow(SCRATCH);
        allow(SCRATCH_HERE);
        allow(&[SYS_openat]);
        #[cfg(target_arch = "x86_64")]
        allow(&[libc::SYS_open]);
    } else {
        let reading = |argument| only(argument, OPEN_TO_WRITE as u64, &[0]);
        rules.insert(SYS_openat, reading(2)?);
        #[cfg(target_arch = "x86_64")]
        rules.insert(libc::SYS_open, reading(1)?);
    }
    let thread = libc::CLONE_THREAD as u64;
    rules.insert(SYS_clone, only(0, thread, &[thread])?);
    rules.insert(SYS_execveat, only(0, u32::MAX.into(), &[start as u64])?);
    let commands: Vec<u64> = FCNTL.iter().map(|&command| command as u64).collect();
    rules.insert(SYS_fcntl, only(1, u32::MAX.into(), &commands)?);
    rules.insert(SYS_ioctl, only(1, u32::MAX.into(), IOCTL)?);
    // Limits may be read, not set: the third argument, a new limit, must be null.
    rules.insert(SYS_prlimit64, only(2, u64::MAX, &[0])?);

    let absent = SeccompAction::Errno(libc::ENOSYS as u32);
    let here = std::env::consts::ARCH.try_into()?;
    SeccompFilter::new(rules, absent, SeccompAction::Allow, here)?.try_into()
}

/// Rules that allow a call only where an argument, under a mask, is one of these values.
fn only(argument: u8, mask: u64, values: &[u64]) -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    let rule = |&value: &u64| {
        let equal = SeccompCmpOp::MaskedEq(mask);
        let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Qword, equal, value & mask)?;
        SeccompRule::new(vec![condition])
    };
    values.iter().map(rule).collect()
}
