//! Programs that mean harm, and programs that want a reward they did not earn.
//!
//! Three kinds of test. `refused` runs an attack and passes the problem only if the attack raised an ordinary
//! exception, so it proves both that the attack was made and that it failed. `stopped` runs what has to be ended
//! from outside. `forged` runs what would pass if the harness could be fooled. After each the machine must be as
//! before: no process of ours left, no mounts, no files.
#![cfg(target_os = "linux")]

use std::fs;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;

use eager_grade::code::{CodeGrader, Outcome, Problem, Verdict};
use eager_grade::sandbox::{Limits, Policy, Python, Sandbox};

/// Programs are not told this; it is in the reference solution only.
const SECRET: i64 = 918_273_645;
/// A second of processor time for each of two runs takes two or three seconds; a minute each, at the utmost, where
/// others leave a program of low priority next to nothing.
const PATIENCE: Duration = Duration::from_secs(130);

static GRADER: LazyLock<Arc<CodeGrader>> = LazyLock::new(|| {
    let python = Python::find().expect("the hostile tests need python3");
    let sandbox =
        Sandbox::new(python, Limits::default(), Policy::RequireAll).expect("the sandbox must be whole");
    println!("{}", sandbox.describe().join("\n"));
    Arc::new(CodeGrader::new(
        sandbox,
        vec![problem("Twice", "2 * x"), problem("Secret", &format!("x + {SECRET}"))],
    ))
});

fn problem(id: &str, body: &str) -> Problem {
    let row = serde_json::json!({
        "task_id": id, "prompt": "def f(x):\n    \"\"\" Does it. \"\"\"\n", "entry_point": "f",
        "canonical_solution": format!("    return {body}\n"),
        "atol": 0, "base_input": [[1], [2]], "plus_input": [[3], [4]],
    });
    Problem::parse(&row.to_string()).unwrap()
}

/// Without namespaces there is no scratch folder, and nothing at all can be written.
fn has_scratch() -> bool {
    !GRADER.sandbox().describe().iter().any(|line| line.starts_with("not available: namespaces"))
}

/// One test at a time: each looks for processes that it left behind, and would find those of the others.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The verdict on a program, after a look at the machine.
fn verdict(id: &str, program: &str) -> Verdict {
    let _alone = alone();
    LazyLock::force(&GRADER);
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let start = our_time();
    let verdict = GRADER.grade(id, &format!("```python\n{program}\n```")).unwrap();
    let took = our_time() - start;
    println!("{took:?}: base {}; plus {}", verdict.base, verdict.plus);
    assert!(took < PATIENCE, "{program} took {took:?}");
    assert_eq!(children(), Vec::<String>::new(), "{program} left processes");
    assert_eq!(fs::read_to_string("/proc/self/mounts").unwrap(), mounts, "{program} left mounts");
    verdict
}

/// The time that this process has lived through, in steps of 20 ms: while it is stopped or the machine suspended,
/// it does not pass.
fn our_time() -> Duration {
    const STEP: Duration = Duration::from_millis(20);
    static STEPS: AtomicU32 = AtomicU32::new(0);
    static COUNTING: Once = Once::new();
    COUNTING.call_once(|| {
        std::thread::spawn(|| {
            loop {
                std::thread::sleep(STEP);
                STEPS.fetch_add(1, Ordering::Relaxed);
            }
        });
    });
    STEP * STEPS.load(Ordering::Relaxed)
}

/// Our own child processes, dead or alive.
fn children() -> Vec<String> {
    let me = std::process::id().to_string();
    let stat = |entry: fs::DirEntry| fs::read_to_string(entry.path().join("stat")).ok();
    let is_ours = |stat: &String| {
        // After the name in parentheses: the state, then the parent.
        stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1)) == Some(&me)
    };
    fs::read_dir("/proc").unwrap().flatten().filter_map(stat).filter(is_ours).collect()
}

/// The attack raised an exception, and the program lived to tell.
fn refused(attack: &str) {
    let attack: String = attack.lines().map(|line| format!("        {line}\n")).collect();
    let program = format!(
        "import os, sys, time\ndef f(x):\n    try:\n{attack}    except (OSError, MemoryError, RuntimeError, ValueError):\n        return 2 * x\n    return 'harm done'\n"
    );
    let verdict = verdict("Twice", &program);
    assert!(verdict.correct(), "{program}\nbase {}; plus {}", verdict.base, verdict.plus);
}

/// The program had to be ended, or ended itself; it did not pass.
fn stopped(program: &str) -> Verdict {
    let verdict = verdict("Twice", program);
    assert!(!verdict.base.passed() && !verdict.plus.passed(), "{program} passed");
    verdict
}

fn timed_out(program: &str) {
    let verdict = stopped(program);
    assert!(matches!(verdict.base, Outcome::Timeout { .. }), "{program}: {}", verdict.base);
    assert!(matches!(verdict.plus, Outcome::Timeout { .. }), "{program}: {}", verdict.plus);
}

fn forged(program: &str) {
    let verdict = verdict("Secret", program);
    assert!(!verdict.base.passed() && !verdict.plus.passed(), "{program} passed");
}

#[test]
fn honest_programs_pass() {
    let passes = |program: &str| {
        let verdict = verdict("Twice", program);
        assert!(verdict.correct(), "{program}: {} {}", verdict.base, verdict.plus);
    };
    passes("def f(x): return 2 * x");
    passes("def f(x): return 2.0 * x");
    passes(
        "import math, re, collections, itertools, functools, typing, heapq, bisect, string, random, hashlib\nimport datetime, decimal, fractions, statistics, copy, operator, json\ndef f(x): return int(fractions.Fraction(x) * 2)",
    );
    passes("import fractions\ndef f(x): return fractions.Fraction(2 * x)");
    passes("class N(int): pass\ndef f(x): return N(2 * x)");
    passes("def f(x):\n    print('loud')\n    return 2 * x");
    if has_scratch() {
        passes("def f(x):\n    open('notes', 'w').write(str(2 * x))\n    return int(open('notes').read())");
    }
    passes(
        "import threading\ndef f(x):\n    out = []\n    t = threading.Thread(target=lambda: out.append(2 * x))\n    t.start(); t.join()\n    return out[0]",
    );
}

#[test]
fn wrong_programs_fail_where_they_are_wrong() {
    let verdict = verdict("Twice", "def f(x): return 2 * x if x != 2 else 5");
    let reason = "expected 4, got 5".to_owned();
    assert_eq!(verdict.base, Outcome::Fail { input: Some(1), reason });
    assert_eq!(verdict.plus, Outcome::Pass);
}

#[test]
fn endless_loops_time_out() {
    timed_out("def f(x):\n    while True: pass");
    timed_out("while True: pass\ndef f(x): return 2 * x");
    timed_out(
        "def f(x):\n    while True:\n        try:\n            while True: pass\n        except BaseException: pass",
    );
}

#[test]
fn sleeping_times_out() {
    timed_out("import time\ndef f(x):\n    time.sleep(10000)");
    timed_out("import os, time\ndef f(x):\n    os.closerange(0, 3)\n    time.sleep(10000)");
    // Two inputs have two seconds of processor time, a third for good measure, and five of sleep.
    let verdict = verdict("Twice", "import time\ndef f(x):\n    time.sleep(2.5)\n    return 2 * x");
    assert!(verdict.correct(), "a little sleep is allowed: {} {}", verdict.base, verdict.plus);
}

#[test]
fn ignoring_signals_does_not_help() {
    timed_out(
        "import signal\nfor s in range(1, 65):\n    try: signal.signal(s, signal.SIG_IGN)\n    except (OSError, ValueError): pass\ndef f(x):\n    while True: pass",
    );
}

#[test]
fn printing_gigabytes_goes_nowhere() {
    timed_out("def f(x):\n    while True: print('x' * 1000000)");
    timed_out("import sys\ndef f(x):\n    while True: sys.stderr.write('x' * 1000000)");
    timed_out("import os\ndef f(x):\n    while True: os.write(1, b'x' * 1000000)");
}

#[test]
fn huge_outputs_are_not_taken_in() {
    stopped("def f(x): return 'x' * 500_000_000");
    stopped("def f(x):\n    a = []\n    for i in range(60): a = [a, a]\n    return a");
    stopped("def f(x):\n    a = []\n    a.append(a)\n    return a");
    stopped("def f(x):\n    a = 0\n    for i in range(100000): a = [a]\n    return a");
    stopped(
        "import os\ndef f(x):\n    while True: os.write(3, b'V' + (100).to_bytes(4, 'little') + b'N' * 100)",
    );
    stopped("import os\ndef f(x): os.write(3, b'V\\xff\\xff\\xff\\xff' + b'N' * 100); return 1");
}

#[test]
fn no_processes() {
    refused("while True: os.fork()");
    refused("import subprocess\nsubprocess.run([sys.executable, '-c', '1'])");
    refused("os.posix_spawn(sys.executable, [sys.executable], {})");
    refused("if os.system('true') != 0: raise OSError");
    refused("import multiprocessing\nmultiprocessing.Process(target=print).start()");
    refused("os.execv(sys.executable, [sys.executable, '-c', '1'])");
    refused("os.dup2(os.open(sys.executable, os.O_RDONLY), 200)");
    refused(
        "import threading\nwhile True: threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()",
    );
    refused("import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\nif libc.vfork() < 0: raise OSError");
}

#[test]
fn no_signals_to_anyone() {
    for target in ["os.getppid()", "-1", "0", "1", &std::process::id().to_string()] {
        refused(&format!("os.kill({target}, 9)"));
    }
    refused("os.killpg(0, 9)");
    refused("import signal\nsignal.pidfd_send_signal(os.pidfd_open(1), 9)");
    refused("import ctypes\nif ctypes.CDLL(None).ptrace(16, 1, 0, 0) < 0: raise OSError");
}

#[test]
fn no_memory_beyond_the_limit() {
    refused("bytearray(100 << 30)");
    refused("import mmap\na = [mmap.mmap(-1, 64 << 20) for _ in range(1600)]");
    stopped("def f(x): return len([bytearray(1 << 20) for _ in range(100 << 10)])");
    refused("import mmap\nmmap.mmap(-1, 100 << 30)");
    refused("os.memfd_create('x')");
    refused("import resource\nresource.setrlimit(resource.RLIMIT_AS, (-1, -1))");
    stopped("def f(x): return [0] * (100 << 30)");
}

#[test]
fn no_disk_to_fill() {
    refused("with open('fill', 'wb') as file:\n    while True: file.write(bytes(1 << 20))");
    refused("for i in range(10000000): open(str(i), 'wb').write(b'x' * 4096)");
    refused("for i in range(10000000): os.mkdir(str(i))");
    if !has_scratch() {
        return;
    }
    // What went in before the end is no more than the scratch folder holds.
    let bounded = "import os\nwritten = 0\ndef f(x):\n    global written\n    try:\n        with open('fill', 'ab', 0) as file:\n            while True: written += file.write(bytes(1 << 16))\n    except OSError:\n        return 2 * x if 0 < written <= 16 << 20 else written";
    assert!(verdict("Twice", bounded).correct());
}

#[test]
fn no_files_outside() {
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("secret");
    fs::write(&secret, "42").unwrap();
    let (folder_name, secret_name) = (folder.path().display(), secret.display());
    let me = std::process::id();
    for path in [
        "/etc/passwd".to_owned(),
        "/etc/hostname".to_owned(),
        "/proc/self/environ".to_owned(),
        format!("/proc/{me}/environ"),
        format!("/proc/{me}/mem"),
        "/proc/1/cmdline".to_owned(),
        "/dev/mem".to_owned(),
        "/old-root/etc/passwd".to_owned(),
        "../etc/passwd".to_owned(),
        secret_name.to_string(),
    ] {
        refused(&format!("open('{path}', 'rb').read()"));
        refused(&format!("os.symlink('{path}', 'link' + str(x))\nopen('link' + str(x), 'rb').read()"));
    }
    for path in ["/", "/etc", "/proc", "/home", "/root", "/tmp", &folder_name.to_string()] {
        refused(&format!("os.listdir('{path}')"));
    }
    for place in [&folder_name.to_string(), "/tmp", "/var/tmp", "/dev/shm", "/", "/etc", "/usr/lib", "/lib"] {
        refused(&format!("open('{place}/written', 'w')"));
        refused(&format!("os.mkdir('{place}/made')"));
        refused(&format!("os.rename('{place}', '/scratch/moved')"));
    }
    refused(&format!("os.remove('{secret_name}')"));
    refused(&format!("os.chmod('{secret_name}', 0o777)"));
    refused(&format!("os.truncate('{secret_name}', 0)"));
    refused(&format!("os.link('{secret_name}', 'link')"));
    refused("os.chroot('.')");
    refused("os.mkfifo('pipe')");
    refused("open(os.__file__, 'a')");
    refused(
        "import ctypes\nif ctypes.CDLL(None).mount(b'proc', b'/scratch', b'proc', 0, 0) < 0: raise OSError",
    );
    refused("import ctypes\nif ctypes.CDLL(None).unshare(0x10000000) < 0: raise OSError");
    assert_eq!(fs::read_to_string(&secret).unwrap(), "42");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "something was written");
    assert!(!std::path::Path::new("/tmp/written").exists() && !std::path::Path::new("/tmp/made").exists());
}

#[test]
fn no_network() {
    for family in ["AF_INET", "AF_INET6", "AF_UNIX", "AF_NETLINK", "AF_PACKET"] {
        refused(&format!("import socket\nsocket.socket(socket.{family}, socket.SOCK_DGRAM)"));
    }
    refused("import socket\nsocket.socketpair()");
    refused("import socket\nsocket.create_connection(('127.0.0.1', 80))");
}

#[test]
fn no_other_doors_to_the_kernel() {
    // io_uring_setup, bpf, keyctl, perf_event_open, userfaultfd, process_vm_readv, pidfd_getfd, openat2, the call
    // numbers of x86_64; elsewhere they are other calls, as little allowed.
    for call in [425, 321, 250, 298, 323, 310, 438, 437, 165, 101, 272, 435] {
        refused(&format!(
            "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\nif libc.syscall({call}, 0, 0, 0, 0, 0) < 0: raise OSError"
        ));
    }
}

#[test]
fn leaving_early_is_no_pass() {
    for end in ["sys.exit(0)", "os._exit(0)", "raise SystemExit(0)", "os.abort()", "quit()", "os.close(3)"] {
        forged(&format!("import os, sys\ndef f(x):\n    {end}"));
        forged(&format!("import os, sys\ndef f(x): return x\n{end}"));
    }
    forged("import atexit, os\natexit.register(os._exit, 0)\ndef f(x): raise KeyboardInterrupt");
}

#[test]
fn equal_to_everything_is_no_pass() {
    let base = "    def __eq__(self, other): return True\n    def __ne__(self, other): return False\n    def __hash__(self): return 0\n";
    for class in ["object", "int", "float", "list", "dict", "str", "tuple"] {
        forged(&format!("class Any({class}):\n{base}def f(x): return Any()"));
    }
    forged(&format!("class Any:\n{base}def f(x): return [Any()]"));
    forged("class Any:\n    def as_integer_ratio(self): return Any(), 1\ndef f(x): return Any()");
    forged("def f(x): return float('nan')");
}

#[test]
fn patching_the_harness_is_no_pass() {
    forged(
        "import builtins\nbuiltins.compile = builtins.exec = builtins.len = lambda *a, **k: True\ndef f(x): return x",
    );
    forged("import marshal\nmarshal.dumps = lambda *a: b'T'\ndef f(x): return x");
    forged(
        "import sys\nm = sys.modules['__main__']\nm.flat = m.describe = m.choose = lambda *a: True\ndef f(x): return x",
    );
    forged("import sys\ndef f(x):\n    sys._getframe(1).f_locals['inputs'].clear()\n    return x");
    forged(
        "import os\ndef f(x):\n    os.write(3, b'V' + (10).to_bytes(4, 'little') + bytes(8) + b'\\1T')\n    return x",
    );
    forged("import os\nfor i in range(4): os.write(3, b'L\\0\\0\\0\\0')\ndef f(x): return x");
    forged("import os\nos.write(3, b'C' + (4).to_bytes(4, 'little') + b'\\xff' * 4)\ndef f(x): return x");
}

/// Looks everywhere a process can look for something like the secret or the secret plus an input, without holding
/// it itself; what it finds it would return.
#[test]
fn there_is_nothing_to_be_found() {
    let look = "import gc, os, re, sys
def things():
    for o in gc.get_objects():
        if isinstance(o, dict): yield from list(o.values())
        if isinstance(o, (list, tuple, set)): yield from list(o)
    frame = sys._getframe()
    while frame:
        yield from list(frame.f_locals.values())
        yield from frame.f_code.co_consts
        frame = frame.f_back
    yield from sys.argv
    yield from sys.orig_argv if hasattr(sys, 'orig_argv') else ()
    yield from os.environ.values()
    for folder in ('/', '/proc/self', '/scratch', '/tmp', '.'):
        try:
            for name in os.listdir(folder): yield open(folder + '/' + name).read()
        except (OSError, ValueError): pass
def f(x):
    for thing in list(things()):
        if isinstance(thing, (int, str, bytes)) and abs(len(repr(thing))) < 1 << 20:
            found = re.search('PREFIX[0-9]{6}', repr(thing))
            if found: return x + int(found[0]) // 5 * 5
    return 0";
    let prefix = SECRET / 1_000_000;
    // The attack works where there is something to be found: here, in the program itself.
    let planted = format!("{}\nplanted = {SECRET} + 2\n", look.replace("PREFIX", &prefix.to_string()));
    assert!(verdict("Secret", &planted).correct());
    forged(&look.replace("PREFIX", &prefix.to_string()));
}

#[test]
fn cancelling_kills_the_children() {
    let _alone = alone();
    let endless = || ("Twice".to_owned(), "```python\ndef f(x):\n    while True: pass\n```".to_owned());
    let mut verdicts = GRADER.grade_all(std::iter::repeat_with(endless));
    std::thread::sleep(Duration::from_millis(500));
    assert!(!children().is_empty(), "something should be at work");
    let start = our_time();
    assert!(verdicts.next().is_some());
    drop(verdicts);
    assert!(our_time() - start < PATIENCE);
    assert_eq!(children(), Vec::<String>::new());
}
