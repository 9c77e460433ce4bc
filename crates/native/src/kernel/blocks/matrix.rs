//! Products on the matrix unit.
//!
//! Two bytes of a weight and two of an activation are four products of bytes, which makes three sums. All of them are exact, so
//! a row's results do not depend on which rows are computed beside it.

use std::arch::x86_64::*;
use std::cell::RefCell;
use std::ops::Range;

use super::BlockPanels;
use super::planes::Planes;
use super::table::Kind;
use super::tile::by_kind;
use super::unfold::Ahead;
use crate::kernel::sheet::Columns;
use crate::kernel::unit::amx::{self, Nothing, One, Shape, Sums, TILE, Tiles, Two};
use crate::kernel::unit::{LANES, ask_for};

/// Steps of 64 inputs whose sums 32 bits hold, whatever the numbers.
const STEPS: usize = 512;

/// Steps that weights are unfolded before they are needed. What was only just written is not at once there to be read.
const LEAD: usize = 2;

/// Steps whose weights are unfolded together where they meet many rows: with activations of 16 rows, they fit the first cache.
const PIECE: usize = 10;

/// What is kept from one product to the next, so that none has to ask for memory.
struct Buffers {
    /// Weights on their way to the unit.
    tiles: Vec<Tiles>,
    /// Scales of the rows, side by side.
    scales: Vec<f32>,
    /// Sums on their way back: of rows of one turn, or of all turns while they are not done.
    sums: Vec<Sums>,
}

thread_local! {
    static BUFFERS: RefCell<Buffers> = const {
        RefCell::new(Buffers { tiles: Vec::new(), scales: Vec::new(), sums: Vec::new() })
    };
}

/// Some rows against some panels of one matrix, whose results go to these columns.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,fma,f16c")]
pub(super) fn multiply(
    x: Planes<'_>,
    rows: Range<usize>,
    weights: &BlockPanels,
    panels: Range<usize>,
    out: &mut Columns<'_>,
) {
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,fma,f16c")]
    fn of_kind<K: Kind, const CODES: usize, const MINS: bool>(work: &mut Work<'_, '_>, panels: Range<usize>) {
        // SAFETY: an `Isa` of this level exists only where the unit was seen to work.
        unsafe { work.panels::<K, CODES, MINS>(panels) }
    }
    if rows.is_empty() {
        return;
    }
    BUFFERS.with_borrow_mut(|buffers| {
        buffers.tiles.resize(PIECE.max(LEAD + 1), Tiles::default());
        buffers.scales.clear();
        buffers.scales.extend(rows.clone().map(|row| x.scale(row)));
        buffers.sums.resize_with(buffers.sums.len().max(rows.len().div_ceil(TILE)), Sums::default);
        let mut work = Work { x, rows, weights, norms: [0.0; LANES], column: 0, at: 0, buffers, out };
        by_kind!(weights.panel(panels.start), of_kind(&mut work, panels));
    });
    // SAFETY: an `Isa` of this level exists only where the unit was seen to work.
    unsafe { amx::release() };
}

/// Some rows that meet one panel after the other.
struct Work<'a, 'c> {
    x: Planes<'a>,
    rows: Range<usize>,
    weights: &'a BlockPanels,
    /// Of the panel at hand.
    norms: [f32; LANES],
    column: usize,
    /// Where the next step's weights are, when there are few rows.
    at: usize,
    buffers: &'a mut Buffers,
    out: &'a mut Columns<'c>,
}

impl Work<'_, '_> {
    /// # Safety
    /// The process must be allowed to use the unit.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,fma,f16c")]
    unsafe fn panels<K: Kind, const CODES: usize, const MINS: bool>(&mut self, panels: Range<usize>) {
        let weights = self.weights;
        let mut ahead = Ahead::<K>::new(weights, panels.clone());
        let turns = self.rows.len().div_ceil(TILE);
        // As even as can be: the last of them would take no less time.
        let together = self.rows.len().div_ceil(turns);
        // SAFETY: the caller's promise; the unit does nothing yet.
        unsafe {
            Shape::new(together, turns == 2).load();
            if turns <= 2 {
                for step in &mut self.buffers.tiles[..LEAD] {
                    ahead.next::<CODES, MINS>(step, &Nothing);
                }
            }
        }
        for panel in panels {
            self.norms = weights.norms[panel];
            // A line for a panel: too few for the processor to see that there will be more.
            if let Some(later) = weights.norms.get(panel + 2) {
                ask_for(later.as_ptr());
            }
            // SAFETY: the registers have the shape of so many rows.
            unsafe {
                match turns {
                    1 => self.few::<K, CODES, MINS, false>(&mut ahead, together),
                    2 => self.few::<K, CODES, MINS, true>(&mut ahead, together),
                    _ => self.many::<K, CODES, MINS>(&mut ahead, together),
                }
            }
            self.column += LANES;
        }
    }

    /// All rows at once against a panel, while weights to come are unfolded.
    ///
    /// # Safety
    /// As for [`Parts`](amx::Parts).
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,fma,f16c")]
    unsafe fn few<K: Kind, const CODES: usize, const MINS: bool, const BOTH: bool>(
        &mut self,
        ahead: &mut Ahead<'_, K>,
        together: usize,
    ) {
        let (x, row, steps) = (self.x, self.rows.start, ahead.steps);
        self.expect(self.rows.clone());
        for first in (0..steps).step_by(STEPS) {
            // SAFETY: the caller's promise.
            unsafe { amx::clear(BOTH) };
            for step in first..steps.min(first + STEPS) {
                let into = (self.at + LEAD) % (LEAD + 1);
                let [now, into] =
                    self.buffers.tiles.get_disjoint_mut([self.at, into]).expect("they are apart");
                // SAFETY: as above; `Planes` has 64 bytes at every step of a row.
                unsafe {
                    if BOTH {
                        let rows = [x.rows(row, step), x.rows(row + together, step)];
                        ahead.next::<CODES, MINS>(into, &Two(rows, now));
                    } else {
                        ahead.next::<CODES, MINS>(into, &One(x.rows(row, step), now));
                    }
                }
                self.at = (self.at + 1) % (LEAD + 1);
            }
            let middle = self.rows.end.min(row + together);
            // SAFETY: as above.
            unsafe {
                self.finish(row..middle, false, first == 0);
                if BOTH {
                    self.finish(middle..self.rows.end, true, first == 0);
                }
            }
        }
    }

    /// A panel in pieces, which are unfolded first and then meet rows, some at a time.
    ///
    /// # Safety
    /// As for [`Parts`](amx::Parts).
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,fma,f16c")]
    unsafe fn many<K: Kind, const CODES: usize, const MINS: bool>(
        &mut self,
        ahead: &mut Ahead<'_, K>,
        together: usize,
    ) {
        let steps = ahead.steps;
        let long = steps.div_ceil(steps.div_ceil(PIECE));
        let mut first = 0;
        while first < steps {
            // Where sums begin, and where they end.
            let (begin, end) = (first / STEPS * STEPS, steps.min((first / STEPS + 1) * STEPS));
            let piece = first..end.min(first + long);
            for into in &mut self.buffers.tiles[..piece.len()] {
                // SAFETY: the caller's promise.
                unsafe { ahead.next::<CODES, MINS>(into, &Nothing) };
            }
            for turn in 0..self.rows.len().div_ceil(together) {
                let row = self.rows.start + turn * together;
                let rows = row..self.rows.end.min(row + together);
                if piece.end == end {
                    self.expect(rows.clone());
                }
                // SAFETY: the caller's promise; `Planes` has 64 bytes at every step of a row.
                unsafe {
                    match first == begin {
                        true => amx::clear(false),
                        false => amx::load(&self.buffers.sums[turn]),
                    }
                    for (step, weights) in self.buffers.tiles[..piece.len()].iter().enumerate() {
                        amx::multiply(&One(self.x.rows(row, first + step), weights));
                    }
                    match piece.end == end {
                        true => self.finish(rows, false, begin == 0),
                        false => amx::store(&mut self.buffers.sums[turn], false),
                    }
                }
            }
            first = piece.end;
        }
    }

    /// Says that results of some rows are to come.
    #[inline(always)]
    fn expect(&mut self, rows: Range<usize>) {
        for row in rows {
            self.out.expect(row, self.column, 1);
        }
    }

    /// Gives out what the unit summed up for the first or the second rows, or adds it to what it gave before.
    ///
    /// # Safety
    /// As for [`Parts`](amx::Parts).
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,fma")]
    unsafe fn finish(&mut self, rows: Range<usize>, second: bool, begun: bool) {
        // SAFETY: the caller's promise.
        unsafe { amx::store(&mut self.buffers.sums[0], second) };
        let Sums([upper, mixed, lower]) = &self.buffers.sums[0];
        let scales = &self.buffers.scales[rows.start - self.rows.start..][..rows.len()];
        let (count, place, stride) = self.out.place(rows, self.column);
        let lanes = if count < LANES { (1 << count) - 1 } else { u16::MAX };
        // SAFETY: each reads or writes sixteen numbers, or as many as there are columns: they are this task's alone.
        unsafe {
            let norms = _mm512_loadu_ps(self.norms.as_ptr());
            // A plain loop: iterators are not always inlined here.
            for at in 0..scales.len().min(TILE) {
                let sum = |sums: &[i32; LANES]| _mm512_cvtepi32_ps(_mm512_load_si512(sums.as_ptr().cast()));
                let results = _mm512_fmadd_ps(sum(&mixed[at]), _mm512_set1_ps(256.0), sum(&lower[at]));
                let results = _mm512_fmadd_ps(sum(&upper[at]), _mm512_set1_ps(65536.0), results);
                let mut results = _mm512_mul_ps(results, _mm512_mul_ps(norms, _mm512_set1_ps(scales[at])));
                let place = place.add(at * stride);
                if !begun {
                    results = _mm512_add_ps(results, _mm512_maskz_loadu_ps(lanes, place));
                }
                _mm512_mask_storeu_ps(place, lanes, results);
            }
        }
    }
}
