//! Who may ask the server, and for which paths.

use crate::support::Served;
use longpole_serve::Options;
use serde_json::json;
use std::io::Write;
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::thread;

const VIEW: &str = "vscode-webview://1f7k2d";

#[test]
fn without_the_token_nothing_is_answered() {
    let served = Served::new();
    assert_eq!(served.get("health").status, 200);
    let short = &served.place[..served.place.len() - "/tsp/api".len() - 1];
    for path in
        ["/tsp/api/health", "/tsp/api/traces", "/00000000000000000000000000000000/tsp/api/health", &format!("{short}/tsp/api/health")]
    {
        assert_eq!(served.send("GET", path, &[], "").status, 404, "{path}");
    }
    let open = Served::without_token();
    assert_eq!((open.place.as_str(), open.get("health").status), ("/tsp/api", 200));
}

#[test]
fn other_hosts_and_pages_are_refused() {
    let served = Served::new();
    let health = format!("{}/health", served.place);
    let own = format!("http://127.0.0.1:{}", served.port);
    assert_eq!(served.send("GET", &health, &[("Origin", &own)], "").status, 200);
    let rebound = format!("evil.example:{}", served.port);
    for headers in [
        vec![("Host", rebound.as_str())],
        vec![("Host", rebound.as_str()), ("Origin", VIEW)],
        vec![("Origin", "http://evil.example")],
        vec![("Origin", "null")],
        vec![("Origin", "https://vscode-webview.example")],
    ] {
        for (method, body) in [("GET", ""), ("POST", "{}"), ("OPTIONS", "")] {
            let answer = served.send(method, &health, &headers, body);
            assert_eq!(answer.status, 403, "{method} {headers:?}");
            assert!(!answer.headers.contains_key("access-control-allow-origin"));
        }
    }
}

#[test]
fn views_of_vs_code_may_use_the_protocol() {
    let served = Served::new();
    let traces = format!("{}/traces", served.place);
    let asked = served.send("OPTIONS", &traces, &[("Origin", VIEW), ("Access-Control-Request-Method", "POST")], "");
    assert_eq!((asked.status, asked.headers["access-control-allow-origin"].as_str()), (204, VIEW));
    assert_eq!(asked.headers["access-control-allow-headers"], "Content-Type");
    assert!(asked.headers["access-control-allow-methods"].contains("POST"));
    let answer = served.send("GET", &traces, &[("Origin", VIEW)], "");
    assert_eq!((answer.status, answer.headers["access-control-allow-origin"].as_str()), (200, VIEW));
    assert_eq!(answer.json(), json!([]));
    let page = served.place.replace("/tsp/api", "/api/traces");
    assert_eq!(served.send("GET", &page, &[("Origin", VIEW)], "").status, 403);
}

#[test]
fn paths_outside_the_roots_are_refused() {
    let served = Served::new();
    symlink(served.path("outside"), served.path("root/link")).unwrap();
    symlink(served.path("outside/log"), served.path("root/recording/link")).unwrap();
    for name in
        ["outside/log", "root/../outside/log", "root/link/log", "root/link", "root/link/missing", "root/recording", "outside/missing"]
    {
        let answer = served.open(name);
        assert_eq!(answer.status, 403, "{name}: {}", answer.body);
        assert!(answer.json()["detail"].is_string());
    }
    for uri in ["/etc/passwd", "../outside/log", "/"] {
        assert_eq!(served.post("traces", json!({"uri": uri})).status, 403, "{uri}");
    }
    assert_eq!(served.open("root/missing").status, 404);
    assert_eq!(served.get("traces").json(), json!([]));
}

#[test]
fn a_trace_of_the_command_is_shown_and_stays_open() {
    let served = Served::with(|directory| Options { traces: vec![directory.join("outside/log")], ..Options::default() });
    let experiments = served.get("experiments").json();
    assert_eq!((experiments.as_array().unwrap().len(), &experiments[0]["name"]), (1, &json!("log")));
    let opened = served.open("outside/log");
    assert_eq!((opened.status, &opened.json()["UUID"]), (200, &experiments[0]["traces"][0]["UUID"]));
    assert_eq!(served.delete(&format!("traces/{}", opened.json()["UUID"].as_str().unwrap())).status, 403);
}

#[test]
fn many_requests_and_a_client_that_never_reads_do_not_stop_the_server() {
    let served = Served::new();
    let outputs = served.experiment(&["root/log"]);
    // Clients that send half of a request, or read no answer.
    let mut idle = Vec::new();
    for _ in 0..20 {
        let mut stream = TcpStream::connect(("127.0.0.1", served.port)).unwrap();
        write!(stream, "GET {}/traces HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n", served.place, served.port).unwrap();
        idle.push(stream);
    }
    for _ in 0..20 {
        let mut stream = TcpStream::connect(("127.0.0.1", served.port)).unwrap();
        let request = format!("GET {}/identifier HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n\r\n", served.place, served.port);
        stream.write_all(request.repeat(100).as_bytes()).unwrap();
        idle.push(stream);
    }
    thread::scope(|scope| {
        for number in 0..50 {
            let (served, outputs) = (&served, &outputs);
            scope.spawn(move || {
                for _ in 0..20 {
                    let answer = match number % 3 {
                        0 => served.open("root/log"),
                        1 => served.post(&format!("{outputs}/timeGraph/longpole.threads/states"), json!({})),
                        _ => served.get("health"),
                    };
                    assert_eq!(answer.status, 200, "{}", answer.body);
                }
            });
        }
    });
    assert_eq!(served.get("traces").json().as_array().unwrap().len(), 1);
}
