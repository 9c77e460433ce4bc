//! The bytes of a model: a file mapped into memory, or part of the program.

use std::fs::File;
use std::ops::Deref;
use std::path::Path;

use memmap2::Mmap;

use super::LoadError;

#[derive(Debug)]
pub(super) enum Bytes {
    Mapped(Mmap),
    Static(&'static [u8]),
}

impl Bytes {
    pub(super) fn map(path: &Path) -> Result<Self, LoadError> {
        let io = |source| LoadError::Io { path: path.to_owned(), source };
        let file = File::open(path).map_err(io)?;
        if file.metadata().map_err(io)?.len() == 0 {
            return Ok(Self::Static(&[])); // an empty file cannot be mapped
        }
        // SAFETY: the mapping is private and read-only, and we only ever read plain bytes from it, of which
        // every value is valid. What remains is another process shrinking or rewriting the file while it is
        // open; as for every program that maps its weights, that is the user's to avoid.
        let map = unsafe { Mmap::map(&file) }.map_err(io)?;
        Ok(Self::Mapped(map))
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map,
            Self::Static(bytes) => bytes,
        }
    }
}
