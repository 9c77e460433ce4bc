//! What is measured. A name means the same for every model; where a model cannot run it, it is not run.

use eager_native::KvUse;
use serde::Serialize;

/// Sequences that are decoded together, all of the same length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Workload {
    pub name: &'static str,
    /// Sequences.
    pub branches: usize,
    /// Tokens of the prompt that all of them share.
    pub shared: usize,
    /// Tokens of the prompt that each has for itself, instead of a shared one.
    pub private: usize,
    /// Tokens that each decodes before the clock starts, beside the first.
    pub own: usize,
    /// Tokens that each decodes while the clock runs.
    pub tokens: usize,
    #[serde(skip)]
    pub timed: Timed,
}

/// What the clock runs for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timed {
    /// From when every sequence has its first token (and its own ones) until every sequence has `tokens` more.
    Decoding,
    /// From nothing until the first token is decoded.
    Prefill,
}

const fn branches(name: &'static str, branches: usize) -> Workload {
    Workload { name, branches, shared: 256, private: 0, own: 0, tokens: 256, timed: Timed::Decoding }
}

/// The workloads that have a name.
pub const NAMED: [Workload; 6] = [
    branches("branches-32", 32),
    Workload { shared: 0, private: 1500, tokens: 16, ..branches("private-32", 32) },
    Workload { shared: 1500, own: 100, tokens: 16, ..branches("shared-32", 32) },
    branches("branches-8", 8),
    branches("single", 1),
    Workload { shared: 1024, tokens: 1, timed: Timed::Prefill, ..branches("prefill", 1) },
];

/// What a custom workload is where it is not told otherwise.
pub const CUSTOM: Workload = branches("custom", 32);

/// The workload with a name.
pub fn named(name: &str) -> Result<Workload, String> {
    NAMED.into_iter().find(|w| w.name == name).ok_or_else(|| {
        let known = NAMED.map(|w| w.name).join(", ");
        format!("there is no such workload; there are {known}")
    })
}

impl Workload {
    /// Prompts that have nothing to do with each other.
    pub fn groves(&self) -> usize {
        if self.private > 0 { self.branches } else { 1 }
    }

    /// Sequences of each prompt.
    pub fn per_grove(&self) -> usize {
        self.branches / self.groves()
    }

    pub fn prompt(&self) -> usize {
        self.shared.saturating_add(self.private)
    }

    /// Tokens that each sequence decodes, timed or not.
    pub fn length(&self) -> usize {
        match self.timed {
            Timed::Decoding => self.tokens.saturating_add(self.own).saturating_add(1),
            Timed::Prefill => self.tokens,
        }
    }

    /// Tokens that all decode together, timed or not.
    pub fn decoded(&self) -> usize {
        self.branches.saturating_mul(self.length())
    }

    /// Tokens whose keys and values are in memory at the end, each counted once however many share it. The last token
    /// of a sequence is never computed.
    pub fn stored(&self) -> usize {
        let prompts = self.groves().saturating_mul(self.prompt());
        prompts.saturating_add(self.branches.saturating_mul(self.length() - 1))
    }

    /// Pages that are enough for it, of so many tokens.
    pub fn pages(&self, page_tokens: usize) -> usize {
        // A page may be shared but for its last tokens, or filled but for its last tokens.
        let pages = |tokens: usize| tokens.div_ceil(page_tokens);
        let trunks = self.groves().saturating_mul(pages(self.prompt()));
        self.branches.saturating_mul(pages(self.length()) + 2).saturating_add(trunks)
    }

    /// Why a model with this context, or an engine with this much memory for keys and values, cannot run it.
    pub fn misfit(&self, context: usize, kv: &KvUse, kv_bytes: usize) -> Option<String> {
        let needed = self.prompt().saturating_add(self.length());
        if needed > context {
            return Some(format!(
                "it needs sequences of {needed} tokens, and the model's context is {context}"
            ));
        }
        let bytes = self.pages(kv.page_tokens).saturating_mul(kv.page_bytes);
        (bytes > kv_bytes).then(|| {
            let mib = |bytes: usize| bytes.div_ceil(1 << 20);
            format!(
                "it needs {} MiB of keys and values, and --kv-memory allows {}",
                mib(bytes),
                mib(kv_bytes)
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KV: KvUse = KvUse { page_tokens: 16, page_bytes: 16 << 10, pages: 0, peak_pages: 0 };

    #[test]
    fn tokens_are_counted_once() {
        let shared = named("shared-32").unwrap();
        assert_eq!((shared.groves(), shared.per_grove(), shared.length()), (1, 32, 117));
        assert_eq!(shared.stored(), 1500 + 32 * 116);
        let private = named("private-32").unwrap();
        assert_eq!((private.groves(), private.per_grove(), private.length()), (32, 1, 17));
        assert_eq!(private.stored(), 32 * 1516);
        let prefill = named("prefill").unwrap();
        assert_eq!((prefill.stored(), prefill.decoded()), (1024, 1));
    }

    #[test]
    fn what_does_not_fit_says_why() {
        let single = named("single").unwrap();
        assert_eq!(single.misfit(513, &KV, 1 << 30), None);
        assert!(single.misfit(512, &KV, 1 << 30).unwrap().contains("513 tokens"));
        assert!(single.misfit(513, &KV, 35 * KV.page_bytes - 1).unwrap().contains("--kv-memory"));
        assert_eq!(single.misfit(513, &KV, 35 * KV.page_bytes), None);
        let huge = Workload { own: usize::MAX, branches: usize::MAX, ..CUSTOM };
        assert!(huge.misfit(usize::MAX - 1, &KV, usize::MAX - 1).is_some());
    }
}
