//! The server: its traces, and the loop that answers requests.

use crate::access;
use crate::address::Token;
use crate::api;
use crate::page;
use crate::reading::{Analyst, Reading};
use axum::extract::Path;
use axum::middleware;
use axum::routing::get;
use axum::Router;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use tokio::sync::Semaphore;

/// Number of answers that are computed at the same time; the others wait. The trace that is being
/// read needs CPUs, too.
const MAX_COMPUTED: usize = 4;

/// What the server shows, and where.
#[derive(Clone, Debug, Default)]
pub struct Options {
    pub traces: Vec<PathBuf>,
    /// Port on the loopback; 0 is a free one.
    pub port: u16,
    /// Answers without a token in the address.
    pub without_token: bool,
}

/// Errors of the server.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the server cannot listen on 127.0.0.1:{port}: {source}; name another port with --port")]
    Listen { port: u16, source: io::Error },
    #[error("the server cannot begin: {0}")]
    Begin(io::Error),
}

/// A server that listens, and does not answer yet.
pub struct Server {
    listener: TcpListener,
    port: u16,
    token: Option<Token>,
    shared: Arc<Shared>,
}

/// What all requests share.
pub(crate) struct Shared {
    traces: Vec<Arc<Reading>>,
    pub analyst: Arc<dyn Analyst>,
    computing: Semaphore,
}

impl Shared {
    pub fn traces(&self) -> &[Arc<Reading>] {
        &self.traces
    }

    pub fn trace(&self, id: u32) -> Option<Arc<Reading>> {
        self.traces.iter().find(|reading| reading.id == id).cloned()
    }

    /// Runs a computation in a thread for blocking work; `None` if it panicked. If the request is
    /// cancelled while it waits for its turn, it does not run.
    pub async fn run<T: Send + 'static>(&self, compute: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let _turn = self.computing.acquire().await.ok()?;
        tokio::task::spawn_blocking(compute).await.ok()
    }
}

impl Server {
    /// Listens on the loopback, and begins to read the traces.
    ///
    /// # Errors
    ///
    /// [`Error::Listen`] if the port is not free.
    pub fn start(options: Options, analyst: Arc<dyn Analyst>) -> Result<Server, Error> {
        let port = options.port;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(|source| Error::Listen { port, source })?;
        let port = listener.local_addr().map_err(Error::Begin)?.port();
        let token = (!options.without_token).then(Token::random).transpose().map_err(Error::Begin)?;
        let traces = (1..).zip(options.traces).map(|(id, path)| Arc::new(Reading::new(id, path)));
        let shared = Shared { traces: traces.collect(), analyst, computing: Semaphore::new(MAX_COMPUTED) };
        for reading in shared.traces() {
            let (reading, analyst) = (reading.clone(), shared.analyst.clone());
            let named = thread::Builder::new().name(format!("trace {}", reading.id));
            named.spawn(move || reading.read(&*analyst)).map_err(Error::Begin)?;
        }
        Ok(Server { listener, port, token, shared: Arc::new(shared) })
    }

    /// Returns the address of the page, with the token.
    pub fn address(&self) -> String {
        match &self.token {
            Some(token) => format!("http://127.0.0.1:{}/{}/", self.port, token.text()),
            None => format!("http://127.0.0.1:{}/", self.port),
        }
    }

    /// Answers requests until the process ends.
    ///
    /// # Errors
    ///
    /// [`Error::Begin`] if the system refuses what the loop needs.
    pub fn run(self) -> Result<(), Error> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().map_err(Error::Begin)?;
        runtime
            .block_on(async {
                self.listener.set_nonblocking(true)?;
                let listener = tokio::net::TcpListener::from_std(self.listener)?;
                let all = Router::new()
                    .nest("/api", api::router())
                    .route("/", get(|| async { page::file("") }))
                    .route("/{*name}", get(|Path(name): Path<String>| async move { page::file(&name) }))
                    .with_state(self.shared);
                let all = match &self.token {
                    Some(token) => Router::new()
                        .nest(&format!("/{}", token.text()), all.clone())
                        .route(&format!("/{}/", token.text()), get(|| async { page::file("") })),
                    None => all,
                };
                axum::serve(listener, all.layer(middleware::from_fn_with_state(self.port, access::check))).await
            })
            .map_err(Error::Begin)
    }
}
