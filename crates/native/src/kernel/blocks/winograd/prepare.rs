//! A block of weights, made ready for many rows: unfolded, with its scales, and with the products that belong to it alone.

use super::super::Panel;
use super::super::place::PAIRS;
use super::super::table::Kind;
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
    /// What is done to them in the end, of this block and of the one before it: of blocks with even numbers, and of the others.
    pub factors: [[Factors<U, PANELS>; 2]; 2],
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

/// Prepares a block of a panel: its scales and minima, what sums begin with, and its codes. Asks for what will be prepared next.
/// If `LATER`, what concerns the codes of nibbles is left to the caller.
///
/// # Safety
/// The machine must have the unit's instructions. Nothing need be there where it goes, but there must be room.
#[inline(always)]
pub unsafe fn prepare<
    U: Crossing,
    K: Kind,
    const PANELS: usize,
    const CODES: usize,
    const MINS: bool,
    const LATER: bool,
>(
    panel: &Panel<'_>,
    at: At,
    into: *mut Unfolded<U, PANELS>,
) {
    let (count, groups) = const { (lines(CODES), groups(CODES)) };
    let (b, p) = (at.block, at.place);
    let lines = &panel.lines[b * count..][..count];
    // The block behind this one, or the first of the panel that takes this one's place.
    let panels_between = if b + 1 == at.blocks { at.together - 1 } else { 0 };
    for line in 0..count {
        ask_for(lines.as_ptr().wrapping_add((1 + panels_between * at.blocks) * count + line));
    }
    let (scales, mins) = (K::of(panel.scales), K::of(panel.mins.unwrap_or(panel.scales)));
    // SAFETY: the caller vouches for the instructions, and for the place.
    unsafe {
        let factors = &raw mut (*into).factors[b % 2];
        for g in 0..groups {
            let entry = K::at(scales, b * groups + g, b);
            ask_for(entry.place().wrapping_add(size_of::<Line>()));
            (*factors)[g].scales[p] = U::factors(entry);
            if MINS {
                let entry = K::at(mins, b * groups + g, b);
                ask_for(entry.place().wrapping_add(size_of::<Line>()));
                (*factors)[g].mins[p] = U::factors(entry);
            }
            if LATER && CODES == NIBBLES {
                continue;
            }
            let mut begin = U::begin(0);
            for pair in g * PAIRS / groups..(g + 1) * PAIRS / groups {
                let codes = unfold::<U, CODES>(panel, lines, pair);
                for half in 0..2 {
                    let (first, second) = (codes[2 * half], codes[2 * half + 1]);
                    begin = U::less_products(begin, first, second);
                    (*into).codes[2 * pair + half][0][p] = first;
                    (*into).codes[2 * pair + half][1][p] = second;
                }
            }
            (*into).begins[g][p] = begin;
        }
    }
}

/// The codes that meet four words.
///
/// # Safety
/// The machine must have the unit's instructions.
#[inline(always)]
unsafe fn unfold<U: Crossing, const CODES: usize>(
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
