//! `--full`: an answer shows all rows, or only those that fit on a screen.

#[derive(clap::Args, Clone, Copy, Debug, Default)]
pub struct Length {
    /// Print all rows; the default is an answer that fits on a screen
    #[arg(long)]
    full: bool,
}

impl Length {
    pub fn is_full(self) -> bool {
        self.full
    }

    /// Returns the maximum number of rows of a table of which the screen has room for `first`.
    /// `None` means all.
    pub fn rows(self, first: usize) -> Option<usize> {
        (!self.full).then_some(first)
    }
}
