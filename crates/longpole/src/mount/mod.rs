//! Subjects as directories: what `longpole mount` shows, and what writing to its files does.
//!
//! - [`Tree`] has the directories and files and their contents.
//! - [`FuseServer`] serves the tree to the kernel through FUSE.
//! - [`Following`] reads the recording and adds its events to the tree.

mod filesystem;
mod follow;
mod text;
mod tree;

pub use filesystem::FuseServer;
pub use follow::Following;
pub use tree::Tree;
