//! A server for one test: loopback only, a thread a connection, gone when it is dropped.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use eager_remote::Dialect;
use serde_json::{Value, json};

use crate::model;

/// How a request for tokens goes wrong, if it does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Fault {
    None,
    /// The connection is reset after so many tokens.
    Reset(usize),
    /// It is closed in the middle of a chunk.
    Cut(usize),
    /// A chunk is no JSON.
    Garbage(usize),
    /// The server says that something went wrong.
    Error(usize),
    /// Silence, while `/health` answers.
    Stall(usize),
    /// Silence everywhere.
    Dead(usize),
    Status(u16, Option<&'static str>),
    /// 429 when more requests than these are being answered.
    Crowded(usize),
    /// So many candidates instead of those asked for.
    Narrow(usize),
    /// So many tokens in a chunk.
    Several(usize),
    NoIds,
    /// A pause before every token, in milliseconds.
    Slow(u64),
    /// The same, and requests to abort are not followed.
    Deaf(u64),
    /// Tokens whose number ends with 7 are not reported; the text of a chunk tells them, or not.
    Characters {
        told: bool,
    },
}

pub struct Server {
    pub address: SocketAddr,
    pub shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

pub struct Shared {
    dialect: Option<Dialect>,
    key: Option<&'static str>,
    plan: Box<dyn Fn(usize) -> Fault + Send + Sync>,
    pub requests: AtomicUsize,
    /// Requests that are being answered.
    pub decoding: AtomicUsize,
    /// Requests that were turned away for being too many.
    pub refused: AtomicUsize,
    /// Prompts of the requests for tokens.
    pub prompts: Mutex<Vec<Vec<u32>>>,
    /// SGLang's cache: the prompts of all requests, and what those that have ended have generated.
    cache: Mutex<Vec<Vec<u32>>>,
    /// The prompt of each of SGLang's requests, and how many of its tokens had to be computed.
    pub prefills: Mutex<Vec<(Vec<u32>, usize)>>,
    /// The names of requests that were to be aborted.
    pub aborted: Mutex<Vec<String>>,
    stopped: AtomicBool,
    dead: AtomicBool,
}

impl Server {
    pub fn start(dialect: Dialect, plan: impl Fn(usize) -> Fault + Send + Sync + 'static) -> Self {
        Self::with(Some(dialect), None, plan)
    }

    /// Where another has died.
    pub fn restart(address: SocketAddr, dialect: Dialect) -> Self {
        Self::listen(TcpListener::bind(address).unwrap(), Some(dialect), None, |_| Fault::None)
    }

    /// Without a dialect it is a server of something else.
    pub fn with(
        dialect: Option<Dialect>,
        key: Option<&'static str>,
        plan: impl Fn(usize) -> Fault + Send + Sync + 'static,
    ) -> Self {
        Self::listen(TcpListener::bind("127.0.0.1:0").unwrap(), dialect, key, plan)
    }

    fn listen(
        listener: TcpListener,
        dialect: Option<Dialect>,
        key: Option<&'static str>,
        plan: impl Fn(usize) -> Fault + Send + Sync + 'static,
    ) -> Self {
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            dialect,
            key,
            plan: Box::new(plan),
            requests: AtomicUsize::new(0),
            decoding: AtomicUsize::new(0),
            refused: AtomicUsize::new(0),
            prompts: Mutex::default(),
            cache: Mutex::default(),
            prefills: Mutex::default(),
            aborted: Mutex::default(),
            stopped: AtomicBool::new(false),
            dead: AtomicBool::new(false),
        });
        let serving = Arc::clone(&shared);
        let accepting = std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if serving.stopped.load(Ordering::Relaxed) {
                    break;
                }
                let serving = Arc::clone(&serving);
                // A client that hangs up is no failure of the server.
                std::thread::spawn(move || drop(serving.serve(stream)));
            }
        });
        Server { address, shared, accepting: Some(accepting) }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::Relaxed);
        drop(TcpStream::connect(self.address));
        // The port is free for another when this is over.
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
    }
}

struct Request {
    path: String,
    authorised: bool,
    body: Value,
}

fn read(stream: &TcpStream, key: Option<&str>) -> std::io::Result<Request> {
    let (mut reader, mut line, mut length) = (BufReader::new(stream), String::new(), 0);
    reader.read_line(&mut line)?;
    let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut authorised = key.is_none();
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        let header = line.trim().to_ascii_lowercase();
        match header.split_once(": ") {
            Some(("content-length", value)) => length = value.parse().unwrap(),
            Some(("authorization", value)) => authorised |= value.strip_prefix("bearer ") == key,
            Some(_) => {}
            None => break,
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(Request { path, authorised, body: serde_json::from_slice(&body).unwrap_or_default() })
}

fn answer(mut stream: &TcpStream, status: u16, headers: &str, body: &str) -> std::io::Result<()> {
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status} x\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
    )
}

impl Shared {
    /// Nothing more is said until the test is over, or for ten seconds.
    fn be_silent(&self) {
        let began = Instant::now();
        while !self.stopped.load(Ordering::Relaxed) && began.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn serve(&self, stream: TcpStream) -> std::io::Result<()> {
        stream.set_nodelay(true)?;
        let request = read(&stream, self.key)?;
        if !request.authorised {
            return answer(&stream, 401, "", r#"{"error":"Unauthorized"}"#);
        }
        if self.dead.load(Ordering::Relaxed) && request.path == "/health" {
            self.dead.store(false, Ordering::Relaxed);
            self.be_silent();
            return Ok(());
        }
        let list = |owner| json!({"data": [{"id": "made-up", "owned_by": owner, "max_model_len": 256}]});
        let page = match (self.dialect, request.path.as_str()) {
            (_, "/health") => json!({"status": "ok"}),
            (None, _) => return answer(&stream, 200, "", "<html>a page about cats</html>"),
            (Some(Dialect::LlamaServer), "/props") => {
                json!({"default_generation_settings": {"n_ctx": 256}, "total_slots": 4, "model_alias": "made-up"})
            }
            (Some(Dialect::LlamaServer), "/tokenize") => json!({"tokens": spelled(&request.body)}),
            (Some(Dialect::Sglang), "/get_model_info") => json!({"model_path": "made-up"}),
            (Some(Dialect::Sglang), "/v1/models") => list("sglang"),
            (Some(Dialect::Sglang), "/abort_request") => {
                let name = request.body["rid"].as_str().unwrap().to_owned();
                self.aborted.lock().unwrap().push(name);
                json!({})
            }
            (Some(Dialect::Vllm), "/v1/models") => list("vllm"),
            (Some(Dialect::LlamaServer), "/completion") if request.body["stream"] == false => {
                whole(&request.body)
            }
            (Some(Dialect::LlamaServer), "/completion")
            | (Some(Dialect::Vllm), "/v1/completions")
            | (Some(Dialect::Sglang), "/generate") => {
                self.decoding.fetch_add(1, Ordering::Relaxed);
                let result = self.decode(&stream, &request.body);
                self.decoding.fetch_sub(1, Ordering::Relaxed);
                return result;
            }
            _ => return answer(&stream, 404, "", r#"{"error":{"message":"not found"}}"#),
        };
        answer(&stream, 200, "", &page.to_string())
    }

    fn decode(&self, mut stream: &TcpStream, body: &Value) -> std::io::Result<()> {
        let fault = (self.plan)(self.requests.fetch_add(1, Ordering::Relaxed));
        if let Fault::Status(status, after) = fault {
            let header = after.map(|after| format!("Retry-After: {after}\r\n")).unwrap_or_default();
            return answer(stream, status, &header, r#"{"error":{"message":"not now"}}"#);
        }
        if let Fault::Crowded(most) = fault
            && self.decoding.load(Ordering::Relaxed) > most
        {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return answer(stream, 429, "", r#"{"error":{"message":"too many requests"}}"#);
        }
        let Some(dialect) = self.dialect else { return Ok(()) };
        let ask = Ask::read(dialect, body);
        self.prompts.lock().unwrap().push(ask.prompt.clone());
        let cached = if dialect == Dialect::Sglang { self.prefill(&ask.prompt) } else { 0 };
        write!(stream, "HTTP/1.1 200 x\r\nConnection: close\r\nContent-Type: text/event-stream\r\n\r\n")?;
        let mut answer = Answer { dialect, fault, ask, cached, steps: Vec::new(), sent: 0 };
        while !answer.is_complete() {
            let sent = answer.sent;
            if self.stopped.load(Ordering::Relaxed) {
                return Ok(());
            }
            match fault {
                Fault::Reset(after) if sent >= after => {
                    return Ok(rustix::net::sockopt::set_socket_linger(stream, Some(Duration::ZERO))?);
                }
                Fault::Stall(after) | Fault::Dead(after) if sent >= after => {
                    self.dead.store(matches!(fault, Fault::Dead(_)), Ordering::Relaxed);
                    self.be_silent();
                    return Ok(());
                }
                Fault::Garbage(after) if sent >= after => return write!(stream, "data: {{\"tok\n\n"),
                Fault::Error(after) if sent >= after => {
                    return write!(stream, "data: {{\"error\":{{\"message\":\"out of memory\"}}}}\n\n");
                }
                Fault::Crowded(_) => std::thread::sleep(Duration::from_millis(1)),
                Fault::Slow(pause) | Fault::Deaf(pause) => std::thread::sleep(Duration::from_millis(pause)),
                _ => {}
            }
            if dialect == Dialect::Sglang && !matches!(fault, Fault::Deaf(_)) && self.is_aborted(body) {
                self.cache.lock().unwrap().push(answer.path());
                let end = answer.aborted();
                return write!(stream, "data: {end}\n\ndata: [DONE]\n\n");
            }
            answer.decode();
            let Some(chunk) = answer.chunk() else { continue };
            let event = format!("data: {chunk}\n\n");
            match fault {
                Fault::Cut(after) if sent >= after => {
                    return stream.write_all(&event.as_bytes()[..event.len() / 2]);
                }
                _ => stream.write_all(event.as_bytes())?,
            }
        }
        self.cache.lock().unwrap().push(answer.path());
        stream.write_all(answer.goodbye().as_bytes())
    }

    /// Takes a prompt into the cache, and says how much of it was there. The last token is always computed.
    fn prefill(&self, prompt: &[u32]) -> usize {
        let mut cache = self.cache.lock().unwrap();
        let shared = |known: &Vec<u32>| known.iter().zip(prompt).take_while(|(a, b)| a == b).count();
        let cached = cache.iter().map(shared).max().unwrap_or(0).min(prompt.len() - 1);
        cache.push(prompt.to_vec());
        self.prefills.lock().unwrap().push((prompt.to_vec(), prompt.len() - cached));
        cached
    }

    fn is_aborted(&self, body: &Value) -> bool {
        let name = body["rid"].as_str().unwrap();
        self.aborted.lock().unwrap().iter().any(|beginning| name.starts_with(beginning))
    }
}

/// The tokens of a text: it spells their numbers. Words are one token.
fn spelled(body: &Value) -> Vec<u32> {
    let text = body["content"].as_str().unwrap_or_default();
    text.split(' ').filter(|word| !word.is_empty()).map(|word| word.parse().unwrap_or(9)).collect()
}

/// An answer that is not streamed: all tokens, and the candidates of the first that is reported.
fn whole(body: &Value) -> Value {
    let ask = Ask::read(Dialect::LlamaServer, body);
    let dialect = Dialect::LlamaServer;
    let mut answer = Answer { dialect, fault: Fault::None, ask, cached: 0, steps: Vec::new(), sent: 0 };
    while !answer.is_complete() {
        answer.decode();
    }
    let tokens: Vec<u32> = answer.steps.iter().map(|step| step.token).collect();
    let forced = body["logit_bias"][0][0].as_u64();
    let mut first = answer.llama(&answer.steps[0]);
    first["id"] = forced.map_or(first["id"].clone(), |forced| forced.into());
    // Only what was forced to be whole is reported.
    let reported: Vec<Value> = forced.map(|_| first).into_iter().collect();
    json!({"content": "", "tokens": tokens, "stop": true, "tokens_predicted": tokens.len(),
           "completion_probabilities": reported})
}

struct Ask {
    prompt: Vec<u32>,
    tokens: usize,
    top_k: usize,
    temperature: f64,
    seed: u64,
}

impl Ask {
    fn read(dialect: Dialect, body: &Value) -> Self {
        let names = match dialect {
            Dialect::LlamaServer => ["/prompt", "/n_predict", "/n_probs", "/temperature", "/seed"],
            Dialect::Vllm => ["/prompt", "/max_tokens", "/logprobs", "/temperature", "/seed"],
            Dialect::Sglang => [
                "/input_ids",
                "/sampling_params/max_new_tokens",
                "/top_logprobs_num",
                "/sampling_params/temperature",
                "/sampling_params/sampling_seed",
            ],
        };
        let [prompt, tokens, top_k, temperature, seed] = names.map(|name| body.pointer(name).unwrap());
        Ask {
            prompt: serde_json::from_value(prompt.clone()).unwrap(),
            tokens: tokens.as_u64().unwrap() as usize,
            top_k: top_k.as_u64().unwrap() as usize,
            temperature: f64::from(temperature.as_f64().unwrap() as f32),
            seed: seed.as_u64().unwrap(),
        }
    }
}

struct Decoded {
    token: u32,
    logprob: f64,
    top: Vec<(u32, f64)>,
}

struct Answer {
    dialect: Dialect,
    fault: Fault,
    ask: Ask,
    /// Tokens of the prompt that need not be computed.
    cached: usize,
    steps: Vec<Decoded>,
    /// How many of them the client knows of.
    sent: usize,
}

impl Answer {
    fn is_complete(&self) -> bool {
        let last = self.steps.last().map(|step| step.token);
        self.steps.len() >= self.ask.tokens || last == Some(model::END)
    }

    fn path(&self) -> Vec<u32> {
        self.ask.prompt.iter().copied().chain(self.steps.iter().map(|step| step.token)).collect()
    }

    /// How SGLang ends a request that was aborted.
    fn aborted(&self) -> Value {
        let mut chunk = self.sglang_chunk();
        chunk["meta_info"]["finish_reason"] = json!({"type": "abort", "message": "Aborted by AbortReq."});
        chunk
    }

    fn decode(&mut self) {
        let all = model::next(&self.path());
        let (token, logprob) = model::draw(&all, self.ask.temperature, self.ask.seed, self.steps.len());
        let count = if let Fault::Narrow(count) = self.fault { count } else { self.ask.top_k };
        self.steps.push(Decoded { token, logprob, top: all[..count].to_vec() });
    }

    /// What is to be said now, if anything.
    fn chunk(&mut self) -> Option<Value> {
        let new = self.steps.len() - self.sent;
        let holds_back = match self.fault {
            Fault::Several(many) => new < many,
            Fault::Characters { .. } => self.steps[self.steps.len() - 1].token % 10 == 7,
            _ => false,
        };
        if holds_back && !self.is_complete() {
            return None;
        }
        let chunk = match self.dialect {
            Dialect::LlamaServer => self.llama_chunk()?,
            Dialect::Vllm => self.vllm_chunk(),
            Dialect::Sglang => self.sglang_chunk(),
        };
        self.sent = self.steps.len();
        Some(chunk)
    }

    fn llama(&self, step: &Decoded) -> Value {
        let top: Vec<Value> = step
            .top
            .iter()
            .map(|(id, logprob)| json!({"id": id, "token": "x", "logprob": logprob}))
            .collect();
        json!({"id": step.token, "token": "x", "logprob": step.logprob, "top_logprobs": top})
    }

    fn llama_chunk(&self) -> Option<Value> {
        let new = &self.steps[self.sent..];
        let (told, text) = match self.fault {
            Fault::Characters { .. } if new[new.len() - 1].token % 10 == 7 => return None,
            Fault::Characters { told } => {
                let words: Vec<String> = new.iter().map(|step| step.token.to_string()).collect();
                (&new[new.len() - 1..], if told { words.join(" ") } else { "?".to_owned() })
            }
            _ => (new, String::new()),
        };
        let tokens: Vec<u32> = told.iter().map(|step| step.token).collect();
        let reported: Vec<Value> = told.iter().map(|step| self.llama(step)).collect();
        let name = if self.fault == Fault::NoIds { "nothing" } else { "tokens" };
        Some(json!({"content": text, name: tokens, "stop": false, "tokens_predicted": self.steps.len(),
                    "completion_probabilities": reported}))
    }

    fn vllm_chunk(&self) -> Value {
        let new = &self.steps[self.sent..];
        let tokens: Vec<u32> = new.iter().map(|step| step.token).collect();
        let own: Vec<f64> = new.iter().map(|step| step.logprob).collect();
        let key = |(id, logprob): &(u32, f64)| (format!("token_id:{id}"), json!(logprob));
        let map = |step: &Decoded| -> serde_json::Map<String, Value> {
            step.top.iter().chain([&(step.token, step.logprob)]).map(key).collect()
        };
        let top: Vec<_> = new.iter().map(map).collect();
        json!({"choices": [{"text": "", "token_ids": tokens, "finish_reason": self.is_complete().then_some("stop"),
                            "logprobs": {"token_logprobs": own, "top_logprobs": top}}]})
    }

    fn sglang_chunk(&self) -> Value {
        let scale = if self.ask.temperature > 0.0 { self.ask.temperature } else { 1.0 };
        let entry = |(id, logprob): &(u32, f64)| json!([logprob / scale, id, null]);
        let own: Vec<Value> = self.steps.iter().map(|step| entry(&(step.token, step.logprob))).collect();
        let top: Vec<Vec<Value>> =
            self.steps.iter().map(|step| step.top.iter().map(entry).collect()).collect();
        let finish = self.is_complete().then(|| json!({"type": "stop"}));
        json!({"text": "", "meta_info": {"completion_tokens": self.steps.len(), "cached_tokens": self.cached,
               "finish_reason": finish, "output_token_logprobs": own, "output_top_logprobs": top}})
    }

    fn goodbye(&self) -> String {
        let last = json!({"content": "", "tokens": [], "stop": true, "tokens_predicted": self.steps.len(),
                          "timings": {"cache_n": self.ask.prompt.len() - 1}});
        match self.dialect {
            Dialect::LlamaServer => format!("data: {last}\n\n"),
            _ => "data: [DONE]\n\n".to_owned(),
        }
    }
}
