//! Real servers, started for a test and ended with it.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use eager_remote::{Options, RemoteEngine};

/// A server that lives as long as this.
pub struct Live {
    process: Child,
    pub url: String,
}

impl Live {
    /// Starts llama-server with a GGUF, if there is one to start.
    pub fn llama_server(model: &Path, slots: usize) -> Option<Self> {
        Self::start("EAGER_TEST_XLLAMACPP", "tests/live/serve.py", model, slots, None)
    }

    /// The same, one that saves slots in a folder.
    pub fn saving_llama_server(model: &Path, slots: usize, folder: &Path) -> Option<Self> {
        Self::start("EAGER_TEST_XLLAMACPP", "tests/live/serve.py", model, slots, Some(folder))
    }

    /// Starts vLLM with a folder of safetensors, if there is one to start.
    pub fn vllm(model: &Path, sequences: usize) -> Option<Self> {
        Self::start("EAGER_TEST_VLLM", "tests/vllm/serve.py", model, sequences, None)
    }

    /// Runs a script with the Python that a variable names.
    fn start(
        variable: &str,
        script: &str,
        model: &Path,
        sequences: usize,
        folder: Option<&Path>,
    ) -> Option<Self> {
        let Some(python) = std::env::var_os(variable) else {
            eprintln!("skipped: {variable} names no Python with the server");
            return None;
        };
        let arguments: [OsString; 4] =
            [model.into(), sequences.to_string().into(), "1024".into(), "1".into()];
        let mut process = Command::new(python)
            .arg(crate_folder().join(script))
            .args(arguments)
            .args(folder.map(|folder| format!("--slot-save-path={}", folder.display())))
            // The script ends when this pipe is closed, whatever becomes of us.
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut url = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut url).unwrap();
        assert!(url.starts_with("http://"), "the server did not start: run {script} by hand to see why");
        Some(Live { process, url: url.trim().to_owned() })
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        // It may be gone already.
        let _ = self.process.wait();
    }
}

pub fn connect(url: &str) -> RemoteEngine {
    RemoteEngine::connect(url, &Options::default()).unwrap()
}

/// A file of acorn's weights, or their folder.
pub fn acorn(name: &str) -> PathBuf {
    crate_folder().join("../../models/acorn/weights").join(name)
}

fn crate_folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
