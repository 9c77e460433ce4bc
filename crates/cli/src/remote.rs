//! `eager remote`: servers, and whether they are fit for trees.

use clap::{Args, Subcommand};
use console::style;
use eager_remote::{Check, Finding, Verdict};
use serde_json::{Value, json};

use crate::args::RemoteArgs;
use crate::table::new_list;
use crate::{Outcome, Usage, print};

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Say whether servers can grow trees, what a fork costs there, and which flags to add
    Check(CheckArgs),
}

#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Print one JSON array instead
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    remote: RemoteArgs,
}

pub fn run(command: &Command) -> anyhow::Result<Outcome> {
    let Command::Check(args) = command;
    let (urls, options) = (args.remote.addresses()?, args.remote.options());
    if urls.is_empty() {
        return Err(Usage("name the server with --url".to_owned()).into());
    }
    let mut checks = Vec::new();
    for url in urls {
        let check = Check::of(&url, &options)?;
        if !args.json {
            print(&described(&url, &check))?;
        }
        checks.push((url, check));
    }
    if args.json {
        let all: Vec<Value> = checks.iter().map(|(url, check)| as_json(url, check)).collect();
        print(&serde_json::to_string(&all)?)?;
    }
    match checks.iter().find(|(_, check)| !check.is_usable()) {
        Some((url, _)) => anyhow::bail!("{url} cannot grow trees as it is"),
        None => Ok(Outcome::Done),
    }
}

fn described(url: &str, check: &Check) -> String {
    let context = check.context.map_or(String::new(), |context| format!(", {context} tokens each"));
    let head = format!("{url}: {} serving {}", check.dialect, check.model);
    let mut table = new_list();
    for finding in &check.findings {
        table.add_row([mark(finding.verdict), finding.about.to_owned(), text(finding)]);
    }
    let room = format!("{} sequences at a time{context}", check.streams);
    table.add_row([mark(Verdict::Good), "room".to_owned(), room]);
    format!("{head}\n{table}\n{}", conclusion(check))
}

fn text(finding: &Finding) -> String {
    match &finding.remedy {
        Some(remedy) => format!("{}\n{remedy}", finding.seen),
        None => finding.seen.clone(),
    }
}

fn mark(verdict: Verdict) -> String {
    match verdict {
        Verdict::Good => style("✓").green(),
        Verdict::Poor => style("!").yellow(),
        Verdict::Missing => style("✗").red(),
    }
    .to_string()
}

fn conclusion(check: &Check) -> &'static str {
    match check.findings.iter().map(|finding| finding.verdict).max() {
        Some(Verdict::Missing) => "It cannot grow trees as it is.",
        Some(Verdict::Poor) => "It can grow trees; what is marked costs more than it has to.",
        _ => "It is ready.",
    }
}

fn as_json(url: &str, check: &Check) -> Value {
    let finding = |finding: &Finding| {
        let verdict = match finding.verdict {
            Verdict::Good => "good",
            Verdict::Poor => "poor",
            Verdict::Missing => "missing",
        };
        json!({"about": finding.about, "verdict": verdict, "seen": finding.seen, "remedy": finding.remedy})
    };
    json!({
        "url": url,
        "dialect": check.dialect.name(),
        "model": check.model,
        "context": check.context,
        "streams": check.streams,
        "usable": check.is_usable(),
        "findings": check.findings.iter().map(finding).collect::<Vec<_>>(),
    })
}
