//! The vector units of x86-64.

use std::arch::x86_64::*;

use super::{Factors, LANES, Line, Pairs, Unit};

/// AVX-512 with its dot product of 16-bit numbers.
#[derive(Debug)]
pub(crate) struct Vnni;

/// AVX-512 without: a product and an addition.
#[derive(Debug)]
pub(crate) struct Avx512;

/// Two halves of 8 lanes.
#[derive(Debug)]
pub(crate) struct Avx2;

/// AVX-512 with its dot product of bytes, for activations of 8 bits.
#[derive(Debug)]
pub(crate) struct Vnni8;

/// They differ in how activations lie in a word, and in the instruction that multiplies it.
macro_rules! wide_unit {
    ($unit:ident, $per_word:literal, $begin:ident, $nibbles:ident, $list:ident, $listed:ident, $bytes:ident, $dot:ident) => {
        // Every `unsafe` in here calls an instruction of the unit, which the caller vouches for, or reads or writes exactly
        // the 64 (32, for halves) bytes of a reference.
        impl Unit for $unit {
            type Sums = __m512i;
            type Codes = __m512i;
            type List = __m512i;
            type Floats = __m512;
            const ROWS: usize = 4;
            const WIDE: bool = true;
            const PER_WORD: usize = $per_word;

            #[inline(always)]
            unsafe fn zero() -> __m512 {
                // SAFETY: see above.
                unsafe { _mm512_setzero_ps() }
            }

            #[inline(always)]
            unsafe fn begin(total: i32) -> __m512i {
                // SAFETY: see above.
                unsafe { $begin(total) }
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
            unsafe fn bytes<const K: usize>(line: &Line) -> __m512i {
                // SAFETY: see above.
                unsafe { $bytes::<K>(_mm512_load_si512(line.0.as_ptr().cast())) }
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

wide_unit!(Vnni, 2, nothing, nibble_pairs, list_of_shorts, listed_pairs, byte_pairs, dot_pairs);
wide_unit!(Avx512, 2, nothing, nibble_pairs, list_of_shorts, listed_pairs, byte_pairs, multiply_and_add);
wide_unit!(
    Vnni8,
    4,
    minus_128_times,
    nibble_quads,
    list_of_bytes,
    listed_quads,
    byte_quads,
    _mm512_dpbusd_epi32
);

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn nothing(_: i32) -> __m512i {
    _mm512_setzero_si512()
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

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn byte_pairs<const K: usize>(line: __m512i) -> __m512i {
    _mm512_srai_epi16::<8>(if K == 0 { _mm512_slli_epi16::<8>(line) } else { line })
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

/// What [`byte_quads`] and [`listed_quads`] add too much.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn minus_128_times(total: i32) -> __m512i {
    _mm512_set1_epi32(-128 * total)
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn nibble_quads<const K: usize>(line: __m512i) -> __m512i {
    let line = if K == 0 { line } else { _mm512_srli_epi16::<4>(line) };
    _mm512_and_si512(line, _mm512_set1_epi8(15))
}

/// With 128 added, as in [`byte_quads`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn list_of_bytes(numbers: __m128i) -> __m512i {
    byte_quads::<0>(_mm512_broadcast_i32x4(numbers))
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn listed_quads<const K: usize>(line: __m512i, list: __m512i) -> __m512i {
    _mm512_shuffle_epi8(list, nibble_quads::<K>(line))
}

/// The instruction wants codes without a sign: they get 128 added.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn byte_quads<const K: usize>(line: __m512i) -> __m512i {
    _mm512_xor_si512(line, _mm512_set1_epi8(-128))
}

// As above: every `unsafe` calls an instruction of the unit or reads or writes exactly the bytes of a reference.
impl Unit for Avx2 {
    type Sums = [__m256i; 2];
    type Codes = [__m256i; 2];
    type List = __m256i;
    type Floats = [__m256; 2];
    const ROWS: usize = 3;
    const WIDE: bool = false;
    const PER_WORD: usize = 2;

    #[inline(always)]
    unsafe fn zero() -> [__m256; 2] {
        // SAFETY: see above.
        unsafe { [_mm256_setzero_ps(); 2] }
    }

    #[inline(always)]
    unsafe fn begin(_: i32) -> [__m256i; 2] {
        // SAFETY: see above.
        unsafe { [_mm256_setzero_si256(); 2] }
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
    unsafe fn bytes<const K: usize>(line: &Line) -> [__m256i; 2] {
        // SAFETY: see above.
        unsafe { [byte_pairs_half::<K>(half(line, 0)), byte_pairs_half::<K>(half(line, 1))] }
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

#[inline]
#[target_feature(enable = "avx2")]
fn byte_pairs_half<const K: usize>(half: __m256i) -> __m256i {
    _mm256_srai_epi16::<8>(if K == 0 { _mm256_slli_epi16::<8>(half) } else { half })
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
