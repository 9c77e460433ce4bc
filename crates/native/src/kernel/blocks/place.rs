//! Where codes lie in the lines of a block.
//!
//! The 32 codes of an output make eight strips of four, and a line has four bytes for each of 16 outputs: in as many bits as
//! a plane is wide, a strip lies in those bytes, with the next strips above it. Codes of 2, 4 or 8 bits have one plane; those
//! of 3, 5 and 6 bits have a second one for what stands above the lower 2 or 4. So a code of `n` bits takes `n` lines a
//! block, and a strip is unfolded by a shift and a mask for each plane, for all outputs at once.

use super::BLOCK;
use super::codes::input_of;
use crate::kernel::unit::{Line, lines_of_planes, lower_bits};
use crate::load::runs::{CodeBits, Codes};

/// Pairs of strips in a block. In a plane of nibbles, a pair is a line.
pub(super) const PAIRS: usize = 4;
/// Codes of an output in a strip.
const LONG: usize = BLOCK / (2 * PAIRS);

#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub codes: Codes,
    /// Activations in a word.
    pub per_word: usize,
}

impl Place {
    /// Lines of a block, and bits of a code.
    #[inline(always)]
    pub fn lines(self) -> usize {
        match self.codes {
            Codes::Bytes => 8,
            Codes::Listed(_) => 4,
            Codes::Bits(width, _) => width,
        }
    }

    /// What is to be taken off codes as they are multiplied, for each activation: what bits say is never below zero, and
    /// with four activations to a word codes are multiplied as if they had no sign.
    pub fn surplus(self) -> i32 {
        match self.codes {
            Codes::Bits(_, minus) => minus,
            Codes::Bytes | Codes::Listed(_) => i32::from(self.per_word == 4) * 128,
        }
    }

    /// The codes of an output, with the inputs they belong to.
    pub fn each(self, lines: &[Line], lane: usize, mut f: impl FnMut(usize, i32)) {
        // Strips of neighbouring parity share their bytes: eight codes, which meet words one after the other.
        let steps = 2 * LONG / self.per_word;
        for word in 0..BLOCK / self.per_word {
            for j in 0..self.per_word {
                let code = word % steps + j * steps;
                let stored = self.stored(lines, lane, word / steps * 2 + code % 2, code / 2);
                let code = match self.codes {
                    Codes::Bytes => i32::from(stored as i8),
                    Codes::Listed(list) => i32::from(list[usize::from(stored)]),
                    Codes::Bits(_, minus) => i32::from(stored) - minus,
                };
                f(input_of(self.per_word, word, j), code);
            }
        }
    }

    /// The bits of one code of a strip.
    fn stored(self, lines: &[Line], lane: usize, strip: usize, byte: usize) -> u8 {
        let field = |line: usize, width: usize| {
            u16::from(lines[line].0[lane * LONG + byte]) >> (strip * width % 8) & ((1 << width) - 1)
        };
        let low = lower_bits(self.lines());
        let top = self.lines() - low;
        if top == 0 {
            return field(strip * low / 8, low) as u8;
        }
        let (lower, upper) = lines_of_planes(self.lines(), strip * low / 8, strip * top / 8);
        (field(lower, low) | field(upper, top) << low) as u8
    }

    /// Puts an output's codes into the lines of a block.
    #[inline(always)]
    pub fn put(self, lines: &mut [Line], lane: usize, codes: CodeBits) {
        let codes = self.ordered(codes);
        let mut words = [0; 8];
        match self.lines() {
            8 => {
                for pair in 0..PAIRS {
                    words[2 * pair] = even_bytes(codes[pair]);
                    words[2 * pair + 1] = even_bytes(codes[pair] >> 8);
                }
            }
            6 => {
                let low = plane::<4>(codes, 0);
                let [top0, top1] = plane::<2>(codes, 4);
                words = [top0, low[0], low[1], top1, low[2], low[3], 0, 0];
            }
            5 => {
                let [a, b, c, d] = plane::<4>(codes, 0);
                let [top] = plane::<1>(codes, 4);
                words = [top, a, b, c, d, 0, 0, 0];
            }
            4 => words[..4].copy_from_slice(&plane::<4>(codes, 0)),
            3 => {
                let [a, b] = plane::<2>(codes, 0);
                let [top] = plane::<1>(codes, 2);
                words[..3].copy_from_slice(&[top, a, b]);
            }
            _ => words[..2].copy_from_slice(&plane::<2>(codes, 0)),
        }
        for at in 0..self.lines() {
            lines[at].0.as_chunks_mut().0[lane] = words[at].to_le_bytes();
        }
    }

    /// In the order in which strips hold them: those that meet the same word lie half of a pair of strips apart, or a
    /// quarter.
    #[inline(always)]
    fn ordered(self, codes: CodeBits) -> CodeBits {
        let [a, b, c, d] = codes;
        match self.per_word {
            4 => {
                let [(a, b), (c, d)] = [quarters(a, b), quarters(c, d)];
                [a, b, c, d]
            }
            _ => {
                const LOW: u64 = u32::MAX as u64;
                [a & LOW | b << 32, a >> 32 | b & !LOW, c & LOW | d << 32, c >> 32 | d & !LOW]
            }
        }
    }
}

/// Pairs of bytes with even numbers, and those with odd ones.
fn quarters(a: u64, b: u64) -> (u64, u64) {
    let pairs = |x: u64| {
        let x = x & 0x0000_ffff_0000_ffff;
        (x | x >> 16) & u64::from(u32::MAX)
    };
    (pairs(a) | pairs(b) << 32, pairs(a >> 16) | pairs(b >> 16) << 32)
}

/// Every other byte.
#[inline(always)]
fn even_bytes(x: u64) -> u32 {
    let x = x & 0x00ff_00ff_00ff_00ff;
    let x = (x | x >> 8) & 0x0000_ffff_0000_ffff;
    (x | x >> 16) as u32
}

/// The bits of codes from `from` on, as many as the plane is wide, in as many words.
#[inline(always)]
fn plane<const WIDTH: usize>(codes: CodeBits, from: usize) -> [u32; WIDTH] {
    let kept = u64::from_ne_bytes([(1 << WIDTH) - 1; 8]);
    let mut words = [0; WIDTH];
    for at in 0..PAIRS {
        let bits = codes[at] >> from & kept;
        let pair = even_bytes(bits | bits >> (8 - WIDTH));
        words[at * WIDTH / 4] |= pair << (at * WIDTH % 4 * 2);
    }
    words
}
