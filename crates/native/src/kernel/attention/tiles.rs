//! Scores and weighted values of many queries at a time, on the matrix unit.
//!
//! It multiplies bytes, so numbers of 16 bits are taken apart: an upper byte with a sign, and a lower one without. Four
//! products of bytes make one of 16 bits, exactly: what comes out is what units find that multiply them whole.

use std::arch::x86_64::*;

use super::PAGE;
use super::answer::{Stretch, TOKENS, Worker};
use super::page::HeadPage;
use super::plan::SEGMENT;
use crate::kernel::matmul::at_least;
use crate::kernel::unit::amx::{self, Operands, Shape, Sums, TILE};
use crate::kernel::unit::avx512::Vnni;
use crate::kernel::unit::{Factors, LANES, Line, Pairs, Unit};

/// Queries for which it is worth to take a page apart.
const MANY: usize = 16;

/// Numbers of a row that a tile has, and the words of 32 bits that hold them.
const WIDE: usize = 64;
const WORDS: usize = WIDE / 2;

/// Pages whose tokens a tile has.
const PAGES: usize = WIDE / PAGE;

/// A thread's memory for tiles.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// Of each row of queries or weights: its upper bytes, then its lower ones.
    rows: Vec<Line>,
    /// Keys or values: a tile of upper bytes, then one of lower bytes, for each 64 numbers of a row.
    tiles: Vec<Line>,
    sums: Sums,
}

/// Are rows of so many words and values of this width such that tiles can be filled?
pub(super) fn suits(words: usize, width: usize) -> bool {
    words.is_multiple_of(WORDS) && width.is_multiple_of(LANES)
}

/// Are so many queries worth it?
pub(super) fn is_worth(queries: usize) -> bool {
    queries >= MANY
}

/// Gets the unit ready for one of the next two, or gives it back.
///
/// # Safety
/// The process must be allowed to use the unit.
pub(super) unsafe fn begin() {
    // SAFETY: the caller's promise.
    unsafe { Shape::FULL.load() }
}

/// # Safety
/// As for [`begin`].
pub(super) unsafe fn end() {
    // SAFETY: the caller's promise.
    unsafe { amx::release() }
}

impl Memory {
    /// Takes rows of so many words apart.
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    pub fn take_apart(&mut self, rows: &[i32], words: usize) {
        let steps = words / WORDS;
        let count = rows.len() / words;
        // A tile may read rows behind the last, which nobody asks for.
        let into = at_least(&mut self.rows, (count + TILE) * 2 * steps);
        let (upper, lower) = (order(1), order(0));
        for (row, into) in rows.chunks_exact(words).zip(into.chunks_exact_mut(2 * steps)) {
            let (high, low) = into.split_at_mut(steps);
            for (step, numbers) in row.as_chunks::<WORDS>().0.iter().enumerate() {
                // SAFETY: reads the 128 bytes of these words, and writes lines of 64, which are aligned.
                unsafe {
                    let a = _mm512_loadu_si512(numbers.as_ptr().cast());
                    let b = _mm512_loadu_si512(numbers[WORDS / 2..].as_ptr().cast());
                    let (upper, lower) =
                        (_mm512_permutex2var_epi8(a, upper, b), _mm512_permutex2var_epi8(a, lower, b));
                    _mm512_store_si512(high[step].0.as_mut_ptr().cast(), upper);
                    _mm512_store_si512(low[step].0.as_mut_ptr().cast(), lower);
                }
            }
        }
    }

    /// Sums of the products of some rows with the tiles, of which a row has so many; they are read from a byte on.
    ///
    /// # Safety
    /// The unit must be ready, and these rows taken apart.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn multiply(&mut self, first: usize, steps: usize, byte: usize, count: usize) {
        let rows = &self.rows[first * 2 * steps..][..TILE * 2 * steps];
        let (high, low) = (rows.as_ptr().cast::<u8>(), rows[steps..].as_ptr().cast::<u8>());
        // SAFETY: the caller's promise; where a byte is given, what is read beyond a row's end meets zeros.
        unsafe {
            amx::clear(false);
            for step in 0..count {
                let tiles = &self.tiles[step * 2 * TILE..][..2 * TILE];
                amx::multiply_whole(Operands {
                    high: high.add(byte + step * WIDE),
                    low: low.add(byte + step * WIDE),
                    stride: 2 * steps * size_of::<Line>(),
                    weights: [tiles.as_ptr(), tiles[TILE..].as_ptr()],
                });
            }
            amx::store(&mut self.sums, false);
        }
    }

    /// The sum of a row of the last product.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn sum(&self, row: usize) -> __m512i {
        let [high, middle, low] = &self.sums.0;
        // SAFETY: each reads the 64 bytes of a row, which are aligned.
        let sums = |of: &[[i32; LANES]; TILE]| unsafe { _mm512_load_si512(of[row].as_ptr().cast()) };
        let (high, middle, low) = (sums(high), sums(middle), sums(low));
        let upper = _mm512_add_epi32(_mm512_slli_epi32::<16>(high), _mm512_slli_epi32::<8>(middle));
        _mm512_add_epi32(upper, low)
    }

    /// Fills a line of both tiles with 16 times two pairs of numbers.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn put(&mut self, step: usize, line: usize, a: &[i16; 2 * PAGE], b: &[i16; 2 * PAGE]) {
        const ODD: u64 = 0xaaaa_aaaa_aaaa_aaaa;
        let tiles = &mut self.tiles[step * 2 * TILE..][..2 * TILE];
        // SAFETY: reads the 64 bytes of both, and writes lines of as many, which are aligned.
        unsafe {
            let a = _mm512_loadu_si512(a.as_ptr().cast());
            let b = _mm512_loadu_si512(b.as_ptr().cast());
            let upper = _mm512_mask_blend_epi8(ODD, _mm512_srli_epi16::<8>(a), b);
            let lower = _mm512_mask_blend_epi8(ODD, a, _mm512_slli_epi16::<8>(b));
            _mm512_store_si512(tiles[line].0.as_mut_ptr().cast(), upper);
            _mm512_store_si512(tiles[TILE + line].0.as_mut_ptr().cast(), lower);
        }
    }
}

/// Which bytes of 64 numbers are their upper (1) or lower (0) ones, in the order in which [`Memory::put`] has them: of four
/// neighbours the two in the middle change places.
#[inline]
#[target_feature(enable = "avx512f")]
fn order(upper: u8) -> __m512i {
    let mut order = [0; WIDE];
    for (at, byte) in order.iter_mut().enumerate() {
        let number = at / 4 * 4 + [0, 2, 1, 3][at % 4];
        *byte = 2 * number as u8 + upper;
    }
    // SAFETY: reads the 64 bytes of the array.
    unsafe { _mm512_loadu_si512(order.as_ptr().cast()) }
}

/// Scores of a stretch of queries, which were taken apart, against some pages.
///
/// # Safety
/// The unit must be ready.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,fma,f16c")]
pub(super) unsafe fn score(at: Stretch, pages: &[HeadPage<'_, i16>], worker: &mut Worker) {
    let Worker { scales, scores, tiles, .. } = worker;
    let (scores, _) = scores.as_chunks_mut::<PAGE>();
    let steps = at.words / WORDS;
    at_least(&mut tiles.tiles, steps * 2 * TILE);
    for (level, page) in (at.level..).zip(pages) {
        for pair in 0..at.words / 2 {
            tiles.put(pair / TILE, pair % TILE, &page.keys[2 * pair], &page.keys[2 * pair + 1]);
        }
        for first in (at.first..at.first + at.count).step_by(TILE) {
            // SAFETY: the caller's promise; these are the unit's instructions.
            unsafe {
                tiles.multiply(first, steps, 0, steps);
                let factors = Vnni::factors(Factors::Full(page.key_scales));
                for query in first..(at.first + at.count).min(first + TILE) {
                    let sum = tiles.sum(query - first);
                    scores[query * SEGMENT + level] =
                        Vnni::store(Vnni::add_sums(Vnni::zero(), sum, factors, scales[query]));
                }
            }
        }
    }
}

/// Adds the values of some pages, weighted, to the sums of a stretch of queries, whose weights were taken apart.
///
/// # Safety
/// The unit must be ready.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,fma,f16c")]
pub(super) unsafe fn weigh(at: Stretch, pages: &[HeadPage<'_, i16>], worker: &mut Worker) {
    let Worker { sums, tiles, .. } = worker;
    let (sums, _) = sums.as_chunks_mut::<LANES>();
    let (lanes, steps) = (at.width / LANES, pages.len().div_ceil(PAGES));
    at_least(&mut tiles.tiles, steps * 2 * TILE);
    for lane in 0..lanes {
        for (step, pages) in pages.chunks(PAGES).enumerate() {
            for line in 0..TILE {
                let (page, pair) = (line / (TILE / PAGES), line % (TILE / PAGES) * 2);
                match pages.get(page) {
                    Some(page) => {
                        let values = |pair: usize| &page.values[pair * lanes + lane];
                        tiles.put(step, line, values(pair), values(pair + 1));
                    }
                    None => tiles.put(step, line, &[0; 2 * PAGE], &[0; 2 * PAGE]),
                }
            }
        }
        for first in (at.first..at.first + at.count).step_by(TILE) {
            // SAFETY: the caller's promise; these are the unit's instructions.
            unsafe {
                tiles.multiply(first, TOKENS / WIDE, at.level * PAGE, steps);
                for query in first..(at.first + at.count).min(first + TILE) {
                    let into = &mut sums[query * lanes + lane];
                    let sum = _mm512_add_epi32(Vnni::load_sums(into), tiles.sum(query - first));
                    Vnni::store_sums(sum, into);
                }
            }
        }
    }
}
