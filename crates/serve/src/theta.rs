//! Where a model forks that nobody has calibrated.
//!
//! The same seed must give the same answer whoever asked before, so theta cannot come from what people ask. It is found from
//! questions of ours, by the engine's thread, before that takes anything from the queue. The server listens meanwhile, and
//! says that it is not ready.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use eager_core::{Engine, Prompt, Pulse, Settings, Watch};
use eager_lab::theta::{self, FoundTheta};
use eager_native::load::Message;
use tracing::{info, warn};

use crate::app::App;
use crate::growth::fingerprint;
use crate::leaf::plain;

/// What it may take. After that, theta comes from what there is.
const LONGEST: Duration = Duration::from_secs(120);

/// Some of what people ask: to reckon, to reason, to explain and to write programs.
const QUESTIONS: [&str; theta::SAMPLES] = [
    "A train leaves at 9:40 and arrives at 13:05. It stands still for 25 minutes on the way. How long does it move?",
    "What is the sum of all whole numbers from 1 to 200 that are divisible by 3 but not by 5?",
    "Anna is older than Ben, Carl is younger than Dora, and Ben is older than Dora. Who is the youngest?",
    "Write a Python function that returns the longest run of equal characters in a string.",
    "A rectangle is twice as long as it is wide and has a diagonal of 10. What is its area?",
    "Why does ice float on water? Answer in a few sentences.",
    "How many different words can be made from the letters of LEVEL?",
    "I have three boxes, each with a wrong label: apples, pears, and both. From which one do I draw to label all of them?",
    "What is wrong with this SQL: SELECT name, COUNT(*) FROM users WHERE COUNT(*) > 1 GROUP BY name?",
    "Solve x^2 - 5x + 6 = 0 and explain each step.",
];

/// Finds the model's theta, if it has none.
pub fn find<E: Engine>(engine: &mut E, app: &App) {
    let model = &app.model;
    if model.is_ready() {
        return;
    }
    warn!(model = model.name, "nobody has calibrated this model; finding theta from questions of our own");
    let prompts: Vec<Prompt> = QUESTIONS.iter().filter_map(|question| prompt(question, app)).collect();
    let (found, ended) = theta::find(engine, &prompts, &mut Patience { app, begun: Instant::now() });
    if let Err(error) = ended {
        warn!(%error, "the engine stopped while theta was looked for");
    }
    match found {
        Some(FoundTheta { theta, samples, tokens }) => {
            info!(theta = plain(theta), samples, tokens, "found theta");
        }
        None => warn!("theta could not be found; forking where models usually do"),
    }
    // Nobody else sets it.
    let _ = model.found_theta.set(found);
}

/// A question as a client would put it; `None` where the context is too short for it.
fn prompt(question: &str, app: &App) -> Option<Prompt> {
    let (model, defaults) = (&app.model, &app.options.defaults);
    let system = defaults.system.as_ref().map(|text| Message::new("system", text.clone()));
    let messages: Vec<Message> = system.into_iter().chain([Message::new("user", question)]).collect();
    let tokens = model.words.converse(&messages, &defaults.chat).ok()?;
    let room = model.context.checked_sub(tokens.len()).filter(|&room| room > 0)?;
    let settings = Settings {
        sampling: defaults.sampling,
        rules: defaults.rules.clone(),
        top_k: defaults.entropy_top_k,
        entropy_temperature: defaults.entropy_temperature,
        max_tokens: theta::TOKENS.min(room),
        stop: defaults.rules.ends(&model.stop),
        reasoning_end: model.reasoning_end.clone(),
    };
    let key = fingerprint(&tokens);
    Some(Prompt { tokens: tokens.into(), settings: Arc::new(settings), key, answers: None })
}

/// Ends the search when its time is up or the server goes down.
struct Patience<'a> {
    app: &'a App,
    begun: Instant,
}

impl Watch for Patience<'_> {
    fn pulse(&mut self, _: &Pulse) -> ControlFlow<()> {
        let over = self.begun.elapsed() >= LONGEST || self.app.queue.is_closed();
        if over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}
