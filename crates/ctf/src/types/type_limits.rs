//! Bounds for the size of a type. Named types can be nested in each other line by line, so a small
//! text can describe a huge type.

use crate::error::{Span, SpanError};
use crate::types::Type;

/// Maximum number of types in one type and, below, of levels of nesting. Far above what tools
/// write: LTTng's largest event has some hundred fields, on four levels.
const MAX_WEIGHT: u32 = 1 << 16;
const MAX_DEPTH: u32 = 270;

/// Returns an error if a type exceeds these bounds.
pub(crate) fn bounded(ty: &Type, span: Span) -> Result<(), SpanError> {
    if ty.depth() > MAX_DEPTH {
        return Err(SpanError::new(span, format!("more than {MAX_DEPTH} levels of nesting")));
    }
    if ty.weight() > MAX_WEIGHT {
        return Err(SpanError::new(span, format!("more than {MAX_WEIGHT} fields in one type")));
    }
    Ok(())
}
