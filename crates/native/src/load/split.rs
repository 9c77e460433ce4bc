//! One GGUF in several files, as large models are published: `name-00001-of-00003.gguf` and so on.
//!
//! Each part is a GGUF of its own that knows how many there are and which it is; the first has the metadata. Whichever
//! part is named, all are opened, and a part that is missing or belongs to another model is told by its name.

use std::path::{Path, PathBuf};

use super::LoadError;
use super::bytes::Bytes;
use super::gguf::Gguf;

/// A file of a model: its bytes, and its name for errors.
pub(super) type Part = (Bytes, String);

/// The parts of the model that a mapped file belongs to, in order; mostly the file alone.
pub(super) fn parts(path: &Path, bytes: Bytes) -> Result<Vec<Part>, LoadError> {
    let file = path.display().to_string();
    if count(&Gguf::parse(&bytes, &file)?)? <= 1 {
        return Ok(vec![(bytes, file)]);
    }
    let paths = siblings(path).ok_or_else(|| {
        let what = "the other parts of its model, but its name does not tell theirs; name the parts \
                    \"model-00001-of-00002.gguf\" and so on";
        LoadError::malformed(&file, format!("it needs {what}"))
    })?;
    let mut parts = Vec::new();
    for path in paths {
        if !path.is_file() {
            let why = format!("{} is missing; download all parts of the model", path.display());
            return Err(LoadError::malformed(&file, why));
        }
        parts.push((Bytes::map(&path)?, path.display().to_string()));
    }
    Ok(parts)
}

/// All parts as one file, once they agree on what they are parts of.
pub(super) fn parse(parts: &[Part]) -> Result<Gguf<'_>, LoadError> {
    let mut whole: Option<Gguf<'_>> = None;
    for (at, (bytes, file)) in parts.iter().enumerate() {
        let part = Gguf::parse(bytes, file)?;
        let (number, count) = (part.usize("split.no")?.unwrap_or(0), count(&part)?);
        if (number, count) != (at, parts.len()) {
            let why = format!(
                "it says that it is part {} of {count}, but its place is {} of {}",
                number.saturating_add(1),
                at + 1,
                parts.len()
            );
            return Err(LoadError::malformed(file, why));
        }
        match &mut whole {
            None => whole = Some(part),
            Some(whole) => whole.join(part)?,
        }
    }
    let whole = whole.ok_or_else(|| LoadError::malformed("the model", "it has no parts"))?;
    match whole.usize("split.tensors.count")? {
        Some(expected) if parts.len() > 1 && expected != whole.tensors.len() => {
            let why = format!("its parts have {} tensors, but it speaks of {expected}", whole.tensors.len());
            Err(LoadError::malformed(whole.file, why))
        }
        _ => Ok(whole),
    }
}

/// How many parts there are; a file that does not say is whole.
fn count(gguf: &Gguf<'_>) -> Result<usize, LoadError> {
    Ok(gguf.usize("split.count")?.unwrap_or(1).max(1))
}

/// The names of all parts, from the name of one.
fn siblings(path: &Path) -> Option<Vec<PathBuf>> {
    let (base, count) = base_name(path.file_stem()?.to_str()?)?;
    Some((1..=count).map(|n| path.with_file_name(format!("{base}-{n:05}-of-{count:05}.gguf"))).collect())
}

/// The name without its number, and how many parts it tells of.
pub(super) fn base_name(stem: &str) -> Option<(&str, usize)> {
    let five = |digits: &str| digits.len() == 5 && digits.bytes().all(|b| b.is_ascii_digit());
    let (rest, count) = stem.rsplit_once("-of-").filter(|(_, count)| five(count))?;
    let (base, _) = rest.rsplit_once('-').filter(|(_, number)| five(number))?;
    Some((base, count.parse().ok()?))
}
