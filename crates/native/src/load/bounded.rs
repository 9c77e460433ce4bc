//! Bounds on what a chat template may print, in depth and in size.
//!
//! A namespace can be made to contain itself (`{% set ns.a = ns %}`), and a list to contain the same list twice,
//! and that one another twice: printed naively, the first overflows the stack and the second fills the memory.

use std::io;

use minijinja::value::{Value, ValueKind};
use minijinja::{Error, ErrorKind};
use serde::ser::{Error as _, Serialize, SerializeMap, SerializeSeq, Serializer};

/// Lists in lists that are followed; serde_json reads no more than this either.
const DEPTH: usize = 128;

/// The longest text, in bytes: more than any context holds.
const LEN: usize = 16 << 20;

/// Parts of one value that are looked at before it is printed; each prints at least one byte.
const PARTS: usize = LEN;

const TOO_DEEP: &str = "it prints a value that is nested too deeply, or contains itself";
const TOO_LONG: &str = "it prints more than 16 MiB";

/// Text that refuses to grow too long.
#[derive(Default)]
pub(super) struct Text {
    bytes: Vec<u8>,
    overflowed: bool,
}

impl Text {
    /// The text, if all that was written is in it; `written` is what the writer thinks of that.
    pub(super) fn finish(self, written: Result<(), Error>) -> Result<String, Error> {
        if self.overflowed {
            return Err(Error::new(ErrorKind::InvalidOperation, TOO_LONG));
        }
        written?;
        String::from_utf8(self.bytes).map_err(|e| Error::new(ErrorKind::BadSerialization, e.to_string()))
    }
}

impl io::Write for Text {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > LEN - self.bytes.len() {
            self.overflowed = true;
            return Err(io::Error::other(TOO_LONG));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A value that fails to serialise where it is nested too deeply; its maps in the order of their keys, or as they are.
pub(super) struct Nested<'a> {
    value: &'a Value,
    depth: usize,
    sorted: bool,
}

impl<'a> Nested<'a> {
    pub(super) fn new(value: &'a Value, sorted: bool) -> Self {
        Self { value, depth: DEPTH, sorted }
    }
}

impl Serialize for Nested<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Self { value, depth, sorted } = *self;
        let kind = value.kind();
        if !matches!(kind, ValueKind::Map | ValueKind::Seq | ValueKind::Iterable) {
            return value.serialize(to);
        }
        let depth = depth.checked_sub(1).ok_or_else(|| S::Error::custom(TOO_DEEP))?;
        let items = value.try_iter().map_err(S::Error::custom)?;
        if kind == ValueKind::Map {
            let mut keys: Vec<Value> = items.collect();
            if sorted {
                keys.sort();
            }
            let mut map = to.serialize_map(value.len())?;
            for key in keys {
                let item = value.get_item(&key).map_err(S::Error::custom)?;
                map.serialize_entry(
                    &Nested { value: &key, depth, sorted },
                    &Nested { value: &item, depth, sorted },
                )?;
            }
            map.end()
        } else {
            let mut list = to.serialize_seq(value.len())?;
            for item in items {
                list.serialize_element(&Nested { value: &item, depth, sorted })?;
            }
            list.end()
        }
    }
}

/// Refuses a value that is too deep or too large to print.
pub(super) fn check(value: &Value) -> Result<(), Error> {
    let mut parts = PARTS;
    check_within(value, DEPTH, &mut parts)
        .map_err(|why| Error::new(ErrorKind::InvalidOperation, why.to_owned()))
}

fn check_within(value: &Value, depth: usize, parts: &mut usize) -> Result<(), &'static str> {
    *parts = parts.checked_sub(1).ok_or(TOO_LONG)?;
    let kind = value.kind();
    let printed_in_full = match kind {
        ValueKind::Map | ValueKind::Seq => true,
        ValueKind::Iterable => value.len().is_some(), // others print as `<iterator>`, and may work only once
        _ => false,
    };
    if !printed_in_full {
        return Ok(());
    }
    let depth = depth.checked_sub(1).ok_or(TOO_DEEP)?;
    let Ok(items) = value.try_iter() else { return Ok(()) };
    for item in items {
        if kind == ValueKind::Map
            && let Ok(below) = value.get_item(&item)
        {
            check_within(&below, depth, parts)?;
        }
        check_within(&item, depth, parts)?;
    }
    Ok(())
}
