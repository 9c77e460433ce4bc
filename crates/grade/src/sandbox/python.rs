//! The interpreter that runs tested programs, and the folders it cannot do without.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::SandboxError;

/// Asks the interpreter about itself: its version, its file, and, a line each, what it reads while it runs (its
/// library and the shared libraries of a few modules that need some).
const QUESTIONS: &str = "
import os, sys, hashlib, decimal, math, random, bisect, zlib
print('%d.%d.%d' % sys.version_info[:3])
print(os.path.realpath(getattr(sys, '_base_executable', None) or sys.executable))
print(sys.base_prefix)
for path in sys.path: print(path)
try:
    for line in open('/proc/self/maps'):
        path = line.rstrip().split(' ')[-1]
        if '.so' in path: print(os.path.dirname(path))
except OSError: pass
";

/// Prefixes that hold much more than Python; only the folders of libraries below them are shown.
const SHARED_PREFIXES: [&str; 3] = ["/", "/usr", "/usr/local"];
/// Where the dynamic linker looks.
const LIBRARIES: [&str; 6] =
    ["/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/etc/ld.so.cache"];

/// A Python interpreter.
#[derive(Debug, Clone)]
pub struct Python {
    pub version: String,
    /// The interpreter itself, with all links resolved.
    pub executable: PathBuf,
    /// All that it has to read; nothing else is shown to a tested program.
    pub readable: Vec<PathBuf>,
}

impl Python {
    /// The interpreter named by `EAGER_PYTHON`, otherwise the `python3` of the search path.
    pub fn find() -> Result<Self, SandboxError> {
        let name = std::env::var_os("EAGER_PYTHON").unwrap_or_else(|| "python3".into());
        Self::at(Path::new(&name))
    }

    /// The interpreter started by this command; it may be a link, a shim or inside a virtual environment.
    pub fn at(command: &Path) -> Result<Self, SandboxError> {
        let fail = |reason: String| SandboxError::Python { command: command.display().to_string(), reason };
        let output = Command::new(command)
            .args(["-I", "-S", "-B", "-c", QUESTIONS])
            .stdin(Stdio::null())
            .output()
            .map_err(|error| fail(error.to_string()))?;
        if !output.status.success() {
            return Err(fail(format!("it {}", output.status)));
        }
        let answers = String::from_utf8_lossy(&output.stdout);
        let mut answers = answers.lines();
        let (Some(version), Some(executable), Some(prefix)) =
            (answers.next(), answers.next(), answers.next())
        else {
            return Err(fail("it does not answer like Python 3".to_owned()));
        };
        let executable = PathBuf::from(executable);
        let mut readable: Vec<PathBuf> = LIBRARIES.iter().map(PathBuf::from).collect();
        readable.extend(answers.map(PathBuf::from));
        readable.push(executable.clone());
        if !SHARED_PREFIXES.contains(&prefix) {
            readable.push(prefix.into());
        }
        Ok(Self { version: version.to_owned(), executable, readable: outermost(readable) })
    }
}

/// The paths that exist, without those that lie inside others.
fn outermost(mut paths: Vec<PathBuf>) -> Vec<PathBuf> {
    paths.retain(|path| {
        path.is_absolute() && path.exists() && !SHARED_PREFIXES.iter().any(|p| path == Path::new(p))
    });
    paths.sort();
    let mut kept: Vec<PathBuf> = Vec::new();
    for path in paths {
        // A link is kept as a link, so what lies "inside" it must be kept on its own.
        if !kept.iter().any(|outer| path.starts_with(outer) && !outer.is_symlink()) {
            kept.push(path);
        }
    }
    kept.dedup();
    kept
}
