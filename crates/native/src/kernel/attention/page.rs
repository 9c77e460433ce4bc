//! How keys and values lie in a page.

use half::f16;

use super::{Attention, PAGE};
use crate::kernel::isa::{Isa, multiversion};
use crate::kernel::lanes::{LANES, Lanes, ROUND};

/// How keys and values are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KvType {
    /// Half precision.
    #[default]
    F16,
    /// Bytes, with a scale for each token and head: half the memory, at some cost in accuracy.
    Q8,
}

impl KvType {
    /// Bytes of a number.
    fn bytes(self) -> usize {
        match self {
            KvType::F16 => size_of::<f16>(),
            KvType::Q8 => size_of::<i8>(),
        }
    }

    /// Bytes of the scales of a token's keys and values.
    fn scale_bytes(self) -> usize {
        match self {
            KvType::F16 => 0,
            KvType::Q8 => 2 * size_of::<f32>(),
        }
    }
}

/// Keys and values of one head in one layer of one page.
///
/// Keys lie by dimension (`[dim][token]`), so that a token is a lane of scores; values lie by token (`[token][dim]`), so
/// that a dimension is a lane of sums.
#[derive(Debug, Clone, Copy)]
pub(super) enum HeadPage<'a> {
    F16 { keys: &'a [f16], values: &'a [f16] },
    Q8 { keys: &'a [i8], values: &'a [i8], key_scales: &'a [f32; PAGE], value_scales: &'a [f32; PAGE] },
}

/// Numbers that can be read 16 at a time.
pub(super) trait Numbers: Copy {
    fn lanes<const FMA: bool>(from: &[Self]) -> Lanes;
}

impl Numbers for f16 {
    #[inline(always)]
    fn lanes<const FMA: bool>(from: &[f16]) -> Lanes {
        Lanes::load_half::<FMA>(from)
    }
}

impl Numbers for i8 {
    #[inline(always)]
    fn lanes<const FMA: bool>(from: &[i8]) -> Lanes {
        let from: &[i8; LANES] = from.try_into().expect("exactly LANES of them");
        let mut lanes = Lanes::ZERO;
        for i in 0..LANES {
            lanes.0[i] = f32::from(from[i]);
        }
        lanes
    }
}

impl Numbers for f32 {
    #[inline(always)]
    fn lanes<const FMA: bool>(from: &[f32]) -> Lanes {
        Lanes::load(from)
    }
}

impl Attention {
    /// Bytes of a head's keys, and of its values.
    fn bytes(&self) -> (usize, usize) {
        let number = self.kv.bytes();
        (PAGE * self.head_dim * number, PAGE * self.value_width() * number)
    }

    /// Bytes of all scales of a head.
    fn scale_bytes(&self) -> usize {
        PAGE * self.kv.scale_bytes()
    }

    /// Bytes of one head in one layer of one page.
    fn head_bytes(&self) -> usize {
        let (keys, values) = self.bytes();
        (keys + values + self.scale_bytes()).next_multiple_of(64)
    }

    /// Bytes of one layer of one page.
    pub fn page_bytes(&self) -> usize {
        self.kv_heads * self.head_bytes()
    }

    /// Keys and values of one head.
    pub(super) fn head<'a>(&self, page: &'a [u8], kv_head: usize) -> HeadPage<'a> {
        let (keys, values) = self.bytes();
        let (keys, rest) = page[kv_head * self.head_bytes()..][..self.head_bytes()].split_at(keys);
        let (values, rest) = rest.split_at(values);
        match self.kv {
            KvType::F16 => {
                HeadPage::F16 { keys: bytemuck::cast_slice(keys), values: bytemuck::cast_slice(values) }
            }
            KvType::Q8 => {
                let scales: &[[f32; PAGE]] = bytemuck::cast_slice(&rest[..self.scale_bytes()]);
                HeadPage::Q8 {
                    keys: bytemuck::cast_slice(keys),
                    values: bytemuck::cast_slice(values),
                    key_scales: &scales[0],
                    value_scales: &scales[1],
                }
            }
        }
    }

    /// Bytes of a token's keys and values as [`Attention::encode`] leaves them.
    pub fn token_bytes(&self) -> usize {
        2 * self.kv_heads * self.head_dim * self.kv.bytes() + self.kv_heads * self.kv.scale_bytes()
    }

    /// A token's keys and values (all heads, one after the other) as a page keeps them.
    pub fn encode(&self, isa: Isa, keys_and_values: &[f32], into: &mut [u8]) {
        match self.kv {
            KvType::F16 => to_half(isa, keys_and_values, bytemuck::cast_slice_mut(into)),
            KvType::Q8 => {
                let (codes, scales) = into.split_at_mut(keys_and_values.len());
                let heads = keys_and_values.chunks_exact(self.head_dim);
                let scales = scales.chunks_exact_mut(size_of::<f32>());
                for ((numbers, codes), scale) in heads.zip(codes.chunks_exact_mut(self.head_dim)).zip(scales)
                {
                    scale.copy_from_slice(
                        &to_bytes(isa, numbers, bytemuck::cast_slice_mut(codes)).to_ne_bytes(),
                    );
                }
            }
        }
    }

    /// Writes an encoded token into its slot of a page.
    pub fn store(&self, page: &mut [u8], slot: usize, token: &[u8]) {
        let number = self.kv.bytes();
        let (codes, scales) = token.split_at(2 * self.kv_heads * self.head_dim * number);
        let (keys, values) = codes.split_at(codes.len() / 2);
        let (key_bytes, value_bytes) = self.bytes();
        let width = self.value_width() * number;
        let dim = self.head_dim * number;
        for (head, page) in page.chunks_exact_mut(self.head_bytes()).enumerate() {
            let (page_keys, rest) = page.split_at_mut(key_bytes);
            let (page_values, page_scales) = rest.split_at_mut(value_bytes);
            let keys = &keys[head * dim..][..dim];
            match self.kv {
                KvType::F16 => {
                    scatter::<u16>(bytemuck::cast_slice(keys), slot, bytemuck::cast_slice_mut(page_keys))
                }
                KvType::Q8 => scatter::<u8>(keys, slot, page_keys),
            }
            page_values[slot * width..][..dim].copy_from_slice(&values[head * dim..][..dim]);
            // The scales of all keys come first, then those of all values; in the page as well.
            for (i, scales) in scales.chunks_exact(scales.len().max(2) / 2).enumerate() {
                let scale = &scales[head * size_of::<f32>()..][..size_of::<f32>()];
                page_scales[(i * PAGE + slot) * size_of::<f32>()..][..size_of::<f32>()]
                    .copy_from_slice(scale);
            }
        }
    }
}

/// Keys lie by dimension: a token's are a page apart.
fn scatter<T: Copy>(keys: &[T], slot: usize, page: &mut [T]) {
    for (into, &key) in page[slot..].iter_mut().step_by(PAGE).zip(keys) {
        *into = key;
    }
}

multiversion! {
    /// Stale slots are multiplied by zero, so whatever comes in, what is stored is finite.
    fn to_half(from: &[f32], into: &mut [f16]) = to_half_lanes
}

#[inline(always)]
fn to_half_lanes<const FMA: bool>(from: &[f32], into: &mut [f16]) {
    let (whole, rest) = from.as_chunks::<LANES>();
    let (into_whole, into_rest) = into.as_chunks_mut::<LANES>();
    for (from, into) in whole.iter().zip(into_whole) {
        *into = Lanes(*from).to_half::<FMA>();
    }
    let mut lanes = Lanes::ZERO;
    lanes.0[..rest.len()].copy_from_slice(rest);
    into_rest.copy_from_slice(&lanes.to_half::<FMA>()[..rest.len()]);
}

multiversion! {
    /// Whole numbers of at most 127 and their scale; finite, for the same reason.
    fn to_bytes(from: &[f32], into: &mut [i8]) -> f32 = to_bytes_lanes
}

#[inline(always)]
fn to_bytes_lanes<const FMA: bool>(from: &[f32], into: &mut [i8]) -> f32 {
    let finite = |x: f32| if x.is_nan() { 0.0 } else { x.clamp(-1e30, 1e30) };
    let largest = from.iter().fold(0f32, |a, &b| a.max(finite(b).abs()));
    let inverse = if largest > 0.0 { 127.0 / largest } else { 0.0 };
    for (from, into) in from.iter().zip(into) {
        *into = (finite(*from) * inverse + ROUND).to_bits() as i8;
    }
    largest / 127.0
}
