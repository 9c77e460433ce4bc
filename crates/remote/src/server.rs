//! One server: its address, what it is, and what it can do.

use std::time::Duration;

use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Client, Response, StatusCode, Url};
use serde_json::Value;
use tokio::time::timeout;

use crate::dialect::{Dialect, complaint, llama};
use crate::engine::Options;
use crate::error::RemoteError;
use crate::patience::Patience;

/// Streams at a time where the server does not say how many it serves together.
const STREAMS: usize = 256;

#[derive(Debug)]
pub(crate) struct Server {
    pub url: String,
    client: Client,
    pub dialect: Dialect,
    pub model: String,
    /// Most tokens of a sequence with its prompt, where the server says so.
    pub context: Option<usize>,
    /// Sequences that it decodes together.
    pub streams: usize,
    /// Slots that can be saved, restored and chosen; 0 where they cannot.
    pub seats: usize,
    pub patience: Patience,
}

/// When a fork's request finds what its parent's has generated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PrefixSharing {
    /// While the parent is being decoded (vLLM, in whole blocks); or never.
    Live,
    /// Once the parent's slot is idle and has been copied (llama-server).
    Copied,
    /// Once the parent's request has ended (SGLang).
    Ended,
}

/// What a server says about itself.
#[derive(Debug, Default, PartialEq)]
struct About {
    dialect: Option<Dialect>,
    models: Vec<String>,
    context: Option<usize>,
    streams: Option<usize>,
}

impl Server {
    /// Finds out what is at this address, or says in one sentence why it cannot be used.
    pub async fn connect(url: &str, options: &Options) -> Result<Self, RemoteError> {
        let url = base(url)?;
        let client = client(&url, options)?;
        let limit = options.patience.connect;
        let silent = || RemoteError::Silent { url: url.clone(), seconds: limit.as_secs() };
        let about = timeout(limit, ask_about(&client, &url)).await.map_err(|_| silent())??;
        let dialect = options.dialect.or(about.dialect);
        let dialect = dialect.ok_or_else(|| RemoteError::NotAnLlm { url: url.clone() })?;
        let model = match &options.model {
            Some(model) if !about.models.is_empty() && !about.models.contains(model) => {
                return Err(RemoteError::NoSuchModel { url, model: model.clone(), models: about.models });
            }
            Some(model) => model.clone(),
            None => about.models.into_iter().next().unwrap_or_default(),
        };
        let slots = about.streams.filter(|_| dialect == Dialect::LlamaServer).unwrap_or(0);
        let seats = match slots > 0 && can_save_slots(&client, &url).await {
            true => slots,
            false => 0,
        };
        let streams = options.streams.or(about.streams).unwrap_or(STREAMS).max(1);
        Ok(Server {
            url,
            client,
            dialect,
            model,
            context: about.context,
            streams,
            seats,
            patience: options.patience,
        })
    }

    pub fn sharing(&self) -> PrefixSharing {
        match self.dialect {
            Dialect::LlamaServer if self.seats > 0 => PrefixSharing::Copied,
            Dialect::LlamaServer | Dialect::Vllm => PrefixSharing::Live,
            Dialect::Sglang => PrefixSharing::Ended,
        }
    }

    /// Sends a request. Only the answer's head is waited for.
    pub async fn post(&self, path: &str, body: String) -> Result<Response, reqwest::Error> {
        self.client
            .post(format!("{}{path}", self.url))
            .header(CONTENT_TYPE, "application/json")
            .body(body)
            .send()
            .await
    }

    /// A request whose answer is short.
    pub async fn short(&self, path: &str, body: String) -> Result<(StatusCode, Vec<u8>), reqwest::Error> {
        let request = self.client.post(format!("{}{path}", self.url)).timeout(self.patience.stall);
        let response = request.header(CONTENT_TYPE, "application/json").body(body).send().await?;
        let status = response.status();
        Ok((status, response.bytes().await?.to_vec()))
    }

    /// Gives other slots what one has computed. Says nothing when it fails: the server will do without.
    pub async fn copy_slot(&self, from: usize, to: &[usize]) {
        let (path, body) = llama::slot("save", from, from);
        if self.short(&path, body).await.is_ok_and(|(status, _)| status.is_success()) {
            for &seat in to {
                let (path, body) = llama::slot("restore", seat, from);
                drop(self.short(&path, body).await);
            }
        }
    }

    /// A page in JSON, if there is such a page.
    pub async fn page(&self, path: &str) -> Result<Option<Value>, RemoteError> {
        page(&self.client, &self.url, path).await
    }

    /// How many requests it is working on, where it shows that.
    pub async fn running(&self) -> Option<usize> {
        match self.dialect {
            Dialect::LlamaServer => {
                let slots = self.page("/slots").await.ok()??;
                let busy = |slot: &&Value| slot.get("is_processing").and_then(Value::as_bool) == Some(true);
                Some(slots.as_array()?.iter().filter(busy).count())
            }
            Dialect::Vllm => {
                let response = self.client.get(format!("{}/metrics", self.url)).send().await.ok()?;
                gauge(&response.text().await.ok()?, "vllm:num_requests_running")
            }
            Dialect::Sglang => None,
        }
    }

    /// Does it answer at all? What it answers does not matter: a server that is loading its model is there.
    pub async fn is_alive(&self) -> bool {
        self.health().await.is_some()
    }

    /// Is it ready for requests?
    pub async fn is_well(&self) -> bool {
        self.health().await.is_some_and(|status| status.is_success())
    }

    async fn health(&self) -> Option<StatusCode> {
        let health = self.client.get(format!("{}/health", self.url)).timeout(self.patience.connect);
        health.send().await.ok().map(|response| response.status())
    }
}

/// The address without what people copy along with it.
fn base(url: &str) -> Result<String, RemoteError> {
    let wrong = |reason: &str| RemoteError::Url { url: url.to_owned(), reason: reason.to_owned() };
    let parsed = Url::parse(url).map_err(|error| wrong(&error.to_string()))?;
    if !matches!(parsed.scheme(), "http" | "https") {
        return Err(wrong("it does not begin with http:// or https://"));
    }
    let trimmed = url.trim_end_matches('/');
    Ok(trimmed.strip_suffix("/v1").unwrap_or(trimmed).to_owned())
}

fn client(url: &str, options: &Options) -> Result<Client, RemoteError> {
    let setup = |reason: String| RemoteError::Setup { reason };
    // Whoever comes second finds it installed, which is just as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut headers = HeaderMap::new();
    if let Some(key) = &options.api_key {
        let mut value = HeaderValue::from_str(&format!("Bearer {key}"))
            .map_err(|_| setup("the API key has characters that no header can carry".to_owned()))?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    let mut builder = Client::builder()
        .default_headers(headers)
        .connect_timeout(options.patience.connect)
        .tcp_nodelay(true)
        // A server closes a connection that idles, now and then at the very moment when it is used again (llama-server
        // does). A new connection costs less than a request that is lost.
        .pool_max_idle_per_host(0);
    let local =
        Url::parse(url).is_ok_and(|url| matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]")));
    if local {
        // No proxy knows the way to this machine.
        builder = builder.no_proxy();
    }
    builder.build().map_err(|error| setup(error.to_string()))
}

/// Tries the page that only one kind of server has, one after the other.
async fn ask_about(client: &Client, url: &str) -> Result<About, RemoteError> {
    if let Some(props) = page(client, url, "/props").await?
        && let Some(about) = about_llama(&props)
    {
        return Ok(about);
    }
    let sglang = page(client, url, "/get_model_info").await?;
    let models = page(client, url, "/v1/models").await?;
    Ok(openai(&models.unwrap_or_default(), sglang.as_ref()))
}

/// Can this llama-server save slots? One that can finds fault with the action, one that cannot with being asked at all.
async fn can_save_slots(client: &Client, url: &str) -> bool {
    let request = client.post(format!("{url}/slots/0?action=none")).header(CONTENT_TYPE, "application/json");
    let answer = timeout(Duration::from_secs(1), request.body("{}").send()).await;
    matches!(answer, Ok(Ok(response)) if response.status() == StatusCode::BAD_REQUEST)
}

/// A page in JSON, if there is such a page.
async fn page(client: &Client, url: &str, path: &str) -> Result<Option<Value>, RemoteError> {
    let unreachable = |error: reqwest::Error| {
        let (url, reason) = (url.to_owned(), cause(&error));
        match reason.contains("certificate") {
            true => RemoteError::Certificate { url, reason },
            false => RemoteError::Unreachable { url, reason },
        }
    };
    let response = client.get(format!("{url}{path}")).send().await.map_err(unreachable)?;
    match response.status() {
        status @ (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => {
            Err(RemoteError::Key { url: url.to_owned(), status: status.as_u16() })
        }
        StatusCode::SERVICE_UNAVAILABLE => {
            let body = response.bytes().await.map_err(unreachable)?;
            let reason = complaint(&body).unwrap_or_else(|| "it answered 503".to_owned());
            Err(RemoteError::NotReady { url: url.to_owned(), reason })
        }
        status if status.is_success() => {
            let body = response.bytes().await.map_err(unreachable)?;
            Ok(serde_json::from_slice(&body).ok())
        }
        _ => Ok(None),
    }
}

/// What lies at the bottom of an error: "connection refused", not "error sending request".
pub(crate) fn cause(error: &dyn std::error::Error) -> String {
    std::iter::successors(Some(error), |e| e.source()).last().unwrap_or(error).to_string()
}

/// The value of a Prometheus gauge, over all its labels.
fn gauge(metrics: &str, name: &str) -> Option<usize> {
    let lines = metrics.lines().filter(|line| line.starts_with(name));
    let values: Option<Vec<f64>> = lines.map(|line| line.rsplit(' ').next()?.parse().ok()).collect();
    values.filter(|values| !values.is_empty()).map(|values| values.iter().sum::<f64>() as usize)
}

fn number(value: &Value, pointer: &str) -> Option<usize> {
    value.pointer(pointer)?.as_u64().and_then(|number| number.try_into().ok())
}

fn about_llama(props: &Value) -> Option<About> {
    props.get("default_generation_settings")?;
    let name = props.get("model_alias").or(props.get("model_path")).and_then(Value::as_str);
    Some(About {
        dialect: Some(Dialect::LlamaServer),
        models: name.into_iter().map(str::to_owned).collect(),
        // Of one slot: a sequence cannot have more.
        context: number(props, "/default_generation_settings/n_ctx"),
        streams: number(props, "/total_slots"),
    })
}

fn openai(models: &Value, sglang: Option<&Value>) -> About {
    let listed = models.get("data").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let names = listed.iter().filter_map(|model| model.get("id")?.as_str()).map(str::to_owned).collect();
    let first = listed.first().unwrap_or(&Value::Null);
    let owner = first.get("owned_by").and_then(Value::as_str);
    let is_sglang = owner == Some("sglang") || sglang.is_some_and(|info| info.get("model_path").is_some());
    let dialect = match owner {
        _ if is_sglang => Some(Dialect::Sglang),
        Some("vllm") => Some(Dialect::Vllm),
        _ => None,
    };
    About { dialect, models: names, context: number(first, "/max_model_len"), streams: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn addresses_are_taken_as_people_copy_them() {
        let cases = [
            ("http://localhost:8080", Some("http://localhost:8080")),
            ("http://localhost:8080/", Some("http://localhost:8080")),
            ("https://llm.example/v1/", Some("https://llm.example")),
            ("https://example.org/llm/v1", Some("https://example.org/llm")),
            ("localhost:8080", None),
            ("not an address", None),
        ];
        for (url, expected) in cases {
            assert_eq!(base(url).ok().as_deref(), expected, "{url}");
        }
    }

    #[test]
    fn servers_are_told_apart_by_what_they_say() {
        let props =
            json!({"default_generation_settings": {"n_ctx": 1024}, "total_slots": 4, "model_alias": "acorn"});
        let about = about_llama(&props).unwrap();
        assert_eq!(
            (about.dialect, about.context, about.streams),
            (Some(Dialect::LlamaServer), Some(1024), Some(4))
        );
        let list = |owner: &str| json!({"data": [{"id": "m", "owned_by": owner, "max_model_len": 4096}]});
        let info = json!({"model_path": "m"});
        let cases = [
            (list("vllm"), None, Some(Dialect::Vllm)),
            (list("sglang"), None, Some(Dialect::Sglang)),
            (list("somebody"), Some(&info), Some(Dialect::Sglang)),
            (list("somebody"), None, None),
            (json!({"hello": "world"}), None, None),
            (Value::Null, None, None),
        ];
        for (models, info, expected) in cases {
            assert_eq!(openai(&models, info).dialect, expected, "{models}");
        }
        assert_eq!(openai(&list("vllm"), None).context, Some(4096));
    }
}
