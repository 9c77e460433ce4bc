//! The page at `/`: plain files from `page/`, part of the program.

use axum::extract::Path;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};

use crate::error::ApiError;

/// A file of the page.
struct File {
    path: &'static str,
    kind: &'static str,
    bytes: &'static [u8],
}

macro_rules! files {
    ($($path:literal: $kind:literal),* $(,)?) => {
        &[$(File { path: $path, kind: $kind, bytes: include_bytes!(concat!("../page/", $path)) }),*]
    };
}

/// All of it. A file that is not here is not served.
const FILES: &[File] = files! {
    "index.html": "text/html; charset=utf-8",
};

pub async fn index() -> Result<Response, ApiError> {
    file("index.html")
}

pub async fn asset(Path(path): Path<String>) -> Result<Response, ApiError> {
    file(&path)
}

fn file(path: &str) -> Result<Response, ApiError> {
    let file = FILES
        .iter()
        .find(|file| file.path == path)
        .ok_or_else(|| ApiError::not_found("there is no such page"))?;
    let mut response = file.bytes.into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(file.kind));
    // It changes with the program, and the program does not say when.
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    Ok(response)
}
