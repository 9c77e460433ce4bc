//! From the form in which problems are published to ours: a line of id, problem and answer for each.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

/// How a suite is published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Form {
    /// As we read it.
    Same,
    /// A line of JSON for each problem: the fields that we keep, and what we call them.
    Lines(&'static [(&'static str, &'static str)]),
    /// GSM8K's lines, where the answer stands below the reasoning.
    Reasoned,
    /// Lines of AIME problems that are known by where they stand in a wiki (`.../2024_AIME_II_Problems/Problem_7`).
    Wiki,
    /// A folder for each contest.
    Contests(&'static [Contest]),
}

/// A contest: `answers.csv`, and a file of LaTeX for each problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contest {
    /// Its folder.
    pub folder: &'static str,
    /// What the ids of its problems begin with.
    pub id: &'static str,
    pub problems: usize,
}

impl Contest {
    /// Its files: the answers, then the problems in order.
    pub(super) fn files(&self, below: &str) -> Vec<String> {
        let folder = format!("{below}/{}", self.folder);
        let problem = |number| format!("{folder}/problems/{number}.tex");
        std::iter::once(format!("{folder}/answers.csv")).chain((1..=self.problems).map(problem)).collect()
    }

    fn lines(&self, files: &[Vec<u8>]) -> Result<Vec<Value>, String> {
        let (answers, problems) = files.split_first().ok_or("there are no answers")?;
        let rows = csv::Reader::from_reader(&answers[..]).into_deserialize::<(String, String)>();
        let answers = rows.collect::<Result<HashMap<_, _>, _>>().map_err(|error| error.to_string())?;
        let line = |(number, problem): (usize, &Vec<u8>)| {
            let answer = answers.get(&number.to_string()).ok_or(format!("problem {number} has no answer"))?;
            let problem = std::str::from_utf8(problem).map_err(|error| error.to_string())?;
            Ok(json!({"id": format!("{}-{number}", self.id), "problem": problem.trim(), "answer": answer}))
        };
        (1..).zip(problems).map(line).collect()
    }
}

impl Form {
    /// The file that we read, from those that are published.
    pub(super) fn convert(&self, mut files: Vec<Vec<u8>>) -> Result<Vec<u8>, String> {
        let lines = match self {
            Form::Same => return files.pop().ok_or_else(|| "there is no file".to_owned()),
            Form::Lines(fields) => each_line(&files, |_, line| {
                let keep = |(theirs, ours): &(&str, &str)| Ok(((*ours).to_owned(), take(line, theirs)?));
                fields.iter().map(keep).collect::<Result<Map<_, _>, String>>().map(Value::Object)
            })?,
            Form::Reasoned => each_line(&files, |number, line| {
                let reasoning = text(line, "answer")?;
                let (_, answer) = reasoning.rsplit_once("####").ok_or("its answer is not marked")?;
                let answer = answer.trim().replace(',', "");
                Ok(
                    json!({"id": format!("gsm8k-test-{number}"), "problem": take(line, "question")?, "answer": answer}),
                )
            })?,
            Form::Wiki => {
                let mut placed = each_line(&files, |_, line| {
                    let (contest, number) = place(&text(line, "url")?).ok_or("its url says no contest")?;
                    let answer = text(line, "answer")?.trim_start_matches('0').to_owned();
                    let id = format!("aime2024-{contest}-{number}");
                    Ok((
                        contest,
                        number,
                        json!({"id": id, "problem": take(line, "problem")?, "answer": answer}),
                    ))
                })?;
                // The file sorts the tenth problem before the second.
                placed.sort_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));
                placed.into_iter().map(|(_, _, line)| line).collect()
            }
            Form::Contests(contests) => {
                let (mut lines, mut rest) = (Vec::new(), &files[..]);
                for contest in *contests {
                    let (own, others) =
                        rest.split_at_checked(1 + contest.problems).ok_or("there are too few files")?;
                    lines.extend(contest.lines(own)?);
                    rest = others;
                }
                lines
            }
        };
        let mut out = Vec::new();
        for line in lines {
            serde_json::to_writer(&mut out, &line).map_err(|error| error.to_string())?;
            out.push(b'\n');
        }
        Ok(out)
    }
}

/// The contest and the number of a problem, from its address in the wiki.
fn place(url: &str) -> Option<(String, usize)> {
    let (contest, number) = url.split_once("/2024_AIME_")?.1.split_once("_Problems/Problem_")?;
    Some((contest.to_owned(), number.parse().ok()?))
}

/// What is made of every line of JSON; lines are counted from zero.
fn each_line<T>(
    files: &[Vec<u8>],
    make: impl Fn(usize, &mut Map<String, Value>) -> Result<T, String>,
) -> Result<Vec<T>, String> {
    let lines = files.iter().flat_map(|file| file.split(|&byte| byte == b'\n'));
    let lines = lines.filter(|line| !line.is_empty()).enumerate();
    let of = |number, line| {
        let mut fields =
            serde_json::from_slice(line).map_err(|error: serde_json::Error| error.to_string())?;
        make(number, &mut fields)
    };
    lines
        .map(|(number, line)| of(number, line).map_err(|why| format!("line {}: {why}", number + 1)))
        .collect()
}

fn take(line: &mut Map<String, Value>, field: &str) -> Result<Value, String> {
    line.remove(field).ok_or_else(|| format!("it has no \"{field}\""))
}

fn text(line: &mut Map<String, Value>, field: &str) -> Result<String, String> {
    match take(line, field)? {
        Value::String(text) => Ok(text),
        other => Err(format!("its \"{field}\" is not text but {other}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn converted(form: &Form, files: &[&str]) -> Result<String, String> {
        let files = files.iter().map(|file| file.as_bytes().to_vec()).collect();
        form.convert(files).map(|bytes| String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn every_form_becomes_ours() {
        const CONTESTS: &[Contest] = &[
            Contest { folder: "spring", id: "sums-I", problems: 2 },
            Contest { folder: "fall", id: "sums-II", problems: 1 },
        ];
        let table: [(Form, &[&str], &str); 5] = [
            (Form::Same, &["anything"], "anything"),
            (
                Form::Lines(&[("unique_id", "id"), ("problem", "problem")]),
                &["{\"problem\": \"1+1?\", \"solution\": \"2\", \"unique_id\": \"a/1\"}\n\n"],
                "{\"id\":\"a/1\",\"problem\":\"1+1?\"}\n",
            ),
            (
                Form::Reasoned,
                &["{\"question\": \"How many?\", \"answer\": \"#### is a mark.\\n#### 1,234 \"}\n"],
                "{\"id\":\"gsm8k-test-0\",\"problem\":\"How many?\",\"answer\":\"1234\"}\n",
            ),
            (
                Form::Wiki,
                &["{\"problem\":\"b\",\"answer\":\"073\",\"url\":\"x/2024_AIME_I_Problems/Problem_10\"}\n\
                   {\"problem\":\"c\",\"answer\":\"5\",\"url\":\"x/2024_AIME_II_Problems/Problem_1\"}\n\
                   {\"problem\":\"a\",\"answer\":\"100\",\"url\":\"x/2024_AIME_I_Problems/Problem_2\"}\n"],
                "{\"id\":\"aime2024-I-2\",\"problem\":\"a\",\"answer\":\"100\"}\n\
                 {\"id\":\"aime2024-I-10\",\"problem\":\"b\",\"answer\":\"73\"}\n\
                 {\"id\":\"aime2024-II-1\",\"problem\":\"c\",\"answer\":\"5\"}\n",
            ),
            (
                Form::Contests(CONTESTS),
                &["id,answer\n1,2\n2,\"\\frac{1}{2}\"\n", "1+1?\n", " 1/2? ", "id,answer\n1,7\n", "3+4?"],
                "{\"id\":\"sums-I-1\",\"problem\":\"1+1?\",\"answer\":\"2\"}\n\
                 {\"id\":\"sums-I-2\",\"problem\":\"1/2?\",\"answer\":\"\\\\frac{1}{2}\"}\n\
                 {\"id\":\"sums-II-1\",\"problem\":\"3+4?\",\"answer\":\"7\"}\n",
            ),
        ];
        for (form, files, expected) in table {
            assert_eq!(converted(&form, files).as_deref(), Ok(expected), "{form:?}");
        }
        assert_eq!(
            CONTESTS[0].files("data"),
            ["data/spring/answers.csv", "data/spring/problems/1.tex", "data/spring/problems/2.tex"]
        );
    }

    #[test]
    fn what_cannot_be_read_is_told_with_its_line() {
        let table: [(Form, &[&str], &str); 5] = [
            (Form::Lines(&[("id", "id")]), &["{\"id\": 1}\n{}\n"], "line 2: it has no \"id\""),
            (
                Form::Reasoned,
                &["{\"question\": \"?\", \"answer\": \"4\"}"],
                "line 1: its answer is not marked",
            ),
            (
                Form::Wiki,
                &["{\"problem\": \"?\", \"answer\": 4, \"url\": \"x/2024_AIME_I_Problems/Problem_1\"}"],
                "line 1: its \"answer\" is not text but 4",
            ),
            (
                Form::Wiki,
                &["{\"problem\": \"?\", \"answer\": \"4\", \"url\": \"x\"}"],
                "line 1: its url says no contest",
            ),
            (
                Form::Contests(&[Contest { folder: "f", id: "i", problems: 1 }]),
                &["id,answer\n2,2\n", "1+1?"],
                "problem 1 has no answer",
            ),
        ];
        for (form, files, expected) in table {
            assert_eq!(converted(&form, files), Err(expected.to_owned()), "{form:?}");
        }
    }
}
