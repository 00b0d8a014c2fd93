use std::path::Path;
use std::process::Command;

/// A copy to be run, made by another process: while one thread of ours writes a program, another thread's child has it open between fork and
/// exec, and nothing runs a file that is open for writing ("text file busy").
pub fn copy_program(from: impl AsRef<Path>, to: impl AsRef<Path>) {
    let copied = Command::new("cp").arg("--").args([from.as_ref(), to.as_ref()]).status().unwrap();
    assert!(copied.success());
}
