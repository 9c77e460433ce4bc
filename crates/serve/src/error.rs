//! Errors as OpenAI's clients know them.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::{Value, json};

/// Why a request was not answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiError {
    pub status: StatusCode,
    pub message: String,
    /// The field of the request that is to blame.
    pub param: Option<String>,
    /// A word for programs.
    pub code: Option<&'static str>,
    /// Seconds after which it is worth another try.
    pub retry_after: Option<u32>,
}

/// The body that goes with it.
#[derive(Debug, Serialize)]
struct Inner<'a> {
    message: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    param: Option<&'a str>,
    code: Option<&'static str>,
}

impl ApiError {
    pub fn new(status: StatusCode, message: impl Into<String>) -> Self {
        ApiError { status, message: message.into(), param: None, code: None, retry_after: None }
    }

    /// A request that cannot be meant.
    pub fn bad(param: &str, message: impl Into<String>) -> Self {
        ApiError {
            param: Some(param.to_owned()),
            code: Some("invalid_value"),
            ..ApiError::new(StatusCode::BAD_REQUEST, message)
        }
    }

    /// Something that OpenAI's API has and this server has not.
    pub fn unsupported(param: &str) -> Self {
        ApiError {
            code: Some("unsupported_parameter"),
            ..ApiError::bad(param, format!("this server does not support {param}; leave it out"))
        }
    }

    pub fn not_found(what: &str) -> Self {
        ApiError { code: Some("not_found"), ..ApiError::new(StatusCode::NOT_FOUND, what) }
    }

    /// As many requests wait as may.
    pub fn busy(message: &str) -> Self {
        ApiError {
            code: Some("rate_limit_exceeded"),
            retry_after: Some(1),
            ..ApiError::new(StatusCode::TOO_MANY_REQUESTS, message)
        }
    }

    /// The server is going down, or its time was up before it could begin.
    pub fn unavailable(message: &str) -> Self {
        ApiError { retry_after: Some(5), ..ApiError::new(StatusCode::SERVICE_UNAVAILABLE, message) }
    }

    pub fn internal(message: &str) -> Self {
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, message)
    }

    pub fn body(&self) -> Value {
        let kind = match self.status.as_u16() {
            401 | 403 => "authentication_error",
            404 => "not_found_error",
            429 => "rate_limit_error",
            400..500 => "invalid_request_error",
            _ => "server_error",
        };
        json!({"error": Inner { message: &self.message, kind, param: self.param.as_deref(), code: self.code }})
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.body())).into_response();
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}
