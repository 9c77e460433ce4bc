//! The vector units of x86-64 with 512 bits.

use std::arch::x86_64::*;

use super::{Crossing, Factors, Field, LANES, Line, Pairs, Unit};

/// AVX-512 with its dot product of 16-bit numbers.
#[derive(Debug)]
pub(crate) struct Vnni;

/// AVX-512 without: a product and an addition.
#[derive(Debug)]
pub(crate) struct Avx512;

/// AVX-512 with its dot product of bytes, for activations of 8 bits.
#[derive(Debug)]
pub(crate) struct Vnni8;

/// They differ in how activations lie in a word, and in the instruction that multiplies it.
macro_rules! wide_unit {
    ($unit:ident, $per_word:literal, $added:literal, $nibbles:ident, $list:ident, $listed:ident, $strip_codes:ident, $dot:ident) => {
        // Every `unsafe` in here calls an instruction of the unit, which the caller vouches for, or reads or writes exactly
        // the 64 (32, for halves) bytes of a reference.
        impl Unit for $unit {
            type Sums = __m512i;
            type Codes = __m512i;
            type Strip = __m512i;
            type List = __m512i;
            type Floats = __m512;
            const ROWS: usize = 4;
            const WIDE: bool = true;
            const PER_WORD: usize = $per_word;
            const ADDED: i32 = $added;

            #[inline(always)]
            unsafe fn zero() -> __m512 {
                // SAFETY: see above.
                unsafe { _mm512_setzero_ps() }
            }

            #[inline(always)]
            unsafe fn begin(sum: i32) -> __m512i {
                // SAFETY: see above.
                unsafe { _mm512_set1_epi32(sum) }
            }

            #[inline(always)]
            unsafe fn nibbles<const K: usize>(line: &Line) -> __m512i {
                // SAFETY: see above.
                unsafe { $nibbles::<K>(_mm512_load_si512(line.0.as_ptr().cast())) }
            }

            #[inline(always)]
            unsafe fn list(numbers: &[i8; 16]) -> __m512i {
                // SAFETY: see above.
                unsafe { $list(_mm_loadu_si128(numbers.as_ptr().cast())) }
            }

            #[inline(always)]
            unsafe fn listed<const K: usize>(line: &Line, list: __m512i) -> __m512i {
                // SAFETY: see above.
                unsafe { $listed::<K>(_mm512_load_si512(line.0.as_ptr().cast()), list) }
            }

            #[inline(always)]
            unsafe fn strip<const WIDTH: usize, const SECOND: usize>(lines: &[Line], pair: usize) -> __m512i {
                // SAFETY: see above.
                unsafe { strip::<WIDTH, SECOND>(lines, pair) }
            }

            #[inline(always)]
            unsafe fn strip_codes<const WIDTH: usize, const K: usize>(strip: __m512i) -> __m512i {
                // SAFETY: see above.
                unsafe { $strip_codes::<WIDTH, K>(strip) }
            }

            #[inline(always)]
            unsafe fn dot(sums: __m512i, codes: __m512i, word: i32) -> __m512i {
                // SAFETY: see above.
                unsafe { $dot(sums, codes, _mm512_set1_epi32(word)) }
            }

            #[inline(always)]
            unsafe fn factors(from: Factors<'_>) -> __m512 {
                // SAFETY: see above.
                unsafe {
                    match from {
                        Factors::Half(half) => _mm512_cvtph_ps(_mm256_loadu_si256(half.as_ptr().cast())),
                        Factors::Full(full) => _mm512_loadu_ps(full.as_ptr()),
                        Factors::Fine(steps, of) => {
                            let steps = _mm512_cvtepi8_epi32(_mm_loadu_si128(steps.as_ptr().cast()));
                            let of = _mm512_cvtph_ps(_mm256_loadu_si256(of.as_ptr().cast()));
                            _mm512_mul_ps(_mm512_cvtepi32_ps(steps), of)
                        }
                        Factors::Exponents(exponents) => {
                            let bits = _mm512_cvtepu8_epi32(_mm_loadu_si128(exponents.as_ptr().cast()));
                            _mm512_castsi512_ps(_mm512_slli_epi32::<23>(bits))
                        }
                    }
                }
            }

            #[inline(always)]
            unsafe fn add_sums(results: __m512, sums: __m512i, factors: __m512, scale: f32) -> __m512 {
                // SAFETY: see above.
                unsafe {
                    let factors = _mm512_mul_ps(factors, _mm512_set1_ps(scale));
                    _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums), factors, results)
                }
            }

            #[inline(always)]
            unsafe fn add_scaled(results: __m512, factors: __m512, scale: f32) -> __m512 {
                // SAFETY: see above.
                unsafe { _mm512_fmadd_ps(factors, _mm512_set1_ps(scale), results) }
            }

            #[inline(always)]
            unsafe fn store(results: __m512) -> [f32; LANES] {
                let mut out = [0.0; LANES];
                // SAFETY: see above.
                unsafe { _mm512_storeu_ps(out.as_mut_ptr(), results) };
                out
            }
        }
    };
}

/// Both multiply pairs, and differ only in how.
macro_rules! wide_pairs {
    ($unit:ident) => {
        // Every `unsafe` in here calls an instruction of the unit, which the caller vouches for, or reads or writes exactly
        // the bytes of a reference.
        impl Pairs for $unit {
            const HELD: usize = 30;

            #[inline(always)]
            unsafe fn shorts(from: &[i16; 2 * LANES]) -> __m512i {
                // SAFETY: see above.
                unsafe { _mm512_loadu_si512(from.as_ptr().cast()) }
            }

            #[inline(always)]
            unsafe fn bytes_as_shorts(from: &[i8; 2 * LANES]) -> __m512i {
                // SAFETY: see above.
                unsafe { _mm512_cvtepi8_epi16(_mm256_loadu_si256(from.as_ptr().cast())) }
            }

            #[inline(always)]
            unsafe fn load_sums(from: &[i32; LANES]) -> __m512i {
                // SAFETY: see above.
                unsafe { _mm512_loadu_si512(from.as_ptr().cast()) }
            }

            #[inline(always)]
            unsafe fn store_sums(sums: __m512i, into: &mut [i32; LANES]) {
                // SAFETY: see above.
                unsafe { _mm512_storeu_si512(into.as_mut_ptr().cast(), sums) }
            }
        }
    };
}

wide_pairs!(Vnni);
wide_pairs!(Avx512);

wide_unit!(Vnni, 2, 0, nibble_pairs, list_of_shorts, listed_pairs, strip_pairs, dot_pairs);
wide_unit!(Avx512, 2, 0, nibble_pairs, list_of_shorts, listed_pairs, strip_pairs, multiply_and_add);
wide_unit!(Vnni8, 4, 128, nibble_quads, list_of_bytes, listed_quads, strip_quads, _mm512_dpbusd_epi32);

// Every `unsafe` calls an instruction of the unit, which the caller vouches for.
impl Crossing for Vnni {
    // Two of eight: additions then take as long as what only half of the pipes can do.
    const PLAIN: u8 = 0b0010_0100;

    #[inline(always)]
    unsafe fn less(codes: __m512i, surplus: i16) -> __m512i {
        // SAFETY: see above.
        unsafe { _mm512_sub_epi16(codes, _mm512_set1_epi16(surplus)) }
    }

    #[inline(always)]
    unsafe fn less_products(sums: __m512i, first: __m512i, second: __m512i) -> __m512i {
        // SAFETY: see above.
        unsafe { _mm512_sub_epi32(sums, _mm512_madd_epi16(first, second)) }
    }
}

/// A strip of a block: a rotation and a mask for each plane.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(crate) fn strip<const WIDTH: usize, const SECOND: usize>(lines: &[Line], pair: usize) -> __m512i {
    let (low, top) = Field::of_strip(WIDTH, pair, SECOND);
    let codes = field(&lines[low.line], low);
    match top {
        Some(top) => _mm512_or_si512(codes, field(&lines[top.line], top)),
        None => codes,
    }
}

/// The bits of a strip in one plane. What crosses from byte to byte is masked away.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn field(line: &Line, of: Field) -> __m512i {
    // SAFETY: reads the 64 bytes of a line, which are aligned.
    let line = unsafe { _mm512_load_si512(line.0.as_ptr().cast()) };
    let left = _mm512_rolv_epi32(line, _mm512_set1_epi32(of.up - of.down as i32));
    _mm512_and_si512(left, _mm512_set1_epi8(of.mask as i8))
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn strip_pairs<const WIDTH: usize, const K: usize>(strip: __m512i) -> __m512i {
    match (WIDTH, K) {
        (8, 0) => _mm512_srai_epi16::<8>(_mm512_slli_epi16::<8>(strip)),
        (8, _) => _mm512_srai_epi16::<8>(strip),
        (_, 0) => _mm512_and_si512(strip, _mm512_set1_epi16(0xff)),
        _ => _mm512_srli_epi16::<8>(strip),
    }
}

/// The instruction wants codes without a sign: those that have one get 128 added.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn strip_quads<const WIDTH: usize, const K: usize>(strip: __m512i) -> __m512i {
    if WIDTH == 8 { _mm512_xor_si512(strip, _mm512_set1_epi8(-128)) } else { strip }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn nibble_pairs<const K: usize>(line: __m512i) -> __m512i {
    let low = _mm512_set1_epi16(15);
    match K {
        0 => _mm512_and_si512(line, low),
        1 => _mm512_and_si512(_mm512_srli_epi16::<4>(line), low),
        2 => _mm512_and_si512(_mm512_srli_epi16::<8>(line), low),
        _ => _mm512_srli_epi16::<12>(line),
    }
}

/// Twice, so that it does not matter what stands above a nibble.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn list_of_shorts(numbers: __m128i) -> __m512i {
    let once = _mm256_cvtepi8_epi16(numbers);
    _mm512_inserti64x4::<1>(_mm512_castsi256_si512(once), once)
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn listed_pairs<const K: usize>(line: __m512i, list: __m512i) -> __m512i {
    // Of an index, only the lowest five bits count.
    let index = match K {
        0 => line,
        1 => _mm512_srli_epi16::<4>(line),
        2 => _mm512_srli_epi16::<8>(line),
        _ => _mm512_srli_epi16::<12>(line),
    };
    _mm512_permutexvar_epi16(index, list)
}

/// The instruction itself: from the intrinsic, the compiler makes a product and an addition, which take twice the time.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn dot_pairs(mut sums: __m512i, codes: __m512i, words: __m512i) -> __m512i {
    // SAFETY: the instruction is one of the features that this function is compiled for; it touches registers only.
    unsafe {
        std::arch::asm!(
            "vpdpwssd {sums}, {codes}, {words}",
            sums = inout(zmm_reg) sums,
            codes = in(zmm_reg) codes,
            words = in(zmm_reg) words,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    sums
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn multiply_and_add(sums: __m512i, codes: __m512i, words: __m512i) -> __m512i {
    _mm512_add_epi32(sums, _mm512_madd_epi16(codes, words))
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(crate) fn nibble_quads<const K: usize>(line: __m512i) -> __m512i {
    let line = if K == 0 { line } else { _mm512_srli_epi16::<4>(line) };
    _mm512_and_si512(line, _mm512_set1_epi8(15))
}

/// With 128 added, as in [`strip_quads`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn list_of_bytes(numbers: __m128i) -> __m512i {
    strip_quads::<8, 0>(_mm512_broadcast_i32x4(numbers))
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn listed_quads<const K: usize>(line: __m512i, list: __m512i) -> __m512i {
    _mm512_shuffle_epi8(list, nibble_quads::<K>(line))
}
