//! Routes, and what every request passes on its way to them.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Instant, SystemTime};

use axum::body::{Body, Bytes};
use axum::extract::{Extension, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method as Verb, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use eager_lab::theta::FoundTheta;
use serde_json::json;
use tracing::{Instrument, info, info_span};

use crate::answer::{Heading, Tops, whole};
use crate::connections::{Connections, Peer};
use crate::error::ApiError;
use crate::growth::{Growth, Seed};
use crate::keys::{Client, Exceeded, Visit};
use crate::leaf::{Harvest, plain};
use crate::metrics::Counters;
use crate::model::Model;
use crate::options::Options;
use crate::queue::Queue;
use crate::request::{self, Kind, Vote};
use crate::sse::Outlet;
use crate::watched::Detail;
use crate::{compare, cors, grow, metrics, page, parameters, runs, stream};

/// What all handlers share.
#[derive(Debug)]
pub struct App {
    pub model: Arc<Model>,
    pub options: Options,
    pub queue: Arc<Queue>,
    pub connections: Arc<Connections>,
    pub counters: Arc<Counters>,
    pub created: u64,
}

impl App {
    pub fn new(model: Model, options: Options) -> Self {
        App {
            queue: Queue::new(options.limits.queue, options.width),
            model: Arc::new(model),
            options,
            connections: Arc::default(),
            counters: Arc::default(),
            created: now(),
        }
    }
}

/// Who is asking.
#[derive(Debug, Clone)]
pub struct Who {
    /// What service is shared out by: the key's name, or the connection where there are no keys.
    pub name: Arc<str>,
    client: Option<Arc<Client>>,
}

pub fn router(app: Arc<App>) -> Router {
    let guarded = Router::new()
        .route("/v1/chat/completions", post(chat))
        .route("/v1/completions", post(completions))
        .route("/v1/models", get(models))
        .route("/v1/models/{model}", get(model))
        .route("/eager/grow", post(grow::grow))
        .route("/eager/compare", get(compare::compare))
        .route("/eager/runs", get(runs::list))
        .route("/eager/runs/{run}", get(runs::run))
        .route("/eager/runs/{run}/report", get(runs::report))
        .route("/eager/runs/{run}/problems/{problem}", get(runs::problem))
        .route("/metrics", get(metrics::show))
        .layer(middleware::from_fn_with_state(Arc::clone(&app), identify));
    Router::new()
        .route("/", get(page::index))
        .route("/page/{*path}", get(page::asset))
        .route("/healthz", get(health))
        .route("/readyz", get(ready))
        .route("/openapi.json", get(openapi))
        .merge(guarded)
        .fallback(|| async { ApiError::not_found("there is nothing at this address") })
        .method_not_allowed_fallback(|| async {
            ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "this address does not take this method")
        })
        .layer(middleware::from_fn_with_state(Arc::clone(&app), pass))
        .with_state(app)
}

/// What every request passes: a name for the log, headers that keep browsers careful, a look at the host.
async fn pass(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let begun = Instant::now();
    let id = request_id(request.headers());
    let (verb, path) = (request.method().clone(), request.uri().path().to_owned());
    let span = info_span!("request", %id);
    let origin = cors::allowed(&app.options.cors, request.headers());
    let preflight = origin.as_ref().and_then(|_| cors::preflight(&verb, request.headers()));
    let refused = match request.extensions().get::<ApiError>() {
        Some(error) => Err(error.clone()),
        None => check_host(&app, request.headers()),
    };
    let response = match (refused, preflight) {
        (Err(error), _) => error.into_response(),
        (Ok(()), Some(preflight)) => preflight,
        (Ok(()), None) => next.run(request).instrument(span.clone()).await,
    };
    let status = response.status();
    app.counters.answered(status);
    span.in_scope(|| {
        let ms = begun.elapsed().as_millis() as u64;
        // Whoever asks every second whether we are well is not worth a line each time.
        if status.is_success() && matches!(path.as_str(), "/healthz" | "/readyz" | "/metrics") {
            tracing::debug!(%verb, path, status = status.as_u16(), ms, "answered");
        } else {
            info!(%verb, path, status = status.as_u16(), ms, "answered");
        }
    });
    let mut response = dress(response, &id);
    if !app.options.cors.is_empty() {
        // What is kept for one origin is not for another.
        response.headers_mut().append(header::VARY, HeaderValue::from_static("origin"));
    }
    if let Some(origin) = origin {
        cors::open(&mut response, origin);
    }
    response
}

/// The name that the client gave its request, if it is a decent one, or a new one.
fn request_id(headers: &HeaderMap) -> Arc<str> {
    let decent = |id: &&str| {
        (1..=64).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
    };
    let given = headers.get("x-request-id").and_then(|id| id.to_str().ok()).filter(decent);
    given.map_or_else(|| name("req").into(), Arc::from)
}

/// A name that nothing else has.
pub fn name(what: &str) -> String {
    format!("{what}-{:016x}{:08x}", getrandom::u64().unwrap_or(0), getrandom::u32().unwrap_or(0))
}

/// A page from elsewhere may have its own name lead to this machine, and so read what was meant for its user. Where only
/// this machine may ask and needs no key, the request must be addressed to this machine.
fn check_host(app: &App, headers: &HeaderMap) -> Result<(), ApiError> {
    if app.options.keys.is_some() || !app.options.address.ip().is_loopback() {
        return Ok(());
    }
    let Some(host) = headers.get(header::HOST) else { return Ok(()) };
    let host = host.to_str().unwrap_or_default();
    let name = host.rsplit_once(':').filter(|(_, port)| port.bytes().all(|b| b.is_ascii_digit()));
    let name = name.map_or(host, |(name, _)| name);
    if matches!(name, "localhost" | "127.0.0.1" | "[::1]") {
        return Ok(());
    }
    let message = "this server answers to localhost only; give it --keys to have it reached by another name";
    Err(ApiError::new(StatusCode::MISDIRECTED_REQUEST, message))
}

fn dress(mut response: Response, id: &str) -> Response {
    let headers = response.headers_mut();
    for (name, value) in [
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-resource-policy", "same-origin"),
        ("permissions-policy", "camera=(), geolocation=(), microphone=()"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    let policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                  font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
    // A report brings its own.
    headers.entry("content-security-policy").or_insert(HeaderValue::from_static(policy));
    if let Ok(id) = HeaderValue::from_str(id) {
        headers.insert("x-request-id", id);
    }
    response
}

/// Who is asking? Where there are keys, only those who have one may.
async fn identify(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    if request.method() == Verb::POST && !is_json(request.headers()) {
        // A page from elsewhere can send anything but this without asking first.
        let message = "the body must be JSON; send Content-Type: application/json";
        return ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message).into_response();
    }
    let who = match &app.options.keys {
        None => {
            let peer = request.extensions().get::<Peer>();
            let name = peer.map_or_else(|| "unknown".to_owned(), |Peer(peer)| peer.to_string());
            Who { name: name.into(), client: None }
        }
        Some(keys) => match bearer(request.headers()).and_then(|key| keys.client(key)) {
            Some(client) => Who { name: Arc::clone(&client.name), client: Some(client) },
            None => return unauthorised().into_response(),
        },
    };
    request.extensions_mut().insert(who);
    next.run(request).await
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    kind.eq_ignore_ascii_case("application/json")
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, key) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(key.trim())
}

fn unauthorised() -> ApiError {
    ApiError {
        code: Some("invalid_api_key"),
        ..ApiError::new(
            StatusCode::UNAUTHORIZED,
            "this server needs a key that it knows: Authorization: Bearer KEY",
        )
    }
}

impl Who {
    /// Lets a request in, if its client has something left.
    pub fn enter(&self) -> Result<Option<Visit>, ApiError> {
        let Some(client) = &self.client else { return Ok(None) };
        client.enter().map(Some).map_err(|exceeded| match exceeded {
            Exceeded::Requests(most) => {
                ApiError::busy(&format!("{} may have {most} requests under way at a time", client.name))
            }
            Exceeded::Tokens(seconds) => ApiError {
                retry_after: Some(seconds),
                ..ApiError::busy(&format!("{} has used up its tokens of this minute", client.name))
            },
        })
    }
}

/// A request with everything that is needed to grow it.
#[derive(Debug)]
pub struct Asking {
    pub app: Arc<App>,
    pub who: Who,
    pub body: Bytes,
}

impl Asking {
    /// Reads the request and begins to grow it. `detail` says what is to be told of an answer.
    pub async fn begin(
        self,
        kind: Kind,
        detail: impl Fn(&request::Ask) -> Detail,
    ) -> Result<Growth, ApiError> {
        let Asking { app, who, body } = self;
        if !app.model.is_ready() {
            let why = "the server has just begun and is finding theta, which takes two minutes at most; try again then";
            return Err(ApiError::unavailable(why));
        }
        let visit = who.enter()?;
        let ask = request::Body::parse(&body)?.read(kind, &app.options.limits, &app.options.defaults)?;
        if let Some(most) =
            visit.as_ref().and_then(|visit| visit.client().allowance.n).filter(|&most| ask.n > most)
        {
            return Err(ApiError::bad("n", format!("{} may ask for n up to {most}", who.name)));
        }
        let detail = detail(&ask);
        let reader = Arc::clone(&app);
        // A long text takes a while, and this thread has others to serve.
        let seed = tokio::task::spawn_blocking(move || {
            Seed::new(ask, &reader.model, &reader.options.limits, &reader.options.defaults)
        });
        let seed = seed.await.map_err(|_| ApiError::internal("the prompt could not be read"))??;
        if app.options.log_prompts {
            let texts: Vec<String> = seed.prompts.iter().map(|p| seed.model.words.decode(p)).collect();
            info!(?texts, "prompt");
        }
        info!(client = %who.name, prompts = seed.prompts.len(), prompt_tokens = seed.prompt_tokens(),
            n = seed.ask.n, method = %seed.ask.method, stream = seed.ask.stream, "asked");
        Growth::begin(seed, &app, &who.name, visit, detail)
    }
}

async fn chat(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Who>,
    body: Bytes,
) -> Result<Response, ApiError> {
    complete(Asking { app, who, body }, Kind::Chat).await
}

async fn completions(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Who>,
    body: Bytes,
) -> Result<Response, ApiError> {
    complete(Asking { app, who, body }, Kind::Completion).await
}

async fn complete(asking: Asking, kind: Kind) -> Result<Response, ApiError> {
    let what = if kind == Kind::Chat { "chatcmpl" } else { "cmpl" };
    let heading = Heading { id: name(what), created: now(), model: asking.app.model.name.clone() };
    let detail = |ask: &request::Ask| Detail {
        // A vote is told at the end, and needs only the trees.
        steps: (ask.stream && ask.vote == Vote::All) || ask.logprobs.is_some(),
        top: ask.logprobs.unwrap_or(0),
    };
    let mut growth = asking.begin(kind, detail).await?;
    if growth.seed.ask.stream {
        let (outlet, response) = Outlet::open();
        let ignored = parameters::ignored(&growth.seed.ask.ignored);
        tokio::spawn(stream::tell(growth, heading, outlet).in_current_span());
        return Ok((ignored, response).into_response());
    }
    let mut tops = growth.seed.ask.logprobs.map(|_| Tops::default());
    let heard = |prompt, news| {
        if let Some(tops) = &mut tops {
            tops.hear(prompt, news);
        }
    };
    let trees = growth.finish(heard).await?;
    let (seed, cut) = (Arc::clone(&growth.seed), growth.cut);
    let written = tokio::task::spawn_blocking(move || {
        whole(&seed, &heading, &Harvest::new(&seed, &trees, cut), tops.as_ref())
    });
    let answer = written.await.map_err(|_| ApiError::internal("the answer could not be written"))?;
    Ok((parameters::ignored(&growth.seed.ask.ignored), Json(answer)).into_response())
}

async fn models(State(app): State<Arc<App>>) -> Json<serde_json::Value> {
    Json(json!({"object": "list", "data": [described(&app)]}))
}

async fn model(
    State(app): State<Arc<App>>,
    axum::extract::Path(name): axum::extract::Path<String>,
) -> Result<Json<serde_json::Value>, ApiError> {
    if name != app.model.name {
        let message = format!("there is no model '{name}' here; there is '{}'", app.model.name);
        return Err(ApiError { code: Some("model_not_found"), ..ApiError::not_found(&message) });
    }
    Ok(Json(described(&app)))
}

fn described(app: &App) -> serde_json::Value {
    let model = &app.model;
    let theta = app.options.defaults.theta.unwrap_or_else(|| model.theta(app.options.defaults.method));
    let found = model.found_theta.get().copied().flatten();
    let found = found.map(|FoundTheta { theta, samples, tokens }| {
        json!({"theta": plain(theta), "samples": samples, "tokens": tokens})
    });
    json!({
        "id": app.model.name,
        "object": "model",
        "created": app.created,
        "owned_by": "eager",
        "eager": {
            "context": app.model.context,
            "method": app.options.defaults.method.to_string(),
            "theta": model.is_ready().then(|| plain(theta)),
            "found_theta": found,
            "temperature": plain(app.options.defaults.sampling.temperature),
            "top_p": plain(app.options.defaults.sampling.top_p),
            "max_n": app.options.limits.sequences,
        },
    })
}

/// What is said until theta is found.
const FINDING: &str = "finding theta";

/// The process lives, and is past what it does before it takes requests.
async fn health(State(app): State<Arc<App>>) -> Response {
    match app.model.is_ready() {
        true => "ok\n".into_response(),
        false => (StatusCode::SERVICE_UNAVAILABLE, format!("{FINDING}\n")).into_response(),
    }
}

/// The engine works and the server takes requests.
async fn ready(State(app): State<Arc<App>>) -> Response {
    if app.queue.is_closed() {
        return ApiError::unavailable("the server is going down").into_response();
    }
    if !app.model.is_ready() {
        return ApiError::unavailable(FINDING).into_response();
    }
    if !app.queue.gauges.sound.load(Ordering::Relaxed) {
        return ApiError::unavailable("the engine's last run failed").into_response();
    }
    "ready\n".into_response()
}

async fn openapi() -> Response {
    let kind = [(header::CONTENT_TYPE, "application/json")];
    (kind, Body::from(include_str!("../openapi.json"))).into_response()
}

pub fn now() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_secs()
}
