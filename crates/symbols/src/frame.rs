//! A frame of a stack: a function, or a place in one.

use std::rc::Rc;

/// Index for [`crate::Stacks::frame`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FrameId(pub u32);

/// Origin of a frame's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Origin {
    Kernel,
    File,
    /// Code that the process generated itself.
    Made,
    Unknown,
}

/// A function ([`crate::Stack::frames`]), or a place in one ([`crate::Stack::places`]). Frames with
/// equal content have the same [`FrameId`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Frame {
    /// Name of the function. If only the module is known, the name of the module, for a place
    /// followed by `+0xoffset`. `[unknown]` if nothing is known.
    pub function: String,
    /// Name of the file without folders; `[kernel]` or the kernel's module; `[jit]`; `[unknown]`.
    pub module: String,
    pub origin: Origin,
    /// Set if `function` is the name of a function.
    pub named: bool,
    /// Set if this is no code of the program's own: the file is a shared library of the system, or
    /// is provided by the kernel, or the function belongs to the library or the runtime of its
    /// language.
    pub of_system: bool,
    /// Set for a function of a library that the compiler inlined into the next one.
    pub inlined: bool,
    /// Source location; only places have one, if there is debug information.
    pub file: Option<Rc<str>>,
    pub line: Option<u32>,
    /// Set if an interpreter executes the function.
    pub interpreted: bool,
    /// Set for code that a runtime generated for itself, such as its interpreter.
    pub runtime: bool,
}
