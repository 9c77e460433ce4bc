//! Where the numbers come from: definitions, the commands that made the runs, and what stands in the way of comparing them.

use std::collections::{BTreeMap, BTreeSet};

use eager_core::Method;
use serde_json::Value;

use crate::report::format::{list, plural, setting};
use crate::report::{Report, names, paper, tables};
use crate::run::{Manifest, Run};
use crate::statistics::{FEW, RESAMPLES};

/// Every column, and how its numbers are made.
pub fn definitions(report: &Report) -> Vec<(&'static str, String)> {
    let lines = report.lines();
    let sentence = |text: &str| {
        let mut text = text.to_owned();
        text.get_mut(..1).map(str::make_ascii_uppercase);
        text + "."
    };
    let mut all = vec![
        (
            "pass@k",
            sentence(tables::PASS)
                + " k is the number of sequences of that problem, up to M, so it differs between methods.",
        ),
        (
            "cons@k",
            sentence(tables::CONS)
                + &format!(
                    " Sequences without an answer {} (--unanswered). In a tie, the answer that came first stands.",
                    tables::unanswered(report)
                ),
        ),
        ("pass rate", sentence(tables::RATE) + " Unhalted: " + tables::RATE_UNHALTED + "."),
        ("answers", answers(report)),
        ("sequences", sentence(tables::SEQUENCES)),
        ("ties", sentence(tables::TIES) + " With several seeds, the average of the runs."),
        ("tokens", sentence(tables::TOKENS) + " With several seeds, the average of the runs."),
        (
            "distinct",
            sentence(tables::DISTINCT)
                + " A tree decodes most of them once; samples that know nothing of each other decode them many times.",
        ),
        ("saved", sentence(tables::SAVED)),
    ];
    if lines.iter().any(|l| l.method.parse().is_ok_and(Method::needs_labels)) {
        all.push((
            "labels",
            "EAGer (not init, not adapt), until-right and two-stage decide by which sequences are right. Their pass@k at so many \
             tokens is only to be compared among them. Who stops at the first right sequence has few wrong ones, so their cons@k \
             and pass rate say nothing of what a vote without labels would find."
                .to_owned(),
        ));
    }
    if lines.iter().any(|l| l.equal_tokens.is_some()) {
        all.push((
            "equal tokens",
            "What full-parallel would have reached with as many tokens as the method used: the unbiased estimate from its own \
             samples, with the same share of them for every problem. Gain is the method's pass@k minus that."
                .to_owned(),
        ));
        all.push((
            "equal tokens, shared",
            "The same where an engine decodes each distinct prefix once: full-parallel gets the share of its samples whose \
             expected distinct prefixes are as many as the method's."
                .to_owned(),
        ));
    }
    all.extend([
        (
            "time",
            "Seconds of decoding; prompts are decoded together and each is charged for its tokens. Only times from the same, \
             otherwise idle machine can be compared."
                .to_owned(),
        ),
        (
            "intervals",
            format!(
                "95%, by the percentile bootstrap over problems ({RESAMPLES} draws, fixed seed); for shares that are 0 or 1 or of \
                 fewer than {FEW} problems Wilson's over problems, and for their differences Newcombe's. Runs with several seeds \
                 are averaged within each problem first. Differences and savings are paired: both methods on the same problems."
            ),
        ),
    ]);
    if report.options.paper {
        all.push((
            "quoted",
            format!(
                "Numbers in italics are the paper's own for the same setting, as printed: {}. {}",
                paper::SOURCE,
                paper::UNIT
            ),
        ));
    }
    all
}

/// What counted as an answer in these runs.
fn answers(report: &Report) -> String {
    let extract = |run: &Run| match run.manifest.parameters.options.get("extract") {
        Some(Value::String(name)) => name.clone(),
        _ => String::new(),
    };
    let kinds: BTreeSet<String> = report.runs.iter().map(extract).collect();
    let told = |kind: &String| match kind.as_str() {
        "strict" => {
            "--extract strict: a box, a statement such as \"the answer is 5\", or a closed block of code, outside the \
                     chain of thought."
        }
        "" => {
            "Runs that do not record it were read by an earlier version, which also took a thought or the last number of a \
               response that was cut off for an answer."
        }
        _ => {
            "--extract lenient: what a response says outside its chain of thought; where the model ended it and says nothing \
              plainer, its last number, line or program."
        }
    };
    let mut told: Vec<&str> = kinds.iter().map(told).collect();
    if report.runs.iter().any(|run| run.manifest.suite.name == "humaneval-plus") {
        told.push(
            "Programs that return the same on the base tests' inputs vote together; ESC, which decides while it decodes, \
             compares their text.",
        );
    }
    told.join(" ")
}

/// The command that makes a run again, as far as its manifest says.
pub fn command(manifest: &Manifest) -> String {
    let Manifest { model, suite, method, parameters, seed, .. } = manifest;
    let mut words = vec!["eager".to_owned(), "bench".to_owned()];
    let mut option = |name: &str, value: &str| words.extend([format!("--{name}"), quoted(value)]);
    option("suite", &suite.name);
    option("method", method);
    if let Some(path) = &model.path {
        option("model", path);
    }
    option("max-sequences", &parameters.max_sequences.to_string());
    option("max-tokens", &parameters.max_tokens.to_string());
    option("temperature", &setting(parameters.temperature));
    option("top-p", &setting(parameters.top_p));
    if parameters.top_k != 0 {
        option("top-k", &parameters.top_k.to_string());
    }
    if parameters.min_p != 0.0 {
        option("min-p", &setting(parameters.min_p));
    }
    if let Some(theta) = parameters.theta {
        option("theta", &setting(theta));
        option("entropy-top-k", &parameters.entropy_top_k.to_string());
    }
    if let Some(temperature) = parameters.entropy_temperature {
        option("entropy-temperature", &setting(temperature));
    }
    option("seed", &seed.to_string());
    // An option that was given several times.
    let one_by_one = |value: &Value| match value {
        Value::Array(all) => all.clone(),
        one => vec![one.clone()],
    };
    let given = parameters
        .options
        .iter()
        .flat_map(|(name, all)| one_by_one(all).into_iter().map(move |one| (name, one)));
    for (name, value) in given {
        match &value {
            Value::Bool(true) => words.push(quoted(&format!("--{name}"))),
            Value::Null | Value::Bool(false) => {}
            Value::String(text) => words.extend([quoted(&format!("--{name}")), quoted(text)]),
            other => words.extend([quoted(&format!("--{name}")), quoted(&other.to_string())]),
        }
    }
    words.join(" ")
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=+,@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// A run in one line: where it is and what it was made of.
pub fn origin(run: &Run) -> String {
    let Manifest { model, suite, version, .. } = &run.manifest;
    format!(
        "{}: model {} ({}), suite {} ({}), {}, eager {version}",
        run.folder.display(),
        model.name,
        names::short_hash(&model.hash),
        suite.name,
        names::short_hash(&suite.hash),
        model.engine,
    )
}

/// What a reader must know before comparing.
pub fn warnings(report: &Report) -> Vec<String> {
    let mut warnings = Vec::new();
    for subject in report.subjects() {
        let runs: Vec<&Run> = subject.cells.iter().flat_map(|c| c.runs.iter().copied()).collect();
        let place = format!("{} on {}", subject.model, names::suite(&subject.suite));
        let distinct =
            |of: fn(&Manifest) -> &str| runs.iter().map(|r| of(&r.manifest)).collect::<BTreeSet<&str>>();
        let engines = distinct(|m| &m.model.engine);
        if engines.len() > 1 {
            let engines: Vec<&str> = engines.into_iter().collect();
            warnings.push(format!(
                "{place}: the runs were decoded by different engines ({}), which round differently and are not equally fast.",
                engines.join("; ")
            ));
        }
        if distinct(|m| &m.version).len() > 1 {
            warnings.push(format!("{place}: the runs were made by different versions of eager."));
        }
        warnings.extend(readings(&place, &runs));
        let partial: Vec<&&Run> =
            runs.iter().filter(|r| r.samples.len() < r.manifest.suite.problems).collect();
        if !partial.is_empty() {
            warnings.push(format!(
                "{place}: {} not complete; methods are compared on the problems that both have.",
                if partial.len() == 1 {
                    "one run is".to_owned()
                } else {
                    format!("{} are", plural(partial.len(), "run"))
                }
            ));
        }
    }
    warnings.extend(same_names(report));
    if report.options.paper {
        warnings.extend(not_quoted(report));
    }
    if !report.comparison.repeated.is_empty() {
        let count = report.comparison.repeated.len();
        warnings.push(format!(
            "{} left out: the same setting and seed is there already.",
            if count == 1 { "One run was".to_owned() } else { format!("{count} runs were") }
        ));
    }
    warnings
}

/// Methods whose runs do not read the paper's second pass alike.
fn readings(place: &str, runs: &[&Run]) -> Vec<String> {
    let mut by_method: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for Manifest { method, parameters, .. } in runs.iter().map(|run| &run.manifest) {
        by_method.entry(method).or_default().extend(parameters.second_pass.as_deref());
    }
    let differing = by_method.into_iter().filter(|(_, readings)| readings.len() > 1);
    let told = |(method, readings): (&str, BTreeSet<&str>)| {
        let readings: Vec<&str> = readings.into_iter().collect();
        format!(
            "{place}: runs of {method} follow different readings of the paper's second pass ({}); they are not averaged.",
            readings.join("; ")
        )
    };
    differing.map(told).collect()
}

/// Why the paper's figures do not stand beside some of the lines by which methods are compared.
fn not_quoted(report: &Report) -> Vec<String> {
    let mut reasons: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for line in report.lines().into_iter().filter(|line| line.primary) {
        let other = "the paper has no such theta and temperature";
        let none_found = || report.quote(line).is_none().then_some(other);
        if let Some(why) = line.unlike_paper.as_deref().or_else(none_found) {
            let methods = reasons.entry(why).or_default();
            let method = names::method(&line.method);
            if !methods.contains(&method) {
                methods.push(method);
            }
        }
    }
    let warning = |(why, methods): (&str, Vec<String>)| {
        format!("The paper's figures are not quoted beside {}: {why}.", list(&methods))
    };
    reasons.into_iter().map(warning).collect()
}

/// Names that stand for more than one thing: such runs are kept apart.
fn same_names(report: &Report) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut say = |what: &str, pairs: BTreeSet<(&str, &str)>| {
        let mut told = BTreeSet::new();
        for (name, _) in &pairs {
            if pairs.iter().filter(|(other, _)| other == name).count() > 1 && told.insert(*name) {
                warnings.push(format!(
                    "There are different {what} by the name {name} (told apart by #hash); their runs are not compared with each other."
                ));
            }
        }
    };
    let manifests = || report.runs.iter().map(|r| &r.manifest);
    say("suites", manifests().map(|m| (m.suite.name.as_str(), m.suite.hash.as_str())).collect());
    say("models", manifests().map(|m| (m.model.name.as_str(), m.model.hash.as_str())).collect());
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_reach_the_command_as_they_are() {
        for (word, written) in [
            ("aime2025", "aime2025"),
            ("", "''"),
            ("a b", "'a b'"),
            ("it's", r"'it'\''s'"),
            ("$(x)", "'$(x)'"),
        ] {
            assert_eq!(quoted(word), written);
        }
    }
}
