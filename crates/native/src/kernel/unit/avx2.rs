//! The vector unit of x86-64 with 256 bits.

mod walk;

use std::arch::x86_64::*;

use super::{Crossing, Factors, Field, LANES, Line, Pairs, Unit, Walk, Whole};

/// Two halves of 8 lanes.
#[derive(Debug)]
pub(crate) struct Avx2;

// Every `unsafe` calls an instruction of the unit, which the caller vouches for, or reads or writes exactly the bytes of a
// reference.
impl Unit for Avx2 {
    type Sums = [__m256i; 2];
    type Codes = [__m256i; 2];
    type Strip = [__m256i; 2];
    type List = __m256i;
    type Floats = [__m256; 2];
    const ROWS: usize = 3;
    const WIDE: bool = false;
    const PER_WORD: usize = 2;
    const ADDED: i32 = 0;

    #[inline(always)]
    unsafe fn zero() -> [__m256; 2] {
        // SAFETY: see above.
        unsafe { [_mm256_setzero_ps(); 2] }
    }

    #[inline(always)]
    unsafe fn begin(sum: i32) -> [__m256i; 2] {
        // SAFETY: see above.
        unsafe { [_mm256_set1_epi32(sum); 2] }
    }

    #[inline(always)]
    unsafe fn nibbles<const K: usize>(line: &Line) -> [__m256i; 2] {
        // SAFETY: see above.
        unsafe { [nibble_pairs_half::<K>(half(line, 0)), nibble_pairs_half::<K>(half(line, 1))] }
    }

    #[inline(always)]
    unsafe fn list(numbers: &[i8; 16]) -> __m256i {
        // SAFETY: see above.
        unsafe { _mm256_broadcastsi128_si256(_mm_loadu_si128(numbers.as_ptr().cast())) }
    }

    #[inline(always)]
    unsafe fn listed<const K: usize>(line: &Line, list: __m256i) -> [__m256i; 2] {
        // SAFETY: see above.
        unsafe { [listed_pairs_half::<K>(half(line, 0), list), listed_pairs_half::<K>(half(line, 1), list)] }
    }

    #[inline(always)]
    unsafe fn strip<const WIDTH: usize, const SECOND: usize>(lines: &[Line], pair: usize) -> [__m256i; 2] {
        // SAFETY: see above.
        unsafe { [strip_half::<WIDTH, SECOND>(lines, pair, 0), strip_half::<WIDTH, SECOND>(lines, pair, 1)] }
    }

    #[inline(always)]
    unsafe fn strip_codes<const WIDTH: usize, const K: usize>(strip: [__m256i; 2]) -> [__m256i; 2] {
        // SAFETY: see above.
        unsafe { [strip_pairs_half::<WIDTH, K>(strip[0]), strip_pairs_half::<WIDTH, K>(strip[1])] }
    }

    #[inline(always)]
    unsafe fn dot(sums: [__m256i; 2], codes: [__m256i; 2], word: i32) -> [__m256i; 2] {
        // SAFETY: see above.
        unsafe {
            let word = _mm256_set1_epi32(word);
            [
                _mm256_add_epi32(sums[0], _mm256_madd_epi16(codes[0], word)),
                _mm256_add_epi32(sums[1], _mm256_madd_epi16(codes[1], word)),
            ]
        }
    }

    #[inline(always)]
    unsafe fn factors(from: Factors<'_>) -> [__m256; 2] {
        // SAFETY: see above.
        unsafe {
            match from {
                Factors::Half(half) => {
                    let half = half.as_ptr().cast::<__m128i>();
                    [_mm256_cvtph_ps(_mm_loadu_si128(half)), _mm256_cvtph_ps(_mm_loadu_si128(half.add(1)))]
                }
                Factors::Full(full) => {
                    [_mm256_loadu_ps(full.as_ptr()), _mm256_loadu_ps(full.as_ptr().add(8))]
                }
                Factors::Fine(steps, of) => {
                    let steps = _mm_loadu_si128(steps.as_ptr().cast());
                    let of = of.as_ptr().cast::<__m128i>();
                    [
                        multiples(steps, _mm_loadu_si128(of)),
                        multiples(_mm_srli_si128::<8>(steps), _mm_loadu_si128(of.add(1))),
                    ]
                }
                Factors::Exponents(exponents) => {
                    let exponents = _mm_loadu_si128(exponents.as_ptr().cast());
                    [powers(exponents), powers(_mm_srli_si128::<8>(exponents))]
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn add_sums(
        results: [__m256; 2],
        sums: [__m256i; 2],
        factors: [__m256; 2],
        scale: f32,
    ) -> [__m256; 2] {
        // SAFETY: see above.
        unsafe {
            let scale = _mm256_set1_ps(scale);
            [
                _mm256_fmadd_ps(_mm256_cvtepi32_ps(sums[0]), _mm256_mul_ps(factors[0], scale), results[0]),
                _mm256_fmadd_ps(_mm256_cvtepi32_ps(sums[1]), _mm256_mul_ps(factors[1], scale), results[1]),
            ]
        }
    }

    #[inline(always)]
    unsafe fn add_scaled(results: [__m256; 2], factors: [__m256; 2], scale: f32) -> [__m256; 2] {
        // SAFETY: see above.
        unsafe {
            let scale = _mm256_set1_ps(scale);
            [_mm256_fmadd_ps(factors[0], scale, results[0]), _mm256_fmadd_ps(factors[1], scale, results[1])]
        }
    }

    #[inline(always)]
    unsafe fn store(results: [__m256; 2]) -> [f32; LANES] {
        let mut out = [0.0; LANES];
        // SAFETY: see above.
        unsafe {
            _mm256_storeu_ps(out.as_mut_ptr(), results[0]);
            _mm256_storeu_ps(out.as_mut_ptr().add(8), results[1]);
        }
        out
    }
}

// As above.
impl Pairs for Avx2 {
    // There is room for more, but one line at a time is no slower and leaves six queries theirs: so little that two never fit.
    const HELD: usize = 3;

    #[inline(always)]
    unsafe fn shorts(from: &[i16; 2 * LANES]) -> [__m256i; 2] {
        let from = from.as_ptr().cast::<__m256i>();
        // SAFETY: see above.
        unsafe { [_mm256_loadu_si256(from), _mm256_loadu_si256(from.add(1))] }
    }

    #[inline(always)]
    unsafe fn bytes_as_shorts(from: &[i8; 2 * LANES]) -> [__m256i; 2] {
        let from = from.as_ptr().cast::<__m128i>();
        // SAFETY: see above.
        unsafe {
            [_mm256_cvtepi8_epi16(_mm_loadu_si128(from)), _mm256_cvtepi8_epi16(_mm_loadu_si128(from.add(1)))]
        }
    }

    #[inline(always)]
    unsafe fn load_sums(from: &[i32; LANES]) -> [__m256i; 2] {
        let from = from.as_ptr().cast::<__m256i>();
        // SAFETY: see above.
        unsafe { [_mm256_loadu_si256(from), _mm256_loadu_si256(from.add(1))] }
    }

    #[inline(always)]
    unsafe fn store_sums(sums: [__m256i; 2], into: &mut [i32; LANES]) {
        let into = into.as_mut_ptr().cast::<__m256i>();
        // SAFETY: see above.
        unsafe {
            _mm256_storeu_si256(into, sums[0]);
            _mm256_storeu_si256(into.add(1), sums[1]);
        }
    }

    #[inline(always)]
    unsafe fn walk<T: Whole, const N: usize, const WIDE: usize>(
        of: Walk<T, N, WIDE>,
        sums: &mut [[[__m256i; 2]; WIDE]; N],
    ) {
        // SAFETY: the caller's promise.
        unsafe { walk::walk_lines(of, sums) }
    }
}

// As above.
impl Crossing for Avx2 {
    const PLAIN: u8 = 0;

    #[inline(always)]
    unsafe fn less(codes: [__m256i; 2], surplus: i16) -> [__m256i; 2] {
        // SAFETY: see above.
        unsafe {
            let surplus = _mm256_set1_epi16(surplus);
            [_mm256_sub_epi16(codes[0], surplus), _mm256_sub_epi16(codes[1], surplus)]
        }
    }

    #[inline(always)]
    unsafe fn less_products(sums: [__m256i; 2], first: [__m256i; 2], second: [__m256i; 2]) -> [__m256i; 2] {
        // SAFETY: see above.
        unsafe {
            [
                _mm256_sub_epi32(sums[0], _mm256_madd_epi16(first[0], second[0])),
                _mm256_sub_epi32(sums[1], _mm256_madd_epi16(first[1], second[1])),
            ]
        }
    }
}

/// One half of a line.
#[inline]
#[target_feature(enable = "avx2")]
fn half(line: &Line, at: usize) -> __m256i {
    // SAFETY: reads 32 of a line's 64 bytes, which are aligned to 64; `at` is 0 or 1, or else the slice panics.
    unsafe { _mm256_load_si256(line.0[32 * at..][..32].as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn nibble_pairs_half<const K: usize>(half: __m256i) -> __m256i {
    let low = _mm256_set1_epi16(15);
    match K {
        0 => _mm256_and_si256(half, low),
        1 => _mm256_and_si256(_mm256_srli_epi16::<4>(half), low),
        2 => _mm256_and_si256(_mm256_srli_epi16::<8>(half), low),
        _ => _mm256_srli_epi16::<12>(half),
    }
}

/// Half of a strip of a block: shifts and a mask for each plane.
#[inline]
#[target_feature(enable = "avx2")]
fn strip_half<const WIDTH: usize, const SECOND: usize>(lines: &[Line], pair: usize, at: usize) -> __m256i {
    let (low, top) = Field::of_strip(WIDTH, pair, SECOND);
    let codes = field_half(half(&lines[low.line], at), low);
    match top {
        Some(top) => _mm256_or_si256(codes, field_half(half(&lines[top.line], at), top)),
        None => codes,
    }
}

/// The bits of half a strip in one plane. What crosses from byte to byte is masked away.
#[inline]
#[target_feature(enable = "avx2")]
fn field_half(line: __m256i, of: Field) -> __m256i {
    let low = _mm256_srl_epi16(line, _mm_cvtsi32_si128(of.down as i32));
    let placed = match of.up {
        up @ ..0 => _mm256_srl_epi16(low, _mm_cvtsi32_si128(-up)),
        up => _mm256_sll_epi16(low, _mm_cvtsi32_si128(up)),
    };
    _mm256_and_si256(placed, _mm256_set1_epi8(of.mask as i8))
}

#[inline]
#[target_feature(enable = "avx2")]
fn strip_pairs_half<const WIDTH: usize, const K: usize>(strip: __m256i) -> __m256i {
    match (WIDTH, K) {
        (8, 0) => _mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(strip)),
        (8, _) => _mm256_srai_epi16::<8>(strip),
        (_, 0) => _mm256_and_si256(strip, _mm256_set1_epi16(0xff)),
        _ => _mm256_srli_epi16::<8>(strip),
    }
}

/// The nibble goes to the upper of two bytes, is looked up there, and comes down with its sign.
#[inline]
#[target_feature(enable = "avx2")]
fn listed_pairs_half<const K: usize>(half: __m256i, list: __m256i) -> __m256i {
    let upper = match K {
        0 => _mm256_slli_epi16::<8>(half),
        1 => _mm256_slli_epi16::<4>(half),
        2 => half,
        _ => _mm256_srli_epi16::<4>(half),
    };
    // An index with its highest bit set gives zero.
    let index = _mm256_or_si256(_mm256_and_si256(upper, _mm256_set1_epi16(0x0f00)), _mm256_set1_epi16(0x80));
    _mm256_srai_epi16::<8>(_mm256_shuffle_epi8(list, index))
}

/// The lower 8 of some bytes times 8 numbers in half precision.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn multiples(steps: __m128i, of: __m128i) -> __m256 {
    _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(steps)), _mm256_cvtph_ps(of))
}

/// The lower 8 of some exponents as floats.
#[inline]
#[target_feature(enable = "avx2")]
fn powers(exponents: __m128i) -> __m256 {
    _mm256_castsi256_ps(_mm256_slli_epi32::<23>(_mm256_cvtepu8_epi32(exponents)))
}
