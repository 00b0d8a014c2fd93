//! The token in the server's address; a request without it is refused.

use std::fs::File;
use std::io::{self, Read};

/// A random token, 32 hexadecimal digits.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// Makes a token of 128 random bits from the kernel.
    ///
    /// # Errors
    ///
    /// If /dev/urandom cannot be read.
    pub fn random() -> io::Result<Token> {
        let mut bytes = [0; 16];
        File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        Ok(Token(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    pub fn text(&self) -> &str {
        &self.0
    }
}
