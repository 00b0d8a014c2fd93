//! Order of the bytes of a number. A file of its own, because errors name it.

/// Order of the bytes, and also of the bits, of a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ByteOrder {
    /// The least significant byte first.
    #[default]
    Little,
    /// The most significant byte first.
    Big,
}
