//! Subjects as folders: what `longpole mount` shows, and what writing to it does.

mod filesystem;
mod follow;
mod text;
mod tree;

pub use filesystem::Folders;
pub use follow::Following;
pub use tree::Tree;
