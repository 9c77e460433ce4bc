//! A tensor as it lies in the file: a type, a shape and bytes. Nothing is converted until it is asked for.

use super::dequant;

/// How numbers are stored. The quantised types pack a run of [`DType::block_len`] numbers of one row into
/// [`DType::block_bytes`] bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(non_camel_case_types)] // the names that ggml gave them, and everyone uses
pub enum DType {
    F32,
    F16,
    BF16,
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Q2K,
    Q3K,
    Q4K,
    Q5K,
    Q6K,
    IQ4_NL,
    IQ4_XS,
    MXFP4,
}

impl DType {
    /// What ggml and its files call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "F32",
            Self::F16 => "F16",
            Self::BF16 => "BF16",
            Self::Q4_0 => "Q4_0",
            Self::Q4_1 => "Q4_1",
            Self::Q5_0 => "Q5_0",
            Self::Q5_1 => "Q5_1",
            Self::Q8_0 => "Q8_0",
            Self::Q2K => "Q2_K",
            Self::Q3K => "Q3_K",
            Self::Q4K => "Q4_K",
            Self::Q5K => "Q5_K",
            Self::Q6K => "Q6_K",
            Self::IQ4_NL => "IQ4_NL",
            Self::IQ4_XS => "IQ4_XS",
            Self::MXFP4 => "MXFP4",
        }
    }

    /// Numbers per block; 1 for the plain types.
    pub const fn block_len(self) -> usize {
        match self {
            Self::F32 | Self::F16 | Self::BF16 => 1,
            Self::Q4_0 | Self::Q4_1 | Self::Q5_0 | Self::Q5_1 | Self::Q8_0 | Self::IQ4_NL | Self::MXFP4 => 32,
            Self::Q2K | Self::Q3K | Self::Q4K | Self::Q5K | Self::Q6K | Self::IQ4_XS => 256,
        }
    }

    /// Bytes per block.
    pub const fn block_bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::BF16 => 2,
            Self::Q4_0 | Self::IQ4_NL => 18,
            Self::Q4_1 => 20,
            Self::Q5_0 => 22,
            Self::Q5_1 => 24,
            Self::Q8_0 => 34,
            Self::Q2K => 84,
            Self::Q3K => 110,
            Self::Q4K => 144,
            Self::Q5K => 176,
            Self::Q6K => 210,
            Self::IQ4_XS => 136,
            Self::MXFP4 => 17,
        }
    }
}

/// A view of one tensor. `data` is exactly as long as `dtype` and `shape` say, each row a whole number of
/// blocks; its address has no guaranteed alignment.
#[derive(Debug, Clone)]
pub struct Tensor<'a> {
    pub dtype: DType,
    /// Rows first: a matrix is `[out, in]`, a vector `[len]`.
    pub shape: Vec<usize>,
    pub data: &'a [u8],
}

impl Tensor<'_> {
    /// Rows: all dimensions but the last; 1 for a vector.
    pub fn rows(&self) -> usize {
        self.shape.iter().rev().skip(1).product()
    }

    /// Length of a row.
    pub fn cols(&self) -> usize {
        self.shape.last().copied().unwrap_or(1)
    }

    /// Bytes of one row.
    pub fn row_bytes(&self) -> usize {
        self.cols() / self.dtype.block_len() * self.dtype.block_bytes()
    }

    /// The whole tensor as floats, row by row.
    pub fn to_f32(&self) -> Vec<f32> {
        let mut out = vec![0.0; self.rows() * self.cols()];
        self.rows_to_f32(0, self.rows(), &mut out);
        out
    }

    /// `count` rows from `first` on, as floats.
    ///
    /// # Panics
    /// If the rows are not in the tensor, or `out` is not exactly `count * cols` long.
    pub fn rows_to_f32(&self, first: usize, count: usize, out: &mut [f32]) {
        assert!(first + count <= self.rows(), "rows {first}+{count} of {}", self.rows());
        assert_eq!(out.len(), count * self.cols(), "output length");
        let bytes = self.row_bytes();
        dequant::to_f32(self.dtype, &self.data[first * bytes..(first + count) * bytes], out);
    }
}
