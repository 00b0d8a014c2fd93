//! Rules of the user's: those that were named, and those in the configuration folder.

use anyhow::{anyhow, bail, Context};
use longpole_model::rules::Rules;
use std::fs;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

/// A file larger than this is no rule file.
const MOST_BYTES: u64 = 1 << 20;

/// Where a user keeps rules that hold for every trace.
pub fn folder() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let configuration = set("XDG_CONFIG_HOME").or_else(|| set("HOME").map(|home| home.join(".config")))?;
    Some(configuration.join("longpole/rules"))
}

/// Those that were named, then the user's own.
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

/// The files' rules, in their order, and the built-in ones.
pub fn read(files: &[PathBuf]) -> anyhow::Result<Rules> {
    let mut rules = Rules::default();
    for file in files {
        add(&mut rules, file)?;
    }
    rules.with_built_in().context("a built-in rule file is wrong")
}

/// One file's rules; a wrong one is said with its line and what was expected.
pub fn add(rules: &mut Rules, file: &Path) -> anyhow::Result<()> {
    let shown = file.display().to_string();
    let mut text = String::new();
    let cannot = || format!("the rules in {shown} cannot be read");
    // To open a pipe is to wait for whoever writes to it.
    if !fs::metadata(file).with_context(cannot)?.is_file() {
        bail!("{shown} is no rule file");
    }
    let opened = fs::File::open(file).with_context(cannot)?;
    opened.take(MOST_BYTES + 1).read_to_string(&mut text).with_context(|| format!("the rules in {shown} cannot be read"))?;
    if text.len() as u64 > MOST_BYTES {
        bail!("{shown} is too large for a rule file");
    }
    rules.add(&shown, &text).map_err(|error| anyhow!("{error}"))
}
