//! Pages of other origins: which may ask, and how their browsers are told so.
//!
//! A browser shows a page the answer of another origin only if that origin's headers allow it, and asks with a preflight before
//! it sends JSON there. Nobody is allowed unless the server was told so.

use std::fmt;
use std::str::FromStr;

use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};

/// An origin whose pages may ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    Any,
    /// As browsers write it: scheme, host, and the port unless it is the scheme's own.
    One(String),
}

/// What was given is no origin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is no origin; write it as browsers do, like https://app.example.org or http://localhost:3000, or * for all"
)]
pub struct NoOrigin(String);

impl FromStr for Origin {
    type Err = NoOrigin;

    fn from_str(text: &str) -> Result<Self, NoOrigin> {
        if text == "*" {
            return Ok(Origin::Any);
        }
        let wrong = || NoOrigin(text.to_owned());
        let (scheme, host) = text.split_once("://").ok_or_else(wrong)?;
        let plain = |c: char| c.is_ascii_alphanumeric() || "-._:[]".contains(c);
        let named = |part: &str| !part.is_empty() && part.chars().all(plain);
        if !(named(scheme) && named(host)) {
            return Err(wrong());
        }
        let text = text.to_ascii_lowercase();
        // Browsers leave these out.
        let port = if text.starts_with("https:") { ":443" } else { ":80" };
        Ok(Origin::One(text.strip_suffix(port).unwrap_or(&text).to_owned()))
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Any => f.write_str("*"),
            Origin::One(origin) => f.write_str(origin),
        }
    }
}

/// The origin of a request, if its pages may ask.
pub fn allowed(origins: &[Origin], headers: &HeaderMap) -> Option<HeaderValue> {
    let from = headers.get(header::ORIGIN)?;
    let allows = |origin: &Origin| match origin {
        Origin::Any => true,
        Origin::One(origin) => from.as_bytes() == origin.as_bytes(),
    };
    origins.iter().any(allows).then(|| from.clone())
}

/// The answer to a browser that wants to know whether it may ask; none where the request is none of these.
pub fn preflight(method: &Method, headers: &HeaderMap) -> Option<Response> {
    if method != Method::OPTIONS || !headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD) {
        return None;
    }
    let mut response = StatusCode::NO_CONTENT.into_response();
    let answer = response.headers_mut();
    answer.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST"));
    // Clients send headers of their own making, and none of them does any harm.
    if let Some(wanted) = headers.get(header::ACCESS_CONTROL_REQUEST_HEADERS) {
        answer.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, wanted.clone());
    }
    if headers.contains_key("access-control-request-private-network") {
        answer.insert("access-control-allow-private-network", HeaderValue::from_static("true"));
    }
    answer.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    Some(response)
}

/// Lets the pages of this origin read an answer.
pub fn open(response: &mut Response, origin: HeaderValue) {
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    let exposed = HeaderValue::from_static("x-request-id, x-eager-ignored, retry-after");
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("cross-origin"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_written_as_browsers_write_them() {
        for (given, meant) in [
            ("https://App.example.org", "https://app.example.org"),
            ("http://localhost:3000", "http://localhost:3000"),
            ("https://a.org:443", "https://a.org"),
            ("http://a.org:80", "http://a.org"),
            ("http://[::1]:5173", "http://[::1]:5173"),
            ("*", "*"),
        ] {
            assert_eq!(given.parse::<Origin>().unwrap().to_string(), meant);
        }
        for given in
            ["", "a.org", "https://a.org/", "https://a.org/x", "https://", "://a", "null", "https://a b"]
        {
            assert!(given.parse::<Origin>().is_err(), "{given}");
        }
    }
}
