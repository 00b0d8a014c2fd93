//! The files of the page, which are part of the program.

use axum::http::{header, StatusCode};
use axum::response::{IntoResponse, Response};
use flate2::read::GzDecoder;
use std::io::Read;

/// Name and compressed bytes of each file; none if the program was built without the page.
const FILES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/page.rs"));

/// Returns true if the program contains the page.
pub fn is_included() -> bool {
    !FILES.is_empty()
}

/// Returns a file of the page; an empty name is its first one.
pub(crate) fn file(name: &str) -> Response {
    let name = if name.is_empty() { "index.html" } else { name };
    match FILES.iter().find(|file| file.0 == name) {
        Some((name, bytes)) => ([(header::CONTENT_TYPE, content_type(name)), (header::CONTENT_ENCODING, "gzip")], *bytes).into_response(),
        None if !is_included() => {
            (StatusCode::NOT_FOUND, "this program was built without the page: build it with `make`\n").into_response()
        }
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

/// Returns the text of a file of the page; `None` if the program was built without the page.
pub(crate) fn text(name: &str) -> Option<String> {
    let (_, packed) = FILES.iter().find(|file| file.0 == name)?;
    let mut text = String::new();
    GzDecoder::new(*packed).read_to_string(&mut text).ok()?;
    Some(text)
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("json") => "application/json",
        Some("png") => "image/png",
        Some("woff2") => "font/woff2",
        _ => "application/octet-stream",
    }
}
