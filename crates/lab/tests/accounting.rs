//! What the engine says it decoded is what the samples hold: nothing twice, nothing lost.

use std::ops::ControlFlow;
use std::sync::Arc;

use eager_core::{Forking, Method, Plan, Prompt, Pulse, Settings, Watch};
use eager_grade::response::Extraction;
use eager_lab::bench::{Bench, Observer, Pace, Passes, Speller, Stage, Task, metrics};
use eager_lab::run::{FORMAT, Folder, Manifest, ModelInfo, Parameters, SuiteInfo};
use eager_lab::suite::{Request, Suite};
use eager_lab::theta;
use eager_native::load::{ChatOptions, Checkpoint, Message};
use eager_native::{Isa, Model, NativeEngine, Options};

/// Adds up what the engine says at the end of each stage.
#[derive(Default)]
struct Count {
    before: usize,
    now: usize,
}

impl Observer for Count {
    fn stage(&mut self, _: Stage, _: usize, _: usize) {
        self.before += std::mem::take(&mut self.now);
    }

    fn pulse(&mut self, pulse: &Pulse) -> ControlFlow<()> {
        self.now = pulse.decoded;
        ControlFlow::Continue(())
    }
}

fn manifest(method: Method) -> Manifest {
    Manifest {
        format: FORMAT,
        version: "test".to_owned(),
        model: ModelInfo {
            name: "acorn".to_owned(),
            hash: String::new(),
            path: None,
            engine: "native".to_owned(),
        },
        suite: SuiteInfo { name: "acorn".to_owned(), hash: String::new(), problems: 10 },
        method: method.to_string(),
        parameters: Parameters {
            max_sequences: 6,
            max_tokens: 400,
            temperature: 0.6,
            top_p: 0.95,
            top_k: 0,
            min_p: 0.0,
            theta: Some(0.3),
            entropy_top_k: 20,
            entropy_temperature: None,
            second_pass: None,
            options: Default::default(),
            defaults: Default::default(),
        },
        seed: 1,
        found_theta: None,
    }
}

/// acorn, ten of its problems, and its words.
fn acorn() -> (NativeEngine, Vec<Task>, Speller) {
    let checkpoint = Arc::new(Checkpoint::from_gguf_bytes(eager_acorn::GGUF).unwrap());
    let model = Arc::new(Model::load(&checkpoint, Isa::detect()).unwrap());
    let engine = NativeEngine::new(model, Options::default()).unwrap();
    let suite = Suite::open(&Request { limit: Some(10), ..Request::new("acorn") }).unwrap();
    let speller: Speller = {
        let checkpoint = Arc::clone(&checkpoint);
        Arc::new(move |tokens| Ok(checkpoint.tokenizer.decode(tokens)))
    };
    let settings = Arc::new(Settings {
        max_tokens: 400,
        stop: checkpoint.config.stop_tokens.clone(),
        reasoning_end: checkpoint.tokenizer.encode("</think>").unwrap(),
        ..Settings::default()
    });
    let task = |(key, problem): (usize, &eager_lab::suite::Problem)| {
        let chat = checkpoint.chat.as_ref().unwrap();
        let text = chat.render(&[Message::new("user", &problem.message)], &ChatOptions::default()).unwrap();
        let tokens = checkpoint.encode_prompt(&text).unwrap().into();
        let prompt = Prompt { tokens, settings: Arc::clone(&settings), key: key as u64, answers: None };
        Task::new(problem.clone(), prompt, Extraction::default(), Arc::clone(&speller))
    };
    let tasks = suite.problems.iter().enumerate().map(task).collect();
    (engine, tasks, speller)
}

#[test]
fn tokens_of_samples_are_the_engines_count() {
    let (mut engine, tasks, speller) = acorn();
    let plan = Plan::new(1, Forking::new(0.3, 6));
    for method in Method::ALL {
        let folder = tempfile::tempdir().unwrap();
        let mut run = Folder::open(folder.path(), &manifest(method), &[], false).unwrap();
        let mut passes =
            method.has_second_pass().then(|| Passes::open(&folder.path().join("first-pass.jsonl")).unwrap());
        let mut count = Count::default();
        let mut bench =
            Bench { engine: &mut engine, tasks: &tasks, spell: Arc::clone(&speller), pace: Pace::new(4) };
        let flow = bench.run(&mut run, &plan, method, passes.as_mut(), &mut count).unwrap();
        assert!(flow.is_continue());
        let samples = run.samples().unwrap();
        assert_eq!(metrics(&samples).tokens, count.before + count.now, "{method}");
        let told: usize = samples.iter().map(|sample| sample.tokens_generated).sum();
        assert_eq!(told, count.before + count.now, "{method}");
    }
}

/// Ends a pass after so many steps.
struct Steps(usize, Pulse);

impl Watch for Steps {
    fn pulse(&mut self, pulse: &Pulse) -> ControlFlow<()> {
        (self.0, self.1) = (self.0.saturating_sub(1), *pulse);
        if self.0 == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

#[test]
fn theta_is_found_from_what_there_is() {
    let (mut engine, tasks, _) = acorn();
    let prompts: Vec<Prompt> = tasks.into_iter().map(|task| task.prompt).collect();
    let mut find = |prompts: &[Prompt], steps: usize| {
        let mut watch = Steps(steps, Pulse::default());
        let (found, ended) = theta::find(&mut engine, prompts, &mut watch);
        ended.unwrap();
        (found, watch.1.decoded)
    };
    let (whole, decoded) = find(&prompts, usize::MAX);
    let whole = whole.unwrap();
    assert_eq!((whole.samples, whole.tokens), (10, decoded));
    assert_eq!(find(&prompts, usize::MAX).0, Some(whole), "the same again");
    let (part, decoded) = find(&prompts, 40);
    assert_eq!(part.unwrap().tokens, decoded, "what was there when the time was up");
    assert!(decoded < whole.tokens);
    assert!(
        (0.05..1.0).contains(&whole.theta) && (0.05..1.0).contains(&part.unwrap().theta),
        "{whole:?} {part:?}"
    );
    assert_eq!(find(&[], usize::MAX).0, None);
}
