//! Q8_0 weights as the bytes they are, against activations turned into bytes.
//!
//! Q8_0 stores a row in blocks of 32 numbers, each a signed byte times the block's scale. Activations are treated the same
//! way, block by block. The dot product of two blocks is then one of bytes, which vector units do four to a lane, and its
//! sum is exact; only the scales are floats. The instruction wants one side unsigned: activations get 128 added, and each
//! block starts from what that adds too much.

use half::f16;
use rayon::prelude::*;

use super::isa::{Isa, multiversion};
use super::lanes::{LANES, Lanes, fma};
use super::matmul::{PANEL, TILE};
use crate::load::{DType, Tensor};

/// Numbers that share a scale.
const BLOCK: usize = 32;
/// Bytes that one lane multiplies and adds at a time.
const QUAD: usize = 4;
const QUADS: usize = BLOCK / QUAD;
/// Makes a signed byte unsigned.
const SHIFT: i32 = 128;

/// Four weights of each of 16 outputs.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
struct Quads([[i8; QUAD]; LANES]);

/// Sixteen whole numbers that move together.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
struct Sums([i32; LANES]);

/// One block of inputs for the 32 outputs of a panel.
#[derive(Debug, Clone, Copy)]
struct PanelBlock {
    weights: [[Quads; 2]; QUADS],
    scales: [Lanes; 2],
    /// `-128 * sum of the weights`, where each sum starts.
    starts: [Sums; 2],
}

#[derive(Debug)]
pub(super) struct BytePanels {
    /// Blocks in a row.
    blocks: usize,
    panels: Vec<PanelBlock>,
}

impl BytePanels {
    /// `parts` are Q8_0, whose rows are whole blocks.
    pub fn pack(inputs: usize, outputs: usize, parts: &[Tensor<'_>]) -> Self {
        let empty = PanelBlock {
            weights: [[Quads([[0; QUAD]; LANES]); 2]; QUADS],
            scales: [Lanes::ZERO; 2],
            starts: [Sums([0; LANES]); 2],
        };
        let blocks = inputs / BLOCK;
        let mut panels = vec![empty; blocks * outputs.div_ceil(PANEL)];
        let stored = parts.iter().flat_map(|part| part.data.chunks_exact(DType::Q8_0.block_bytes()));
        for (at, stored) in stored.enumerate() {
            let (output, block) = (at / blocks, at % blocks);
            let (half, lane) = (output % PANEL / LANES, output % LANES);
            let into = &mut panels[output / PANEL * blocks + block];
            let (scale, weights) = stored.split_at(size_of::<f16>());
            into.scales[half].0[lane] = f16::from_le_bytes([scale[0], scale[1]]).to_f32();
            for (i, &weight) in weights.iter().enumerate() {
                let weight = weight as i8;
                into.weights[i / QUAD][half].0[lane][i % QUAD] = weight;
                into.starts[half].0[lane] -= SHIFT * i32::from(weight);
            }
        }
        BytePanels { blocks, panels }
    }

    pub fn inputs(&self) -> usize {
        self.blocks * BLOCK
    }

    pub fn output(&self, index: usize, into: &mut [f32]) {
        let (half, lane) = (index % PANEL / LANES, index % LANES);
        let blocks = &self.panels[index / PANEL * self.blocks..];
        for (values, block) in into.chunks_mut(BLOCK).zip(blocks) {
            for (i, value) in values.iter_mut().enumerate() {
                *value =
                    f32::from(block.weights[i / QUAD][half].0[lane][i % QUAD]) * block.scales[half].0[lane];
            }
        }
    }

    /// All rows of `x` against one panel.
    pub fn multiply(&self, isa: Isa, panel: usize, x: &ByteRows, out: &mut [f32]) {
        let panel = &self.panels[panel * self.blocks..][..self.blocks];
        #[cfg(target_arch = "x86_64")]
        if isa.has_byte_dot() {
            // SAFETY: such an `Isa` exists only where the machine reported these features.
            return unsafe { multiply_panel_vnni(x, panel, out) };
        }
        let _ = isa;
        multiply_panel_portable(x, panel, out);
    }
}

/// Rows of activations as bytes.
#[derive(Debug)]
pub(super) struct ByteRows {
    /// Shifted to be unsigned.
    codes: Vec<[u8; QUAD]>,
    /// One for each block.
    scales: Vec<f32>,
}

impl ByteRows {
    pub fn quantise(isa: Isa, x: &[f32], inputs: usize) -> Self {
        debug_assert!(x.len().is_multiple_of(inputs) && inputs.is_multiple_of(BLOCK));
        let mut rows =
            ByteRows { codes: vec![[0; QUAD]; x.len() / QUAD], scales: vec![0.0; x.len() / BLOCK] };
        let codes = rows.codes.as_flattened_mut().par_chunks_mut(inputs).with_min_len(8);
        let scales = rows.scales.par_chunks_mut(inputs / BLOCK);
        x.par_chunks(inputs)
            .zip(codes)
            .zip(scales)
            .for_each(|((x, codes), scales)| quantise(isa, x, codes, scales));
        rows
    }
}

multiversion! {
    /// One row.
    fn quantise(x: &[f32], codes: &mut [u8], scales: &mut [f32]) = quantise_lanes
}

#[inline(always)]
fn quantise_lanes<const FMA: bool>(x: &[f32], codes: &mut [u8], scales: &mut [f32]) {
    // Adding 1.5 * 2^23 rounds to a whole number and leaves it, in two's complement, in the lowest bits.
    const ROUND: f32 = 12_582_912.0;
    for ((x, codes), scale) in x.chunks_exact(BLOCK).zip(codes.chunks_exact_mut(BLOCK)).zip(scales) {
        let halves = [Lanes::load(&x[..LANES]), Lanes::load(&x[LANES..])];
        let mut sizes = halves[0].map(f32::abs);
        for i in 0..LANES {
            let other = halves[1].0[i].abs();
            sizes.0[i] = if other > sizes.0[i] { other } else { sizes.0[i] };
        }
        let largest = sizes.max();
        // The comparisons above pass over what is no number; zero times it does not, so that the error is still seen.
        let mut poison = Lanes::ZERO;
        for half in &halves {
            poison.add_product::<FMA>(0.0, half);
        }
        *scale = largest / 127.0 + poison.sum();
        let inverse = if largest > 0.0 { 127.0 / largest } else { 0.0 };
        for (half, codes) in halves.iter().zip(codes.chunks_exact_mut(LANES)) {
            for i in 0..LANES {
                let rounded = fma::<FMA>(half.0[i], inverse, ROUND);
                codes[i] = (rounded.to_bits() as u8).wrapping_add(SHIFT as u8);
            }
        }
    }
}

/// Splits rows into tiles and hands each with its results to `$tile::<ROWS>`.
macro_rules! by_tiles {
    ($x:ident, $panel:ident, $out:ident, $tile:ident) => {{
        let blocks = $panel.len();
        let rows = $x.codes.chunks(TILE * blocks * QUADS).zip($x.scales.chunks(TILE * blocks));
        for ((codes, scales), out) in rows.zip($out.chunks_mut(TILE * PANEL)) {
            match scales.len() / blocks {
                6 => $tile::<6>(codes, scales, $panel, out),
                5 => $tile::<5>(codes, scales, $panel, out),
                4 => $tile::<4>(codes, scales, $panel, out),
                3 => $tile::<3>(codes, scales, $panel, out),
                2 => $tile::<2>(codes, scales, $panel, out),
                _ => $tile::<1>(codes, scales, $panel, out),
            }
        }
    }};
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,fma,f16c")]
fn multiply_panel_vnni(x: &ByteRows, panel: &[PanelBlock], out: &mut [f32]) {
    by_tiles!(x, panel, out, tile_vnni);
}

fn multiply_panel_portable(x: &ByteRows, panel: &[PanelBlock], out: &mut [f32]) {
    by_tiles!(x, panel, out, tile_portable);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,fma,f16c")]
fn tile_vnni<const ROWS: usize>(codes: &[[u8; QUAD]], scales: &[f32], panel: &[PanelBlock], out: &mut [f32]) {
    use std::arch::x86_64::*;
    let blocks = panel.len();
    let codes: [&[[u8; QUAD]]; ROWS] =
        std::array::from_fn(|r| &codes[r * blocks * QUADS..][..blocks * QUADS]);
    let scales: [&[f32]; ROWS] = std::array::from_fn(|r| &scales[r * blocks..][..blocks]);
    let mut results = [[_mm512_setzero_ps(); 2]; ROWS];
    for (b, block) in panel.iter().enumerate() {
        // SAFETY: the loads read the 64 bytes of a `Sums`, a `Quads` or a `Lanes`, each of which is aligned to 64.
        let starts = [0, 1].map(|half| unsafe { _mm512_load_si512(block.starts[half].0.as_ptr().cast()) });
        let mut sums = [starts; ROWS];
        for (q, weights) in block.weights.iter().enumerate() {
            // SAFETY: as above.
            let weights =
                [0, 1].map(|half: usize| unsafe { _mm512_load_si512(weights[half].0.as_ptr().cast()) });
            for r in 0..ROWS {
                let quad = _mm512_set1_epi32(i32::from_ne_bytes(codes[r][b * QUADS + q]));
                sums[r][0] = _mm512_dpbusd_epi32(sums[r][0], quad, weights[0]);
                sums[r][1] = _mm512_dpbusd_epi32(sums[r][1], quad, weights[1]);
            }
        }
        // SAFETY: as above.
        let by = [0, 1].map(|half: usize| unsafe { _mm512_load_ps(block.scales[half].0.as_ptr()) });
        for r in 0..ROWS {
            let scale = _mm512_set1_ps(scales[r][b]);
            for half in 0..2 {
                let scaled = _mm512_mul_ps(_mm512_cvtepi32_ps(sums[r][half]), scale);
                results[r][half] = _mm512_fmadd_ps(scaled, by[half], results[r][half]);
            }
        }
    }
    for (results, out) in results.iter().zip(out.chunks_exact_mut(PANEL)) {
        for (result, out) in results.iter().zip(out.chunks_exact_mut(LANES)) {
            // SAFETY: `out` has 16 floats; the store needs no alignment.
            unsafe { _mm512_storeu_ps(out.as_mut_ptr(), *result) };
        }
    }
}

/// The same in plain words.
fn tile_portable<const ROWS: usize>(
    codes: &[[u8; QUAD]],
    scales: &[f32],
    panel: &[PanelBlock],
    out: &mut [f32],
) {
    let blocks = panel.len();
    for (r, out) in out.chunks_exact_mut(PANEL).enumerate().take(ROWS) {
        out.fill(0.0);
        for (b, block) in panel.iter().enumerate() {
            let codes = &codes[(r * blocks + b) * QUADS..][..QUADS];
            for (i, out) in out.iter_mut().enumerate() {
                let (half, lane) = (i / LANES, i % LANES);
                let mut sum = block.starts[half].0[lane];
                for (code, weights) in codes.iter().zip(&block.weights) {
                    let products = code.iter().zip(&weights[half].0[lane]);
                    sum += products.map(|(&c, &w)| i32::from(c) * i32::from(w)).sum::<i32>();
                }
                *out += sum as f32 * scales[r * blocks + b] * block.scales[half].0[lane];
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::kernel::rows::tests::{near, numbers};
    use proptest::prelude::*;

    /// Random Q8_0 rows as a file holds them: any bytes, and any scale below 2, subnormal ones too.
    pub fn q8_0(seed: u64, name: u64, outputs: usize, inputs: usize) -> Vec<u8> {
        let count = outputs * inputs / BLOCK * DType::Q8_0.block_bytes();
        let random = numbers(seed, name, count);
        let mut bytes: Vec<u8> = random.iter().map(|x| ((x + 2.0) * 64.0) as u8).collect();
        for block in bytes.chunks_mut(DType::Q8_0.block_bytes()) {
            // Without its highest bit, no exponent says infinity.
            block[1] &= 0xbf;
        }
        bytes
    }

    /// Scale and numbers of each stored block.
    fn blocks(stored: &[u8]) -> impl Iterator<Item = (f64, Vec<i64>)> + '_ {
        stored.chunks(DType::Q8_0.block_bytes()).map(|block| {
            let scale = f16::from_le_bytes([block[0], block[1]]).to_f64();
            (scale, block[2..].iter().map(|&b| i64::from(b as i8)).collect())
        })
    }

    /// Scale and numbers of each block of activations: the largest becomes 127, ties go to the even number. A product of
    /// two floats is exact in double precision, as it is in a fused operation.
    fn quantised(x: &[f32]) -> Vec<(f64, Vec<i64>)> {
        let block = |x: &[f32]| {
            let largest = x.iter().fold(0f32, |a, b| a.max(b.abs()));
            let inverse = if largest > 0.0 { 127.0 / largest } else { 0.0 };
            let code = |&x: &f32| (f64::from(x) * f64::from(inverse)).round_ties_even() as i64;
            (f64::from(largest / 127.0), x.iter().map(code).collect())
        };
        x.chunks(BLOCK).map(block).collect()
    }

    /// The exact dot product of a row of activations, turned into bytes, with a stored row, and the size of its terms.
    pub fn dot(x: &[f32], stored: &[u8]) -> (f64, f64) {
        let term = |((a, x), (b, w)): ((f64, Vec<i64>), (f64, Vec<i64>))| {
            a * b * x.iter().zip(&w).map(|(x, w)| x * w).sum::<i64>() as f64
        };
        let terms: Vec<f64> = quantised(x).into_iter().zip(blocks(stored)).map(term).collect();
        (terms.iter().sum(), terms.iter().map(|t| t.abs()).sum())
    }

    fn multiply(isa: Isa, panels: &BytePanels, x: &ByteRows) -> Vec<f32> {
        let (rows, count) = (x.scales.len() / panels.blocks, panels.panels.len() / panels.blocks);
        let mut out = vec![f32::NAN; rows * PANEL * count];
        for (panel, out) in out.chunks_mut(rows * PANEL).enumerate() {
            panels.multiply(isa, panel, x, out);
        }
        out
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

        /// Against exact integers and doubles, for every way there is, the plain one included; and a row in company
        /// against the same row alone.
        #[test]
        fn panels_multiply(seed: u64, rows in 1usize..20, blocks in 1usize..5, outputs in 1usize..100) {
            let inputs = blocks * BLOCK;
            let stored = q8_0(seed, 0, outputs, inputs);
            let x = numbers(seed, 1, rows * inputs);
            let shape = vec![outputs, inputs];
            let tensor = Tensor { dtype: DType::Q8_0, shape, data: &stored };
            let panels = BytePanels::pack(inputs, outputs, &[tensor]);
            // All multiply the same bytes, so that they can be compared with each other.
            let bytes = |x: &[f32]| ByteRows::quantise(Isa::detect(), x, inputs);
            let together = bytes(&x);
            for isa in Isa::available() {
                let out = multiply(isa, &panels, &together);
                for (r, x) in x.chunks(inputs).enumerate() {
                    let alone = multiply(isa, &panels, &bytes(x));
                    for (o, stored) in stored.chunks(stored.len() / outputs).enumerate() {
                        let (panel, lane) = (o / PANEL, o % PANEL);
                        let got = out[(panel * rows + r) * PANEL + lane];
                        let (want, size) = dot(x, stored);
                        // A few roundings a block, and no more: the integers are exact.
                        prop_assert!(near(got, want, size, 1e-6), "{isa}: {got} for {want}");
                        prop_assert_eq!(got.to_bits(), alone[panel * PANEL + lane].to_bits(), "{} alone", isa);
                    }
                }
            }
        }

        /// Blocks of any size down to nothing, with ties: every number is the nearest that its block can say.
        #[test]
        fn activations_are_rounded_to_the_nearest(
            seed: u64,
            blocks in 1usize..4,
            exponents in prop::collection::vec(-100i32..100, 4),
            zero in 0usize..6,
        ) {
            let mut x = numbers(seed, 0, blocks * BLOCK);
            for (at, (block, exponent)) in x.chunks_mut(BLOCK).zip(exponents).enumerate() {
                for x in block.iter_mut() {
                    *x *= 2f32.powi(exponent);
                }
                // A scale of exactly a power of two, under which this number lies between two codes.
                block[0] = 127.0 * 2f32.powi(exponent + 1);
                block[1] = 2.5 * 2f32.powi(exponent + 1);
                if at == zero {
                    block.fill(0.0);
                }
            }
            let want: Vec<i64> = quantised(&x).into_iter().flat_map(|(_, codes)| codes).collect();
            let scales: Vec<f32> = quantised(&x).into_iter().map(|(scale, _)| scale as f32).collect();
            for isa in Isa::available() {
                let rows = ByteRows::quantise(isa, &x, blocks * BLOCK);
                let codes: Vec<i64> = rows.codes.iter().flatten().map(|&c| i64::from(c) - i64::from(SHIFT)).collect();
                prop_assert_eq!(&rows.scales, &scales, "{}", isa);
                for (i, (code, want)) in codes.iter().zip(&want).enumerate() {
                    // Without a fused operation the product is rounded first, which may make a tie of what was none.
                    let between = (f64::from(x[i]) / f64::from(scales[i / BLOCK])).fract().abs() - 0.5;
                    let tie = isa.to_string() == "portable" && between.abs() < 1e-4;
                    prop_assert!(code == want || tie, "{isa}: {} became {code}, not {want}", x[i]);
                }
            }
        }
    }
}
