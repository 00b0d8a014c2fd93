//! Traces of any format: they are opened, printed, converted, and shown as folders.

mod archives;
mod convert;
mod follow;
mod mount;
mod other_tools;
mod print;
mod reading;
mod sel4;
mod strict;
