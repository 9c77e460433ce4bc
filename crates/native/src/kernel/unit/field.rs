//! Where the bits of codes lie in the lines of a block, for units that unfold them; `blocks/place.rs`, which puts them there,
//! says what strips, pairs and planes are.

/// How many of a code's bits lie in the first plane of a block.
#[inline(always)]
pub(crate) const fn lower_bits(width: usize) -> usize {
    // Listed codes have no width, and no strips.
    if width == 0 { 0 } else { 1 << width.ilog2() }
}

/// Where the bits of a strip's codes lie in one plane.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Field {
    /// In which line of the block.
    pub line: usize,
    /// How far the bits of the pair that the strip belongs to are to be moved down first.
    pub down: usize,
    /// How far they are then to be moved up, or down if it is less than zero.
    pub up: i32,
    /// What is then theirs in every byte.
    pub mask: u8,
}

impl Field {
    /// The lower and, if there are more, the upper bits of the first or second strip of a block's pair, for codes of so many
    /// bits.
    #[inline(always)]
    pub const fn of_strip(width: usize, pair: usize, second: usize) -> (Self, Option<Self>) {
        let low = lower_bits(width);
        if width == 8 {
            return (Self { line: 2 * pair + second, down: 0, up: 0, mask: u8::MAX }, None);
        }
        let lower = Self::in_plane(low, pair, second, 0);
        if low == width {
            return (lower, None);
        }
        let upper = Self::in_plane(width - low, pair, second, low);
        let (lower_line, upper_line) = lines_of_planes(width, lower.line, upper.line);
        (Self { line: lower_line, ..lower }, Some(Self { line: upper_line, ..upper }))
    }

    /// In which line of its plane, and where there.
    #[inline(always)]
    const fn in_plane(width: usize, pair: usize, second: usize, to: usize) -> Self {
        let mask = (((1u32 << width) - 1) << to) as u8;
        let down = if width < 4 { pair * 2 * width % 8 } else { 0 };
        Self { line: pair * width / 4, down, up: to as i32 - (second * width) as i32, mask }
    }
}

/// Where in a block two lines of its planes are. A line of the upper plane stands before those of the lower one that it
/// belongs to: so a block is read from one end to the other, which is what processors fetch ahead.
#[inline(always)]
pub(crate) const fn lines_of_planes(width: usize, lower: usize, upper: usize) -> (usize, usize) {
    let low = lower_bits(width);
    let each = low / (width - low);
    (lower + lower / each + 1, upper * (each + 1))
}
