//! The matrix unit of newer Intel processors: tiles of 16 rows of 64 bytes, multiplied byte by byte.
//!
//! Rust has no stable intrinsics for it, so the instructions are written by hand. Compilers never use tile registers by
//! themselves: what one of these leaves in them, the next one finds.

use std::arch::asm;
use std::arch::x86_64::{__cpuid, __cpuid_count, _xgetbv};
use std::io;
use std::sync::OnceLock;

use super::{LANES, Line};

/// Rows of a tile.
pub(crate) const TILE: usize = 16;

/// 64 inputs of 16 outputs: a tile of upper bytes, and one of lower bytes, both in halves of 32 inputs.
pub(crate) type Tiles = [[Line; TILE / 2]; 4];

/// Three sums of 16 rows and outputs; [`Parts`] says of what.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Sums(pub [[[i32; LANES]; TILE]; 3]);

impl Default for Sums {
    fn default() -> Self {
        Sums([[[0; LANES]; TILE]; 3])
    }
}

/// Whether this process may use the unit, and it was seen to multiply.
pub(crate) fn usable() -> bool {
    static USABLE: OnceLock<bool> = OnceLock::new();
    *USABLE.get_or_init(|| reported() && permitted() && tried())
}

/// Do the processor and the system say that they have it?
fn reported() -> bool {
    const OSXSAVE: u32 = 1 << 27;
    const TILE_AND_INT8: u32 = 1 << 24 | 1 << 25;
    const TILE_STATE: u64 = 1 << 17 | 1 << 18;
    // SAFETY: every such processor has the instruction. (Since Rust 1.94 it needs no promise.)
    #[allow(unused_unsafe)]
    let (newest, features, more) = unsafe { (__cpuid(0).eax, __cpuid(1).ecx, __cpuid_count(7, 0).edx) };
    if newest < 7 || features & OSXSAVE == 0 || more & TILE_AND_INT8 != TILE_AND_INT8 {
        return false;
    }
    // SAFETY: the processor has the instruction, as the bit above says.
    let state = unsafe { xgetbv() };
    state & TILE_STATE == TILE_STATE
}

#[target_feature(enable = "xsave")]
fn xgetbv() -> u64 {
    // SAFETY: register 0 exists wherever the instruction does.
    unsafe { _xgetbv(0) }
}

/// Asks the system for the unit's registers, once for all threads of the process.
fn permitted() -> bool {
    const ARCH_REQ_XCOMP_PERM: libc::c_long = 0x1023;
    const TILE_DATA: libc::c_long = 18;
    // SAFETY: asks for a permission; touches no memory of ours.
    unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, TILE_DATA) == 0 }
}

/// Multiplies two tiles in a child: where some layer below lied about the unit, it is the child that dies.
fn tried() -> bool {
    // SAFETY: the child calls nothing but instructions and `_exit`, which is all that it may where there are threads.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::_exit(if multiplies() { 0 } else { 1 });
        }
        if child < 0 {
            return false;
        }
        let mut status = 0;
        while libc::waitpid(child, &raw mut status, 0) < 0 {
            if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
                return false;
            }
        }
        libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
    }
}

/// Is a product of two small matrices what it should be?
///
/// # Safety
/// The machine must have the unit, or the process be one that may die.
unsafe fn multiplies() -> bool {
    let mut x = [Line([0; 64]); TILE];
    let mut tiles = Tiles::default();
    let w = tiles.as_flattened_mut();
    for at in 0..TILE {
        for byte in 0..64 {
            x[at].0[byte] = (at * 64 + byte) as u8;
            w[at].0[byte] = (at + 3 * byte) as u8;
            w[TILE + at].0[byte] = (7 * at + byte) as u8;
        }
    }
    let mut sums = Sums::default();
    // SAFETY: the caller's promise; both operands are tiles, one after the other.
    unsafe {
        Shape::FULL.load();
        clear(false);
        let rows = Rows { high: x.as_ptr().cast(), low: x.as_ptr().cast(), stride: 64 };
        multiply(&One(rows, &tiles));
        store(&mut sums, false);
        release();
    }
    let w = tiles.as_flattened();
    let signed = |byte: u8| i32::from(byte as i8);
    (0..TILE).all(|row| {
        (0..LANES).all(|lane| {
            let (mut high, mut low) = (0, 0);
            for k in 0..64 {
                let x = signed(x[row].0[k]);
                let (wh, wl) = (w[k / 4].0[lane * 4 + k % 4], w[TILE + k / 4].0[lane * 4 + k % 4]);
                high += x * signed(wh);
                low += x * i32::from(wl);
            }
            // The same bytes are upper and lower ones.
            [0, 1, 2].map(|at| sums.0[at][row][lane]) == [high, high + low, low]
        })
    })
}

/// What tile registers hold: sums of up to two times 16 rows, their activations, and weights.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Shape {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    bytes: [u16; 16],
    rows: [u8; 16],
}

impl Shape {
    /// For products of so many rows, or of twice as many.
    pub fn new(rows: usize, both: bool) -> Self {
        let mut shape = Self::FULL;
        // All but the weights.
        shape.rows[..if both { 7 } else { 5 }].fill(rows as u8);
        shape
    }

    /// Sixteen rows of 64 bytes everywhere.
    pub const FULL: Shape = {
        let (mut bytes, mut rows) = ([0; 16], [0; 16]);
        let mut at = 0;
        while at < 8 {
            (bytes[at], rows[at]) = (64, TILE as u8);
            at += 1;
        }
        Shape { palette: 1, start_row: 0, reserved: [0; 14], bytes, rows }
    };

    /// Gives the registers of this thread that shape.
    ///
    /// # Safety
    /// The process must be allowed to use the unit.
    pub unsafe fn load(&self) {
        // SAFETY: the caller's promise; reads the 64 bytes of the shape.
        unsafe { asm!("ldtilecfg [{}]", in(reg) self, options(nostack, preserves_flags, readonly)) }
    }
}

/// Gives the registers back: the system then has less to save.
///
/// # Safety
/// The process must be allowed to use the unit.
pub(crate) unsafe fn release() {
    // SAFETY: the caller's promise.
    unsafe { asm!("tilerelease", options(nostack, preserves_flags, nomem)) }
}

/// Begins new sums: those of 16 rows, or of twice as many.
///
/// # Safety
/// As for [`Parts`].
#[inline(always)]
pub(crate) unsafe fn clear(both: bool) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("tilezero tmm0", "tilezero tmm1", "tilezero tmm2", options(nostack, preserves_flags, nomem));
        if both {
            asm!("tilezero tmm3", "tilezero tmm4", "tilezero tmm5", options(nostack, preserves_flags, nomem));
        }
    }
}

/// Goes on with sums that were stored, of up to 16 rows.
///
/// # Safety
/// As for [`Parts`].
#[inline(always)]
pub(crate) unsafe fn load(sums: &Sums) {
    // SAFETY: the caller's promise; reads at most three times 16 rows of 64 bytes.
    unsafe {
        asm!(
            "tileloadd tmm0, [{from} + {line}*1]",
            "tileloadd tmm1, [{from} + {line}*1 + 1024]",
            "tileloadd tmm2, [{from} + {line}*1 + 2048]",
            from = in(reg) sums.0.as_ptr(),
            line = in(reg) size_of::<Line>(),
            options(nostack, preserves_flags, readonly),
        );
    }
}

/// Does nothing but multiply tiles, so often.
///
/// # Safety
/// The process must be allowed to use the unit.
pub(crate) unsafe fn spin(products: usize) {
    // SAFETY: the caller's promise; no memory is touched, and of the shape only what it holds.
    unsafe {
        Shape::FULL.load();
        clear(true);
        for _ in 0..products.div_ceil(4) {
            asm!(
                "tdpbssd tmm0, tmm4, tmm6",
                "tdpbssd tmm1, tmm4, tmm6",
                "tdpbssd tmm2, tmm5, tmm7",
                "tdpbssd tmm3, tmm5, tmm7",
                options(nostack, preserves_flags, nomem),
            );
        }
        release();
    }
}

/// 64 activations of each of up to 16 rows, which lie so many bytes apart: their upper and their lower bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rows {
    pub high: *const u8,
    pub low: *const u8,
    pub stride: usize,
}

/// Products of tiles, in eight parts that other work can be done between: the unit is fed from the same queue as all others,
/// and only what stands near in it is done at the same time.
///
/// Of the weights there is a tile of upper bytes and one of lower bytes; upper bytes have a sign, and so have the lower ones of
/// activations. Products of upper bytes are added to the first sums, those of an upper and a lower byte to the second, and
/// those of lower bytes to the third.
///
/// # Safety
/// Parts come in order, from 0 to 7. The process must be allowed to use the unit, a [`Shape`] for these rows be loaded, and
/// there must be 64 bytes for each.
pub(crate) trait Parts {
    unsafe fn part<const AT: usize>(&self);
}

/// None at all.
#[derive(Debug)]
pub(crate) struct Nothing;

impl Parts for Nothing {
    #[inline(always)]
    unsafe fn part<const AT: usize>(&self) {}
}

/// Those of up to 16 rows.
#[derive(Debug)]
pub(crate) struct One<'a>(pub Rows, pub &'a Tiles);

/// Those of up to 32 rows.
#[derive(Debug)]
pub(crate) struct Two<'a>(pub [Rows; 2], pub &'a Tiles);

/// Reads a tile of weights.
macro_rules! load_weights {
    ($register:literal, $lines:expr) => {
        asm!(
            concat!("tileloadd ", $register, ", [{lines} + {line}*1]"),
            lines = in(reg) $lines,
            line = in(reg) size_of::<Line>(),
            options(nostack, preserves_flags, readonly),
        )
    };
}

/// Reads a tile of activations.
macro_rules! load_rows {
    ($register:literal, $rows:expr, $stride:expr) => {
        asm!(
            concat!("tileloadd ", $register, ", [{rows} + {stride}*1]"),
            rows = in(reg) $rows,
            stride = in(reg) $stride,
            options(nostack, preserves_flags, readonly),
        )
    };
}

macro_rules! multiply {
    ($instruction:literal) => {
        asm!($instruction, options(nostack, preserves_flags, nomem))
    };
}

impl Parts for One<'_> {
    #[inline(always)]
    unsafe fn part<const AT: usize>(&self) {
        let One(rows, weights) = self;
        let (high, low) = (weights[..2].as_ptr(), weights[2..].as_ptr());
        // SAFETY: the caller's promise; the weights are two tiles.
        unsafe {
            match AT {
                0 => {
                    load_rows!("tmm3", rows.high, rows.stride);
                    load_weights!("tmm5", high);
                }
                1 => multiply!("tdpbssd tmm0, tmm3, tmm5"),
                2 => load_weights!("tmm6", low),
                3 => multiply!("tdpbsud tmm1, tmm3, tmm6"),
                4 => load_rows!("tmm4", rows.low, rows.stride),
                5 => multiply!("tdpbsud tmm2, tmm4, tmm6"),
                // What adds to the same sums has to wait for the other.
                7 => multiply!("tdpbssd tmm1, tmm4, tmm5"),
                _ => {}
            }
        }
    }
}

impl Parts for Two<'_> {
    // Six registers hold sums, so activations and weights take turns in the others.
    #[inline(always)]
    unsafe fn part<const AT: usize>(&self) {
        let Two([first, second], weights) = self;
        let (high, low, stride) = (weights[..2].as_ptr(), weights[2..].as_ptr(), first.stride);
        // SAFETY: the caller's promise; the weights are two tiles.
        unsafe {
            match AT {
                0 => {
                    load_weights!("tmm7", high);
                    load_rows!("tmm6", first.high, stride);
                }
                1 => {
                    multiply!("tdpbssd tmm0, tmm6, tmm7");
                    load_rows!("tmm6", second.high, stride);
                }
                2 => {
                    multiply!("tdpbssd tmm3, tmm6, tmm7");
                    load_rows!("tmm6", second.low, stride);
                }
                3 => {
                    multiply!("tdpbssd tmm4, tmm6, tmm7");
                    load_rows!("tmm6", first.low, stride);
                }
                4 => {
                    multiply!("tdpbssd tmm1, tmm6, tmm7");
                    load_weights!("tmm7", low);
                }
                5 => {
                    multiply!("tdpbsud tmm2, tmm6, tmm7");
                    load_rows!("tmm6", first.high, stride);
                }
                6 => {
                    multiply!("tdpbsud tmm1, tmm6, tmm7");
                    load_rows!("tmm6", second.high, stride);
                }
                _ => {
                    multiply!("tdpbsud tmm4, tmm6, tmm7");
                    load_rows!("tmm6", second.low, stride);
                    multiply!("tdpbsud tmm5, tmm6, tmm7");
                }
            }
        }
    }
}

/// All parts at once.
///
/// # Safety
/// As for [`Parts`].
#[inline(always)]
pub(crate) unsafe fn multiply(parts: &impl Parts) {
    // SAFETY: the caller's promise.
    unsafe {
        parts.part::<0>();
        parts.part::<1>();
        parts.part::<2>();
        parts.part::<3>();
        parts.part::<4>();
        parts.part::<5>();
        parts.part::<6>();
        parts.part::<7>();
    }
}

/// The sums of the first or of the second 16 rows.
///
/// # Safety
/// As for [`Parts`].
#[inline(always)]
pub(crate) unsafe fn store(sums: &mut Sums, second: bool) {
    macro_rules! store {
        ($($instruction:literal),+) => {
            asm!(
                $($instruction,)+
                to = in(reg) sums.0.as_mut_ptr(),
                line = in(reg) size_of::<Line>(),
                options(nostack, preserves_flags),
            )
        };
    }
    // SAFETY: the caller's promise; writes at most three times 16 rows of 64 bytes.
    unsafe {
        if second {
            store!(
                "tilestored [{to} + {line}*1], tmm3",
                "tilestored [{to} + {line}*1 + 1024], tmm4",
                "tilestored [{to} + {line}*1 + 2048], tmm5"
            );
        } else {
            store!(
                "tilestored [{to} + {line}*1], tmm0",
                "tilestored [{to} + {line}*1 + 1024], tmm1",
                "tilestored [{to} + {line}*1 + 2048], tmm2"
            );
        }
    }
}
