//! The Jinja that chat templates are written for: Python's, as `transformers` configures it.
//!
//! minijinja runs the language. What this adds are the things around it that templates take for granted: block trimming,
//! the methods of Python's strings and dictionaries, `raise_exception`, `strftime_now`, the `{% generation %}` tag, a
//! `tojson` with the options and the spacing of Python's, and values printed as Python prints them (`True`, `None`,
//! `{'a': 1}`).

use std::io::{self, Write};
use std::time::SystemTime;

use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State, UndefinedBehavior, syntax::SyntaxConfig};
use serde::Serialize;
use serde_json::ser::{CharEscape, Formatter, Serializer};

use super::bounded::{self, Nested, Text};
use super::markup;

/// Steps of the template engine; a long conversation takes some hundred thousands.
const FUEL: u64 = 20_000_000;

/// Without an extension, so that nothing is escaped as HTML.
pub(super) const NAME: &str = "chat";

/// The variable that sets the clock, in seconds since 1970. No template would use a name like this.
pub(super) const CLOCK: &str = "__now";

/// A template in an environment of its own.
pub(super) fn compile(source: &str) -> Result<Environment<'static>, Error> {
    let mut environment = Environment::new();
    environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    environment.set_undefined_behavior(UndefinedBehavior::Lenient);
    environment.set_fuel(Some(FUEL));
    environment.set_formatter(|out, _, value| {
        bounded::check(value)?;
        out.write_str(&printed(value)).map_err(|_| Error::new(ErrorKind::WriteFailure, "cannot print"))
    });
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.add_function("raise_exception", |message: String| -> Result<Value, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, message))
    });
    environment.add_function("strftime_now", strftime_now);
    environment.add_filter("tojson", tojson);
    environment.add_filter("string", |value: &Value| {
        bounded::check(value)?;
        Ok::<_, Error>(printed(value))
    });
    for name in ["length", "count"] {
        environment.add_filter(name, length);
    }
    environment.add_test("iterable", |value: &Value| {
        !value.is_none() && (value.is_undefined() || value.try_iter().is_ok())
    });
    environment.add_test("sequence", |value: &Value| {
        matches!(value.kind(), ValueKind::Seq | ValueKind::Map | ValueKind::String | ValueKind::Undefined)
    });
    environment.add_filter("indent", indent);
    environment.add_function(markup::SUM, markup::sum);
    let source = without_generation_tags(source);
    environment.add_template_owned(NAME, markup::with_calls(source))?;
    Ok(environment)
}

/// `{% generation %}` marks what a trainer should learn from; for us it is a block like any other.
fn without_generation_tags(source: &str) -> String {
    let (mut out, mut rest) = (String::with_capacity(source.len()), source);
    while let Some(start) = rest.find("{%") {
        out.push_str(&rest[..start]);
        // Behind the opening: in `{%}` nothing is closed.
        let Some((inner, after)) = rest[start + 2..].split_once("%}") else {
            rest = &rest[start..];
            break;
        };
        let word = inner.trim_matches(|c: char| c.is_whitespace() || c == '-' || c == '+');
        let instead = match word {
            "generation" => "if true",
            "endgeneration" => "endif",
            _ => word,
        };
        out.push_str("{%");
        out.push_str(&inner.replace(word, instead));
        out.push_str("%}");
        rest = after;
    }
    out + rest
}

/// What is not there has no length to speak of.
fn length(value: &Value) -> Result<usize, Error> {
    if value.is_undefined() {
        return Ok(0);
    }
    value.len().ok_or_else(|| {
        Error::new(ErrorKind::InvalidOperation, format!("a value of type {} has no length", value.kind()))
    })
}

/// The date, in UTC so that it does not depend on the machine.
fn strftime_now(state: &State<'_, '_>, format: String) -> Result<String, Error> {
    let bad = |e: jiff::Error| Error::new(ErrorKind::InvalidOperation, e.to_string());
    let now = match state.lookup(CLOCK).and_then(|clock| clock.as_i64()) {
        Some(seconds) => jiff::Timestamp::from_second(seconds).map_err(bad)?,
        None => jiff::Timestamp::now(),
    };
    jiff::fmt::strtime::format(format, &now.to_zoned(jiff::tz::TimeZone::UTC)).map_err(bad)
}

/// A time as [`CLOCK`] has it.
pub(super) fn seconds(time: SystemTime) -> i64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    since.map_or_else(|before| -(before.duration().as_secs() as i64), |since| since.as_secs() as i64)
}

/// Jinja's `indent`: a line break at the end stays, and empty lines are left empty unless `blank` says otherwise.
fn indent(
    value: &Value,
    width: Option<Value>,
    first: Option<bool>,
    blank: Option<bool>,
    options: Kwargs,
) -> Result<Value, Error> {
    let refused = |why: &'static str| Error::new(ErrorKind::InvalidOperation, why);
    let text = value.as_str().ok_or_else(|| refused("indent: only a text has lines"))?;
    let width = width.or(options.get("width")?).unwrap_or_else(|| 4.into());
    let first = first.or(options.get("first")?).unwrap_or(false);
    let blank = blank.or(options.get("blank")?).unwrap_or(false);
    options.assert_all_used()?;
    let by = match (width.as_str(), width.as_usize()) {
        (Some(text), _) => text.to_owned(),
        (None, Some(spaces @ ..=1_024)) => " ".repeat(spaces),
        _ => return Err(refused("indent: a width is a text, or 1,024 at most")),
    };
    let mut out = Text::default();
    let mut write = || {
        for (at, line) in text.split('\n').enumerate() {
            if at > 0 {
                out.write_all(b"\n")?;
            }
            let indented = if at > 0 { blank || !line.is_empty() } else { first };
            if indented {
                out.write_all(by.as_bytes())?;
            }
            out.write_all(line.as_bytes())?;
        }
        Ok(())
    };
    let written: io::Result<()> = write();
    let out = out.finish(written.map_err(|e| Error::new(ErrorKind::WriteFailure, e.to_string())))?;
    Ok(if value.is_safe() { Value::from_safe_string(out) } else { out.into() })
}

/// Python's `json.dumps(value, ensure_ascii=False, …)`.
fn tojson(value: &Value, options: Kwargs) -> Result<String, Error> {
    let indent: Option<usize> = options.get("indent")?;
    let separators: Option<(String, String)> = match options.get::<Option<Vec<String>>>("separators")? {
        None => None,
        Some(two) => match <[String; 2]>::try_from(two) {
            Ok([item, key]) => Some((item, key)),
            Err(_) => {
                return Err(Error::new(ErrorKind::InvalidOperation, "tojson: separators are two texts"));
            }
        },
    };
    let sorted = options.get::<Option<bool>>("sort_keys")?.unwrap_or(false);
    let ascii = options.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false);
    options.assert_all_used()?;
    if indent.is_some_and(|width| width > 16) {
        return Err(Error::new(ErrorKind::InvalidOperation, "tojson: indent above 16"));
    }
    let (item, key) = separators.unwrap_or_else(|| {
        // Python leaves no space at the end of a line.
        (if indent.is_some() { "," } else { ", " }.to_owned(), ": ".to_owned())
    });
    let format = PythonJson { item, key, indent, ascii, depth: 0, filled: false };
    let mut text = Text::default();
    let written = Nested::new(value, sorted).serialize(&mut Serializer::with_formatter(&mut text, format));
    text.finish(written.map_err(|e| Error::new(ErrorKind::BadSerialization, e.to_string())))
}

/// JSON with Python's spacing and numbers.
struct PythonJson {
    /// Between items, and after a key.
    item: String,
    key: String,
    indent: Option<usize>,
    ascii: bool,
    depth: usize,
    /// Does the innermost list or object have something in it?
    filled: bool,
}

impl PythonJson {
    fn line<W: ?Sized + io::Write>(&self, writer: &mut W) -> io::Result<()> {
        match self.indent {
            Some(width) => write!(writer, "\n{:1$}", "", width * self.depth),
            None => Ok(()),
        }
    }

    fn open<W: ?Sized + io::Write>(&mut self, writer: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth += 1;
        self.filled = false;
        writer.write_all(bracket)
    }

    fn close<W: ?Sized + io::Write>(&mut self, writer: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth -= 1;
        if self.filled {
            self.line(writer)?;
        }
        self.filled = true;
        writer.write_all(bracket)
    }

    fn next<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if !first {
            writer.write_all(self.item.as_bytes())?;
        }
        self.filled = true;
        self.line(writer)
    }
}

impl Formatter for PythonJson {
    fn begin_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.open(writer, b"[")
    }

    fn end_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.close(writer, b"]")
    }

    fn begin_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.next(writer, first)
    }

    fn begin_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.open(writer, b"{")
    }

    fn end_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.close(writer, b"}")
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.next(writer, first)
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(self.key.as_bytes())
    }

    fn write_f64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        writer.write_all(python_float(value).as_bytes())
    }

    fn write_string_fragment<W: ?Sized + io::Write>(&mut self, writer: &mut W, text: &str) -> io::Result<()> {
        if !self.ascii {
            return writer.write_all(text.as_bytes());
        }
        for unit in text.chars() {
            match unit {
                '\0'..='\x7e' => writer.write_all(&[unit as u8])?,
                _ => {
                    for half in unit.encode_utf16(&mut [0; 2]) {
                        write!(writer, "\\u{half:04x}")?;
                    }
                }
            }
        }
        Ok(())
    }

    fn write_char_escape<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        escape: CharEscape,
    ) -> io::Result<()> {
        match escape {
            CharEscape::Quote => writer.write_all(b"\\\""),
            CharEscape::ReverseSolidus => writer.write_all(b"\\\\"),
            CharEscape::Solidus => writer.write_all(b"/"),
            CharEscape::Backspace => writer.write_all(b"\\b"),
            CharEscape::FormFeed => writer.write_all(b"\\f"),
            CharEscape::LineFeed => writer.write_all(b"\\n"),
            CharEscape::CarriageReturn => writer.write_all(b"\\r"),
            CharEscape::Tab => writer.write_all(b"\\t"),
            CharEscape::AsciiControl(byte) => write!(writer, "\\u{byte:04x}"),
        }
    }
}

/// A number as Python writes it: the shortest digits that read back the same, with an exponent where it is large or small.
fn python_float(x: f64) -> String {
    if x.is_nan() || x.is_infinite() {
        return if x.is_nan() {
            "nan"
        } else if x > 0.0 {
            "inf"
        } else {
            "-inf"
        }
        .to_owned();
    }
    let scientific = format!("{x:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    match exponent.parse::<i32>() {
        Ok(exponent) if x != 0.0 && !(-4..16).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.abs())
        }
        _ => format!("{x:?}"),
    }
}

/// What `{{ value }}` prints. The value must have passed [`bounded::check`].
fn printed(value: &Value) -> String {
    match value.kind() {
        ValueKind::String => value.as_str().map_or_else(|| value.to_string(), str::to_owned),
        ValueKind::Undefined => String::new(),
        _ => {
            let mut out = String::new();
            python_repr(value, &mut out);
            out
        }
    }
}

/// Python's `repr`, of the values that come up in templates.
fn python_repr(value: &Value, out: &mut String) {
    match value.kind() {
        ValueKind::None | ValueKind::Undefined => out.push_str("None"),
        ValueKind::Bool => out.push_str(if value.is_true() { "True" } else { "False" }),
        ValueKind::Number if !value.is_integer() => match f64::try_from(value.clone()) {
            Ok(x) => out.push_str(&python_float(x)),
            Err(_) => out.push_str(&value.to_string()),
        },
        ValueKind::String => quoted(value.as_str().unwrap_or_default(), out),
        ValueKind::Seq | ValueKind::Iterable if value.len().is_some() => {
            out.push('[');
            separated(value, out, |_, item, out| python_repr(item, out));
            out.push(']');
        }
        ValueKind::Map => {
            out.push('{');
            separated(value, out, |map, key, out| {
                python_repr(key, out);
                out.push_str(": ");
                python_repr(&map.get_item(key).unwrap_or_default(), out);
            });
            out.push('}');
        }
        _ => out.push_str(&value.to_string()),
    }
}

fn separated(value: &Value, out: &mut String, mut each: impl FnMut(&Value, &Value, &mut String)) {
    for (at, item) in value.try_iter().into_iter().flatten().enumerate() {
        if at > 0 {
            out.push_str(", ");
        }
        each(value, &item, out);
    }
}

/// A text in quotes: single ones, unless it has those and no double ones.
fn quoted(text: &str, out: &mut String) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => out.extend(['\\', c]),
            c if (c as u32) < 0x20 || c as u32 == 0x7f => out.push_str(&format!("\\x{:02x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push(quote);
}

/// A template's error on one line, without the engine's own vocabulary where the template raised it itself.
pub(super) fn describe(error: &Error) -> String {
    match (error.detail(), error.line()) {
        (Some(detail), Some(line)) => format!("{detail} (line {line})"),
        (Some(detail), None) => detail.to_owned(),
        (None, Some(line)) => format!("{} (line {line})", error.kind()),
        (None, None) => error.kind().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_python_writes_them() {
        for (x, expected) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (2.5, "2.5"),
            (1e-4, "0.0001"),
            (1e-5, "1e-05"),
            (1.5e-7, "1.5e-07"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (-1.25e100, "-1.25e+100"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(python_float(x), expected);
        }
    }

    #[test]
    fn generation_tags_become_plain_blocks() {
        for (source, expected) in [
            ("{% generation %}a{%- endgeneration -%}", "{% if true %}a{%- endif -%}"),
            ("{%-generation-%}{%endgeneration%}", "{%-if true-%}{%endif%}"),
            ("{% set generation = 1 %}{{ generation }}", "{% set generation = 1 %}{{ generation }}"),
            ("{% broken", "{% broken"),
            ("{%}", "{%}"),
            ("{%}a{% generation %}", "{%}a{% generation %}"),
            ("{%%}{% generation %}", "{%%}{% if true %}"),
        ] {
            assert_eq!(without_generation_tags(source), expected);
        }
    }
}
