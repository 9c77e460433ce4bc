//! The look of all tables: lines between rows, names on the left, figures on the right, and never wider than what they are
//! printed on.
//!
//! A table that is too wide loses the columns that its command can spare most, and says so below. What is still too wide is
//! wrapped within its columns.

use std::fmt;

use comfy_table::{CellAlignment, ContentArrangement, presets};

/// What is taken for the width of a file or a pipe.
const PIPE: usize = 120;
/// Fewer columns than this hold no table.
const LEAST: usize = 40;

/// The width to print for: what `COLUMNS` says, or else the terminal's.
pub fn width() -> usize {
    let said = std::env::var("COLUMNS").ok().and_then(|columns| columns.trim().parse::<usize>().ok());
    let terminal = || console::Term::stdout().size_checked().map(|(_, columns)| usize::from(columns));
    said.or_else(terminal).filter(|&columns| columns > 0).unwrap_or(PIPE).max(LEAST)
}

/// A list of names and what belongs to them, without lines. What is too long is wrapped.
pub fn new_list() -> comfy_table::Table {
    let mut list = comfy_table::Table::new();
    list.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    list.set_width(columns(width()));
    list
}

/// The lines of a list without the blanks around it.
pub fn list_lines(list: &comfy_table::Table) -> String {
    let bare = |line: String| line.strip_prefix(' ').unwrap_or(&line).trim_end().to_owned();
    list.lines().map(bare).collect::<Vec<_>>().join("\n")
}

/// A width as the crate that draws wants it.
fn columns(width: usize) -> u16 {
    u16::try_from(width).unwrap_or(u16::MAX)
}

#[derive(Debug, Clone, Default)]
pub struct Table {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
    /// Names of columns that may be left out, the first of them first.
    spare: Vec<&'static str>,
}

impl Table {
    pub fn new(header: &[&str]) -> Self {
        Table { header: header.iter().map(|&name| name.to_owned()).collect(), ..Table::default() }
    }

    /// Where there is no room for all columns, these go, the first of them first.
    pub fn sparing(mut self, columns: &[&'static str]) -> Self {
        self.spare = columns.to_vec();
        self
    }

    pub fn add_row<T: Into<String>>(&mut self, row: impl IntoIterator<Item = T>) {
        self.rows.push(row.into_iter().map(Into::into).collect());
    }

    /// The table in at most this many columns of a terminal.
    fn draw(&self, width: usize) -> String {
        let mut left_out: Vec<&str> = Vec::new();
        let mut spare = self.spare.iter().filter(|name| self.header.iter().any(|h| h == *name));
        let mut drawn = self.without(&left_out);
        while wide(&drawn) > width {
            match spare.next() {
                Some(name) => left_out.push(name),
                None => {
                    drawn.set_content_arrangement(ContentArrangement::Dynamic).set_width(columns(width));
                    break;
                }
            }
            drawn = self.without(&left_out);
        }
        if left_out.is_empty() {
            return drawn.to_string();
        }
        // In the order in which a reader would miss them.
        let names = self.header.iter().map(String::as_str).filter(|name| left_out.contains(name));
        let names = names.collect::<Vec<_>>().join(", ");
        let mut out = drawn.to_string();
        for line in fill(&format!("No room for {names}; a wider terminal or --json has all."), width) {
            out.push('\n');
            out.push_str(&line);
        }
        out
    }

    fn without(&self, left_out: &[&str]) -> comfy_table::Table {
        let kept = |cells: &[String]| -> Vec<String> {
            let named = cells.iter().zip(&self.header);
            named
                .filter(|(_, name)| !left_out.contains(&name.as_str()))
                .map(|(cell, _)| cell.clone())
                .collect()
        };
        let mut table = comfy_table::Table::new();
        table.load_style(presets::UTF8_HORIZONTAL_ONLY).set_header(kept(&self.header));
        for row in &self.rows {
            table.add_row(kept(row));
        }
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        table
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.draw(width()))
    }
}

fn wide(table: &comfy_table::Table) -> usize {
    table.lines().map(|line| line.chars().count()).max().unwrap_or(0)
}

/// A sentence in lines of at most this many characters; a longer word has a line of its own.
pub fn fill(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table =
            Table::new(&["method", "pass@k", "tokens", "seconds"]).sparing(&["seconds", "none", "tokens"]);
        table.add_row(["full-parallel", "0.983\n0.950-0.991", "160173", "2.7"]);
        table.add_row(["eager-adapt/regrow", "0.961\n0.930-0.980", "80669", "1.9"]);
        table
    }

    #[test]
    fn no_line_is_wider_than_what_it_is_printed_on() {
        for width in LEAST..130 {
            let drawn = table().draw(width);
            let widest = drawn.lines().map(|line| line.chars().count()).max().unwrap();
            assert!(widest <= width, "{widest} in {width}:\n{drawn}");
            assert!(drawn.contains("full-parallel") && drawn.contains("0.983"), "{drawn}");
        }
    }

    #[test]
    fn what_can_be_spared_most_goes_first_and_is_named() {
        let all = table().draw(120);
        assert!(all.contains("seconds") && !all.contains("No room"), "{all}");
        let some = table().draw(50);
        assert!(some.contains("160173") && some.contains("No room for seconds;"), "{some}");
        let few = table().draw(42);
        assert!(!few.contains("160173") && few.contains("No room for tokens, seconds;"), "{few}");
    }

    #[test]
    fn sentences_are_broken_between_words() {
        assert_eq!(fill("one two three", 7), ["one two", "three"]);
        assert_eq!(fill("", 7), Vec::<String>::new());
    }
}
