//! The server: its address, and the loop that answers requests.

use crate::access::{self, Access};
use crate::address::Token;
use crate::api;
use crate::page;
use crate::reading::Analyst;
use crate::roots::Roots;
use crate::shared::Shared;
use crate::tsp;
use axum::extract::Path;
use axum::middleware;
use axum::routing::get;
use axum::Router;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;

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

/// A server that listens, and does not answer yet.
pub struct Server {
    listener: TcpListener,
    port: u16,
    token: Option<Token>,
    shared: Arc<Shared>,
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
        let shared = Shared::new(options.traces, roots, analyst).map_err(Error::Begin)?;
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
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Error::Begin)?;
        runtime
            .block_on(async {
                self.listener.set_nonblocking(true)?;
                let listener = tokio::net::TcpListener::from_std(self.listener)?;
                let all = Router::new()
                    .nest("/api", api::router())
                    .merge(tsp::router(self.shared.clone()))
                    .route("/", get(|| async { page::file("") }))
                    .route("/{*name}", get(|Path(name): Path<String>| async move { page::file(&name) }))
                    .with_state(self.shared);
                let all = match &self.token {
                    Some(token) => Router::new()
                        .nest(&format!("/{}", token.text()), all.clone())
                        .route(&format!("/{}/", token.text()), get(|| async { page::file("") })),
                    None => all,
                };
                let access = Access { port: self.port, token: self.token.clone(), protocol: tsp::PLACE };
                axum::serve(listener, all.layer(middleware::from_fn_with_state(access, access::check))).await
            })
            .map_err(Error::Begin)
    }
}
