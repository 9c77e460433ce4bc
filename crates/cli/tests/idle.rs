//! Thousands of connections that ask for nothing, against the real server: they hold no place that somebody needs.
#![cfg(target_os = "linux")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const HEALTH: &str = "GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
/// What takes a while to answer.
const LARGE: &str = r#""n":32,"max_tokens":120,"eager":{"method":"full-parallel"}"#;

/// The command, serving; gone when it is dropped.
struct Serve {
    child: Child,
    address: SocketAddr,
}

impl Serve {
    /// Starts it under a shell's limit of open files, which it may raise as far as the second.
    fn start((soft, hard): (usize, usize), args: &[&str]) -> Self {
        let mut child = Command::new("sh")
            .args(["-c", &format!("ulimit -Sn {soft} && ulimit -Hn {hard} && exec \"$@\""), "sh"])
            .args([env!("CARGO_BIN_EXE_eager"), "serve", "--port", "0"])
            .args(args)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
        let address = lines
            .find_map(|line| line.split("at http://").nth(1)?.split(' ').next()?.parse().ok())
            .expect("the server says where it is");
        // What nobody reads would stop the server's log sooner or later.
        std::thread::spawn(move || lines.for_each(drop));
        Serve { child, address }
    }

    /// Somebody new asks; the answer, head and body.
    fn ask(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn chat(&self, more: &str) -> String {
        let body =
            format!(r#"{{"messages":[{{"role":"user","content":"What is 888 * 27 + 271?"}}],{more}}}"#);
        self.ask(&format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        ))
    }

    fn metric(&self, name: &str) -> usize {
        let answer = self.ask(&HEALTH.replace("/healthz", "/metrics"));
        let line = answer.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().parse().unwrap()
    }

    /// KiB of memory that the process has.
    fn memory(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// As many connections of the test's own as the system allows, up to a number.
fn allowed(wanted: usize) -> usize {
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(u64::MAX).min(wanted as u64 + 256);
    if limit.current.is_some_and(|current| current < most) {
        setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum: limit.maximum }).unwrap();
    }
    wanted.min(most as usize - 256)
}

/// A connection that stays: silent, in the middle of a head, or between two requests.
fn idle(address: SocketAddr, kind: usize) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    match kind % 3 {
        0 => {}
        // It may have been closed again already.
        1 => drop(stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: lo")),
        _ => {
            drop(stream.write_all(HEALTH.replace("connection: close\r\n", "").as_bytes()));
            let mut some = [0; 12];
            drop(stream.read_exact(&mut some));
        }
    }
    stream
}

/// Fills the server, and asks it meanwhile and afterwards. What one idle connection takes, in bytes.
fn flood(serve: &Serve, limit: usize, idle_ones: usize) -> usize {
    let healthy = || {
        let begun = Instant::now();
        assert!(serve.ask(HEALTH).starts_with("HTTP/1.1 200"));
        begun.elapsed()
    };
    // What decoding needs is had beforehand, so that it does not look like the connections'.
    assert!(serve.chat(LARGE).starts_with("HTTP/1.1 200"));
    let before = serve.memory();
    let full = AtomicBool::new(false);
    let mut slowest = Duration::ZERO;
    std::thread::scope(|scope| {
        let busy = scope.spawn(|| serve.chat(LARGE));
        let filling = scope.spawn(|| {
            let held: Vec<_> = (0..idle_ones).map(|kind| idle(serve.address, kind)).collect();
            full.store(true, Ordering::Relaxed);
            held
        });
        while !full.load(Ordering::Relaxed) {
            slowest = slowest.max(healthy());
        }
        let held = filling.join().unwrap();
        let taken = serve.memory().saturating_sub(before) * 1024 / limit;
        // Every place is held by somebody who does not ask.
        assert!(serve.metric("eager_connections ") >= limit.min(idle_ones) * 9 / 10);
        for _ in 0..20 {
            slowest = slowest.max(healthy());
        }
        assert!(serve.chat(r#""max_tokens":3"#).starts_with("HTTP/1.1 200"));
        assert!(busy.join().unwrap().starts_with("HTTP/1.1 200"), "a request under way is not disturbed");
        assert!(serve.metric("eager_connections ") <= limit);
        assert!(serve.metric("eager_connections_evicted_total ") + limit >= idle_ones);
        assert!(slowest < Duration::from_secs(2), "somebody waited {slowest:?}");
        println!(
            "{idle_ones} idle ones, {limit} places: {taken} bytes each, others waited {slowest:?} at most"
        );
        drop(held);
        taken
    })
}

#[test]
fn thousands_that_only_sit_there_keep_nobody_out() {
    // Places that there are, the arguments, and the files that may be open at first and when raised.
    let table: [(usize, &[&str], (usize, usize)); 3] = [
        (1024, &[], (256, 2048)),
        (4096, &["--connections", "4096"], (1024, 8192)),
        // Fewer files than connections: the server makes do.
        (384, &[], (256, 512)),
    ];
    let idle_ones = allowed(6000);
    if idle_ones < 6000 {
        println!("skipped: this system allows no 6,000 open files");
        return;
    }
    for (limit, args, files) in table {
        let serve = Serve::start(files, args);
        let taken = flood(&serve, limit, idle_ones);
        assert!(taken < 48 << 10, "an idle connection takes {taken} bytes");
    }
}
