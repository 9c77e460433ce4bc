//! What HTTP costs: the same prompts through the engine alone and through the server, taking turns.
//!
//!     http_throughput [PROMPTS] [TOKENS] [ROUNDS]
//!
//! Grows 32 sequences of each prompt with acorn, full-parallel, at most so many tokens each: once with `Engine::grow` over a
//! list, once as requests with n=32 to a server on loopback, all at a time, without streams. Both decode the same tokens,
//! which is checked. Printed are the tokens per second of each round, and the median of their ratios. The machine may be
//! busy with other things; taking turns and the ratio bear that better than the rest.

use std::collections::VecDeque;
use std::error::Error;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Instant;

use eager_core::strategy::FullParallel;
use eager_core::{Engine, Forest, Grove, Key, Profile, Settings};
use eager_native::load::{ChatOptions, Checkpoint};
use eager_native::{Isa, Model as Weights, NativeEngine, Options as EngineOptions};
use eager_serve::{Model, Options, Server};
use serde_json::{Value, json};

const N: usize = 32;

type Failure = Box<dyn Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let arguments: Vec<usize> =
        std::env::args().skip(1).map(|word| word.parse()).collect::<Result<_, _>>()?;
    let number = |at: usize, otherwise: usize| arguments.get(at).copied().unwrap_or(otherwise);
    let (prompts, tokens, rounds) = (number(0, 6), number(1, 200), number(2, 5));
    let checkpoint = Checkpoint::from_gguf_bytes(eager_acorn::GGUF)?;
    let weights = Arc::new(Weights::load(&checkpoint, Isa::detect())?);
    let (context, vocab) = (checkpoint.config.context, checkpoint.config.vocab);
    let model = Model::new(checkpoint.into(), Profile::of("acorn"), context, vocab)?;
    let questions: Vec<String> =
        (0..prompts).map(|i| format!("What is {} * {} + {}?", 314 + 7 * i, 27 + i, 271 * i)).collect();

    let mut alone = NativeEngine::new(Arc::clone(&weights), EngineOptions::default())?;
    let served = NativeEngine::new(weights, EngineOptions::default())?;
    let options = Options { address: SocketAddr::from(([127, 0, 0, 1], 0)), ..Options::default() };
    let server = Server::start(served, model.clone(), options)?;
    let mut ratios = Vec::new();
    // The first round warms up both.
    for round in 0..=rounds {
        let (decoded, alone) = through_engine(&mut alone, &model, &questions, tokens)?;
        let (received, http) = through_http(server.address(), &questions, tokens)?;
        if decoded != received {
            return Err(format!("the engine decoded {decoded} tokens, the server {received}").into());
        }
        let rate = |seconds: f64| decoded as f64 / seconds;
        println!(
            "round {round}: {decoded} tokens, engine {:.0}/s, HTTP {:.0}/s, {:.1}%",
            rate(alone),
            rate(http),
            100.0 * alone / http
        );
        if round > 0 {
            ratios.push(alone / http);
        }
    }
    ratios.sort_by(f64::total_cmp);
    println!("median {:.1}%", 100.0 * ratios[ratios.len() / 2]);
    server.stop()?;
    Ok(())
}

/// A list of groves.
struct List {
    waiting: VecDeque<Grove>,
    decoded: usize,
}

impl Forest for List {
    fn next(&mut self, _: bool) -> Option<Grove> {
        self.waiting.pop_front()
    }

    fn done(&mut self, grove: Grove) {
        self.decoded += grove.tree().tokens_generated();
    }
}

/// Tokens decoded and the seconds they took.
fn through_engine(
    engine: &mut NativeEngine,
    model: &Model,
    questions: &[String],
    tokens: usize,
) -> Result<(usize, f64), Failure> {
    let settings = Arc::new(Settings { max_tokens: tokens, stop: model.stop.clone(), ..Settings::default() });
    let grove = |(id, question): (usize, &String)| {
        let message = eager_native::load::Message::new("user", question);
        let prompt = model.words.converse(&[message], &ChatOptions::default())?;
        let strategy = Box::new(FullParallel { sequences: N });
        // As the server does it, so that both decode the same tokens.
        let key = Key::prompt(0, eager_serve::growth::fingerprint(&prompt));
        Ok(Grove::new(id, key, prompt.into(), Arc::clone(&settings), strategy))
    };
    let begun = Instant::now();
    let waiting = questions.iter().enumerate().map(grove).collect::<Result<_, String>>()?;
    let mut list = List { waiting, decoded: 0 };
    engine.grow(&mut list)?;
    Ok((list.decoded, begun.elapsed().as_secs_f64()))
}

fn through_http(server: SocketAddr, questions: &[String], tokens: usize) -> Result<(usize, f64), Failure> {
    let begun = Instant::now();
    let ask = |question: &String| {
        let body = json!({"messages": [{"role": "user", "content": question}], "n": N, "max_tokens": tokens,
            "seed": 0, "eager": {"method": "full-parallel"}});
        let body = body.to_string();
        std::thread::spawn(move || -> Result<usize, Failure> {
            let mut stream = TcpStream::connect(server)?;
            let head =
                "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";
            write!(stream, "{head}connection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len())?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            let (_, body) = answer.split_once("\r\n\r\n").ok_or("half an answer")?;
            let answer: Value = serde_json::from_str(body)?;
            Ok(answer["usage"]["completion_tokens"].as_u64().ok_or_else(|| answer.to_string())? as usize)
        })
    };
    let asked: Vec<_> = questions.iter().map(ask).collect();
    let mut received = 0;
    for answer in asked {
        received += answer.join().map_err(|_| "a client panicked")??;
    }
    Ok((received, begun.elapsed().as_secs_f64()))
}
