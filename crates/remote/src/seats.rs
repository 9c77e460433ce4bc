//! The slots of a llama-server, and what each remembers.
//!
//! A llama-server shares no prefix between its slots: of two sequences that part at a fork, one stays where it was and the
//! other would be computed from its first token. Where the server can save slots (`--slot-save-path`) the second is given a
//! copy instead: the slot is saved while it is idle, restored into another, and both requests are pinned to their slots.
//! So we have to know what lies in which.

use eager_core::Token;

/// A prefix shorter than this is computed again sooner than it is copied.
pub(crate) const WORTH_A_COPY: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct Seats(Vec<Seat>);

#[derive(Debug, Clone, Default)]
struct Seat {
    /// What it has computed, as far as we know.
    tokens: Vec<Token>,
    state: State,
    /// When it was last taken.
    taken: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Free,
    /// Given away, but idle until its request is sent.
    Claimed,
    Busy,
}

/// A seat for a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Claim {
    pub seat: usize,
    /// The seat that must be copied into it first.
    pub copy_of: Option<usize>,
}

impl Seats {
    pub fn new(count: usize) -> Self {
        Seats(vec![Seat::default(); count])
    }

    /// The best seat for a sequence: the free one that remembers most of it; or a copy of one that was claimed a moment ago
    /// and remembers much more. None when all are taken.
    pub fn claim(&mut self, tokens: &[Token], now: u64) -> Option<Claim> {
        let shared = |seat: &Seat| seat.tokens.iter().zip(tokens).take_while(|(a, b)| a == b).count();
        let free = self.0.iter().enumerate().filter(|(_, seat)| seat.state == State::Free);
        // Where nothing is remembered, what has not been used for longest is the least loss.
        let (kept, at) = free
            .map(|(at, seat)| ((shared(seat), u64::MAX - seat.taken), at))
            .max_by_key(|&(worth, at)| (worth, usize::MAX - at))
            .map(|((kept, _), at)| (kept, at))?;
        let claimed = self.0.iter().enumerate().filter(|(_, seat)| seat.state == State::Claimed);
        let original = claimed.map(|(at, seat)| (shared(seat), at)).max();
        let copy = original.filter(|&(there, _)| there >= kept + WORTH_A_COPY);
        // A copy goes where the least is lost, not where a little is remembered.
        let at = match copy {
            Some(_) => self.least_used().unwrap_or(at),
            None => at,
        };
        let seat = &mut self.0[at];
        *seat = Seat { tokens: tokens.to_vec(), state: State::Claimed, taken: now };
        Some(Claim { seat: at, copy_of: copy.map(|(_, original)| original) })
    }

    fn least_used(&self) -> Option<usize> {
        let free = self.0.iter().enumerate().filter(|(_, seat)| seat.state == State::Free);
        free.min_by_key(|(_, seat)| seat.taken).map(|(at, _)| at)
    }

    /// Its request is on the way.
    pub fn occupy(&mut self, seat: usize) {
        self.0[seat].state = State::Busy;
    }

    /// Its request is over, and this is what it has computed, if we know.
    pub fn leave(&mut self, seat: usize, tokens: Option<Vec<Token>>) {
        let seat = &mut self.0[seat];
        seat.state = State::Free;
        if let Some(tokens) = tokens {
            seat.tokens = tokens;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(tail: &[Token]) -> Vec<Token> {
        (0..100).chain(tail.iter().copied()).collect()
    }

    #[test]
    fn a_sequence_returns_to_its_seat_and_its_twin_gets_a_copy() {
        let mut seats = Seats::new(3);
        let first = seats.claim(&path(&[]), 1).unwrap();
        assert_eq!(first, Claim { seat: 0, copy_of: None });
        seats.occupy(0);
        // It is busy, so its twin cannot have a copy.
        assert_eq!(seats.claim(&path(&[7]), 2), Some(Claim { seat: 1, copy_of: None }));
        seats.leave(1, Some(Vec::new()));
        seats.leave(0, Some(path(&[5, 6])));
        assert_eq!(seats.claim(&path(&[5]), 3), Some(Claim { seat: 0, copy_of: None }));
        assert_eq!(seats.claim(&path(&[7]), 4), Some(Claim { seat: 2, copy_of: Some(0) }));
    }

    #[test]
    fn what_is_short_is_not_copied() {
        let mut seats = Seats::new(2);
        seats.claim(&[1, 2, 3], 1);
        assert_eq!(seats.claim(&[1, 2, 4], 2), Some(Claim { seat: 1, copy_of: None }));
        assert_eq!(seats.claim(&[1], 3), None);
    }
}
