//! The instructions of the innermost loop, as macros that put their text together.
//!
//! Registers 0 to 15 hold the sums of four rows and four panels, 16 to 23 the codes of two words, or in the end what makes floats
//! of the sums. 24 to 27 are for a row: its words, and what they are multiplied as. 28 to 31 are for what panels' sums begin with,
//! and then for weights that are unfolded.

/// Calls a macro with the number of a row of a tile and the registers of its sums.
macro_rules! row {
    (0, $call:ident!($($arg:tt)*)) => { $call!($($arg)* 0, "zmm0", "zmm1", "zmm2", "zmm3") };
    (1, $call:ident!($($arg:tt)*)) => { $call!($($arg)* 1, "zmm4", "zmm5", "zmm6", "zmm7") };
    (2, $call:ident!($($arg:tt)*)) => { $call!($($arg)* 2, "zmm8", "zmm9", "zmm10", "zmm11") };
    (3, $call:ident!($($arg:tt)*)) => { $call!($($arg)* 3, "zmm12", "zmm13", "zmm14", "zmm15") };
}

/// The same for all four of them.
macro_rules! rows {
    ($call:ident!($($arg:tt)*)) => {
        concat!(
            row!(0, $call!($($arg)*)),
            row!(1, $call!($($arg)*)),
            row!(2, $call!($($arg)*)),
            row!(3, $call!($($arg)*)),
        )
    };
}

/// One instruction after the other.
#[rustfmt::skip]
macro_rules! lines {
    ($($($part:expr),+;)*) => { concat!($($($part,)+ "\n",)*) };
}

/// What a row's sums begin with: the panels' own, in registers 28 to 31, and the row's.
#[rustfmt::skip]
macro_rules! begin {
    ($crossed:literal, $r:literal, $a:literal, $b:literal, $c:literal, $d:literal) => {
        lines! {
            "vpbroadcastd zmm24, dword ptr [{records} + {record}*", $r, " + ", $crossed, "]";
            "vpaddd ", $a, ", zmm28, zmm24";
            "vpaddd ", $b, ", zmm29, zmm24";
            "vpaddd ", $c, ", zmm30, zmm24";
            "vpaddd ", $d, ", zmm31, zmm24";
        }
    };
}

/// Two words of a row, in registers 24 and 25.
#[rustfmt::skip]
macro_rules! words {
    ($pair:literal, $r:literal) => {
        lines! {
            "vpbroadcastd zmm24, dword ptr [{records} + {record}*", $r, " + 8*", $pair, "]";
            "vpbroadcastd zmm25, dword ptr [{records} + {record}*", $r, " + 8*", $pair, " + 4]";
        }
    };
}

/// Two words of a row, each with the other's codes added, against each other, for four panels. The codes that meet the first word
/// are in registers 16 to 19, those that meet the second in 20 to 23.
#[rustfmt::skip]
macro_rules! cross {
    ($pair:literal, $r:literal, $a:literal, $b:literal, $c:literal, $d:literal) => {
        concat!(
            words!($pair, $r),
            cross!(@panel "zmm16", "zmm20", $a),
            cross!(@panel "zmm17", "zmm21", $b),
            cross!(@panel "zmm18", "zmm22", $c),
            cross!(@panel "zmm19", "zmm23", $d),
        )
    };
    (@panel $first:literal, $second:literal, $sums:literal) => {
        lines! {
            "vpaddw zmm26, zmm24, ", $second;
            "vpaddw zmm27, zmm25, ", $first;
            "vpdpwssd ", $sums, ", zmm26, zmm27";
        }
    };
}

/// Two words of a row, each against its codes.
#[rustfmt::skip]
macro_rules! plain {
    ($pair:literal, $r:literal, $a:literal, $b:literal, $c:literal, $d:literal) => {
        concat!(
            words!($pair, $r),
            lines! {
                "vpdpwssd ", $a, ", zmm16, zmm24";
                "vpdpwssd ", $b, ", zmm17, zmm24";
                "vpdpwssd ", $c, ", zmm18, zmm24";
                "vpdpwssd ", $d, ", zmm19, zmm24";
                "vpdpwssd ", $a, ", zmm20, zmm25";
                "vpdpwssd ", $b, ", zmm21, zmm25";
                "vpdpwssd ", $c, ", zmm22, zmm25";
                "vpdpwssd ", $d, ", zmm23, zmm25";
            },
        )
    };
}

/// The codes of a pair of words.
#[rustfmt::skip]
macro_rules! codes {
    ($pair:literal) => {
        lines! {
            "vmovdqa64 zmm16, zmmword ptr [{block} + 512*", $pair, "]";
            "vmovdqa64 zmm17, zmmword ptr [{block} + 512*", $pair, " + 64]";
            "vmovdqa64 zmm18, zmmword ptr [{block} + 512*", $pair, " + 128]";
            "vmovdqa64 zmm19, zmmword ptr [{block} + 512*", $pair, " + 192]";
            "vmovdqa64 zmm20, zmmword ptr [{block} + 512*", $pair, " + 256]";
            "vmovdqa64 zmm21, zmmword ptr [{block} + 512*", $pair, " + 320]";
            "vmovdqa64 zmm22, zmmword ptr [{block} + 512*", $pair, " + 384]";
            "vmovdqa64 zmm23, zmmword ptr [{block} + 512*", $pair, " + 448]";
        }
    };
}

/// A pair of words of every row, with something else done in between.
#[rustfmt::skip]
macro_rules! pair {
    ($way:ident, $pair:literal, $between:expr) => {
        concat!(
            codes!($pair),
            row!(0, $way!($pair,)),
            row!(1, $way!($pair,)),
            $between,
            row!(2, $way!($pair,)),
            row!(3, $way!($pair,)),
        )
    };
    // Those that `Vnni::PLAIN` names.
    (2, $between:expr) => { pair!(plain, 2, $between) };
    (5, $between:expr) => { pair!(plain, 5, $between) };
    ($pair:literal, $between:expr) => { pair!(cross, $pair, $between) };
}

/// Asks for part of the rows' next block, and of what is ahead.
#[rustfmt::skip]
macro_rules! ask {
    ($part:literal) => {
        lines! {
            "prefetcht0 [{next} + 128*", $part, "]";
            "prefetcht0 [{next} + 128*", $part, " + 64]";
            "prefetcht1 [{ahead} + 128*", $part, "]";
            "prefetcht1 [{ahead} + 128*", $part, " + 64]";
        }
    };
}

/// A quarter of a panel of the next block is unfolded, and that of the block after it asked for: the codes of two pairs of words.
/// Their products are taken off what sums begin with, or rather added up in register 31, unless those pairs are plain. What takes
/// time is storing them, and there is time for it beside products, for a quarter at a time.
#[rustfmt::skip]
macro_rules! unfold {
    (nothing, $quarter:tt) => { "" };
    ($kind:ident, 0) => { unfold!(@$kind 0, "0", "1", crossed, crossed) };
    ($kind:ident, 1) => { unfold!(@$kind 1, "2", "3", plain, crossed) };
    ($kind:ident, 2) => { unfold!(@$kind 2, "4", "5", crossed, plain) };
    ($kind:ident, 3) => { unfold!(@$kind 3, "6", "7", crossed, crossed) };
    (@nibbles $quarter:literal, $low:literal, $high:literal, $of_low:ident, $of_high:ident) => {
        concat!(
            lines! {
                "prefetcht0 [{lines} + {after} + 64*", $quarter, "]";
                "vmovdqa64 zmm28, zmmword ptr [{lines} + 64*", $quarter, "]";
                "vpandd zmm29, zmm28, dword ptr [rip + {nibble}]{{1to16}}";
                "vpsrlw zmm30, zmm28, 4";
                "vpandd zmm30, zmm30, dword ptr [rip + {nibble}]{{1to16}}";
            },
            unfold!(@store $low, $of_low),
            lines! {
                "vpsrlw zmm29, zmm28, 8";
                "vpandd zmm29, zmm29, dword ptr [rip + {nibble}]{{1to16}}";
                "vpsrlw zmm30, zmm28, 12";
            },
            unfold!(@store $high, $of_high),
        )
    };
    (@bytes $quarter:literal, $low:literal, $high:literal, $of_low:ident, $of_high:ident) => {
        concat!(
            lines! {
                "prefetcht0 [{lines} + {after} + 128*", $quarter, "]";
                "prefetcht0 [{lines} + {after} + 128*", $quarter, " + 64]";
                "vpsllw zmm29, zmmword ptr [{lines} + 128*", $quarter, "], 8";
                "vpsllw zmm30, zmmword ptr [{lines} + 128*", $quarter, " + 64], 8";
                "vpsraw zmm29, zmm29, 8";
                "vpsraw zmm30, zmm30, 8";
            },
            unfold!(@store $low, $of_low),
            lines! {
                "vpsraw zmm29, zmmword ptr [{lines} + 128*", $quarter, "], 8";
                "vpsraw zmm30, zmmword ptr [{lines} + 128*", $quarter, " + 64], 8";
            },
            unfold!(@store $high, $of_high),
        )
    };
    (@store $pair:literal, $way:ident) => {
        concat!(
            lines! {
                "vmovdqa64 zmmword ptr [{into} + 512*", $pair, "], zmm29";
                "vmovdqa64 zmmword ptr [{into} + 512*", $pair, " + 256], zmm30";
            },
            unfold!(@$way),
        )
    };
    (@crossed) => { "vpdpwssd zmm31, zmm29, zmm30\n" };
    (@plain) => { "" };
}

/// Before and after all quarters.
#[rustfmt::skip]
macro_rules! unfolding {
    (begins, nothing) => { "" };
    (begins, $kind:ident) => { "vpxord zmm31, zmm31, zmm31\n" };
    (ends, nothing) => { "" };
    (ends, $kind:ident) => {
        lines! {
            "vpxord zmm30, zmm30, zmm30";
            "vpsubd zmm31, zmm30, zmm31";
            "vmovdqa64 zmmword ptr [{into} + {begins}], zmm31";
            "add {into}, 64";
            "add {lines}, {stride}";
        }
    };
}

/// What makes floats of a group's sums: scales in registers 16 to 19, minima in 20 to 23.
#[rustfmt::skip]
macro_rules! factors {
    ($group:literal, $minima:ident) => {
        concat!(
            lines! {
                "vmovaps zmm16, zmmword ptr [{block} + {factors} + {of_group}*", $group, "]";
                "vmovaps zmm17, zmmword ptr [{block} + {factors} + {of_group}*", $group, " + 64]";
                "vmovaps zmm18, zmmword ptr [{block} + {factors} + {of_group}*", $group, " + 128]";
                "vmovaps zmm19, zmmword ptr [{block} + {factors} + {of_group}*", $group, " + 192]";
            },
            factors!(@$minima $group),
        )
    };
    (@with $group:literal) => {
        lines! {
            "vmovaps zmm20, zmmword ptr [{block} + {factors} + {of_group}*", $group, " + {mins}]";
            "vmovaps zmm21, zmmword ptr [{block} + {factors} + {of_group}*", $group, " + {mins} + 64]";
            "vmovaps zmm22, zmmword ptr [{block} + {factors} + {of_group}*", $group, " + {mins} + 128]";
            "vmovaps zmm23, zmmword ptr [{block} + {factors} + {of_group}*", $group, " + {mins} + 192]";
        }
    };
    // Nothing but a comment: an operand that is not used is an error.
    (@without $group:literal) => { "# {mins}\n" };
}

/// Adds a row's sums to its results: `Unit::add_sums`, and `Unit::add_scaled` where there are minima.
#[rustfmt::skip]
macro_rules! finish {
    ($total:literal, $minima:ident, $r:literal, $a:literal, $b:literal, $c:literal, $d:literal) => {
        concat!(
            lines! { "vbroadcastss zmm24, dword ptr [{records} + {record}*", $r, " + {scale}]"; },
            finish!(@total $minima, $total, $r),
            finish!(@panel $minima, $r, "0", "zmm16", "zmm20", $a),
            finish!(@panel $minima, $r, "64", "zmm17", "zmm21", $b),
            finish!(@panel $minima, $r, "128", "zmm18", "zmm22", $c),
            finish!(@panel $minima, $r, "192", "zmm19", "zmm23", $d),
        )
    };
    (@total with, $total:literal, $r:literal) => {
        lines! { "vbroadcastss zmm25, dword ptr [{records} + {record}*", $r, " + ", $total, "]"; }
    };
    (@total without, $total:literal, $r:literal) => { concat!("# ", $total, "\n") };
    (@panel $minima:ident, $r:literal, $p:literal, $scales:literal, $mins:literal, $sums:literal) => {
        concat!(
            lines! {
                "vcvtdq2ps ", $sums, ", ", $sums;
                "vmulps zmm26, zmm24, ", $scales;
                "vfmadd213ps ", $sums, ", zmm26, zmmword ptr [{results} + 256*", $r, " + ", $p, "]";
            },
            finish!(@$minima $mins, $sums),
            lines! { "vmovaps zmmword ptr [{results} + 256*", $r, " + ", $p, "], ", $sums; },
        )
    };
    (@with $mins:literal, $sums:literal) => { lines! { "vfmadd231ps ", $sums, ", zmm25, ", $mins; } };
    (@without $mins:literal, $sums:literal) => { "" };
}

/// A group of inputs of a tile: sums begin, products are added, and results are. `$crossed` and `$total` are where records say
/// what the products of a group's neighbouring words sum to, and its activations.
#[rustfmt::skip]
macro_rules! sum_up {
    ($group:literal, $crossed:literal, $total:literal, $minima:ident, $kind:ident, $products:expr) => {
        concat!(
            lines! {
                "vmovdqa64 zmm28, zmmword ptr [{block} + {begins} + 256*", $group, "]";
                "vmovdqa64 zmm29, zmmword ptr [{block} + {begins} + 256*", $group, " + 64]";
                "vmovdqa64 zmm30, zmmword ptr [{block} + {begins} + 256*", $group, " + 128]";
                "vmovdqa64 zmm31, zmmword ptr [{block} + {begins} + 256*", $group, " + 192]";
            },
            rows!(begin!($crossed,)),
            unfolding!(begins, $kind),
            $products,
            unfolding!(ends, $kind),
            factors!($group, $minima),
            rows!(finish!($total, $minima,)),
        )
    };
}

/// A tile with one scale for a block, while a panel of the next block is unfolded, or nothing.
#[rustfmt::skip]
macro_rules! whole {
    ($minima:ident, $kind:ident) => {
        sum_up!(0, "{crossed}", "{total}", $minima, $kind, concat!(
            ask!(0), pair!(0, unfold!($kind, 0)), pair!(1, ""),
            ask!(1), pair!(2, unfold!($kind, 1)), pair!(3, ""),
            ask!(2), pair!(4, unfold!($kind, 2)), pair!(5, ""),
            ask!(3), pair!(6, unfold!($kind, 3)), pair!(7, ""),
        ))
    };
}

/// A tile with a scale for each half of a block.
#[rustfmt::skip]
macro_rules! halves {
    ($minima:ident) => {
        concat!(
            sum_up!(0, "{crossed0}", "{total0}", $minima, nothing, concat!(
                ask!(0), pair!(0, ""), pair!(1, ""), ask!(1), pair!(2, ""), pair!(3, ""),
            )),
            sum_up!(1, "{crossed1}", "{total1}", $minima, nothing, concat!(
                ask!(2), pair!(4, ""), pair!(5, ""), ask!(3), pair!(6, ""), pair!(7, ""),
            )),
        )
    };
}

/// One tile after the other, as many as `$count` says.
#[rustfmt::skip]
macro_rules! tiles {
    ($label:literal, $count:literal, $tile:expr) => {
        concat!(
            lines! {
                ".p2align 5";
                $label, ":";
                "mov {ahead}, qword ptr [{list}]";
                "add {list}, 8";
            },
            $tile,
            lines! {
                "add {records}, 4*{record}";
                "add {next}, 4*{record}";
                "add {results}, {tile}";
                "dec ", $count;
                "jnz ", $label, "b";
            },
        )
    };
}
