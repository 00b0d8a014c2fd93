//! Files of a trace: windows on stream files (`file`), the first bytes (`head`), temporary files
//! (`scratch`), what a directory holds (`directory`), and the descriptions that come with a trace
//! (`recording` for `longpole.json`, `part` for CTF metadata).
//!
//! Nothing here knows a format or decodes an event. Formats are detected in `open/` and decoded in
//! `formats/`.

pub(crate) mod directory;
pub(crate) mod file;
pub(crate) mod head;
pub(crate) mod part;
pub(crate) mod recording;
pub(crate) mod scratch;
