//! The bytes of a model: a file mapped into memory, or part of the program.

use std::fs::File;
use std::ops::{Deref, Range};
use std::path::Path;

use memmap2::Mmap;

use super::LoadError;

#[derive(Debug)]
pub(super) enum Bytes {
    Mapped(Mmap),
    Static(&'static [u8]),
    #[cfg(fuzzing)]
    Owned(Vec<u8>),
}

impl Bytes {
    pub(super) fn map(path: &Path) -> Result<Self, LoadError> {
        let io = |source| LoadError::Io { path: path.to_owned(), source };
        let file = File::open(path).map_err(io)?;
        if file.metadata().map_err(io)?.len() == 0 {
            return Ok(Self::Static(&[])); // an empty file cannot be mapped
        }
        // SAFETY: we only read, and only plain bytes, of which every value is valid; every length was checked
        // against the length of the mapping, which does not change. But the mapping shares its pages with the
        // file: if another process rewrites the file, we read the new bytes, and if it shortens the file, reading
        // behind the new end kills this process (SIGBUS). A private mapping would promise no better. As for
        // every program that maps its weights, leaving the file alone while it is open is the user's part.
        let map = unsafe { Mmap::map(&file) }.map_err(io)?;
        Ok(Self::Mapped(map))
    }

    /// Takes some bytes out of this process's memory. Who reads them again waits for them again.
    pub(super) fn let_go(&self, range: Range<usize>) {
        #[cfg(unix)]
        if let Self::Mapped(map) = self
            && !range.is_empty()
        {
            // SAFETY: nothing was ever written to the mapping, so that reading a page again gives the same bytes.
            let advised = unsafe {
                map.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, range.start, range.len())
            };
            drop(advised); // a system that does not listen keeps them: slower, not wrong
        }
        #[cfg(not(unix))]
        let _ = range;
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map,
            Self::Static(bytes) => bytes,
            #[cfg(fuzzing)]
            Self::Owned(bytes) => bytes,
        }
    }
}
