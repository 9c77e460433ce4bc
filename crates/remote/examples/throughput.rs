//! How fast sequences come through this engine, beside the fastest way to get them from the same server.
//!
//!     throughput URL [SEQUENCES] [TOKENS] [ROUNDS] [PID]
//!
//! Decodes so many sequences at once from a prompt of one token, with 20 candidates for every token, in three ways that take
//! turns: through the engine; in one request for all of them, answered in one piece; in one request, streamed. Nobody can
//! decide anything about the sequences of such a request, but they cost the server and the client the least. Printed are
//! the tokens per second of each, their medians, the ratio of those, and the processor time that the engine took.
//!
//! A machine that is busy with other things spoils all of these but the last. So there is one figure more where the server
//! runs on this Linux machine and its process is named: the processor time that it and its children took for a thousand
//! tokens. Where processors are what decoding waits for, that is what decides how fast it can be.

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
    /// The server's process.
    server: Option<u32>,
}

/// What one way took.
#[derive(Clone, Copy, Default)]
struct Taken {
    tokens: usize,
    seconds: f64,
    /// Processor time of this program.
    worked: f64,
    /// Processor time of the server, where it can be seen.
    served: f64,
}

impl Taken {
    fn rate(&self) -> f64 {
        self.tokens as f64 / self.seconds
    }
}

impl fmt::Display for Taken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = self.worked * 1000.0 / self.tokens as f64;
        write!(f, "{:.0} tokens/s at {:.1}% of a core for 1,000 tokens/s", self.rate(), 100.0 * share)?;
        if self.served > 0.0 {
            write!(f, ", {:.2} s of the server for 1,000", self.served * 1000.0 / self.tokens as f64)?;
        }
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let url = arguments.first().ok_or("usage: throughput URL [SEQUENCES] [TOKENS] [ROUNDS] [PID]")?;
    let number = |at: usize, otherwise: usize| arguments.get(at).map_or(Ok(otherwise), |word| word.parse());
    let server = arguments.get(4).map(|word| word.parse()).transpose()?;
    let (load, rounds) = (Load { sequences: number(1, 32)?, tokens: number(2, 200)?, server }, number(3, 5)?);
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
        let last = |taken: &[Taken]| taken.last().map_or(f64::NAN, Taken::rate);
        let (ours, whole, streamed) = (last(&ours), last(&whole), last(&streamed));
        println!("tokens/s: engine {ours:.0}, one request {whole:.0}, the same streamed {streamed:.0}");
    }
    println!("medians: engine {}", typical(&ours));
    println!("one request {}", against(&ours, &whole));
    println!("the same streamed {}", against(&ours, &streamed));
    println!("{:?}", engine.traffic().tally());
    Ok(())
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut all: Vec<f64> = values.collect();
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The medians of the times and of the processor times; all are of the same number of tokens.
fn typical(taken: &[Taken]) -> Taken {
    Taken {
        tokens: taken.first().map_or(0, |one| one.tokens),
        seconds: median(taken.iter().map(|one| one.seconds)),
        worked: median(taken.iter().map(|one| one.worked)),
        served: median(taken.iter().map(|one| one.served)),
    }
}

/// Another way's speed, and how fast the engine is beside it. Where the machine's load drifts, rounds are best compared each
/// with itself.
fn against(ours: &[Taken], theirs: &[Taken]) -> String {
    let theirs_typically = typical(theirs);
    let of_medians = typical(ours).rate() / theirs_typically.rate();
    let by_round = median(ours.iter().zip(theirs).map(|(ours, theirs)| ours.rate() / theirs.rate()));
    format!(
        "{theirs_typically}: the engine has {:.1}% of its speed, round by round {:.1}%",
        100.0 * of_medians,
        100.0 * by_round
    )
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
    let sampling = Sampling { temperature: 0.6, top_p: 1.0, ..Sampling::default() };
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
        "temperature": 0.6, "top_k": -1, "top_p": 1.0, "min_p": 0.0, "repetition_penalty": 1.0, "seed": 1, "ignore_eos": true,
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
        "temperature": 0.6, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "seed": 1,
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
    let served = load.server.map(family_time).transpose()?;
    let (began, worked) = (Instant::now(), processor_time());
    let tokens = work()?;
    let (seconds, worked) = (began.elapsed().as_secs_f64(), (processor_time() - worked).as_secs_f64());
    let served = load.server.map(family_time).transpose()?.unwrap_or(0.0) - served.unwrap_or(0.0);
    let wanted = load.sequences * load.tokens;
    if tokens != wanted {
        return Err(format!("{tokens} tokens came where {wanted} were asked for").into());
    }
    Ok(Taken { tokens, seconds, worked, served })
}

/// What this process has used so far.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The seconds that a process and its descendants have used so far.
fn family_time(ancestor: u32) -> Result<f64, Box<dyn Error>> {
    let mut processes = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        // It may have ended since.
        let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { continue };
        // The second field is a name in brackets that may have anything in it; the parent is the fourth.
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let field = |at: usize| fields.get(at - 3).and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
        processes.push((pid, field(4) as u32, field(14) + field(15)));
    }
    let (mut family, mut seen) = (vec![ancestor], 0);
    while let Some(&parent) = family.get(seen) {
        seen += 1;
        family.extend(processes.iter().filter(|process| process.1 == parent).map(|process| process.0));
    }
    let ticks: u64 =
        processes.iter().filter(|process| family.contains(&process.0)).map(|process| process.2).sum();
    Ok(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}
