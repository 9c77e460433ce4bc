//! acorn, ready to grow trees.

use std::path::Path;
use std::sync::Arc;

use eager_core::{Judged, Method, Plan, Prompt, Settings, Tree};
use eager_native::load::Checkpoint;
use eager_native::{EngineError, Isa, Model, NativeEngine, Options};

pub struct Acorn {
    checkpoint: Checkpoint,
    model: Arc<Model>,
}

impl Acorn {
    pub fn open() -> Self {
        Self::on(Isa::detect())
    }

    /// With the weights packed for certain instructions.
    pub fn on(isa: Isa) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/acorn/weights/acorn-q8_0.gguf");
        let checkpoint = Checkpoint::open(&path).unwrap();
        let model = Arc::new(Model::load(&checkpoint, isa).unwrap());
        Acorn { checkpoint, model }
    }

    pub fn engine(&self, options: Options) -> NativeEngine {
        NativeEngine::new(self.model.clone(), options).unwrap()
    }

    pub fn prompts(&self, problems: &[&str], max_tokens: usize) -> Vec<Prompt> {
        let settings = Arc::new(Settings {
            max_tokens,
            stop: self.checkpoint.config.stop_tokens.clone(),
            reasoning_end: self.checkpoint.tokenizer.token("</think>").into_iter().collect(),
            ..Settings::default()
        });
        let prompt = |(key, problem): (u64, &&str)| {
            let text = format!("<|im_start|>user\n{problem}<|im_end|>\n<|im_start|>assistant\n");
            let tokens = self.checkpoint.encode_prompt(&text).unwrap().into();
            Prompt { tokens, settings: settings.clone(), key, answers: None }
        };
        (0..).zip(problems).map(prompt).collect()
    }
}

/// Both passes of a method; no prompt counts as solved, so that every tree is regrown or rerun.
pub fn grow(
    engine: &mut NativeEngine,
    plan: &Plan,
    method: Method,
    prompts: &[Prompt],
) -> Result<Vec<Tree>, EngineError> {
    let mut trees = plan.plant(prompts);
    plan.first_pass(engine, method, prompts, &mut trees, &mut ())?;
    plan.second_pass(engine, method, prompts, &mut trees, |_, _| Judged::default(), &mut ())?;
    Ok(trees)
}
