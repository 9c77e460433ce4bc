//! Weights on their way to the matrix unit.
//!
//! The unit multiplies bytes and sums 64 products at a time, which leaves no place for a scale that changes every 32 weights.
//! So weights become whole numbers of 16 bits, each output's with one scale: a code times its block's scale, plus its minimum.

use std::arch::x86_64::*;
use std::ops::Range;

use super::table::Kind;
use super::tile::{BYTES, LISTED, NIBBLES, by_kind, groups};
use super::{BlockPanels, Panel};
use crate::kernel::unit::amx::{self, Parts, TILE, Tiles};
use crate::kernel::unit::avx512::{Vnni8, nibble_quads, strip};
use crate::kernel::unit::{LANES, Line, Unit, ask_for};
use crate::load::runs::Codes;

/// Lines that are asked for ahead of the one in use: fetching one from memory takes about as long as working through so many.
const AHEAD: usize = 32;

/// The largest weight of an output as a whole number: its upper byte has a sign.
const MOST: f32 = 127.0 * 256.0;

/// Panels, one after the other, of which some steps are taken before they are needed.
pub(super) struct Ahead<'a, K: Kind> {
    weights: &'a BlockPanels,
    /// Those that were not begun.
    panels: Range<usize>,
    /// The one at hand, until all are done.
    unfold: Option<Unfold<'a, K>>,
    step: usize,
    /// Steps of a panel.
    pub steps: usize,
}

impl<'a, K: Kind> Ahead<'a, K> {
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,fma,f16c")]
    pub fn new(weights: &'a BlockPanels, mut panels: Range<usize>) -> Self {
        let unfold = panels.next().map(|panel| Unfold::new(weights, panel));
        let steps = unfold.as_ref().map_or(0, |unfold| unfold.blocks.div_ceil(2));
        Ahead { weights, panels, unfold, step: 0, steps }
    }

    /// The next step, if there is one. The unit's own work is done in between.
    ///
    /// # Safety
    /// As for [`Parts`].
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,fma,f16c")]
    pub unsafe fn next<const CODES: usize, const MINS: bool>(
        &mut self,
        into: &mut Tiles,
        beside: &impl Parts,
    ) {
        let Some(unfold) = &self.unfold else {
            // SAFETY: the caller's promise.
            return unsafe { amx::multiply(beside) };
        };
        // SAFETY: the caller's promise.
        unsafe { unfold.step::<CODES, MINS>(self.step, into, beside) };
        self.step += 1;
        if self.step == self.steps {
            self.step = 0;
            self.unfold = self.panels.next().map(|panel| Unfold::new(self.weights, panel));
        }
    }
}

/// How far up a list's numbers can be moved in a byte.
fn room(list: &[i8; 16]) -> u32 {
    let largest = list.iter().map(|number| number.unsigned_abs()).max().unwrap_or(1).max(1);
    (128 / u32::from(largest)).ilog2()
}

/// What a code, as a whole number whose bits are the highest of sixteen, is taken to be relative to: the largest there is.
fn middle(codes: Codes) -> f32 {
    match codes {
        Codes::Bytes => 128.0,
        Codes::Listed(list) => (128 >> room(list)) as f32,
        Codes::Bits(width, _) => (1 << (width - 1)) as f32,
    }
}

/// A panel whose weights are to become whole numbers.
struct Unfold<'a, K: Kind> {
    lines: &'a [Line],
    scales: K::Part<'a>,
    /// Where there are minima; else the scales again.
    mins: K::Part<'a>,
    list: __m512i,
    /// The inverse of the outputs' scales.
    inverse: __m512,
    middle: f32,
    blocks: usize,
}

impl<'a, K: Kind> Unfold<'a, K> {
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,fma,f16c")]
    fn new(weights: &'a BlockPanels, panel: usize) -> Self {
        // SAFETY: reads the 64 bytes of the norms.
        let norms = unsafe { _mm512_loadu_ps(weights.norms[panel].as_ptr()) };
        let panel = weights.panel(panel);
        let list = match panel.codes {
            Codes::Listed(list) => list.map(|number| number << room(list)),
            _ => [0; 16],
        };
        // An output of nothing but zeros stays one.
        let some = _mm512_cmp_ps_mask::<_CMP_NEQ_UQ>(norms, _mm512_setzero_ps());
        Unfold {
            lines: panel.lines,
            scales: K::of(panel.scales),
            mins: K::of(panel.mins.unwrap_or(panel.scales)),
            // SAFETY: reads the 16 bytes of the list.
            list: _mm512_broadcast_i32x4(unsafe { _mm_loadu_si128(list.as_ptr().cast()) }),
            inverse: _mm512_maskz_div_ps(some, _mm512_set1_ps(1.0), norms),
            middle: middle(panel.codes),
            blocks: weights.blocks,
        }
    }

    /// Two blocks, as far as there are two: what is left of the last is multiplied with zeros. The unit's own work is done in
    /// between.
    ///
    /// # Safety
    /// As for [`Parts`].
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,fma,f16c")]
    unsafe fn step<const CODES: usize, const MINS: bool>(
        &self,
        step: usize,
        [upper, upper2, lower, lower2]: &mut Tiles,
        beside: &impl Parts,
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            self.block::<CODES, MINS, 0, 1, 2, 3>(2 * step, [upper, lower], beside);
            if 2 * step + 1 < self.blocks {
                self.block::<CODES, MINS, 4, 5, 6, 7>(2 * step + 1, [upper2, lower2], beside);
            } else {
                beside.part::<4>();
                beside.part::<5>();
                beside.part::<6>();
                beside.part::<7>();
            }
        }
    }

    /// A block, with these parts of the unit's work.
    ///
    /// # Safety
    /// As for [`Parts`].
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,fma,f16c")]
    unsafe fn block<
        const CODES: usize,
        const MINS: bool,
        const A: usize,
        const B: usize,
        const C: usize,
        const D: usize,
    >(
        &self,
        block: usize,
        [upper, lower]: [&mut [Line; TILE / 2]; 2],
        beside: &impl Parts,
    ) {
        let mut numbers = self.numbers::<CODES, MINS, 0>(block);
        // SAFETY: the caller vouches for the unit.
        unsafe {
            self.pair::<CODES, MINS, 0>(block, numbers, upper, lower);
            beside.part::<A>();
            self.pair::<CODES, MINS, 1>(block, numbers, upper, lower);
            beside.part::<B>();
            if const { groups(CODES) } > 1 {
                numbers = self.numbers::<CODES, MINS, 2>(block);
            }
            self.pair::<CODES, MINS, 2>(block, numbers, upper, lower);
            beside.part::<C>();
            self.pair::<CODES, MINS, 3>(block, numbers, upper, lower);
            beside.part::<D>();
        }
    }

    /// What codes of a block are to be multiplied with, and what is to be added, as whole numbers.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,fma,f16c")]
    fn numbers<const CODES: usize, const MINS: bool, const AT: usize>(&self, block: usize) -> [__m512i; 2] {
        let groups = const { groups(CODES) };
        let entry = block * groups + AT * groups / 4;
        // SAFETY: these are the unit's instructions.
        let factors = |part| unsafe {
            let factors = K::at(part, entry, block);
            if AT == 0 {
                ask_for(factors.place().wrapping_add(AHEAD * size_of::<Line>() / 4));
            }
            Vnni8::factors(factors)
        };
        let scales = _mm512_mul_ps(factors(self.scales), self.inverse);
        let scales = _mm512_mul_ps(scales, _mm512_set1_ps(self.middle));
        let plus = match MINS {
            true => twice(_mm512_fmadd_ps(factors(self.mins), self.inverse, scales)),
            false => _mm512_setzero_si512(),
        };
        [twice(scales), plus]
    }

    /// A pair of strips.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,fma,f16c")]
    fn pair<const CODES: usize, const MINS: bool, const AT: usize>(
        &self,
        block: usize,
        numbers: [__m512i; 2],
        upper: &mut [Line; TILE / 2],
        lower: &mut [Line; TILE / 2],
    ) {
        let count = if CODES == LISTED { 4 } else { CODES };
        let lines = &self.lines[block * count..][..count];
        for line in AT * count / 4..(AT + 1) * count / 4 {
            ask_for(lines.as_ptr().wrapping_add(line + AHEAD));
        }
        let first = words::<CODES, 0>(lines, AT, self.list);
        put::<MINS>(first, numbers, [&mut upper[2 * AT], &mut lower[2 * AT]]);
        let second = words::<CODES, 1>(lines, AT, self.list);
        put::<MINS>(second, numbers, [&mut upper[2 * AT + 1], &mut lower[2 * AT + 1]]);
    }
}

/// Multiplies codes, and puts the upper bytes of what comes out into a line of the first tile, and the lower ones into the
/// second.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn put<const MINS: bool>(
    [mut even, mut odd]: [__m512i; 2],
    [times, plus]: [__m512i; 2],
    [above, below]: [&mut Line; 2],
) {
    const ODD: u64 = 0xaaaa_aaaa_aaaa_aaaa;
    even = _mm512_mulhrs_epi16(even, times);
    odd = _mm512_mulhrs_epi16(odd, times);
    if MINS {
        even = _mm512_add_epi16(even, plus);
        odd = _mm512_add_epi16(odd, plus);
    }
    let upper = _mm512_mask_blend_epi8(ODD, _mm512_srli_epi16::<8>(even), odd);
    let lower = _mm512_mask_blend_epi8(ODD, even, _mm512_slli_epi16::<8>(odd));
    // SAFETY: both write the 64 bytes of a line, which are aligned.
    unsafe {
        _mm512_store_si512(above.0.as_mut_ptr().cast(), upper);
        _mm512_store_si512(below.0.as_mut_ptr().cast(), lower);
    }
}

/// The nearest whole numbers, each in both halves of its word.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn twice(x: __m512) -> __m512i {
    let whole = _mm512_cvtps_epi32(x);
    _mm512_mask_blend_epi16(0xaaaa_aaaa, whole, _mm512_slli_epi32::<16>(whole))
}

/// The first or second strip of a pair, with every code in the upper bits of a word and relative to its [`middle`]: its bytes
/// with even numbers, and those with odd ones.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn words<const CODES: usize, const SECOND: usize>(
    lines: &[Line],
    pair: usize,
    list: __m512i,
) -> [__m512i; 2] {
    let sign = _mm512_set1_epi16(i16::MIN);
    // `(x & mask) ^ sign`
    let masked = |x, bits: usize| {
        let mask = _mm512_set1_epi16((u16::MAX << (16 - bits)) as i16);
        _mm512_ternarylogic_epi32::<0b0111_1000>(sign, x, mask)
    };
    match CODES {
        BYTES | LISTED => {
            let bytes = match CODES {
                BYTES => strip::<8, SECOND>(lines, pair),
                // SAFETY: reads the 64 bytes of a line, which are aligned.
                _ => _mm512_shuffle_epi8(
                    list,
                    nibble_quads::<SECOND>(unsafe { _mm512_load_si512(lines[pair].0.as_ptr().cast()) }),
                ),
            };
            [_mm512_slli_epi16::<8>(bytes), _mm512_and_si512(bytes, _mm512_set1_epi16(0xff00_u16 as i16))]
        }
        NIBBLES => {
            // SAFETY: reads the 64 bytes of a line, which are aligned.
            let line = unsafe { _mm512_load_si512(lines[pair].0.as_ptr().cast()) };
            if SECOND == 0 {
                [
                    _mm512_xor_si512(_mm512_slli_epi16::<12>(line), sign),
                    masked(_mm512_slli_epi16::<4>(line), 4),
                ]
            } else {
                [masked(_mm512_slli_epi16::<8>(line), 4), masked(line, 4)]
            }
        }
        _ => {
            let bytes = strip::<CODES, SECOND>(lines, pair);
            let up = |x, by: usize| _mm512_sllv_epi16(x, _mm512_set1_epi16(by as i16));
            [_mm512_xor_si512(up(bytes, 16 - CODES), sign), masked(up(bytes, 8 - CODES), CODES)]
        }
    }
}

/// The scales that a panel's outputs have as whole numbers: the least that leave room for every weight and block. What is no
/// number makes one that is none.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,fma,f16c")]
pub(super) fn norms(panel: &Panel<'_>, blocks: usize) -> [f32; LANES] {
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,fma,f16c")]
    fn of_kind<K: Kind, const CODES: usize, const MINS: bool>(
        panel: &Panel<'_>,
        blocks: usize,
    ) -> [f32; LANES] {
        let (scales, mins) = (K::of(panel.scales), K::of(panel.mins.unwrap_or(panel.scales)));
        let (groups, half) = (const { groups(CODES) }, middle(panel.codes));
        let size = |x| _mm512_abs_ps(x);
        let (mut largest, mut bad) = (_mm512_setzero_ps(), _mm512_setzero_ps());
        for b in 0..blocks {
            for g in 0..groups {
                // SAFETY: these are the unit's instructions.
                let factors = |part| unsafe { Vnni8::factors(K::at(part, b * groups + g, b)) };
                let scale = factors(scales);
                let steps = _mm512_mul_ps(size(scale), _mm512_set1_ps(half));
                // The lowest and the highest that a code can say, and the room that its scale itself takes.
                let ends = match MINS {
                    false => steps,
                    true => {
                        let min = factors(mins);
                        bad = _mm512_fmadd_ps(min, _mm512_setzero_ps(), bad);
                        let end = _mm512_fmadd_ps(scale, _mm512_set1_ps(2.0 * half), min);
                        _mm512_max_ps(steps, _mm512_max_ps(size(min), size(end)))
                    }
                };
                bad = _mm512_fmadd_ps(scale, _mm512_setzero_ps(), bad);
                largest = _mm512_max_ps(largest, ends);
            }
        }
        let norms = _mm512_add_ps(_mm512_div_ps(largest, _mm512_set1_ps(MOST)), bad);
        // SAFETY: these are the unit's instructions.
        unsafe { Vnni8::store(norms) }
    }
    by_kind!(panel, of_kind(panel, blocks))
}
