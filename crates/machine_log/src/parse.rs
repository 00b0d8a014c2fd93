//! Parses a line: on the fast path if it has the usual form, else with a complete parser.

use crate::error::Fault;
use crate::fields::Fields;
use crate::json;
use crate::quick;

/// Parses a line into empty fields. They are passed in instead of returned, because they are large
/// and there are many lines.
#[inline]
pub fn parse<'a>(bytes: &'a [u8], fields: &mut Fields<'a>) -> Result<(), Fault> {
    if quick::parse(bytes, fields).is_none() {
        *fields = json::parse(bytes)?;
    }
    Ok(())
}
