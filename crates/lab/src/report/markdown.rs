//! The report as Markdown: the words, the tables, and pictures in files of their own. Trees are left to the page.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::report::figures::{self, Figure};
use crate::report::format::escape_markdown;
use crate::report::{Report, headline, names, provenance, tables};

/// A picture and the name of its file.
#[derive(Debug)]
pub struct Illustration {
    /// Says what it shows, so that the same picture of a later report takes its place.
    pub file: String,
    figure: Figure,
}

impl Illustration {
    pub fn svg(&self) -> String {
        self.figure.picture.alone(&self.figure.legend)
    }
}

/// All pictures of a report.
pub fn illustrations(report: &Report) -> Vec<Illustration> {
    let mut figures = figures::all(report);
    for (at, subject) in report.subjects().iter().enumerate() {
        let place = format!("{} on {}", subject.model, names::suite(&subject.suite));
        let titled = |figure: Figure| Figure {
            title: format!("Sequences of each problem, {place}, {}", figure.title),
            caption: "Solid: sequences that are right. Pale: those that are not.".to_owned(),
            ..figure
        };
        figures.extend(figures::problems(report, at).into_iter().map(titled));
    }
    let mut taken = BTreeSet::new();
    let illustration = |figure: Figure| {
        let name = file_name(&figure.title);
        let numbered = (2..).map(|n| format!("{name}-{n}"));
        let free = std::iter::once(name.clone()).chain(numbered).find(|name| taken.insert(name.clone()));
        // There is always another number.
        Illustration { file: format!("{}.svg", free.unwrap_or(name)), figure }
    };
    figures.into_iter().map(illustration).collect()
}

/// A title in the letters that every file system takes.
fn file_name(title: &str) -> String {
    let spelled = title.replace('\u{3b8}', "theta").to_lowercase();
    let words = spelled.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let name = words.collect::<Vec<_>>().join("-");
    // Names of models may be long, and those of files may not.
    name.chars().take(100).collect()
}

/// `folder` is where the pictures are, as seen from the document.
pub fn document(report: &Report, folder: &str) -> String {
    let mut out = String::from("# Report\n\n");
    for (name, what) in headline::inventory(report) {
        let _ = writeln!(out, "- {name}: {}", escape_markdown(&what));
    }
    out.push('\n');
    for sentence in report.headline() {
        let _ = writeln!(out, "{}\n", escape_markdown(&sentence));
    }
    for warning in report.warnings() {
        let _ = writeln!(out, "> **Note.** {}\n", escape_markdown(&warning));
    }
    out.push_str("## Tables\n\n");
    for table in report.tables().iter().chain(&tables::every_setting(report)) {
        out.push_str(&table.markdown());
    }
    let pictures = illustrations(report);
    if !pictures.is_empty() {
        out.push_str("## Figures\n\n");
    }
    for Illustration { file, figure } in &pictures {
        let title = escape_markdown(&figure.title);
        // Angle brackets let the folder have any name.
        let _ = writeln!(out, "### {title}\n\n![{title}](<{folder}/{file}>)\n");
        if !figure.caption.is_empty() {
            let _ = writeln!(out, "{}\n", escape_markdown(&figure.caption));
        }
    }
    out.push_str("## Definitions\n\n");
    for (name, meaning) in provenance::definitions(report) {
        let _ = writeln!(out, "- **{name}**: {}", escape_markdown(&meaning));
    }
    out.push_str("\n## Runs\n\n");
    for run in report.runs {
        // Indented, a command needs no escaping.
        let command = provenance::command(&run.manifest).replace(['\n', '\r'], " ");
        let _ = writeln!(out, "- {}\n\n      {command}\n", escape_markdown(&provenance::origin(run)));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_make_names_of_files() {
        for (title, name) in [
            ("pass@k by \u{3b8}, acorn on acorn", "pass-k-by-theta-acorn-on-acorn"),
            ("Tokens by method, ../Qwen3 (4B)", "tokens-by-method-qwen3-4b"),
            ("\u{4f60}", ""),
        ] {
            assert_eq!(file_name(title), name);
        }
        assert_eq!(file_name(&"long ".repeat(90)).len(), 100);
    }
}
