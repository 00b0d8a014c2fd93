//! Files of a trace: windows on stream files (`file`), the first bytes (`head`), temporary files
//! (`scratch`), what a directory holds (`directory`), and the descriptions that come with a trace
//! (`recording` for `longpole.json`, `ctf_trace` for CTF metadata).
//!
//! Nothing here knows a format or decodes an event. Formats are detected in `open/` and decoded in
//! `formats/`.

pub(crate) mod ctf_trace;
pub(crate) mod directory;
pub(crate) mod file;
pub(crate) mod head;
pub(crate) mod recording;
pub(crate) mod scratch;
