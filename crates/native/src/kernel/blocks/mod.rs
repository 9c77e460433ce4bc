//! Quantised weights as the whole numbers they are, against activations turned into whole numbers.
//!
//! A quantised row is made of blocks of 32 codes with a scale and perhaps a minimum (see [`runs`](crate::load::runs)).
//! Activations are treated the same way, block by block, with codes of 16 bits, which loses next to nothing: log-probabilities
//! stay within a hundredth of those that floats give, where 8 bits can be off by one. The dot product of two blocks is then
//! one of whole numbers: exact, the same on every machine, and twice as fast as one of floats. Only the scales are floats.
//!
//! Weights stay as small as they were. They lie in panels of 16 outputs: for each block, lines of 64 bytes with eight
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
use crate::load::runs::{RUN, Run, runs};

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
}

impl Table {
    /// In half precision where that loses nothing.
    fn new(full: Vec<[f32; LANES]>) -> Self {
        let exact = |x: &f32| f16::from_f32(*x).to_f32() == *x;
        match full.iter().flatten().all(exact) {
            true => Table::Half(full.into_iter().map(|lanes| lanes.map(f16::from_f32)).collect()),
            false => Table::Full(full),
        }
    }

    fn get(&self, at: usize, lane: usize) -> f32 {
        match self {
            Table::Half(table) => table[at][lane].to_f32(),
            Table::Full(table) => table[at][lane],
        }
    }

    fn part(&self, range: Range<usize>) -> TablePart<'_> {
        match self {
            Table::Half(table) => TablePart::Half(&table[range]),
            Table::Full(table) => TablePart::Full(&table[range]),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Table::Half(table) => size_of_val(table.as_slice()),
            Table::Full(table) => size_of_val(table.as_slice()),
        }
    }
}

/// The part of a [`Table`] that belongs to a panel.
#[derive(Debug, Clone, Copy)]
enum TablePart<'a> {
    Half(&'a [[f16; LANES]]),
    Full(&'a [[f32; LANES]]),
}

impl<'a> TablePart<'a> {
    #[inline(always)]
    fn at(self, at: usize) -> Factors<'a> {
        match self {
            TablePart::Half(table) => Factors::Half(&table[at]),
            TablePart::Full(table) => Factors::Full(&table[at]),
        }
    }
}

/// 16 outputs.
#[derive(Debug, Clone, Copy)]
struct Panel<'a> {
    nibbles: bool,
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
        let place = Place { nibbles: kind.nibbles, per_word: isa.activations_per_word() };
        let mut lines = vec![Line([0; 64]); panels * blocks * place.lines()];
        let mut scales = vec![[0.0; LANES]; panels * blocks * kind.scales];
        let mut mins = vec![[0.0; LANES]; panels * blocks];
        let rows = tensor.data.par_chunks(LANES * tensor.row_bytes());
        let parts =
            lines.par_chunks_mut(blocks * place.lines()).zip(scales.par_chunks_mut(blocks * kind.scales));
        rows.zip(parts).zip(mins.par_chunks_mut(blocks)).for_each(|((rows, (lines, scales)), mins)| {
            for (lane, row) in rows.chunks_exact(tensor.row_bytes()).enumerate() {
                for (b, run) in runs(tensor.dtype, row).enumerate() {
                    place.put(&mut lines[b * place.lines()..][..place.lines()], lane, &run);
                    for g in 0..kind.scales {
                        scales[b * kind.scales + g][lane] = run.scales[g];
                    }
                    mins[b][lane] = run.min;
                }
            }
        });
        let mins = kind.min.then(|| Table::new(mins));
        Some(BlockPanels { blocks, place, groups: kind.scales, lines, scales: Table::new(scales), mins })
    }

    /// Does a product need to know what activations sum to?
    pub fn needs_sums(&self) -> bool {
        // With four to a word, bytes are multiplied as if they had no sign, which is then put right.
        self.mins.is_some() || self.place.per_word == 4 && !self.place.nibbles
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
                let code = if self.place.nibbles { (stored >> shift & 15) as i8 } else { stored as i8 };
                let group = input / (BLOCK / self.groups);
                into[input] = self.scales.get(at * self.groups + group, lane) * f32::from(code) + min;
            });
        }
    }

    fn panel(&self, panel: usize) -> Panel<'_> {
        let blocks = panel * self.blocks..(panel + 1) * self.blocks;
        let times = |n: usize| blocks.start * n..blocks.end * n;
        Panel {
            nibbles: self.place.nibbles,
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
    nibbles: bool,
    /// Activations in a word.
    per_word: usize,
}

impl Place {
    /// Codes of one output in a line.
    fn codes(self) -> usize {
        if self.nibbles { 8 } else { 4 }
    }

    /// Lines of a block.
    fn lines(self) -> usize {
        BLOCK / self.codes()
    }

    /// Calls `f(input, line, byte of the output's four, shift in the byte)` for every code of an output: where the lines
    /// unfold word by word, number `j` of word `k` is the code `k + j * steps` of its line.
    fn each(self, mut f: impl FnMut(usize, usize, usize, usize)) {
        let steps = self.codes() / self.per_word;
        for word in 0..BLOCK / self.per_word {
            for j in 0..self.per_word {
                let code = word % steps + j * steps;
                let (byte, shift) = if self.nibbles { (code / 2, code % 2 * 4) } else { (code, 0) };
                f(input_of(self.per_word, word, j), word / steps, byte, shift);
            }
        }
    }

    fn put(self, lines: &mut [Line], lane: usize, run: &Run) {
        self.each(|input, line, byte, shift| {
            lines[line].0[lane * 4 + byte] |= (run.codes[input] as u8) << shift;
        });
    }
}

#[cfg(test)]
pub(super) mod tests;
