//! Copies of programs that a test executes.

use std::path::Path;
use std::process::Command;

/// Copies a program that will be executed. The copy is made by another process: if this process
/// wrote the file, a child forked by another thread could inherit the descriptor that is open for
/// writing, and executing the file would fail with "text file busy" until that child calls exec.
pub fn copy_program(from: impl AsRef<Path>, to: impl AsRef<Path>) {
    let copied = Command::new("cp").arg("--").args([from.as_ref(), to.as_ref()]).status().unwrap();
    assert!(copied.success());
}
