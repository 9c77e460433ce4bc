//! Reading GGUF: a header of typed key/value pairs, a list of tensors, then their bytes.
//!
//! The reader walks a byte slice and believes nothing. A count or length in the file is compared with the
//! bytes that remain before it is used, arrays stay where they lie until someone asks for their elements, and
//! nothing is reserved ahead of reading. So the memory used is bounded by the length of the file, whatever its
//! header claims.

use std::collections::{BTreeMap, HashMap};

use super::{DType, Entry, LoadError, Tensor};

pub(super) const MAGIC: &[u8] = b"GGUF";

/// Nested arrays are legal, and no model has them; this deep we follow.
const MAX_DEPTH: usize = 4;

#[derive(Debug)]
pub(super) struct Gguf<'a> {
    pub file: &'a str,
    /// The file, and the other parts of a model that is split over several.
    parts: Vec<&'a [u8]>,
    metadata: BTreeMap<&'a str, Value<'a>>,
    pub tensors: HashMap<String, Entry>,
}

#[derive(Debug, Clone, Copy)]
enum Value<'a> {
    Int(i128),
    Float(f64),
    Bool(bool),
    Str(&'a [u8]),
    Array(Array<'a>),
}

#[derive(Debug, Clone, Copy)]
struct Array<'a> {
    kind: u32,
    len: usize,
    bytes: &'a [u8],
}

impl<'a> Gguf<'a> {
    pub fn parse(bytes: &'a [u8], file: &'a str) -> Result<Self, LoadError> {
        let mut reader = Reader { bytes, at: 0, file, inside: "its header".to_owned() };
        if reader.take(4)? != MAGIC {
            return Err(LoadError::malformed(file, "it does not start with \"GGUF\""));
        }
        match reader.u32()? {
            2 | 3 => {}
            version if matches!(version.swap_bytes(), 1..=3) => {
                return Err(LoadError::unsupported(file, "big-endian numbers"));
            }
            version => return Err(LoadError::unsupported(file, format!("GGUF version {version}"))),
        }
        let tensor_count = reader.u64()?;
        let metadata_count = reader.u64()?;

        let mut metadata = BTreeMap::new();
        for _ in 0..metadata_count {
            reader.inside = "its metadata".to_owned();
            let key = reader.utf8()?;
            reader.inside = format!("its key \"{}\"", shown(key));
            let kind = reader.u32()?;
            let value = reader.value(kind, 0)?;
            if metadata.insert(key, value).is_some() {
                return Err(LoadError::malformed(file, format!("the key \"{key}\" appears twice")));
            }
        }
        let mut gguf = Self { file, parts: vec![bytes], metadata, tensors: HashMap::new() };
        gguf.read_tensors(&mut reader, tensor_count)?;
        Ok(gguf)
    }

    fn read_tensors(&mut self, reader: &mut Reader<'a>, count: u64) -> Result<(), LoadError> {
        let alignment = self.usize("general.alignment")?.unwrap_or(32);
        if !alignment.is_power_of_two() || alignment > 1 << 16 {
            return Err(LoadError::malformed(self.file, format!("its alignment is {alignment}")));
        }
        let mut infos = Vec::new();
        for _ in 0..count {
            reader.inside = "its list of tensors".to_owned();
            infos.push(reader.tensor_info()?);
        }
        let data = reader.at.next_multiple_of(alignment);
        for info in infos {
            let name = info.name;
            reader.inside = format!("its tensor \"{}\"", shown(name));
            let entry = info.place(data, alignment, reader)?;
            if self.tensors.insert(name.to_owned(), entry).is_some() {
                return Err(LoadError::malformed(self.file, format!("the tensor \"{name}\" appears twice")));
            }
        }
        Ok(())
    }

    /// Takes over the tensors of the next part of a split model.
    pub fn join(&mut self, next: Gguf<'a>) -> Result<(), LoadError> {
        let part = self.parts.len();
        self.parts.extend(next.parts);
        for (name, entry) in next.tensors {
            if self.tensors.contains_key(&name) {
                let why = format!("the tensor \"{name}\" is in another part as well");
                return Err(LoadError::malformed(next.file, why));
            }
            self.tensors.insert(name, Entry { part, ..entry });
        }
        Ok(())
    }

    /// A tensor that is metadata in spirit, such as the rope factors; `None` if there is none.
    pub fn tensor(&self, name: &str) -> Result<Option<Tensor<'a>>, LoadError> {
        let Some(entry) = self.tensors.get(name) else { return Ok(None) };
        let dtype = entry.readable(self.file, name)?;
        let data = &self.parts[entry.part][entry.start..entry.end];
        Ok(Some(Tensor { dtype, shape: entry.shape.clone(), data }))
    }

    fn wrong(&self, key: &str, expected: &str) -> LoadError {
        LoadError::malformed(self.file, format!("\"{key}\" is not {expected}"))
    }

    pub fn usize(&self, key: &str) -> Result<Option<usize>, LoadError> {
        match self.metadata.get(key) {
            None => Ok(None),
            Some(Value::Int(n)) => usize::try_from(*n).map(Some).map_err(|_| self.wrong(key, "a size")),
            Some(_) => Err(self.wrong(key, "an integer")),
        }
    }

    pub fn token(&self, key: &str) -> Result<Option<u32>, LoadError> {
        match self.metadata.get(key) {
            None | Some(Value::Int(-1)) => Ok(None),
            Some(Value::Int(n)) => u32::try_from(*n).map(Some).map_err(|_| self.wrong(key, "a token")),
            Some(_) => Err(self.wrong(key, "a token")),
        }
    }

    pub fn f32(&self, key: &str) -> Result<Option<f32>, LoadError> {
        match self.metadata.get(key) {
            None => Ok(None),
            Some(Value::Float(x)) => Ok(Some(*x as f32)),
            Some(Value::Int(n)) => Ok(Some(*n as f32)),
            Some(_) => Err(self.wrong(key, "a number")),
        }
    }

    pub fn bool(&self, key: &str) -> Result<Option<bool>, LoadError> {
        match self.metadata.get(key) {
            None => Ok(None),
            Some(Value::Bool(b)) => Ok(Some(*b)),
            Some(_) => Err(self.wrong(key, "true or false")),
        }
    }

    pub fn str(&self, key: &str) -> Result<Option<&'a str>, LoadError> {
        match self.metadata.get(key) {
            None => Ok(None),
            Some(Value::Str(s)) => {
                std::str::from_utf8(s).map(Some).map_err(|_| self.wrong(key, "readable text"))
            }
            Some(_) => Err(self.wrong(key, "text")),
        }
    }

    fn array(&self, key: &str) -> Result<Option<(Reader<'a>, Array<'a>)>, LoadError> {
        match self.metadata.get(key) {
            None => Ok(None),
            Some(Value::Array(array)) => {
                let inside = format!("its key \"{key}\"");
                let reader = Reader { bytes: array.bytes, at: 0, file: self.file, inside };
                Ok(Some((reader, *array)))
            }
            Some(_) => Err(self.wrong(key, "a list")),
        }
    }

    pub fn strings(&self, key: &str) -> Result<Option<Vec<&'a str>>, LoadError> {
        match self.array(key)? {
            None => Ok(None),
            Some((mut reader, Array { kind: kind::STRING, len, .. })) => {
                (0..len).map(|_| reader.utf8()).collect::<Result<_, _>>().map(Some)
            }
            Some(_) => Err(self.wrong(key, "a list of texts")),
        }
    }

    pub fn ints(&self, key: &str) -> Result<Option<Vec<i128>>, LoadError> {
        self.list(key, "a list of integers", |value| match value {
            Value::Int(n) => Some(n),
            _ => None,
        })
    }

    pub fn floats(&self, key: &str) -> Result<Option<Vec<f32>>, LoadError> {
        self.list(key, "a list of numbers", |value| match value {
            Value::Float(x) => Some(x as f32),
            _ => None,
        })
    }

    fn list<T>(
        &self,
        key: &str,
        expected: &str,
        read: impl Fn(Value<'a>) -> Option<T>,
    ) -> Result<Option<Vec<T>>, LoadError> {
        let Some((mut reader, array)) = self.array(key)? else { return Ok(None) };
        let one = |_| read(reader.value(array.kind, 0)?).ok_or_else(|| self.wrong(key, expected));
        (0..array.len).map(one).collect::<Result<_, _>>().map(Some)
    }
}

/// The numbers that GGUF gives to the types of metadata values.
mod kind {
    pub const BOOL: u32 = 7;
    pub const STRING: u32 = 8;
    pub const ARRAY: u32 = 9;

    /// Bytes of a value of fixed size.
    pub fn size(kind: u32) -> Option<usize> {
        match kind {
            0 | 1 | BOOL => Some(1),
            2 | 3 => Some(2),
            4..=6 => Some(4),
            10..=12 => Some(8),
            _ => None,
        }
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    file: &'a str,
    /// What is being read, for the message when it ends too early.
    inside: String,
}

/// As much of a name as belongs into a message.
fn shown(name: &str) -> &str {
    name.char_indices().nth(80).map_or(name, |(end, _)| &name[..end])
}

impl<'a> Reader<'a> {
    fn truncated(&self) -> LoadError {
        LoadError::Truncated { file: self.file.to_owned(), inside: self.inside.clone() }
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], LoadError> {
        let rest = &self.bytes[self.at..];
        let taken = rest.get(..len).ok_or_else(|| self.truncated())?;
        self.at += len;
        Ok(taken)
    }

    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], LoadError> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N)?);
        Ok(out)
    }

    fn u32(&mut self) -> Result<u32, LoadError> {
        self.fixed().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, LoadError> {
        self.fixed().map(u64::from_le_bytes)
    }

    fn len(&mut self) -> Result<usize, LoadError> {
        let len = self.u64()?;
        // A length that does not fit in memory certainly does not fit in the file.
        usize::try_from(len).map_err(|_| self.truncated())
    }

    fn utf8(&mut self) -> Result<&'a str, LoadError> {
        let len = self.len()?;
        let text = self.take(len)?;
        std::str::from_utf8(text).map_err(|_| {
            LoadError::malformed(self.file, format!("{} contains text that is not UTF-8", self.inside))
        })
    }

    fn value(&mut self, kind: u32, depth: usize) -> Result<Value<'a>, LoadError> {
        Ok(match kind {
            0 => Value::Int(self.fixed().map(u8::from_le_bytes)?.into()),
            1 => Value::Int(self.fixed().map(i8::from_le_bytes)?.into()),
            2 => Value::Int(self.fixed().map(u16::from_le_bytes)?.into()),
            3 => Value::Int(self.fixed().map(i16::from_le_bytes)?.into()),
            4 => Value::Int(self.u32()?.into()),
            5 => Value::Int(self.fixed().map(i32::from_le_bytes)?.into()),
            6 => Value::Float(self.fixed().map(f32::from_le_bytes)?.into()),
            kind::BOOL => Value::Bool(self.fixed::<1>()? != [0]),
            kind::STRING => {
                let len = self.len()?;
                Value::Str(self.take(len)?)
            }
            kind::ARRAY => Value::Array(self.array(depth)?),
            10 => Value::Int(self.u64()?.into()),
            11 => Value::Int(self.fixed().map(i64::from_le_bytes)?.into()),
            12 => Value::Float(self.fixed().map(f64::from_le_bytes)?),
            _ => {
                let why = format!("{} has a value of unknown type {kind}", self.inside);
                return Err(LoadError::malformed(self.file, why));
            }
        })
    }

    /// Steps over an array and remembers where it was. Each element takes at least one byte of the file, so
    /// this ends no later than the file does.
    fn array(&mut self, depth: usize) -> Result<Array<'a>, LoadError> {
        if depth >= MAX_DEPTH {
            return Err(LoadError::malformed(self.file, format!("{} nests lists too deeply", self.inside)));
        }
        let kind = self.u32()?;
        let len = self.len()?;
        let start = self.at;
        match kind::size(kind) {
            Some(size) => {
                let total = len.checked_mul(size).ok_or_else(|| self.truncated())?;
                self.take(total)?;
            }
            None => {
                for _ in 0..len {
                    self.value(kind, depth + 1)?;
                }
            }
        }
        Ok(Array { kind, len, bytes: &self.bytes[start..self.at] })
    }

    fn tensor_info(&mut self) -> Result<TensorInfo<'a>, LoadError> {
        let name = self.utf8()?;
        self.inside = format!("what it says of the tensor \"{}\"", shown(name));
        let dims = self.u32()?;
        if !(1..=4).contains(&dims) {
            let why = format!("the tensor \"{name}\" has {dims} dimensions");
            return Err(LoadError::malformed(self.file, why));
        }
        let mut shape = Vec::new();
        for _ in 0..dims {
            shape.push(self.u64()?);
        }
        shape.reverse(); // the file has the length of a row first
        Ok(TensorInfo { name, shape, kind: self.u32()?, offset: self.u64()? })
    }
}

struct TensorInfo<'a> {
    name: &'a str,
    shape: Vec<u64>,
    kind: u32,
    offset: u64,
}

impl TensorInfo<'_> {
    /// Where the tensor lies in the file, once that is known to be inside it.
    fn place(self, data: usize, alignment: usize, reader: &Reader<'_>) -> Result<Entry, LoadError> {
        let name = self.name;
        let bad = |why: &str| LoadError::malformed(reader.file, format!("the tensor \"{name}\" {why}"));
        let shape: Vec<usize> = self
            .shape
            .iter()
            .map(|&n| usize::try_from(n).ok().filter(|&n| n > 0))
            .collect::<Option<_>>()
            .ok_or_else(|| bad("has an impossible shape"))?;
        let count = shape
            .iter()
            .try_fold(1usize, |product, &n| product.checked_mul(n))
            .ok_or_else(|| bad("has an impossible shape"))?;
        if !self.offset.is_multiple_of(alignment as u64) {
            return Err(bad("is not aligned"));
        }
        let start = usize::try_from(self.offset)
            .ok()
            .and_then(|offset| data.checked_add(offset))
            .ok_or_else(|| reader.truncated())?;
        let dtype = dtype(self.kind);
        let size = match &dtype {
            Err(_) => 0, // the type, and so the size, is unknown: it can be named but never read
            Ok(dtype) => {
                let cols = shape.last().copied().unwrap_or(1);
                if !cols.is_multiple_of(dtype.block_len()) {
                    return Err(bad("has rows that are not whole blocks"));
                }
                (count / dtype.block_len())
                    .checked_mul(dtype.block_bytes())
                    .ok_or_else(|| bad("has an impossible shape"))?
            }
        };
        let end = start.checked_add(size).filter(|&end| end <= reader.bytes.len());
        let end = end.ok_or_else(|| reader.truncated())?;
        Ok(Entry { dtype, shape, part: 0, start, end })
    }
}

/// The type behind ggml's number for it, or the name of one that we cannot read.
fn dtype(kind: u32) -> Result<DType, String> {
    Ok(match kind {
        0 => DType::F32,
        1 => DType::F16,
        2 => DType::Q4_0,
        3 => DType::Q4_1,
        6 => DType::Q5_0,
        7 => DType::Q5_1,
        8 => DType::Q8_0,
        10 => DType::Q2K,
        11 => DType::Q3K,
        12 => DType::Q4K,
        13 => DType::Q5K,
        14 => DType::Q6K,
        20 => DType::IQ4_NL,
        23 => DType::IQ4_XS,
        30 => DType::BF16,
        39 => DType::MXFP4,
        other => {
            const NAMES: [(u32, &str); 17] = [
                (9, "Q8_1"),
                (15, "Q8_K"),
                (16, "IQ2_XXS"),
                (17, "IQ2_XS"),
                (18, "IQ3_XXS"),
                (19, "IQ1_S"),
                (21, "IQ3_S"),
                (22, "IQ2_S"),
                (24, "I8"),
                (25, "I16"),
                (26, "I32"),
                (27, "I64"),
                (28, "F64"),
                (29, "IQ1_M"),
                (34, "TQ1_0"),
                (35, "TQ2_0"),
                (40, "NVFP4"),
            ];
            let name = NAMES.iter().find(|(kind, _)| *kind == other);
            return Err(
                name.map_or_else(|| format!("number {other} of ggml"), |(_, name)| (*name).to_owned())
            );
        }
    })
}
