//! Which servers to decode on.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use eager_remote::{Dialect, Options, Patience, RemoteEngine};

use super::number::at_least_one;
use crate::Usage;

/// Which servers to decode on.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Server")]
pub struct RemoteArgs {
    /// Decode on this llama-server, vLLM or SGLang, not here; give several, or a file with one address a line, to share the
    /// work. With --model, the tokenizer is read from there, else the server is asked
    #[arg(long, value_name = "URL|FILE")]
    pub url: Vec<String>,
    /// The key that the servers want
    #[arg(long, env = "EAGER_API_KEY", hide_env_values = true, value_name = "KEY")]
    pub api_key: Option<String>,
    /// The model, where a server has several
    #[arg(long, value_name = "NAME")]
    pub served_model: Option<String>,
    /// llama-server, vllm or sglang, for a server that hides what it is
    #[arg(long)]
    pub dialect: Option<Dialect>,
    /// Most sequences decoded at a time on one server [default: as many as it says]
    #[arg(long, value_parser = at_least_one)]
    pub streams: Option<usize>,
    /// Seconds without any token after which a server is given up
    #[arg(long, default_value_t = 180, value_parser = clap::value_parser!(u64).range(1..=86_400), value_name = "SECONDS")]
    pub give_up: u64,
}

impl RemoteArgs {
    /// The servers that were asked for, if any were.
    pub fn connect(&self) -> anyhow::Result<Option<RemoteEngine>> {
        if self.url.is_empty() {
            return match self.named_in_vain() {
                Some(option) => Err(Usage(format!("{option} is about a server: name it with --url")).into()),
                None => Ok(None),
            };
        }
        Ok(Some(RemoteEngine::connect_all(&self.addresses()?, &self.options())?))
    }

    /// Where the servers are.
    pub fn addresses(&self) -> anyhow::Result<Vec<String>> {
        let mut urls = Vec::new();
        for given in &self.url {
            urls.extend(addresses(given)?);
        }
        Ok(urls)
    }

    pub fn options(&self) -> Options {
        Options {
            dialect: self.dialect,
            // An empty variable is how shells say none.
            api_key: self.api_key.clone().filter(|key| !key.is_empty()),
            model: self.served_model.clone(),
            streams: self.streams,
            patience: Patience { give_up: Duration::from_secs(self.give_up), ..Patience::default() },
        }
    }

    fn named_in_vain(&self) -> Option<&'static str> {
        let named = [
            (self.served_model.is_some(), "--served-model"),
            (self.dialect.is_some(), "--dialect"),
            (self.streams.is_some(), "--streams"),
        ];
        named.into_iter().find(|(given, _)| *given).map(|(_, option)| option)
    }
}

/// An address, or those in a file: one a line, where `#` begins a remark.
fn addresses(given: &str) -> anyhow::Result<Vec<String>> {
    let path = Path::new(given);
    if given.contains("://") || !path.is_file() {
        return Ok(vec![given.to_owned()]);
    }
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {given}"))?;
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    let found: Vec<String> = lines.filter(|line| !line.is_empty()).map(str::to_owned).collect();
    if found.is_empty() {
        return Err(Usage(format!("{given} names no server; write one address a line")).into());
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_an_address_a_line() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("fleet");
        std::fs::write(&file, "# two of them\nhttp://one:8000\n\n  http://two:8000  # the new one\n")
            .unwrap();
        assert_eq!(addresses(file.to_str().unwrap()).unwrap(), ["http://one:8000", "http://two:8000"]);
        assert_eq!(addresses("http://one:8000").unwrap(), ["http://one:8000"]);
        std::fs::write(&file, "# nobody\n").unwrap();
        assert!(addresses(file.to_str().unwrap()).unwrap_err().is::<Usage>());
    }
}
