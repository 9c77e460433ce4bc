//! Running a workload on llama.cpp.

use std::ffi::CStr;
use std::hint::black_box;
use std::num::NonZeroU32;
use std::ops::Range;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use llama_cpp_2::LlamaStateSeqFlags;
use llama_cpp_2::context::LlamaContext;
use llama_cpp_2::context::params::{KvCacheType, LlamaContextParams};
use llama_cpp_2::llama_backend::LlamaBackend;
use llama_cpp_2::llama_batch::LlamaBatch;
use llama_cpp_2::model::LlamaModel;
use llama_cpp_2::model::params::LlamaModelParams;
use llama_cpp_2::token::LlamaToken;
use llama_cpp_sys_2 as sys;

use crate::report::median;
use crate::setting::Setting;
use crate::workload::{Kv, Phase, Workload};

/// The most tokens of one call: llama.cpp's default, and more than any workload hands over at once.
const BATCH: u16 = 2048;

/// Steps, or whole prefills, that a setting is scouted with.
const SCOUT_STEPS: u16 = 8;
const SCOUT_PREFILLS: u16 = 3;

/// A model, loaded once for all measurements.
pub struct Llama {
    // Declared before the backend: it must be dropped first.
    model: LlamaModel,
    backend: LlamaBackend,
    threads: u16,
}

impl Llama {
    pub fn load(path: &Path, threads: u16) -> Result<Llama> {
        let mut backend = LlamaBackend::init()?;
        backend.void_logs();
        let model = LlamaModel::load_from_file(&backend, path, &LlamaModelParams::default())
            .with_context(|| format!("llama.cpp cannot load {}", path.display()))?;
        Ok(Llama { model, backend, threads })
    }

    /// What llama.cpp says it was built with: instruction sets, OpenMP, weight repacking.
    pub fn build(&self) -> String {
        // SAFETY: the function takes nothing and returns a string that lives in a static.
        let info = unsafe { CStr::from_ptr(sys::llama_print_system_info()) };
        info.to_string_lossy().trim_end_matches([' ', '|']).to_owned()
    }

    /// Tokens per second of the whole workload.
    pub fn measure(&self, workload: &Workload, setting: Setting) -> Result<f64> {
        let mut session = Session::open(self, workload, setting, 0)?;
        let seconds = match workload.phase {
            Phase::Prefill => {
                session.prefill()?;
                session.prefill()?
            }
            Phase::Decode => {
                let start = Instant::now();
                for _ in 0..workload.tokens {
                    session.step()?;
                }
                start.elapsed().as_secs_f64()
            }
        };
        Ok(workload.rate(workload.tokens, seconds))
    }

    /// Tokens per second from a few steps at the middle of the workload, where the contexts have their mean
    /// length. The median step counts, so that a disturbance does not choose the setting.
    pub fn scout(&self, workload: &Workload, setting: Setting) -> Result<f64> {
        match workload.phase {
            Phase::Prefill => {
                let mut session = Session::open(self, workload, setting, 0)?;
                session.prefill()?;
                let seconds = (0..SCOUT_PREFILLS).map(|_| session.prefill()).collect::<Result<Vec<_>>>()?;
                Ok(workload.rate(workload.tokens, median(&seconds)))
            }
            Phase::Decode => {
                let ahead = (workload.tokens - SCOUT_STEPS.min(workload.tokens)) / 2;
                let mut session = Session::open(self, workload, setting, ahead)?;
                let mut step = || {
                    let start = Instant::now();
                    session.step()?;
                    Ok(start.elapsed().as_secs_f64())
                };
                let seconds = (0..SCOUT_STEPS).map(|_| step()).collect::<Result<Vec<_>>>()?;
                Ok(workload.rate(1, median(&seconds)))
            }
        }
    }
}

/// One context, filled up to where the clock starts.
struct Session<'m> {
    context: LlamaContext<'m>,
    batch: LlamaBatch<'static>,
    ids: Ids,
    workload: Workload,
    /// Tokens every branch has by now, shared ones included.
    length: u16,
}

impl<'m> Session<'m> {
    /// Builds what the workload starts from, `ahead` own tokens later than it would.
    fn open(llama: &'m Llama, workload: &Workload, setting: Setting, ahead: u16) -> Result<Session<'m>> {
        let parameters = parameters(llama.threads, workload, setting);
        let context = llama.model.new_context(&llama.backend, parameters);
        let mut session = Session {
            context: context.with_context(|| format!("no context for {} with {setting}", workload.name))?,
            batch: LlamaBatch::new(usize::from(BATCH), 1),
            ids: Ids::new(llama.model.n_vocab()),
            workload: *workload,
            length: 0,
        };
        if workload.phase == Phase::Decode {
            session.fill(workload.own + ahead)?;
            session.warm()?;
        }
        Ok(session)
    }

    fn fill(&mut self, own: u16) -> Result<()> {
        let branches = i32::from(self.workload.branches);
        if self.workload.shared > 0 {
            self.append(0..1, self.workload.shared)?;
            for branch in 1..branches {
                self.context.kv_cache_seq_cp(0, branch, None, None)?;
            }
            return self.append(0..branches, own);
        }
        // Private contexts of equal length cost the same whatever was said in them. Copying the state of one
        // gives each branch cells of its own without computing some 50,000 tokens for every measurement.
        self.append(0..1, own)?;
        let state = self.context.state_seq_get(0, LlamaStateSeqFlags::empty())?;
        for branch in 1..branches {
            self.context.state_seq_set(&state, branch)?;
        }
        Ok(())
    }

    /// Gives each of the branches `count` tokens, in the order decoding would have.
    fn append(&mut self, branches: Range<i32>, count: u16) -> Result<()> {
        let positions: Vec<u16> = (self.length..self.length + count).collect();
        for chunk in positions.chunks(usize::from(BATCH) / branches.len()) {
            self.batch.clear();
            for &position in chunk {
                for branch in branches.clone() {
                    self.batch.add(self.ids.next(), position.into(), &[branch], false)?;
                }
            }
            self.context.decode(&mut self.batch)?;
        }
        self.length += count;
        Ok(())
    }

    /// Takes a step and takes it back, since the first one does more than the others: it builds the graph,
    /// and with separate caches it is when a fork is really copied.
    fn warm(&mut self) -> Result<()> {
        self.step()?;
        self.length -= 1;
        for branch in 0..u32::from(self.workload.branches) {
            let removed = self.context.clear_kv_cache_seq(Some(branch), Some(self.length.into()), None)?;
            ensure!(removed, "llama.cpp could not take back a token of sequence {branch}");
        }
        Ok(())
    }

    /// One token for every branch, with the logits of every row.
    fn step(&mut self) -> Result<()> {
        self.batch.clear();
        for branch in 0..i32::from(self.workload.branches) {
            self.batch.add(self.ids.next(), self.length.into(), &[branch], true)?;
        }
        self.context.decode(&mut self.batch)?;
        for row in 0..self.batch.n_tokens() {
            self.touch(row);
        }
        self.length += 1;
        Ok(())
    }

    /// The seconds of the prefill, from an empty cache.
    fn prefill(&mut self) -> Result<f64> {
        self.context.clear_kv_cache();
        let start = Instant::now();
        self.batch.clear();
        let last = self.workload.tokens - 1;
        for position in 0..=last {
            self.batch.add(self.ids.next(), position.into(), &[0], position == last)?;
        }
        self.context.decode(&mut self.batch)?;
        self.touch(last.into());
        Ok(start.elapsed().as_secs_f64())
    }

    /// Reads a few logits of a row, which waits for them to be there.
    fn touch(&self, row: i32) {
        black_box(self.context.get_logits_ith(row).iter().take(8).copied().fold(f32::MIN, f32::max));
    }
}

/// The parameters of a context that holds the whole workload.
fn parameters(threads: u16, workload: &Workload, setting: Setting) -> LlamaContextParams {
    let branches = u32::from(workload.branches);
    let shared = u32::from(workload.shared);
    let private = u32::from(workload.own) + u32::from(workload.tokens);
    // Separate caches divide the context evenly, and llama.cpp pads each to 256.
    let cells = if setting.unified {
        (shared + branches * private).next_multiple_of(256)
    } else {
        branches * (shared + private).next_multiple_of(256)
    };
    let (flash, kv) = (
        if setting.flash { sys::LLAMA_FLASH_ATTN_TYPE_ENABLED } else { sys::LLAMA_FLASH_ATTN_TYPE_DISABLED },
        match setting.kv {
            Kv::F16 => KvCacheType::F16,
            Kv::Q8 => KvCacheType::Q8_0,
        },
    );
    LlamaContextParams::default()
        .with_n_ctx(NonZeroU32::new(cells))
        .with_n_seq_max(branches)
        .with_n_batch(BATCH.into())
        .with_n_ubatch(setting.ubatch.into())
        .with_n_threads(threads.into())
        .with_n_threads_batch(threads.into())
        .with_flash_attention_policy(flash)
        .with_kv_unified(setting.unified)
        .with_type_k(kv)
        .with_type_v(kv)
}

/// Pseudo-random token ids: what is said does not matter for how fast it is said.
struct Ids {
    state: u32,
    vocabulary: i32,
}

impl Ids {
    fn new(vocabulary: i32) -> Ids {
        Ids { state: 1, vocabulary }
    }

    fn next(&mut self) -> LlamaToken {
        self.state = self.state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        // The upper bits: the lower ones of such a generator repeat soon.
        let positive = (self.state >> 8).cast_signed();
        LlamaToken(positive % self.vocabulary)
    }
}
