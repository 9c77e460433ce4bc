//! How fast sequences come through this engine, beside the fastest way to get them from the same server.
//!
//!     throughput URL [SEQUENCES] [TOKENS] [ROUNDS]
//!
//! Decodes so many sequences at once from a prompt of one token, with 20 candidates for every token, in three ways that take
//! turns: through the engine; in one request for all of them, answered in one piece; in one request, streamed. Nobody can
//! decide anything about the sequences of such a request, but they cost the server and the client the least. Printed are
//! the tokens per second of each, their medians, the ratio of those, and the processor time that the engine took. The machine
//! may be busy with other things; the ratio bears that better than the rest.

use std::error::Error;
use std::fmt;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use eager_core::strategy::FullParallel;
use eager_core::{Engine, Forest, Grove, Key, Sampling, Settings};
use eager_remote::{Dialect, Options, RemoteEngine};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

/// How many sequences of how many tokens.
#[derive(Clone, Copy)]
struct Load {
    sequences: usize,
    tokens: usize,
}

/// What one way took.
#[derive(Clone, Copy, Default)]
struct Taken {
    tokens: usize,
    seconds: f64,
    /// Processor time of this program.
    worked: f64,
}

impl Taken {
    fn rate(&self) -> f64 {
        self.tokens as f64 / self.seconds
    }
}

impl fmt::Display for Taken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = self.worked * 1000.0 / self.tokens as f64;
        write!(f, "{:.0} tokens/s at {:.1}% of a core for 1,000 tokens/s", self.rate(), 100.0 * share)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let url = arguments.first().ok_or("usage: throughput URL [SEQUENCES] [TOKENS] [ROUNDS]")?;
    let number = |at: usize, otherwise: usize| arguments.get(at).map_or(Ok(otherwise), |word| word.parse());
    let (load, rounds) = (Load { sequences: number(1, 32)?, tokens: number(2, 200)? }, number(3, 5)?);
    let mut engine = RemoteEngine::connect(url, &Options::default())?;
    println!("{} serving {}, {} streams", engine.dialect(), engine.model(), engine.streams());

    // The first to come finds the server cold.
    through_engine(&mut engine, load)?;
    let (mut ours, mut whole, mut streamed) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds {
        // Each way comes first in turn, in case that matters.
        for way in (0..3).map(|way| (way + round) % 3) {
            match way {
                0 => ours.push(through_engine(&mut engine, load)?),
                1 => whole.push(one_request(url, &engine, load, false)?),
                _ => streamed.push(one_request(url, &engine, load, true)?),
            }
        }
        let last = |taken: &[Taken]| taken.last().copied().unwrap_or_default();
        println!(
            "engine {}; one request {:.0}; the same streamed {:.0}",
            last(&ours),
            last(&whole).rate(),
            last(&streamed).rate()
        );
    }
    let (ours, whole, streamed) = (median(&ours), median(&whole), median(&streamed));
    println!("medians: engine {ours}");
    println!("one request {:.0}: {:.1}%", whole.rate(), 100.0 * ours.rate() / whole.rate());
    println!("the same streamed {:.0}: {:.1}%", streamed.rate(), 100.0 * ours.rate() / streamed.rate());
    println!("{:?}", engine.traffic().tally());
    Ok(())
}

/// The median of the times, and of the processor times; all of the same number of tokens.
fn median(taken: &[Taken]) -> Taken {
    let middle = |of: fn(&Taken) -> f64| {
        let mut all: Vec<f64> = taken.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        all.get(all.len() / 2).copied().unwrap_or(f64::NAN)
    };
    let tokens = taken.first().map_or(0, |one| one.tokens);
    Taken { tokens, seconds: middle(|one| one.seconds), worked: middle(|one| one.worked) }
}

/// One grove, there and back.
struct One {
    grove: Option<Grove>,
    tokens: usize,
}

impl Forest for One {
    fn next(&mut self, _: bool) -> Option<Grove> {
        self.grove.take()
    }

    fn done(&mut self, grove: Grove) {
        self.tokens = grove.tree().tokens_generated();
    }
}

fn through_engine(engine: &mut RemoteEngine, load: Load) -> Result<Taken, Box<dyn Error>> {
    let sampling = Sampling { temperature: 1.0, top_p: 1.0, ..Sampling::default() };
    // Nothing stops a sequence but its length, so that every run decodes the same number.
    let settings = Arc::new(Settings { sampling, max_tokens: load.tokens, ..Settings::default() });
    let strategy = Box::new(FullParallel { sequences: load.sequences });
    let grove = Grove::new(0, Key::prompt(1, 1), vec![1].into(), settings, strategy);
    let mut forest = One { grove: Some(grove), tokens: 0 };
    measured(load, || {
        engine.grow(&mut forest)?;
        Ok(forest.tokens)
    })
}

/// The same sequences by one request, whose answer is not looked at but for the number of tokens.
fn one_request(url: &str, engine: &RemoteEngine, load: Load, stream: bool) -> Result<Taken, Box<dyn Error>> {
    let address = url.strip_prefix("http://").ok_or("only http:// is spoken here")?.trim_end_matches('/');
    let (path, body) = match engine.dialect() {
        Dialect::LlamaServer => ("/completion", llama_server(load, stream)),
        Dialect::Vllm => ("/v1/completions", vllm(engine.model(), load, stream)),
        Dialect::Sglang => return Err("SGLang is not compared here".into()),
    };
    let body = body.to_string();
    measured(load, || {
        let mut server = TcpStream::connect(address)?;
        server.set_nodelay(true)?;
        let length = body.len();
        write!(server, "POST {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n")?;
        write!(server, "content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}")?;
        let mut answer = Vec::new();
        server.read_to_end(&mut answer)?;
        let answer = String::from_utf8_lossy(&answer);
        Ok(match engine.dialect() {
            // The last chunk of a sequence, or of all, says how many tokens it has.
            Dialect::LlamaServer => {
                let last = answer.lines().filter(|line| line.contains("\"stop\":true"));
                last.flat_map(|line| numbers(line, "\"tokens_predicted\":")).sum()
            }
            _ => numbers(&answer, "\"completion_tokens\":").max().unwrap_or(0),
        })
    })
}

fn vllm(model: &str, load: Load, stream: bool) -> Value {
    let mut body = json!({
        "model": model, "prompt": [1], "n": load.sequences, "max_tokens": load.tokens, "logprobs": 20,
        "return_tokens_as_token_ids": true, "return_token_ids": true, "stream": stream,
        "temperature": 1.0, "top_k": -1, "top_p": 1.0, "min_p": 0.0, "repetition_penalty": 1.0, "seed": 1, "ignore_eos": true,
    });
    if stream {
        body["stream_options"] = json!({"include_usage": true});
    }
    body
}

fn llama_server(load: Load, stream: bool) -> Value {
    json!({
        "prompt": [1], "n_cmpl": load.sequences, "n_predict": load.tokens, "n_probs": 20,
        "return_tokens": true, "stream": stream, "cache_prompt": true,
        "temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "seed": 1,
        "samplers": ["temperature", "top_k", "top_p", "min_p"], "ignore_eos": true,
    })
}

/// The numbers that stand after a word.
fn numbers<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    text.split(word).skip(1).filter_map(|rest| {
        let digits = rest.trim_start().split(|c: char| !c.is_ascii_digit()).next()?;
        digits.parse().ok()
    })
}

/// Takes the time of something that says how many tokens it got, which must be all.
fn measured(
    load: Load,
    work: impl FnOnce() -> Result<usize, Box<dyn Error>>,
) -> Result<Taken, Box<dyn Error>> {
    let (began, worked) = (Instant::now(), processor_time());
    let tokens = work()?;
    let (seconds, worked) = (began.elapsed().as_secs_f64(), (processor_time() - worked).as_secs_f64());
    let wanted = load.sequences * load.tokens;
    if tokens != wanted {
        return Err(format!("{tokens} tokens came where {wanted} were asked for").into());
    }
    Ok(Taken { tokens, seconds, worked })
}

/// What this process has used so far.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
