//! Checks of the sender of each request: allowed are requests to the loopback address of the server
//! from its own page, and for the Trace Server Protocol also from the views of VS Code.
//!
//! Another page in the same browser can send requests to the server, but not read the address that
//! the user got. It does not know the token; browsers add its `Origin`, or `Sec-Fetch-Site`; and if
//! its name was made to lead to the loopback (DNS rebinding), the `Host` is that name. All are
//! checked.
//!
//! VS Code shows its extensions in views that are pages of the origin `vscode-webview://ID`. No web
//! page can have such an origin. These views may use the protocol, for which the browser part of
//! VS Code asks first, with `OPTIONS` (CORS).

use crate::address::Token;
use axum::extract::{Request, State};
use axum::http::{header, HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

/// The page may load only its own files; nothing may embed it.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; \
    img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Origins of the views of VS Code.
const VIEWS: &str = "vscode-webview://";

/// Port, token and protocol path of the server.
#[derive(Clone)]
pub(crate) struct Access {
    pub port: u16,
    pub token: Option<Token>,
    /// Place of the Trace Server Protocol below the address.
    pub protocol: &'static str,
}

/// Refuses requests under another host name, or from another page; adds the headers that protect
/// the page.
pub(crate) async fn check(State(access): State<Access>, request: Request, next: Next) -> Response {
    let view = access.view(request.uri().path(), request.headers());
    let mut response = match (access.is_own(request.headers()), &view) {
        // The question whether a request would be allowed.
        (false, Some(_)) if request.method() == Method::OPTIONS => StatusCode::NO_CONTENT.into_response(),
        (true, _) | (false, Some(_)) => next.run(request).await,
        (false, None) => {
            let text = "the server answers only its own page, under the address that the command has printed\n";
            (StatusCode::FORBIDDEN, text).into_response()
        }
    };
    let headers = response.headers_mut();
    if let Some(origin) = view {
        for (name, value) in cors(origin) {
            headers.insert(name, value);
        }
    }
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(CONTENT_SECURITY_POLICY));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Returns the headers that allow a page of this origin to send requests and to read the answers.
fn cors(origin: HeaderValue) -> [(HeaderName, HeaderValue); 5] {
    [
        (header::ACCESS_CONTROL_ALLOW_ORIGIN, origin),
        (header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, PUT, DELETE")),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("Content-Type")),
        (header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600")),
        (header::VARY, HeaderValue::from_static("Origin")),
    ]
}

impl Access {
    fn is_own_host(&self, headers: &HeaderMap) -> bool {
        text(headers, header::HOST).is_some_and(|host| self.own().iter().any(|own| own == host))
    }

    /// Returns the names under which the server is reached. Browsers leave out the usual port.
    fn own(&self) -> [String; 3] {
        let port = if self.port == 80 { String::new() } else { format!(":{}", self.port) };
        ["127.0.0.1", "localhost", "[::1]"].map(|host| format!("{host}{port}"))
    }

    fn is_own(&self, headers: &HeaderMap) -> bool {
        let own = self.own();
        let is_own_page =
            text(headers, header::ORIGIN).is_none_or(|origin| own.iter().any(|own| origin.strip_prefix("http://") == Some(own)));
        self.is_own_host(headers) && is_own_page && !is_foreign_part(headers)
    }

    /// Returns the origin of a view of VS Code that asks by the protocol.
    fn view(&self, path: &str, headers: &HeaderMap) -> Option<HeaderValue> {
        let path = match &self.token {
            Some(token) => path.strip_prefix('/')?.strip_prefix(token.text())?,
            None => path,
        };
        let is_protocol = path.strip_prefix(self.protocol).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        let origin = headers.get(header::ORIGIN).filter(|_| is_protocol && self.is_own_host(headers))?;
        let is_view = origin.to_str().is_ok_and(|origin| origin.strip_prefix(VIEWS).is_some_and(|view| !view.is_empty()));
        is_view.then(|| origin.clone())
    }
}

/// Returns true if the page of another site asks for a part of itself, such as a picture, for which
/// browsers send no `Origin`. It could not read the answer, but computing it takes time. A link in
/// another page may lead here.
fn is_foreign_part(headers: &HeaderMap) -> bool {
    let is_foreign = matches!(text(headers, HeaderName::from_static("sec-fetch-site")), Some("cross-site" | "same-site"));
    is_foreign && text(headers, HeaderName::from_static("sec-fetch-dest")) != Some("document")
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name).map(|value| value.to_str().unwrap_or("?"))
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

    fn access() -> Access {
        Access { port: 8080, token: None, protocol: "/tsp/api" }
    }

    #[test]
    fn only_the_own_host_and_page_may_ask() {
        assert!(access().is_own(&headers("127.0.0.1:8080", None)));
        assert!(access().is_own(&headers("localhost:8080", Some("http://localhost:8080"))));
        for (host, origin) in [
            ("evil.example:8080", None),
            ("127.0.0.1:8081", None),
            ("127.0.0.1", None),
            ("127.0.0.1:8080", Some("http://evil.example")),
            ("127.0.0.1:8080", Some("http://127.0.0.1:8081")),
            ("127.0.0.1:8080", Some("null")),
            ("127.0.0.1:8080", Some("https://127.0.0.1:8080")),
        ] {
            assert!(!access().is_own(&headers(host, origin)), "{host} {origin:?}");
        }
        assert!(!access().is_own(&HeaderMap::new()));
        let on_usual_port = Access { port: 80, ..access() };
        assert!(on_usual_port.is_own(&headers("127.0.0.1", Some("http://127.0.0.1"))));
    }

    #[test]
    fn pages_of_other_sites_may_lead_here_and_not_show_parts_of_the_server() {
        for (site, destination, is_allowed) in [
            ("same-origin", "empty", true),
            ("none", "document", true),
            ("cross-site", "document", true),
            ("cross-site", "image", false),
            ("same-site", "script", false),
            ("cross-site", "iframe", false),
        ] {
            let mut headers = headers("127.0.0.1:8080", None);
            headers.insert("sec-fetch-site", site.parse().unwrap());
            headers.insert("sec-fetch-dest", destination.parse().unwrap());
            assert_eq!(access().is_own(&headers), is_allowed, "{site} {destination}");
        }
    }

    #[test]
    fn views_of_vs_code_may_use_the_protocol_and_nothing_else() {
        let view = "vscode-webview://1f7k";
        let with = |token: Option<Token>, path: &str, host: &str, origin: &str| {
            let access = Access { token, ..access() };
            access.view(path, &headers(host, Some(origin))).is_some()
        };
        let token = Token::random().unwrap();
        let below = |path: &str| format!("/{}{path}", token.text());
        assert!(with(None, "/tsp/api/health", "localhost:8080", view));
        assert!(with(None, "/tsp/api", "localhost:8080", view));
        assert!(with(Some(token.clone()), &below("/tsp/api/traces"), "127.0.0.1:8080", view));
        for (path, host, origin) in [
            ("/tsp/api/health", "localhost:8080", view),
            (below("/api/traces").as_str(), "localhost:8080", view),
            (below("/").as_str(), "localhost:8080", view),
            (below("/tsp/apish").as_str(), "localhost:8080", view),
            (below("/tsp/api/health").as_str(), "evil.example:8080", view),
            (below("/tsp/api/health").as_str(), "localhost:8080", "vscode-webview://"),
            (below("/tsp/api/health").as_str(), "localhost:8080", "https://vscode-webview.example"),
            (below("/tsp/api/health").as_str(), "localhost:8080", "null"),
        ] {
            assert!(!with(Some(token.clone()), path, host, origin), "{path} {host} {origin}");
        }
        assert!(access().view("/tsp/api/health", &HeaderMap::new()).is_none());
    }
}
