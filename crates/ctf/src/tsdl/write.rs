//! Schema to text: the writer of CTF 1.8 metadata.
