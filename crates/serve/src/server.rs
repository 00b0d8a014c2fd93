//! The server: its traces, and the loop that answers requests.

use crate::access::{self, Access};
use crate::address::Token;
use crate::api;
use crate::page;
use crate::reading::{Analyst, Phase, Reading};
use crate::roots::Roots;
use crate::tsp::{self, Experiments};
use axum::extract::Path;
use axum::middleware;
use axum::routing::get;
use axum::Router;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{self, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread;
use tokio::sync::Semaphore;

/// Number of answers that are computed at the same time; the others wait. The trace that is being
/// read needs CPUs, too.
const MAX_COMPUTED: usize = 4;

/// Maximum number of open traces. Each has its timeline in memory.
const MAX_TRACES: usize = 200;

/// What the server shows, and where.
#[derive(Clone, Debug, Default)]
pub struct Options {
    pub traces: Vec<PathBuf>,
    /// Directories from which clients of the Trace Server Protocol may open further traces.
    pub roots: Vec<PathBuf>,
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
    #[error("the roots cannot be used: {0}; name existing directories with --root")]
    Roots(io::Error),
}

/// Errors of opening a trace while the server runs.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    #[error("{MAX_TRACES} traces are open; delete some")]
    TooMany,
    #[error("the trace cannot be read now: {0}")]
    Thread(io::Error),
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
    traces: RwLock<Vec<Arc<Reading>>>,
    pub analyst: Arc<dyn Analyst>,
    pub roots: Roots,
    pub experiments: Experiments,
    computing: Semaphore,
}

impl Shared {
    pub fn traces(&self) -> Vec<Arc<Reading>> {
        self.traces.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn trace(&self, id: u32) -> Option<Arc<Reading>> {
        self.traces().into_iter().find(|reading| reading.id == id)
    }

    /// Returns an open trace by its path.
    pub fn with_path(&self, path: &path::Path) -> Option<Arc<Reading>> {
        self.traces().into_iter().find(|reading| reading.path == path || reading.real_path == path)
    }

    /// Begins to read the trace with this real path, if it is not open yet.
    pub fn open(&self, path: PathBuf, name: Option<String>) -> Result<Arc<Reading>, OpenError> {
        let mut traces = self.traces.write().unwrap_or_else(PoisonError::into_inner);
        // What could not be read may be complete now.
        traces.retain(|reading| reading.is_kept || reading.phase() != Phase::Failed || self.experiments.using(reading).is_some());
        if let Some(open) = traces.iter().find(|reading| reading.real_path == path) {
            return Ok(open.clone());
        }
        if traces.len() >= MAX_TRACES {
            return Err(OpenError::TooMany);
        }
        let id = traces.iter().map(|reading| reading.id).max().unwrap_or(0) + 1;
        let reading = Arc::new(Reading::opened(id, path, name));
        begin(&reading, &self.analyst).map_err(OpenError::Thread)?;
        traces.push(reading.clone());
        Ok(reading)
    }

    /// Removes a trace. Its reading ends by itself.
    pub fn remove(&self, removed: &Arc<Reading>) {
        self.traces.write().unwrap_or_else(PoisonError::into_inner).retain(|reading| !Arc::ptr_eq(reading, removed));
    }

    /// Runs a computation in a thread for blocking work; `None` if it panicked. If the request is
    /// cancelled while it waits for its turn, it does not run.
    pub async fn run<T: Send + 'static>(&self, compute: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let _turn = self.computing.acquire().await.ok()?;
        tokio::task::spawn_blocking(compute).await.ok()
    }
}

/// Reads a trace in a thread of its own.
fn begin(reading: &Arc<Reading>, analyst: &Arc<dyn Analyst>) -> io::Result<()> {
    let (reading, analyst) = (reading.clone(), analyst.clone());
    let named = thread::Builder::new().name(format!("trace {}", reading.id));
    named.spawn(move || reading.read(&*analyst)).map(|_| ())
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
        let roots = Roots::new(&options.roots).map_err(Error::Roots)?;
        let traces: Vec<Arc<Reading>> = (1..).zip(options.traces).map(|(id, path)| Arc::new(Reading::new(id, path))).collect();
        let experiments = Experiments::default();
        for reading in &traces {
            begin(reading, &analyst).map_err(Error::Begin)?;
            experiments.add_of(reading);
        }
        let shared = Shared { traces: RwLock::new(traces), analyst, roots, experiments, computing: Semaphore::new(MAX_COMPUTED) };
        Ok(Server { listener, port, token, shared: Arc::new(shared) })
    }

    /// Returns the address of the page, with the token.
    pub fn address(&self) -> String {
        match &self.token {
            Some(token) => format!("http://127.0.0.1:{}/{}/", self.port, token.text()),
            None => format!("http://127.0.0.1:{}/", self.port),
        }
    }

    /// Returns the address at which clients of the Trace Server Protocol find the server.
    pub fn protocol_address(&self) -> String {
        format!("{}{}", self.address().trim_end_matches('/'), tsp::PLACE)
    }

    /// Answers requests until the process ends.
    ///
    /// # Errors
    ///
    /// [`Error::Begin`] if the system refuses what the loop needs.
    pub fn run(self) -> Result<(), Error> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().map_err(Error::Begin)?;
        runtime.block_on(async {
            self.listener.set_nonblocking(true)?;
            let listener = tokio::net::TcpListener::from_std(self.listener)?;
            let all = Router::new()
                .nest("/api", api::router())
                .merge(tsp::router())
                .route("/", get(|| async { page::file("") }))
                .route("/{*name}", get(|Path(name): Path<String>| async move { page::file(&name) }))
                .with_state(self.shared);
            let all = match &self.token {
                Some(token) => Router::new().nest(&format!("/{}", token.text()), all.clone()).route(&format!("/{}/", token.text()), get(|| async { page::file("") })),
                None => all,
            };
            let access = Access { port: self.port, token: self.token.clone() };
            axum::serve(listener, all.layer(middleware::from_fn_with_state(access, access::check))).await
        })
        .map_err(Error::Begin)
    }
}
