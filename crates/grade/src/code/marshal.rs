//! Python's own format for plain data, written and read.
//!
//! The harness gets its inputs and returns its outputs in `marshal`'s version 2: the C code of the interpreter
//! reads and writes it as fast as data can be copied, and without references it is simple enough to be read by a
//! short parser that trusts nothing. Code objects and the like, which `marshal` can also hold, are refused.

/// Deeper nesting than any test has; a bound on the parser's stack.
const DEEPEST: usize = 128;

/// A plain Python value. Text and long numbers stay in the bytes they were read from.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value<'a> {
    None,
    Bool(bool),
    Int(i32),
    /// An integer beyond 32 bits: its sign, and its magnitude in digits of 15 bits, each two bytes, lowest first.
    Long {
        negative: bool,
        digits: &'a [u8],
    },
    Float(f64),
    Complex(f64, f64),
    /// UTF-8, but for surrogates, which Python allows.
    Text(&'a [u8]),
    Bytes(&'a [u8]),
    List(Vec<Value<'a>>),
    Tuple(Vec<Value<'a>>),
    /// A set or a frozen one: Python holds them equal.
    Set(Vec<Value<'a>>),
    Dict(Vec<(Value<'a>, Value<'a>)>),
}

impl Value<'_> {
    /// How many values this one consists of, itself included.
    pub fn parts(&self) -> usize {
        let below = match self {
            Self::List(items) | Self::Tuple(items) | Self::Set(items) => items.iter().map(Self::parts).sum(),
            Self::Dict(pairs) => pairs.iter().map(|(key, item)| key.parts() + item.parts()).sum(),
            _ => 0,
        };
        1 + below
    }
}

/// The value that these bytes are, if they are exactly one plain value.
pub(super) fn parse(bytes: &[u8]) -> Option<Value<'_>> {
    parse_within(bytes, usize::MAX)
}

/// The same, if it has no more parts than `parts`, itself included. A part may be one byte here and is several
/// times as long once read, so of bytes that nobody vouches for no more is read than could be of use.
pub(super) fn parse_within(bytes: &[u8], parts: usize) -> Option<Value<'_>> {
    let mut reader = Reader { rest: bytes, parts };
    let value = reader.value(0)?;
    reader.rest.is_empty().then_some(value)
}

struct Reader<'a> {
    rest: &'a [u8],
    /// How many more parts may be read.
    parts: usize,
}

impl<'a> Reader<'a> {
    fn value(&mut self, depth: usize) -> Option<Value<'a>> {
        let kind = self.take(1)?[0];
        self.value_of(kind, depth)
    }

    fn value_of(&mut self, kind: u8, depth: usize) -> Option<Value<'a>> {
        if depth > DEEPEST {
            return None;
        }
        self.parts = self.parts.checked_sub(1)?;
        Some(match kind {
            b'N' => Value::None,
            b'T' => Value::Bool(true),
            b'F' => Value::Bool(false),
            b'i' => Value::Int(self.int()?),
            b'l' => self.long()?,
            b'g' => Value::Float(self.float()?),
            b'y' => Value::Complex(self.float()?, self.float()?),
            b'u' | b't' => Value::Text(self.counted()?),
            b's' => Value::Bytes(self.counted()?),
            b'(' => Value::Tuple(self.items(depth)?),
            b'[' => Value::List(self.items(depth)?),
            b'<' | b'>' => Value::Set(self.items(depth)?),
            b'{' => Value::Dict(self.pairs(depth)?),
            _ => return None,
        })
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(taken)
    }

    fn int(&mut self) -> Option<i32> {
        Some(i32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    fn float(&mut self) -> Option<f64> {
        Some(f64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    fn long(&mut self) -> Option<Value<'a>> {
        let length = self.int()?;
        let digits = self.take((length.unsigned_abs() as usize).checked_mul(2)?)?;
        let valid = digits.chunks_exact(2).all(|digit| digit[1] < 0x80) && !digits.ends_with(&[0, 0]);
        valid.then_some(Value::Long { negative: length < 0, digits })
    }

    fn counted(&mut self) -> Option<&'a [u8]> {
        let length = self.int()?;
        self.take(usize::try_from(length).ok()?)
    }

    fn items(&mut self, depth: usize) -> Option<Vec<Value<'a>>> {
        let length = usize::try_from(self.int()?).ok()?;
        // Every item takes a byte at least: a length beyond that is a lie, and not worth an allocation.
        if length > self.rest.len() {
            return None;
        }
        (0..length).map(|_| self.value(depth + 1)).collect()
    }

    fn pairs(&mut self, depth: usize) -> Option<Vec<(Value<'a>, Value<'a>)>> {
        let mut pairs = Vec::new();
        loop {
            let kind = self.take(1)?[0];
            if kind == b'0' {
                return Some(pairs);
            }
            let key = self.value_of(kind, depth + 1)?;
            pairs.push((key, self.value(depth + 1)?));
        }
    }
}

/// Writes values one after another; a container is its header and then its parts.
#[derive(Debug, Default)]
pub(super) struct Writer(pub Vec<u8>);

impl Writer {
    fn counted(&mut self, kind: u8, length: usize) {
        self.0.push(kind);
        // Python's own limit. Nothing here comes near it: the whole data set is a few megabytes.
        self.0.extend(i32::try_from(length).unwrap_or(i32::MAX).to_le_bytes());
    }

    pub fn text(&mut self, text: &str) {
        self.counted(b'u', text.len());
        self.0.extend(text.as_bytes());
    }

    pub fn bool(&mut self, value: bool) {
        self.0.push(if value { b'T' } else { b'F' });
    }

    pub fn list(&mut self, length: usize) {
        self.counted(b'[', length);
    }

    pub fn tuple(&mut self, length: usize) {
        self.counted(b'(', length);
    }

    pub fn dict_start(&mut self) {
        self.0.push(b'{');
    }

    pub fn dict_end(&mut self) {
        self.0.push(b'0');
    }

    fn float(&mut self, value: f64) {
        self.0.push(b'g');
        self.0.extend(value.to_le_bytes());
    }

    /// A decimal integer of any length.
    fn integer(&mut self, decimal: &str) {
        if let Ok(small) = decimal.parse::<i32>() {
            self.0.push(b'i');
            self.0.extend(small.to_le_bytes());
            return;
        }
        let mut digits: Vec<u16> = Vec::new();
        for decimal in decimal.bytes().filter(u8::is_ascii_digit) {
            let mut carry = u32::from(decimal - b'0');
            for digit in &mut digits {
                carry += u32::from(*digit) * 10;
                *digit = (carry & 0x7fff) as u16;
                carry >>= 15;
            }
            if carry > 0 {
                digits.push(carry as u16);
            }
        }
        let length = digits.len() as i32;
        self.0.push(b'l');
        self.0.extend(if decimal.starts_with('-') { -length } else { length }.to_le_bytes());
        digits.iter().for_each(|digit| self.0.extend(digit.to_le_bytes()));
    }

    /// What Python's `json.loads` makes of valid JSON: integers of any size stay exact, and `1.0` is not `1`.
    pub fn json(&mut self, json: &serde_json::value::RawValue) -> Result<(), serde_json::Error> {
        use serde_json::value::RawValue;
        let text = json.get();
        match text.as_bytes().first() {
            Some(b'[') => {
                let items: Vec<&RawValue> = serde_json::from_str(text)?;
                self.list(items.len());
                items.into_iter().try_for_each(|item| self.json(item))?;
            }
            Some(b'{') => {
                let items: std::collections::BTreeMap<String, &RawValue> = serde_json::from_str(text)?;
                self.dict_start();
                for (key, item) in items {
                    self.text(&key);
                    self.json(item)?;
                }
                self.dict_end();
            }
            Some(b'"') => self.text(&serde_json::from_str::<String>(text)?),
            Some(b't') => self.bool(true),
            Some(b'f') => self.bool(false),
            Some(b'n') => self.0.push(b'N'),
            // Python reads what is too large as infinity, as Rust does.
            _ if text.contains(['.', 'e', 'E']) => self.float(text.parse().unwrap_or(f64::NAN)),
            _ => self.integer(text),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::value::RawValue;

    #[test]
    fn json_round_trip() {
        let json = r#"[null, true, false, 1, -2147483648, 2147483648, -1.5, 1e400, "é\n", {"a": []}]"#;
        let raw: Box<RawValue> = serde_json::from_str(json).unwrap();
        let mut writer = Writer::default();
        writer.json(&raw).unwrap();
        let expected = Value::List(vec![
            Value::None,
            Value::Bool(true),
            Value::Bool(false),
            Value::Int(1),
            Value::Int(i32::MIN),
            Value::Long { negative: false, digits: &[0, 0, 0, 0, 2, 0] },
            Value::Float(-1.5),
            Value::Float(f64::INFINITY),
            Value::Text("é\n".as_bytes()),
            Value::Dict(vec![(Value::Text(b"a"), Value::List(vec![]))]),
        ]);
        assert_eq!(parse(&writer.0), Some(expected));
    }

    #[test]
    fn what_is_not_one_plain_value_is_refused() {
        let deep = [b"(\x01\0\0\0".repeat(200), b"N".to_vec()].concat();
        let table: &[&[u8]] = &[
            b"",
            b"NN",
            b"c",
            b".",
            b"0",
            b"i\0\0",
            b"u\xff\xff\xff\x7f",
            b"u\xff\xff\xff\xff",
            b"[\xff\xff\xff\x7f",
            b"{N",
            b"{NN",
            b"l\x01\0\0\0\xff\xff",
            b"l\x01\0\0\0\0\0",
            &deep,
        ];
        for bytes in table {
            assert_eq!(parse(bytes), None, "{bytes:?}");
        }
    }

    #[test]
    fn no_more_is_read_than_could_be_of_use() {
        let three = b"[\x02\0\0\0NN";
        assert_eq!(parse(three).map(|value| value.parts()), Some(3));
        assert!(parse_within(three, 3).is_some());
        assert!(parse_within(three, 2).is_none());
    }
}
