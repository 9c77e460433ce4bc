//! A block of weights, made ready for many rows: unfolded, with its scales, and with the products that belong to it alone.

use super::super::Panel;
use super::super::place::PAIRS;
use super::super::table::{Kind, TablePart};
use super::super::tile::{BYTES, LISTED, NIBBLES, TWO, groups};
use super::WORDS;
use crate::kernel::unit::{Crossing, Line, Unit, ask_for};
use crate::load::runs::Codes;

/// What makes floats of a group's sums.
#[repr(C, align(64))]
pub struct Factors<U: Unit, const PANELS: usize> {
    pub scales: [U::Floats; PANELS],
    pub mins: [U::Floats; PANELS],
}

/// A block of some panels, ready to be multiplied with any number of rows.
#[repr(C, align(64))]
pub struct Unfolded<U: Unit, const PANELS: usize> {
    /// For every two words: the codes that meet the first, and those that meet the second.
    pub codes: [[[U::Codes; PANELS]; 2]; WORDS / 2],
    /// For every group of inputs, what sums begin with.
    pub begins: [[U::Sums; PANELS]; 2],
    /// What is done to them in the end.
    pub factors: [Factors<U, PANELS>; 2],
}

/// Lines of a block of a panel.
pub const fn lines(codes: usize) -> usize {
    if codes == LISTED { 4 } else { codes }
}

/// Which block of which panel is prepared, and where it goes.
#[derive(Debug, Clone, Copy)]
pub struct At {
    pub block: usize,
    /// Of how many.
    pub blocks: usize,
    /// The panel's place.
    pub place: usize,
    /// Panels that are walked together.
    pub together: usize,
}

impl At {
    /// How many blocks it is from this one to the one that comes so many later in this place: behind a panel's last block that is the
    /// first of the panel that takes its place.
    #[inline(always)]
    pub fn distance(self, later: usize) -> usize {
        let panels_between = if self.block + later >= self.blocks { self.together - 1 } else { 0 };
        later + panels_between * self.blocks
    }
}

/// Asks for the codes of the block that comes so many later.
#[inline(always)]
pub fn expect_codes<const CODES: usize>(panel: &Panel<'_>, at: At, later: usize) {
    let count = const { lines(CODES) };
    let first = panel.lines.as_ptr().wrapping_add((at.block + at.distance(later)) * count);
    for line in 0..count {
        ask_for(first.wrapping_add(line));
    }
}

/// Asks for the scales and minima of the blocks that come next.
#[inline(always)]
pub fn expect_scales<K: Kind, const CODES: usize, const MINS: bool>(panel: &Panel<'_>, at: At) {
    expect_factors::<K, CODES>(panel.scales, at);
    if let (true, Some(mins)) = (MINS, panel.mins) {
        expect_factors::<K, CODES>(mins, at);
    }
}

/// Asks for the next line of scales or minima.
#[inline(always)]
fn expect_factors<K: Kind, const CODES: usize>(table: TablePart<'_>, at: At) {
    let groups = const { groups(CODES) };
    let entry = K::at(K::of(table), at.block * groups, at.block);
    let (left, bytes) = ((at.blocks - at.block) * groups, entry.bytes());
    let panels_between = if left * bytes <= size_of::<Line>() { at.together - 1 } else { 0 };
    ask_for(entry.place().wrapping_add(size_of::<Line>() + panels_between * at.blocks * groups * bytes));
}

/// Prepares the scales and minima of a block of a panel.
///
/// # Safety
/// The machine must have the unit's instructions. Nothing need be there where they go, but there must be room.
#[inline(always)]
pub unsafe fn scale<U: Crossing, K: Kind, const PANELS: usize, const CODES: usize, const MINS: bool>(
    panel: &Panel<'_>,
    at: At,
    into: *mut Unfolded<U, PANELS>,
) {
    let (b, p, groups) = (at.block, at.place, const { groups(CODES) });
    let (scales, mins) = (K::of(panel.scales), K::of(panel.mins.unwrap_or(panel.scales)));
    // SAFETY: the caller vouches for the instructions, and for the place.
    unsafe {
        let factors = &raw mut (*into).factors;
        for g in 0..groups {
            (*factors)[g].scales[p] = U::factors(K::at(scales, b * groups + g, b));
            if MINS {
                (*factors)[g].mins[p] = U::factors(K::at(mins, b * groups + g, b));
            }
        }
    }
}

/// Unfolds the codes of a block of a panel, and works out what sums begin with.
///
/// # Safety
/// As for [`scale`].
#[inline(always)]
pub unsafe fn unfold<U: Crossing, const PANELS: usize, const CODES: usize>(
    panel: &Panel<'_>,
    at: At,
    into: *mut Unfolded<U, PANELS>,
) {
    let (count, groups) = const { (lines(CODES), groups(CODES)) };
    let lines = &panel.lines[at.block * count..][..count];
    // SAFETY: the caller vouches for the instructions, and for the place.
    unsafe {
        for g in 0..groups {
            let mut begin = U::begin(0);
            for pair in g * PAIRS / groups..(g + 1) * PAIRS / groups {
                let codes = four::<U, CODES>(panel, lines, pair);
                for half in 0..2 {
                    let (first, second) = (codes[2 * half], codes[2 * half + 1]);
                    if U::PLAIN >> (2 * pair + half) & 1 == 0 {
                        begin = U::less_products(begin, first, second);
                    }
                    (*into).codes[2 * pair + half][0][at.place] = first;
                    (*into).codes[2 * pair + half][1][at.place] = second;
                }
            }
            (*into).begins[g][at.place] = begin;
        }
    }
}

/// The codes that meet four words.
///
/// # Safety
/// The machine must have the unit's instructions.
#[inline(always)]
unsafe fn four<U: Crossing, const CODES: usize>(
    panel: &Panel<'_>,
    lines: &[Line],
    pair: usize,
) -> [U::Codes; 4] {
    // SAFETY: the caller vouches for the instructions.
    unsafe {
        match CODES {
            NIBBLES => {
                let line = &lines[pair];
                [U::nibbles::<0>(line), U::nibbles::<1>(line), U::nibbles::<2>(line), U::nibbles::<3>(line)]
            }
            LISTED => {
                let list = match panel.codes {
                    Codes::Listed(list) => list,
                    _ => &[0; 16],
                };
                let (line, list) = (&lines[pair], U::list(list));
                [
                    U::listed::<0>(line, list),
                    U::listed::<1>(line, list),
                    U::listed::<2>(line, list),
                    U::listed::<3>(line, list),
                ]
            }
            _ => {
                let (first, second) = (U::strip::<CODES, 0>(lines, pair), U::strip::<CODES, 1>(lines, pair));
                let codes = [
                    U::strip_codes::<CODES, 0>(first),
                    U::strip_codes::<CODES, 0>(second),
                    U::strip_codes::<CODES, 1>(first),
                    U::strip_codes::<CODES, 1>(second),
                ];
                if matches!(CODES, TWO | BYTES) {
                    return codes;
                }
                // Once here, instead of from every row's sums.
                let surplus = panel.surplus as i16;
                [
                    U::less(codes[0], surplus),
                    U::less(codes[1], surplus),
                    U::less(codes[2], surplus),
                    U::less(codes[3], surplus),
                ]
            }
        }
    }
}
