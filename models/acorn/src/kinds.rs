//! Which questions acorn knows: those of its three families, in the words that it was taught.
//!
//! acorn answers everything else as well, with a number that means nothing. Whoever passes its answers on can say so.

use crate::curriculum::Family;

/// What to say of a question that is none of acorn's; `None` for those that are.
pub fn notice(question: &str) -> Option<String> {
    Family::of(question).is_none().then(|| {
        "acorn knows three kinds of question, and this is none of them, so its answer means nothing. They are \
         \"Using each of 13, 22, 10 exactly once, make 66.\", \"What is 888 * 27 + 271?\" and \"Two numbers have sum 61 \
         and product 900. What is the larger?\", with other numbers. For other questions start with another model: --model"
            .to_owned()
    })
}

impl Family {
    /// The family whose words a question has, with whatever numbers.
    pub fn of(question: &str) -> Option<Self> {
        let question = question.trim();
        if is_countdown(question).unwrap_or(false) {
            Some(Self::Countdown)
        } else if is_arithmetic(question).unwrap_or(false) {
            Some(Self::Arithmetic)
        } else if is_pairs(question).unwrap_or(false) {
            Some(Self::Pairs)
        } else {
            None
        }
    }
}

fn is_countdown(question: &str) -> Option<bool> {
    let rest = question.strip_prefix("Using each of ")?.strip_suffix('.')?;
    let (numbers, target) = rest.split_once(" exactly once, make ")?;
    let numbers: Vec<&str> = numbers.split(", ").collect();
    Some(numbers.len() > 1 && numbers.into_iter().all(is_number) && is_number(target))
}

fn is_arithmetic(question: &str) -> Option<bool> {
    let rest = question.strip_prefix("What is ")?.strip_suffix('?')?;
    let words: Vec<&str> = rest.strip_suffix(", step by step").unwrap_or(rest).split(' ').collect();
    let is_sound = |(at, word): (usize, &&str)| {
        if at % 2 == 0 { is_number(word) } else { ["+", "-", "*"].contains(word) }
    };
    Some(words.len() > 2 && words.len() % 2 == 1 && words.iter().enumerate().all(is_sound))
}

fn is_pairs(question: &str) -> Option<bool> {
    let rest = question.strip_prefix("Two numbers have sum ")?.strip_suffix(". What is the larger?")?;
    let (sum, product) = rest.split_once(" and product ")?;
    Some(is_number(sum) && is_number(product))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problems::suite;

    #[test]
    fn every_problem_of_acorn_is_known_by_its_family() {
        for problem in suite(0, 4).into_iter().chain(suite(5000, 8)) {
            assert_eq!(Family::of(&problem.problem), Some(problem.family), "{}", problem.problem);
            assert_eq!(notice(&problem.problem), None);
        }
        assert_eq!(Family::of(" What is 9 * 8?\n"), Some(Family::Arithmetic));
    }

    #[test]
    fn what_it_was_not_taught_is_told() {
        let foreign = [
            "",
            "What is the capital of France?",
            "What is 12?",
            "What is 12 +?",
            "What is 12 / 4?",
            "What is 12 + x?",
            "Using each of 7 exactly once, make 7.",
            "Using each of a, b exactly once, make 7.",
            "Using each of 1, 2 exactly once, make 3. Why?",
            "Two numbers have sum 61. What is the larger?",
            "Two numbers have sum 61 and product 900. What is the smaller?",
        ];
        for question in foreign {
            assert_eq!(Family::of(question), None, "{question}");
            assert!(notice(question).is_some_and(|notice| notice.contains("--model")), "{question}");
        }
    }
}
