//! A buffer for the values of the current item, for readers whose decoder does not already hold
//! them.
//!
//! One vector serves all items of a trace, so that yielding an item allocates nothing. Its content
//! is valid during one loan only, which the type of [`ValueBuffer::lend`] enforces. Between loans
//! the content is dead and never read.

use crate::value::Value;

#[derive(Default)]
pub(crate) struct ValueBuffer {
    /// Values of the current loan. Between loans they are dead, although the type says `'static`.
    values: Vec<Value<'static>>,
}

impl ValueBuffer {
    /// Returns the empty vector for the duration of this loan.
    #[inline]
    pub fn lend<'a>(&'a mut self) -> &'a mut Vec<Value<'a>> {
        self.values.clear();
        let values_at_rest: *mut Vec<Value<'static>> = &mut self.values;
        // SAFETY: only the lifetime differs. The values put in live for `'a`, as long as this loan
        // of `self`. Afterwards nothing reads them, because this function is the only access to the
        // vector and clears it first, and because a `Value` is `Copy`, so that clearing or dropping
        // the vector does not read them either.
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
