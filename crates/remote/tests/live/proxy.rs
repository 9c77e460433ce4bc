//! Stands between the engine and a server, and notes what is asked. What it counts is not the engine's own word.

use std::io::{BufRead, BufReader, Read, Write, copy};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

pub struct Proxy {
    address: SocketAddr,
    prompts: Arc<Mutex<Vec<Vec<u32>>>>,
}

impl Proxy {
    /// Passes on what comes to it, to the server at this address. Its thread goes on until the program ends.
    pub fn before(url: &str) -> Self {
        let server = url.trim_start_matches("http://").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, prompts) = (listener.local_addr().unwrap(), Arc::<Mutex<Vec<_>>>::default());
        let noted = Arc::clone(&prompts);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (server, noted) = (server.clone(), Arc::clone(&noted));
                // Either side may hang up at any time.
                std::thread::spawn(move || drop(pass_on(client, &server, &noted)));
            }
        });
        Proxy { address, prompts }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The prompts of all requests for tokens so far.
    pub fn prompts(&self) -> Vec<Vec<u32>> {
        self.prompts.lock().unwrap().clone()
    }
}

/// One connection: a request there, an answer back.
fn pass_on(mut client: TcpStream, server: &str, noted: &Mutex<Vec<Vec<u32>>>) -> std::io::Result<()> {
    let (head, body) = request(&mut BufReader::new(client.try_clone()?))?;
    let asked = serde_json::from_slice::<serde_json::Value>(&body).ok();
    if let Some(prompt) = asked.and_then(|asked| serde_json::from_value(asked["prompt"].clone()).ok()) {
        noted.lock().unwrap().push(prompt);
    }
    let mut server = TcpStream::connect(server)?;
    server.set_nodelay(true)?;
    client.set_nodelay(true)?;
    server.write_all(&head)?;
    server.write_all(&body)?;
    let (mut listening, hang_up) = (client.try_clone()?, server.try_clone()?);
    std::thread::spawn(move || {
        // The engine says no more, but when it hangs up the server is to know at once.
        let _ = copy(&mut listening, &mut std::io::sink());
        let _ = hang_up.shutdown(Shutdown::Both);
    });
    let passed = copy(&mut server, &mut client);
    client.shutdown(Shutdown::Both)?;
    passed.map(drop)
}

/// The head of a request with the empty line after it, and its body.
fn request(from: &mut impl BufRead) -> std::io::Result<(Vec<u8>, Vec<u8>)> {
    let (mut head, mut length) = (Vec::new(), 0);
    loop {
        let mut line = String::new();
        if from.read_line(&mut line)? <= 2 {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().unwrap();
        }
        head.extend_from_slice(line.as_bytes());
    }
    // One request a connection, so that the server ends its answer by closing it.
    head.extend_from_slice(b"connection: close\r\n\r\n");
    let mut body = vec![0; length];
    from.read_exact(&mut body)?;
    Ok((head, body))
}

/// A page of the server, without its head.
pub fn page(url: &str, path: &str) -> String {
    let mut server = TcpStream::connect(url.trim_start_matches("http://")).unwrap();
    write!(server, "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    server.read_to_string(&mut answer).unwrap();
    answer.split_once("\r\n\r\n").unwrap().1.to_owned()
}
