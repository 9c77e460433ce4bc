//! The way to a server: through a proxy, and encrypted.
//!
//! Both are a matter of the environment, which all tests of a process share. So each of these runs one more process, with
//! an environment of its own, that grows a tree.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use eager_core::Engine;
use eager_remote::{Dialect, RemoteEngine};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::reference::Reference;
use crate::server::{Fault, Server};
use crate::{forking, groves, options};

const URL: &str = "EAGER_TEST_URL";

#[test]
#[ignore = "the other tests run it, in an environment that they make"]
fn a_tree_grows_at_the_url_of_the_environment() {
    let Ok(url) = std::env::var(URL) else { return };
    let mut engine = RemoteEngine::connect(&url, &options()).unwrap_or_else(|error| panic!("{error}"));
    let (mut list, mut reference) = (groves(2, 0.0, forking), groves(2, 0.0, forking));
    engine.grow(&mut list).unwrap();
    Reference.grow(&mut reference).unwrap();
    assert_eq!(list.trees(), reference.trees());
}

/// Has the test above run with this URL and these variables; what it said if it failed.
fn grow(url: &str, variables: &[(&str, &str)]) -> Result<(), String> {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "way::a_tree_grows_at_the_url_of_the_environment", "--ignored", "--nocapture"]);
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR"] {
        child.env_remove(name).env_remove(name.to_lowercase());
    }
    let output = child.env(URL, url).envs(variables.iter().copied()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(said.into_owned());
    }
    assert!(said.contains("1 passed"), "{said}");
    Ok(())
}

/// Listens, and has every connection seen to on a thread of its own.
fn listen(serve: impl Fn(TcpStream) -> std::io::Result<()> + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, serve) = (listener.local_addr().unwrap(), Arc::new(serve));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = Arc::clone(&serve);
            // Whoever hangs up is no failure.
            std::thread::spawn(move || drop(serve(stream)));
        }
    });
    address
}

/// The request on a connection, which the server's answers close: its first line, and all that follows.
fn request(stream: &mut impl Read) -> std::io::Result<(String, Vec<u8>)> {
    let mut reader = BufReader::new(stream);
    let (mut first, mut rest, mut length) = (String::new(), Vec::new(), 0);
    reader.read_line(&mut first)?;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        rest.extend_from_slice(line.as_bytes());
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length: ") {
            length = value.trim().parse().unwrap_or(0);
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    rest.extend(body);
    Ok((first, rest))
}

/// Passes on an answer as it comes.
fn pass_on(mut from: TcpStream, to: &mut impl Write) -> std::io::Result<()> {
    let mut part = [0; 4096];
    loop {
        match from.read(&mut part)? {
            0 => return to.flush(),
            n => to.write_all(&part[..n])?,
        }
        to.flush()?;
    }
}

#[test]
fn a_proxy_is_used_where_the_environment_names_one() {
    let server = Server::start(Dialect::LlamaServer, |_| Fault::None);
    let (upstream, passed) = (server.address, Arc::new(AtomicUsize::new(0)));
    let counter = Arc::clone(&passed);
    let proxy = listen(move |mut stream| {
        let (first, rest) = request(&mut stream)?;
        // A proxy is asked for the whole address.
        let first = first.replace("http://model.invalid", "");
        counter.fetch_add(1, Ordering::Relaxed);
        let mut up = TcpStream::connect(upstream)?;
        up.write_all(first.as_bytes())?;
        up.write_all(&rest)?;
        pass_on(up, &mut stream)
    });
    let proxy = format!("http://{proxy}");
    // Nothing but the proxy knows this name.
    grow("http://model.invalid", &[("HTTP_PROXY", &proxy)]).unwrap();
    let passed_on = passed.load(Ordering::Relaxed);
    assert!(passed_on > 2, "{passed_on} requests");
    grow(&server.url(), &[("HTTP_PROXY", &proxy), ("NO_PROXY", "127.0.0.1")]).unwrap();
    assert_eq!(passed.load(Ordering::Relaxed), passed_on, "it was not to be asked");
    let error = grow("http://model.invalid", &[]).unwrap_err();
    assert!(error.contains("cannot reach http://model.invalid"), "{error}");
}

#[test]
fn a_certificate_is_trusted_where_the_environment_names_its_authority() {
    let server = Server::start(Dialect::Vllm, |_| Fault::None);
    let own = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(own.signing_key.serialize_der()).unwrap();
    let chain = vec![CertificateDer::from(own.cert.der().to_vec())];
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = Arc::new(config.with_no_client_auth().with_single_cert(chain, key).unwrap());
    let upstream = server.address;
    let address = listen(move |stream| {
        let connection = ServerConnection::new(Arc::clone(&config)).map_err(std::io::Error::other)?;
        let mut stream = StreamOwned::new(connection, stream);
        let (first, rest) = request(&mut stream)?;
        let mut up = TcpStream::connect(upstream)?;
        up.write_all(first.as_bytes())?;
        up.write_all(&rest)?;
        pass_on(up, &mut stream)?;
        stream.conn.send_close_notify();
        stream.flush()
    });
    let url = format!("https://localhost:{}", address.port());
    let folder = tempfile::tempdir().unwrap();
    let authority = folder.path().join("authority.pem");
    std::fs::write(&authority, own.cert.pem()).unwrap();
    grow(&url, &[("SSL_CERT_FILE", authority.to_str().unwrap())]).unwrap();
    let error = grow(&url, &[]).unwrap_err();
    assert!(error.contains("cannot be trusted") && error.contains("SSL_CERT_FILE"), "{error}");
}
