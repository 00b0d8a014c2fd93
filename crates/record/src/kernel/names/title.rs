//! Finds the title that a program gives itself: `postgres: walwriter`, `nginx: worker process`.
//!
//! A daemon writes its title over its arguments, so that ps shows what each of its processes does.
//! Such a command line differs from the one with which the program was executed: its first string
//! has several words and is no file.

use std::fs;
use std::path::Path;

/// Longest title in bytes; longer ones are cut.
const MAX_TITLE_BYTES: usize = 128;

/// Returns the title of a process from its command line.
pub fn of(pid: i32, arguments: &[u8]) -> Option<String> {
    let first = first(arguments)?;
    // The path of a program may contain spaces, so check for a file. `join` replaces the working
    // directory if the path is absolute.
    let is_file = fs::metadata(Path::new(&format!("/proc/{pid}/cwd")).join(first)).is_ok();
    let is_program = fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|program| program == Path::new(first));
    if is_file || is_program {
        return None;
    }
    let mut title = words(first)?;
    let mut end = title.len().min(MAX_TITLE_BYTES);
    while !title.is_char_boundary(end) {
        end -= 1;
    }
    title.truncate(end);
    Some(title)
}

/// True for a word that may contain a secret: an option, a value or an address.
fn is_option(word: &str) -> bool {
    word.starts_with('-') || word.contains('=') || word.contains("://")
}

/// Returns the words before the first option, without the folders of the program. `None` if only
/// the program is left: then the string is a command line whose arguments were joined.
fn words(first: &str) -> Option<String> {
    let words: Vec<&str> = first.split_whitespace().take_while(|word| !is_option(word)).collect();
    let (program, rest) = words.split_first()?;
    let program = program.starts_with('/').then(|| program.rsplit('/').next()).flatten().unwrap_or(program);
    (!rest.is_empty()).then(|| format!("{program} {}", rest.join(" ")))
}

/// Returns the first string of the command line, if it has several words.
fn first(arguments: &[u8]) -> Option<&str> {
    let first = std::str::from_utf8(arguments.split(|&byte| byte == 0).next()?).ok()?.trim();
    first.contains(char::is_whitespace).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_of_an_ordinary_program_is_no_title() {
        assert_eq!(first(b"/usr/sbin/nginx\0-g\0daemon off;\0"), None);
        assert_eq!(first(b"python3\0orders.py\0"), None);
        assert_eq!(first(b"-bash\0"), None);
        assert_eq!(first(b""), None);
    }

    #[test]
    fn padding_is_no_part_of_a_title() {
        assert_eq!(first(b"nginx: worker process\0\0\0"), Some("nginx: worker process"));
        assert_eq!(first(b"postgres: walwriter   \0"), Some("postgres: walwriter"));
    }

    #[test]
    fn options_and_folders_are_no_part_of_a_title() {
        assert_eq!(words("shop: worker  process --key secret").as_deref(), Some("shop: worker process"));
        assert_eq!(words("/usr/sbin/shopd worker 7").as_deref(), Some("shopd worker 7"));
        assert_eq!(words("shop: worker token=secret").as_deref(), Some("shop: worker"));
        assert_eq!(words("shop: worker amqp://user:secret@host").as_deref(), Some("shop: worker"));
        assert_eq!(words("/opt/browser/browser --type=renderer --key=secret"), None);
    }

    #[test]
    fn a_program_whose_path_has_spaces_has_no_title() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("my tool");
        fs::write(&path, "").unwrap();
        let own = std::process::id() as i32;
        assert_eq!(of(own, path.to_str().unwrap().as_bytes()), None);
        assert_eq!(of(own, b"my tool --token x"), Some("my tool".to_owned()));
    }

    #[test]
    fn a_long_title_is_cut_between_characters() {
        let long = format!("a {}", "é".repeat(200));
        assert_eq!(of(std::process::id() as i32, long.as_bytes()).map(|title| title.len()), Some(MAX_TITLE_BYTES));
    }
}
