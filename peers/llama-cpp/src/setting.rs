//! The settings of llama.cpp that decide how fast a workload runs.

use std::fmt;

use serde::Serialize;

use crate::workload::{Kv, Phase, Workload};

/// One way to set llama.cpp up.
///
/// No setting is the best for every workload, so each workload gets its own: comparing with a bad one would
/// be comparing with a reader's mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Setting {
    pub flash: bool,
    /// One cache for all sequences, which can share cells, instead of one for each, which cannot.
    pub unified: bool,
    pub kv: Kv,
    /// The most tokens that go through the model at once.
    pub ubatch: u16,
}

impl Setting {
    /// llama.cpp's own default, and far above the rows of any decoding step.
    const UBATCH: u16 = 512;

    /// The settings worth trying for a workload.
    pub fn sweep(workload: &Workload) -> Vec<Setting> {
        // A single sequence has one cache either way, and only a prefill is long enough to be cut.
        let unified: &[bool] = if workload.branches > 1 { &[true, false] } else { &[false] };
        let ubatch: &[u16] = match workload.phase {
            Phase::Prefill => &[Setting::UBATCH, 2048],
            Phase::Decode => &[Setting::UBATCH],
        };
        // llama.cpp keeps 8-bit values only with flash attention.
        let mut cache = vec![(true, Kv::F16), (false, Kv::F16)];
        if workload.is_cache_bound() {
            cache.push((true, Kv::Q8));
        }
        let mut settings = Vec::new();
        for &(flash, kv) in &cache {
            for &unified in unified {
                settings.extend(ubatch.iter().map(|&ubatch| Setting { flash, unified, kv, ubatch }));
            }
        }
        settings
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let attention = if self.flash { "flash" } else { "plain" };
        let cache = if self.unified { "unified" } else { "separate" };
        write!(f, "{attention}, {cache}, {}", self.kv.name())?;
        if self.ubatch != Setting::UBATCH {
            write!(f, ", ubatch {}", self.ubatch)?;
        }
        Ok(())
    }
}
