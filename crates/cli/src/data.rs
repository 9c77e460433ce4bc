//! Where benchmark files are: too large, and not ours, to be part of the program.

use std::path::PathBuf;

use anyhow::Context;

/// Names the folder.
const VARIABLE: &str = "EAGER_DATA";

/// The folder that `EAGER_DATA` names, or else the user's data folder.
pub fn folder() -> anyhow::Result<PathBuf> {
    if let Some(folder) = std::env::var_os(VARIABLE).filter(|folder| !folder.is_empty()) {
        return Ok(folder.into());
    }
    let folder =
        dirs::data_dir().with_context(|| format!("there is no data folder here; name one in {VARIABLE}"))?;
    Ok(folder.join("eager"))
}

/// A file in it.
pub fn file(name: &str) -> anyhow::Result<PathBuf> {
    let path = folder()?.join(name);
    match path.is_file() {
        true => Ok(path),
        false => anyhow::bail!(
            "there is no {}; put it there, or name the folder that has it in {VARIABLE}",
            path.display()
        ),
    }
}
