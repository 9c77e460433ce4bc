//! The first contact: what is there, or one sentence on why nothing can be done with it.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use eager_remote::{Dialect, Options, RemoteEngine};

use crate::options;
use crate::server::{Fault, Server};

#[test]
fn servers_are_recognised() {
    for dialect in Dialect::ALL {
        let server = Server::start(dialect, |_| Fault::None);
        for url in [server.url(), format!("{}/", server.url()), format!("{}/v1", server.url())] {
            let engine = RemoteEngine::connect(&url, &Options::default()).unwrap();
            assert_eq!(engine.dialect(), dialect);
            assert_eq!((engine.model(), engine.context()), ("made-up", Some(256)));
            assert_eq!(engine.streams(), if dialect == Dialect::LlamaServer { 4 } else { 256 });
        }
    }
}

#[test]
fn the_right_key_opens() {
    let server = Server::with(Some(Dialect::Vllm), Some("sesame"), |_| Fault::None);
    let key = |key: &str| Options { api_key: Some(key.to_owned()), ..options() };
    assert!(RemoteEngine::connect(&server.url(), &key("sesame")).is_ok());
    let error = RemoteEngine::connect(&server.url(), &key("barley")).unwrap_err().to_string();
    assert!(error.contains("wants another API key (it answered 401)"), "{error}");
}

#[test]
fn whatever_else_is_there_is_told_in_a_sentence_within_five_seconds() {
    let cats = Server::with(None, None, |_| Fault::None);
    // Accepts connections, for the kernel does, and never says a word.
    let mute = TcpListener::bind("127.0.0.1:0").unwrap();
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let vllm = Server::start(Dialect::Vllm, |_| Fault::None);
    let other = Options { model: Some("other".to_owned()), ..Options::default() };
    let cases = [
        (cats.url(), Options::default(), "none of llama-server, vLLM and SGLang"),
        (format!("http://{}", mute.local_addr().unwrap()), Options::default(), "did not answer within 5 s"),
        (format!("http://{closed}"), Options::default(), "cannot reach"),
        ("http://no.such.host.invalid".to_owned(), Options::default(), "cannot reach"),
        ("localhost:8000".to_owned(), Options::default(), "is no address of a server"),
        (vllm.url(), other, "serves no model 'other'; it has made-up"),
    ];
    for (url, options, expected) in cases {
        let began = Instant::now();
        let error = RemoteEngine::connect(&url, &options).unwrap_err().to_string();
        assert!(error.contains(expected), "{url}: {error}");
        assert!(!error.contains('\n'), "{error}");
        assert!(began.elapsed() < Duration::from_millis(5500), "{url}: {:?}", began.elapsed());
    }
}
