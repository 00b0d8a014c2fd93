//! The directories from which clients may open traces.
//!
//! A client of the Trace Server Protocol names a path on this host. It gets what lies below a root,
//! and nothing else: `..` is refused, and so are links that lead out of the roots, in the path
//! itself and anywhere in the directory that it names.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

/// Maximum number of entries that are looked at in a directory, as many as the readers of traces
/// look at.
const MAX_ENTRIES: usize = 1_000_000;

/// The directories; none if no trace may be opened.
#[derive(Clone, Debug, Default)]
pub(crate) struct Roots(Vec<Root>);

#[derive(Clone, Debug)]
struct Root {
    /// Absolute path as it was given.
    named: PathBuf,
    /// The same path without links.
    real: PathBuf,
}

/// The reason why a path is not opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("{0} is not below a root of the server; start it with another --root")]
    Outside(PathBuf),
    #[error("{0} contains `..`; name the path without it")]
    Upwards(PathBuf),
    #[error("{0} is a link that leads out of the roots of the server")]
    Link(PathBuf),
    #[error("there is no {0}")]
    Missing(PathBuf),
    #[error("{0} is neither a file nor a directory")]
    Special(PathBuf),
    #[error("{0} has more than {MAX_ENTRIES} files and directories; name a part of it")]
    TooLarge(PathBuf),
    #[error("{path} cannot be read: {source}")]
    Unreadable { path: PathBuf, source: io::Error },
}

impl Roots {
    /// Finds the real paths of the directories.
    ///
    /// # Errors
    ///
    /// If one of them is not a directory.
    pub fn new(directories: &[PathBuf]) -> io::Result<Roots> {
        let root = |named: &PathBuf| {
            let real = fs::canonicalize(named)?;
            if !real.is_dir() {
                return Err(io::ErrorKind::NotADirectory.into());
            }
            Ok(Root { named: std::path::absolute(named)?, real })
        };
        directories.iter().map(root).collect::<io::Result<_>>().map(Roots)
    }

    /// Returns the real path of a trace that a client named: an absolute path, `file://` and such a
    /// path, or one relative to a root.
    pub fn resolve(&self, uri: &str) -> Result<PathBuf, Refusal> {
        self.resolve_path(Path::new(uri.strip_prefix("file://").unwrap_or(uri)))
    }

    /// Returns the real path of a path below a root.
    pub fn resolve_path(&self, named: &Path) -> Result<PathBuf, Refusal> {
        if named.components().any(|part| part == Component::ParentDir) {
            return Err(Refusal::Upwards(named.to_owned()));
        }
        let path =
            self.absolute(named).filter(|path| self.0.iter().any(|root| path.starts_with(&root.named) || path.starts_with(&root.real)));
        let path = path.ok_or_else(|| Refusal::Outside(named.to_owned()))?;
        let real = self.real(&path)?;
        let kind = fs::metadata(&real).map_err(|source| Refusal::Unreadable { path: path.clone(), source })?;
        if kind.is_dir() {
            self.check_links(&real)?;
        } else if !kind.is_file() {
            return Err(Refusal::Special(path));
        }
        Ok(real)
    }

    /// Returns the path; a relative one in the first root that has it.
    fn absolute(&self, named: &Path) -> Option<PathBuf> {
        if named.is_absolute() {
            return Some(named.to_owned());
        }
        let mut below = self.0.iter().map(|root| root.named.join(named));
        let first = below.clone().next();
        below.find(|path| path.exists()).or(first)
    }

    /// Returns the path without links. What a link outside the roots leads to is not disclosed, not
    /// even whether it exists.
    fn real(&self, path: &Path) -> Result<PathBuf, Refusal> {
        let real = match fs::canonicalize(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let above = path.ancestors().skip(1).find_map(|above| fs::canonicalize(above).ok());
                let is_inside = above.is_some_and(|above| self.contains(&above)) && !path.is_symlink();
                return Err(if is_inside { Refusal::Missing(path.to_owned()) } else { Refusal::Outside(path.to_owned()) });
            }
            Err(source) => return Err(Refusal::Unreadable { path: path.to_owned(), source }),
            Ok(real) => real,
        };
        match self.contains(&real) {
            true => Ok(real),
            false => Err(Refusal::Outside(path.to_owned())),
        }
    }

    fn contains(&self, real: &Path) -> bool {
        self.0.iter().any(|root| real.starts_with(&root.real))
    }

    /// Refuses a directory with a link that leads out of the roots. Links to directories are not
    /// followed, here as by the readers of traces.
    fn check_links(&self, directory: &Path) -> Result<(), Refusal> {
        let unreadable = |path: &Path| {
            let path = path.to_owned();
            move |source| Refusal::Unreadable { path, source }
        };
        let mut pending = vec![directory.to_owned()];
        let mut entries = 0;
        while let Some(directory) = pending.pop() {
            for entry in fs::read_dir(&directory).map_err(unreadable(&directory))? {
                let entry = entry.map_err(unreadable(&directory))?;
                entries += 1;
                if entries > MAX_ENTRIES {
                    return Err(Refusal::TooLarge(directory));
                }
                let kind = entry.file_type().map_err(unreadable(&directory))?;
                let path = entry.path();
                if kind.is_dir() {
                    pending.push(path);
                } else if kind.is_symlink() && fs::canonicalize(&path).is_ok_and(|real| !self.contains(&real)) {
                    return Err(Refusal::Link(path));
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn place() -> (tempfile::TempDir, Roots) {
        let place = tempfile::tempdir().unwrap();
        for directory in ["root/trace", "root/links", "outside"] {
            fs::create_dir_all(place.path().join(directory)).unwrap();
        }
        fs::write(place.path().join("root/trace/a"), "").unwrap();
        fs::write(place.path().join("outside/b"), "").unwrap();
        let roots = Roots::new(&[place.path().join("root")]).unwrap();
        (place, roots)
    }

    #[test]
    fn what_lies_below_a_root_is_found() {
        let (place, roots) = place();
        let trace = fs::canonicalize(place.path().join("root/trace")).unwrap();
        let text = place.path().join("root/trace").to_string_lossy().into_owned();
        for uri in [text.as_str(), "trace", &format!("file://{text}"), &format!("{text}/")] {
            assert_eq!(roots.resolve(uri).unwrap(), trace, "{uri}");
        }
    }

    #[test]
    fn what_lies_elsewhere_is_refused() {
        let (place, roots) = place();
        let outside = place.path().join("outside/b");
        symlink(&outside, place.path().join("root/link")).unwrap();
        symlink(place.path().join("outside"), place.path().join("root/directory")).unwrap();
        symlink(place.path().join("outside/missing"), place.path().join("root/dangling")).unwrap();
        let root = place.path().join("root");
        for path in
            [outside, root.join("link"), root.join("directory/b"), root.join("directory/missing"), root.join("dangling"), "/etc".into()]
        {
            let refused = roots.resolve(&path.to_string_lossy()).unwrap_err();
            assert!(matches!(refused, Refusal::Outside(_)), "{path:?}: {refused}");
        }
        for uri in ["trace/../trace", "../outside/b", "..", &format!("{}/../outside/b", root.display())] {
            assert!(matches!(roots.resolve(uri), Err(Refusal::Upwards(_))), "{uri}");
        }
        assert!(matches!(Roots::default().resolve("/etc"), Err(Refusal::Outside(_))));
    }

    #[test]
    fn a_directory_with_a_link_that_leads_out_is_refused() {
        let (place, roots) = place();
        symlink(place.path().join("root/trace/a"), place.path().join("root/links/inside")).unwrap();
        assert!(roots.resolve("links").is_ok());
        symlink(place.path().join("outside/b"), place.path().join("root/links/outside")).unwrap();
        assert!(matches!(roots.resolve("links"), Err(Refusal::Link(_))));
    }

    #[test]
    fn a_missing_path_and_a_device_have_reasons_of_their_own() {
        let (_place, roots) = place();
        assert!(matches!(roots.resolve("missing"), Err(Refusal::Missing(_))));
        let devices = Roots::new(&[PathBuf::from("/dev")]).unwrap();
        assert!(matches!(devices.resolve("null"), Err(Refusal::Special(_))));
    }
}
