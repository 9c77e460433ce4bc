//! How keys and values lie in a page.

use half::f16;

use super::{Attention, PAGE};
use crate::kernel::lanes::{LANES, Lanes};

/// How keys and values are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KvType {
    /// Half precision.
    #[default]
    F16,
    /// Bytes, with a scale for each token and head: half the memory, at some cost in accuracy.
    Q8,
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
        Lanes(from.map(f32::from))
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
        let number = match self.kv {
            KvType::F16 => size_of::<f16>(),
            KvType::Q8 => size_of::<i8>(),
        };
        (PAGE * self.head_dim * number, PAGE * self.value_width() * number)
    }

    /// Bytes of both scales of every token.
    fn scale_bytes(&self) -> usize {
        match self.kv {
            KvType::F16 => 0,
            KvType::Q8 => 2 * PAGE * size_of::<f32>(),
        }
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

    /// Writes a token's keys and values (all heads, one after the other) into its slot of a page.
    pub fn store(&self, page: &mut [u8], slot: usize, keys: &[f32], values: &[f32]) {
        let (dim, width) = (self.head_dim, self.value_width());
        let (key_bytes, value_bytes) = self.bytes();
        let heads = page.chunks_exact_mut(self.head_bytes());
        for ((head, keys), values) in heads.zip(keys.chunks_exact(dim)).zip(values.chunks_exact(dim)) {
            let (page_keys, rest) = head.split_at_mut(key_bytes);
            let (page_values, rest) = rest.split_at_mut(value_bytes);
            match self.kv {
                KvType::F16 => {
                    put(bytemuck::cast_slice_mut(page_keys), slot, PAGE, keys.iter().map(|&key| half(key)));
                    let page_values = bytemuck::cast_slice_mut(&mut page_values[2 * slot * width..]);
                    put(page_values, 0, 1, values.iter().map(|&value| half(value)));
                }
                KvType::Q8 => {
                    let scales: &mut [[f32; PAGE]] =
                        bytemuck::cast_slice_mut(&mut rest[..2 * PAGE * size_of::<f32>()]);
                    let (scale, codes) = bytes(keys);
                    scales[0][slot] = scale;
                    put(bytemuck::cast_slice_mut(page_keys), slot, PAGE, codes);
                    let (scale, codes) = bytes(values);
                    scales[1][slot] = scale;
                    put(bytemuck::cast_slice_mut(&mut page_values[slot * width..]), 0, 1, codes);
                }
            }
        }
    }
}

/// Writes numbers from `first` on, `step` apart.
fn put<T>(into: &mut [T], first: usize, step: usize, numbers: impl Iterator<Item = T>) {
    for (into, number) in into[first..].iter_mut().step_by(step).zip(numbers) {
        *into = number;
    }
}

/// Half precision holds what a model computes. What it cannot hold becomes the largest number that it can, and what is no
/// number becomes zero (the row's logits will tell): attention multiplies stale slots by zero and relies on finite ones.
fn half(value: f32) -> f16 {
    let most = f16::MAX.to_f32_const();
    if value.is_nan() { f16::ZERO } else { f16::from_f32(value.clamp(-most, most)) }
}

/// A scale and whole numbers of at most 127; finite whatever comes in, for the same reason.
fn bytes(numbers: &[f32]) -> (f32, impl Iterator<Item = i8> + '_) {
    let finite = |x: f32| if x.is_nan() { 0.0 } else { x.clamp(-1e30, 1e30) };
    let largest = numbers.iter().fold(0f32, |a, &b| a.max(finite(b).abs()));
    let inverse = if largest > 0.0 { 127.0 / largest } else { 0.0 };
    (largest / 127.0, numbers.iter().map(move |&x| (finite(x) * inverse).round_ties_even() as i8))
}
