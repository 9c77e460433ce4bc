//! The report as Markdown: the tables and the words, without pictures and trees.

use std::fmt::Write;

use crate::report::format::escape_markdown;
use crate::report::{Report, headline, provenance, tables};

pub fn document(report: &Report) -> String {
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
