//! Which vector instructions to use.

use std::fmt;

/// A set of vector instructions that this machine is known to have.
///
/// Only its own functions make one, and they ask the machine first: holding an `Isa` is the proof that its instructions may be
/// executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Isa(pub(super) Level);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    Portable,
    /// What every 64-bit ARM has.
    #[cfg(target_arch = "aarch64")]
    Neon,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// AVX-512 with dot products of small whole numbers.
    #[cfg(target_arch = "x86_64")]
    Vnni,
    /// The same, with half of the multiplications of many rows replaced by additions: faster where the processor adds twice as
    /// much as it multiplies. The results are those of [`Level::Vnni`].
    #[cfg(target_arch = "x86_64")]
    Winograd,
    /// The same as [`Level::Vnni`], with activations of 8 bits where weights are quantised.
    #[cfg(target_arch = "x86_64")]
    Vnni8,
    /// The same as [`Level::Vnni`], with products of quantised weights on the matrix unit.
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    Amx,
}

impl Isa {
    /// Everything this machine can run, best first: what is faster at the price of accuracy comes last.
    pub fn available() -> Vec<Isa> {
        let (mut found, mut rough) = (Vec::new(), Vec::new());
        #[cfg(target_arch = "x86_64")]
        {
            let fma = is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("fma")
                && is_x86_feature_detected!("f16c");
            let wide = is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl");
            let vnni = fma && wide && is_x86_feature_detected!("avx512vnni");
            #[cfg(target_os = "linux")]
            if vnni && is_x86_feature_detected!("avx512vbmi") && super::unit::amx::usable() {
                found.push(Isa(Level::Amx));
            }
            if vnni {
                let mut both = [Isa(Level::Winograd), Isa(Level::Vnni)];
                if !adds_twice_as_much() {
                    both.reverse();
                }
                found.extend(both);
                rough.push(Isa(Level::Vnni8));
            }
            if fma && wide {
                found.push(Isa(Level::Avx512));
            }
            if fma {
                found.push(Isa(Level::Avx2));
            }
        }
        #[cfg(target_arch = "aarch64")]
        found.push(Isa(Level::Neon));
        found.push(Isa(Level::Portable));
        found.append(&mut rough);
        found
    }

    /// The best this machine can run.
    pub fn detect() -> Isa {
        Self::available()[0]
    }

    /// The best for steps of at most so many rows. The matrix unit has to prepare weights at a cost that a few rows do not
    /// earn back, and rounds otherwise; the others multiply a few rows with weights as they are.
    pub fn for_rows(rows: usize) -> Isa {
        /// From so many rows on it is faster (`cargo bench -p eager-native`).
        const MANY: usize = 6;
        let suits = |isa: &Isa| rows >= MANY || !isa.has_matrix_unit();
        Self::available().into_iter().find(suits).unwrap_or(Isa(Level::Portable))
    }

    /// Activations in a word of 32 bits, where they are turned into whole numbers.
    pub(super) fn activations_per_word(self) -> usize {
        if self.is_rough() || self.has_matrix_unit() { 4 } else { 2 }
    }

    /// Does it multiply quantised weights on a matrix unit?
    pub(crate) fn has_matrix_unit(self) -> bool {
        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
        return self.0 == Level::Amx;
        #[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
        false
    }

    /// Rows from which on quantised weights are prepared before they are multiplied, if they ever are.
    pub(super) fn unfolds_from(self) -> Option<usize> {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Level::Winograd => Some(super::blocks::UNFOLDED_ROWS),
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => Some(super::blocks::UNFOLDED_ROWS_256),
            _ => None,
        }
    }

    /// Does it give up accuracy for speed?
    pub fn is_rough(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        return self.0 == Level::Vnni8;
        #[cfg(not(target_arch = "x86_64"))]
        false
    }

    /// The one with this name, if this machine can run it.
    pub fn named(name: &str) -> Option<Isa> {
        Self::available().into_iter().find(|isa| isa.to_string() == name)
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Level::Portable => "portable",
            #[cfg(target_arch = "aarch64")]
            Level::Neon => "neon",
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => "avx512",
            #[cfg(target_arch = "x86_64")]
            Level::Vnni => "vnni",
            #[cfg(target_arch = "x86_64")]
            Level::Winograd => "winograd",
            #[cfg(target_arch = "x86_64")]
            Level::Vnni8 => "vnni8",
            #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
            Level::Amx => "amx",
        })
    }
}

/// Does the vector unit add twice as many whole numbers as it multiplies? AMD's do, with four pipes that add and two that
/// multiply; Intel's add and multiply on the same two.
#[cfg(target_arch = "x86_64")]
fn adds_twice_as_much() -> bool {
    // SAFETY: every 64-bit x86 processor has the instruction; newer compilers know.
    #[allow(unused_unsafe)]
    let vendor = unsafe { std::arch::x86_64::__cpuid(0) };
    let name = [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes);
    name.as_flattened() == b"AuthenticAMD"
}

/// Does a build without run-time choice have what the vector versions have?
pub(super) const BASELINE: bool = cfg!(any(
    target_arch = "aarch64",
    all(target_feature = "avx2", target_feature = "fma", target_feature = "f16c")
));

/// Compiles `$body::<FMA>` for every instruction set and defines `$name`, which takes an [`Isa`] first and runs the version
/// made for it. `FMA` says that a fused multiply-add is one instruction there and, on x86, that so is reading f16.
macro_rules! multiversion {
    ($(#[$doc:meta])* $vis:vis fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? = $body:ident) => {
        $(#[$doc])*
        $vis fn $name(isa: $crate::kernel::Isa, $($arg: $ty),*) $(-> $ret)? {
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,f16c")]
            fn avx2($($arg: $ty),*) $(-> $ret)? {
                $body::<true>($($arg),*)
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,fma,f16c")]
            fn avx512($($arg: $ty),*) $(-> $ret)? {
                $body::<true>($($arg),*)
            }
            match isa.0 {
                $crate::kernel::isa::Level::Portable => {
                    $body::<{ $crate::kernel::isa::BASELINE }>($($arg),*)
                }
                // What the compiler makes of loops is the same: it knows the unit.
                #[cfg(target_arch = "aarch64")]
                $crate::kernel::isa::Level::Neon => $body::<{ $crate::kernel::isa::BASELINE }>($($arg),*),
                // SAFETY: an `Isa` of this level exists only where the machine reported these features.
                #[cfg(target_arch = "x86_64")]
                $crate::kernel::isa::Level::Avx2 => unsafe { avx2($($arg),*) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                _ => unsafe { avx512($($arg),*) },
            }
        }
    };
}
pub(super) use multiversion;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_rows_go_without_the_matrix_unit() {
        assert_eq!(Isa::for_rows(usize::MAX), Isa::detect());
        assert!(!Isa::for_rows(1).has_matrix_unit() && !Isa::for_rows(1).is_rough());
        let fine = |isa: &Isa| !isa.has_matrix_unit();
        assert_eq!(Some(Isa::for_rows(1)), Isa::available().into_iter().find(fine));
    }
}
