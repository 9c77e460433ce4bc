//! Requests that mean no good, or no longer make sense: refused cheaply, while others are served on.

use std::time::{Duration, Instant};

use eager_serve::{Limits, Options};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::service::{EASY, Service, chat};

const CHAT: &str = "/v1/chat/completions";

/// A chat's body with one more field, written as it is.
fn with(field: &str) -> Vec<u8> {
    format!(r#"{{"messages":[{{"role":"user","content":"hi"}}],"max_tokens":2,{field}}}"#).into_bytes()
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_with_a_reason() {
    let service = Service::start();
    let deep = |open: &str, close: &str| [open.repeat(100_000), close.repeat(100_000)].concat().into_bytes();
    let long = "a ".repeat(500_000);
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("nothing", b"".to_vec()),
        ("no JSON", b"hello".to_vec()),
        ("half of it", b"{\"messages\":[".to_vec()),
        ("another type", b"[1,2,3]".to_vec()),
        ("null", b"null".to_vec()),
        ("no messages", b"{}".to_vec()),
        ("empty messages", b"{\"messages\":[]}".to_vec()),
        ("a message without a role", b"{\"messages\":[{}]}".to_vec()),
        ("an image", br#"{"messages":[{"role":"user","content":[{"type":"image_url"}]}]}"#.to_vec()),
        ("deep lists", deep("[", "]")),
        ("deep objects", deep("{\"a\":", "}")),
        ("deep messages", format!("{{\"messages\":{}", "[".repeat(100_000)).into_bytes()),
        ("invalid UTF-8", b"{\"messages\":[{\"role\":\"user\",\"content\":\"\xff\xfe\"}]}".to_vec()),
        ("half a surrogate", br#"{"messages":[{"role":"user","content":"\ud800"}]}"#.to_vec()),
        ("n = 10^9", with(r#""n":1000000000"#)),
        ("n = 10^30", with(r#""n":1000000000000000000000000000000"#)),
        ("n = 0", with(r#""n":0"#)),
        ("n = -1", with(r#""n":-1"#)),
        ("n = 1.5", with(r#""n":1.5"#)),
        ("n as text", with(r#""n":"8""#)),
        ("temperature = -1", with(r#""temperature":-1"#)),
        ("temperature = NaN", with(r#""temperature":NaN"#)),
        ("temperature = Infinity", with(r#""temperature":Infinity"#)),
        ("temperature = 1e999", with(r#""temperature":1e999"#)),
        ("temperature = 2.1", with(r#""temperature":2.1"#)),
        ("top_p = 0", with(r#""top_p":0"#)),
        ("top_p = 1.1", with(r#""top_p":1.1"#)),
        ("max_completion_tokens = 0", with(r#""max_completion_tokens":0"#)),
        ("max_completion_tokens = -5", with(r#""max_completion_tokens":-5"#)),
        ("more tokens than the context", with(r#""max_completion_tokens":9223372036854775807"#)),
        ("five stop strings", with(r#""stop":["1","2","3","4","5"]"#)),
        ("an empty stop string", with(r#""stop":"""#)),
        ("stop of numbers", with(r#""stop":[1]"#)),
        ("a seed too large", with(r#""seed":1e40"#)),
        ("top_logprobs = 21", with(r#""logprobs":true,"top_logprobs":21"#)),
        ("top_logprobs alone", with(r#""top_logprobs":2"#)),
        ("tools", with(r#""tools":[{"type":"function"}]"#)),
        ("JSON mode", with(r#""response_format":{"type":"json_object"}"#)),
        ("a penalty that is none", with(r#""frequency_penalty":"high""#)),
        ("a penalty beyond reason", with(r#""frequency_penalty":1e300"#)),
        ("an unknown method", with(r#""eager":{"method":"magic"}"#)),
        ("theta that nothing reaches", with(r#""eager":{"theta":3.5}"#)),
        ("theta = -1", with(r#""eager":{"theta":-1}"#)),
        ("eager without the answer", with(r#""eager":{"method":"eager"}"#)),
        ("until-right without the answer", with(r#""eager":{"method":"until-right"}"#)),
        ("a second pass of none", with(r#""eager":{"method":"esc","reallocation":"rerun"}"#)),
        ("a misspelt field", with(r#""eager":{"thata":1}"#)),
        ("a prompt beyond the context", chat(&long, json!({})).to_string().into_bytes()),
    ];
    for (name, body) in cases {
        let begun = Instant::now();
        let request = service.client.post(service.url(CHAT)).header("content-type", "application/json");
        let response = request.body(body).send().await.unwrap();
        assert_eq!(response.status(), 400, "{name}");
        let error: Value = response.json().await.unwrap();
        let message = error["error"]["message"].as_str().unwrap();
        assert!(!message.is_empty() && message.len() < 1000, "{name}: {message}");
        assert_eq!(error["error"]["type"], "invalid_request_error");
        assert!(begun.elapsed() < Duration::from_secs(5), "{name} took {:?}", begun.elapsed());
    }
    let completions = [
        json!({}),
        json!({"prompt": []}),
        json!({"prompt": [[]]}),
        json!({"prompt": ""}),
        json!({"prompt": [99_999]}),
        json!({"prompt": [-1]}),
        json!({"prompt": ["a", 1]}),
        json!({"prompt": "a", "echo": true}),
        json!({"prompt": vec!["a"; 65]}),
        json!({"prompt": "a", "logprobs": 21}),
        json!({"prompt": "a", "best_of": 3}),
    ];
    for body in completions {
        assert_eq!(service.post("/v1/completions", &body).await.status(), 400, "{body}");
    }
    assert_eq!(service.get("/nothing").await.status(), 404);
    assert_eq!(service.get("/page/../Cargo.toml").await.status(), 404);
    assert_eq!(service.get("/v1/chat/completions").await.status(), 405);
    service.ask(CHAT, &chat(EASY, json!({"max_tokens": 3}))).await;
}

/// Sends bytes as they are and reads what comes back, until the other side closes or says nothing more.
async fn raw(service: &Service, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(service.address).await.unwrap();
    // The server may close before it has read everything.
    let _ = stream.write_all(bytes).await;
    let mut answer = Vec::new();
    let _ = tokio::time::timeout(Duration::from_secs(5), stream.read_to_end(&mut answer)).await;
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn what_is_too_large_is_not_read() {
    let service = Service::start();
    let head = format!("POST {CHAT} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n");
    let begun = Instant::now();
    let announced = format!("{head}content-length: 104857600\r\n\r\n{{");
    assert!(raw(&service, announced.as_bytes()).await.starts_with("HTTP/1.1 413"));
    // One that does not say how long it is.
    let mut chunked = format!("{head}transfer-encoding: chunked\r\n\r\n").into_bytes();
    let chunk = [format!("{:x}\r\n", 1 << 16).into_bytes(), vec![b' '; 1 << 16], b"\r\n".to_vec()].concat();
    (0..64).for_each(|_| chunked.extend_from_slice(&chunk));
    assert!(raw(&service, &chunked).await.starts_with("HTTP/1.1 413"));
    let lies = format!("{head}content-length: 99999999999999999999999\r\n\r\n");
    assert!(raw(&service, lies.as_bytes()).await.starts_with("HTTP/1.1 400"));
    let headers = format!("GET / HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n", "y".repeat(1 << 20));
    assert!(raw(&service, headers.as_bytes()).await.starts_with("HTTP/1.1 431"));
    let garbage: Vec<u8> = (0..4096u32).map(|i| (i * 7 + i / 256) as u8).collect();
    let answer = raw(&service, &garbage).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400"), "{answer}");
    println!("all refused within {:?}", begun.elapsed());
    assert_eq!(service.get("/healthz").await.status(), 200);
}

#[tokio::test]
async fn slow_clients_are_not_waited_for() {
    let limits = Limits { patience: Duration::from_millis(600), ..Limits::default() };
    let service = Service::with(Options { limits, ..Options::default() });
    let head = format!(
        "POST {CHAT} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n"
    );
    let slow = |text: String| {
        let address = service.address;
        async move {
            let mut stream = TcpStream::connect(address).await.unwrap();
            let begun = Instant::now();
            for byte in text.bytes() {
                if stream.write_all(&[byte]).await.is_err() {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
                // Closed, or told that it took too long?
                let mut some = [0; 16];
                match tokio::time::timeout(Duration::from_millis(1), stream.read(&mut some)).await {
                    Ok(Ok(0) | Err(_)) => break,
                    Ok(Ok(_)) => break,
                    Err(_) => {}
                }
            }
            begun.elapsed()
        }
    };
    let heads = (0..50).map(|_| {
        tokio::spawn(slow("GET / HTTP/1.1\r\nhost: localhost\r\nx: yyyyyyyyyyyyyyyyyyyy".to_owned()))
    });
    let heads: Vec<_> = heads.collect();
    assert_eq!(service.get("/healthz").await.status(), 200);
    service.ask(CHAT, &chat(EASY, json!({"max_tokens": 3}))).await;
    for elapsed in heads {
        let elapsed = elapsed.await.unwrap();
        assert!(elapsed < Duration::from_secs(3), "a slow head was waited for {elapsed:?}");
    }
    let mut stream = TcpStream::connect(service.address).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(b"{\"mess").await.unwrap();
    let mut answer = [0; 12];
    tokio::time::timeout(Duration::from_secs(3), stream.read_exact(&mut answer)).await.unwrap().unwrap();
    assert_eq!(&answer, b"HTTP/1.1 408");
    service.until("eager_connections", |open| open <= 3).await;
}

#[tokio::test]
async fn idle_connections_make_room_for_those_that_ask() {
    let limits = Limits { connections: 64, patience: Duration::from_secs(60), ..Limits::default() };
    let service = Service::with(Options { limits, ..Options::default() });
    let busy = chat(EASY, json!({"n": 32, "eager": {"method": "full-parallel"}}));
    let busy = tokio::spawn(service.client.post(service.url(CHAT)).json(&busy).send());
    service.until("eager_prompts_growing", |growing| growing == 1).await;
    let mut idle = Vec::new();
    for _ in 0..400 {
        idle.push(TcpStream::connect(service.address).await.unwrap());
    }
    for _ in 0..20 {
        let begun = Instant::now();
        let fresh = reqwest::Client::builder().no_proxy().build().unwrap();
        assert_eq!(fresh.get(service.url("/healthz")).send().await.unwrap().status(), 200);
        assert!(begun.elapsed() < Duration::from_secs(1));
    }
    assert!(service.metric("eager_connections").await <= 64);
    assert!(service.metric("eager_connections_evicted_total").await >= 336);
    assert_eq!(busy.await.unwrap().unwrap().status(), 200, "a request under way is not disturbed");
}

#[tokio::test]
async fn an_answer_that_nobody_reads_is_not_kept_for_ever() {
    let short = Duration::from_millis(500);
    let service = Service::with(Options {
        limits: Limits { time: short, patience: short, ..Limits::default() },
        ..Options::default()
    });
    let body = json!({"prompt": vec!["1+1="; 64], "n": 8, "logprobs": 20, "stream": true, "temperature": 2,
        "eager": {"method": "full-parallel"}});
    let body = body.to_string();
    let head = "POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";
    let mut stream = TcpStream::connect(service.address).await.unwrap();
    let request = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
    stream.write_all(request.as_bytes()).await.unwrap();
    service.until("eager_prompts_growing", |growing| growing > 0).await;
    service.until("eager_prompts_growing", |growing| growing == 0).await;
    // This test's own connection stays.
    service.until("eager_connections", |open| open <= 1).await;
}
