//! The report as one page that needs nothing else: no network, no fonts, no libraries.
//!
//! The markup is well-formed XML as well as HTML, so that a test can parse it strictly.

use std::fmt::Write;

use crate::report::figures::{self, Figure};
use crate::report::format::{escape, plural};
use crate::report::{Report, headline, names, provenance, tables, trees};

const STYLE: &str = include_str!("assets/report.css");
const SCRIPT: &str = include_str!("assets/report.js");
/// Whatever gets into the page, it can load nothing and send nothing.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

pub fn page(report: &Report) -> String {
    let (data, left) = trees::data(report);
    let mut out = String::new();
    let _ = write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{}\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <meta name=\"color-scheme\" content=\"light dark\"/>\n<title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n",
        escape(POLICY),
        escape(&title(report))
    );
    header(&mut out, report);
    out.push_str("<main>\n");
    tables_section(&mut out, report);
    figures_section(&mut out, report);
    problems_section(&mut out, report, left);
    notes_section(&mut out, report);
    out.push_str("</main>\n");
    let _ =
        writeln!(out, "<script type=\"application/json\" id=\"data\">{}</script>", trees::embedded(&data));
    let _ = write!(out, "<script>\n//<![CDATA[\n{SCRIPT}//]]>\n</script>\n</body>\n</html>\n");
    out
}

fn title(report: &Report) -> String {
    match report.subjects() {
        [one] => format!("eager: {} on {}", one.model, names::suite(&one.suite)),
        many => format!("eager: a comparison of {}", plural(many.len(), "setting")),
    }
}

fn header(out: &mut String, report: &Report) {
    let _ = writeln!(out, "<header>\n<h1>{}</h1>", escape(&title(report)));
    for sentence in report.headline() {
        let _ = writeln!(out, "<p class=\"lead\">{}</p>", escape(&sentence));
    }
    out.push_str("<dl class=\"inventory\">\n");
    for (name, what) in headline::inventory(report) {
        let _ = writeln!(out, "<div><dt>{}</dt><dd>{}</dd></div>", escape(name), escape(&what));
    }
    out.push_str("</dl>\n");
    let warnings = report.warnings();
    if !warnings.is_empty() {
        out.push_str("<ul class=\"warnings\" aria-label=\"Warnings\">\n");
        for warning in warnings {
            let _ = writeln!(out, "<li>{}</li>", escape(&warning));
        }
        out.push_str("</ul>\n");
    }
    out.push_str(
        "<nav aria-label=\"Sections\"><a href=\"#tables\">Tables</a> <a href=\"#figures\">Figures</a> \
         <a href=\"#problems\">Problems</a> <a href=\"#notes\">Notes</a></nav>\n</header>\n",
    );
}

fn tables_section(out: &mut String, report: &Report) {
    out.push_str("<section id=\"tables\">\n<h2>Tables</h2>\n");
    for table in report.tables() {
        out.push_str(&table.html());
    }
    if let Some(every) = tables::every_setting(report) {
        let _ = writeln!(out, "<details><summary>Every setting ({} lines)</summary>", every.rows.len());
        out.push_str(&every.html());
        out.push_str("</details>\n");
    }
    out.push_str("</section>\n");
}

fn figures_section(out: &mut String, report: &Report) {
    let all = figures::all(report);
    out.push_str("<section id=\"figures\">\n<h2>Figures</h2>\n");
    if all.is_empty() {
        out.push_str("<p>There is nothing to draw yet.</p>\n");
    }
    out.push_str("<div class=\"figures\">\n");
    for figure in &all {
        figure_html(out, figure);
    }
    out.push_str("</div>\n");
    for (at, subject) in report.subjects().iter().enumerate() {
        let figures = figures::problems(report, at);
        if figures.is_empty() {
            continue;
        }
        let _ = writeln!(
            out,
            "<h3>Sequences of each problem, {} on {}</h3>\n<p class=\"note\">Solid: sequences that are right. Pale: those that are not. \
             Problems stand in the same order everywhere, from those full-parallel solves most often.</p>\n<div class=\"figures\">",
            escape(&subject.model),
            escape(names::suite(&subject.suite))
        );
        for figure in &figures {
            figure_html(out, figure);
        }
        out.push_str("</div>\n");
    }
    out.push_str("</section>\n");
}

fn figure_html(out: &mut String, figure: &Figure) {
    let _ = writeln!(out, "<figure>\n<h4>{}</h4>\n{}", escape(&figure.title), figure.picture.inside());
    if !figure.legend.is_empty() {
        out.push_str("<ul class=\"legend\">");
        for (colour, name) in &figure.legend {
            let _ = write!(
                out,
                "<li><i class=\"swatch\" style=\"background:var({colour})\"></i>{}</li>",
                escape(name)
            );
        }
        out.push_str("</ul>\n");
    }
    if !figure.caption.is_empty() {
        let _ = writeln!(out, "<figcaption>{}</figcaption>", escape(&figure.caption));
    }
    out.push_str("</figure>\n");
}

fn problems_section(out: &mut String, report: &Report, left: trees::LeftOut) {
    out.push_str("<section id=\"problems\">\n<h2>Problems</h2>\n");
    if left.problems == 0 {
        out.push_str("<p>No problem is finished yet.</p>\n</section>\n");
        return;
    }
    let mut note = format!("{} in all.", plural(left.problems, "problem"));
    if left.with_trees < left.problems {
        note.push_str(&format!(
            " Trees are here for the {} with most to see: where methods or sequences disagree and where there are forks.",
            left.with_trees
        ));
    }
    if left.seeds_cut {
        note.push_str(" Trees of further seeds are here as far as they fit.");
    }
    if left.texts_cut > 0 {
        note.push_str(&format!(
            " {} longer than {} characters of their own and lost their middle.",
            if left.texts_cut == 1 {
                "One text was".to_owned()
            } else {
                format!("{} texts were", left.texts_cut)
            },
            report.options.text
        ));
    }
    note.push_str(" Everything is in the runs' samples.jsonl.");
    let _ = writeln!(out, "<p class=\"note\">{}</p>", escape(&note));
    out.push_str(
        "<div id=\"browser\"></div>\n<noscript><p>The trees are drawn by a script inside this page; it is switched off.</p></noscript>\n</section>\n",
    );
}

fn notes_section(out: &mut String, report: &Report) {
    out.push_str("<section id=\"notes\">\n<h2>Notes</h2>\n<dl class=\"definitions\">\n");
    for (name, meaning) in provenance::definitions(report) {
        let _ = writeln!(out, "<dt>{}</dt><dd>{}</dd>", escape(name), escape(&meaning));
    }
    out.push_str("</dl>\n<h3>Runs</h3>\n");
    let _ = writeln!(
        out,
        "<details><summary>How {} made</summary>\n<ol class=\"runs\">",
        match report.runs.len() {
            1 => "the run was".to_owned(),
            many => format!("the {many} runs were"),
        }
    );
    for run in report.runs {
        let (origin, command) = (provenance::origin(run), provenance::command(&run.manifest));
        let _ = writeln!(out, "<li>{}<code>{}</code></li>", escape(&origin), escape(&command));
    }
    out.push_str("</ol>\n</details>\n</section>\n");
}
