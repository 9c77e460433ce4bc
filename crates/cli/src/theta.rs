//! What is said and done where nobody has calibrated a model, and no theta was given.

use std::ops::ControlFlow;
use std::path::Path;

use eager_core::{Prompt, Sampling};
use eager_lab::calibrate::CERTAIN;
use eager_lab::theta::{self, FoundTheta, PERCENTILE};

use crate::args::{ChatArgs, RemoteArgs};
use crate::interrupt::Interrupt;
use crate::progress::Progress;
use crate::session::Session;

/// The command that calibrates this model as it is used here.
pub fn calibration(model: Option<&Path>, remote: &RemoteArgs, chat: &ChatArgs, temperature: f32) -> String {
    let named = |option: &str, value: &str| format!("--{option} {}", quoted(value));
    let mut words = vec!["eager calibrate".to_owned()];
    words.extend(model.map(|model| named("model", &model.display().to_string())));
    words.extend(remote.url.iter().map(|url| named("url", url)));
    words.extend(remote.served_model.iter().map(|name| named("served-model", name)));
    // The one switch among them is `--raw`.
    let chat = chat.recorded();
    let chat = chat.iter().map(|(option, value)| {
        value.as_str().map_or_else(|| format!("--{option}"), |value| named(option, value))
    });
    words.extend(chat);
    let usual = temperature == Sampling::default().temperature;
    words.extend((!usual).then(|| named("temperature", &temperature.to_string())));
    words.join(" ")
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=+,@%".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// Finds a theta from samples of these prompts, and says so. `Break` when it was interrupted.
pub fn find(
    session: &mut Session,
    prompts: &[Prompt],
    calibration: &str,
    interrupt: &Interrupt,
) -> anyhow::Result<ControlFlow<(), Option<FoundTheta>>> {
    eprintln!(
        "eager: {} has no calibrated theta; looking for one that can fork (--theta sets it; {calibration} finds the best)",
        session.name
    );
    let mut progress = Progress::new("theta", prompts.len().min(theta::SAMPLES), interrupt);
    let (found, ended) = theta::find(&mut session.engine, prompts, &mut progress);
    drop(progress);
    ended?;
    if interrupt.asked() {
        return Ok(ControlFlow::Break(()));
    }
    if let Some(FoundTheta { theta, samples, tokens }) = found {
        let why = match theta > CERTAIN {
            true => format!("the {PERCENTILE}th percentile of where the model hesitates"),
            false => "because the model hardly ever hesitates".to_owned(),
        };
        let plural = if samples == 1 { "" } else { "s" };
        eprintln!(
            "eager: theta is {theta}, {why}, from {tokens} tokens of {samples} sample{plural}, which are not counted below"
        );
    }
    Ok(ControlFlow::Continue(found))
}
