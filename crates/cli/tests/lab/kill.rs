//! A run that is killed again and again ends as one that was left alone.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::{command, text_without_seconds};

const METHODS: [&str; 6] =
    ["full-parallel", "eager-init", "eager-adapt-regrow", "eager-adapt-rerun", "eager-regrow", "esc"];

fn arguments(out: &Path) -> Vec<String> {
    let methods = METHODS.map(|name| name.replacen("-re", "/re", 1)).join(",");
    let out = out.display().to_string();
    [
        "bench",
        "--suite",
        "acorn",
        "--limit",
        "15",
        "-m",
        "8",
        "--method",
        &methods,
        "--at-once",
        "3",
        "--out",
        &out,
    ]
    .map(str::to_owned)
    .into()
}

/// How many whole lines each run has.
fn progress(root: &Path) -> Vec<usize> {
    let lines = |name: &str| {
        let text = std::fs::read(root.join(name).join("samples.jsonl")).unwrap_or_default();
        text.iter().filter(|&&byte| byte == b'\n').count()
    };
    METHODS.map(lines).to_vec()
}

/// `EAGER_KILLS=20 cargo test --release --test lab kill` kills it more often.
#[test]
fn a_run_that_is_killed_at_any_moment_goes_on_to_the_same_end() {
    let kills: usize = std::env::var("EAGER_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(5);
    let folder = tempfile::tempdir().unwrap();
    let (whole, torn): (PathBuf, PathBuf) = (folder.path().join("whole"), folder.path().join("torn"));
    let begun = Instant::now();
    let done = |out: &Path| {
        let mut arguments = arguments(out);
        arguments.push("--resume".to_owned());
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let mut command = command(&arguments);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    assert!(done(&whole).status().unwrap().success());
    let time = begun.elapsed();

    let mut random = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    println!("seed {random}");
    let same = || {
        for name in METHODS {
            assert_eq!(
                text_without_seconds(&torn.join(name)),
                text_without_seconds(&whole.join(name)),
                "{name}"
            );
        }
        assert!(torn.join("first-pass").is_dir());
    };
    let (mut before, mut seen, mut killed, mut complete) = (progress(&torn), Vec::new(), 0, 0);
    while killed < kills {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let share = (random >> 40) as f64 / (1u64 << 24) as f64 / 2.0;
        let mut child = done(&torn).spawn().unwrap();
        std::thread::sleep(time.mul_f64(share).max(Duration::from_millis(5)));
        if let Some(status) = child.try_wait().unwrap() {
            // It came to its end between two kills: the same end, and then from the beginning.
            assert!(status.success());
            same();
            std::fs::remove_dir_all(&torn).unwrap();
            (before, complete) = (progress(&torn), complete + 1);
            continue;
        }
        // SIGKILL: it has no chance to tidy up.
        child.kill().unwrap();
        child.wait().unwrap();
        killed += 1;
        let after = progress(&torn);
        let kept = before.iter().zip(&after).all(|(before, after)| before <= after);
        assert!(kept, "kill {killed} lost finished prompts: {before:?}, then {after:?}");
        seen.push(after.iter().sum::<usize>());
        before = after;
    }
    println!(
        "{kills} kills, {complete} complete runs between them; finished prompts when they came: {seen:?}"
    );
    assert!(done(&torn).status().unwrap().success());
    same();
}
