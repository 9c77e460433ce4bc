//! A table, and its two forms. What it says is settled before it is drawn, so HTML and Markdown cannot disagree.

use std::fmt::Write;

use crate::report::format::{self, escape, escape_markdown};
use crate::statistics::Estimate;

#[derive(Debug, Clone, Default)]
pub struct Table {
    pub title: String,
    /// A sentence or two below it.
    pub note: String,
    /// Headings over several columns: text and how many. Empty, or all columns together.
    pub groups: Vec<(String, usize)>,
    pub columns: Vec<Column>,
    pub rows: Vec<Row>,
    /// May a reader sort it by a column? Not where rows belong together.
    pub sortable: bool,
}

#[derive(Debug, Clone)]
pub struct Column {
    pub name: String,
    /// What it means, in a few words.
    pub meaning: &'static str,
    /// Which end of it is good, for marking the best.
    pub better: Option<Better>,
    /// Words stand left, numbers right.
    pub words: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    More,
    Less,
}

#[derive(Debug, Clone, Default)]
pub struct Row {
    pub entries: Vec<Entry>,
    /// A heading across the whole table instead of entries.
    pub heading: Option<String>,
}

/// What stands in one place.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Entry {
    pub text: String,
    pub interval: Option<String>,
    /// The paper's number for the same cell.
    pub quoted: Option<String>,
    pub value: Option<f64>,
    pub best: bool,
    /// The CSS variable of a method's colour.
    pub colour: Option<&'static str>,
}

impl Column {
    pub fn words(name: &str, meaning: &'static str) -> Self {
        Column { name: name.to_owned(), meaning, better: None, words: true }
    }

    pub fn number(name: &str, meaning: &'static str, better: Option<Better>) -> Self {
        Column { name: name.to_owned(), meaning, better, words: false }
    }
}

impl Entry {
    pub fn words(text: impl Into<String>) -> Self {
        Entry { text: text.into(), ..Entry::default() }
    }

    /// Nothing is known here.
    pub fn none() -> Self {
        Entry::words("\u{2013}")
    }

    pub fn coloured(mut self, colour: &'static str) -> Self {
        self.colour = Some(colour);
        self
    }

    pub fn number(value: f64, form: fn(f64) -> String) -> Self {
        Entry { text: form(value), value: Some(value), ..Entry::default() }
    }

    pub fn estimate(estimate: Option<Estimate>, form: fn(f64) -> String) -> Self {
        match estimate {
            Some(e) => Entry { interval: format::interval(&e, form), ..Entry::number(e.value, form) },
            None => Entry::none(),
        }
    }

    pub fn quoting(mut self, quoted: Option<f64>, form: fn(f64) -> String) -> Self {
        self.quoted = quoted.map(form);
        self
    }
}

impl Row {
    pub fn heading(text: impl Into<String>) -> Self {
        Row { entries: Vec::new(), heading: Some(text.into()) }
    }

    pub fn of(entries: Vec<Entry>) -> Self {
        Row { entries, heading: None }
    }
}

impl Table {
    /// Marks the best of each column, between headings: what reads the same as the best is marked too. A column in which
    /// all is the same has no best.
    pub fn mark_best(mut self) -> Self {
        let columns = self.columns.iter().enumerate();
        let judged: Vec<(usize, Better)> = columns.filter_map(|(at, c)| Some((at, c.better?))).collect();
        for section in self.rows.split_mut(|r| r.heading.is_some()) {
            for &(at, better) in &judged {
                mark(section.iter_mut().filter_map(|r| r.entries.get_mut(at)).collect(), better);
            }
        }
        self
    }

    pub fn html(&self) -> String {
        let mut out = String::new();
        let sortable = if self.sortable { " class=\"sortable\"" } else { "" };
        out.push_str("<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"");
        let title = escape(&self.title);
        let _ =
            write!(out, "{title}\"><table{sortable}>\n<caption><span>{title}</span></caption>\n<thead>\n");
        if !self.groups.is_empty() {
            out.push_str("<tr>");
            for (name, span) in &self.groups {
                let _ = write!(
                    out,
                    "<th colspan=\"{span}\" scope=\"colgroup\" class=\"group\">{}</th>",
                    escape(name)
                );
            }
            out.push_str("</tr>\n");
        }
        out.push_str("<tr>");
        for (at, column) in self.columns.iter().enumerate() {
            let (class, name) = (self.class(at), escape(&column.name));
            let _ = write!(out, "<th scope=\"col\"{class} title=\"{}\">{name}</th>", escape(column.meaning));
        }
        out.push_str("</tr>\n</thead>\n<tbody>\n");
        for row in &self.rows {
            self.row_html(&mut out, row);
        }
        out.push_str("</tbody>\n</table></div>\n");
        if !self.note.is_empty() {
            let _ = writeln!(out, "<p class=\"note\">{}</p>", escape(&self.note));
        }
        out
    }

    fn class(&self, at: usize) -> String {
        let mut begins = 0;
        let opens_group = self.groups.iter().any(|(_, span)| {
            let here = begins == at && at > 0;
            begins += span;
            here
        });
        match (self.columns[at].words, opens_group) {
            (true, false) => " class=\"words\"".to_owned(),
            (true, true) => " class=\"words opens\"".to_owned(),
            (false, true) => " class=\"opens\"".to_owned(),
            (false, false) => String::new(),
        }
    }

    fn row_html(&self, out: &mut String, row: &Row) {
        if let Some(heading) = &row.heading {
            let span = self.columns.len();
            let _ = writeln!(
                out,
                "<tr class=\"heading\"><th colspan=\"{span}\" scope=\"rowgroup\"><span>{}</span></th></tr>",
                escape(heading)
            );
            return;
        }
        out.push_str("<tr>");
        for (at, entry) in row.entries.iter().enumerate() {
            let tag = if at == 0 { "th scope=\"row\"" } else { "td" };
            let _ = write!(out, "<{tag}{}", self.class(at));
            if let Some(value) = entry.value {
                let _ = write!(out, " data-value=\"{value}\"");
            }
            out.push('>');
            if let Some(colour) = entry.colour {
                let _ = write!(out, "<i class=\"swatch\" style=\"background:var({colour})\"></i>");
            }
            let text = escape(&entry.text);
            out.push_str(&if entry.best { format!("<b>{text}</b>") } else { text });
            if let Some(interval) = &entry.interval {
                let _ = write!(out, "<small>{}</small>", escape(interval));
            }
            if let Some(quoted) = &entry.quoted {
                let _ = write!(out, "<q title=\"quoted from the paper\">{}</q>", escape(quoted));
            }
            out.push_str(if at == 0 { "</th>" } else { "</td>" });
        }
        out.push_str("</tr>\n");
    }

    pub fn markdown(&self) -> String {
        let mut out = format!("### {}\n\n|", escape_markdown(&self.title));
        for name in self.flat_names() {
            let _ = write!(out, " {} |", escape_markdown(&name));
        }
        out.push_str("\n|");
        for column in &self.columns {
            out.push_str(if column.words { "---|" } else { "---:|" });
        }
        out.push('\n');
        for row in &self.rows {
            out.push('|');
            if let Some(heading) = &row.heading {
                let _ =
                    write!(out, " **{}** |{}", escape_markdown(heading), " |".repeat(self.columns.len() - 1));
            }
            for entry in &row.entries {
                let _ = write!(out, " {} |", entry.markdown());
            }
            out.push('\n');
        }
        out.push('\n');
        if !self.note.is_empty() {
            let _ = writeln!(out, "{}\n", escape_markdown(&self.note));
        }
        out
    }

    /// Markdown has one line of headings: a group's name goes before each of its columns'.
    fn flat_names(&self) -> Vec<String> {
        let mut over = self.groups.iter().flat_map(|(name, span)| std::iter::repeat_n(name.as_str(), *span));
        let name = |column: &Column| match over.next().unwrap_or_default() {
            "" => column.name.clone(),
            group => format!("{group}: {}", column.name),
        };
        self.columns.iter().map(name).collect()
    }
}

impl Entry {
    fn markdown(&self) -> String {
        let text = escape_markdown(&self.text);
        let mut out = if self.best { format!("**{text}**") } else { text };
        if let Some(interval) = &self.interval {
            let _ = write!(out, " ({})", escape_markdown(interval));
        }
        if let Some(quoted) = &self.quoted {
            let _ = write!(out, " *paper: {}*", escape_markdown(quoted));
        }
        out
    }
}

fn mark(mut entries: Vec<&mut Entry>, better: Better) {
    let values = entries.iter().filter_map(|e| e.value);
    let best = match better {
        Better::More => values.max_by(f64::total_cmp),
        Better::Less => values.min_by(f64::total_cmp),
    };
    let Some(best) = best else { return };
    let text = entries.iter().find(|e| e.value == Some(best)).map(|e| e.text.clone()).unwrap_or_default();
    if entries.iter().filter(|e| e.value.is_some()).all(|e| e.text == text) {
        return;
    }
    for entry in &mut entries {
        entry.best = entry.value.is_some() && entry.text == text;
    }
}
