//! The modules that are not read, because a sandbox ended on them.

use crate::spaces::ModuleId;
use std::collections::HashSet;

/// Number of modules that may end a sandbox; after that, no more modules are read.
const MAX_FAILURES: usize = 16;

/// Modules that are not read.
#[derive(Clone, Debug, Default)]
pub struct Excluded(HashSet<ModuleId>);

/// Effect of excluding a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exclusion {
    /// The next attempt does not read the module.
    New,
    /// Another stream has excluded the module since the attempt began.
    Known,
    /// The attempt did not read the module, or too many modules are excluded.
    Useless,
}

impl Excluded {
    pub fn contains(&self, module: ModuleId) -> bool {
        self.0.contains(&module)
    }

    /// Excludes a module that ended the sandbox of an attempt, which had excluded `attempted`.
    pub fn add(&mut self, module: ModuleId, attempted: &Excluded) -> Exclusion {
        if attempted.contains(module) {
            Exclusion::Useless
        } else if self.contains(module) {
            Exclusion::Known
        } else if self.0.len() >= MAX_FAILURES {
            Exclusion::Useless
        } else {
            self.0.insert(module);
            Exclusion::New
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_that_fail_on_the_same_module_are_all_converted_again() {
        let (first, second) = (Excluded::default(), Excluded::default());
        let mut shared = Excluded::default();
        assert_eq!(shared.add(ModuleId(7), &first), Exclusion::New);
        assert_eq!(shared.add(ModuleId(7), &second), Exclusion::Known);
        // The module cannot be the reason any more.
        let third = shared.clone();
        assert_eq!(shared.add(ModuleId(7), &third), Exclusion::Useless);
        let further = (8..100).filter(|id| shared.add(ModuleId(*id), &third) == Exclusion::New).count();
        assert_eq!(further, MAX_FAILURES - 1);
        assert_eq!(shared.add(ModuleId(8), &third), Exclusion::Known);
    }
}
