//! Who may ask, and how much.
//!
//! The file holds no keys, only their SHA-256: whoever reads it cannot use them. One line a client:
//!
//! ```text
//! # name  sha256 of the key                                                  limits
//! alice   5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8   n=16 requests=4 tokens-per-minute=100000
//! ```
//!
//! `n` is the highest n, `requests` how many may be under way at a time, and `tokens-per-minute` how many tokens may be
//! decoded; what is not named is not limited beyond the server's own limits.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};

/// The clients that are known.
#[derive(Debug, Clone, Default)]
pub struct Keys {
    clients: Arc<[Arc<Client>]>,
}

/// A client with a key.
#[derive(Debug)]
pub struct Client {
    pub name: Arc<str>,
    hash: [u8; 32],
    pub allowance: Allowance,
    use_: Mutex<Use>,
}

/// What a client may do; `None` is as much as anybody.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Allowance {
    pub n: Option<usize>,
    pub requests: Option<usize>,
    pub tokens_per_minute: Option<usize>,
}

#[derive(Debug)]
struct Use {
    requests: usize,
    /// Tokens that may still be decoded. Less than nothing after a request that took more than there was.
    tokens: f64,
    counted: Instant,
}

/// What can be wrong with a file of keys.
#[derive(Debug, thiserror::Error)]
pub enum KeysError {
    #[error("cannot read {path}: {error}")]
    Io { path: String, error: std::io::Error },
    #[error(
        "line {line} of {path}: {why}; a line is a name, the SHA-256 of the key, and limits such as n=16"
    )]
    Line { path: String, line: usize, why: String },
    #[error("{path} has no keys, so nobody could ask anything; add one, or leave out --keys")]
    Empty { path: String },
}

/// Why a client has to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exceeded {
    Requests(usize),
    /// With the seconds until there are tokens again.
    Tokens(u32),
}

impl Keys {
    pub fn read(path: &Path) -> Result<Self, KeysError> {
        let shown = path.display().to_string();
        let text =
            std::fs::read_to_string(path).map_err(|error| KeysError::Io { path: shown.clone(), error })?;
        Keys::parse(&text, &shown)
    }

    /// Reads the text of a file; `path` is its name in errors.
    pub fn parse(text: &str, path: &str) -> Result<Self, KeysError> {
        let mut clients: HashMap<Arc<str>, Arc<Client>> = HashMap::new();
        for (at, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let wrong = |why: String| KeysError::Line { path: path.to_owned(), line: at + 1, why };
            let client = Client::parse(line).map_err(wrong)?;
            if clients.contains_key(&client.name) {
                return Err(wrong(format!("there is another {}", client.name)));
            }
            clients.insert(Arc::clone(&client.name), Arc::new(client));
        }
        if clients.is_empty() {
            return Err(KeysError::Empty { path: path.to_owned() });
        }
        Ok(Keys { clients: clients.into_values().collect() })
    }

    /// The client whose key this is. All keys are looked at, whichever it is, so that time tells nothing.
    pub fn client(&self, key: &str) -> Option<Arc<Client>> {
        let hash: [u8; 32] = Sha256::digest(key.as_bytes()).into();
        let mut found = None;
        for client in self.clients.iter() {
            let same: Choice = client.hash.ct_eq(&hash);
            if bool::from(same) {
                found = Some(Arc::clone(client));
            }
        }
        found
    }
}

impl Client {
    fn parse(line: &str) -> Result<Self, String> {
        let mut words = line.split_whitespace();
        let name = words.next().ok_or("the name is missing")?;
        let hash = words.next().ok_or("the hash is missing")?;
        let hash = unhex(hash).ok_or_else(|| format!("'{hash}' is not 64 hexadecimal digits"))?;
        let mut allowance = Allowance::default();
        for word in words {
            let (what, number) = word.split_once('=').ok_or_else(|| format!("'{word}' is no limit"))?;
            let number = number.parse().map_err(|_| format!("'{number}' is not a whole number"))?;
            match what {
                "n" => allowance.n = Some(number),
                "requests" => allowance.requests = Some(number),
                "tokens-per-minute" => allowance.tokens_per_minute = Some(number),
                _ => return Err(format!("there is no limit '{what}'")),
            }
        }
        let tokens = allowance.tokens_per_minute.unwrap_or(0) as f64;
        let use_ = Mutex::new(Use { requests: 0, tokens, counted: Instant::now() });
        Ok(Client { name: name.into(), hash, allowance, use_ })
    }

    /// Lets a request in, if the client has something left.
    pub fn enter(self: &Arc<Self>) -> Result<Visit, Exceeded> {
        let mut use_ = self.use_.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(most) = self.allowance.requests.filter(|&most| use_.requests >= most) {
            return Err(Exceeded::Requests(most));
        }
        if let Some(rate) = self.allowance.tokens_per_minute {
            let (now, rate) = (Instant::now(), rate as f64);
            let earned = now.duration_since(use_.counted).as_secs_f64() * rate / 60.0;
            (use_.tokens, use_.counted) = ((use_.tokens + earned).min(rate), now);
            if use_.tokens <= 0.0 {
                let seconds = (1.0 - use_.tokens) * 60.0 / rate.max(1.0);
                return Err(Exceeded::Tokens(seconds.ceil().clamp(1.0, 3600.0) as u32));
            }
        }
        use_.requests += 1;
        Ok(Visit { client: Arc::clone(self) })
    }
}

/// A client's request under way.
#[derive(Debug)]
pub struct Visit {
    client: Arc<Client>,
}

impl Visit {
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Tokens were decoded for it.
    pub fn charge(&self, tokens: usize) {
        let mut use_ = self.client.use_.lock().unwrap_or_else(PoisonError::into_inner);
        use_.tokens -= tokens as f64;
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.client.use_.lock().unwrap_or_else(PoisonError::into_inner).requests -= 1;
    }
}

fn unhex(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SHA-256 of "password".
    const HASH: &str = "5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8";

    #[test]
    fn a_key_is_known_by_its_hash() {
        let keys = Keys::parse(&format!("# clients\nalice {HASH} n=16 requests=1\n"), "keys").unwrap();
        let alice = keys.client("password").unwrap();
        assert_eq!((&*alice.name, alice.allowance.n), ("alice", Some(16)));
        assert!(keys.client("Password").is_none());
        assert!(keys.client("").is_none());
    }

    #[test]
    fn what_is_wrong_with_a_file() {
        for (text, why) in [
            ("", "no keys"),
            ("alice", "line 1 of keys: the hash is missing"),
            ("alice 12", "64 hexadecimal digits"),
            (&format!("alice {HASH} n=many"), "'many' is not a whole number"),
            (&format!("alice {HASH} speed=1"), "no limit 'speed'"),
            (&format!("alice {HASH}\nalice {HASH}"), "line 2 of keys: there is another alice"),
        ] {
            let error = Keys::parse(text, "keys").unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn requests_and_tokens_run_out() {
        let keys = Keys::parse(&format!("a {HASH} requests=1 tokens-per-minute=60"), "keys").unwrap();
        let client = keys.client("password").unwrap();
        let visit = client.enter().unwrap();
        assert_eq!(client.enter().unwrap_err(), Exceeded::Requests(1));
        visit.charge(90);
        drop(visit);
        // Thirty too many, at one a second.
        let Exceeded::Tokens(seconds) = client.enter().unwrap_err() else { panic!("there is nothing left") };
        assert!((30..=31).contains(&seconds), "{seconds}");
    }
}
