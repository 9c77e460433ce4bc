//! Quantised weights as the whole numbers they are, against activations turned into whole numbers.
//!
//! A quantised row is made of blocks of 32 codes with a scale and perhaps a minimum (see [`runs`](crate::load::runs)).
//! Activations are treated the same way, block by block, with codes of 16 bits, which loses next to nothing: log-probabilities
//! stay within a hundredth of those that floats give, where 8 bits can be off by one. The dot product of two blocks is then
//! one of whole numbers: exact, the same on every machine, and twice as fast as one of floats. Only the scales are floats.
//! (A matrix unit cannot stop at every block: for it, rows and outputs have a scale each; see `matrix`.)
//!
//! Weights stay as small as they were, or nearly: a code takes as many bits as its type gives it. They lie in panels of 16
//! outputs: for each block, lines of 64 bytes with four bytes of every output (see [`place`]).

mod codes;
mod mapped;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod matrix;
mod place;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod planes;
mod table;
mod tile;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod unfold;
#[cfg(target_arch = "x86_64")]
mod winograd;

use std::ops::Range;

use rayon::prelude::*;

use super::ahead::Ahead;
use super::isa::{Isa, Level};
use super::sheet::Columns;
use super::unit::{self, LANES, Line};
#[cfg(target_arch = "x86_64")]
use super::unit::{
    avx2::Avx2,
    avx512::{Avx512, Vnni, Vnni8},
};
use crate::load::runs::{self, Codes, RUN, Scales};
use crate::load::{DType, Tensor};

use codes::CodeView;
use mapped::Mapped;
use place::Place;
use table::{Kind, Table, TablePart, TablePartMut};
#[cfg(target_arch = "x86_64")]
use winograd::narrow;

pub(crate) use codes::{CodeRows, Floats, SharedCodes};

/// Inputs that share a scale.
pub(super) const BLOCK: usize = RUN;

/// Rows that earn back what it costs to unfold a block ahead of its product (`cargo bench -p eager-native -- product`).
#[cfg(target_arch = "x86_64")]
pub(super) const UNFOLDED_ROWS: usize = 12;
/// The same for vectors of 256 bits, which are unfolded for one panel at a time.
#[cfg(target_arch = "x86_64")]
pub(super) const UNFOLDED_ROWS_256: usize = 8;

/// A matrix in panels of 16 outputs.
#[derive(Debug)]
pub(super) struct BlockPanels {
    blocks: usize,
    place: Place,
    /// Parts of a block with a scale (and a minimum) of their own.
    groups: usize,
    lines: Mapped<Line>,
    scales: Table,
    mins: Option<Table>,
    /// For the matrix unit, scales of the outputs of each panel.
    norms: Vec<[f32; LANES]>,
}

/// 16 outputs.
#[derive(Debug, Clone, Copy)]
struct Panel<'a> {
    codes: Codes,
    /// What is to be taken off all codes.
    surplus: i32,
    groups: usize,
    lines: &'a [Line],
    scales: TablePart<'a>,
    mins: Option<TablePart<'a>>,
}

/// The same, to be filled.
#[derive(Debug)]
struct PanelMut<'a> {
    lines: &'a mut [Line],
    scales: TablePartMut<'a>,
    mins: Option<TablePartMut<'a>>,
}

impl PanelMut<'_> {
    /// Packs one output.
    fn fill(&mut self, dtype: DType, per_word: usize, lane: usize, row: &[u8]) {
        // Loading spends its time here: each type has a function of its own, small enough for all it calls to be inlined.
        macro_rules! fill {
            ($($known:ident)*) => {
                match dtype {
                    $(DType::$known => {
                        #[inline(never)]
                        fn known(panel: &mut PanelMut<'_>, per_word: usize, lane: usize, row: &[u8]) {
                            panel.fill_known(DType::$known, per_word, lane, row);
                        }
                        known(self, per_word, lane, row);
                    })*
                    DType::F32 | DType::F16 | DType::BF16 => unreachable!("{dtype:?} has no runs"),
                }
            };
        }
        fill!(Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2K Q3K Q4K Q5K Q6K IQ4_NL IQ4_XS MXFP4)
    }

    #[inline(always)]
    fn fill_known(&mut self, dtype: DType, per_word: usize, lane: usize, row: &[u8]) {
        let Some(kind) = dtype.runs() else { return };
        let place = Place { codes: kind.codes, per_word };
        let (per_block, groups) = (dtype.block_len() / RUN, kind.groups);
        for (number, block) in row.chunks_exact(dtype.block_bytes()).enumerate() {
            let first = number * per_block;
            let [scale, min] = runs::shared(dtype, block);
            self.scales.share(first * groups, lane, scale, block);
            if let Some(mins) = &mut self.mins {
                mins.share(first * groups, lane, min, block);
            }
            for at in 0..per_block {
                let b = first + at;
                let lines = &mut self.lines[b * place.lines()..][..place.lines()];
                place.put(lines, lane, runs::codes(dtype, block, at));
                if kind.scales == Scales::Multiples {
                    let multiples = runs::multiples(dtype, block, at);
                    self.scales.multiply(b * groups, lane, &multiples.scales[..groups]);
                    if let Some(mins) = &mut self.mins {
                        mins.multiply(b * groups, lane, &multiples.mins[..groups]);
                    }
                }
            }
        }
    }
}

impl BlockPanels {
    /// Outputs in a panel.
    pub const WIDTH: usize = LANES;

    /// Packs a matrix; `None` if its type does not come in runs.
    pub fn pack(isa: Isa, tensor: &Tensor<'_>) -> Option<Self> {
        let kind = tensor.dtype.runs()?;
        let (panels, blocks) = (tensor.rows().div_ceil(LANES), tensor.cols() / BLOCK);
        let place = Place { codes: kind.codes, per_word: isa.activations_per_word() };
        let entries = blocks * kind.groups;
        let mut lines = Mapped::zeroed(panels * blocks * place.lines());
        let mut scales = Table::new(kind, tensor, panels * entries);
        let mut mins = kind.min.then(|| Table::new(kind, tensor, panels * entries));
        let all_scales = scales.parts_mut(entries);
        let mut all_mins = mins.as_mut().map_or_else(Vec::new, |mins| mins.parts_mut(entries)).into_iter();
        let parts = lines.chunks_mut(blocks * place.lines()).zip(all_scales);
        let parts: Vec<PanelMut<'_>> =
            parts.map(|(lines, scales)| PanelMut { lines, scales, mins: all_mins.next() }).collect();
        let rows = tensor.data.par_chunks(LANES * tensor.row_bytes());
        rows.zip(parts).for_each(|(rows, mut panel)| {
            for (lane, row) in rows.chunks_exact(tensor.row_bytes()).enumerate() {
                panel.fill(tensor.dtype, place.per_word, lane, row);
            }
        });
        #[cfg_attr(not(all(target_arch = "x86_64", target_os = "linux")), allow(unused_mut))]
        let mut packed =
            BlockPanels { blocks, place, groups: kind.groups, lines, scales, mins, norms: Vec::new() };
        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
        if isa.0 == Level::Amx {
            // SAFETY: an `Isa` of this level exists only where the machine reported these features.
            let norms = |panel: usize| unsafe { unfold::norms(&packed.panel(panel), blocks) };
            packed.norms = (0..panels).into_par_iter().map(norms).collect();
        }
        Some(packed)
    }

    /// Does a product need to know what activations sum to?
    pub fn needs_sums(&self) -> bool {
        self.mins.is_some() || self.place.surplus() != 0
    }

    /// Bytes that the weights take.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.lines)
            + self.scales.bytes()
            + self.mins.as_ref().map_or(0, Table::bytes)
            + size_of_val(&*self.norms)
    }

    /// The weights of one output.
    pub fn output(&self, index: usize, into: &mut [f32]) {
        let (panel, lane) = (index / LANES, index % LANES);
        for (b, into) in into.chunks_exact_mut(BLOCK).enumerate() {
            let at = panel * self.blocks + b;
            let lines = &self.lines[at * self.place.lines()..][..self.place.lines()];
            self.place.each(lines, lane, |input, code| {
                let entry = at * self.groups + input / (BLOCK / self.groups);
                let min = self.mins.as_ref().map_or(0.0, |mins| mins.get(entry, lane));
                into[input] = self.scales.get(entry, lane) * code as f32 + min;
            });
        }
    }

    // As a call it would go through memory, and a product asks for every panel.
    #[inline(always)]
    fn panel(&self, panel: usize) -> Panel<'_> {
        let blocks = panel * self.blocks..(panel + 1) * self.blocks;
        let times = |n: usize| blocks.start * n..blocks.end * n;
        Panel {
            codes: self.place.codes,
            surplus: self.place.surplus(),
            groups: self.groups,
            lines: &self.lines[times(self.place.lines())],
            scales: self.scales.part(times(self.groups)),
            mins: self.mins.as_ref().map(|mins| mins.part(times(self.groups))),
        }
    }

    /// Some rows against some panels, whose results go to these columns. Some kernels ask for what is ahead meanwhile.
    pub fn multiply(
        &self,
        isa: Isa,
        panels: Range<usize>,
        x: &CodeRows,
        rows: Range<usize>,
        ahead: Option<&Ahead<'_>>,
        out: &mut Columns<'_>,
    ) {
        debug_assert_eq!(self.place.per_word, isa.activations_per_word());
        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
        if isa.0 == Level::Amx {
            // SAFETY: an `Isa` of this level exists only where the machine reported these features.
            return unsafe { matrix::multiply(x.planes(), rows, self, panels, out) };
        }
        let x = x.view(ahead);
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
                Level::Portable => portable(x, rows, some, column, out),
                #[cfg(target_arch = "aarch64")]
                Level::Neon => neon(x, rows, some, column, out),
                // SAFETY: an `Isa` of this level exists only where the machine reported these features; so for the next.
                #[cfg(target_arch = "x86_64")]
                Level::Avx2 => unsafe {
                    // What is too little for it is left to the other, which gives the same results.
                    let (many, rest) = winograd::in_tiles(rows, UNFOLDED_ROWS_256);
                    // It has much memory on the stack, which few rows need not pay for.
                    if !many.is_empty() {
                        narrow(x, many, some, column, out);
                    }
                    if !rest.is_empty() {
                        avx2(x, rest, some, column, out);
                    }
                },
                #[cfg(target_arch = "x86_64")]
                // SAFETY: as above.
                Level::Avx512 => unsafe { avx512(x, rows, some, column, out) },
                #[cfg(target_arch = "x86_64")]
                // SAFETY: as above.
                Level::Vnni => unsafe { vnni(x, rows, some, column, out) },
                #[cfg(target_arch = "x86_64")]
                // SAFETY: as above.
                Level::Winograd => unsafe {
                    // As above; its tiles are as wide as panels come together.
                    let enough = if count == tile::WIDE { UNFOLDED_ROWS } else { usize::MAX };
                    let (many, rest) = winograd::in_tiles(rows, enough);
                    if !many.is_empty() {
                        winograd(x, many, some, column, out);
                    }
                    if !rest.is_empty() {
                        vnni(x, rest, some, column, out);
                    }
                },
                #[cfg(target_arch = "x86_64")]
                // SAFETY: as above.
                Level::Vnni8 => unsafe { vnni8(x, rows, some, column, out) },
                #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
                Level::Amx => unreachable!("multiplied above"),
            }
        }
    }
}

/// Defines a function that multiplies in one way on one vector unit, compiled for it.
macro_rules! compiled_for {
    ($name:ident, $way:ident, $unit:ty $(, $features:literal)?) => {
        $(#[target_feature(enable = $features)])?
        fn $name(
            x: CodeView<'_>,
            rows: Range<usize>,
            panels: &[Panel<'_>],
            first_column: usize,
            out: &mut Columns<'_>,
        ) {
            $(#[target_feature(enable = $features)])?
            fn of_kind<K: Kind, const CODES: usize, const MINS: bool>(
                x: CodeView<'_>,
                rows: Range<usize>,
                panels: &[Panel<'_>],
                first_column: usize,
                out: &mut Columns<'_>,
            ) {
                // SAFETY: these are the unit's instructions.
                unsafe { $way::multiply::<$unit, K, CODES, MINS>(x, rows, panels, first_column, out) }
            }
            let Some(first) = panels.first() else { return };
            tile::by_kind!(first, of_kind(x, rows, panels, first_column, out))
        }
    };
}

compiled_for!(portable, tile, unit::Plain);
#[cfg(target_arch = "aarch64")]
compiled_for!(neon, tile, unit::neon::Neon);
#[cfg(target_arch = "x86_64")]
compiled_for!(avx2, tile, Avx2, "avx2,fma,f16c");
#[cfg(target_arch = "x86_64")]
compiled_for!(narrow, narrow, Avx2, "avx2,fma,f16c");
#[cfg(target_arch = "x86_64")]
compiled_for!(avx512, tile, Avx512, "avx512f,avx512bw,avx512dq,avx512vl,fma,f16c");
#[cfg(target_arch = "x86_64")]
compiled_for!(vnni, tile, Vnni, "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,fma,f16c");
#[cfg(target_arch = "x86_64")]
compiled_for!(winograd, winograd, Vnni, "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,fma,f16c");
#[cfg(target_arch = "x86_64")]
compiled_for!(vnni8, tile, Vnni8, "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,fma,f16c");

#[cfg(test)]
pub(super) mod tests;
