//! What several files of tests share.

pub mod commanded;
pub mod faulty;
pub mod figures;
pub mod host;
pub mod place;
pub mod plain_ctf;
pub mod program;
pub mod scheduled;
pub mod schema;
pub mod tried;
pub mod view;
