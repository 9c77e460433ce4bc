//! The instructions of the innermost loop, as macros that put their text together.
//!
//! Registers 0 to 15 hold the sums of four rows and four panels, 16 to 23 the codes of two words; 24 to 27 are for the words of
//! a row (and 24 for nibbles that are unfolded), and 28 to 31 for what the step before has left.

/// Calls a macro with the number of a row of a tile and the registers of its sums.
macro_rules! row {
    (0, $call:ident!($($arg:tt)*)) => { $call!($($arg)* 0, "zmm0", "zmm1", "zmm2", "zmm3") };
    (1, $call:ident!($($arg:tt)*)) => { $call!($($arg)* 1, "zmm4", "zmm5", "zmm6", "zmm7") };
    (2, $call:ident!($($arg:tt)*)) => { $call!($($arg)* 2, "zmm8", "zmm9", "zmm10", "zmm11") };
    (3, $call:ident!($($arg:tt)*)) => { $call!($($arg)* 3, "zmm12", "zmm13", "zmm14", "zmm15") };
}

/// One instruction after the other.
#[rustfmt::skip]
macro_rules! lines {
    ($($($part:expr),+;)*) => { concat!($($($part,)+ "\n",)*) };
}

/// What a row's sums begin with: the panels' own, in registers 16 to 19, and the row's.
#[rustfmt::skip]
macro_rules! begin {
    ($crossed:literal, $r:literal, $a:literal, $b:literal, $c:literal, $d:literal) => {
        concat!(
            begin!(@panel "zmm16", $crossed, $r, $a),
            begin!(@panel "zmm17", $crossed, $r, $b),
            begin!(@panel "zmm18", $crossed, $r, $c),
            begin!(@panel "zmm19", $crossed, $r, $d),
        )
    };
    (@panel $panel:literal, $crossed:literal, $r:literal, $sums:literal) => {
        lines! { "vpaddd ", $sums, ", ", $panel, ", dword ptr [{records} + {record}*", $r, " + ", $crossed, "]{{1to16}}"; }
    };
}

/// Two words of a row, each with the other's codes added, against each other, for four panels. The codes that meet the first word
/// are in registers 16 to 19, those that meet the second in 20 to 23.
#[rustfmt::skip]
macro_rules! multiply {
    ($pair:literal, $r:literal, $a:literal, $b:literal, $c:literal, $d:literal) => {
        concat!(
            lines! {
                "vpbroadcastd zmm24, dword ptr [{records} + {record}*", $r, " + 8*", $pair, "]";
                "vpbroadcastd zmm25, dword ptr [{records} + {record}*", $r, " + 8*", $pair, " + 4]";
            },
            multiply!(@panel "zmm16", "zmm20", $a),
            multiply!(@panel "zmm17", "zmm21", $b),
            multiply!(@panel "zmm18", "zmm22", $c),
            multiply!(@panel "zmm19", "zmm23", $d),
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

/// Keeps a row's sums for the next step.
#[rustfmt::skip]
macro_rules! keep {
    ($r:literal, $a:literal, $b:literal, $c:literal, $d:literal) => {
        lines! {
            "vmovdqa64 zmmword ptr [{sums} + 256*", $r, "], ", $a;
            "vmovdqa64 zmmword ptr [{sums} + 256*", $r, " + 64], ", $b;
            "vmovdqa64 zmmword ptr [{sums} + 256*", $r, " + 128], ", $c;
            "vmovdqa64 zmmword ptr [{sums} + 256*", $r, " + 192], ", $d;
        }
    };
}

/// The scales and minima of a panel, for what the last step has left.
#[rustfmt::skip]
macro_rules! factors {
    ($p:literal, $minima:tt) => {
        concat!(lines! { "vmovaps zmm28, zmmword ptr [{last_factors} + 64*", $p, "]"; }, factors!(@$minima $p))
    };
    (@with $p:literal) => { lines! { "vmovaps zmm29, zmmword ptr [{last_factors} + 64*", $p, " + {mins}]"; } };
    // Nothing but a comment: an operand that is not used is an error.
    (@without $p:literal) => { "# {mins}\n" };
}

/// What the last step has left for a panel and a row: the same operations as in `finish`.
#[rustfmt::skip]
macro_rules! last {
    ($total:literal, $minima:tt, $p:literal, $r:literal) => {
        concat!(
            lines! {
                "vcvtdq2ps zmm31, zmmword ptr [{sums} + 256*", $r, " + 64*", $p, "]";
                "vmulps zmm30, zmm28, dword ptr [{last} + {record}*", $r, " + {scale}]{{1to16}}";
                "vfmadd213ps zmm31, zmm30, zmmword ptr [{last_results} + 256*", $r, " + 64*", $p, "]";
            },
            last!(@$minima $total, $r),
            lines! { "vmovaps zmmword ptr [{last_results} + 256*", $r, " + 64*", $p, "], zmm31"; },
        )
    };
    (@with $total:literal, $r:literal) => {
        lines! { "vfmadd231ps zmm31, zmm29, dword ptr [{last} + {record}*", $r, " + ", $total, "]{{1to16}}"; }
    };
    (@without $total:literal, $r:literal) => { concat!("# ", $total, "\n") };
}

/// The codes of a pair that was unfolded before.
#[rustfmt::skip]
macro_rules! load {
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

/// Those of a pair that is unfolded here from nibbles, and kept for the tiles behind this one: writing them takes longer than
/// unfolding them, and there is time for it beside products.
#[rustfmt::skip]
macro_rules! unfold {
    (0) => { unfold!(@lower 0, 0) };
    (1) => { unfold!(@upper 0, 1) };
    (2) => { unfold!(@lower 1, 2) };
    (3) => { unfold!(@upper 1, 3) };
    (4) => { unfold!(@lower 2, 4) };
    (5) => { unfold!(@upper 2, 5) };
    (6) => { unfold!(@lower 3, 6) };
    (7) => { unfold!(@upper 3, 7) };
    (@$half:tt $line:literal, $pair:literal) => {
        concat!(
            unfold!(@panel $half, "{lines}", "zmm16", "zmm20", $line, $pair, 0),
            unfold!(@panel $half, "{lines} + {stride}", "zmm17", "zmm21", $line, $pair, 1),
            unfold!(@panel $half, "{lines} + 2*{stride}", "zmm18", "zmm22", $line, $pair, 2),
            unfold!(@panel $half, "{second_lines} + 2*{stride}", "zmm19", "zmm23", $line, $pair, 3),
        )
    };
    (@panel $half:tt, $lines:literal, $first:literal, $second:literal, $line:literal, $pair:literal, $p:literal) => {
        concat!(
            lines! { "vmovdqa64 zmm24, zmmword ptr [", $lines, " + 64*", $line, "]"; },
            unfold!(@nibbles $half, $first, $second),
            lines! {
                "vmovdqa64 zmmword ptr [{block} + 512*", $pair, " + 64*", $p, "], ", $first;
                "vmovdqa64 zmmword ptr [{block} + 512*", $pair, " + 64*", $p, " + 256], ", $second;
            },
        )
    };
    (@nibbles lower, $first:literal, $second:literal) => {
        lines! {
            "vpsrlw ", $second, ", zmm24, 4";
            "vpandd ", $first, ", zmm24, dword ptr [{nibble}]{{1to16}}";
            "vpandd ", $second, ", ", $second, ", dword ptr [{nibble}]{{1to16}}";
        }
    };
    (@nibbles upper, $first:literal, $second:literal) => {
        lines! {
            "vpsrlw ", $first, ", zmm24, 8";
            "vpsrlw ", $second, ", zmm24, 12";
            "vpandd ", $first, ", ", $first, ", dword ptr [{nibble}]{{1to16}}";
        }
    };
}

/// A pair of words of every row, with some of what the last step has left between the rows.
#[rustfmt::skip]
macro_rules! pair {
    ($codes:ident, $pair:tt, $between:expr, $behind:expr) => {
        concat!(
            $codes!($pair),
            row!(0, multiply!($pair,)),
            row!(1, multiply!($pair,)),
            $between,
            row!(2, multiply!($pair,)),
            row!(3, multiply!($pair,)),
            $behind,
        )
    };
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

/// A panel of what the last step has left, with two pairs of a whole block or one of half a block.
#[rustfmt::skip]
macro_rules! panel {
    ($codes:ident, $p:literal, ($total:literal, $minima:tt), [$one:tt, $two:tt]) => {
        concat!(
            factors!($p, $minima),
            ask!($p),
            pair!($codes, $one, last!($total, $minima, $p, 0), last!($total, $minima, $p, 1)),
            pair!($codes, $two, last!($total, $minima, $p, 2), last!($total, $minima, $p, 3)),
        )
    };
    ($codes:ident, $p:literal, ($total:literal, $minima:tt), [$one:tt]) => {
        concat!(
            factors!($p, $minima),
            pair!(
                $codes,
                $one,
                concat!(last!($total, $minima, $p, 0), last!($total, $minima, $p, 1)),
                concat!(last!($total, $minima, $p, 2), last!($total, $minima, $p, 3))
            ),
        )
    };
}

/// A step: sums up the products of a group's words, gives out what the step before has left, and leaves its own. `$total` is
/// where the records of that one say what its activations sum to.
#[rustfmt::skip]
macro_rules! step {
    ($codes:ident, $group:literal, $crossed:literal, $left:tt, [$a:tt, $b:tt, $c:tt, $d:tt]) => {
        concat!(
            lines! {
                "vmovdqa64 zmm16, zmmword ptr [{block} + {begins} + 256*", $group, "]";
                "vmovdqa64 zmm17, zmmword ptr [{block} + {begins} + 256*", $group, " + 64]";
                "vmovdqa64 zmm18, zmmword ptr [{block} + {begins} + 256*", $group, " + 128]";
                "vmovdqa64 zmm19, zmmword ptr [{block} + {begins} + 256*", $group, " + 192]";
            },
            row!(0, begin!($crossed,)),
            row!(1, begin!($crossed,)),
            row!(2, begin!($crossed,)),
            row!(3, begin!($crossed,)),
            panel!($codes, 0, $left, $a),
            panel!($codes, 1, $left, $b),
            panel!($codes, 2, $left, $c),
            panel!($codes, 3, $left, $d),
            row!(0, keep!()),
            row!(1, keep!()),
            row!(2, keep!()),
            row!(3, keep!()),
        )
    };
}

/// What the next step is told of this one.
#[rustfmt::skip]
macro_rules! leave {
    ($group:literal) => {
        lines! {
            "mov {last}, {records}";
            "lea {last_factors}, [{factors} + {of_group}*", $group, "]";
            "mov {last_results}, {results}";
        }
    };
}
