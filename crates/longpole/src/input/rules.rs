//! Reads rule files: those named in the arguments, and those in the user's configuration directory.

use anyhow::{anyhow, bail, Context};
use longpole_model::rules::Rules;
use std::fs;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

/// Maximum size of a rule file in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// Returns the directory with the user's rules, which apply to every trace.
pub fn folder() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let configuration = set("XDG_CONFIG_HOME").or_else(|| set("HOME").map(|home| home.join(".config")))?;
    Some(configuration.join("longpole/rules"))
}

/// Returns the named files, followed by the user's own files.
pub fn files(named: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut own = Vec::new();
    if let Some(folder) = folder() {
        match fs::read_dir(&folder) {
            Ok(entries) => {
                for entry in entries {
                    let path = entry.with_context(|| format!("{} cannot be read", folder.display()))?.path();
                    if path.extension().is_some_and(|extension| extension == "toml") {
                        own.push(path);
                    }
                }
            }
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::PermissionDenied) => {}
            Err(error) => return Err(error).with_context(|| format!("{} cannot be read", folder.display())),
        }
    }
    own.sort();
    own.retain(|path| !named.contains(path));
    Ok(named.iter().cloned().chain(own).collect())
}

/// Returns the files' rules in their order, followed by the built-in rules.
pub fn read(files: &[PathBuf]) -> anyhow::Result<Rules> {
    let mut rules = Rules::default();
    for file in files {
        add(&mut rules, file)?;
    }
    rules.with_built_in().context("a built-in rule file is wrong")
}

/// Adds the rules of one file. The error has the line and what was expected there.
pub fn add(rules: &mut Rules, file: &Path) -> anyhow::Result<()> {
    let shown = file.display().to_string();
    let mut text = String::new();
    let cannot = || format!("the rules in {shown} cannot be read");
    // Opening a pipe would block until a process writes to it.
    if !fs::metadata(file).with_context(cannot)?.is_file() {
        bail!("{shown} is no rule file");
    }
    let opened = fs::File::open(file).with_context(cannot)?;
    opened.take(MAX_BYTES + 1).read_to_string(&mut text).with_context(|| format!("the rules in {shown} cannot be read"))?;
    if text.len() as u64 > MAX_BYTES {
        bail!("{shown} is too large for a rule file");
    }
    rules.add(&shown, &text).map_err(|error| anyhow!("{error}"))
}
