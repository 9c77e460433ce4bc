//! Files from the hub and from GitHub, with a server on this machine in their place.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;

use eager_lab::suite::fetch::{ORIGINALS, Original, Site, fetch};
use eager_lab::suite::{Place, Request, SUITES, Suite};
use sha2::{Digest, Sha256};

use crate::{ids, refused};

const THEIRS: &str = "{\"problem\": \"1 + 1?\", \"solution\": \"Two.\", \"answer\": \"2\", \"unique_id\": \"sums/1\", \"subject\": \"Sums\", \"level\": 1}\n";

/// A place that answers every request for `path` with `body`, and any other with 404. It serves until the tests end.
fn serve(path: &'static str, body: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            // A client that goes away is not the server's concern.
            let _ = stream.and_then(|stream| answer(stream, path, body));
        }
    });
    format!("http://{address}")
}

/// Answers one request as the hub does: the commit and a tag of the content in headers, and ranges of bytes.
fn answer(mut stream: TcpStream, path: &str, body: &str) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let request = lines.next().transpose()?.unwrap_or_default();
    let (mut status, mut range) = ("200 OK", (0, body.len() - 1));
    for line in lines {
        let line = line?.to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some((from, to)) = line.strip_prefix("range: bytes=").and_then(|range| range.split_once('-')) {
            (status, range) =
                ("206 Partial Content", (from.parse().unwrap_or(0), to.parse().unwrap_or(range.1)));
        }
    }
    if request.split(' ').nth(1) != Some(path) {
        return stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    }
    let part = &body[range.0..=range.1];
    write!(
        stream,
        "HTTP/1.1 {status}\r\nx-repo-commit: {REVISION}\r\netag: \"tag\"\r\nContent-Range: bytes {}-{}/{}\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{part}",
        range.0,
        range.1,
        body.len(),
        part.len(),
    )
}

const REVISION: &str = "0123456789abcdef0123456789abcdef01234567";
const SUMS: &str = "/datasets/someone/sums/resolve/0123456789abcdef0123456789abcdef01234567/test.jsonl";
const MATH500: &str =
    "/datasets/HuggingFaceH4/MATH-500/resolve/6e4ed1a2a79af7d8630a6b768ec859cb5af4d3be/test.jsonl";

const GITHUB_SUMS: &str = "/someone/sums/0123456789abcdef0123456789abcdef01234567/test.jsonl";

/// A file of ours, as if it were where MATH-500 is, or where that site's files are.
fn sums(site: Site) -> Original {
    let digest: String = Sha256::digest(THEIRS).iter().map(|byte| format!("{byte:02x}")).collect();
    let math500 = ORIGINALS.iter().find(|original| original.suite == "math500").unwrap();
    Original { site, repo: "someone/sums", revision: REVISION, sha256: digest.leak(), ..math500.clone() }
}

/// Both sites at one address.
pub fn place(folder: &Path, address: &str) -> Place {
    Place { folder: folder.to_owned(), hub: address.to_owned(), github: address.to_owned() }
}

fn names_in(folder: &Path) -> Vec<String> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn a_file_is_fetched_checked_and_saved_in_our_form() {
    for (site, path) in [(Site::Hub, SUMS), (Site::GitHub, GITHUB_SUMS)] {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("not/there/yet");
        fetch(&sums(site), &place(&data, &serve(path, THEIRS)), &data.join("math500.jsonl")).unwrap();
        assert_eq!(names_in(&data), ["math500.jsonl"]);
        // From now on it is at hand, and nobody is asked.
        let place = place(&data, "http://127.0.0.1:9");
        let suite = Suite::open(&Request { place: Some(place), ..Request::new("math500") }).unwrap();
        assert_eq!(ids(&suite), ["sums/1"]);
        let problem = &suite.problems[0];
        assert_eq!((problem.gold.as_deref(), problem.group.as_deref()), (Some("2"), Some("Sums/1")));
    }
}

const GSM8K: &str =
    "/openai/grade-school-math/3101c7d5072418e28b9008a6636bde82a006892c/grade_school_math/data/test.jsonl";

#[test]
fn what_cannot_be_fetched_names_both_ways_and_leaves_nothing_behind() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for (suite, file, path) in [("math500", "math500.jsonl", MATH500), ("gsm8k", "gsm8k_test.jsonl", GSM8K)] {
        let table = [
            ("another file", serve(path, THEIRS), "is not what it should be: its SHA-256 is "),
            ("no such file", serve("/elsewhere", THEIRS), "http status: 404"),
            ("nobody there", format!("http://{silent}"), "could not be had: "),
            ("no address", "hub".to_owned(), "could not be had: "),
        ];
        for (what, address, expected) in table {
            let folder = tempfile::tempdir().unwrap();
            let data = folder.path().join("data");
            let error = refused(&Request { place: Some(place(&data, &address)), ..Request::new(suite) });
            let put = format!("{suite} is not at hand. Put {file} into {}, or name", data.display());
            assert!(error.starts_with(&put) && error.contains("EAGER_DATA"), "{what}: {error}");
            let (_, why) = error.split_once("It would be fetched by itself, but ").unwrap();
            assert!(why.contains(&format!("{address}{path}")) && why.contains(expected), "{what}: {error}");
            assert!(names_in(folder.path()).is_empty(), "{what}");
        }
    }
}

#[test]
fn a_folder_that_cannot_be_written_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let target = file.join("math500.jsonl");
    let error = fetch(&sums(Site::Hub), &place(&file, &serve(SUMS, THEIRS)), &target).unwrap_err();
    assert!(error.to_string().contains(&format!("{} cannot be written", target.display())), "{error}");
}

/// Both ways, for every suite that has a file.
#[test]
fn a_suite_that_is_not_at_hand_says_where_it_is() {
    for known in SUITES.iter().filter(|known| known.file.is_some()) {
        let folder = tempfile::tempdir().unwrap();
        let place = place(folder.path(), "http://127.0.0.1:9");
        let error = Suite::open(&Request { place: Some(place), ..Request::new(known.name) }).unwrap_err();
        assert!(!error.is_usage());
        let error = error.to_string();
        let put = format!("{} is not at hand. Put {} into ", known.name, known.file.unwrap());
        assert!(error.starts_with(&put), "{error}");
        assert!(
            error.contains("on GitHub") && error.contains("It would be fetched by itself, but "),
            "{error}"
        );
    }
}

#[test]
fn files_that_are_not_what_they_should_be_are_named() {
    for (name, file) in [
        ("gpqa-diamond", "gpqa_dataset.zip"),
        ("humaneval-plus", "HumanEvalPlus-v0.1.10.jsonl.gz"),
        ("aime2024", "aime2024.jsonl"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(file), "nonsense").unwrap();
        let error = refused(&Request { place: Some(place(folder.path(), "")), ..Request::new(name) });
        assert!(error.contains(file), "{error}");
    }
}

/// The table itself: what must hold for a download to mean anything.
#[test]
fn what_is_fetched_is_pinned() {
    for Original { suite, revision, sha256, .. } in ORIGINALS {
        assert!(eager_lab::suite::names().contains(suite));
        let hex = |text: &str, length| text.len() == length && text.bytes().all(|b| b.is_ascii_hexdigit());
        assert!(hex(revision, 40) && hex(sha256, 64), "{suite}");
    }
}
