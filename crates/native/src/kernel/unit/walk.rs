//! Words that meet line after line of codes: what attention does most.

use bytemuck::Pod;

use super::{LANES, Pairs, ask_for_later};

/// A whole number of at most 16 bits.
pub(crate) trait Whole: Pod {
    /// 16 pairs of them.
    ///
    /// # Safety
    /// The machine must have the unit's instructions.
    unsafe fn pairs<U: Pairs>(from: &[Self; 2 * LANES]) -> U::Codes;
}

impl Whole for i16 {
    #[inline(always)]
    unsafe fn pairs<U: Pairs>(from: &[i16; 2 * LANES]) -> U::Codes {
        // SAFETY: the caller vouches for the instructions.
        unsafe { U::shorts(from) }
    }
}

impl Whole for i8 {
    #[inline(always)]
    unsafe fn pairs<U: Pairs>(from: &[i8; 2 * LANES]) -> U::Codes {
        // SAFETY: the caller vouches for the instructions.
        unsafe { U::bytes_as_shorts(from) }
    }
}

/// `N` queries, each a list of words, against `WIDE` lists of lines.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Walk<T, const N: usize, const WIDE: usize> {
    /// How many words, and lines, a list has: at least one.
    pub count: usize,
    pub words: [*const i32; N],
    pub lines: [*const [T; 2 * LANES]; WIDE],
    /// From a line of a list to the next.
    pub step: usize,
    /// What else is asked for, line by line. It may be anywhere.
    pub ahead: [*const [T; 2 * LANES]; WIDE],
}

/// [`Pairs::walk`].
///
/// # Safety
/// The machine must have the unit's instructions, and all lists must be there.
#[inline(always)]
pub(super) unsafe fn walk<U: Pairs, T: Whole, const N: usize, const WIDE: usize>(
    of: Walk<T, N, WIDE>,
    sums: &mut [[U::Sums; WIDE]; N],
) {
    // Plain loops: iterators over arrays are not always inlined into code for a vector unit.
    for at in 0..of.count {
        // SAFETY: the caller vouches for the instructions and for the lists.
        unsafe {
            let mut codes = [T::pairs::<U>(&*of.lines[0].add(at * of.step)); WIDE];
            for w in 1..WIDE {
                codes[w] = T::pairs::<U>(&*of.lines[w].add(at * of.step));
            }
            for w in 0..WIDE {
                ask_for_later(of.ahead[w].wrapping_add(at * of.step));
            }
            for n in 0..N {
                // Read once for all lists.
                let word = *of.words[n].add(at);
                for w in 0..WIDE {
                    sums[n][w] = U::dot(sums[n][w], codes[w], word);
                }
            }
        }
    }
}
