//! How keys and values lie in a page.
//!
//! They are whole numbers with a scale for each token and head, so that scores and weighted values are dot products of whole
//! numbers, which a vector unit does faster than those of floats, and exactly. On request they are floats, for comparing.

use std::f32::consts::LOG2_E;
use std::hint::black_box;

use bytemuck::Pod;

use super::{Attention, PAGE};
use crate::kernel::isa::{Isa, multiversion};
use crate::kernel::lanes::{LANES, ROUND, fold};
use crate::kernel::unit::{Line, Whole, ask_for_later};

/// How keys and values are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KvType {
    /// In 16 bits each: as accurate as half precision.
    #[default]
    Q16,
    /// In 8 bits each: half the memory, at some cost in accuracy.
    Q8,
    /// As they were computed: twice the memory, and slow. For telling what rounding them costs.
    F32,
}

impl KvType {
    /// Bytes of a number.
    fn bytes(self) -> usize {
        match self {
            KvType::Q16 => size_of::<i16>(),
            KvType::Q8 => size_of::<i8>(),
            KvType::F32 => size_of::<f32>(),
        }
    }
}

/// A whole number that stands for a key or a value.
pub(super) trait Code: Whole {
    /// The largest. It leaves so much room below 31 bits that a dot product of keys with queries does not overflow.
    const MOST: i32;

    fn of(bits: u32) -> Self;
}

impl Code for i16 {
    const MOST: i32 = 4095;

    #[inline(always)]
    fn of(bits: u32) -> i16 {
        bits as i16
    }
}

impl Code for i8 {
    const MOST: i32 = i8::MAX as i32;

    #[inline(always)]
    fn of(bits: u32) -> i8 {
        bits as i8
    }
}

/// Keys and values of one head in one layer of one page.
///
/// Pairs of dimensions of keys lie by token (`[dim / 2][token][2]`), so that a token is a lane of scores; pairs of tokens of
/// values lie by dimension (`[token / 2][dim][2]`), so that a dimension is a lane of sums.
#[derive(Debug, Clone, Copy)]
pub(super) struct HeadPage<'a, T> {
    pub keys: &'a [[T; 2 * PAGE]],
    pub values: &'a [[T; 2 * PAGE]],
    pub key_scales: &'a [f32; PAGE],
    pub value_scales: &'a [f32; PAGE],
}

/// Bytes of a scale.
const SCALE: usize = size_of::<f32>();

impl Attention {
    /// Bytes of a head's keys, and of its values.
    fn bytes(&self) -> (usize, usize) {
        let number = self.kv.bytes();
        (PAGE * self.head_dim.next_multiple_of(2) * number, PAGE * self.value_width() * number)
    }

    /// Bytes of one head in one layer of one page.
    fn head_bytes(&self) -> usize {
        let (keys, values) = self.bytes();
        (keys + values + 2 * PAGE * SCALE).next_multiple_of(64)
    }

    /// Bytes of one layer of one page.
    pub fn page_bytes(&self) -> usize {
        self.kv_heads * self.head_bytes()
    }

    /// Keys and values of one head.
    #[inline(always)]
    pub(super) fn head<'a, T: Pod>(&self, page: &'a [u8], kv_head: usize) -> HeadPage<'a, T> {
        let (keys, values) = self.bytes();
        let head = &page[kv_head * self.head_bytes()..][..self.head_bytes()];
        let scales: &[[f32; PAGE]] = bytemuck::cast_slice(&head[keys + values..][..2 * PAGE * SCALE]);
        HeadPage {
            keys: bytemuck::cast_slice::<u8, T>(&head[..keys]).as_chunks().0,
            values: bytemuck::cast_slice::<u8, T>(&head[keys..][..values]).as_chunks().0,
            key_scales: &scales[0],
            value_scales: &scales[1],
        }
    }

    /// Bytes of a token's keys and values as [`Attention::encode`] leaves them.
    pub fn token_bytes(&self) -> usize {
        2 * self.kv_heads * (self.head_dim * self.kv.bytes() + SCALE)
    }

    /// A token's keys and values (all heads, one after the other) as a page keeps them, and then their scales.
    pub fn encode(&self, isa: Isa, keys_and_values: &[f32], into: &mut [u8]) {
        let (codes, scales) = into.split_at_mut(keys_and_values.len() * self.kv.bytes());
        let heads = keys_and_values.chunks_exact(self.head_dim);
        let codes = codes.chunks_exact_mut(self.head_dim * self.kv.bytes());
        for ((numbers, codes), scale) in heads.zip(codes).zip(scales.chunks_exact_mut(SCALE)) {
            let most = match self.kv {
                KvType::Q16 => to_shorts(isa, numbers, i16::MOST, bytemuck::cast_slice_mut(codes)),
                KvType::Q8 => to_bytes(isa, numbers, bytemuck::cast_slice_mut(codes)),
                KvType::F32 => {
                    codes.copy_from_slice(bytemuck::cast_slice(numbers));
                    1.0
                }
            };
            scale.copy_from_slice(&most.to_ne_bytes());
        }
    }

    /// Words of a query: two whole numbers each, or the bits of a float.
    pub fn query_words(&self) -> usize {
        if self.kv == KvType::F32 { self.head_dim } else { self.head_dim.div_ceil(2) }
    }

    /// A row's queries (all heads, one after the other) as whole numbers, so small that their products with keys do not
    /// overflow, and their scales.
    pub fn encode_queries(&self, isa: Isa, queries: &[f32], words: &mut [i32], scales: &mut [f32]) {
        let (dim, count) = (self.head_dim, self.query_words());
        // Scores are logarithms to base two.
        let scale = LOG2_E / (dim as f32).sqrt();
        let most_key = match self.kv {
            KvType::Q16 => i16::MOST,
            KvType::Q8 => i8::MOST,
            KvType::F32 => {
                words.copy_from_slice(bytemuck::cast_slice(queries));
                return scales.fill(scale);
            }
        };
        let most = (i32::MAX / (2 * count as i32 * most_key)).min(i16::MAX.into());
        let heads = queries.chunks_exact(dim).zip(words.chunks_exact_mut(count));
        for ((numbers, words), scale_of) in heads.zip(scales) {
            // Of an odd number, the last word is half empty.
            words[count - 1] = 0;
            *scale_of = scale * to_shorts(isa, numbers, most, &mut bytemuck::cast_slice_mut(words)[..dim]);
        }
    }

    /// Asks for the lines of a page, which begins there, that a token in this slot will be written to.
    pub fn expect(&self, page: *const u8, slot: usize) {
        let (keys, values) = self.bytes();
        let pair = 2 * self.value_width() * self.kv.bytes();
        let written =
            [0..keys, keys + slot / 2 * pair..keys + (slot / 2 + 1) * pair, keys + values..self.head_bytes()];
        for head in 0..self.kv_heads {
            for part in &written {
                for at in part.clone().step_by(size_of::<Line>()) {
                    ask_for_later(page.wrapping_add(head * self.head_bytes() + at));
                }
            }
        }
    }

    /// Writes an encoded token into its slot of a page.
    pub fn store(&self, page: &mut [u8], slot: usize, token: &[u8]) {
        match self.kv {
            KvType::Q16 => self.store_codes::<i16>(page, slot, token),
            KvType::Q8 => self.store_codes::<i8>(page, slot, token),
            KvType::F32 => self.store_codes::<f32>(page, slot, token),
        }
    }

    fn store_codes<T: Pod>(&self, page: &mut [u8], slot: usize, token: &[u8]) {
        let dim = self.head_dim;
        let (codes, scales) = token.split_at(2 * self.kv_heads * dim * size_of::<T>());
        let codes: &[T] = bytemuck::cast_slice(codes);
        let (key_bytes, value_bytes) = self.bytes();
        for (head, page) in page.chunks_exact_mut(self.head_bytes()).enumerate() {
            let (page_codes, page_scales) = page.split_at_mut(key_bytes + value_bytes);
            let (keys, values) = page_codes.split_at_mut(key_bytes);
            let (keys, values) =
                (bytemuck::cast_slice_mut::<u8, T>(keys), bytemuck::cast_slice_mut::<u8, T>(values));
            let (of_keys, of_values) = (head, self.kv_heads + head);
            let (pairs, last) = codes[of_keys * dim..][..dim].as_chunks::<2>();
            let places = keys.as_chunks_mut::<2>().0;
            for (at, pair) in pairs.iter().enumerate() {
                places[at * PAGE + slot] = *pair;
            }
            if let [last] = last {
                keys[dim / 2 * 2 * PAGE + 2 * slot] = *last;
            }
            let first = slot / 2 * 2 * self.value_width() + slot % 2;
            for (into, &code) in values[first..].iter_mut().step_by(2).zip(&codes[of_values * dim..][..dim]) {
                *into = code;
            }
            for (at, of) in [(slot, of_keys), (PAGE + slot, of_values)] {
                page_scales[at * SCALE..][..SCALE].copy_from_slice(&scales[of * SCALE..][..SCALE]);
            }
        }
    }
}

multiversion! {
    /// Whole numbers of at most `most`; gives their scale. Whatever comes in, that is finite.
    fn to_shorts(from: &[f32], most: i32, into: &mut [i16]) -> f32 = to_shorts_lanes
}

multiversion! {
    fn to_bytes(from: &[f32], into: &mut [i8]) -> f32 = to_bytes_lanes
}

#[inline(always)]
fn to_shorts_lanes<const FMA: bool>(from: &[f32], most: i32, into: &mut [i16]) -> f32 {
    to_codes(from, most as f32, into)
}

#[inline(always)]
fn to_bytes_lanes<const FMA: bool>(from: &[f32], into: &mut [i8]) -> f32 {
    to_codes(from, i8::MOST as f32, into)
}

#[inline(always)]
fn to_codes<T: Code>(from: &[f32], most: f32, into: &mut [T]) -> f32 {
    /// What is larger is taken for this, and what is no number for nothing.
    const LARGEST: f32 = 1e30;
    let (whole, rest) = from.as_chunks::<LANES>();
    // Without the sign, bits are ordered as the numbers they stand for, and what is no number is the largest.
    let size = |x: f32| x.to_bits() & (u32::MAX >> 1);
    let larger = |a: u32, b: u32| if a > b { a } else { b };
    let mut sizes = [0; LANES];
    // Lanes by way of `black_box`: the compiler would rather take a number from each of sixteen of them at a time.
    for x in whole {
        let x = black_box(x);
        for i in 0..LANES {
            sizes[i] = larger(sizes[i], size(x[i]));
        }
    }
    // By themselves: sizes whose number is not known would have to be in memory.
    let of_rest = rest.iter().fold(0, |largest, x| larger(largest, size(*x)));
    let largest = f32::from_bits(larger(fold(sizes, larger), of_rest));
    // What is so small is as good as nothing, and its inverse might not be a number.
    let inverse = |largest: f32| if largest > 1e-30 { most / largest } else { 0.0 };
    if largest <= LARGEST {
        let inverse = inverse(largest);
        let code = |x: f32| T::of((x * inverse + ROUND).to_bits());
        let (into, into_rest) = into.as_chunks_mut::<LANES>();
        for at in 0..whole.len() {
            let (x, mut codes) = (*black_box(&whole[at]), [T::of(0); LANES]);
            for i in 0..LANES {
                codes[i] = code(x[i]);
            }
            into[at] = codes;
        }
        for i in 0..rest.len() {
            into_rest[i] = code(rest[i]);
        }
        return largest / most;
    }
    let finite = |x: f32| if x.is_nan() { 0.0 } else { x.clamp(-LARGEST, LARGEST) };
    let largest = from.iter().fold(0.0, |largest: f32, x| largest.max(finite(*x).abs()));
    let inverse = inverse(largest);
    for (from, into) in from.iter().zip(into) {
        *into = T::of((finite(*from) * inverse + ROUND).to_bits());
    }
    largest / most
}
