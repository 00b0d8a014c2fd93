//! The options that every verb accepts: colours, the pager, and how much is said.
//!
//! They concern all output of the process, so they are set once, before the verb runs, and read
//! where something is printed.

use std::sync::OnceLock;

#[derive(clap::Args, Clone, Copy, Debug)]
pub struct GlobalArgs {
    /// Colour the output: on a terminal (auto; see NO_COLOR, CLICOLOR_FORCE), always, or never
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t = Colour::Auto, hide_possible_values = true)]
    color: Colour,

    /// Do not use a pager for output that is longer than the screen ($LONGPOLE_PAGER, $PAGER)
    #[arg(long, global = true)]
    no_pager: bool,

    /// Also print notes that do not change the answer, such as gaps in the kernel's events
    #[arg(short, long, global = true)]
    verbose: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Colour {
    Auto,
    Always,
    Never,
}

static GLOBAL: OnceLock<GlobalArgs> = OnceLock::new();

impl GlobalArgs {
    /// Makes these options those of the process. Later calls have no effect.
    pub fn set(self) {
        match self.color {
            Colour::Auto => {}
            Colour::Always => anstream::ColorChoice::Always.write_global(),
            Colour::Never => anstream::ColorChoice::Never.write_global(),
        }
        // Only `main` calls this function, once.
        let _ = GLOBAL.set(self);
    }
}

/// Returns true if the user asked for notes that do not change the answer.
pub fn is_verbose() -> bool {
    GLOBAL.get().is_some_and(|global| global.verbose)
}

/// Returns true if the user allows a pager.
pub fn may_page() -> bool {
    GLOBAL.get().is_none_or(|global| !global.no_pager)
}
