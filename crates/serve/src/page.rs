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
    "style.css": "text/css; charset=utf-8",
    "app.js": "text/javascript; charset=utf-8",
    "api.js": "text/javascript; charset=utf-8",
    "ask.js": "text/javascript; charset=utf-8",
    "compare.js": "text/javascript; charset=utf-8",
    "elements.js": "text/javascript; charset=utf-8",
    "outline.js": "text/javascript; charset=utf-8",
    "panels.js": "text/javascript; charset=utf-8",
    "picture.js": "text/javascript; charset=utf-8",
    "runs.js": "text/javascript; charset=utf-8",
    "spots.js": "text/javascript; charset=utf-8",
    "tree.js": "text/javascript; charset=utf-8",
    "viewer.js": "text/javascript; charset=utf-8",
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_page_is_in_the_program() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/page");
        let mut there: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        let mut ours: Vec<&str> = FILES.iter().map(|file| file.path).collect();
        there.sort();
        ours.sort();
        assert_eq!(ours, there);
    }

    #[test]
    fn the_page_asks_no_other_host() {
        for file in FILES {
            let text = std::str::from_utf8(file.bytes).unwrap();
            // The namespace of a picture is a name, not an address.
            let text = text.replace("http://www.w3.org/2000/svg", "");
            assert!(!text.contains("http://") && !text.contains("https://"), "{}", file.path);
        }
    }
}
