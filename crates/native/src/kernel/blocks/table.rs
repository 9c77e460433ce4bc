//! Scales and minima, as small as their types keep them.

use std::ops::Range;

use half::f16;
use rayon::prelude::*;

use super::mapped::Mapped;
use crate::kernel::unit::{Factors, LANES};
use crate::load::Tensor;
use crate::load::runs::{RUN, RunKind, Scales, exponent, power};

/// Blocks whose scales are multiples of one: K types have 256 weights to that.
const TOGETHER: usize = 256 / RUN;

/// Scales or minima, 16 outputs side by side.
#[derive(Debug)]
pub(super) enum Table {
    Half(Mapped<[f16; LANES]>),
    Full(Mapped<[f32; LANES]>),
    /// Small multiples of what so many entries share, as K types have them: their product is exact.
    Fine {
        steps: Mapped<[i8; LANES]>,
        of: Mapped<[f16; LANES]>,
        together: usize,
    },
    /// The bits of a float's exponent: powers of two, as MXFP4 has them.
    Exponents(Mapped<[u8; LANES]>),
}

impl Table {
    /// An empty table for panels with so many entries in all.
    pub fn new(kind: RunKind, tensor: &Tensor<'_>, entries: usize) -> Self {
        match kind.scales {
            Scales::Half => Table::Half(Mapped::zeroed(entries)),
            Scales::Multiples => {
                debug_assert_eq!(tensor.dtype.block_len(), TOGETHER * RUN);
                let together = TOGETHER * kind.groups;
                let of = Mapped::zeroed(entries / together);
                Table::Fine { steps: Mapped::zeroed(entries), of, together }
            }
            Scales::Powers => {
                // In large pieces, of which every thread can look at some.
                let pieces = tensor.data.par_chunks(tensor.dtype.block_bytes() << 12);
                let normal = |piece: &[u8]| {
                    piece.chunks_exact(tensor.dtype.block_bytes()).all(|block| exponent(block) > 0)
                };
                match pieces.all(normal) {
                    true => Table::Exponents(Mapped::zeroed(entries)),
                    false => Table::Full(Mapped::zeroed(entries)),
                }
            }
        }
    }

    pub fn get(&self, at: usize, lane: usize) -> f32 {
        match self {
            Table::Half(table) => table[at][lane].to_f32(),
            Table::Full(table) => table[at][lane],
            Table::Fine { steps, of, together } => {
                f32::from(steps[at][lane]) * of[at / together][lane].to_f32()
            }
            Table::Exponents(table) => f32::from_bits(u32::from(table[at][lane]) << 23),
        }
    }

    #[inline(always)]
    pub fn part(&self, range: Range<usize>) -> TablePart<'_> {
        match self {
            Table::Half(table) => TablePart::Half(&table[range]),
            Table::Full(table) => TablePart::Full(&table[range]),
            Table::Fine { steps, of, together } => TablePart::Fine {
                of: &of[range.start / together..range.end / together],
                steps: &steps[range],
            },
            Table::Exponents(table) => TablePart::Exponents(&table[range]),
        }
    }

    /// The parts of panels with so many entries each, to be filled.
    pub fn parts_mut(&mut self, entries: usize) -> Vec<TablePartMut<'_>> {
        match self {
            Table::Half(table) => table.chunks_mut(entries).map(TablePartMut::Half).collect(),
            Table::Full(table) => table.chunks_mut(entries).map(TablePartMut::Full).collect(),
            Table::Fine { steps, of, together } => {
                let parts = steps.chunks_mut(entries).zip(of.chunks_mut(entries / *together));
                parts.map(|(steps, of)| TablePartMut::Fine { steps, of, together: *together }).collect()
            }
            Table::Exponents(table) => table.chunks_mut(entries).map(TablePartMut::Exponents).collect(),
        }
    }

    pub fn bytes(&self) -> usize {
        match self {
            Table::Half(table) => size_of_val(&**table),
            Table::Full(table) => size_of_val(&**table),
            Table::Fine { steps, of, .. } => size_of_val(&**steps) + size_of_val(&**of),
            Table::Exponents(table) => size_of_val(&**table),
        }
    }
}

/// The part of a [`Table`] that belongs to a panel.
#[derive(Debug, Clone, Copy)]
pub(super) enum TablePart<'a> {
    Half(&'a [[f16; LANES]]),
    Full(&'a [[f32; LANES]]),
    Fine { steps: &'a [[i8; LANES]], of: &'a [[f16; LANES]] },
    Exponents(&'a [[u8; LANES]]),
}

/// A kind of [`TablePart`], known where the code that walks it is made: a choice in its loop would double that code.
pub(super) trait Kind {
    type Part<'a>: Copy;
    /// The part, which must be of this kind.
    fn of(part: TablePart<'_>) -> Self::Part<'_>;
    /// Entry number `at`, which belongs to this block.
    fn at(part: Self::Part<'_>, at: usize, block: usize) -> Factors<'_>;
}

/// Defines the [`Kind`] of tables that are one list.
macro_rules! kind {
    ($name:ident, $of:ty) => {
        #[derive(Debug)]
        pub(super) struct $name;

        impl Kind for $name {
            type Part<'a> = &'a [$of];

            #[inline(always)]
            fn of(part: TablePart<'_>) -> &[$of] {
                match part {
                    TablePart::$name(table) => table,
                    other => unreachable!("{} wanted of {other:?}", stringify!($name)),
                }
            }

            #[inline(always)]
            fn at(part: Self::Part<'_>, at: usize, _: usize) -> Factors<'_> {
                Factors::$name(&part[at])
            }
        }
    };
}
kind!(Half, [f16; LANES]);
kind!(Full, [f32; LANES]);
kind!(Exponents, [u8; LANES]);

#[derive(Debug)]
pub(super) struct Fine;

impl Kind for Fine {
    type Part<'a> = (&'a [[i8; LANES]], &'a [[f16; LANES]]);

    #[inline(always)]
    fn of(part: TablePart<'_>) -> Self::Part<'_> {
        match part {
            TablePart::Fine { steps, of } => (steps, of),
            other => unreachable!("multiples wanted of {other:?}"),
        }
    }

    #[inline(always)]
    fn at((steps, of): Self::Part<'_>, at: usize, block: usize) -> Factors<'_> {
        Factors::Fine(&steps[at], &of[block / TOGETHER])
    }
}

/// The same, to be filled.
#[derive(Debug)]
pub(super) enum TablePartMut<'a> {
    Half(&'a mut [[f16; LANES]]),
    Full(&'a mut [[f32; LANES]]),
    Fine { steps: &'a mut [[i8; LANES]], of: &'a mut [[f16; LANES]], together: usize },
    Exponents(&'a mut [[u8; LANES]]),
}

impl TablePartMut<'_> {
    /// Sets what a whole stored block has, whose first entry is number `at`, for one output.
    #[inline(always)]
    pub fn share(&mut self, at: usize, lane: usize, shared: f16, block: &[u8]) {
        match self {
            TablePartMut::Half(table) => table[at][lane] = shared,
            TablePartMut::Full(table) => table[at][lane] = power(block),
            TablePartMut::Fine { of, together, .. } => of[at / *together][lane] = shared,
            TablePartMut::Exponents(table) => table[at][lane] = exponent(block),
        }
    }

    /// Sets the multiples of a run, where the table has them.
    #[inline(always)]
    pub fn multiply(&mut self, at: usize, lane: usize, multiples: &[i8]) {
        if let TablePartMut::Fine { steps, .. } = self {
            for group in 0..multiples.len() {
                steps[at + group][lane] = multiples[group];
            }
        }
    }
}
