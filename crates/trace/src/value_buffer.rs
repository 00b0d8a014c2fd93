//! Where the values of an item lie while the caller looks at them, if they are not at rest in a decoder already.
//!
//! One vector serves all items of a trace, so that yielding allocates nothing. What it holds is only valid during one loan, which
//! the type of [`ValueBuffer::lend`] enforces; in between its content is dead and never looked at.

use crate::value::Value;

#[derive(Default)]
pub(crate) struct ValueBuffer {
    /// Dead between loans, whatever the lifetime says.
    values: Vec<Value<'static>>,
}

impl ValueBuffer {
    /// Empty, for as long as this loan.
    #[inline]
    pub fn lend<'a>(&'a mut self) -> &'a mut Vec<Value<'a>> {
        self.values.clear();
        let values_at_rest: *mut Vec<Value<'static>> = &mut self.values;
        // SAFETY: only the lifetime differs. The values put in live for 'a, as long as this loan of `self`; afterwards nothing
        // reads them, since this is the only access to the vector and clears it first, and a `Value` is `Copy`, so that
        // clearing or dropping the vector does not look at them either.
        unsafe { &mut *values_at_rest.cast::<Vec<Value<'a>>>() }
    }

    pub fn put<'a>(&'a mut self, values: impl IntoIterator<Item = Value<'a>>) -> &'a [Value<'a>] {
        let value_buffer = self.lend();
        value_buffer.extend(values);
        value_buffer
    }
}

const _: () = {
    const fn assert_copy<T: Copy>() {}
    assert_copy::<Value<'static>>();
};
