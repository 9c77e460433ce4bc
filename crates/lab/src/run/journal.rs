//! A file of lines that only ever grows, and survives the death of its writer.
//!
//! A line is written whole and flushed to the disk before anything else happens. Whoever is killed in the middle leaves a
//! torn end without a line feed: readers pass over it, and the next writer cuts it off.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::RunError;

#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
    /// Where the last whole line ends.
    end: u64,
}

impl Journal {
    /// Opens it for appending, or creates it. A torn end is cut off.
    pub fn open(path: &Path) -> Result<Self, RunError> {
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(RunError::io("open", path))?;
        let end = whole_lines(&mut file).map_err(RunError::io("read", path))?;
        let length = file.metadata().map_err(RunError::io("read", path))?.len();
        // A file that is whole is not touched, not even its date.
        if end < length {
            file.set_len(end).map_err(RunError::io("repair", path))?;
        }
        file.seek(SeekFrom::Start(end)).map_err(RunError::io("read", path))?;
        Ok(Journal { file, path: path.to_owned(), end })
    }

    /// Adds a line and says where it begins. When this fails, as on a full disk, what was there before is still whole.
    pub fn append(&mut self, line: &impl Serialize) -> Result<u64, RunError> {
        let mut text = serde_json::to_vec(line)
            .map_err(|error| RunError::io("write", &self.path)(std::io::Error::other(error)))?;
        text.push(b'\n');
        let written = self.file.write_all(&text).and_then(|()| self.file.sync_data());
        if let Err(error) = written {
            // Readers would pass over half a line anyway; if it cannot be removed now, the next writer will.
            let _ = self.file.set_len(self.end);
            let _ = self.file.seek(SeekFrom::Start(self.end));
            return Err(RunError::io("write to", &self.path)(error));
        }
        let begins = self.end;
        self.end += text.len() as u64;
        Ok(begins)
    }
}

/// How many bytes of the file are whole lines.
fn whole_lines(file: &mut File) -> std::io::Result<u64> {
    const BLOCK: u64 = 1 << 16;
    let mut end = file.seek(SeekFrom::End(0))?;
    let mut block = Vec::new();
    while end > 0 {
        let start = end.saturating_sub(BLOCK);
        file.seek(SeekFrom::Start(start))?;
        block.clear();
        file.take(end - start).read_to_end(&mut block)?;
        if let Some(feed) = block.iter().rposition(|&byte| byte == b'\n') {
            return Ok(start + feed as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

/// The whole lines of a file, one at a time; a torn end is passed over. A file that is not there has none.
pub fn lines<T: DeserializeOwned>(
    path: &Path,
) -> Result<impl Iterator<Item = Result<T, RunError>> + use<T>, RunError> {
    Ok(lines_at(path)?.map(|line| line.map(|(_, line)| line)))
}

/// The same, each with the place where it begins.
pub fn lines_at<T: DeserializeOwned>(
    path: &Path,
) -> Result<impl Iterator<Item = Result<(u64, T), RunError>> + use<T>, RunError> {
    let file = match File::open(path) {
        Ok(file) => Some(BufReader::new(file)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return Err(RunError::io("open", path)(error)),
    };
    Ok(Lines {
        file,
        path: path.to_owned(),
        number: 0,
        begins: 0,
        text: Vec::new(),
        of: std::marker::PhantomData,
    })
}

/// The line that begins at a place that [`Journal::append`] or [`lines_at`] gave.
pub fn line_at<T: DeserializeOwned>(path: &Path, begins: u64) -> Result<T, RunError> {
    let mut text = Vec::new();
    let read = File::open(path).and_then(|mut file| {
        file.seek(SeekFrom::Start(begins))?;
        BufReader::new(file).read_until(b'\n', &mut text)
    });
    read.map_err(RunError::io("read", path))?;
    serde_json::from_slice(&text).map_err(|error| RunError::io("read", path)(error.into()))
}

struct Lines<T> {
    file: Option<BufReader<File>>,
    path: PathBuf,
    number: usize,
    begins: u64,
    text: Vec<u8>,
    of: std::marker::PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> Iterator for Lines<T> {
    type Item = Result<(u64, T), RunError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.begins += self.text.len() as u64;
        self.text.clear();
        self.number += 1;
        if let Err(error) = self.file.as_mut()?.read_until(b'\n', &mut self.text) {
            self.file = None;
            return Some(Err(RunError::io("read", &self.path)(error)));
        }
        if self.text.last() != Some(&b'\n') {
            self.file = None;
            return None;
        }
        let damaged = |error: serde_json::Error| RunError::Damaged {
            path: self.path.clone(),
            line: self.number,
            why: error.to_string(),
        };
        Some(serde_json::from_slice(&self.text).map(|line| (self.begins, line)).map_err(damaged))
    }
}

/// Puts a file in its place in one step: whoever reads sees the old one or the new one, never a part.
pub fn replace(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
) -> Result<(), RunError> {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let fresh = PathBuf::from(name);
    let written = File::create(&fresh).and_then(|file| {
        let mut out = std::io::BufWriter::new(file);
        write(&mut out)?;
        out.into_inner().map_err(std::io::IntoInnerError::into_error)?.sync_all()
    });
    written.and_then(|()| std::fs::rename(&fresh, path)).map_err(|error| {
        let _ = std::fs::remove_file(&fresh);
        RunError::io("write", path)(error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(path: &Path) -> Vec<String> {
        lines(path).unwrap().map(Result::unwrap).collect()
    }

    #[test]
    fn a_torn_end_is_passed_over_and_then_cut_off() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines");
        std::fs::write(&path, "\"a\"\n\"b\"\n\"c").unwrap();
        assert_eq!(read(&path), ["a", "b"]);
        let mut journal = Journal::open(&path).unwrap();
        journal.append(&"d").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "\"a\"\n\"b\"\n\"d\"\n");
    }

    #[test]
    fn a_damaged_line_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines");
        std::fs::write(&path, "\"a\"\n{\n\"c\"\n").unwrap();
        let found: Vec<Result<String, RunError>> = lines(&path).unwrap().collect();
        let Err(RunError::Damaged { line: 2, .. }) = &found[1] else { panic!("{found:?}") };
        assert!(found[2].is_ok());
    }

    #[test]
    fn what_is_not_there_has_no_lines() {
        let folder = tempfile::tempdir().unwrap();
        assert!(read(&folder.path().join("none")).is_empty());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_full_disk_is_told() {
        let mut journal = Journal {
            file: OpenOptions::new().write(true).open("/dev/full").unwrap(),
            path: "x".into(),
            end: 0,
        };
        let error = journal.append(&"a").unwrap_err().to_string();
        assert!(error.contains("cannot write to x"), "{error}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// Killed after any number of bytes: the lines that were whole are there, and the rest can be written again.
        #[test]
        fn any_cut_leaves_whole_lines(texts in prop::collection::vec(".{0,40}", 1..8), cut in 0.0..1.0f64) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("lines");
            let mut journal = Journal::open(&path).unwrap();
            for text in &texts {
                journal.append(text).unwrap();
            }
            let whole = std::fs::read(&path).unwrap();
            std::fs::write(&path, &whole[..(cut * whole.len() as f64) as usize]).unwrap();
            let mut journal = Journal::open(&path).unwrap();
            let kept = read(&path).len();
            prop_assert_eq!(&read(&path)[..], &texts[..kept]);
            for text in &texts[kept..] {
                journal.append(text).unwrap();
            }
            prop_assert_eq!(std::fs::read(&path).unwrap(), whole);
        }
    }
}
