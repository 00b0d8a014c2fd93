//! Who may ask: requests to the loopback address under which the server runs, from its own page.
//!
//! Another page in the same browser can send requests to the server, but not read the address that
//! the user got. It does not know the token; it sends its own `Origin`; and if its name was made to
//! lead to the loopback (DNS rebinding), the `Host` is that name. All three are checked.

use axum::extract::{Request, State};
use axum::http::{header, HeaderMap, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

/// The page may load only its own files; nothing may embed it.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; \
    img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Refuses requests under another host name, or from another page; adds the headers that protect
/// the page.
pub(crate) async fn check(State(port): State<u16>, request: Request, next: Next) -> Response {
    let mut response = match is_own(request.headers(), port) {
        true => next.run(request).await,
        false => {
            (StatusCode::FORBIDDEN, "the server answers only its own page, under the address that `longpole view` prints\n").into_response()
        }
    };
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(CONTENT_SECURITY_POLICY));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn is_own(headers: &HeaderMap, port: u16) -> bool {
    let own = ["127.0.0.1", "localhost", "[::1]"].map(|host| format!("{host}:{port}"));
    let text = |name| headers.get(name).map(|value: &HeaderValue| value.to_str().unwrap_or("?"));
    let is_own_host = text(header::HOST).is_some_and(|host| own.iter().any(|own| own == host));
    let is_own_page = text(header::ORIGIN).is_none_or(|origin| own.iter().any(|own| origin.strip_prefix("http://") == Some(own)));
    is_own_host && is_own_page
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(host: &str, origin: Option<&str>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().unwrap());
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, origin.parse().unwrap());
        }
        headers
    }

    #[test]
    fn only_the_own_host_and_page_may_ask() {
        assert!(is_own(&headers("127.0.0.1:80", None), 80));
        assert!(is_own(&headers("localhost:80", Some("http://localhost:80")), 80));
        for (host, origin) in [
            ("evil.example:80", None),
            ("127.0.0.1:81", None),
            ("127.0.0.1", None),
            ("127.0.0.1:80", Some("http://evil.example")),
            ("127.0.0.1:80", Some("http://127.0.0.1:81")),
            ("127.0.0.1:80", Some("null")),
            ("127.0.0.1:80", Some("https://127.0.0.1:80")),
        ] {
            assert!(!is_own(&headers(host, origin), 80), "{host} {origin:?}");
        }
        assert!(!is_own(&HeaderMap::new(), 80));
    }
}
