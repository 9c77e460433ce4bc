//! Against exact whole numbers and doubles, for every instruction set.

use proptest::prelude::*;

use super::codes::input_of;
use super::*;
use crate::kernel::matmul::tests::stored;
use crate::kernel::rows::tests::{near, numbers};
use crate::kernel::sheet::Sheet;
use crate::load::DType;
use crate::load::runs::tests::{TYPES, runs};

/// Scale and codes of each block of a row of activations.
fn coded(isa: Isa, x: &[f32]) -> Vec<(f64, Vec<i64>)> {
    let (rows, per_word) = (codes(isa, x, x.len()), isa.activations_per_word());
    let block = |b: usize| {
        let block = rows.view(None).block(0, b, BLOCK / per_word);
        let mut codes = vec![0; BLOCK];
        for (word, bits) in block.words().iter().enumerate() {
            for j in 0..per_word {
                codes[input_of(per_word, word, j)] = match per_word {
                    4 => i64::from(bytemuck::cast::<i32, [i8; 4]>(*bits)[j]),
                    _ => i64::from(bytemuck::cast::<i32, [i16; 2]>(*bits)[j]),
                };
            }
        }
        (f64::from(block.scale()), codes)
    };
    (0..x.len() / BLOCK).map(block).collect()
}

/// The exact dot product of a row of activations, turned into codes, with a stored row, and the size of its terms.
pub fn dot(isa: Isa, x: &[f32], dtype: DType, row: &[u8]) -> (f64, f64) {
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    if isa.has_matrix_unit() {
        return for_tiles::dot(isa, x, dtype, row);
    }
    let (mut sum, mut size) = (0.0, 0.0);
    for ((scale, codes), run) in coded(isa, x).into_iter().zip(runs(dtype, row)) {
        for (i, code) in codes.into_iter().enumerate() {
            let product = code as f64 * f64::from(run.codes[i]) * f64::from(run.scales[i / 16]);
            let min = code as f64 * f64::from(run.mins[i / 16]);
            sum += scale * (product + min);
            size += scale * (product.abs() + min.abs());
        }
    }
    (sum, size)
}

/// What the matrix unit should give.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod for_tiles {
    use super::*;

    /// Like [`super::dot`], with weights rounded as well: to whole numbers with one scale for all. Asserts that this is near to
    /// what they stand for.
    pub fn dot(isa: Isa, x: &[f32], dtype: DType, row: &[u8]) -> (f64, f64) {
        let (codes, runs) = (codes(isa, x, x.len()), runs(dtype, row));
        let (scale, codes) = (codes.planes().scale(0), codes.planes().whole(0));
        let kind = dtype.runs().unwrap();
        // What a code is relative to; what is added to it then, and how far up its bits are moved.
        let (half, plus_code, up) = match kind.codes {
            Codes::Bits(bits, minus) => {
                ((1 << (bits - 1)) as f32, i64::from(minus) - (1 << (bits - 1)), 16 - bits)
            }
            Codes::Bytes => (128.0, 0, 8),
            Codes::Listed(list) => {
                let room = match list.iter().map(|x| x.unsigned_abs()).max() {
                    Some(8) => 4,
                    Some(12) => 3,
                    _ => 0,
                };
                ((128 >> room) as f32, 0, 8 + room)
            }
        };
        let mut largest = 0f32;
        for run in &runs {
            for (scale, min) in run.scales.into_iter().zip(run.mins) {
                let ends = if kind.min { min.abs().max(scale.mul_add(2.0 * half, min).abs()) } else { 0.0 };
                largest = largest.max((scale.abs() * half).max(ends));
            }
        }
        let norm = largest / 32512.0;
        let inverse = if norm == 0.0 { 0.0 } else { 1.0 / norm };
        let (mut sum, mut exact, mut size, mut slack) = (0.0, 0.0, 0.0, 0.0);
        for (run, codes) in runs.iter().zip(codes.chunks(BLOCK)) {
            for (i, &x) in codes.iter().enumerate() {
                let (factor, min) = (run.scales[i / 16], run.mins[i / 16]);
                let times = factor * inverse * half;
                let plus = if kind.min { min.mul_add(inverse, times).round_ties_even() as i64 } else { 0 };
                let word = (i64::from(run.codes[i]) + plus_code) << up;
                let w = ((word * times.round_ties_even() as i64 + 0x4000) >> 15) + plus;
                assert!((-32640..=32640).contains(&w));
                let ((xh, xl), (wh, wl)) = (((x + 128) >> 8, i64::from(x as i8)), (w >> 8, w & 255));
                assert_eq!(256 * xh + xl, x);
                assert_eq!(256 * wh + wl, w);
                let product = x * w;
                sum += product as f64;
                let weight = f64::from(factor) * f64::from(run.codes[i]) + f64::from(min);
                exact += x as f64 * weight;
                // Terms of either sign are rounded as they are summed up.
                size += (65536 * xh * wh).abs() as f64 + (256 * (xh * wl + xl * wh)).abs() as f64;
                // A weight is at most two off.
                slack += 2.0 * (x as f64).abs();
            }
        }
        let unit = f64::from(norm) * f64::from(scale);
        assert!(
            (sum * f64::from(norm) - exact).abs() <= slack * f64::from(norm) * 1.001,
            "{dtype:?}: {sum} {exact}"
        );
        (sum * unit, size * unit)
    }

    /// More inputs than 32 bits can sum up without a break, in rows that take one, two and more tiles.
    #[test]
    fn long_rows_multiply() {
        let Some(isa) = Isa::named("amx") else {
            println!("skipped: this machine has no matrix unit that works");
            return;
        };
        let (inputs, outputs) = (6 * 32768 + 96, 3);
        // Nearly as large as they can be, and of one sign: what can overflow does so here.
        let mut data = stored(5, 0, DType::Q8_0, outputs, inputs);
        for block in data.chunks_mut(DType::Q8_0.block_bytes()) {
            block[..2].copy_from_slice(&half::f16::ONE.to_le_bytes());
            block[2..].iter_mut().for_each(|code| *code = 127 - (*code & 1));
        }
        let tensor = Tensor { dtype: DType::Q8_0, shape: vec![outputs, inputs], data: &data };
        let panels = BlockPanels::pack(isa, &tensor).unwrap();
        let mut alone = None;
        for rows in [1, 18, 40] {
            let x: Vec<f32> = numbers(5, 1, rows * inputs).iter().map(|x| 100.0 + x).collect();
            let out = multiply(isa, &panels, &codes(isa, &x, inputs), rows, outputs);
            assert_eq!(&out[..outputs], alone.get_or_insert_with(|| out.clone()), "{rows} rows");
            for (x, out) in x.chunks(inputs).zip(out.chunks(outputs)) {
                for (out, row) in out.iter().zip(data.chunks(tensor.row_bytes())) {
                    let (want, size) = dot(isa, x, DType::Q8_0, row);
                    assert!(near(*out, want, size, 1e-6), "{out} for {want}");
                }
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

        /// Every number is the nearest that its row can say, however long the row and whatever its size.
        #[test]
        fn rows_are_rounded_to_the_nearest(seed: u64, blocks in 1usize..9, exponent in -60i32..60, zero: bool) {
            let Some(isa) = Isa::named("amx") else { return Ok(()) };
            let mut x: Vec<f32> = numbers(seed, 0, blocks * BLOCK).iter().map(|x| x * 2f32.powi(exponent)).collect();
            if zero {
                x.fill(0.0);
            }
            let rows = codes(isa, &x, x.len());
            let (scale, whole) = (rows.planes().scale(0), rows.planes().whole(0));
            let largest = x.iter().fold(0f32, |a, b| a.max(b.abs()));
            prop_assert_eq!(scale, largest / 32512.0);
            let inverse = if largest > 0.0 { 32512.0 / largest } else { 0.0 };
            for (x, code) in x.iter().zip(&whole) {
                prop_assert_eq!((x * inverse).round_ties_even() as i64, *code);
            }
        }
    }
}

fn codes(isa: Isa, x: &[f32], inputs: usize) -> CodeRows {
    let mut rows = CodeRows::default();
    let (all, blocks) = (0..x.len() / inputs, 0..inputs / BLOCK);
    fill(isa, &mut rows, x, inputs, std::slice::from_ref(&all), std::slice::from_ref(&blocks));
    rows
}

/// Some rows and some blocks at a time.
fn fill(
    isa: Isa,
    codes: &mut CodeRows,
    x: &[f32],
    inputs: usize,
    rows: &[Range<usize>],
    blocks: &[Range<usize>],
) {
    codes.resize(isa, x.len() / inputs, inputs);
    for rows in rows {
        for blocks in blocks {
            let first = &raw const x[rows.start * inputs + blocks.start * BLOCK];
            let x = Floats { first, stride: inputs };
            // SAFETY: there is room for all rows, and nobody else fills them.
            unsafe { codes.shared().fill(isa, rows.clone(), blocks.clone(), x, true) };
        }
    }
}

/// Whoever fills some blocks of some rows leaves the same codes as who fills all.
#[test]
fn codes_can_be_filled_in_parts() {
    let (rows, inputs) = (7, 5 * BLOCK);
    let x = numbers(5, 0, rows * inputs);
    for isa in Isa::available().into_iter().filter(|isa| !isa.has_matrix_unit()) {
        let whole = codes(isa, &x, inputs);
        let mut parts = CodeRows::default();
        fill(isa, &mut parts, &x, inputs, &[3..7, 0..2, 2..3], &[2..3, 3..5, 0..2]);
        let words = BLOCK / isa.activations_per_word();
        for block in 0..inputs / BLOCK {
            let of = |codes: &CodeRows| codes.view(None).blocks(0..rows, block, words).to_vec();
            assert_eq!(of(&whole), of(&parts), "{isa}, block {block}");
        }
    }
}

fn multiply(isa: Isa, panels: &BlockPanels, x: &CodeRows, rows: usize, outputs: usize) -> Vec<f32> {
    let mut out = vec![f32::NAN; rows * outputs];
    // SAFETY: nobody else writes.
    let mut columns = unsafe { Sheet::new(&mut out, outputs).columns(0..outputs) };
    panels.multiply(isa, 0..outputs.div_ceil(LANES), x, 0..rows, None, &mut columns);
    out
}

/// Bits of a packed weight, with its share of scales and minima; files differ by the little that some types pack tighter.
#[test]
fn packed_weights_take_the_bits_of_their_type() {
    for (dtype, bits) in [
        (DType::Q2K, 3.125),
        (DType::Q3K, 3.5625),
        (DType::MXFP4, 4.25),
        (DType::IQ4_XS, 4.3125),
        (DType::Q4_0, 4.5),
        (DType::IQ4_NL, 4.5),
        (DType::Q4K, 4.625),
        (DType::Q4_1, 5.0),
        (DType::Q5_0, 5.5),
        (DType::Q5K, 5.625),
        (DType::Q5_1, 6.0),
        (DType::Q6K, 6.5625),
        (DType::Q8_0, 8.5),
    ] {
        let (outputs, inputs) = (2 * LANES, 512);
        let data = stored(1, 0, dtype, outputs, inputs);
        let tensor = Tensor { dtype, shape: vec![outputs, inputs], data: &data };
        for isa in Isa::available() {
            let bytes = BlockPanels::pack(isa, &tensor).unwrap().bytes();
            // The matrix unit has a scale for every output as well.
            let bytes = bytes - if isa.has_matrix_unit() { 4 * outputs } else { 0 };
            assert_eq!((bytes * 8) as f64 / (outputs * inputs) as f64, bits, "{dtype:?}");
        }
    }
}

/// Rows by themselves are multiplied without taking two products in one: those in company must come out the same.
#[cfg(target_arch = "x86_64")]
fn same_alone(isa: Isa, tensor: &Tensor<'_>, x: &[f32]) {
    let (outputs, inputs) = (tensor.rows(), tensor.cols());
    let rows = x.len() / inputs;
    let panels = BlockPanels::pack(isa, tensor).unwrap();
    let codes = codes(isa, x, inputs);
    let bits = |out: Vec<f32>| {
        let bits = |x: &f32| if x.is_nan() { u32::MAX } else { x.to_bits() };
        out.iter().map(bits).collect::<Vec<_>>()
    };
    let together = bits(multiply(isa, &panels, &codes, rows, outputs));
    let mut alone = vec![f32::NAN; rows * outputs];
    // SAFETY: nobody else writes.
    let mut columns = unsafe { Sheet::new(&mut alone, outputs).columns(0..outputs) };
    for row in 0..rows {
        panels.multiply(isa, 0..outputs.div_ceil(LANES), &codes, row..row + 1, None, &mut columns);
    }
    assert_eq!(together, bits(alone), "{isa}, {:?}, {rows} rows, {inputs} inputs", tensor.dtype);
}

/// The units that take two products in one, with the rows that it takes.
#[cfg(target_arch = "x86_64")]
fn unfolding() -> Vec<(Isa, usize)> {
    let units: Vec<_> =
        Isa::available().into_iter().filter_map(|isa| Some((isa, isa.unfolds_from()?))).collect();
    if units.is_empty() {
        println!("skipped: this machine has no vector unit that takes two products in one");
    }
    units
}

/// Codes as large as they can be, of either sign, where sums of them come nearest to what 16 bits can say.
#[cfg(target_arch = "x86_64")]
#[test]
fn two_products_in_one_are_exact() {
    for (isa, least) in unfolding() {
        // More rows than wait in the cache, of which four are one tile by itself; and some that are left over. More panels than
        // are unfolded together.
        let (counts, outputs) = ([least, 68, least + 69], 70);
        let cases = counts.into_iter().flat_map(|rows| TYPES.iter().map(move |dtype| (rows, *dtype)));
        for (seed, (rows, dtype)) in (0..).zip(cases) {
            let inputs = 2 * dtype.block_len();
            let mut data = stored(seed, 0, dtype, outputs, inputs);
            if dtype == DType::Q8_0 {
                for (n, block) in data.chunks_mut(dtype.block_bytes()).enumerate() {
                    for (i, code) in block[2..].iter_mut().enumerate() {
                        *code = if (i + n + n / 7) % 3 == 0 { 127 } else { 128 };
                    }
                }
            }
            let mut x: Vec<f32> =
                numbers(seed, 1, rows * inputs).iter().map(|x| x.signum() * x.abs().powf(0.01)).collect();
            // What cannot be said in codes comes out the same all the same.
            (x[3], x[inputs + 40]) = (f32::INFINITY, f32::NAN);
            x[2 * inputs..3 * inputs].iter_mut().for_each(|x| *x *= 1e-36);
            same_alone(isa, &Tensor { dtype, shape: vec![outputs, inputs], data: &data }, &x);
        }
    }
}

/// Blocks are unfolded while others are multiplied: one alone, and enough for every place to be used again, with as many tiles as
/// panels, fewer and more, and with panels that come after others.
#[cfg(target_arch = "x86_64")]
#[test]
fn blocks_are_unfolded_beside_products() {
    for (isa, least) in unfolding() {
        for dtype in TYPES {
            for blocks in [1, 3, 4] {
                for rows in [least, 16, 20, 68, 72] {
                    let (inputs, outputs) = ((blocks * BLOCK).next_multiple_of(dtype.block_len()), 130);
                    let data = stored(blocks as u64, 0, dtype, outputs, inputs);
                    let x = numbers(rows as u64, 1, rows * inputs);
                    same_alone(isa, &Tensor { dtype, shape: vec![outputs, inputs], data: &data }, &x);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// A row in company equals the same row alone to the last bit, and so do all instruction sets that fuse.
    #[test]
    fn panels_multiply(
        seed: u64,
        dtype in prop::sample::select(TYPES.as_slice()),
        rows in prop::sample::select(vec![1usize, 2, 3, 5, 8, 13, 16, 17, 31, 32, 33, 50]),
        blocks in 1usize..5,
        outputs in 1usize..80,
    ) {
        let inputs = blocks * dtype.block_len();
        let data = stored(seed, 0, dtype, outputs, inputs);
        let x = numbers(seed, 1, rows * inputs);
        let tensor = Tensor { dtype, shape: vec![outputs, inputs], data: &data };
        let mut fused: Option<Vec<f32>> = None;
        for isa in Isa::available() {
            let panels = BlockPanels::pack(isa, &tensor).unwrap();
            let out = multiply(isa, &panels, &codes(isa, &x, inputs), rows, outputs);
            for (x, out) in x.chunks(inputs).zip(out.chunks(outputs)) {
                let alone = multiply(isa, &panels, &codes(isa, x, inputs), 1, outputs);
                for (o, row) in data.chunks(tensor.row_bytes()).enumerate() {
                    let (want, size) = dot(isa, x, dtype, row);
                    // A few roundings a block, and no more: the whole numbers are exact.
                    prop_assert!(near(out[o], want, size, 1e-6), "{isa}: {} for {want}", out[o]);
                    prop_assert_eq!(out[o].to_bits(), alone[o].to_bits(), "{} alone", isa);
                }
            }
            if !isa.is_rough() && !isa.has_matrix_unit() && isa.to_string() != "portable" {
                prop_assert!(fused.get_or_insert(out.clone()) == &out, "{isa} differs from a wider unit");
            }
        }
    }

    /// Weights can be read back, whatever order they were packed in.
    #[test]
    fn panels_keep_their_weights(
        seed: u64,
        dtype in prop::sample::select(TYPES.as_slice()),
        blocks in 1usize..3,
        outputs in 1usize..40,
    ) {
        let inputs = blocks * dtype.block_len();
        let data = stored(seed, 0, dtype, outputs, inputs);
        let tensor = Tensor { dtype, shape: vec![outputs, inputs], data: &data };
        let plain = tensor.to_f32();
        for isa in Isa::available() {
            let panels = BlockPanels::pack(isa, &tensor).unwrap();
            let mut got = vec![f32::NAN; inputs];
            for (o, want) in plain.chunks(inputs).enumerate() {
                panels.output(o, &mut got);
                prop_assert_eq!(&got[..], want, "{}", isa);
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
        for isa in Isa::available().into_iter().filter(|isa| !isa.has_matrix_unit()) {
            let most = if isa.is_rough() { f32::from(i8::MAX) } else { f32::from(codes::MOST) };
            let rows = codes(isa, &x, blocks * BLOCK);
            for (b, ((scale, codes), x)) in coded(isa, &x).into_iter().zip(x.chunks(BLOCK)).enumerate() {
                let largest = x.iter().fold(0f32, |a, b| a.max(b.abs()));
                prop_assert_eq!(scale, f64::from(largest / most), "{}", isa);
                let inverse = if largest > 0.0 { most / largest } else { 0.0 };
                for (&x, &code) in x.iter().zip(&codes) {
                    // A product of two floats is exact in double precision, as it is in a fused operation. Without one it
                    // is rounded first, which may make a tie of what was none.
                    let exact = f64::from(x) * f64::from(inverse);
                    let tie = isa.to_string() == "portable" && (exact.fract().abs() - 0.5).abs() < 1e-2;
                    prop_assert!(code == exact.round_ties_even() as i64 || tie, "{isa}: {exact} became {code}");
                }
                let (total, block) = (codes.iter().sum::<i64>(), rows.view(None).block(0, b, BLOCK / isa.activations_per_word()));
                prop_assert_eq!(i64::from(block.total(0, 1)), total);
                prop_assert_eq!(i64::from(block.total(1, 2)), codes[BLOCK / 2..].iter().sum::<i64>());
                prop_assert_eq!(block.total(0, 2) + block.total(1, 2), block.total(0, 1));
                prop_assert!(near(block.sum(0, 1), total as f64 * scale, (total as f64 * scale).abs(), 1e-6));
            }
        }
    }
}
