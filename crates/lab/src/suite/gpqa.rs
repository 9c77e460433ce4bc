//! GPQA-Diamond, out of the archive that its authors publish.
//!
//! They ask that the questions never be put online in plain text, where models would learn them by heart. So the archive
//! is encrypted, with a password that is printed in its README: it keeps out crawlers, not people. We decrypt in memory,
//! and a suite that is `secret` is not written down by anybody else either.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use eager_grade::{Grader, choice};

use super::{Problem, SuiteError};
use crate::judge::Judge;

const PASSWORD: &[u8] = b"deserted-untie-orchid";
const MEMBER: &str = "dataset/gpqa_diamond.csv";
/// The seed of the order of choices. One for all runs, so that they can be compared.
const SEED: u64 = 0;
/// The right one comes first.
const CHOICES: [&str; 4] =
    ["Correct Answer", "Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3"];

pub(super) fn problems(path: &Path) -> Result<Vec<Problem>, SuiteError> {
    let fail = |reason: String| SuiteError::Data { path: path.to_owned(), reason };
    let table = decrypt(path).map_err(|error| fail(error.to_string()))?;
    rows(&table).map_err(fail)
}

fn decrypt(path: &Path) -> Result<Vec<u8>, zip::result::ZipError> {
    let mut archive = zip::ZipArchive::new(BufReader::new(File::open(path)?))?;
    let mut table = Vec::new();
    archive.by_name_decrypt(MEMBER, PASSWORD)?.read_to_end(&mut table)?;
    Ok(table)
}

/// The problems in a table of the archive. What goes wrong is told by line and column, never by quoting.
fn rows(table: &[u8]) -> Result<Vec<Problem>, String> {
    let mut reader = csv::Reader::from_reader(table);
    let header = reader.headers().map_err(|error| error.to_string())?.clone();
    let column = |name: &str| {
        let found = header.iter().position(|title| title == name);
        found.ok_or_else(|| format!("{MEMBER} has no column \"{name}\""))
    };
    let (id, question, domain) = (column("Record ID")?, column("Question")?, column("High-level domain")?);
    let choices = CHOICES.iter().map(|name| column(name)).collect::<Result<Vec<_>, _>>()?;
    let problem = |row: csv::StringRecord| {
        let texts = choices.iter().map(|&column| row[column].trim().to_owned()).collect();
        problem(&row[id], &row[question], texts, &row[domain])
    };
    // The reader sees to it that every row is as long as the header.
    reader.records().map(|row| row.map(problem).map_err(|error| error.to_string())).collect()
}

fn problem(id: &str, question: &str, texts: Vec<String>, domain: &str) -> Problem {
    let order = choice::order(id, SEED, texts.len());
    // The order holds every index once, so the right one too.
    let gold = choice::letter(order.iter().position(|&index| index == 0).unwrap_or_default());
    let choices: Vec<String> = order.iter().map(|&index| texts[index].clone()).collect();
    Problem {
        id: id.to_owned(),
        text: question.to_owned(),
        message: String::new(),
        gold: Some(gold.to_string()),
        group: Some(domain.to_owned()),
        judge: Judge::Text(Grader::Choice { gold, choices: choices.clone() }),
        choices,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_read_by_its_titles() {
        let table = "Record ID,Extra,Question,Incorrect Answer 1,Correct Answer,Incorrect Answer 2,Incorrect Answer 3,High-level domain\n\
                     a,x,\"Which way, please?\",south,\" north\n\",east,west,Walks\n";
        let problems = rows(table.as_bytes()).unwrap();
        let [problem] = problems.as_slice() else { panic!("{problems:?}") };
        assert_eq!((problem.id.as_str(), problem.text.as_str()), ("a", "Which way, please?"));
        // `order("a", 0, 4)` is [3, 1, 2, 0].
        assert_eq!(problem.choices, ["west", "south", "east", "north"]);
        assert_eq!(problem.gold.as_deref(), Some("D"));
        assert_eq!(problem.group.as_deref(), Some("Walks"));
    }

    #[test]
    fn a_table_of_something_else_is_told_apart() {
        let table: &[(&str, &str)] = &[
            ("", "has no column \"Record ID\""),
            ("Record ID,Question\n", "has no column \"High-level domain\""),
            ("Record ID,Question,High-level domain,Correct Answer\n", "has no column \"Incorrect Answer 1\""),
        ];
        for (text, expected) in table {
            let error = rows(text.as_bytes()).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
