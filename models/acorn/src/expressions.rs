//! Every value that some numbers can make, each by its plainest expression.
//!
//! All ways of combining the numbers two at a time are tried, and for each value the expression of least
//! *effort* is kept: sums are easier than differences, those easier than products and quotients, and small
//! intermediate values easier than large ones. A value thus has one canonical derivation, the one a patient
//! person would write down, and traces always show that one: the model need not guess which of many equal
//! ways was meant.
//!
//! The search works on a stack of entries. The given numbers lie at the bottom; combining two entries pushes
//! a third. A complete combination has used every number and every entry once, so a copy of the stack *is*
//! the expression.

/// Values above this are not remembered.
pub(crate) const LARGEST_VALUE: usize = 160;

/// No step may go above this: acorn does its sums in the head.
const LARGEST_STEP: u32 = 999;

/// Five numbers take a few thousand combinations; a sixth would multiply that by thirty.
pub(crate) const MOST_NUMBERS: usize = 5;

/// What a result costs beside its operation, for every unit of its size.
const EFFORT_PER_UNIT: f64 = 0.0021;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    Add,
    Subtract,
    Multiply,
    Divide,
}

impl Operation {
    const ALL: [Self; 4] = [Self::Add, Self::Subtract, Self::Multiply, Self::Divide];

    fn symbol(self) -> char {
        match self {
            Self::Add => '+',
            Self::Subtract => '-',
            Self::Multiply => '*',
            Self::Divide => '/',
        }
    }

    fn effort(self) -> f64 {
        match self {
            Self::Add => 1.0,
            Self::Subtract => 1.2,
            Self::Multiply => 1.7,
            Self::Divide => 2.4,
        }
    }

    /// The result, where it is a positive integer within bounds and the step does something (no times one).
    fn apply(self, larger: u32, smaller: u32) -> Option<u32> {
        let value = match self {
            Self::Add => larger + smaller,
            Self::Subtract => larger.checked_sub(smaller).filter(|&difference| difference > 0)?,
            Self::Multiply if smaller > 1 => larger * smaller,
            Self::Divide if smaller > 1 && larger.is_multiple_of(smaller) => larger / smaller,
            Self::Multiply | Self::Divide => return None,
        };
        (value <= LARGEST_STEP).then_some(value)
    }
}

/// A number that was given, or the result of combining two entries further down the stack.
#[derive(Debug, Clone, Copy)]
struct Entry {
    value: u32,
    effort: f64,
    made: Option<Step>,
}

#[derive(Debug, Clone, Copy)]
struct Step {
    operation: Operation,
    left: usize,
    right: usize,
}

/// An expression that uses each of its numbers exactly once; the last entry is the whole of it.
#[derive(Debug, Clone)]
pub(crate) struct Expression {
    entries: Vec<Entry>,
}

impl Expression {
    /// Does it need a product or a quotient?
    pub(crate) fn multiplies(&self) -> bool {
        self.entries
            .iter()
            .filter_map(|entry| entry.made)
            .any(|step| matches!(step.operation, Operation::Multiply | Operation::Divide))
    }

    /// The steps in working order: `13-10=3 22*3=66`.
    pub(crate) fn steps(&self) -> String {
        let mut steps = Vec::new();
        self.write_steps(self.root(), &mut steps);
        steps.join(" ")
    }

    fn write_steps(&self, index: usize, steps: &mut Vec<String>) {
        let entry = &self.entries[index];
        let Some(Step { operation, left, right }) = entry.made else { return };
        self.write_steps(left, steps);
        self.write_steps(right, steps);
        let (x, y) = (self.entries[left].value, self.entries[right].value);
        steps.push(format!("{x}{}{y}={}", operation.symbol(), entry.value));
    }

    /// The expression itself, with parentheses around every part: `22*(13-10)`.
    pub(crate) fn infix(&self) -> String {
        match self.entries[self.root()].made {
            Some(step) => self.infix_of(step),
            None => self.entries[self.root()].value.to_string(),
        }
    }

    fn infix_of(&self, Step { operation, left, right }: Step) -> String {
        let part = |index: usize| match self.entries[index].made {
            Some(step) => format!("({})", self.infix_of(step)),
            None => self.entries[index].value.to_string(),
        };
        format!("{}{}{}", part(left), operation.symbol(), part(right))
    }

    fn root(&self) -> usize {
        // An expression is made of at least one number.
        self.entries.len() - 1
    }

    fn effort(&self) -> f64 {
        self.entries[self.root()].effort
    }
}

/// The plainest expression for every value from 1 to [`LARGEST_VALUE`] that the numbers can make.
#[derive(Debug)]
pub(crate) struct Reachable {
    stack: Vec<Entry>,
    plainest: Vec<Option<Expression>>,
}

impl Reachable {
    /// Expects at most [`MOST_NUMBERS`] numbers, none above [`LARGEST_STEP`].
    pub(crate) fn from_numbers(numbers: &[u32]) -> Self {
        debug_assert!(numbers.len() <= MOST_NUMBERS);
        let stack = numbers.iter().map(|&value| Entry { value, effort: 0.0, made: None }).collect();
        let mut reachable = Self { stack, plainest: vec![None; LARGEST_VALUE + 1] };
        let all: Vec<usize> = (0..numbers.len()).collect();
        reachable.combine(&all);
        reachable
    }

    pub(crate) fn get(&self, value: usize) -> Option<&Expression> {
        self.plainest.get(value)?.as_ref()
    }

    /// Combines any two of the loose entries (those that no step has used yet), then what is left, to the
    /// end.
    fn combine(&mut self, loose: &[usize]) {
        for (i, &first) in loose.iter().enumerate() {
            for (j, &second) in loose.iter().enumerate().skip(i + 1) {
                let (left, right) = self.larger_first(first, second);
                let mut rest = [0; MOST_NUMBERS];
                let others = loose.iter().enumerate().filter(|&(k, _)| k != i && k != j);
                for (slot, (_, &entry)) in rest.iter_mut().zip(others) {
                    *slot = entry;
                }
                // Two entries go, one comes; its place is behind the others.
                let last = loose.len() - 2;
                for operation in Operation::ALL {
                    let Some(entry) = self.step(operation, left, right) else { continue };
                    if last == 0 {
                        self.offer(entry);
                    } else {
                        rest[last] = self.stack.len();
                        self.stack.push(entry);
                        self.combine(&rest[..=last]);
                        self.stack.pop();
                    }
                }
            }
        }
    }

    /// The larger value goes to the left; of equal values, the one that was more work.
    fn larger_first(&self, a: usize, b: usize) -> (usize, usize) {
        let (x, y) = (&self.stack[a], &self.stack[b]);
        if x.value < y.value || (x.value == y.value && x.effort < y.effort) { (b, a) } else { (a, b) }
    }

    fn step(&self, operation: Operation, left: usize, right: usize) -> Option<Entry> {
        let (x, y) = (&self.stack[left], &self.stack[right]);
        let value = operation.apply(x.value, y.value)?;
        // The last term only breaks ties between expressions of equal effort, always in the same way.
        let tie_break = 1e-6 * f64::from(x.value * 7 % 31);
        let effort =
            operation.effort() + (x.effort + y.effort + EFFORT_PER_UNIT * f64::from(value) + tie_break);
        Some(Entry { value, effort, made: Some(Step { operation, left, right }) })
    }

    /// Remembers the stack with this entry on top, if no plainer expression for its value is known.
    fn offer(&mut self, entry: Entry) {
        let Some(plainest) = self.plainest.get_mut(entry.value as usize) else { return };
        if plainest.as_ref().is_none_or(|known| entry.effort < known.effort()) {
            let mut entries = Vec::with_capacity(self.stack.len() + 1);
            entries.extend_from_slice(&self.stack);
            entries.push(entry);
            *plainest = Some(Expression { entries });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_plainest_way_is_found() {
        let reachable = Reachable::from_numbers(&[10, 13, 22]);
        let expression = reachable.get(66).unwrap();
        assert_eq!(expression.steps(), "13-10=3 22*3=66");
        assert_eq!(expression.infix(), "22*(13-10)");
        assert!(expression.multiplies());
        assert!(!reachable.get(45).unwrap().multiplies());
    }

    #[test]
    fn values_out_of_reach_are_absent() {
        let reachable = Reachable::from_numbers(&[1, 2]);
        let values: Vec<usize> =
            (0..=LARGEST_VALUE).filter(|&value| reachable.get(value).is_some()).collect();
        // No 2*1 and no 2/1: a step by one does nothing.
        assert_eq!(values, [1, 3]);
        assert!(reachable.get(LARGEST_VALUE + 1).is_none());
    }

    #[test]
    fn nothing_and_one_number_make_no_expression() {
        assert!((0..=LARGEST_VALUE).all(|value| Reachable::from_numbers(&[]).get(value).is_none()));
        assert!((0..=LARGEST_VALUE).all(|value| Reachable::from_numbers(&[7]).get(value).is_none()));
    }

    proptest! {
        #[test]
        fn every_expression_is_worth_its_value(numbers in prop::collection::vec(1_u32..=50, 2..=4)) {
            let reachable = Reachable::from_numbers(&numbers);
            for value in 0..=LARGEST_VALUE {
                let Some(expression) = reachable.get(value) else { continue };
                prop_assert_eq!(expression.entries[expression.root()].value as usize, value);
                let mut used = vec![0; expression.entries.len()];
                let entries = &expression.entries;
                for Step { operation, left, right } in entries.iter().filter_map(|entry| entry.made) {
                    prop_assert!(operation.apply(entries[left].value, entries[right].value).is_some());
                    used[left] += 1;
                    used[right] += 1;
                }
                used.pop();
                prop_assert!(used.iter().all(|&times| times == 1), "each entry but the root is used once");
            }
        }
    }
}
