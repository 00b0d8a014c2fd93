//! Bookmarks: ranges of an experiment that a client wants to find again. They are kept as long as
//! the experiment.

use super::parameters::Parameters;
use super::reply::{self, Answer, Refused};
use crate::uuid;
use axum::http::StatusCode;
use serde::Serialize;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Maximum number of bookmarks of one experiment.
const MAX_BOOKMARKS: usize = 10_000;

#[derive(Default)]
pub(crate) struct Bookmarks(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    all: Vec<Bookmark>,
    /// Number of bookmarks that were ever made; distinguishes those of one name.
    made: u64,
}

#[derive(Clone, Serialize)]
struct Bookmark {
    uuid: String,
    name: String,
    start: i64,
    end: i64,
}

impl Bookmarks {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn all(&self) -> Answer {
        reply::plain(&self.kept().all)
    }

    pub fn one(&self, uuid: &str) -> Answer {
        let kept = self.kept();
        reply::plain(&kept.all.iter().find(|bookmark| bookmark.uuid == uuid).ok_or_else(|| missing(uuid))?)
    }

    pub fn create(&self, body: &[u8]) -> Answer {
        let mut kept = self.kept();
        if kept.all.len() >= MAX_BOOKMARKS {
            let detail = format!("there are {MAX_BOOKMARKS} bookmarks; delete some");
            return Err(Refused::new(StatusCode::SERVICE_UNAVAILABLE, "Too many bookmarks", detail));
        }
        let uuid = uuid::of([b"bookmark".as_slice(), kept.made.to_string().as_bytes()]);
        let bookmark = read(body, uuid)?;
        kept.made += 1;
        kept.all.push(bookmark.clone());
        reply::plain(&bookmark)
    }

    pub fn update(&self, uuid: &str, body: &[u8]) -> Answer {
        let new = read(body, uuid.to_owned())?;
        let mut kept = self.kept();
        let bookmark = kept.all.iter_mut().find(|bookmark| bookmark.uuid == uuid).ok_or_else(|| missing(uuid))?;
        *bookmark = new;
        reply::plain(bookmark)
    }

    pub fn delete(&self, uuid: &str) -> Answer {
        let mut kept = self.kept();
        let at = kept.all.iter().position(|bookmark| bookmark.uuid == uuid).ok_or_else(|| missing(uuid))?;
        reply::plain(&kept.all.remove(at))
    }
}

/// Maximum size of a name in bytes: bookmarks stay in memory.
const MAX_NAME: usize = 1024;

fn read(body: &[u8], uuid: String) -> Result<Bookmark, Refused> {
    let parameters = Parameters::read(body)?;
    let name = parameters.text("name")?.to_owned();
    if name.len() > MAX_NAME {
        return Err(Refused::bad(format!("the name of a bookmark has at most {MAX_NAME} bytes")));
    }
    match (parameters.number("start"), parameters.number("end")) {
        (Some(start), Some(end)) => Ok(Bookmark { uuid, name, start, end }),
        _ => Err(Refused::bad("a bookmark has the whole numbers `start` and `end`")),
    }
}

fn missing(uuid: &str) -> Refused {
    Refused::not_found("No such bookmark", format!("there is no bookmark {uuid}"))
}
