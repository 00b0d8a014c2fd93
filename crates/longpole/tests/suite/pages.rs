//! The pages of the verbs, compared with the command.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Options of all verbs, which docs/reference/output.md explains.
const OF_ALL_VERBS: [&str; 4] = ["--color", "--no-pager", "--verbose", "--help"];

/// Returns the long options with which the indented lines of a text begin.
fn options(text: &str) -> BTreeSet<&str> {
    let lines = text.lines().filter(|line| line.starts_with("  ")).map(str::trim_start);
    let long = lines.map(|line| line.get(4..).filter(|_| line.as_bytes().get(2) == Some(&b',')).unwrap_or(line));
    long.filter(|line| line.starts_with("--")).filter_map(|line| line.split([' ', '[', '=']).next()).collect()
}

/// Returns the part of a text between a heading and the next one, which `is_heading` recognises.
fn section<'a>(text: &'a str, heading: &str, is_heading: impl Fn(&str) -> bool) -> &'a str {
    let Some((_, after)) = text.split_once(heading) else { return "" };
    let length: usize = after.split_inclusive('\n').skip(1).take_while(|line| !is_heading(line)).map(str::len).sum();
    &after[..after.find('\n').map_or(after.len(), |end| end + 1 + length)]
}

#[test]
fn pages_of_verbs_list_the_options_of_the_help() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/verbs");
    let mut compared = 0;
    for page in fs::read_dir(folder).unwrap() {
        let path = page.unwrap().path();
        let verb = path.file_stem().unwrap().to_str().unwrap();
        let help = Command::new(env!("CARGO_BIN_EXE_longpole")).args([verb, "--help"]).output().unwrap();
        assert!(help.status.success(), "{verb}: {}", String::from_utf8_lossy(&help.stderr));
        let (help, page) = (String::from_utf8(help.stdout).unwrap(), fs::read_to_string(&path).unwrap());
        let listed = options(section(&page, "\n## Options", |line| line.starts_with("## ")));
        let of_verb = options(section(&help, "\nOptions:", |line| !line.starts_with(' ') && line != "\n"));
        let unknown: Vec<_> = listed.difference(&options(&help)).copied().collect();
        let missing: Vec<_> = of_verb.difference(&listed).filter(|option| !OF_ALL_VERBS.contains(option)).collect();
        assert!(unknown.is_empty() && missing.is_empty(), "{}: unknown {unknown:?}, missing {missing:?}", path.display());
        compared += listed.len();
    }
    assert!(compared > 100, "{compared}");
}
