//! A limit on the work that one comparison may take.
//!
//! Answers come from a model, and `1/3^{5000}+1/7^{3000}+…` is quickly written. Every costly step pays for itself
//! first; where the fuel is gone, a value is not known, and an answer without a known value is only equal to the same
//! text. The unit is about a nanosecond, and steps are counted, never clocked: the verdict is the same on every
//! machine.

use std::cell::Cell;

#[derive(Debug)]
pub(super) struct Fuel(Cell<u64>);

impl Fuel {
    /// Enough for any answer a person would write, and spent within a few hundredths of a second.
    pub(super) fn full() -> Self {
        Self(Cell::new(12_000_000))
    }

    /// Pays for a step; `None` where there is not enough left.
    pub(super) fn spend(&self, amount: u64) -> Option<()> {
        let left = self.0.get().checked_sub(amount);
        self.0.set(left.unwrap_or(0));
        left.map(|_| ())
    }
}
