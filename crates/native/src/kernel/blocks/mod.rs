//! Quantised weights as the whole numbers they are, against activations turned into whole numbers.
//!
//! A quantised row is made of blocks of 32 codes with a scale and perhaps a minimum (see [`runs`](crate::load::runs)).
//! Activations are treated the same way, block by block, with codes of 16 bits, which loses next to nothing: log-probabilities
//! stay within a hundredth of those that floats give, where 8 bits can be off by one. The dot product of two blocks is then
//! one of whole numbers: exact, the same on every machine, and twice as fast as one of floats. Only the scales are floats.
//!
//! Weights stay nearly as small as they were. They lie in panels of 16 outputs: for each block, lines of 64 bytes with eight
//! nibbles (or four bytes) of every output.

mod codes;
mod tile;

use std::ops::Range;

use half::f16;
use rayon::prelude::*;

use super::isa::{Isa, Level};
use super::sheet::Columns;
#[cfg(target_arch = "x86_64")]
use super::unit::x86;
use super::unit::{self, Factors, LANES, Line};
use crate::load::Tensor;
use crate::load::runs::{Codes, Multiples, RUN, Run, RunKind, multiples, runs};

use codes::input_of;
pub(crate) use codes::{CodeRows, quantise};

/// Inputs that share a scale.
pub(super) const BLOCK: usize = RUN;

/// A matrix in panels of 16 outputs.
#[derive(Debug)]
pub(super) struct BlockPanels {
    blocks: usize,
    place: Place,
    /// Scales in a block.
    groups: usize,
    lines: Vec<Line>,
    scales: Table,
    mins: Option<Table>,
}

/// Scales or minima, 16 outputs side by side.
#[derive(Debug)]
enum Table {
    Half(Vec<[f16; LANES]>),
    Full(Vec<[f32; LANES]>),
    /// Small multiples of what so many share, as K types have them: their product is exact.
    Fine {
        steps: Vec<[i8; LANES]>,
        of: Vec<[f16; LANES]>,
        together: usize,
    },
    /// The bits of a float's exponent: powers of two, as MXFP4 has them.
    Exponents(Vec<[u8; LANES]>),
}

impl Table {
    /// In half precision, or as exponents alone, where that loses nothing.
    fn shortened(full: Vec<[f32; LANES]>) -> Self {
        let power = |x: &f32| f32::from_bits(u32::from(exponent(*x)) << 23) == *x;
        let exact = |x: &f32| f16::from_f32(*x).to_f32() == *x;
        if full.iter().flatten().all(power) {
            Table::Exponents(full.into_iter().map(|lanes| lanes.map(exponent)).collect())
        } else if full.iter().flatten().all(exact) {
            Table::Half(full.into_iter().map(|lanes| lanes.map(f16::from_f32)).collect())
        } else {
            Table::Full(full)
        }
    }

    /// Puts the tables of panels one after the other.
    fn join(mut parts: Vec<Self>) -> Self {
        let Some(Table::Fine { together, .. }) = parts.first() else {
            let full = parts.drain(..).flat_map(|part| match part {
                Table::Full(table) => table,
                _ => unreachable!("a panel's table is full or fine, as its type is"),
            });
            return Table::shortened(full.collect());
        };
        let (together, mut steps, mut of) = (*together, Vec::new(), Vec::new());
        for part in parts {
            if let Table::Fine { steps: more, of: more_of, .. } = part {
                steps.extend(more);
                of.extend(more_of);
            }
        }
        // They grew by doubling.
        steps.shrink_to_fit();
        of.shrink_to_fit();
        Table::Fine { steps, of, together }
    }

    /// Sets what a panel's table says of one output.
    fn set(&mut self, at: usize, lane: usize, value: f32, step: i8, shared: f16) {
        match self {
            Table::Fine { steps, of, together } => {
                steps[at][lane] = step;
                of[at / *together][lane] = shared;
            }
            Table::Full(table) => table[at][lane] = value,
            Table::Half(_) | Table::Exponents(_) => unreachable!("those are made of full ones"),
        }
    }

    fn get(&self, at: usize, lane: usize) -> f32 {
        match self {
            Table::Half(table) => table[at][lane].to_f32(),
            Table::Full(table) => table[at][lane],
            Table::Fine { steps, of, together } => {
                f32::from(steps[at][lane]) * of[at / together][lane].to_f32()
            }
            Table::Exponents(table) => f32::from_bits(u32::from(table[at][lane]) << 23),
        }
    }

    fn part(&self, range: Range<usize>) -> TablePart<'_> {
        match self {
            Table::Half(table) => TablePart::Half(&table[range]),
            Table::Full(table) => TablePart::Full(&table[range]),
            Table::Fine { steps, of, together } => TablePart::Fine {
                of: &of[range.start / together..range.end / together],
                steps: &steps[range],
                together: *together,
            },
            Table::Exponents(table) => TablePart::Exponents(&table[range]),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Table::Half(table) => size_of_val(table.as_slice()),
            Table::Full(table) => size_of_val(table.as_slice()),
            Table::Fine { steps, of, .. } => size_of_val(steps.as_slice()) + size_of_val(of.as_slice()),
            Table::Exponents(table) => size_of_val(table.as_slice()),
        }
    }
}

/// The bits of a number's exponent.
fn exponent(x: f32) -> u8 {
    (x.to_bits() >> 23) as u8
}

/// The part of a [`Table`] that belongs to a panel.
#[derive(Debug, Clone, Copy)]
enum TablePart<'a> {
    Half(&'a [[f16; LANES]]),
    Full(&'a [[f32; LANES]]),
    Fine { steps: &'a [[i8; LANES]], of: &'a [[f16; LANES]], together: usize },
    Exponents(&'a [[u8; LANES]]),
}

impl<'a> TablePart<'a> {
    #[inline(always)]
    fn at(self, at: usize) -> Factors<'a> {
        match self {
            TablePart::Half(table) => Factors::Half(&table[at]),
            TablePart::Full(table) => Factors::Full(&table[at]),
            TablePart::Fine { steps, of, together } => Factors::Fine(&steps[at], &of[at / together]),
            TablePart::Exponents(table) => Factors::Exponents(&table[at]),
        }
    }
}

/// 16 outputs.
#[derive(Debug, Clone, Copy)]
struct Panel<'a> {
    codes: Codes,
    groups: usize,
    lines: &'a [Line],
    scales: TablePart<'a>,
    mins: Option<TablePart<'a>>,
}

impl BlockPanels {
    /// Outputs in a panel.
    pub const WIDTH: usize = LANES;

    /// Packs a matrix; `None` if its type does not come in runs.
    pub fn pack(isa: Isa, tensor: &Tensor<'_>) -> Option<Self> {
        let kind = tensor.dtype.runs()?;
        let (panels, blocks) = (tensor.rows().div_ceil(LANES), tensor.cols() / BLOCK);
        let place = Place { codes: kind.codes, per_word: isa.activations_per_word() };
        let (spelling, order) = (Spelling::new(kind.codes), place.order());
        let mut lines = vec![Line([0; 64]); panels * blocks * place.lines()];
        let rows = tensor.data.par_chunks(LANES * tensor.row_bytes());
        let tables = rows.zip(lines.par_chunks_mut(blocks * place.lines())).map(|(rows, lines)| {
            let (mut scales, mut mins) =
                (kind.table(blocks * kind.scales, kind.scales), kind.table(blocks, 1));
            for (lane, row) in rows.chunks_exact(tensor.row_bytes()).enumerate() {
                let plain = std::iter::repeat_n(Multiples::NONE, blocks);
                let fine = (kind.together > 1).then(|| multiples(tensor.dtype, row));
                let fine = fine.into_iter().flatten().chain(plain);
                for (b, (run, of)) in runs(tensor.dtype, row).zip(fine).enumerate() {
                    put(&mut lines[b * place.lines()..][..place.lines()], lane, &run, &spelling, &order);
                    for g in 0..kind.scales {
                        scales.set(b * kind.scales + g, lane, run.scales[g], of.scales[g], of.scale_of);
                    }
                    if kind.min {
                        mins.set(b, lane, run.min, of.min, of.min_of);
                    }
                }
            }
            (scales, mins)
        });
        let (scales, mins): (Vec<Table>, Vec<Table>) = tables.unzip();
        let mins = kind.min.then(|| Table::join(mins));
        Some(BlockPanels { blocks, place, groups: kind.scales, lines, scales: Table::join(scales), mins })
    }

    /// Does a product need to know what activations sum to?
    pub fn needs_sums(&self) -> bool {
        // With four to a word, codes are multiplied as if they had no sign, which is then put right.
        self.mins.is_some() || self.place.per_word == 4 && self.place.codes != Codes::Nibbles
    }

    /// Bytes that the weights take.
    pub fn bytes(&self) -> usize {
        size_of_val(self.lines.as_slice()) + self.scales.bytes() + self.mins.as_ref().map_or(0, Table::bytes)
    }

    /// The weights of one output.
    pub fn output(&self, index: usize, into: &mut [f32]) {
        let (panel, lane) = (index / LANES, index % LANES);
        for (b, into) in into.chunks_exact_mut(BLOCK).enumerate() {
            let at = panel * self.blocks + b;
            let lines = &self.lines[at * self.place.lines()..][..self.place.lines()];
            let min = self.mins.as_ref().map_or(0.0, |mins| mins.get(at, lane));
            self.place.each(|input, line, byte, shift| {
                let stored = lines[line].0[lane * 4 + byte];
                let code = match self.place.codes {
                    Codes::Bytes => stored as i8,
                    Codes::Nibbles => (stored >> shift & 15) as i8,
                    Codes::Listed(list) => list[usize::from(stored >> shift & 15)],
                };
                let group = input / (BLOCK / self.groups);
                into[input] = self.scales.get(at * self.groups + group, lane) * f32::from(code) + min;
            });
        }
    }

    fn panel(&self, panel: usize) -> Panel<'_> {
        let blocks = panel * self.blocks..(panel + 1) * self.blocks;
        let times = |n: usize| blocks.start * n..blocks.end * n;
        Panel {
            codes: self.place.codes,
            groups: self.groups,
            lines: &self.lines[times(self.place.lines())],
            scales: self.scales.part(times(self.groups)),
            mins: self.mins.as_ref().map(|mins| mins.part(blocks.clone())),
        }
    }

    /// Some rows against some panels, whose results go to these columns.
    pub fn multiply(
        &self,
        isa: Isa,
        panels: Range<usize>,
        x: &CodeRows,
        rows: Range<usize>,
        out: &mut Columns<'_>,
    ) {
        debug_assert_eq!(self.place.per_word, isa.activations_per_word());
        for first in panels.clone().step_by(tile::WIDE) {
            let count = (panels.end - first).min(tile::WIDE);
            let mut some = [self.panel(first); tile::WIDE];
            for (at, panel) in some[..count].iter_mut().enumerate() {
                *panel = self.panel(first + at);
            }
            let some = &some[..count];
            let column = (first - panels.start) * LANES;
            let rows = rows.clone();
            match isa.0 {
                // SAFETY: plain code needs no special instructions.
                Level::Portable => unsafe { tile::multiply::<unit::Plain>(x, rows, some, column, out) },
                // SAFETY: an `Isa` of this level exists only where the machine reported these features; so for the next.
                #[cfg(target_arch = "x86_64")]
                Level::Avx2 => unsafe { avx2(x, rows, some, column, out) },
                #[cfg(target_arch = "x86_64")]
                // SAFETY: as above.
                Level::Avx512 => unsafe { avx512(x, rows, some, column, out) },
                #[cfg(target_arch = "x86_64")]
                // SAFETY: as above.
                Level::Vnni => unsafe { vnni(x, rows, some, column, out) },
                #[cfg(target_arch = "x86_64")]
                // SAFETY: as above.
                Level::Vnni8 => unsafe { vnni8(x, rows, some, column, out) },
            }
        }
    }
}

/// Defines a function that multiplies on one vector unit, compiled for it.
#[cfg(target_arch = "x86_64")]
macro_rules! compiled_for {
    ($name:ident, $unit:ty, $features:literal) => {
        #[target_feature(enable = $features)]
        fn $name(
            x: &CodeRows,
            rows: Range<usize>,
            panels: &[Panel<'_>],
            first_column: usize,
            out: &mut Columns<'_>,
        ) {
            // SAFETY: these are the unit's instructions.
            unsafe { tile::multiply::<$unit>(x, rows, panels, first_column, out) }
        }
    };
}

#[cfg(target_arch = "x86_64")]
compiled_for!(avx2, x86::Avx2, "avx2,fma,f16c");
#[cfg(target_arch = "x86_64")]
compiled_for!(avx512, x86::Avx512, "avx512f,avx512bw,avx512dq,avx512vl,fma,f16c");
#[cfg(target_arch = "x86_64")]
compiled_for!(vnni, x86::Vnni, "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,fma,f16c");
#[cfg(target_arch = "x86_64")]
compiled_for!(vnni8, x86::Vnni8, "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,fma,f16c");

/// Where codes lie in the lines of a block.
#[derive(Debug, Clone, Copy)]
struct Place {
    codes: Codes,
    /// Activations in a word.
    per_word: usize,
}

impl Place {
    /// Codes of one output in a line.
    fn per_line(self) -> usize {
        if self.codes == Codes::Bytes { 4 } else { 8 }
    }

    /// Lines of a block.
    fn lines(self) -> usize {
        BLOCK / self.per_line()
    }

    /// Calls `f(input, line, byte of the output's four, shift in the byte)` for every code of an output: where the lines
    /// unfold word by word, number `j` of word `k` is the code `k + j * steps` of its line.
    fn each(self, mut f: impl FnMut(usize, usize, usize, usize)) {
        let steps = self.per_line() / self.per_word;
        for word in 0..BLOCK / self.per_word {
            for j in 0..self.per_word {
                let code = word % steps + j * steps;
                let (byte, shift) =
                    if self.codes == Codes::Bytes { (code, 0) } else { (code / 2, code % 2 * 4) };
                f(input_of(self.per_word, word, j), word / steps, byte, shift);
            }
        }
    }

    /// The place of every input's code.
    fn order(self) -> [Spot; BLOCK] {
        let mut order = [Spot::default(); BLOCK];
        self.each(|input, line, byte, shift| order[input] = Spot { line, byte, shift });
        order
    }
}

/// A code's place in the lines of a block.
#[derive(Debug, Clone, Copy, Default)]
struct Spot {
    line: usize,
    byte: usize,
    shift: usize,
}

/// Puts an output's codes into the lines of a block.
fn put(lines: &mut [Line], lane: usize, run: &Run, spelling: &Spelling, order: &[Spot; BLOCK]) {
    for (code, spot) in run.codes.iter().zip(order) {
        lines[spot.line].0[lane * 4 + spot.byte] |= spelling.0[usize::from(*code as u8)] << spot.shift;
    }
}

/// The bits that a line has for each code.
struct Spelling([u8; 256]);

impl Spelling {
    fn new(codes: Codes) -> Self {
        let mut bits = std::array::from_fn(|code| code as u8);
        if let Codes::Listed(list) = codes {
            for (nibble, code) in (0..).zip(list) {
                bits[usize::from(*code as u8)] = nibble;
            }
        }
        Spelling(bits)
    }
}

impl Multiples {
    /// For types that have none.
    const NONE: Self = Self { scales: [0; 2], scale_of: f16::ZERO, min: 0, min_of: f16::ZERO };
}

impl RunKind {
    /// An empty table for a panel with so many entries, a number of them for each run.
    fn table(self, entries: usize, per_run: usize) -> Table {
        match self.together {
            1 => Table::Full(vec![[0.0; LANES]; entries]),
            runs => Table::Fine {
                steps: vec![[0; LANES]; entries],
                of: vec![[f16::ZERO; LANES]; entries / (runs * per_run)],
                together: runs * per_run,
            },
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
