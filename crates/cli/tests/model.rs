//! `eager model info`, and models by their names on the hub, with a server on this machine in its place.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use sha2::{Digest, Sha256};

fn acorn() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../models/acorn/weights")
}

fn eager(args: &[&str], home: &Path, endpoint: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_eager"));
    for variable in
        ["HF_HUB_CACHE", "HF_TOKEN", "HF_HUB_OFFLINE", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"]
    {
        command.env_remove(variable);
    }
    command
        .args(args)
        .env("HF_HOME", home)
        .env("HF_ENDPOINT", endpoint)
        .env("EAGER_HOME", home)
        .output()
        .unwrap()
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn error(output: &Output) -> String {
    assert!(!output.status.success());
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_model_is_described() {
    let home = tempfile::tempdir().unwrap();
    let gguf = acorn().join("acorn-q8_0.gguf");
    for model in [None, Some(gguf.to_str().unwrap())] {
        let args: Vec<&str> =
            ["model", "info"].into_iter().chain(model).chain(["--json", "--memory", "100"]).collect();
        let info = json(&eager(&args, home.path(), "http://127.0.0.1:9"));
        assert_eq!(
            (&info["architecture"], &info["layers"], &info["context"]),
            (&"qwen3".into(), &8.into(), &1024.into())
        );
        assert_eq!(info["quantisation"][0]["type"], "Q8_0");
        let bytes: u64 =
            info["quantisation"].as_array().unwrap().iter().map(|t| t["bytes"].as_u64().unwrap()).sum();
        assert_eq!(info["weight_bytes"], bytes);
        // 8 layers of 4 heads with 32 keys and 32 values, two bytes each, and a scale for each token and head.
        let per_token = info["kv_bytes_per_token"]["q16"].as_u64().unwrap();
        assert!((8 * 4 * 64 * 2..8 * 4 * 64 * 2 + 8 * 4 * 2 * 5).contains(&per_token), "{per_token}");
        let fit = &info["memory"]["branches"][0];
        assert_eq!(fit["tokens"], 1024);
        assert_eq!(fit["q16"], ((100 << 20) - bytes) / (per_token * 1024));
        assert_eq!(
            (&info["thetas"]["source"], info["thetas"]["eager_init"].as_f64().map(|x| x as f32)),
            (&"acorn".into(), Some(0.3))
        );
    }
    let table = eager(&["model", "info", "--memory", "100"], home.path(), "http://127.0.0.1:9");
    let text = String::from_utf8(table.stdout).unwrap();
    for part in
        ["parameters", "Q8_0 9", "1,024 tokens", "bytes a token", "branches of 1,024", "0.3 for eager-init"]
    {
        assert!(text.contains(part), "{text}");
    }
    // The name of a folder is the model's.
    let other = home.path().join("another");
    fs::create_dir(&other).unwrap();
    for file in ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"] {
        fs::copy(acorn().join(file), other.join(file)).unwrap();
    }
    let info = json(&eager(
        &["model", "info", other.to_str().unwrap(), "--json"],
        home.path(),
        "http://127.0.0.1:9",
    ));
    assert_eq!((&info["thetas"]["source"], &info["thetas"]["eager"]), (&"uncalibrated".into(), &Value::Null));
    let missing = error(&eager(&["model", "info", "no-such-file.gguf"], home.path(), "http://127.0.0.1:9"));
    assert!(missing.contains("no-such-file.gguf"), "{missing}");
}

/// One file on the hub.
struct Shelved {
    name: &'static str,
    bytes: Vec<u8>,
    tag: String,
}

/// A repository on a hub that keeps a list of what it was asked for. It can hang up in the middle of a file, once.
struct Hub {
    files: Vec<Shelved>,
    asked: Mutex<Vec<String>>,
    hang_up: Mutex<Option<&'static str>>,
}

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

impl Hub {
    /// acorn, under another name; large files are tagged with their SHA-256, as on the real hub.
    fn with(names: &[&'static str]) -> Self {
        let file = |&name: &&'static str| {
            let bytes = fs::read(acorn().join(name)).unwrap();
            let sha: String = Sha256::digest(&bytes).iter().map(|b| format!("{b:02x}")).collect();
            let tag = if name.ends_with("json") { sha[..40].to_owned() } else { sha };
            Shelved { name, bytes, tag }
        };
        Self { files: names.iter().map(file).collect(), asked: Mutex::default(), hang_up: Mutex::default() }
    }

    fn serve(self) -> (String, Arc<Self>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let hub = Arc::new(self);
        let served = Arc::clone(&hub);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                // A client that goes away is not the server's concern.
                let _ = stream.and_then(|stream| served.answer(stream));
            }
        });
        (endpoint, hub)
    }

    fn answer(&self, mut stream: TcpStream) -> std::io::Result<()> {
        let mut lines = BufReader::new(stream.try_clone()?).lines();
        let request = lines.next().transpose()?.unwrap_or_default();
        let mut range = None;
        for line in lines {
            let line = line?.to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            range = line.strip_prefix("range: bytes=").map(str::to_owned).or(range);
        }
        let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
        let range = range.unwrap_or_else(|| "0-".to_owned());
        self.asked.lock().unwrap().push(format!("{path} {range}"));
        let name = path.strip_prefix("/someone/acorn/resolve/main/");
        if path.starts_with("/api/models/someone/acorn") {
            let siblings: Vec<Value> =
                self.files.iter().map(|f| serde_json::json!({"rfilename": f.name})).collect();
            let body = serde_json::json!({"siblings": siblings, "sha": COMMIT}).to_string();
            return write!(
                stream,
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            );
        }
        let Some(file) = self.files.iter().find(|file| Some(file.name) == name) else {
            return stream
                .write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        };
        let (from, to) = range.split_once('-').unwrap();
        let from: usize = from.parse().unwrap();
        let to = to.parse().map_or(file.bytes.len(), |to: usize| to + 1);
        let part = &file.bytes[from..to];
        write!(
            stream,
            "HTTP/1.1 206 Partial Content\r\nx-repo-commit: {COMMIT}\r\netag: \"{}\"\r\nContent-Range: bytes {from}-{}/{}\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n",
            file.tag,
            to - 1,
            file.bytes.len(),
            part.len(),
        )?;
        let hang_up =
            part.len() > 1 && self.hang_up.lock().unwrap().take_if(|name| *name == file.name).is_some();
        stream.write_all(if hang_up { &part[..part.len() / 3] } else { part })
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }
}

const FOLDER: [&str; 4] = ["config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"];

#[test]
fn a_name_on_the_hub_is_downloaded_once() {
    let home = tempfile::tempdir().unwrap();
    let (endpoint, hub) = Hub::with(&FOLDER).serve();
    let info = json(&eager(&["model", "info", "someone/acorn", "--json"], home.path(), &endpoint));
    assert_eq!((&info["model"], &info["architecture"]), (&"acorn".into(), &"qwen3".into()));
    assert!(hub.asked().iter().any(|request| request.contains("model.safetensors")));
    // Where the hub's own tools would look.
    let place = home.path().join("hub/models--someone--acorn/snapshots").join(COMMIT);
    assert!(FOLDER.iter().all(|file| place.join(file).is_file()));

    let again = json(&eager(&["model", "info", "someone/acorn", "--json"], home.path(), &endpoint));
    assert_eq!(again["weight_bytes"], info["weight_bytes"]);
    assert_eq!(hub.asked(), Vec::<String>::new(), "what is there is not asked for");
    let solved = eager(
        &[
            "solve",
            "What is 1 + 1?",
            "--model",
            "someone/acorn",
            "--max-sequences",
            "1",
            "--max-tokens",
            "20",
            "--json",
        ],
        home.path(),
        "http://127.0.0.1:9",
    );
    assert!(json(&solved)["tokens_generated"].as_u64().unwrap() > 0);
}

#[test]
fn a_download_goes_on_where_it_broke_off() {
    let home = tempfile::tempdir().unwrap();
    let hub = Hub::with(&["acorn-q8_0.gguf"]);
    *hub.hang_up.lock().unwrap() = Some("acorn-q8_0.gguf");
    let length = hub.files[0].bytes.len();
    let (endpoint, hub) = hub.serve();
    let info = json(&eager(&["model", "info", "someone/acorn", "--json"], home.path(), &endpoint));
    assert_eq!(info["quantisation"][0]["type"], "Q8_0");
    let asked = hub.asked();
    let third = length / 3;
    assert!(asked.iter().any(|request| request.ends_with(&format!(" {third}-"))), "{asked:?}");
}

#[test]
fn a_damaged_download_is_not_kept() {
    let home = tempfile::tempdir().unwrap();
    let mut hub = Hub::with(&["acorn-q8_0.gguf"]);
    hub.files[0].bytes[5_000_000] ^= 1;
    let (endpoint, _) = hub.serve();
    for _ in 0..2 {
        let said = error(&eager(&["model", "info", "someone/acorn"], home.path(), &endpoint));
        assert!(said.contains("someone/acorn") && said.contains("SHA-256"), "{said}");
    }
    let blobs: Vec<_> =
        fs::read_dir(home.path().join("hub/models--someone--acorn/blobs")).unwrap().flatten().collect();
    assert!(blobs.iter().all(|blob| blob.metadata().unwrap().len() == 0), "{blobs:?}");
}

#[test]
fn what_the_hub_does_not_have_is_named() {
    let home = tempfile::tempdir().unwrap();
    let (endpoint, _) = Hub::with(&["acorn-q8_0.gguf"]).serve();
    let said = error(&eager(&["model", "info", "someone/else"], home.path(), &endpoint));
    assert!(said.contains("someone/else"), "{said}");
    let said = error(&eager(&["model", "info", "someone/acorn:Q2_K"], home.path(), &endpoint));
    assert!(said.contains("no .gguf file named Q2_K"), "{said}");
    let said = error(&eager(&["model", "info", "someone/acorn"], home.path(), "http://127.0.0.1:9"));
    assert!(said.contains("cannot get someone/acorn from the Hugging Face hub"), "{said}");
}
