//! Products on the matrix unit.
//!
//! The unit multiplies bytes and sums 64 products at a time, which leaves no place for a scale that changes every 32 weights.
//! So weights become whole numbers of 16 bits on their way to it, each output's with one scale: a code times its block's
//! scale, plus its minimum. Two bytes of a weight and two of an activation are four products of bytes. All sums are exact, so a
//! row's results do not depend on which rows are computed beside it.

use std::arch::x86_64::*;
use std::cell::RefCell;
use std::ops::Range;

use super::planes::Planes;
use super::table::Kind;
use super::tile::{BYTES, LISTED, NIBBLES, by_kind, groups};
use super::{BlockPanels, Panel};
use crate::kernel::sheet::Columns;
use crate::kernel::unit::amx::{self, Nothing, One, Parts, Shape, Sums, TILE, Tiles, Two};
use crate::kernel::unit::avx512::{Vnni8, nibble_quads, strip};
use crate::kernel::unit::{LANES, Line, Unit};
use crate::load::runs::Codes;

/// Rows that are multiplied together.
const ROWS: usize = 2 * TILE;

/// Steps of 64 inputs whose sums 32 bits hold, whatever the numbers.
const STEPS: usize = 512;

/// Lines that are asked for ahead of the one in use: fetching one from memory takes about as long as working through so many.
const AHEAD: usize = 32;

/// The largest weight of an output as a whole number: its upper byte has a sign.
const MOST: f32 = 127.0 * 256.0;

thread_local! {
    /// Weights on their way to the unit.
    static UNFOLDED: RefCell<Vec<Tiles>> = const { RefCell::new(Vec::new()) };
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
    fn new(panel: &Panel<'a>, norms: &[f32; LANES]) -> Self {
        // SAFETY: reads the 64 bytes of the norms.
        let norms = unsafe { _mm512_loadu_ps(norms.as_ptr()) };
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
            blocks: panel.lines.len() / lines_of(panel),
        }
    }

    /// Two blocks, as far as there are two: what is left of the last is multiplied with zeros. The unit's own work is done
    /// in between.
    ///
    /// # Safety
    /// As for [`Parts`].
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,fma,f16c")]
    unsafe fn step<const CODES: usize, const MINS: bool>(
        &self,
        step: usize,
        into: &mut Tiles,
        beside: &impl Parts,
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            self.half::<CODES, MINS, 0, 1>(2 * step, into, beside);
            self.half::<CODES, MINS, 2, 3>(2 * step, into, beside);
            self.half::<CODES, MINS, 4, 5>(2 * step + 1, into, beside);
            self.half::<CODES, MINS, 6, 7>(2 * step + 1, into, beside);
        }
    }

    /// Half of a block: two pairs of strips.
    ///
    /// # Safety
    /// As for [`Parts`].
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,fma,f16c")]
    unsafe fn half<const CODES: usize, const MINS: bool, const FIRST: usize, const SECOND: usize>(
        &self,
        block: usize,
        into: &mut Tiles,
        beside: &impl Parts,
    ) {
        // SAFETY: the caller vouches for the unit.
        unsafe {
            if block < self.blocks {
                let numbers = self.numbers::<CODES, MINS, FIRST>(block);
                self.pair::<CODES, MINS, FIRST>(block, numbers, into);
                beside.part::<FIRST>();
                self.pair::<CODES, MINS, SECOND>(block, numbers, into);
                beside.part::<SECOND>();
            } else {
                beside.part::<FIRST>();
                beside.part::<SECOND>();
            }
        }
    }

    /// What codes of a block are to be multiplied with, and what is to be added, as whole numbers.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,fma,f16c")]
    fn numbers<const CODES: usize, const MINS: bool, const AT: usize>(&self, block: usize) -> [__m512i; 2] {
        let groups = const { groups(CODES) };
        let entry = block * groups + AT % 4 * groups / 4;
        // SAFETY: these are the unit's instructions.
        let factors = |part| unsafe {
            let factors = K::at(part, entry, block);
            if AT.is_multiple_of(4) {
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
        into: &mut Tiles,
    ) {
        let count = if CODES == LISTED { 4 } else { CODES };
        let lines = &self.lines[block * count..][..count];
        for line in AT % 4 * count / 4..(AT % 4 + 1) * count / 4 {
            ask_for(lines.as_ptr().wrapping_add(line + AHEAD).cast());
        }
        let first = words::<CODES, 0>(lines, AT % 4, self.list);
        put::<MINS>(first, numbers, 2 * AT, into);
        let second = words::<CODES, 1>(lines, AT % 4, self.list);
        put::<MINS>(second, numbers, 2 * AT + 1, into);
    }
}

/// Brings a line into the cache before it is needed. It may lie behind the panel, where the next begins if there is one.
#[inline(always)]
fn ask_for(line: *const u8) {
    // SAFETY: prefetching is a hint that reads nothing and cannot fault; SSE is part of x86-64.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(line.cast()) };
}

/// Multiplies codes, and puts the upper bytes of what comes out into a line of the first tile, and the lower ones into the
/// second.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn put<const MINS: bool>(
    [mut even, mut odd]: [__m512i; 2],
    [times, plus]: [__m512i; 2],
    at: usize,
    into: &mut Tiles,
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
        _mm512_store_si512(into[at].0.as_mut_ptr().cast(), upper);
        _mm512_store_si512(into[TILE + at].0.as_mut_ptr().cast(), lower);
    }
}

/// Lines of a block.
fn lines_of(panel: &Panel<'_>) -> usize {
    match panel.codes {
        Codes::Bytes => BYTES,
        Codes::Listed(_) => 4,
        Codes::Bits(width, _) => width,
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
pub(super) fn norms(panel: &Panel<'_>) -> [f32; LANES] {
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,fma,f16c")]
    fn of_kind<K: Kind, const CODES: usize, const MINS: bool>(panel: &Panel<'_>) -> [f32; LANES] {
        let (scales, mins) = (K::of(panel.scales), K::of(panel.mins.unwrap_or(panel.scales)));
        let (groups, half) = (const { groups(CODES) }, middle(panel.codes));
        let size = |x| _mm512_abs_ps(x);
        let (mut largest, mut bad) = (_mm512_setzero_ps(), _mm512_setzero_ps());
        for b in 0..panel.lines.len() / lines_of(panel) {
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
    by_kind!(panel, of_kind(panel))
}

/// Some rows against some panels of one matrix, whose results go to these columns.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,fma,f16c")]
pub(super) fn multiply(
    x: Planes<'_>,
    rows: Range<usize>,
    weights: &BlockPanels,
    panels: Range<usize>,
    out: &mut Columns<'_>,
) {
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,fma,f16c")]
    fn of_kind<K: Kind, const CODES: usize, const MINS: bool>(work: &mut Work<'_, '_>, panels: Range<usize>) {
        // SAFETY: an `Isa` of this level exists only where the unit was seen to work.
        unsafe { work.panels::<K, CODES, MINS>(panels) }
    }
    UNFOLDED.with_borrow_mut(|tiles| {
        let (shaped, sums) = (0, Sums::default());
        let mut work = Work { x, rows, weights, norms: [0.0; LANES], column: 0, tiles, shaped, sums, out };
        by_kind!(weights.panel(panels.start), of_kind(&mut work, panels));
    });
    // SAFETY: an `Isa` of this level exists only where the unit was seen to work.
    unsafe { amx::release() };
}

/// Some rows that meet one panel after the other.
struct Work<'a, 'c> {
    x: Planes<'a>,
    rows: Range<usize>,
    weights: &'a BlockPanels,
    /// Of the panel at hand.
    norms: [f32; LANES],
    column: usize,
    tiles: &'a mut Vec<Tiles>,
    /// How many rows the registers have the shape for.
    shaped: usize,
    sums: Sums,
    out: &'a mut Columns<'c>,
}

impl Work<'_, '_> {
    /// Unfolds weights while the unit works on those before, from the first of a panel to the last, and on to the next panel.
    ///
    /// # Safety
    /// The process must be allowed to use the unit.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,fma,f16c")]
    unsafe fn panels<K: Kind, const CODES: usize, const MINS: bool>(&mut self, panels: Range<usize>) {
        let weights = self.weights;
        let open = |panel: usize| Unfold::<K>::new(&weights.panel(panel), &weights.norms[panel]);
        let mut unfold = open(panels.start);
        let steps = unfold.blocks.div_ceil(2);
        // All of a panel's for many rows to use; for few, only those in use. And one more, that comes next.
        let kept = 1 + if self.rows.len() > ROWS { steps } else { 1 };
        if self.tiles.len() < kept {
            self.tiles.resize(kept, [Line([0; 64]); 2 * TILE]);
        }
        // SAFETY: the unit does nothing yet.
        unsafe { unfold.step::<CODES, MINS>(0, &mut self.tiles[0], &Nothing) };
        // Where the panel's first is.
        let mut begin = 0;
        for panel in panels.clone() {
            self.norms = weights.norms[panel];
            // A line for a panel: too few for the processor to see that there will be more.
            if let Some(later) = weights.norms.get(panel + 2) {
                ask_for(later.as_ptr().cast());
            }
            let next = if panel + 1 < panels.end { Some(open(panel + 1)) } else { None };
            for first in self.rows.clone().step_by(ROWS) {
                let count = (self.rows.end - first).min(ROWS);
                if self.shaped != count {
                    self.shaped = count;
                    // SAFETY: the caller's promise.
                    unsafe { if count > TILE { Shape::FULL.load() } else { Shape::new(count).load() } };
                }
                for row in first..first + count {
                    self.out.expect(row, self.column);
                }
                // SAFETY: the registers have the shape of these rows.
                unsafe { amx::clear(count > TILE) };
                for step in 0..steps {
                    let ahead = match step + 1 < steps {
                        true if first == self.rows.start => Some((&unfold, step + 1)),
                        false if first + count == self.rows.end => next.as_ref().map(|next| (next, 0)),
                        _ => None,
                    };
                    let x = self.x;
                    macro_rules! multiply {
                        ($parts:ident, $rows:expr) => {
                            if let Some((unfold, step_ahead)) = ahead {
                                let at = [(begin + step) % kept, (begin + step + 1) % kept];
                                let [now, next] = self.tiles.get_disjoint_mut(at).expect("one more is kept");
                                // SAFETY: as above; `Planes` has 64 bytes at every step of a row.
                                unsafe { unfold.step::<CODES, MINS>(step_ahead, next, &$parts($rows, now)) };
                            } else {
                                // SAFETY: as above.
                                unsafe { amx::multiply(&$parts($rows, &self.tiles[(begin + step) % kept])) };
                            }
                        };
                    }
                    if count > TILE {
                        multiply!(Two, [x.rows(first, step), x.rows(first + TILE, step)]);
                    } else {
                        multiply!(One, x.rows(first, step));
                    }
                    // Before sums no longer fit.
                    if step % STEPS == STEPS - 1 && step + 1 < steps {
                        // SAFETY: as above.
                        unsafe {
                            self.finish(first..first + count, step < STEPS);
                            amx::clear(count > TILE);
                        }
                    }
                }
                // SAFETY: as above.
                unsafe { self.finish(first..first + count, steps <= STEPS) };
            }
            self.column += LANES;
            begin += steps;
            if let Some(next) = next {
                unfold = next;
            }
        }
    }

    /// Gives out what the unit summed up for some rows, or adds it to what it gave before.
    ///
    /// # Safety
    /// As for [`Parts`].
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,fma")]
    unsafe fn finish(&mut self, rows: Range<usize>, begun: bool) {
        let mut first = rows.start;
        for second in [false, true] {
            if first >= rows.end {
                break;
            }
            // SAFETY: the registers have the shape of these rows.
            unsafe { amx::store(&mut self.sums, second) };
            for at in 0..(rows.end - first).min(TILE) {
                let scale = self.x.scale(first + at);
                let mut results = [0.0; LANES];
                // SAFETY: reads and writes the 64 bytes of sixteen numbers.
                unsafe {
                    let sums =
                        |i: usize| _mm512_cvtepi32_ps(_mm512_load_si512(self.sums.0[i][at].as_ptr().cast()));
                    let sum = _mm512_fmadd_ps(sums(1), _mm512_set1_ps(256.0), sums(2));
                    let sum = _mm512_fmadd_ps(sums(0), _mm512_set1_ps(65536.0), sum);
                    let scales = _mm512_mul_ps(_mm512_loadu_ps(self.norms.as_ptr()), _mm512_set1_ps(scale));
                    _mm512_storeu_ps(results.as_mut_ptr(), _mm512_mul_ps(sum, scales));
                }
                match begun {
                    true => self.out.put(first + at, self.column, &results),
                    false => self.out.add(first + at, self.column, &results),
                }
            }
            first += TILE;
        }
    }
}
